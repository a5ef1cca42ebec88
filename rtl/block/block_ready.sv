// SPDX-License-Identifier: Apache-2.0 OR MIT
// Decides when a device may say `ready` again (B14): after it has fallen, only when no request that was under way is left.
//
// A device combines readiness from elsewhere (a crossing, several disks), and their requests end on paths of their own.
// `ready_o` falls with `ready_i`. Two cycles after its last request ended at the latest, it follows `ready_i` again.
module block_ready
  import block_pkg::*;
(
  input  logic clk_i,
  input  logic rst_ni,
  input  logic ready_i,
  input  logic taken_i,  // the host's request was taken
  input  logic ended_i,  // its response was taken
  output logic ready_o,
  output logic idle_o    // no request is under way
);
  logic up_q;
  logic [TagWidth:0] open_q;

  assign ready_o = ready_i & up_q;
  assign idle_o  = open_q == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      up_q   <= 1'b0;
      open_q <= '0;
    end else begin
      up_q <= ready_i & (up_q | idle_o);
      if (taken_i != ended_i) open_q <= taken_i ? open_q + (TagWidth + 1)'(1) : open_q - (TagWidth + 1)'(1);
    end
  end
endmodule
