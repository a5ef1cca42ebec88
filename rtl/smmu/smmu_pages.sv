// SPDX-License-Identifier: Apache-2.0 OR MIT
// The states of all frames: the only place that changes one. An operation begins while `busy_o` is low. Two cycles later its
// result is here and the state changes; until then no other begins, so nothing comes between a state and its change.
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

  input  page_op_e op_i,      // begins, unless `busy_o`
  input  frame_t   frame_i,
  input  logic     force_i,
  input  logic     error_i,   // PageFilled, PageWritten: it failed
  output logic     busy_o,
  // In the next cycle.
  input  logic     pinned_i,  // an access uses the frame, or (PageClean) a write does
  input  logic     ready_i,   // a write to the drive can begin
  input  logic     usable_i,  // the drive is there
  // In the cycle after that.
  input  logic     cancel_i,  // PageTouch: changes nothing
  input  logic     write_i,   // PageTouch: it is a write
  output state_e   state_o,   // before the operation
  output result_e  result_o,
  output result_e  touched_o, // the same if it is PageTouch
  output frames_t  dirty_o,   // dirty pages whose write has not failed
  output frames_t  failed_o   // dirty pages whose write has failed
);
  localparam int unsigned IndexWidth = $clog2(Frames);
  typedef struct packed {
    state_e state;
    logic   used;    // since the hand was here
    logic   failed;
  } page_t;

  page_op_e op_q;
  page_t    read, now_q, next;
  logic     change, ends_q, force_q, error_q, pinned_q, ready_q, usable_q;
  frames_t  dirty_q, failed_q;
  logic [IndexWidth-1:0] frame_q;

  // Never a read in the cycle of a write, which would cost a comparison of their addresses.
  assign busy_o   = op_q != PageNone;
  assign state_o  = now_q.state;

  prim_ram #(.Width($bits(page_t)), .Depth(Frames)) u_pages (
    .clk_i,
    .write_i         (change & ends_q),
    .write_address_i (frame_q),
    .write_data_i    (next),
    .read_i          (~busy_o),
    .read_address_i  (frame_i[IndexWidth-1:0]),
    .read_data_o     (read)
  );
  assign dirty_o  = dirty_q;
  assign failed_o = failed_q;

  always_comb begin
    next     = now_q;
    change   = 1'b0;
    result_o = ResultLater;
    unique case (op_q)
      PageClear: {change, next} = {1'b1, page_t'{state: Absent, used: 1'b0, failed: 1'b0}};
      PageTouch: begin
        result_o  = touched_o;
        change    = (touched_o == ResultDone) & ~cancel_i;
        next.used = 1'b1;
        if ((now_q.state == Clean) && write_i) next.state = Dirty;
      end
      PageFill: if (now_q.state == Absent) begin
        {change, result_o} = {1'b1, ResultDone};
        next = '{state: Reading, used: 1'b0, failed: 1'b0};
      end
      PageFilled: if (now_q.state == Reading) begin
        {change, result_o} = {1'b1, ResultDone};
        next = '{state: error_q ? Poisoned : Clean, used: ~error_q, failed: 1'b0};
      end
      PageStep: begin
        next.used = 1'b0;
        unique case (now_q.state)
          Absent: result_o = ResultFree;
          Clean, Poisoned: if (!pinned_q) begin
            change = 1'b1;
            if (!now_q.used) {next.state, result_o} = {Absent, ResultEvict};
          end
          Dirty: if (now_q.failed || !usable_q) begin
            result_o = ResultNever;
          end else if (!pinned_q) begin
            change = now_q.used | ready_q;
            if (!now_q.used && ready_q) {next.state, result_o} = {Writing, ResultWrite};
          end
          default: result_o = ResultLater;
        endcase
      end
      PageClean: begin
        unique case (now_q.state)
          Dirty: if (!usable_q || (now_q.failed && !force_q)) begin
            result_o = ResultSkip;
          end else if (!pinned_q && ready_q) begin
            {change, result_o} = {1'b1, ResultWrite};
            next = '{state: Writing, used: now_q.used, failed: 1'b0};
          end
          Writing: result_o = ResultLater;
          default: result_o = ResultSkip;
        endcase
      end
      PageWritten: if (now_q.state == Writing) begin
        {change, result_o} = {1'b1, ResultDone};
        {next.state, next.failed} = error_q ? {Dirty, 1'b1} : {Clean, 1'b0};
      end
      PageDrop: begin
        unique case (now_q.state)
          Reading, Writing: result_o = ResultLater;
          Clean, Poisoned: if (!pinned_q) begin
            {change, result_o} = {1'b1, ResultEvict};
            next = '{state: Absent, used: 1'b0, failed: 1'b0};
          end
          Dirty: if (!force_q) begin
            result_o = ResultSkip;
          end else if (!pinned_q) begin
            {change, result_o} = {1'b1, ResultEvict};
            next = '{state: Absent, used: 1'b0, failed: 1'b0};
          end
          default: result_o = ResultSkip;
        endcase
      end
      default: result_o = ResultLater;
    endcase
  end

  // An access, beside the rest: the window's answer waits for it.
  always_comb begin
    unique case (now_q.state)
      Clean, Dirty: touched_o = ResultDone;
      Writing:      touched_o = write_i ? ResultLater : ResultDone;
      Poisoned:     touched_o = ResultNever;
      default:      touched_o = ResultLater;
    endcase
  end

  // How the counts change: by dirty pages without the mark and with it.
  logic dirty_before, dirty_after, failed_before, failed_after, known;
  assign known         = change & ends_q & (op_q != PageClear);
  assign dirty_before  = known & (now_q.state == Dirty) & ~now_q.failed;
  assign dirty_after   = known & (next.state == Dirty) & ~next.failed;
  assign failed_before = known & (now_q.state == Dirty) & now_q.failed;
  assign failed_after  = known & (next.state == Dirty) & next.failed;

  always_ff @(posedge clk_i) begin
    if (!busy_o) {frame_q, force_q, error_q} <= {frame_i[IndexWidth-1:0], force_i, error_i};
    {now_q, pinned_q, ready_q, usable_q} <= {read, pinned_i, ready_i, usable_i};
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      op_q     <= PageNone;
      dirty_q  <= '0;
      failed_q <= '0;
      ends_q   <= 1'b0;
    end else begin
      if (!busy_o)     op_q <= op_i;
      else if (ends_q) op_q <= PageNone;
      ends_q <= busy_o & ~ends_q;
      if (dirty_before != dirty_after)   dirty_q  <= dirty_after ? dirty_q + frames_t'(1) : dirty_q - frames_t'(1);
      if (failed_before != failed_after) failed_q <= failed_after ? failed_q + frames_t'(1) : failed_q - frames_t'(1);
    end
  end
endmodule
