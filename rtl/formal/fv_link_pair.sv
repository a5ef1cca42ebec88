// SPDX-License-Identifier: Apache-2.0 OR MIT
// link_send and link_receive, joined by a line that loses any frames, with receipts that return at any time, or not at all: every
// word that is taken on one side leaves the other once, in order and unchanged, and no good frame is refused for lack of room.
// The assumptions of fv_link_send and fv_link_receive about each other follow from the code here, with the smallest window.
module fv_link_pair
  import link_pkg::*;
#(
  parameter int unsigned WindowLog2 = 1,
  parameter int unsigned FrameWords = 1
) (
  input logic       clk_i,
  input logic       rst_ni,
  input logic       valid_i,
  input logic       slot_i,
  input logic       good_i,    // at the end of a frame: it has arrived unchanged
  input logic       note_i,    // a receipt leaves
  input logic       report_i,  // and arrives
  input logic       ready_i
);
  typedef logic [WindowLog2+1:0] index_t;

  symbol_t  symbol, arrives;
  receipt_t receipt, noted_q;
  logic     ready, valid, started_q, noted_valid_q;
  logic [63:0] data;
  index_t   pushed_q, given_q;
  initial started_q = 1'b0;

  always_comb begin
    arrives = symbol;
    if (!slot_i) arrives.kind = SymIdle;
  end

  link_send #(.WindowLog2(WindowLog2), .FrameWords(FrameWords)) u_send (
    .clk_i, .rst_ni, .up_i(1'b1), .heard_i(1'b1), .tx_valid_i(valid_i), .tx_ready_o(ready), .tx_data_i(64'(pushed_q)),
    .tx_last_i(1'b0), .receipt_i('0), .peer_valid_i(report_i & noted_valid_q), .peer_i(noted_q), .slot_i,
    .symbol_o(symbol), .back_o()
  );
  link_receive #(.WindowLog2(WindowLog2)) u_receive (
    .clk_i, .rst_ni, .up_i(1'b1), .symbol_i(arrives), .good_i, .peer_valid_o(), .peer_o(), .receipt_o(receipt),
    .rx_valid_o(valid), .rx_ready_i(ready_i), .rx_data_o(data), .rx_last_o()
  );

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      {pushed_q, given_q, noted_valid_q} <= '0;
    end else begin
      if (valid_i && ready) pushed_q <= pushed_q + index_t'(1);
      if (report_i) noted_valid_q <= 1'b0;
      if (note_i && (report_i || !noted_valid_q)) begin
        noted_q       <= receipt;
        noted_valid_q <= 1'b1;
      end
      if (valid && ready_i) given_q <= given_q + index_t'(1);
      if (valid) begin
        a_word:   assert (index_t'(data) == given_q);
        a_pushed: assert (given_q != pushed_q);
      end
      a_room: assert (!(symbol.kind == SymEnd && slot_i && good_i) || !u_receive.overrun_q);
    end
  end
endmodule
