// SPDX-License-Identifier: Apache-2.0 OR MIT
// Unpacks the flits of one source into a frame's 32-bit words, as an AoE core takes them.
//
// A frame leaves with all of its words, or ends as a damaged one. Flits may be lost in front of this module (a node that was switched off
// within a frame), or here, if a network that cannot wait brings one while the buffer is full. Where flits are missing, the frame that
// had begun is ended with `bad_o`, and the rest, up to the next first flit, is dropped.
//
// Lanes  words in a flit, as in system_pack
// Depth  flits that may wait
module system_unpack #(
  parameter int unsigned Lanes = 8,
  parameter int unsigned Depth = 8,
  localparam int unsigned CountWidth = $clog2(Lanes),
  localparam int unsigned FlitWidth  = 32 * Lanes + CountWidth + 2
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  input  logic                 valid_i,
  output logic                 ready_o,    // a flit that comes without it is dropped
  input  logic [FlitWidth-1:0] flit_i,

  output logic                 valid_o,    // cannot be held
  output logic [31:0]          data_o,
  output logic                 last_o,
  output logic                 bad_o,      // with the last word: the frame is damaged
  output logic                 dropped_o   // for a counter: a flit found the buffer full
);
  // What the parameters must be.
  if ((Lanes < 2) || ((Lanes & (Lanes - 1)) != 0)) begin : gen_bad_lanes
    $error("Lanes is %0d: a power of two from 2 on", Lanes);
  end
  if (Depth < 1) begin : gen_bad_depth
    $error("Depth is %0d: 1 or more", Depth);
  end

  typedef logic [CountWidth-1:0] count_t;

  logic   here, pop, gap_q, gap, first, last, inside_q, cut, skip;
  count_t count, lane_q;
  logic [Lanes-1:0][31:0] words;

  prim_fifo #(.Width(FlitWidth + 1), .Depth(Depth)) u_flits (
    .clk_i, .rst_ni, .valid_i, .ready_o, .data_i({gap_q, flit_i}), .valid_o(here), .ready_i(pop),
    .data_o({gap, words, count, last, first})
  );
  assign dropped_o = valid_i & ~ready_o;

  // Only a first flit begins a frame, and only one without a gap in front of it goes on with a frame.
  assign cut     = here & inside_q & (lane_q == '0) & (first | gap);
  assign skip    = here & ~inside_q & ~first;
  assign valid_o = here & ~skip;
  assign data_o  = words[lane_q];
  assign last_o  = cut | (last & (lane_q == count));
  assign bad_o   = cut;
  assign pop     = skip | (here & ~cut & (lane_q == count));

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      gap_q    <= 1'b0;
      inside_q <= 1'b0;
      lane_q   <= '0;
    end else begin
      if (valid_i) gap_q <= ~ready_o;
      if (valid_o) inside_q <= ~last_o;
      if (pop)                  lane_q <= '0;
      else if (valid_o && !cut) lane_q <= lane_q + count_t'(1);
    end
  end
endmodule
