// SPDX-License-Identifier: Apache-2.0 OR MIT
// sata_writes: for any order of the drive's requests and any pauses of the host, all words of each write leave once and
// in order, and the host never waits for room for a write that was taken. If the writes end early, the words that the host
// still sends are dropped, and none of them leaves as a word of a later write.
module fv_writes
  import block_pkg::*;
(
  input logic       clk_i,
  input logic       rst_ni,
  input logic [1:0] count_i,
  input logic       take_i,
  input logic       take_tag_i,
  input logic       take_start_i,
  input logic       valid_i,
  input logic       start_i,
  input logic       start_tag_i,
  input logic       sent_i,
  input logic       sink_i,  // the outstanding writes end here
  input logic       ready_i
);
  // A ring of two words, with blocks of one word: two blocks fit, three do not.
  logic room, ready, dropped, valid, clear, leaves;
  logic [31:0] data;
  logic       active_q;
  logic [1:0] serial_q;               // of the next write
  logic [1:0] given_q, given_word_q;  // the next word of the host
  logic [1:0] words_q [4];            // of each write
  logic [1:0] open_q;
  logic [1:0] serials_q [2];          // of each tag
  logic [1:0] now_q, left_word_q;
  logic       now_tag_q, started_q, alone_q, sink_q;
  logic [2:0] still_q;                // cycles in which no word of the host is taken and none is offered
  initial started_q = 1'b0;
  logic       took_q, tag_q;  // in the last cycle
  always_ff @(posedge clk_i) {took_q, tag_q} <= {take_i, start_tag_i};

  sata_writes #(.Words(2), .WordsLog2(0), .Places(2)) dut (
    .clk_i, .rst_ni, .count_i(16'(count_i)), .room_o(room), .take_i, .take_tag_i(tag_t'(take_tag_i)), .take_start_i,
    .valid_i, .ready_o(ready), .data_i(32'({given_q, given_word_q})), .sink_i(sink_q), .dropped_o(dropped), .clear_i(clear),
    .start_i, .start_tag_i(tag_t'(start_tag_i)), .active_i(leaves), .sent_i, .valid_o(valid), .ready_i, .data_o(data)
  );

  assign clear  = sink_q & dropped;
  assign leaves = active_q & (left_word_q != words_q[now_q]);
  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      active_q     <= 1'b0;
      alone_q      <= 1'b0;
      sink_q       <= 1'b0;
      serial_q     <= '0;
      given_q      <= '0;
      given_word_q <= '0;
      open_q       <= '0;
      still_q      <= '0;
    end else begin
      // The command layer and the host.
      assume (!take_i || (room && !open_q[take_tag_i] && (count_i != '0)));
      // A setup names its tag before it begins, and none begins in the cycle after a request was taken.
      assume (!start_i || ((start_tag_i == tag_q) && !took_q));
      assume (!take_start_i || (take_i && (open_q == '0)));
      assume (!start_i || (open_q[start_tag_i] && !active_q));
      assume (!sent_i || (active_q && (left_word_q == words_q[now_q])));
      assume (!valid_i || (given_q != serial_q));
      assume (!sink_q || !(take_i || start_i || sent_i));
      if (take_i) begin
        open_q[take_tag_i]    <= 1'b1;
        serials_q[take_tag_i] <= serial_q;
        words_q[serial_q]     <= count_i;
        serial_q              <= serial_q + 2'd1;
        alone_q               <= count_i == 2'd3;
      end
      if (valid_i && ready) begin
        given_word_q <= given_word_q + 2'd1;
        if (given_word_q + 2'd1 == words_q[given_q]) begin
          given_word_q <= '0;
          given_q      <= given_q + 2'd1;
        end
      end
      a_room: assert (!valid_i || ready || alone_q);
      still_q <= (active_q && valid_i && !ready && !valid) ? still_q + 3'd1 : '0;
      a_moves: assert (still_q < 3'd4);
      a_all: assert (!dropped || (given_q == serial_q));
      if (start_i || take_start_i) begin
        active_q    <= 1'b1;
        now_q       <= take_start_i ? serial_q : serials_q[start_tag_i];
        now_tag_q   <= take_start_i ? take_tag_i : start_tag_i;
        left_word_q <= '0;
      end
      if (active_q && valid && !sink_q) begin
        a_some:  assert (left_word_q != words_q[now_q]);
        a_words: assert (data == 32'({now_q, left_word_q}));
        if (ready_i) left_word_q <= left_word_q + 2'd1;
      end
      if (sent_i) begin
        active_q          <= 1'b0;
        open_q[now_tag_q] <= 1'b0;
      end
      sink_q <= sink_q ? !dropped : sink_i;
      if (clear) begin
        active_q <= 1'b0;
        open_q   <= '0;
      end
    end
  end
endmodule
