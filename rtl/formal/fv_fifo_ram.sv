// SPDX-License-Identifier: Apache-2.0 OR MIT
// prim_fifo_ram (with prim_ram and prim_ahead): each word that is written leaves once, in order and
// unchanged, for any pauses on either side.
module fv_fifo_ram #(
  parameter int unsigned Width = 2,
  parameter int unsigned Depth = 4
) (
  input logic             clk_i,
  input logic             rst_ni,
  input logic             valid_i,
  input logic [Width-1:0] data_i,
  input logic             ready_i,
  input logic             mark_i
);
  logic ready_o, valid_o;
  logic [Width-1:0] data_o;

  prim_fifo_ram #(.Width(Width), .Depth(Depth)) dut (.*);

  logic started_q, marked_q;
  logic [Width-1:0] word_q;
  logic [3:0] ahead_q, count_q;
  logic push, pop;

  localparam int unsigned AddressWidth = $clog2(Depth);
  logic [AddressWidth:0] in_memory;
  logic [3:0] on_way, in_ahead;
  assign in_memory = dut.write_q - dut.read_q;
  assign on_way    = 4'(dut.fetched_q);
  assign in_ahead  = 4'(dut.u_ahead.u_words.count_q);

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
      count_q <= count_q + 4'(push) - 4'(pop);
      if (!marked_q && push && mark_i) begin
        marked_q <= 1'b1;
        word_q   <= data_i;
        ahead_q  <= count_q - 4'(pop);
      end else if (marked_q && pop) begin
        marked_q <= ahead_q != '0;
        ahead_q  <= ahead_q - 4'd1;
      end
      a_nothing: assert (!valid_o || (count_q != '0));
      a_room:    assert (count_q <= 4'(Depth + 4));
      if (marked_q && (ahead_q == '0) && valid_o) a_word: assert (data_o == word_q);
      // The state: a word is in the memory, being read from it, or read ahead.
      i_ready: assert (ready_o == (in_memory < (AddressWidth + 1)'(Depth)));
      i_depth: assert (in_memory <= (AddressWidth + 1)'(Depth));
      i_room:  assert (4'(dut.u_ahead.room_q) + in_ahead + on_way == 4'd4);
      i_ahead: assert (dut.u_ahead.u_words.write_q == 2'(dut.u_ahead.u_words.read_q + 2'(in_ahead)));
      i_count: assert (count_q == 4'(in_memory) + on_way + in_ahead);
      if (marked_q) begin
        i_inside: assert (ahead_q < count_q);
        if (ahead_q < in_ahead) begin
          i_entry: assert (dut.u_ahead.u_words.entries_q[2'(dut.u_ahead.u_words.read_q + 2'(ahead_q))] == word_q);
        end else if (ahead_q < in_ahead + on_way) begin
          i_way: assert (dut.word == word_q);
        end else begin
          i_memory: assert (dut.u_ram.words_q[AddressWidth'(4'(dut.read_q) + ahead_q - in_ahead - on_way)] == word_q);
        end
      end
    end
  end
endmodule
