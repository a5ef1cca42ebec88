// SPDX-License-Identifier: Apache-2.0 OR MIT
// smmu_pages, with any operations in any order on four frames, one in three cycles: the state of each is the one that the results announced, every
// change of it is allowed, nothing that was written is lost, and the counts are right.
module fv_smmu_pages
  import smmu_pkg::*;
(
  input logic       clk_i,
  input logic       rst_ni,
  input page_op_e   op_i,
  input logic [1:0] frame_i,
  input logic       write_i,
  input logic       pinned_i,
  input logic       ready_i,
  input logic       usable_i,
  input logic       force_i,
  input logic       error_i,
  input logic       cancel_i
);
  localparam int unsigned Frames = 4;
  result_e  result, touched;
  state_e   state;
  logic     busy;
  frames_t  dirty, failed;

  smmu_pages #(.Frames(Frames)) dut (
    .clk_i, .rst_ni, .op_i, .frame_i(frame_t'(frame_i)), .force_i, .error_i, .busy_o(busy), .pinned_i, .ready_i, .usable_i,
    .cancel_i, .write_i, .state_o(state), .result_o(result), .touched_o(touched), .dirty_o(dirty), .failed_o(failed)
  );

  // What the results say.
  state_e   states_q [Frames];
  logic [Frames-1:0] used_q, failed_q;
  logic [2:0] cleared_q;
  frames_t  dirty_count, failed_count;
  state_e   now;
  // The operation, and what counts for it.
  page_op_e op_q;
  logic     started_q, begun_q, ends_q, force_q, error_q, pinned_q, ready_q, usable_q;
  logic [1:0] frame_q;
  initial started_q = 1'b0;
  assign now = states_q[frame_q];

  always_comb begin
    dirty_count  = '0;
    failed_count = '0;
    for (int unsigned i = 0; i < Frames; i++) begin
      if ((states_q[i] == Dirty) && !failed_q[i]) dirty_count  = dirty_count + frames_t'(1);
      if ((states_q[i] == Dirty) && failed_q[i])  failed_count = failed_count + frames_t'(1);
    end
  end

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      {cleared_q, begun_q, ends_q} <= '0;
    end else begin
      a_busy: assert (busy == (begun_q | ends_q));
      {begun_q, ends_q} <= {~busy & (op_i != PageNone), begun_q};
      if (!busy) {op_q, frame_q, force_q, error_q} <= {op_i, frame_i, force_i, error_i};
      {pinned_q, ready_q, usable_q} <= {pinned_i, ready_i, usable_i};
      if (!busy) begin
        // After a reset, each frame is cleared.
        if (cleared_q < 3'd4) assume ((op_i == PageClear) && (frame_i == cleared_q[1:0]));
        else                  assume ((op_i != PageClear) && (op_i <= PageDrop));
      end
      if (cleared_q == 3'd4) a_counts: assert ((dirty == dirty_count) && (failed == failed_count));
    end
    if (rst_ni && ends_q) begin
      a_state: assert ((op_q == PageClear) || (state == now));
      unique case (op_q)
        PageClear: begin
          cleared_q          <= cleared_q + 3'd1;
          states_q[frame_q]  <= Absent;
          {used_q, failed_q} <= '0;
        end
        PageTouch: begin
          a_go:       assert ((touched == ResultDone) == ((now == Clean) || (now == Dirty) || ((now == Writing) && !write_i)));
          a_poisoned: assert ((touched == ResultNever) == (now == Poisoned));
          if (touched == ResultDone && !cancel_i) begin
            used_q[frame_q] <= 1'b1;
            if (write_i) states_q[frame_q] <= Dirty;
          end
        end
        PageFill: begin
          a_fill: assert ((result == ResultDone) == (now == Absent));
          if (result == ResultDone) begin
            states_q[frame_q] <= Reading;
            failed_q[frame_q] <= 1'b0;
          end
        end
        PageFilled: begin
          a_filled: assert ((result == ResultDone) == (now == Reading));
          if (result == ResultDone) begin
            states_q[frame_q] <= error_q ? Poisoned : Clean;
            used_q[frame_q]   <= ~error_q;
          end
        end
        PageWritten: begin
          a_written: assert ((result == ResultDone) == (now == Writing));
          if (result == ResultDone) begin
            states_q[frame_q] <= error_q ? Dirty : Clean;
            failed_q[frame_q] <= error_q;
          end
        end
        PageStep: begin
          a_free:  assert ((result == ResultFree) == (now == Absent));
          // A second chance for what was used since the last step, and none for other pages.
          a_evict: assert ((result == ResultEvict) ==
                           (((now == Clean) || (now == Poisoned)) && !pinned_q && !used_q[frame_q]));
          a_write: assert ((result == ResultWrite) ==
                           ((now == Dirty) && !pinned_q && !used_q[frame_q] && !failed_q[frame_q] && usable_q && ready_q));
          a_stuck: assert ((result == ResultNever) == ((now == Dirty) && (failed_q[frame_q] || !usable_q)));
          if (!pinned_q && (now != Absent) && (now != Reading) && (now != Writing) && (result != ResultNever)) begin
            used_q[frame_q] <= 1'b0;
          end
          if (result == ResultEvict) states_q[frame_q] <= Absent;
          if (result == ResultWrite) states_q[frame_q] <= Writing;
        end
        PageClean: begin
          a_clean: assert ((result == ResultWrite) ==
                           ((now == Dirty) && !pinned_q && usable_q && ready_q && (force_q || !failed_q[frame_q])));
          a_waits: assert ((now != Writing) || (result == ResultLater));
          if (result == ResultWrite) begin
            states_q[frame_q] <= Writing;
            failed_q[frame_q] <= 1'b0;
          end
        end
        PageDrop: begin
          a_drop: assert ((result == ResultEvict) ==
                          (!pinned_q && ((now == Clean) || (now == Poisoned) || ((now == Dirty) && force_q))));
          a_kept: assert ((result != ResultSkip) || (now == Absent) || ((now == Dirty) && !force_q));
          if (result == ResultEvict) begin
            states_q[frame_q] <= Absent;
            failed_q[frame_q] <= 1'b0;
          end
        end
        default: ;
      endcase
    end
  end
endmodule
