// A profiling timer: one 32-bit write stamps an event in the cycle of the write, and interrupt lines are stamped and counted
// beside it. Events wait in block RAM until they are read. README.md has the registers.
//
// Owns the buffer. An event that finds it full is counted in LOST and never replaces another one. An access to an unassigned
// address is answered with SLVERR and has no effect.
//
// Lines      interrupt lines, 1 to 32, in this clock domain
// DepthLog2  log2 of the events in the buffer
// Groups     cycles with events that may wait for the buffer
module timer
  import timer_pkg::*;
#(
  parameter int unsigned Lines     = 4,
  parameter int unsigned DepthLog2 = 16,
  parameter int unsigned Groups    = 8
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  axil_pkg::manager_t     axil_i,
  output axil_pkg::subordinate_t axil_o,
  input  logic [Lines-1:0]       lines_i,
  input  logic                   trigger_i  // begins to record, if armed
);
  typedef enum logic [9:0] {  // byte address divided by 4
    RegId = 10'h000, RegShape = 10'h001, RegControl = 10'h002, RegStatus = 10'h003, RegEvent = 10'h004, RegLines = 10'h005,
    RegTrigger = 10'h006, RegStored = 10'h008, RegLost = 10'h009, RegNowLow = 10'h00a, RegNowHigh = 10'h00b,
    RegAtLow = 10'h00c, RegAtHigh = 10'h00d, RegTag = 10'h00e, RegSource = 10'h00f, RegNext = 10'h010
  } reg_e;
  localparam logic [31:0] Id    = 32'h524d_4954;  // "TIMR", the first letter in the lowest bits
  localparam logic [31:0] Shape = {16'(Groups), 8'(DepthLog2), 8'(Lines)};

  logic        write, write_error, read, read_error, counter;
  logic [9:0]  write_reg, read_reg;
  logic [31:0] data, value;
  axil_port u_port (
    .clk_i, .rst_ni, .axil_i, .axil_o, .write_o(write), .write_word_o(write_reg), .write_data_o(data),
    .write_error_i(write_error), .read_o(read), .read_word_o(read_reg), .read_data_i(value), .read_error_i(read_error)
  );

  // --- Control ---------------------------------------------------------------------------------------
  logic             record_q, armed_q, clear, clear_q;
  logic [Lines-1:0] enabled_q, lines_q, rises;
  logic [31:0]      counts_q [Lines];
  logic [31:0]      high_q;  // of the time, when its low half was read

  assign clear = write & (write_reg == RegControl) & data[2];
  assign rises = lines_i & ~lines_q;
  assign write_error = (write_reg != RegControl) & (write_reg != RegEvent) & (write_reg != RegLines)
                       & (write_reg != RegTrigger) & (write_reg != RegNext);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      record_q  <= 1'b0;
      armed_q   <= 1'b0;
      enabled_q <= '0;
      lines_q   <= '1;  // a line that is high at the start has not risen
    end else begin
      lines_q <= lines_i;
      if (armed_q && (trigger_i || (write && (write_reg == RegTrigger)))) begin
        record_q <= 1'b1;
        armed_q  <= 1'b0;
      end
      if (write && (write_reg == RegControl)) {armed_q, record_q} <= data[1:0];
      if (write && (write_reg == RegLines)) enabled_q <= data[Lines-1:0];
    end
  end
  for (genvar line = 0; line < Lines; line++) begin : gen_count
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni)          counts_q[line] <= '0;
      else if (clear_q)     counts_q[line] <= '0;
      else if (rises[line]) counts_q[line] <= counts_q[line] + 32'd1;
    end
  end

  // --- Events ----------------------------------------------------------------------------------------
  time_t       now;
  logic        arrives, room, drops, waits, pop;
  event_t      arrived, head;
  logic [31:0] missed, lost_q, sum;
  logic [DepthLog2+1:0] stored_q;  // the queue holds a few more than its memory

  timer_capture #(.Lines(Lines), .Groups(Groups)) u_capture (
    .clk_i, .rst_ni, .clear_i(clear), .record_i(record_q), .event_i(write & (write_reg == RegEvent)), .tag_i(data),
    .rises_i(rises & enabled_q), .now_o(now), .valid_o(arrives), .event_o(arrived), .missed_o(missed)
  );
  prim_fifo_ram #(.Width($bits(event_t)), .Depth(1 << DepthLog2)) u_buffer (
    .clk_i, .rst_ni(rst_ni & ~clear_q), .valid_i(arrives), .ready_o(room), .data_i(arrived),
    .valid_o(waits), .ready_i(pop), .data_o(head)
  );
  assign pop = write & (write_reg == RegNext);
  assign drops = arrives & ~room;
  assign sum   = lost_q + missed + 32'(drops);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      clear_q  <= 1'b1;
      lost_q   <= '0;
      stored_q <= '0;
    end else begin
      clear_q <= clear;
      if (clear_q) begin
        lost_q   <= '0;
        stored_q <= '0;
      end else begin
        lost_q   <= (sum < lost_q) ? '1 : sum;  // it stays at the largest value
        stored_q <= stored_q + (DepthLog2 + 2)'(arrives & room) - (DepthLog2 + 2)'(pop & waits);
      end
    end
  end

  // --- Reading ---------------------------------------------------------------------------------------
  assign counter = read_reg[9:5] == 5'd1;  // 0x80 to 0xff
  always_ff @(posedge clk_i) if (read && (read_reg == RegNowLow)) high_q <= now[63:32];

  always_comb begin
    read_error = 1'b0;
    value      = '0;
    if (counter) begin
      read_error = 32'(read_reg[4:0]) >= Lines;
      for (int unsigned line = 0; line < Lines; line++) if (32'(read_reg[4:0]) == line) value = counts_q[line];
    end else begin
      unique case (read_reg)
        RegId:      value = Id;
        RegShape:   value = Shape;
        RegControl: value = 32'({armed_q, record_q});
        RegStatus:  value = 32'({lost_q != '0, waits, armed_q, record_q});
        RegLines:   value = 32'(enabled_q);
        RegStored:  value = 32'(stored_q);
        RegLost:    value = lost_q;
        RegNowLow:  value = now[31:0];
        RegNowHigh: value = high_q;
        RegAtLow:   value = waits ? head.at[31:0] : '0;
        RegAtHigh:  value = waits ? head.at[63:32] : '0;
        RegTag:     value = waits ? head.tag : '0;
        RegSource:  value = 32'({waits, waits & head.is_line});
        default:    read_error = 1'b1;
      endcase
    end
  end
endmodule
