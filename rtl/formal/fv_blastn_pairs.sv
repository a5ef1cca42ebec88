// SPDX-License-Identifier: Apache-2.0 OR MIT
// blastn_pairs: a hit that another one precedes on its diagonal within the window, without a common base, leaves; no more hits leave
// than came; and one that waits does not change.
//
// The proof follows two arbitrary hits, with four entries and two slots: others replace their mark.
module fv_blastn_pairs
  import blastn_pkg::*;
(
  input logic       clk_i,
  input logic       rst_ni,
  input logic       valid_i,
  input hit_t       hit_i,
  input logic       ready_i,
  input logic        write_i,
  input logic [15:0] write_address_i,
  input logic [31:0] write_data_i,
  input logic [1:0] any_first_i,
  input logic [1:0] any_second_i
);
  localparam int unsigned EntriesLog2 = 2;  // positions of four bits
  localparam logic [9:0]  Window = 10'd13;
  logic ready_o, valid_o, busy_o;
  hit_t hit_o, waiting_q;

  blastn_pairs #(.EntriesLog2(EntriesLog2), .DiagonalsLog2(1)) dut (
    .clk_i, .rst_ni, .run_ni(rst_ni), .stream_i(1'b1), .window_i(Window), .write_i, .write_address_i, .write_data_i,
    .valid_i, .ready_o, .hit_i, .valid_o, .ready_i, .hit_o, .busy_o
  );

  logic        started_q, waits_q, left_q;
  logic [1:0]  first_q, second_q, came_q, out_q;
  hit_t        one_q, two_q, came_hit_q [2];
  logic [33:0] last_q, apart;
  logic        is_pair;
  initial started_q = 1'b0;

  function automatic logic [33:0] diagonal(hit_t hit);
    return hit.base - 34'(4'(dut.u_positions.words_q[hit.entry[1:0]] - 4'(hit.prior)));
  endfunction

  assign apart   = two_q.base - one_q.base;
  assign is_pair = (came_q > second_q) & (second_q > first_q) & (diagonal(one_q) == diagonal(two_q))
                   & (apart >= 34'd11) & (apart <= 34'(Window));

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    assume (!write_i);  // the positions are free
    if (!rst_ni) begin
      {first_q, second_q} <= {any_first_i, any_second_i};
      {waits_q, left_q, came_q, out_q, last_q} <= '0;
    end else begin
      // At most three hits in the order of their look-ups, in a short stream; a word does not begin before its query.
      assume (!valid_i || (hit_i.base[33:6] == '0 && hit_i.entry[15:2] == '0 && came_q != 2'd3));
      assume (!valid_i || (dut.u_positions.words_q[hit_i.entry[1:0]] >= 4'(hit_i.prior)));
      assume (!valid_i || (hit_i.base + 34'(hit_i.prior) >= last_q));
      // On a diagonal each hit begins behind the one before.
      for (int unsigned at = 0; at < 2; at++)
        assume (!valid_i || (32'(came_q) <= at) || (diagonal(hit_i) != diagonal(came_hit_q[at])) || (hit_i.base > came_hit_q[at].base));
      if (valid_i && ready_o) begin
        if (came_q < 2'd2) came_hit_q[came_q[0]] <= hit_i;
        came_q <= came_q + 2'd1;
        last_q <= hit_i.base + 34'(hit_i.prior);
        if (came_q == first_q) one_q <= hit_i;
        if (came_q == second_q) two_q <= hit_i;
      end
      waits_q   <= valid_o & ~ready_i;
      waiting_q <= hit_o;
      if (waits_q) a_stays: assert (valid_o && hit_o == waiting_q);
      if (valid_o && ready_i) begin
        out_q <= out_q + 2'd1;
        a_once: assert (out_q < came_q);
        if ((came_q > second_q) && (hit_o == two_q)) left_q <= 1'b1;
      end
      // Once everything is through, the second of a pair has left.
      if (is_pair && !busy_o) a_pair: assert (left_q);
    end
  end
endmodule
