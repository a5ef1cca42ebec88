// SPDX-License-Identifier: Apache-2.0 OR MIT
// link_send, in front of a receiver that keeps fv_link_receive's rules at the end of a line of any delay and loss: each frame has the
// stream's words from its `sequence_` on, unchanged; a word is kept until it is received; no word is sent for which the receiver
// has not reported room; the first frame after a retry begins with the word that is missing; frames are bounded, and a
// word that can be sent is in the next frame.
//
// A word's content is its number. The receiver's reports are late by any time: what they say was true once.
module fv_link_send
  import link_pkg::*;
#(
  parameter int unsigned WindowLog2 = 2,
  parameter int unsigned FrameWords = 3
) (
  input logic       clk_i,
  input logic       rst_ni,
  input logic       up_i,
  input logic       valid_i,
  input logic       slot_i,
  input logic       peer_valid_i,
  input logic [3:0] received_i,
  input logic [3:0] taken_i,
  input logic       retry_i,
  input logic [1:0] last_i
);
  localparam int unsigned Depth = 1 << WindowLog2;
  typedef logic [WindowLog2+1:0] index_t;

  symbol_t  symbol;
  header_t  header;
  receipt_t peer;
  logic     ready, back, last;

  // The stream, and what the other side has reported last.
  logic [1:0] last_q;
  index_t     pushed_q, received_q, taken_q;
  logic       started_q, retry_q;
  // The next word to send; behind the last word that has reached the other side, if no frame was lost.
  index_t     next_q, reached_q, first_q;
  logic       attempt_q, up_q;
  logic [3:0] words_q, waits_q;
  kind_e      kind_q;
  logic       ended_q;
  initial started_q = 1'b0;

  function automatic logic ends(index_t number, logic [1:0] which);
    return number[1:0] == which;
  endfunction

  index_t number;
  assign number = first_q + index_t'(words_q);
  assign last   = ends(pushed_q, last_q);
  assign peer   = '{taken: 16'(taken_i), received: 16'(received_i), retry: retry_i};
  assign header = symbol.data[55:0];

  link_send #(.WindowLog2(WindowLog2), .FrameWords(FrameWords)) dut (
    .clk_i, .rst_ni, .up_i, .heard_i(1'b1), .tx_valid_i(valid_i), .tx_ready_o(ready), .tx_data_i(64'(pushed_q)),
    .tx_last_i(last), .receipt_i('0), .peer_valid_i, .peer_i(peer), .slot_i, .symbol_o(symbol), .back_o(back)
  );

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      last_q <= last_i;
      up_q   <= 1'b0;
      kind_q <= SymIdle;
      {pushed_q, received_q, taken_q, next_q, reached_q, retry_q, attempt_q, words_q, waits_q, ended_q} <= '0;
    end else begin
      // A session begins long after the one before: no frame is left of it.
      up_q <= up_i;
      if (up_i && !up_q) assume (symbol.kind != SymData);

      // --- The receiver: reports only advance, and never beyond what was sent -------------------------------------
      if (peer_valid_i) begin
        assume (index_t'(index_t'(received_i) - received_q) <= index_t'(reached_q - received_q));
        assume (index_t'(index_t'(taken_i) - taken_q) <= index_t'(index_t'(received_i) - taken_q));
        // It inverts `retry` once for each attempt, when words are missing.
        assume ((retry_i == retry_q) || (retry_q == attempt_q));
        received_q <= index_t'(received_i);
        taken_q    <= index_t'(taken_i);
        retry_q    <= retry_i;
        // Until the sender has gone back, no frame begins with the missing word.
        if (retry_i != attempt_q) reached_q <= index_t'(received_i);
      end

      // --- The frames ------------------------------------------------------------------------------------------------
      if (valid_i && ready) pushed_q <= pushed_q + index_t'(1);
      a_kept: assert (index_t'(pushed_q - received_q) <= index_t'(Depth));
      if (up_i) a_ready: assert (ready == (index_t'(pushed_q - received_q) != index_t'(Depth)));
      if (slot_i) begin
        kind_q <= symbol.kind;
        unique case (symbol.kind)
          SymStart: begin
            a_between: assert (kind_q == SymIdle);
            a_header:  assert ((index_t'(header.sequence_) == next_q) && (header.attempt == attempt_q) && (header.up == up_i));
            first_q <= next_q;
            words_q <= '0;
            ended_q <= 1'b0;
          end
          SymData: begin
            a_follows: assert ((kind_q == SymStart) || (kind_q == SymData));
            // Also at the end of a session: the other side may still be in it.
            a_content: assert (index_t'(symbol.data) == number);
            a_whole:   assert (!ended_q);
            words_q <= words_q + 4'd1;
            next_q  <= next_q + index_t'(1);
            ended_q <= ends(number, last_q);
            if (up_i) begin
              a_number: assert (number == next_q);
              // Its numbers, relative to what was received: kept, pushed, and with room.
              a_pushed: assert (index_t'(next_q - received_q) < index_t'(pushed_q - received_q));
              a_room:   assert (index_t'(next_q - taken_q) < index_t'(Depth));
            end
          end
          SymEnd: begin
            a_after: assert ((kind_q == SymStart) || (kind_q == SymData));
            a_last:  assert (symbol.data[0] == ended_q);
            if ((retry_q == attempt_q) && !(peer_valid_i && (retry_i != attempt_q))) reached_q <= next_q;
          end
          default: begin
            a_back: assert (back == (retry_q != attempt_q));
            if (back) begin
              next_q    <= received_q;
              attempt_q <= retry_q;
            end
          end
        endcase
        a_bounded: assert (words_q <= 4'(FrameWords));
        // End, idle and start of a frame are before it at most, or a return.
        waits_q <= ((next_q != pushed_q) && (index_t'(next_q - taken_q) != index_t'(Depth)) && (symbol.kind != SymData) &&
                    (retry_q == attempt_q)) ? waits_q + 4'd1 : '0;
      end
      a_soon: assert (waits_q <= 4'd3);
      if (!up_i) {pushed_q, received_q, taken_q, next_q, reached_q, retry_q, attempt_q, waits_q} <= '0;
    end
  end
endmodule
