// SPDX-License-Identifier: Apache-2.0 OR MIT
// sata_link: two links that are connected to each other. For any pauses of the sender's words and the receiver's
// room, every word of a frame arrives once, in order and unchanged; the receiver accepts the frame, and the
// sender is notified.
module fv_link
  import sata_pkg::*;
(
  input logic       clk_i,
  input logic       rst_ni,
  input logic       valid_i,   // the sender has a word
  input logic       room_i,    // the receiver has room
  input logic       refuse_i,  // the receiver refuses the frame
  input logic [1:0] length_i
);
  word_t to, back;
  logic  frame_q, ended_q, ready, tx_end, rx_start, rx_valid, rx_end, rx_good, spare_valid;
  sent_e sent;
  logic [31:0] data, word;
  logic [2:0]  index_q, count_q;
  logic [1:0]  length_q;
  logic        refuse_q, started_q;
  initial started_q = 1'b0;

  assign data = {29'h0123_4567, index_q};

  sata_link #(.AlignLog2(3)) u_from (
    .clk_i, .rst_ni, .up_i(1'b1), .rx_i('{bad: 1'b0, word: back}), .tx_o(to),
    .tx_frame_i(frame_q), .tx_valid_i(valid_i), .tx_ready_o(ready), .tx_data_i(data),
    .tx_last_i(index_q == 3'(length_q)), .tx_end_o(tx_end), .tx_sent_o(sent),
    .rx_start_o(), .rx_valid_o(spare_valid), .rx_data_o(), .rx_end_o(), .rx_good_o(), .rx_room_i(1'b1),
    .rx_refuse_i(1'b0), .escape_i(1'b0)
  );
  sata_link #(.AlignLog2(3)) u_to (
    .clk_i, .rst_ni, .up_i(1'b1), .rx_i('{bad: 1'b0, word: to}), .tx_o(back),
    .tx_frame_i(1'b0), .tx_valid_i(1'b0), .tx_ready_o(), .tx_data_i('0), .tx_last_i(1'b0), .tx_end_o(), .tx_sent_o(),
    .rx_start_o(rx_start), .rx_valid_o(rx_valid), .rx_data_o(word), .rx_end_o(rx_end), .rx_good_o(rx_good),
    .rx_room_i(room_i), .rx_refuse_i(refuse_q), .escape_i(1'b0)
  );

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      frame_q  <= 1'b1;
      ended_q  <= 1'b0;
      index_q  <= '0;
      count_q  <= '0;
      length_q <= length_i;
      refuse_q <= refuse_i;
    end else begin
      if (valid_i && ready) index_q <= index_q + 3'd1;
      a_sent_in_bounds: assert (index_q <= 3'(length_q) + 3'd1);
      a_nothing_back: assert (!spare_valid);
      if (rx_start) a_one_frame: assert ((count_q == '0) && !ended_q);
      if (rx_valid) begin
        count_q <= count_q + 3'd1;
        a_word: assert (word == {29'h0123_4567, count_q});
        a_was_sent: assert (count_q < index_q);
      end
      if (rx_end) begin
        ended_q <= 1'b1;
        a_all: assert (count_q == 3'(length_q) + 3'd1);
        a_good: assert (rx_good != refuse_q);
      end
      if (tx_end) begin
        frame_q <= 1'b0;
        a_heard: assert (ended_q && (sent == (refuse_q ? SentError : SentOk)));
      end
    end
  end
endmodule
