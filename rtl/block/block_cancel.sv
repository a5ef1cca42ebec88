// Cancels what a device has under way, for a host that is further away (rule B13): behind a clock crossing, or in front
// of an array.
//
// `cancel_o` is high only while the device has something under way, and then until it has nothing. A device may take no
// request while it is cancelled: a request that the host counts as under way and that has not reached the device would
// wait for the end of the cancel, which waits for that request. So `cancel_o` falls when the device has nothing, and rises
// again for the next request.
module block_cancel
  import block_pkg::*;
(
  input  logic clk_i,
  input  logic rst_ni,
  input  logic cancel_i,  // until the host has nothing under way
  input  logic taken_i,   // the device takes a request
  input  logic ended_i,   // the device's response is taken
  output logic cancel_o
);
  typedef logic [TagWidth:0] open_t;

  open_t open_q, open_d;
  logic  cancel_q;

  assign open_d   = open_q + open_t'(taken_i) - open_t'(ended_i);
  assign cancel_o = cancel_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      open_q   <= '0;
      cancel_q <= 1'b0;
    end else begin
      open_q   <= open_d;
      cancel_q <= (cancel_i | cancel_q) & (open_d != '0);
    end
  end
endmodule
