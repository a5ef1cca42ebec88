// SPDX-License-Identifier: Apache-2.0 OR MIT
// Parts of the PHY on separate pins: the two functions of the code, and out-of-band signals.
module sata_parts_sim
  import sata_pkg::*;
  import sata_code_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_ni,

  input  logic       k,
  input  logic [7:0] data,
  input  logic       positive,
  output logic [9:0] encoded,
  output logic       encoded_positive,

  input  logic [9:0] symbol,
  output logic       decoded_k, decoded_positive, bad_code, bad_disparity,
  output logic [7:0] decoded,

  input  logic [1:0] rate,
  input  logic       idle,
  output logic       init,
  output logic       wake,
  input  logic       send,
  input  logic       is_wake,
  output logic       burst,
  output logic       done
);
  assign {encoded_positive, encoded} = encode(k, data, positive);
  assign {decoded_positive, bad_code, bad_disparity, decoded_k, decoded} = decode(symbol, positive);

  sata_oob u_oob (
    .clk_i, .rst_ni, .rate_i(rate_e'(rate)), .idle_i(idle), .init_o(init), .wake_o(wake), .send_i(send),
    .is_wake_i(is_wake), .burst_o(burst), .done_o(done)
  );
endmodule
