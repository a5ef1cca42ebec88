// SPDX-License-Identifier: Apache-2.0 OR MIT
// system_pack: each word of a frame leaves once, in order, in a flit with words of its frame only; `first`, `last` and the count are
// right; and a word that does not complete a flit never waits.
//
// A word's content is whether it is its frame's last one, its number in the frame, and the frame's lowest bit.
module fv_system_pack #(
  parameter int unsigned Lanes = 2,
  localparam int unsigned FlitWidth = 32 * Lanes + $clog2(Lanes) + 2
) (
  input logic clk_i,
  input logic rst_ni,
  input logic valid_i,
  input logic last_i,
  input logic ready_i
);
  logic [2:0] word_q, next_q;
  logic       frame_q, out_q, ready, valid, first, last, count, started_q;
  logic [3:0] under_way_q;  // words
  logic [FlitWidth-1:0] flit;
  logic [Lanes-1:0][31:0] words;
  initial started_q = 1'b0;

  system_pack #(.Lanes(Lanes), .Depth(2)) u_pack (
    .clk_i, .rst_ni, .valid_i, .ready_o(ready), .data_i(32'({last_i, word_q, frame_q})), .last_i, .valid_o(valid), .ready_i, .flit_o(flit)
  );
  assign {words, count, last, first} = flit;

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      word_q      <= '0;
      next_q      <= '0;
      frame_q     <= 1'b0;
      out_q       <= 1'b0;
      under_way_q <= '0;
    end else begin
      if (valid_i) assume (last_i || (word_q != '1));
      if (valid_i && !word_q[0] && !last_i) a_gathers: assert (ready);
      if (valid_i && ready) begin
        word_q <= last_i ? '0 : word_q + 3'd1;
        if (last_i) frame_q <= ~frame_q;
      end
      under_way_q <= under_way_q + 4'(valid_i & ready) - ((valid && ready_i) ? 4'd1 + 4'(count) : 4'd0);
      if (valid) begin
        a_first: assert (first == (next_q == '0));
        a_words: assert ((words[0] == 32'({last & ~count, next_q, out_q})) &&
                         (!count || (words[1] == 32'({last, next_q + 3'd1, out_q}))));
        a_whole: assert (last || count);
        a_known: assert (under_way_q > 4'(count));
      end
      if (valid && ready_i) begin
        next_q <= last ? '0 : next_q + 3'd1 + 3'(count);
        if (last) out_q <= ~out_q;
      end
    end
  end
endmodule
