// SPDX-License-Identifier: Apache-2.0 OR MIT
// smmu_pages, with any operations in any order on four frames: the state of each is the one that the results announced, every
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
  input logic       error_i
);
  localparam int unsigned Frames = 4;
  result_e  result;
  state_e   state;
  frames_t  dirty, failed;

  smmu_pages #(.Frames(Frames)) dut (
    .clk_i, .rst_ni, .op_i, .frame_i(frame_t'(frame_i)), .write_i, .pinned_i, .ready_i, .usable_i, .force_i, .error_i,
    .result_o(result), .state_o(state), .dirty_o(dirty), .failed_o(failed)
  );

  // What the results say.
  state_e   states_q [Frames];
  logic [Frames-1:0] used_q, failed_q;
  logic [2:0] cleared_q;
  frames_t  dirty_count, failed_count;
  state_e   now;
  logic     started_q;
  initial started_q = 1'b0;
  assign now = states_q[frame_i];

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
      cleared_q <= '0;
    end else if (cleared_q < 3'd4) begin
      // After a reset, each frame is cleared.
      assume ((op_i == PageClear) && (frame_i == cleared_q[1:0]));
      cleared_q          <= cleared_q + 3'd1;
      states_q[frame_i]  <= Absent;
      {used_q, failed_q} <= '0;
    end else begin
      assume ((op_i != PageClear) && (op_i <= PageDrop));
      a_state:  assert ((op_i == PageNone) || (state == now));
      a_counts: assert ((dirty == dirty_count) && (failed == failed_count));
      unique case (op_i)
        PageTouch: begin
          a_go:       assert ((result == ResultDone) == ((now == Clean) || (now == Dirty) || ((now == Writing) && !write_i)));
          a_poisoned: assert ((result == ResultNever) == (now == Poisoned));
          if (result == ResultDone) begin
            used_q[frame_i] <= 1'b1;
            if (write_i) states_q[frame_i] <= Dirty;
          end
        end
        PageFill: begin
          a_fill: assert ((result == ResultDone) == (now == Absent));
          if (result == ResultDone) begin
            states_q[frame_i] <= Reading;
            failed_q[frame_i] <= 1'b0;
          end
        end
        PageFilled: begin
          a_filled: assert ((result == ResultDone) == (now == Reading));
          if (result == ResultDone) begin
            states_q[frame_i] <= error_i ? Poisoned : Clean;
            used_q[frame_i]   <= ~error_i;
          end
        end
        PageWritten: begin
          a_written: assert ((result == ResultDone) == (now == Writing));
          if (result == ResultDone) begin
            states_q[frame_i] <= error_i ? Dirty : Clean;
            failed_q[frame_i] <= error_i;
          end
        end
        PageStep: begin
          a_free:  assert ((result == ResultFree) == (now == Absent));
          // A second chance for what was used since the last step, and none for other pages.
          a_evict: assert ((result == ResultEvict) ==
                           (((now == Clean) || (now == Poisoned)) && !pinned_i && !used_q[frame_i]));
          a_write: assert ((result == ResultWrite) ==
                           ((now == Dirty) && !pinned_i && !used_q[frame_i] && !failed_q[frame_i] && usable_i && ready_i));
          a_stuck: assert ((result == ResultNever) == ((now == Dirty) && (failed_q[frame_i] || !usable_i)));
          if (!pinned_i && (now != Absent) && (now != Reading) && (now != Writing) && (result != ResultNever)) begin
            used_q[frame_i] <= 1'b0;
          end
          if (result == ResultEvict) states_q[frame_i] <= Absent;
          if (result == ResultWrite) states_q[frame_i] <= Writing;
        end
        PageClean: begin
          a_clean: assert ((result == ResultWrite) ==
                           ((now == Dirty) && !pinned_i && usable_i && ready_i && (force_i || !failed_q[frame_i])));
          a_waits: assert ((now != Writing) || (result == ResultLater));
          if (result == ResultWrite) begin
            states_q[frame_i] <= Writing;
            failed_q[frame_i] <= 1'b0;
          end
        end
        PageDrop: begin
          a_drop: assert ((result == ResultEvict) ==
                          (!pinned_i && ((now == Clean) || (now == Poisoned) || ((now == Dirty) && force_i))));
          a_kept: assert ((result != ResultSkip) || (now == Absent) || ((now == Dirty) && !force_i));
          if (result == ResultEvict) begin
            states_q[frame_i] <= Absent;
            failed_q[frame_i] <= 1'b0;
          end
        end
        default: ;
      endcase
    end
  end
endmodule
