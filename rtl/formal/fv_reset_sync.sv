// SPDX-License-Identifier: Apache-2.0 OR MIT
// prim_reset_sync: the reset is asserted with the one from outside, and released at the third edge of the clock behind it, and never
// in between.
module fv_reset_sync (
  input logic clk_i,
  input logic rst_ni  // at any time
);
  logic rst_no, started_q;
  logic [1:0] high_q;  // edges since the reset from outside was released

  prim_reset_sync #(.Stages(3)) dut (.clk_i, .rst_ni, .rst_no);

  initial started_q = 1'b0;

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    if (!started_q) assume (!rst_ni);
    high_q <= !rst_ni ? 2'd0 : (high_q == 2'd3) ? 2'd3 : high_q + 2'd1;
    if (started_q) begin
      a_at_once: assert (rst_ni || !rst_no);
      if (rst_ni) a_released: assert (rst_no == (high_q == 2'd3));
      // For the induction.
      if (rst_ni) i_stages: assert (dut.released_q == 3'((4'd1 << high_q) - 4'd1));
    end
  end
endmodule
