// SPDX-License-Identifier: Apache-2.0 OR MIT
// The registers, the contexts, the counters and the log of errors, behind AXI4-Lite. README.md has the table.
//
// A write that cannot be done (an unknown register, a command during another, the frames while accesses are enabled) is
// answered with SLVERR and changes nothing.
//
// Frames  number of frames that the core can use
module smmu_regs
  import smmu_pkg::*;
#(
  parameter int unsigned Frames     = 1024,
  parameter int unsigned PageLog2   = 12,
  parameter int unsigned WindowBits = 40
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  axil_pkg::manager_t     axil_i,
  output axil_pkg::subordinate_t axil_o,
  output logic                   irq_o,

  input  logic                   started_i,
  input  logic                   ready_i,       // the drive could be used
  input  logic [3:0]             generation_i,
  output logic                   enabled_o,
  output logic                   usable_o,      // the drive is the one that was there when accesses were enabled
  output axi_pkg::address_t      frames_base_o,
  output frames_t                frames_o,
  output frames_t                dirty_limit_o,
  output logic [3:0]             ahead_o,

  output logic                   flush_o,
  output logic                   drop_o,
  output logic                   discard_o,
  input  logic                   done_i,
  input  logic                   done_error_i,
  input  frames_t                dirty_i,
  input  frames_t                failed_i,

  input  context_t               context_i,
  output rights_t                rights_o,
  input  table_t                 table_i,
  output axi_pkg::address_t      table_base_o,

  input  logic                   report_i,
  input  report_t                reported_i,
  input  logic [3:0]             counts_i       // accesses, walks, pages read, pages written: one more
);
  import axi_pkg::address_t;
  localparam int unsigned Counters = 4;
  typedef enum logic [9:0] {  // byte address divided by 4
    RegId = 10'h000, RegControl = 10'h001, RegStatus = 10'h002, RegCommand = 10'h003, RegFramesLow = 10'h004,
    RegFramesHigh = 10'h005, RegFrames = 10'h006, RegDirtyLimit = 10'h007, RegAhead = 10'h008, RegDirty = 10'h009,
    RegFailed = 10'h00a, RegShape = 10'h00b, RegLog = 10'h010, RegLogLow = 10'h011, RegLogHigh = 10'h012,
    RegLogLost = 10'h013
  } reg_e;
  localparam logic [31:0] Id = 32'h534d_4d55;  // "SMMU"

  logic        write, write_error, read, read_error;
  logic [9:0]  write_word, read_word;
  logic [31:0] data, value;
  axil_port u_port (
    .clk_i, .rst_ni, .axil_i, .axil_o, .write_o(write), .write_word_o(write_word), .write_data_o(data),
    .write_error_i(write_error), .read_o(read), .read_word_o(read_word), .read_data_i(value), .read_error_i(read_error)
  );

  // --- State -----------------------------------------------------------------------------------------
  logic     enabled_q, irq_enable_q, flush_q, drop_q, discard_q, finished_q, error_q, lost_q;
  logic     dropped_q, apart_q;  // no clean page of an earlier drive is left; the drive is not there during a command
  logic [3:0]  generation_q, ahead_q;
  address_t    base_q;
  frames_t     frames_q, limit_q;
  logic [31:0] counts_q [Counters];
  logic [15:0] log_lost_q;
  logic        busy, same, log_pop, log_valid, log_room;
  report_t     log;

  assign busy          = flush_q | drop_q;
  assign same          = generation_i == generation_q;
  assign enabled_o     = enabled_q;
  assign usable_o      = enabled_q & ready_i & same;
  assign frames_base_o = base_q;
  assign frames_o      = frames_q;
  assign dirty_limit_o = limit_q;
  assign ahead_o       = ahead_q;
  assign flush_o       = flush_q;
  assign drop_o        = drop_q;
  assign discard_o     = discard_q;
  assign irq_o         = irq_enable_q & (log_valid | finished_q);

  prim_fifo #(.Width($bits(report_t)), .Depth(16)) u_log (
    .clk_i, .rst_ni, .valid_i(report_i), .ready_o(log_room), .data_i(reported_i), .valid_o(log_valid),
    .ready_i(log_pop), .data_o(log)
  );

  // --- Contexts --------------------------------------------------------------------------------------
  typedef struct packed {
    logic   write;
    logic   read;
    table_t in;
  } may_t;
  logic [Contexts-1:0] exists_q;
  may_t        may_q  [Contexts];
  page_t       last_q [Contexts];
  logic [31:0] low_q  [Contexts];
  logic [15:0] high_q [Contexts];
  logic        is_context;
  context_t    chosen;
  assign is_context   = write_word[9:6] == 4'd1;
  assign chosen       = write_word[4:2];
  assign rights_o     = '{enabled: exists_q[context_i], read: may_q[context_i].read, write: may_q[context_i].write,
                          in: may_q[context_i].in, last: last_q[context_i]};
  assign table_base_o = {high_q[table_i], low_q[table_i]};

  // --- Writes ----------------------------------------------------------------------------------------
  always_comb begin
    write_error = 1'b0;
    log_pop     = 1'b0;
    if (is_context) begin
      write_error = write_word[5];
    end else begin
      unique case (write_word)
        // Another drive must not get the dirty pages of the last one, and no master its clean ones.
        RegControl: write_error = ~started_i | (data[0] & ~enabled_q & ~same & (~dropped_q | ((dirty_i | failed_i) != '0)));
        RegStatus, RegAhead: write_error = 1'b0;
        RegCommand: write_error = busy | ~started_i | (data == '0) | (data > 32'd3);
        RegFramesLow: write_error = enabled_q | (data[PageLog2-1:0] != '0);
        RegFramesHigh: write_error = enabled_q | (data[31:16] != '0);
        RegFrames: write_error = enabled_q | (data < 32'd4) | (data > 32'(Frames));
        RegDirtyLimit: write_error = data > 32'(Frames);
        RegLog: log_pop = write;
        default: write_error = 1'b1;
      endcase
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {enabled_q, irq_enable_q, flush_q, drop_q, discard_q, finished_q, error_q, lost_q} <= '0;
      {generation_q, ahead_q, base_q, exists_q, log_lost_q} <= '0;
      {dropped_q, apart_q} <= 2'b10;
      frames_q <= frames_t'(Frames);
      limit_q  <= frames_t'(Frames / 4);
      for (int unsigned i = 0; i < Counters; i++) counts_q[i] <= '0;
    end else begin
      for (int unsigned i = 0; i < Counters; i++) begin
        if (counts_i[i]) counts_q[i] <= counts_q[i] + 32'd1;
      end
      if (report_i && !log_room && (log_lost_q != '1)) log_lost_q <= log_lost_q + 16'd1;
      if (write && !write_error) begin
        if (is_context) begin
          if (write_word[1:0] == 2'd0) exists_q[chosen] <= data[0];
        end else unique case (write_word)
          RegControl: begin
            {irq_enable_q, enabled_q} <= data[1:0];
            if (data[0] && !enabled_q) {generation_q, dropped_q} <= {generation_i, 1'b0};
          end
          RegStatus: begin
            if (data[2]) finished_q <= 1'b0;
            if (data[4]) lost_q <= 1'b0;
          end
          RegCommand: begin
            flush_q    <= data[1:0] == 2'd1;
            drop_q     <= data[1];
            discard_q  <= data[0] & data[1];
            finished_q <= 1'b0;
            apart_q    <= 1'b1;
          end
          RegFramesLow:  base_q[31:0]  <= data;
          RegFramesHigh: base_q[47:32] <= data[15:0];
          RegFrames:     frames_q      <= frames_t'(data);
          RegDirtyLimit: limit_q       <= frames_t'(data);
          RegAhead:      ahead_q       <= (data > 32'd15) ? 4'd15 : data[3:0];
          default: ;
        endcase
      end
      if (usable_o) apart_q <= 1'b0;
      if (done_i) begin
        if (drop_q && apart_q) dropped_q <= 1'b1;
        {flush_q, drop_q, discard_q} <= '0;
        finished_q <= 1'b1;
        error_q    <= done_error_i;
        if (done_error_i) lost_q <= 1'b1;
      end
    end
  end
  always_ff @(posedge clk_i) begin
    if (write && is_context && !write_error) begin
      unique case (write_word[1:0])
        2'd0: may_q[chosen]   <= '{write: data[2], read: data[1], in: data[10:8]};
        2'd1: last_q[chosen]  <= page_t'(data);
        2'd2: low_q[chosen]   <= data;
        default: high_q[chosen] <= data[15:0];
      endcase
    end
  end

  // --- Reads -----------------------------------------------------------------------------------------
  always_comb begin
    read_error = 1'b0;
    value      = '0;
    unique case (read_word)
      RegId:         value = Id;
      RegControl:    value = 32'({irq_enable_q, enabled_q});
      RegStatus:     value = 32'({started_i, log_valid, usable_o, lost_q, error_q, finished_q, busy, ready_i});
      RegFramesLow:  value = base_q[31:0];
      RegFramesHigh: value = 32'(base_q[47:32]);
      RegFrames:     value = 32'(frames_q);
      RegDirtyLimit: value = 32'(limit_q);
      RegAhead:      value = 32'(ahead_q);
      RegDirty:      value = 32'(dirty_i);
      RegFailed:     value = 32'(failed_i);
      RegShape:      value = {8'(WindowBits), 8'(PageLog2), 16'(Frames)};
      RegLog:        value = {log_valid, 19'd0, log.about, 3'd0, log.write, log.reason};
      RegLogLow:     value = log.address[31:0];
      RegLogHigh:    value = 32'(log.address[47:32]);
      RegLogLost:    value = 32'(log_lost_q);
      default: begin
        read_error = 1'b1;
        for (int unsigned i = 0; i < Counters; i++) begin
          if (read_word == 10'h018 + 10'(i)) {read_error, value} = {1'b0, counts_q[i]};
        end
      end
    endcase
  end
endmodule
