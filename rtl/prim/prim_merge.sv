// SPDX-License-Identifier: Apache-2.0 OR MIT
// Merges two streams into one. They take turns when both have an entry to send. An offered entry
// stays until it is taken, as the ready/valid handshake requires.
//
// Owns no entry: the path from the inputs to the output is combinational.
//
// Width  bits of an entry
module prim_merge #(
  parameter int unsigned Width = 8
) (
  input  logic                  clk_i,
  input  logic                  rst_ni,

  input  logic [1:0]            valid_i,
  output logic [1:0]            ready_o,
  input  logic [1:0][Width-1:0] data_i,

  output logic                  valid_o,
  input  logic                  ready_i,
  output logic [Width-1:0]      data_o
);
  // What the parameters must be.
  if (Width < 1) begin : gen_bad_width
    $error("Width is %0d: 1 or more", Width);
  end

  logic choice, held_q, last_q;

  // The other side has priority; an offer that was not taken does not change.
  always_comb begin
    choice = last_q;
    if (!held_q) choice = valid_i[~last_q] ? ~last_q : last_q;
  end

  assign valid_o = valid_i[choice];
  assign data_o  = data_i[choice];
  assign ready_o = {ready_i & choice, ready_i & ~choice};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      held_q <= 1'b0;
      last_q <= 1'b0;
    end else begin
      held_q <= valid_o & ~ready_i;
      if (valid_o) last_q <= choice;
    end
  end
endmodule
