// SPDX-License-Identifier: Apache-2.0 OR MIT
// Reads ahead from a memory that answers one cycle after the request, and offers the words with
// ready and valid, one per cycle.
//
// Owns at most four words read ahead; requests only words that it has room for. The order of the
// words is the order of the requests.
//
// Width  bits of a word
module prim_ahead #(
  parameter int unsigned Width = 32
) (
  input  logic             clk_i,
  input  logic             rst_ni,

  input  logic             available_i,  // there is a word to request
  output logic             fetch_o,      // it is requested now
  input  logic             fetched_i,    // fetch_o, one cycle later: data_i is that word
  input  logic [Width-1:0] data_i,

  output logic             valid_o,
  input  logic             ready_i,
  output logic [Width-1:0] data_o
);
  // What the parameters must be.
  if (Width < 1) begin : gen_bad_width
    $error("Width is %0d: 1 or more", Width);
  end

  logic [2:0] room_q;
  logic       pop;

  assign fetch_o = available_i & (room_q != '0);
  assign pop     = valid_o & ready_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) room_q <= 3'd4;
    else if (fetch_o != pop) room_q <= fetch_o ? room_q - 3'd1 : room_q + 3'd1;
  end

  prim_fifo #(.Width(Width), .Depth(4)) u_words (
    .clk_i,
    .rst_ni,
    .valid_i (fetched_i),
    .ready_o (),
    .data_i,
    .valid_o,
    .ready_i,
    .data_o
  );
endmodule
