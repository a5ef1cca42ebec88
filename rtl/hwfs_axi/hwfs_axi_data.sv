// SPDX-License-Identifier: Apache-2.0 OR MIT
// Moves the data of one command between memory and the file system core, in bursts of up to 256 words that do not cross
// 1 KiB boundaries.
//
// Owns a queue of two bursts. Requests a burst from memory only when the queue has room for all of it, and writes a burst
// only when all of it is in the queue, so that no port of the memory ever waits for the core: its disk may be the same
// memory. Words that the core no longer takes are dropped. The move ends when `over_i` reports the end of the core's data.
module hwfs_axi_data
  import virtio_pkg::*;
  import hwfs_axi_pkg::*;
(
  input  logic              clk_i,
  input  logic              rst_ni,

  input  logic              start_i,    // taken while idle
  input  logic              to_memory_i,
  input  axi_pkg::address_t address_i,
  input  logic [31:0]       bytes_i,
  input  logic              over_i,     // the core takes and supplies no more data; held until idle
  output logic              idle_o,
  output logic [31:0]       moved_o,    // bytes since the start
  output axi_pkg::resp_e    resp_o,     // the memory's first error since the start, or OKAY

  output logic              write_valid_o,
  input  logic              write_ready_i,
  output logic [31:0]       write_data_o,
  input  logic              read_valid_i,
  output logic              read_ready_o,
  input  logic [31:0]       read_data_i,

  output axi_pkg::manager_t axi_o,
  output logic [31:0]       axi_write_data_o,
  output logic [3:0]        axi_write_strobe_o,
  input  axi_pkg::memory_t  axi_i,
  input  logic [31:0]       axi_read_data_i
);
  localparam int unsigned BurstWords = 256;
  typedef logic [10:0] chunk_t;  // bytes, up to 1,024
  typedef logic [10:0] words_held_t;

  typedef enum logic [1:0] {Idle, Choose, Move, Drain} state_e;
  state_e state_q, state_d;
  logic to_memory_q;
  axi_pkg::address_t address_q;
  logic [31:0] left_q, moved_q;
  chunk_t chunk, step, step_q;
  axi_pkg::resp_e resp_q;
  words_held_t held_q;  // words in the queue
  logic begin_move, move_done;

  assign idle_o  = state_q == Idle;
  assign moved_o = moved_q;
  assign resp_o  = resp_q;

  // --- The queue --------------------------------------------------------------------------------
  logic in_valid, in_ready, out_valid, out_ready, pushed, popped, fetched_valid, store_ready;
  logic [31:0] in_data, out_data, fetched;

  prim_fifo_ram #(.Width(32), .Depth(2 * BurstWords)) u_queue (
    .clk_i, .rst_ni, .valid_i(in_valid), .ready_o(in_ready), .data_i(in_data), .valid_o(out_valid),
    .ready_i(out_ready), .data_o(out_data)
  );
  assign in_valid      = to_memory_q ? (read_valid_i & ~idle_o) : fetched_valid;
  assign in_data       = to_memory_q ? read_data_i : fetched;
  assign pushed        = in_valid & in_ready;
  assign popped        = out_valid & out_ready;
  assign out_ready     = (state_q == Drain) | (to_memory_q ? store_ready : write_ready_i);
  assign write_valid_o = out_valid & ~to_memory_q & ~idle_o & (state_q != Drain);
  assign write_data_o  = out_data;
  // Data that was not requested is dropped.
  assign read_ready_o  = idle_o | ~to_memory_q | in_ready;

  // --- Bursts -----------------------------------------------------------------------------------
  always_comb begin
    chunk = chunk_t'(4 * BurstWords) - {1'b0, address_q[9:2], 2'b00};
    if (left_q < 32'(chunk)) chunk = chunk_t'(left_q);
    step       = chunk;
    state_d    = state_q;
    begin_move = 1'b0;
    unique case (state_q)
      Idle: if (start_i) state_d = Choose;
      Choose: begin
        if (to_memory_q) begin
          if (13'(held_q) << 2 < 13'(chunk)) step = chunk_t'(held_q << 2);
          begin_move = (left_q != '0) & ((step == chunk) | (over_i & (step != '0)));
          if (!begin_move && (over_i || (left_q == '0))) state_d = Drain;
        end else begin
          begin_move = ~over_i & (left_q != '0) & (held_q <= words_held_t'(BurstWords));
          if (over_i) state_d = Drain;
        end
        if (begin_move) state_d = Move;
      end
      Move:    if (move_done) state_d = Choose;
      default: if (over_i && (held_q == '0)) state_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      held_q  <= '0;
    end else begin
      state_q <= state_d;
      held_q  <= held_q + words_held_t'(pushed) - words_held_t'(popped);
    end
  end
  always_ff @(posedge clk_i) begin
    if (idle_o && start_i) begin
      to_memory_q <= to_memory_i;
      address_q   <= address_i;
      left_q      <= bytes_i;
      moved_q     <= '0;
      resp_q      <= axi_pkg::RespOkay;
    end else begin
      if (begin_move) step_q <= step;
      if ((state_q == Move) && move_done) begin
        address_q <= address_q + axi_pkg::address_t'(step_q);
        left_q    <= left_q - 32'(step_q);
        moved_q   <= moved_q + 32'(step_q);
      end
      if (!resp_q[1]) begin
        if (axi_i.b_valid && axi_i.b_resp[1]) resp_q <= axi_i.b_resp;
        else if (axi_i.r_valid && axi_o.r_ready && axi_i.r_resp[1]) resp_q <= axi_i.r_resp;
      end
    end
  end

  // --- Memory: one segment, the burst ---------------------------------------------------------------
  mem_req_t mem_req;
  mem_rsp_t mem_rsp;
  logic [3:0] segment_address;
  logic [31:0] segment_q;
  always_ff @(posedge clk_i) begin
    unique case (segment_address[1:0])
      2'd0:    segment_q <= address_q[31:0];
      2'd1:    segment_q <= 32'(address_q[47:32]);
      default: segment_q <= 32'(step_q);
    endcase
  end

  virtio_move #(.Slots(4)) u_move (
    .clk_i,
    .rst_ni,
    .abort_i           (1'b0),
    .seek_i            (begin_move),
    .slot_i            ('0),
    .load_i            (1'b0),
    .place_i           ('0),
    .place_o           (),
    .start_i           (begin_move),
    .push_i            (to_memory_q),
    .bytes_i           (bytes_t'(step)),
    .done_o            (move_done),
    .error_o           (),
    .out_valid_o       (fetched_valid),
    .out_ready_i       (in_ready),
    .out_data_o        (fetched),
    .in_valid_i        (out_valid),
    .in_ready_o        (store_ready),
    .in_data_i         (out_data),
    .segment_read_o    (),
    .segment_address_o (segment_address),
    .segment_data_i    (segment_q),
    .mem_o             (mem_req),
    .mem_i             (mem_rsp)
  );

  virtio_mem u_mem (
    .clk_i, .rst_ni, .abort_i(1'b0), .quiet_o(), .mem_i(mem_req), .mem_o(mem_rsp), .axi_o, .axi_write_data_o, .axi_write_strobe_o,
    .axi_i, .axi_read_data_i
  );
endmodule
