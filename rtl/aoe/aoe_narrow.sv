// SPDX-License-Identifier: Apache-2.0 OR MIT
// Cuts the 64-bit words of a link into 32-bit words of a frame. When the link's session ends, the frame that had begun is ended as a
// damaged one.
module aoe_narrow (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        up_i,  // the link has a session

  input  logic        valid_i,
  output logic        ready_o,
  input  logic [63:0] data_i,
  input  logic        last_i,

  output logic        valid_o,  // cannot be held
  output logic [31:0] data_o,
  output logic        last_o,
  output logic        bad_o
);
  logic half_q, inside_q, cut;
  logic [31:0] high_q;
  logic last_q;

  assign cut     = inside_q & ~half_q & ~up_i;
  assign ready_o = ~half_q & ~cut;
  assign valid_o = half_q | valid_i | cut;
  assign data_o  = half_q ? high_q : data_i[31:0];
  assign last_o  = cut | (half_q & last_q);
  assign bad_o   = cut;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      half_q   <= 1'b0;
      inside_q <= 1'b0;
    end else begin
      half_q <= ready_o & valid_i;
      if (valid_o) inside_q <= ~last_o;
    end
  end
  always_ff @(posedge clk_i) if (ready_o) {last_q, high_q} <= {last_i, data_i[63:32]};
endmodule
