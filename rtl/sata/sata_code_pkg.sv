// SPDX-License-Identifier: Apache-2.0 OR MIT
// The 8b/10b code of the Serial ATA line (IEEE 802.3, clause 36.2.4; Serial ATA 3.x, clause "Encoding").
//
// Bit 0 of a symbol (a) is the first on the line. Disparity: 1 positive, 0 negative. `decode` accepts exactly the
// symbols that `encode` produces at that disparity; `fv_code` proves this.
package sata_code_pkg;
  typedef struct packed {
    logic       positive;  // the running disparity after the symbol
    logic [9:0] bits;
  } symbol_t;

  typedef struct packed {
    logic       positive;
    logic       bad_code;       // six or four bits that do not occur in any symbol
    logic       bad_disparity;  // the symbol is valid only at the other disparity
    logic       k;
    logic [7:0] data;
  } decoded_t;

  // abcdei for each EDCBA at negative disparity, a leftmost. At positive disparity the code is the complement if its
  // numbers of ones and zeros differ, and for D.7.
  localparam logic [5:0] Six [32] = '{
    6'b100111, 6'b011101, 6'b101101, 6'b110001, 6'b110101, 6'b101001, 6'b011001, 6'b111000,
    6'b111001, 6'b100101, 6'b010101, 6'b110100, 6'b001101, 6'b101100, 6'b011100, 6'b010111,
    6'b011011, 6'b100011, 6'b010011, 6'b110010, 6'b001011, 6'b101010, 6'b011010, 6'b111010,
    6'b110011, 6'b100110, 6'b010110, 6'b110110, 6'b001110, 6'b101110, 6'b011110, 6'b101011};
  localparam logic [5:0] SixControl = 6'b001111;  // for K28
  // fghj for each HGF, likewise; x.3 is complemented, too, and x.7 has an alternate code that avoids five equal bits.
  localparam logic [3:0] Four [8] = '{
    4'b1011, 4'b1001, 4'b0101, 4'b1100, 4'b1101, 4'b1010, 4'b0110, 4'b1110};
  localparam logic [3:0] FourOther = 4'b0111;

  function automatic logic more_ones(logic [5:0] bits);
    return $countones(bits) > 3;
  endfunction
  function automatic logic more_zeros(logic [5:0] bits);
    return $countones(bits) < 3;
  endfunction

  // Whether x.7 uses its alternate code after this EDCBA and disparity.
  function automatic logic other_seven(logic [4:0] low, logic positive);
    return positive ? (low == 5'd11) || (low == 5'd13) || (low == 5'd14)
                    : (low == 5'd17) || (low == 5'd18) || (low == 5'd20);
  endfunction

  function automatic symbol_t encode(logic k, logic [7:0] data, logic positive);
    logic [5:0] six;
    logic [3:0] four;
    logic       middle, is_k28;
    is_k28 = k & (data[4:0] == 5'd28);
    six    = is_k28 ? SixControl : Six[data[4:0]];
    middle = positive ^ more_ones(six);
    if (positive && (more_ones(six) || (six == Six[7]))) six = ~six;
    four = Four[data[7:5]];
    if ((data[7:5] == 3'd7) && (k || other_seven(data[4:0], middle))) four = FourOther;
    unique case (data[7:5])
      3'd0, 3'd3, 3'd4, 3'd7: if (middle) four = ~four;
      default:                if (is_k28 && !middle) four = ~four;
    endcase
    return '{positive: middle ^ ((data[7:5] == 3'd0) | (data[7:5] == 3'd4) | (data[7:5] == 3'd7)),
             bits: {four[0], four[1], four[2], four[3], six[0], six[1], six[2], six[3], six[4], six[5]}};
  endfunction

  // Decode six and four bits with the tables above: {known, value}.
  function automatic logic [63:0][5:0] six_meanings();
    six_meanings = '0;
    for (int unsigned i = 0; i < 32; i++) begin
      six_meanings[Six[i]] = {1'b1, 5'(i)};
      if (more_ones(Six[i]) || (i == 7)) six_meanings[~Six[i]] = {1'b1, 5'(i)};
    end
    six_meanings[SixControl]  = {1'b1, 5'd28};
    six_meanings[~SixControl] = {1'b1, 5'd28};
  endfunction
  function automatic logic [15:0][3:0] four_meanings();
    four_meanings = '0;
    for (int unsigned i = 0; i < 8; i++) begin
      four_meanings[Four[i]] = {1'b1, 3'(i)};
      if ((i == 0) || (i == 3) || (i == 4) || (i == 7)) four_meanings[~Four[i]] = {1'b1, 3'(i)};
    end
    four_meanings[FourOther]  = {1'b1, 3'd7};
    four_meanings[~FourOther] = {1'b1, 3'd7};
  endfunction
  localparam logic [63:0][5:0] SixMeaning  = six_meanings();
  localparam logic [15:0][3:0] FourMeaning = four_meanings();

  function automatic decoded_t decode(logic [9:0] bits, logic positive);
    logic [5:0] six;
    logic [3:0] four, plain;
    logic       six_known, four_known, middle, is_k28, is_other, is_other_k;
    logic [4:0] low;
    logic [2:0] high;
    decoded_t   result;
    six  = {bits[0], bits[1], bits[2], bits[3], bits[4], bits[5]};
    four = {bits[6], bits[7], bits[8], bits[9]};
    // For the disparity after a sub-block, IEEE 802.3 counts 000111 and 0011 as positive.
    middle   = more_ones(six) | (six == ~Six[7]) | (positive & ~more_zeros(six) & (six != Six[7]));
    result.positive = (four == 4'b0011) | ($countones(four) > 2) | (middle & ($countones(four) == 2) & (four != 4'b1100));
    is_k28   = (six == SixControl) | (six == ~SixControl);
    // After 110000 every code is the complement of the code after 001111.
    plain    = (six == ~SixControl) ? ~four : four;
    {six_known, low}   = SixMeaning[six];
    {four_known, high} = FourMeaning[plain];
    is_other   = (four == FourOther) | (four == ~FourOther);
    is_other_k = is_other & ((low == 5'd23) | (low == 5'd27) | (low == 5'd29) | (low == 5'd30)) &
                 (more_ones(six) == (four == ~FourOther));
    result.k    = is_k28 | is_other_k;
    result.data = {high, low};
    result.bad_code = ~six_known | ~four_known;
    if (high == 3'd7) begin
      if (is_k28)        result.bad_code |= ~is_other;
      else if (is_other) result.bad_code |= ~is_other_k & ~other_seven(low, four == ~FourOther);
      else               result.bad_code |= other_seven(low, four == ~Four[7]);
    end
    result.bad_disparity = (positive ? (more_ones(six) | (six == Six[7])) : (more_zeros(six) | (six == ~Six[7]))) |
                           (middle ? ((four == 4'b1100) | ($countones(four) > 2))
                                   : ((four == 4'b0011) | ($countones(four) < 2)));
    return result;
  endfunction
endpackage
