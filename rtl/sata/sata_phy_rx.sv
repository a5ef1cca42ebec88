// SPDX-License-Identifier: Apache-2.0 OR MIT
// The receiving half of the PHY, in the clock recovered from the line: finds words by their comma, decodes them, and
// removes ALIGN.
//
// Owns the word alignment. It is searched until an ALIGN has been decoded at its position, and again after four damaged
// words with fewer than four good ones between them, or when the line is idle; without alignment no word is passed on.
module sata_phy_rx
  import sata_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic [39:0] bits_i,    // bit 0 was first on the line; with any alignment
  input  logic        idle_i,    // the line is idle (in any clock)

  output logic        locked_o,
  output logic        valid_o,   // a word that is not ALIGN
  output rx_word_t    word_o
);
  import sata_code_pkg::*;

  // --- Comma detection ---------------------------------------------------------------------------------------------
  logic [39:0] last_q, aligned_q;
  logic [79:0] window;
  logic [45:0] changes;  // a comma is 0011111 or 1100000: in changes of the line, 010000
  logic [5:0]  offset_q, found;
  logic        any;

  assign window  = {bits_i, last_q};
  assign changes = window[45:0] ^ window[46:1];
  always_comb begin
    any   = 1'b0;
    found = '0;
    for (int unsigned i = 0; i < 40; i++) begin
      if (changes[i+:6] == 6'b000010) begin
        any   = 1'b1;
        found = 6'(i);
      end
    end
  end

  // --- Decoded -----------------------------------------------------------------------------------------------------
  decoded_t symbol;
  (* ASYNC_REG = "TRUE" *) logic idle_meta_q, idle_q;
  logic positive_q, positive_d, k, bad, is_align;
  logic [31:0] data;

  always_comb begin
    positive_d = positive_q;
    bad        = 1'b0;
    k          = 1'b0;
    for (int unsigned i = 0; i < 4; i++) begin
      symbol       = decode(aligned_q[10*i+:10], positive_d);
      positive_d   = symbol.positive;
      data[8*i+:8] = symbol.data;
      bad |= symbol.bad_code | symbol.bad_disparity | (symbol.k & (i != 0));
      if (i == 0) k = symbol.k;
    end
  end
  assign is_align = ~bad & k & (data == Align);

  logic [1:0] bad_q, good_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {idle_meta_q, idle_q} <= '1;
      offset_q   <= '0;
      positive_q <= 1'b0;
      locked_o   <= 1'b0;
      valid_o    <= 1'b0;
      bad_q      <= '0;
      good_q     <= '0;
    end else begin
      idle_meta_q <= idle_i;
      idle_q      <= idle_meta_q;
      positive_q  <= positive_d;
      valid_o     <= locked_o & ~is_align;
      if (!locked_o) begin
        bad_q  <= '0;
        good_q <= '0;
        if (is_align)  locked_o <= 1'b1;
        else if (any)  offset_q <= found;
      end else if (bad) begin
        bad_q  <= bad_q + 2'd1;
        good_q <= '0;
        if (bad_q == '1) locked_o <= 1'b0;
      end else begin
        good_q <= good_q + 2'd1;
        if (good_q == '1) bad_q <= '0;
      end
      if (idle_q) locked_o <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    last_q    <= bits_i;
    aligned_q <= window[7'(offset_q)+:40];
    word_o    <= '{bad: bad, word: '{k: k, data: data}};
  end
endmodule
