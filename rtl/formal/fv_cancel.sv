// block_cancel: a device is cancelled only when the host cancels and only while it has something under way; once begun, a
// cancel stays until it has nothing (B13); and it begins in the next cycle.
module fv_cancel
  import block_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,
  input logic cancel_i,
  input logic taken_i,
  input logic ended_i
);
  logic cancel_o;
  block_cancel dut (.*);

  logic started_q, cancelled_q, wanted_q;
  logic [TagWidth:0] open_q;
  initial started_q = 1'b0;

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      open_q      <= '0;
      cancelled_q <= 1'b0;
      wanted_q    <= 1'b0;
    end else begin
      // Tags are free, and a response is of an earlier request (B2, B7).
      assume (!taken_i || (open_q < (TagWidth + 1)'(NumTags)));
      assume (!ended_i || (open_q != '0));
      open_q      <= open_q + (TagWidth + 1)'(taken_i) - (TagWidth + 1)'(ended_i);
      cancelled_q <= cancel_o;
      wanted_q    <= cancel_i;

      a_only_under_way: assert (!cancel_o || (open_q != '0));
      a_until_idle:     assert (!cancelled_q || (open_q == '0) || cancel_o);
      a_only_if_wanted: assert (!cancel_o || cancelled_q || wanted_q);
      a_soon:           assert (!wanted_q || (open_q == '0) || cancel_o);
      i_open:           assert (dut.open_q == open_q && open_q <= (TagWidth + 1)'(NumTags));
    end
  end
endmodule
