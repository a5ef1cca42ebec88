// SPDX-License-Identifier: Apache-2.0 OR MIT
// blastn_lookup: for any stream, any mask and any presence table, each word is looked up exactly once, with its own bytes, mask and place;
// those that are found leave once and in order; and the source waits only when the queue is full.
//
// The proof follows one arbitrary word of the stream.
module fv_blastn
  import blastn_pkg::*;
#(
  parameter int unsigned Depth = 2
) (
  input logic               clk_i,
  input logic               rst_ni,
  input logic               start_i,
  input logic               valid_i,
  input logic [31:0]        data_i,
  input logic [3:0]         keep_i,
  input logic               last_i,
  input logic [15:0]        masked_i,
  input logic               checked_i,
  input logic [Lookups-1:0] present_i,
  input logic               ready_i,
  input logic [3:0]         any_i
);
  logic        ready_o, read_o, valid_o, busy_o, takes_o;
  logic [15:0] words_o [Lookups];
  candidate_t  candidate_o;

  blastn_lookup #(.Depth(Depth)) dut (.*);

  logic        started_q, read_q, left_q, marked_q, hit_q;
  logic [3:0]  mark_q, taken_q, looked_q, last_q;
  logic [31:0] word_q;
  logic [15:0] known_q, known;  // bases
  logic        unchecked_q;
  logic        accept, pop, any_found;
  logic [31:0] swapped;
  initial started_q = 1'b0;
  assign accept  = valid_i & ready_o;
  assign pop     = valid_o & ready_i;
  assign swapped = {data_i[7:0], data_i[15:8], data_i[23:16], data_i[31:24]};
  assign known   = {{4{keep_i[0]}}, {4{keep_i[1]}}, {4{keep_i[2]}}, {4{keep_i[3]}}} & ~masked_i;
  // Look-ups 0 to 2 need bytes of the word alone.
  assign any_found = |(present_i[2:0] & {&known_q[7:0], &known_q[11:4], &known_q[15:8]});

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      mark_q <= any_i;
      {read_q, left_q, marked_q, hit_q, taken_q, looked_q, last_q} <= '0;
    end else begin
      // A stream begins when the one before has ended; only its last word may be short.
      assume (!start_i || (!busy_o && (taken_q == '0)));
      assume (!valid_i || last_i || (keep_i == '1));
      assume (!valid_i || (keep_i == 4'd1) || (keep_i == 4'd3) || (keep_i == 4'd7) || (keep_i == 4'd15));
      if (accept) begin
        taken_q <= taken_q + 4'd1;
        if (taken_q == mark_q) begin
          marked_q <= 1'b1;
          word_q   <= swapped;
          known_q  <= known;
          unchecked_q <= ~checked_i;
        end
      end
      read_q <= read_o;
      if (read_q) begin
        looked_q <= looked_q + 4'd1;
        if ((looked_q == mark_q) && any_found) hit_q <= 1'b1;
      end
      if (pop) begin
        last_q <= 4'(candidate_o.at >> 2) + 4'd1;
        a_order: assert (4'(candidate_o.at >> 2) >= last_q);
        a_found: assert (candidate_o.found != '0);
        if (candidate_o.at == byte_t'({mark_q, 2'b00})) begin
          left_q  <= 1'b1;
          a_once:  assert (marked_q && !left_q);
          a_bytes: assert (candidate_o.bytes[47:16] == word_q && candidate_o.known[23:8] == known_q);
          if (unchecked_q) a_unchecked: assert (candidate_o.unchecked);
        end
      end
      if (takes_o && !ready_o) a_full: assert (32'(dut.u_queue.count_q) + 32'(read_q) >= Depth);
      if (dut.found) a_room: assert (dut.u_queue.ready_o);
      // At the end every word has been looked up, and what was found has left.
      if (!busy_o) begin
        a_all:  assert (looked_q == taken_q);
        if (hit_q) a_left: assert (left_q);
      end
    end
  end
endmodule
