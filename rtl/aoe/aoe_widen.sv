// SPDX-License-Identifier: Apache-2.0 OR MIT
// Puts two 32-bit words of a frame into one 64-bit word of a link. A frame with an odd number of words gets a zero word at its end, which
// is padding to AoE. A frame during which the link's session ended is dropped to its end, so that its rest is not taken for another.
module aoe_widen (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        up_i,  // the link has a session

  input  logic        valid_i,
  output logic        ready_o,
  input  logic [31:0] data_i,
  input  logic        last_i,

  output logic        valid_o,
  input  logic        ready_i,
  output logic [63:0] data_o,
  output logic        last_o
);
  logic half_q, inside_q, drop_q, whole;
  logic [31:0] low_q;

  // The first half is kept, unless the frame ends with it.
  assign whole   = half_q | last_i;
  assign valid_o = valid_i & whole & ~drop_q;
  assign ready_o = drop_q | ready_i | ~whole;
  assign data_o  = half_q ? {data_i, low_q} : {32'd0, data_i};
  assign last_o  = last_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      half_q   <= 1'b0;
      inside_q <= 1'b0;
      drop_q   <= 1'b0;
    end else begin
      if (valid_i && ready_o) begin
        half_q   <= ~whole;
        inside_q <= ~last_i;
        if (last_i) drop_q <= 1'b0;
      end
      if (!up_i && inside_q && !(valid_i && ready_o && last_i)) drop_q <= 1'b1;
    end
  end
  always_ff @(posedge clk_i) if (valid_i && !half_q) low_q <= data_i;
endmodule
