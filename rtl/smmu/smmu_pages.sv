// SPDX-License-Identifier: Apache-2.0 OR MIT
// The states of all frames: the only place that changes one. One operation in each cycle; its result and its change belong
// together, so nothing can come between them.
//
// A page that was written by the window and not yet by the drive leaves its frame only by `PageDrop` with `force_i`. A page
// whose write fails becomes dirty again, with a mark: only `PageClean` with `force_i` tries it again.
//
// Owns no data, and does not know which page a frame has.
//
// Frames  number of frames, a power of two
module smmu_pages
  import smmu_pkg::*;
#(
  parameter int unsigned Frames = 1024
) (
  input  logic     clk_i,
  input  logic     rst_ni,

  input  page_op_e op_i,
  input  frame_t   frame_i,
  input  logic     write_i,   // PageTouch: it is a write
  input  logic     pinned_i,  // an access uses the frame, or (PageClean) a write does
  input  logic     ready_i,   // a write to the drive can begin
  input  logic     usable_i,  // the drive is there
  input  logic     force_i,
  input  logic     error_i,   // PageFilled, PageWritten: it failed
  output result_e  result_o,
  output state_e   state_o,   // before the operation
  output frames_t  dirty_o,   // dirty pages whose write has not failed
  output frames_t  failed_o   // dirty pages whose write has failed
);
  localparam int unsigned IndexWidth = $clog2(Frames);
  typedef struct packed {
    state_e state;
    logic   used;    // since the hand was here
    logic   failed;
  } page_t;

  page_t   pages_q [Frames];
  page_t   now, next;
  logic    change;
  frames_t dirty_q, failed_q;

  assign now      = pages_q[frame_i[IndexWidth-1:0]];
  assign state_o  = now.state;
  assign dirty_o  = dirty_q;
  assign failed_o = failed_q;

  always_comb begin
    next     = now;
    change   = 1'b0;
    result_o = ResultLater;
    unique case (op_i)
      PageClear: {change, next} = {1'b1, page_t'{state: Absent, used: 1'b0, failed: 1'b0}};
      PageTouch: begin
        next.used = 1'b1;
        unique case (now.state)
          Clean: begin
            {change, result_o} = {1'b1, ResultDone};
            if (write_i) next.state = Dirty;
          end
          Dirty:    {change, result_o} = {1'b1, ResultDone};
          Writing:  if (!write_i) {change, result_o} = {1'b1, ResultDone};
          Poisoned: result_o = ResultNever;
          default:  result_o = ResultLater;
        endcase
      end
      PageFill: if (now.state == Absent) begin
        {change, result_o} = {1'b1, ResultDone};
        next = '{state: Reading, used: 1'b0, failed: 1'b0};
      end
      PageFilled: if (now.state == Reading) begin
        {change, result_o} = {1'b1, ResultDone};
        next = '{state: error_i ? Poisoned : Clean, used: ~error_i, failed: 1'b0};
      end
      PageStep: begin
        next.used = 1'b0;
        unique case (now.state)
          Absent: result_o = ResultFree;
          Clean, Poisoned: if (!pinned_i) begin
            change = 1'b1;
            if (!now.used) {next.state, result_o} = {Absent, ResultEvict};
          end
          Dirty: if (now.failed || !usable_i) begin
            result_o = ResultNever;
          end else if (!pinned_i) begin
            change = now.used | ready_i;
            if (!now.used && ready_i) {next.state, result_o} = {Writing, ResultWrite};
          end
          default: result_o = ResultLater;
        endcase
      end
      PageClean: begin
        unique case (now.state)
          Dirty: if (!usable_i || (now.failed && !force_i)) begin
            result_o = ResultSkip;
          end else if (!pinned_i && ready_i) begin
            {change, result_o} = {1'b1, ResultWrite};
            next = '{state: Writing, used: now.used, failed: 1'b0};
          end
          Writing: result_o = ResultLater;
          default: result_o = ResultSkip;
        endcase
      end
      PageWritten: if (now.state == Writing) begin
        {change, result_o} = {1'b1, ResultDone};
        {next.state, next.failed} = error_i ? {Dirty, 1'b1} : {Clean, 1'b0};
      end
      PageDrop: begin
        unique case (now.state)
          Reading, Writing: result_o = ResultLater;
          Clean, Poisoned: if (!pinned_i) begin
            {change, result_o} = {1'b1, ResultEvict};
            next = '{state: Absent, used: 1'b0, failed: 1'b0};
          end
          Dirty: if (!force_i) begin
            result_o = ResultSkip;
          end else if (!pinned_i) begin
            {change, result_o} = {1'b1, ResultEvict};
            next = '{state: Absent, used: 1'b0, failed: 1'b0};
          end
          default: result_o = ResultSkip;
        endcase
      end
      default: result_o = ResultLater;
    endcase
  end

  // How the counts change: by dirty pages without the mark and with it.
  logic dirty_before, dirty_after, failed_before, failed_after, known;
  assign known         = change & (op_i != PageClear);
  assign dirty_before  = known & (now.state == Dirty) & ~now.failed;
  assign dirty_after   = known & (next.state == Dirty) & ~next.failed;
  assign failed_before = known & (now.state == Dirty) & now.failed;
  assign failed_after  = known & (next.state == Dirty) & next.failed;

  always_ff @(posedge clk_i) begin
    if (change) pages_q[frame_i[IndexWidth-1:0]] <= next;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      dirty_q  <= '0;
      failed_q <= '0;
    end else begin
      if (dirty_before != dirty_after)   dirty_q  <= dirty_after ? dirty_q + frames_t'(1) : dirty_q - frames_t'(1);
      if (failed_before != failed_after) failed_q <= failed_after ? failed_q + frames_t'(1) : failed_q - frames_t'(1);
    end
  end
endmodule
