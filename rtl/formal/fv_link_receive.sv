// SPDX-License-Identifier: Apache-2.0 OR MIT
// link_receive, behind a line that delivers each frame unchanged, damaged or not at all: every word of the stream leaves once, in order
// and unchanged, for any pauses of the receiver; a good frame that begins with the next word is always accepted; a
// retry is requested exactly when a good frame shows that words are missing; receipts count what has happened; a received
// word is offered in the second cycle after its frame's end.
//
// A word's content is its number. Damaged frames have any header and any words. A good frame has the words of the stream from its
// `sequence_` on, and only those for which the receiver has reported room: fv_link_send proves this.
module fv_link_receive
  import link_pkg::*;
#(
  parameter int unsigned WindowLog2 = 2
) (
  input logic        clk_i,
  input logic        rst_ni,
  input logic        up_i,
  input kind_e       kind_i,
  input logic        frame_good_i,
  input logic        end_good_i,
  input logic [63:0] data_i,
  input logic        ready_i,
  input logic [1:0]  last_i
);
  localparam int unsigned Depth = 1 << WindowLog2;
  typedef logic [WindowLog2+1:0] index_t;

  symbol_t  symbol;
  header_t  header, peer;
  receipt_t receipt;
  logic     peer_valid, valid, last, good;
  logic [63:0] data;

  link_receive #(.WindowLog2(WindowLog2)) dut (
    .clk_i, .rst_ni, .up_i, .symbol_i(symbol), .good_i(good), .peer_valid_o(peer_valid), .peer_o(peer),
    .receipt_o(receipt), .rx_valid_o(valid), .rx_ready_i(ready_i), .rx_data_o(data), .rx_last_o(last)
  );

  // The frame under way: whether it is good, its first word, its words so far; whether it began in this session.
  logic   started_q, open_q, good_q, inside_q, attempt_q, greets_q;
  index_t first_q, words_q;
  // The stream: which words end a packet; how many are received and given away.
  logic [1:0] last_q;
  index_t received_q, given_q;
  logic   retry_q, waits_q, offered_q;
  logic [64:0] offer_q;
  initial started_q = 1'b0;

  function automatic logic ends(index_t number, logic [1:0] which);
    return number[1:0] == which;
  endfunction

  index_t next;
  assign next   = first_q + words_q;
  assign symbol = '{kind: kind_i, data: data_i};
  assign header = data_i[55:0];
  assign good   = (kind_i == SymEnd) & end_good_i;

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      open_q     <= 1'b0;
      last_q     <= last_i;
      {received_q, given_q, retry_q, waits_q, offered_q} <= '0;
    end else begin
      // --- The line ---------------------------------------------------------------------------------------------
      if (good) assume (open_q && good_q && (inside_q || !up_i));
      if (!up_i) inside_q <= 1'b0;
      unique case (kind_i)
        SymStart: begin
          open_q    <= 1'b1;
          good_q    <= frame_good_i;
          inside_q  <= up_i;
          first_q   <= index_t'(header.sequence_);
          attempt_q <= header.attempt;
          greets_q  <= ~header.up;
          words_q   <= '0;
          // A sender is never further ahead or behind than the window.
          if (frame_good_i && up_i) begin
            assume (index_t'(index_t'(header.sequence_) - received_q + index_t'(Depth)) <= index_t'(2 * Depth));
            assume (index_t'(index_t'(header.sequence_) - given_q + index_t'(Depth)) <= index_t'(2 * Depth + 1));
          end
        end
        SymData: if (open_q) begin
          words_q <= words_q + index_t'(1);
          if (good_q && inside_q && up_i) begin
            assume (index_t'(data_i) == next);
            // One frame has at most the words of a window, and no word behind one that ends a packet.
            assume (index_t'(next - index_t'(receipt.taken) + index_t'(Depth)) < index_t'(2 * Depth));
            assume (words_q < index_t'(Depth));
            assume ((words_q == '0) || !ends(next - index_t'(1), last_q));
          end
        end
        SymEnd: begin
          open_q <= 1'b0;
          if (good && inside_q && up_i) assume (data_i[0] == ((words_q != '0) && ends(next - index_t'(1), last_q)));
        end
        default: open_q <= 1'b0;
      endcase

      // --- What the receiver does -------------------------------------------------------------------------------
      if (kind_i == SymEnd) a_header: assert (peer_valid == good);
      offered_q <= valid & ~ready_i & up_i;
      offer_q   <= {last, data};
      waits_q   <= (received_q != given_q) & ~valid;
      if (valid && ready_i) given_q <= given_q + index_t'(1);
      if (up_i && good && (first_q == received_q)) received_q <= next;
      else if (up_i && good && (attempt_q == retry_q) && !greets_q) retry_q <= ~retry_q;
      if (!up_i) {received_q, given_q, retry_q, waits_q, offered_q} <= '0;

      if (valid) begin
        a_word: assert (index_t'(data) == given_q);
        a_last: assert (last == ends(given_q, last_q));
        a_received: assert (received_q != given_q);
      end
      if (offered_q && up_i) a_stays: assert (valid && ({last, data} == offer_q));
      if (waits_q && up_i) a_soon: assert (valid);
      a_receipt: assert ((index_t'(receipt.received) == received_q) && (receipt.retry == retry_q));
      if (up_i) a_taken: assert (index_t'(receipt.taken) == given_q + index_t'(valid));
      else      a_none:  assert (!valid);
      a_room:    assert (index_t'(received_q - index_t'(receipt.taken)) <= index_t'(Depth));
    end
  end
endmodule
