// SPDX-License-Identifier: Apache-2.0 OR MIT
// Takes frames apart: the header, the data by their index, and in the end whether the frame was whole.
//
// Never makes the line wait. The header is shown for one cycle, in which the owner says how many words of data must follow and whether
// a CRC32C is behind them; more words (padding) are ignored. The data arrive before it is known whether they are right: the owner
// uses them after `end_o` with `good_o`. Frames without a whole header are dropped.
//
// DataWords  the longest data
module aoe_receive
  import aoe_pkg::*;
#(
  parameter int unsigned DataWords = 256,
  localparam int unsigned CountWidth = $clog2(DataWords + 1)
) (
  input  logic                  clk_i,
  input  logic                  rst_ni,

  input  logic                  rx_valid_i,
  input  logic [31:0]           rx_data_i,
  input  logic                  rx_last_i,
  input  logic                  rx_bad_i,  // with the last word: the line found the frame damaged

  output logic                  head_o,
  output header_t               header_o,  // valid with `head_o`
  input  logic [CountWidth-1:0] words_i,   // with `head_o`
  input  logic                  check_i,   // with `head_o`

  output logic                  data_valid_o,
  output logic [CountWidth-1:0] data_index_o,
  output logic [31:0]           data_o,
  output logic                  end_o,     // later than `head_o` and the data
  output logic                  good_o
);
  typedef logic [CountWidth:0] index_t;
  localparam logic [3:0] Body = 4'(HeaderWords);

  // The first stage: the header's words, each word's number in its frame.
  words_t      header_q;
  logic [3:0]  number_q, one_number_q;
  logic        one_valid_q, one_last_q, one_bad_q;
  logic [31:0] one_word_q;

  assign head_o   = one_valid_q & (one_number_q == Body - 4'd1);
  assign header_o = from_words(header_q);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      number_q    <= '0;
      one_valid_q <= 1'b0;
    end else begin
      one_valid_q <= rx_valid_i;
      if (rx_valid_i) number_q <= rx_last_i ? '0 : (number_q == Body) ? Body : number_q + 4'd1;
    end
  end

  always_ff @(posedge clk_i) begin
    one_number_q <= number_q;
    one_word_q   <= rx_data_i;
    one_last_q   <= rx_last_i;
    one_bad_q    <= rx_bad_i;
    if (rx_valid_i && (number_q != Body)) header_q[number_q] <= rx_data_i;
  end

  // The second stage: the data's indices, the checksum.
  logic        two_valid_q, two_last_q, two_bad_q, two_body_q, two_sum_q, head_q, check_q, same_q;
  logic [31:0] two_word_q, crc_q, crc_next;
  logic        restart_q;
  logic [CountWidth-1:0] words_q;
  index_t      index_q, next_index;
  logic        is_data, is_check, same, enough;

  assign is_data      = two_body_q & (index_q < index_t'(words_q));
  assign is_check     = two_body_q & check_q & (index_q == index_t'(words_q));
  assign same         = is_check ? (two_word_q == ~crc_q) : same_q;
  assign next_index   = (two_body_q && (index_q != '1)) ? index_q + index_t'(1) : index_q;
  assign enough       = next_index >= index_t'(words_q) + index_t'(check_q);
  assign data_valid_o = two_valid_q & is_data;
  assign data_index_o = CountWidth'(index_q);
  assign data_o       = two_word_q;

  hwfs_crc #(.Width(32)) u_crc (.data_i(two_word_q ^ (restart_q ? '1 : crc_q)), .crc_o(crc_next));

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      two_valid_q <= 1'b0;
      head_q      <= 1'b0;
      end_o       <= 1'b0;
    end else begin
      two_valid_q <= one_valid_q;
      if (head_o)                         head_q <= 1'b1;
      else if (two_valid_q && two_last_q) head_q <= 1'b0;
      end_o <= two_valid_q & two_last_q & head_q;
    end
  end

  always_ff @(posedge clk_i) begin
    two_word_q <= one_word_q;
    two_last_q <= one_last_q;
    two_bad_q  <= one_bad_q;
    two_body_q <= one_number_q == Body;
    two_sum_q  <= one_number_q >= 4'(CheckFrom);
    restart_q  <= one_number_q == 4'(CheckFrom);
    if (two_valid_q && two_sum_q && (!two_body_q || is_data)) crc_q <= crc_next;
    if (two_valid_q) begin
      index_q <= next_index;
      same_q  <= same;
    end
    if (head_o) begin
      words_q <= words_i;
      check_q <= check_i;
      index_q <= '0;
      same_q  <= 1'b0;
    end
    good_o <= enough & (same | ~check_q) & ~two_bad_q;
  end
endmodule
