// SPDX-License-Identifier: Apache-2.0 OR MIT
// blastn_verify: for any candidates and any small table, as many hits leave as entries of the candidates' buckets have eleven equal
// bases, in the order of the look-ups and of the entries; and a hit that waits does not change.
//
// The table: the buckets 0 and 1 of a directory with two bits, and four entries.
module fv_blastn_verify
  import blastn_pkg::*;
(
  input logic       clk_i,
  input logic       rst_ni,
  input logic       valid_i,
  input candidate_t candidate_i,
  input logic       ready_i,
  // The table is written before the first candidate.
  input logic        write_directory_i,
  input logic        write_entry_i,
  input logic [15:0] write_address_i,
  input logic [31:0] write_data_i
);
  localparam int unsigned EntriesLog2 = 2;
  localparam int unsigned BucketLog2  = 1;
  logic ready_o, valid_o, busy_o, compares_o;
  hit_t hit_o, hit_q;

  blastn_verify #(.EntriesLog2(EntriesLog2), .BucketLog2(BucketLog2)) dut (
    .clk_i, .rst_ni, .write_directory_i, .write_entry_i, .write_address_i, .write_data_i,
    .valid_i, .ready_o, .candidate_i, .valid_o, .ready_i, .hit_o, .busy_o, .compares_o
  );

  // Counts eleven or more equal bases in a row, of which the eight are a part, one base after the other.
  function automatic logic fits(logic [30:0] entry, logic [27:0] bases, logic [2:0] known_before, logic [2:0] known_after);
    logic [5:0]  prior, after;
    logic [14:0] tag;
    logic [1:0]  room_before, room_after;
    logic [2:0]  count;
    logic        run;
    {room_before, room_after, prior, tag, after} = entry;
    count = '0;
    run   = 1'b1;
    for (int unsigned at = 0; at < 3; at++) begin
      run = run && known_before[at] && (at < 32'(room_before)) && (prior[2*at +: 2] == bases[22 + 2*at +: 2]);
      if (run) count = count + 3'd1;
    end
    run = 1'b1;
    for (int unsigned at = 0; at < 3; at++) begin
      run = run && known_after[2-at] && (at < 32'(room_after)) && (after[4 - 2*at +: 2] == bases[4 - 2*at +: 2]);
      if (run) count = count + 3'd1;
    end
    return (tag == bases[21:7]) && (count >= 3'd3);
  endfunction

  logic [5:0] expected, expected_q, hits_q;
  logic       started_q, waits_q, begun_q;
  logic [33:0] last_q;
  initial started_q = 1'b0;
  logic write_i;
  assign write_i = write_directory_i | write_entry_i;
  always_comb begin
    expected = '0;
    for (int unsigned at = 0; at < Lookups; at++) begin
      if (candidate_i.found[at]) begin
        for (int unsigned step = 0; step < 1 << EntriesLog2; step++) begin
          if (step <= 32'(dut.u_directory.words_q[candidate_i.bytes[(Window-3-at)*8]][EntriesLog2-1:0])
              && fits(dut.u_entries.words_q[2'(dut.u_directory.words_q[candidate_i.bytes[(Window-3-at)*8]] >> EntriesLog2)
                                            + 2'(step)],
                      candidate_i.bytes[(Window-4-at)*8 + 2 +: 28], candidate_i.known[(Window-1-at)*4 +: 3],
                      candidate_i.known[(Window-4-at)*4 + 1 +: 3]))
            expected = expected + 6'd1;
        end
      end
    end
  end

  logic       offers_q;
  candidate_t offer_q;
  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    assume (rst_ni || !write_i);
    if (!rst_ni) begin
      {expected_q, hits_q, waits_q, begun_q, offers_q, last_q} <= '0;
    end else begin
      assume (!write_i || (!valid_i && (expected_q == '0) && !busy_o && !begun_q));
      begun_q <= begun_q | valid_i;
      // A candidate has something to look up, stays until it is taken, and they come in order, at most two.
      assume (!valid_i || (candidate_i.found != '0));
      assume (!offers_q || (valid_i && (candidate_i == offer_q)));
      assume (!valid_i || (candidate_i.at[31:3] == '0 && candidate_i.at[1:0] == '0));
      assume (!valid_i || offers_q || (expected_q == '0 && hits_q == '0) || (candidate_i.at > offer_q.at));
      offers_q <= valid_i & ~ready_o;
      if (valid_i) offer_q <= candidate_i;
      if (valid_i && ready_o) expected_q <= expected_q + expected;
      waits_q <= valid_o & ~ready_i;
      hit_q   <= hit_o;
      if (waits_q) a_stays: assert (valid_o && hit_o == hit_q);
      if (valid_o && ready_i) begin
        hits_q <= hits_q + 6'd1;
        last_q <= hit_o.base + 34'(hit_o.prior);
        a_order: assert (hit_o.base + 34'(hit_o.prior) >= last_q);
      end
      if (!busy_o && !valid_i) a_count: assert (hits_q == expected_q);
    end
  end
endmodule
