// SPDX-License-Identifier: Apache-2.0 OR MIT
// system_unpack: flits of a source that come at any time, also while the buffer is full, and of which some are lost on the way, a flit
// and the rest of its frame. A frame leaves whole, once, in order, or ends as a damaged one. Without a loss every frame leaves.
//
// A word's content is its frame's number and its own number in the frame.
module fv_system_unpack #(
  parameter int unsigned Lanes = 2
) (
  input logic clk_i,
  input logic rst_ni,
  input logic valid_i,
  input logic lose_i,   // the flit does not arrive
  input logic last_i,
  input logic count_i   // words of a last flit, less one
);
  typedef logic [1:0] frame_t;
  typedef logic [2:0] word_t;

  frame_t frame_q, least_q, frame;  // the frame that enters; the least that may leave; what leaves
  word_t  flit_q, out_word_q, word, last_word_q [4];
  logic   started_q, full_q, inside_q, losing_q, lost_q, count, out_valid, out_last, out_bad, dropped;
  logic [31:0] data;
  logic [Lanes-1:0][31:0] words;
  initial started_q = 1'b0;

  assign count = count_i | ~last_i;
  for (genvar lane = 0; lane < Lanes; lane++) begin : gen_lane
    assign words[lane] = 32'({frame_q, flit_q[1:0], 1'(lane)});
  end
  system_unpack #(.Lanes(Lanes), .Depth(2)) u_unpack (
    .clk_i, .rst_ni, .valid_i(valid_i & ~lose_i), .ready_o(), .flit_i({words, count, last_i, flit_q == '0}),
    .valid_o(out_valid), .data_o(data), .last_o(out_last), .bad_o(out_bad), .dropped_o(dropped)
  );
  assign frame = data[4:3];
  assign word  = data[2:0];

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      frame_q    <= '0;
      full_q     <= 1'b0;
      flit_q     <= '0;
      least_q    <= '0;
      out_word_q <= '0;
      inside_q   <= 1'b0;
      losing_q   <= 1'b0;
      lost_q     <= 1'b0;
    end else begin
      // Four frames, of up to four flits.
      if (valid_i) begin
        assume (!full_q && (last_i || (flit_q != 3'd3)));
        // A loss lasts until a frame begins.
        if (losing_q && (flit_q != '0)) assume (lose_i);
        losing_q <= lose_i;
        flit_q   <= last_i ? '0 : flit_q + 3'd1;
        if (last_i) begin
          {full_q, frame_q}    <= 3'(frame_q) + 3'd1;
          last_word_q[frame_q] <= {flit_q[1:0], count};
        end
        if (dropped || lose_i) lost_q <= 1'b1;
      end

      if (out_valid) begin
        inside_q   <= ~out_last;
        out_word_q <= out_last ? '0 : out_word_q + 3'd1;
        if (!out_bad && !inside_q) least_q <= frame + 2'd1;
        if (out_bad) begin
          a_loss: assert (lost_q && out_last && inside_q);
        end else begin
          // A frame that ends as damaged also uses its number: none leaves twice.
          a_frame: assert (inside_q ? (frame == least_q - 2'd1) : (frame >= least_q));
          a_all:   assert (lost_q || inside_q || (frame == least_q));
          a_word:  assert (word == out_word_q);
          a_end:   assert (!out_last || (word == last_word_q[frame]));
        end
      end
    end
  end
endmodule
