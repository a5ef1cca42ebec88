// SPDX-License-Identifier: Apache-2.0 OR MIT
// sata_code_pkg: decoding returns what was encoded, and accepts only symbols that encoding produces. The line's
// disparity is bounded: after each symbol it equals `positive`. No run of equal bits is longer than five, and a comma
// occurs only at the beginning of a K28, as word alignment requires (except K28.7, which SATA does not use).
module fv_code
  import sata_code_pkg::*;
(
  input logic       clk_i,
  input logic       rst_ni,
  input logic       k_i,
  input logic [7:0] data_i,
  input logic [9:0] line_i,
  input logic       positive_i
);
  logic       positive_q, is_legal;
  logic [8:0] tail_q;  // the line's last bits
  symbol_t    sent;
  decoded_t   back, heard;
  logic [18:0] line;
  int         ones;
  logic       long_run, odd_comma;

  assign is_legal = ~k_i | ((data_i[4:0] == 5'd28) & (data_i[7:5] != 3'd7)) | ((data_i[7:5] == 3'd7) & ((data_i[4:0] == 5'd23) |
                    (data_i[4:0] == 5'd27) | (data_i[4:0] == 5'd29) | (data_i[4:0] == 5'd30)));
  assign sent  = encode(k_i, data_i, positive_q);
  assign back  = decode(sent.bits, positive_q);
  assign heard = decode(line_i, positive_i);
  assign line  = {sent.bits, tail_q};
  assign ones  = $countones(sent.bits);

  always_comb begin
    {long_run, odd_comma} = '0;
    for (int unsigned i = 0; i < 14; i++) long_run |= (line[i+:6] == '0) | (line[i+:6] == '1);
    for (int unsigned i = 0; i < 13; i++)
      odd_comma |= ((line[i+:7] == 7'b1111100) | (line[i+:7] == 7'b0000011)) & ((i != 9) | ~k_i | (data_i[4:0] != 5'd28));
  end

  logic started_q;
  initial started_q = 1'b0;
  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    assume (is_legal);
    if (!rst_ni) begin
      positive_q <= 1'b0;
      tail_q     <= 9'b0_1010_1010;
    end else begin
      positive_q <= sent.positive;
      tail_q     <= sent.bits[9:1];
      a_back: assert ({back.k, back.data} == {k_i, data_i});
      a_good: assert (!back.bad_code && !back.bad_disparity);
      a_disparity: assert (back.positive == sent.positive);
      // Only from -1 to +1 and back.
      a_bounded: assert ((ones == 5) ? (sent.positive == positive_q)
                                     : ((ones == (positive_q ? 4 : 6)) && (sent.positive != positive_q)));
      a_run: assert (!long_run);
      a_comma: assert (!odd_comma);
    end
    if (!heard.bad_code && !heard.bad_disparity)
      a_strict: assert (encode(heard.k, heard.data, positive_i) == {heard.positive, line_i});
  end
endmodule
