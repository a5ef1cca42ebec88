// SPDX-License-Identifier: Apache-2.0 OR MIT
// prim_fifo: each word that is written leaves once, in order and unchanged.
//
// Any one word may be marked when it is written. Until it leaves, the number of words before it is
// known, and its entry holds it; the assertions about the queue's state make the proof inductive.
module fv_fifo #(
  parameter int unsigned Width = 4,
  parameter int unsigned Depth = 3
) (
  input logic             clk_i,
  input logic             rst_ni,
  input logic             valid_i,
  input logic [Width-1:0] data_i,
  input logic             ready_i,
  input logic             mark_i
);
  localparam int unsigned CountWidth = $clog2(Depth + 1);

  logic ready_o, valid_o;
  logic [Width-1:0] data_o;

  prim_fifo #(.Width(Width), .Depth(Depth)) dut (.*);

  logic started_q, marked_q;
  logic [Width-1:0] word_q;
  logic [CountWidth-1:0] ahead_q, count_q;
  logic push, pop;

  initial started_q = 1'b0;
  assign push = valid_i & ready_o;
  assign pop  = valid_o & ready_i;

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      marked_q <= 1'b0;
      count_q  <= '0;
    end else begin
      count_q <= count_q + CountWidth'(push) - CountWidth'(pop);
      if (!marked_q && push && mark_i) begin
        marked_q <= 1'b1;
        word_q   <= data_i;
        ahead_q  <= count_q - CountWidth'(pop);
      end else if (marked_q && pop) begin
        marked_q <= ahead_q != '0;
        ahead_q  <= ahead_q - CountWidth'(1);
      end
      // The guarantees of the queue.
      a_full:  assert (ready_o == (count_q < CountWidth'(Depth)));
      a_empty: assert (valid_o == (count_q != '0));
      if (marked_q && (ahead_q == '0)) a_word: assert (data_o == word_q);
      // Its state.
      i_count: assert (dut.count_q == count_q && count_q <= CountWidth'(Depth));
      i_read:  assert (32'(dut.read_q) < Depth && 32'(dut.write_q) < Depth);
      i_write: assert ((8'(dut.read_q) + 8'(count_q)) % 8'(Depth) == 8'(dut.write_q));
      if (marked_q) begin
        i_ahead: assert (ahead_q < count_q);
        i_entry: assert (dut.entries_q[(8'(dut.read_q) + 8'(ahead_q)) % 8'(Depth)] == word_q);
      end
    end
  end
endmodule
