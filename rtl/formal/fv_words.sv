// SPDX-License-Identifier: Apache-2.0 OR MIT
// Compares the scrambler and the CRC with the numbers in the specification: the scrambler's first dwords
// after a SOF, and the sample frame, a write command whose CRC is 319FFF6F.
module fv_words
  import sata_pkg::*;
(
  input logic clk_i
);
  localparam logic [31:0] Pattern [12] = '{
    32'hC2D2_768D, 32'h1F26_B368, 32'hA508_436C, 32'h3452_D354, 32'h8A55_9502, 32'hBB1A_BE1B,
    32'hFA56_B73D, 32'h53F6_0B1B, 32'hF080_9C41, 32'h747F_C34A, 32'hBE86_5291, 32'h7A6F_A7B6};
  localparam logic [31:0] Frame [5] = '{32'h0030_8027, 32'hE123_4567, 32'h0, 32'h2, 32'h0};

  logic [3:0]  index_q = '0;
  logic [15:0] state_q = ScrambleSeed;
  logic [31:0] crc_q   = CrcSeed;
  scramble_t   now;
  assign now = scramble(state_q);

  always_ff @(posedge clk_i) begin
    if (index_q < 4'd12) begin
      a_pattern: assert (now.word == Pattern[index_q]);
      index_q <= index_q + 4'd1;
      state_q <= now.state;
    end
    if (index_q < 4'd5)  crc_q <= crc(crc_q, Frame[index_q[2:0]]);
    if (index_q == 4'd5) begin
      a_crc: assert (crc_q == 32'h319F_FF6F);
      a_scrambled: assert ((crc_q ^ now.word) == 32'h8A85_4174);
      crc_q <= crc(crc_q, crc_q);
    end
    if (index_q == 4'd6) a_residue: assert (crc_q == '0);
  end
endmodule
