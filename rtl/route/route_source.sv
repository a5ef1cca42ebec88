// SPDX-License-Identifier: Apache-2.0 OR MIT
// A token bucket with room for one token, in front of a network: a word passes at the earliest `Interval` cycles after the one before
// it. A network's bounds follow from this alone.
//
// Interval  cycles for a new token, 1 or more
module route_source #(
  parameter int unsigned Interval = 32
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic valid_i,
  output logic ready_o,
  output logic valid_o,
  input  logic ready_i
);
  // What the parameters must be.
  if (Interval < 1) begin : gen_bad_interval
    $error("Interval is %0d: 1 or more", Interval);
  end

  localparam int unsigned CountWidth = (Interval > 1) ? $clog2(Interval) : 1;

  logic [CountWidth-1:0] wait_q;  // cycles until the next token

  assign valid_o = valid_i & (wait_q == '0);
  assign ready_o = ready_i & (wait_q == '0);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni)                    wait_q <= '0;
    else if (valid_o && ready_i)    wait_q <= CountWidth'(Interval - 1);
    else if (wait_q != '0)          wait_q <= wait_q - CountWidth'(1);
  end
endmodule
