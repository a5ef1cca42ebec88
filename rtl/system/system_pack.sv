// SPDX-License-Identifier: Apache-2.0 OR MIT
// Packs a frame's 32-bit words into flits, the words of a network. A frame begins with a flit and ends with one, so a flit has words of
// one frame only.
//
// A flit is {words, count - 1, last, first}, the frame's earliest word lowest. Words above the count are undefined.
//
// Lanes  words in a flit, a power of two, 2 or more
// Depth  flits that may wait for the network
module system_pack #(
  parameter int unsigned Lanes = 8,
  parameter int unsigned Depth = 2,
  localparam int unsigned CountWidth = $clog2(Lanes),
  localparam int unsigned FlitWidth  = 32 * Lanes + CountWidth + 2
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  input  logic                 valid_i,
  output logic                 ready_o,
  input  logic [31:0]          data_i,
  input  logic                 last_i,

  output logic                 valid_o,
  input  logic                 ready_i,
  output logic [FlitWidth-1:0] flit_o
);
  // What the parameters must be.
  if ((Lanes < 2) || ((Lanes & (Lanes - 1)) != 0)) begin : gen_bad_lanes
    $error("Lanes is %0d: a power of two from 2 on", Lanes);
  end
  if (Depth < 1) begin : gen_bad_depth
    $error("Depth is %0d: 1 or more", Depth);
  end

  typedef logic [CountWidth-1:0] count_t;

  logic   first_q, whole, room, take;
  count_t lane_q;
  logic [Lanes-1:0][31:0] words_q, words;

  assign whole   = last_i | (lane_q == '1);
  assign ready_o = room | ~whole;
  assign take    = valid_i & ready_o;

  always_comb begin
    words         = words_q;
    words[lane_q] = data_i;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      first_q <= 1'b1;
      lane_q  <= '0;
    end else if (take) begin
      lane_q <= whole ? '0 : lane_q + count_t'(1);
      if (whole) first_q <= last_i;
    end
  end
  always_ff @(posedge clk_i) if (take) words_q <= words;

  prim_fifo #(.Width(FlitWidth), .Depth(Depth)) u_flits (
    .clk_i, .rst_ni, .valid_i(valid_i & whole), .ready_o(room), .data_i({words, lane_q, last_i, first_q}), .valid_o, .ready_i,
    .data_o(flit_o)
  );
endmodule
