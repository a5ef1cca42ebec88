// SPDX-License-Identifier: Apache-2.0 OR MIT
// A reset for one clock from one that is released at any time: asserted at once, without a clock, and released synchronously.
//
// `rst_no` rises at the Stages-th edge of the clock after `rst_ni` has risen, or at the one after that if the first edge met it. A pulse of
// `rst_ni` that is long enough for a flip-flop's asynchronous input resets for at least Stages - 1 clocks.
//
// Stages  flip-flops behind each other, 2 or more; the first may be metastable when `rst_ni` rises at an edge
module prim_reset_sync #(
  parameter int unsigned Stages = 2
) (
  input  logic clk_i,
  input  logic rst_ni,
  output logic rst_no
);
  // What the parameters must be.
  if (Stages < 2) begin : gen_bad_stages
    $error("Stages is %0d: 2 or more", Stages);
  end

  (* ASYNC_REG = "TRUE" *) logic [Stages-1:0] released_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) released_q <= '0;
    else         released_q <= {released_q[Stages-2:0], 1'b1};
  end

  assign rst_no = released_q[Stages-1];
endmodule
