// SPDX-License-Identifier: Apache-2.0 OR MIT
// A memory behind AXI4, for simulation, with a model of its delay and its width. Answers in order.
//
// A burst's first word comes at least `Latency` cycles after its address (a write's response, after its
// last word), and a channel moves at most RateWords words of MemoryWidth bits in RateCycles cycles.
// Latency 0 and a rate of 1 / 1 model an ideal memory. Read latency is hidden behind earlier bursts
// that are still being transferred, as in a memory controller with a queue.
//
// `fault_address_i` (while `fault_i`) answers every burst that touches its word with SLVERR.
module axi_memory
  import axi_pkg::*;
#(
  parameter int unsigned DataWidth       = 32,
  parameter int unsigned MemoryWidth     = 32,
  parameter int unsigned SizeBytes       = 1 << 20,
  parameter int unsigned ReadLatency     = 0,
  parameter int unsigned ReadRateWords   = 1,
  parameter int unsigned ReadRateCycles  = 1,
  parameter int unsigned WriteLatency    = 0,
  parameter int unsigned WriteRateWords  = 1,
  parameter int unsigned WriteRateCycles = 1,
  parameter int unsigned Queue           = 16
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  manager_t             axi_i,
  input  logic [DataWidth-1:0] write_data_i,
  output memory_t              axi_o,
  output logic [DataWidth-1:0] read_data_o,
  input  logic                 fault_i,
  input  address_t             fault_address_i
);
  localparam int unsigned WordLog2 = $clog2(DataWidth / 8);
  localparam int unsigned Words    = SizeBytes >> WordLog2;
  localparam int unsigned IndexWidth = $clog2(Words);
  // The cost of one word, in words of MemoryWidth bits.
  localparam int unsigned Beats = (DataWidth > MemoryWidth) ? DataWidth / MemoryWidth : 1;

  logic [DataWidth-1:0] words_q [Words] /* verilator public_flat_rw */;

  typedef struct packed {
    burst_t      burst;
    logic [31:0] due;  // the cycle from which it may move
  } entry_t;

  function automatic resp_e answer(burst_t burst, logic faulty, address_t address);
    address_t first, last;
    first = burst.address >> WordLog2;
    last  = first + address_t'(burst.len);
    if (last >= address_t'(Words)) return RespDecErr;
    if (faulty && ((address >> WordLog2) >= first) && ((address >> WordLog2) <= last)) return RespSlvErr;
    return RespOkay;
  endfunction

  logic [31:0] now_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) now_q <= '0;
    else         now_q <= now_q + 32'd1;
  end

  // --- Read -----------------------------------------------------------------------------------
  entry_t read;
  logic   read_here, read_go, read_taken;
  logic [7:0]  read_index_q;
  logic [31:0] read_debt_q;  // in units of 1 / RateWords cycles

  prim_fifo #(.Width($bits(entry_t)), .Depth(Queue)) u_reads (
    .clk_i,
    .rst_ni,
    .valid_i (axi_i.ar_valid),
    .ready_o (axi_o.ar_ready),
    .data_i  ({axi_i.ar, now_q + 32'(ReadLatency)}),
    .valid_o (read_here),
    .ready_i (read_taken & axi_o.r_last),
    .data_o  (read)
  );

  // An offered word stays until it is taken: until then the debt can only shrink.
  assign read_go       = read_here & ($signed(now_q - read.due) >= 0) & (read_debt_q < ReadRateWords);
  assign axi_o.r_valid = read_go;
  assign axi_o.r_last  = read_index_q == read.burst.len;
  assign axi_o.r_resp  = answer(read.burst, fault_i, fault_address_i);
  assign read_data_o   = words_q[IndexWidth'(read.burst.address >> WordLog2) + IndexWidth'(read_index_q)];
  assign read_taken    = axi_o.r_valid & axi_i.r_ready;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      read_index_q <= '0;
      read_debt_q  <= '0;
    end else begin
      if (read_taken) read_index_q <= axi_o.r_last ? '0 : read_index_q + 8'd1;
      read_debt_q <= (read_taken ? read_debt_q + ReadRateCycles * Beats : read_debt_q) -
                     ((read_debt_q < ReadRateWords && !read_taken) ? read_debt_q : ReadRateWords);
    end
  end

  // --- Write ----------------------------------------------------------------------------------
  entry_t write, done;
  logic   write_here, write_taken, done_here, done_free;
  logic [7:0]  write_index_q;
  logic [31:0] write_debt_q;

  prim_fifo #(.Width($bits(entry_t)), .Depth(Queue)) u_writes (
    .clk_i,
    .rst_ni,
    .valid_i (axi_i.aw_valid),
    .ready_o (axi_o.aw_ready),
    .data_i  ({axi_i.aw, now_q}),
    .valid_o (write_here),
    .ready_i (write_taken & axi_i.w_last),
    .data_o  (write)
  );

  assign axi_o.w_ready = write_here & done_free & (write_debt_q < WriteRateWords);
  assign write_taken   = axi_i.w_valid & axi_o.w_ready;

  always_ff @(posedge clk_i) begin
    if (write_taken && (answer(write.burst, fault_i, fault_address_i) == RespOkay)) begin
      words_q[IndexWidth'(write.burst.address >> WordLog2) + IndexWidth'(write_index_q)] <= write_data_i;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      write_index_q <= '0;
      write_debt_q  <= '0;
    end else begin
      if (write_taken) write_index_q <= axi_i.w_last ? '0 : write_index_q + 8'd1;
      write_debt_q <= (write_taken ? write_debt_q + WriteRateCycles * Beats : write_debt_q) -
                      ((write_debt_q < WriteRateWords && !write_taken) ? write_debt_q : WriteRateWords);
    end
  end

  prim_fifo #(.Width($bits(entry_t)), .Depth(Queue)) u_done (
    .clk_i,
    .rst_ni,
    .valid_i (write_taken & axi_i.w_last),
    .ready_o (done_free),
    .data_i  ({write.burst, now_q + 32'(WriteLatency)}),
    .valid_o (done_here),
    .ready_i (axi_o.b_valid & axi_i.b_ready),
    .data_o  (done)
  );

  assign axi_o.b_valid = done_here & ($signed(now_q - done.due) >= 0);
  assign axi_o.b_resp  = answer(done.burst, fault_i, fault_address_i);

  // --- Rules for the manager (ARM IHI 0022, A3.2 and A3.4) ------------------------------------
  burst_t ar_q, aw_q;
  logic   ar_held_q, aw_held_q, w_held_q;
  always_ff @(posedge clk_i) begin
    ar_q <= axi_i.ar;
    aw_q <= axi_i.aw;
    if (rst_ni) begin
      a_ar_stable: assert (!ar_held_q || (axi_i.ar_valid && (axi_i.ar == ar_q)));
      a_aw_stable: assert (!aw_held_q || (axi_i.aw_valid && (axi_i.aw == aw_q)));
      a_w_stable:  assert (!w_held_q || axi_i.w_valid);
      if (axi_i.ar_valid) begin
        a_ar_border: assert ((12'(axi_i.ar.address) + ((12'(axi_i.ar.len)) << WordLog2)) >= 12'(axi_i.ar.address));
      end
      if (axi_i.aw_valid) begin
        a_aw_border: assert ((12'(axi_i.aw.address) + ((12'(axi_i.aw.len)) << WordLog2)) >= 12'(axi_i.aw.address));
      end
      if (write_taken) a_w_last: assert (axi_i.w_last == (write_index_q == write.burst.len));
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) {ar_held_q, aw_held_q, w_held_q} <= '0;
    else begin
      ar_held_q <= axi_i.ar_valid & ~axi_o.ar_ready;
      aw_held_q <= axi_i.aw_valid & ~axi_o.aw_ready;
      w_held_q  <= axi_i.w_valid & ~axi_o.w_ready;
    end
  end
endmodule
