// SPDX-License-Identifier: Apache-2.0 OR MIT
// A profiling timer by its native port: one 32-bit write stamps an event in the cycle of the write, and interrupt lines are stamped
// and counted beside it. Events wait in block RAM until they are read, or written to memory. README.md has the registers.
//
// Owns the buffer. An event that finds it full is counted in LOST and never replaces another one.
//
// The port takes a write and a read in each cycle. `write_error_o`, `read_data_o` and `read_error_o` belong to the words of this cycle,
// whether or not `write_i` or `read_i` is set; an access with an error has no effect.
//
// Lines      interrupt lines, 1 to 32, in this clock domain
// DepthLog2  log2 of the events in the buffer
// Groups     cycles with events that may wait for the buffer
// Stream     events can be written to memory by AXI4; without it `axi_o` is idle
// Width      bits of a word of that bus, 32, 64 or 128
module timer_native
  import timer_pkg::*;
#(
  parameter int unsigned Lines     = 4,
  parameter int unsigned DepthLog2 = 16,
  parameter int unsigned Groups    = 8,
  parameter bit          Stream    = 1'b0,
  parameter int unsigned Width     = 32
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  logic                   write_i,
  input  logic [9:0]             write_word_i,  // byte address divided by 4
  input  logic [31:0]            write_data_i,
  output logic                   write_error_o,
  input  logic                   read_i,
  input  logic [9:0]             read_word_i,
  output logic [31:0]            read_data_o,
  output logic                   read_error_o,
  input  logic [Lines-1:0]       lines_i,
  input  logic                   trigger_i,  // begins to record, if armed
  output axi_pkg::manager_t      axi_o,
  output logic [Width-1:0]       axi_write_data_o,
  input  axi_pkg::memory_t       axi_i
);
  // What the parameters must be.
  if ((Lines < 1) || (Lines > 32)) begin : gen_bad_lines
    $error("Lines is %0d: 1 to 32", Lines);
  end
  if ((DepthLog2 < 1) || (DepthLog2 > 20)) begin : gen_bad_depth_log2
    $error("DepthLog2 is %0d: 1 to 20", DepthLog2);
  end
  if ((Groups < 1) || (Groups > 65535)) begin : gen_bad_groups
    $error("Groups is %0d: 1 to 65535", Groups);
  end
  if ((Width < 32) || (Width > 128) || ((Width & (Width - 1)) != 0)) begin : gen_bad_width
    $error("Width is %0d: a power of two from 32 to 128", Width);
  end

  typedef enum logic [9:0] {  // byte address divided by 4
    RegId = 10'h000, RegShape = 10'h001, RegControl = 10'h002, RegStatus = 10'h003, RegEvent = 10'h004, RegLines = 10'h005,
    RegTrigger = 10'h006, RegStored = 10'h008, RegLost = 10'h009, RegNowLow = 10'h00a, RegNowHigh = 10'h00b,
    RegAtLow = 10'h00c, RegAtHigh = 10'h00d, RegTag = 10'h00e, RegSource = 10'h00f, RegNext = 10'h010,
    RegWritten = 10'h011, RegBaseLow = 10'h012, RegBaseHigh = 10'h013, RegLimit = 10'h014
  } reg_e;
  localparam logic [31:0] Id    = 32'h524d_4954;  // "TIMR", the first letter in the lowest bits
  localparam logic [31:0] Shape = {16'(Groups), 8'(DepthLog2), Stream, 7'(Lines)};

  logic        write, write_error, read, read_error, counter;
  logic [9:0]  write_reg, read_reg;
  logic [31:0] data, value;
  assign {write, write_reg, data} = {write_i, write_word_i, write_data_i};
  assign {read, read_reg}         = {read_i, read_word_i};
  assign write_error_o            = write_error;
  assign {read_error_o, read_data_o} = {read_error, value};

  // --- Control ---------------------------------------------------------------------------------------
  logic             record_q, armed_q, stream_q, clear, clear_q, sets_stream, busy;
  logic [Lines-1:0] enabled_q, lines_q, rises;
  logic [31:0]      counts_q [Lines];
  logic [31:0]      high_q;  // of the time, when its low half was read

  assign clear = write & (write_reg == RegControl) & data[2];
  assign rises = lines_i & ~lines_q;
  assign write_error = (write_reg != RegControl) & (write_reg != RegEvent) & (write_reg != RegLines)
                       & (write_reg != RegTrigger) & (write_reg != RegNext) & (~sets_stream | stream_q | busy);
  // Where records go does not change while some are on their way.
  assign sets_stream = Stream & ((write_reg == RegBaseLow) | (write_reg == RegBaseHigh) | (write_reg == RegLimit));

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      record_q  <= 1'b0;
      armed_q   <= 1'b0;
      stream_q  <= 1'b0;
      enabled_q <= '0;
      lines_q   <= '1;  // a line that is high at the start has not risen
    end else begin
      lines_q <= lines_i;
      if (armed_q && (trigger_i || (write && (write_reg == RegTrigger)))) begin
        record_q <= 1'b1;
        armed_q  <= 1'b0;
      end
      if (write && (write_reg == RegControl)) begin
        {armed_q, record_q} <= data[1:0];
        stream_q            <= data[3] & Stream;
      end
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
  logic        arrives, room, drops, waits, readable, pop, takes, streams, failed, stream_lost;
  event_t      arrived, head;
  logic [31:0] missed, lost_q, sum, written, limit;
  logic [DepthLog2+1:0] stored_q;  // the queue holds a few more than its memory

  timer_capture #(.Lines(Lines), .Groups(Groups)) u_capture (
    .clk_i, .rst_ni, .clear_i(clear), .record_i(record_q), .event_i(write & (write_reg == RegEvent)), .tag_i(data),
    .rises_i(rises & enabled_q), .now_o(now), .valid_o(arrives), .event_o(arrived), .missed_o(missed)
  );
  prim_fifo_ram #(.Width($bits(event_t)), .Depth(1 << DepthLog2)) u_buffer (
    .clk_i, .rst_ni(rst_ni & ~clear_q), .valid_i(arrives), .ready_o(room), .data_i(arrived),
    .valid_o(waits), .ready_i(pop), .data_o(head)
  );
  // While they are streamed, events cannot be read.
  assign readable = waits & ~stream_q;
  assign pop      = stream_q ? takes : write & (write_reg == RegNext);
  assign drops    = arrives & ~room;
  assign streams  = busy | (stream_q & ~failed & (stored_q != '0) & (written != limit));
  assign sum      = lost_q + missed + 32'(drops) + 32'(stream_lost);

  axi_pkg::address_t base;
  if (Stream) begin : gen_stream
    axi_pkg::address_t base_q;
    logic [31:0]       limit_q;
    always_ff @(posedge clk_i) begin
      if (write && !write_error) begin
        if (write_reg == RegBaseLow)  base_q[31:0] <= {data[31:4], 4'd0};
        if (write_reg == RegBaseHigh) base_q[axi_pkg::AddressWidth-1:32] <= data[axi_pkg::AddressWidth-33:0];
        if (write_reg == RegLimit)    limit_q <= data;
      end
    end
    assign base  = base_q;
    assign limit = limit_q;

    timer_stream #(.Width(Width)) u_stream (
      .clk_i, .rst_ni, .clear_i(clear_q), .enable_i(stream_q), .base_i(base_q), .limit_i(limit_q),
      .valid_i(waits & ~clear_q), .ready_o(takes), .event_i(head), .busy_o(busy), .failed_o(failed), .written_o(written),
      .lost_o(stream_lost), .axi_o, .axi_write_data_o, .axi_i
    );
  end else begin : gen_no_stream
    assign {base, limit, takes, busy, failed, written, stream_lost, axi_o, axi_write_data_o} = '0;
    logic unused;
    assign unused = ^{axi_i, base, limit};
  end

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
        RegControl: value = 32'({stream_q, 1'b0, armed_q, record_q});
        RegStatus:  value = 32'({streams, failed, lost_q != '0, readable, armed_q, record_q});
        RegLines:   value = 32'(enabled_q);
        RegStored:  value = 32'(stored_q);
        RegLost:    value = lost_q;
        RegNowLow:  value = now[31:0];
        RegNowHigh: value = high_q;
        RegAtLow:   value = readable ? head.at[31:0] : '0;
        RegAtHigh:  value = readable ? head.at[63:32] : '0;
        RegTag:     value = readable ? head.tag : '0;
        RegSource:  value = 32'({readable, readable & head.is_line});
        RegWritten:  {read_error, value} = {!Stream, written};
        RegBaseLow:  {read_error, value} = {!Stream, base[31:0]};
        RegBaseHigh: {read_error, value} = {!Stream, 32'(base[axi_pkg::AddressWidth-1:32])};
        RegLimit:    {read_error, value} = {!Stream, limit};
        default:     read_error = 1'b1;
      endcase
    end
  end
endmodule
