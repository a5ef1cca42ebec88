// SPDX-License-Identifier: Apache-2.0 OR MIT
// The first half of the seed scan: four look-ups of eight bases in each word of the stream, one word a cycle. Words with a
// look-up that the queries have leave as candidates, in order.
//
// A word is looked up when the next one arrives, because two of its bytes are needed; after the last one it is looked up alone.
// `ready_o` depends on registers only: words that are on their way have room among the `Depth` candidates.
module blastn_lookup
  import blastn_pkg::*;
#(
  parameter int unsigned Depth = 32
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        start_i,  // a stream begins; the last one has ended

  input  logic        valid_i,
  output logic        ready_o,
  input  logic [31:0] data_i,   // the first byte in the lowest bits
  input  logic [3:0]  keep_i,
  input  logic        last_i,
  input  logic [15:0] masked_i,   // bases of the word, the first one in the highest bit
  input  logic        checked_i,  // and they are all that are masked

  output logic        read_o,   // from the presence table
  output logic [15:0] words_o [Lookups],
  input  logic [Lookups-1:0] present_i,

  output logic        valid_o,
  input  logic        ready_i,
  output candidate_t  candidate_o,
  output logic        busy_o,   // the stream has begun, and not all of its candidates have left
  output logic        takes_o   // it has not ended
);
  localparam int unsigned CountWidth = $clog2(Depth + 1);

  typedef struct packed {
    logic [31:0] data;   // the first byte in the highest bits
    logic [15:0] known;  // bases, the same
    logic        unchecked;
  } word_t;

  word_t       held_q, next;
  logic [7:0]  before_q;
  logic [3:0]  before_known_q;
  logic        before_unchecked_q, unchecked, pending_unchecked_q;
  logic        is_held_q, is_first_q, takes_q, flush_q, pending_q, accept, step, pop, found, missed, room;
  byte_t       at_q, pending_at_q;
  logic [Window*8-1:0] window, pending_bytes_q;
  logic [Window*4-1:0] known, pending_known_q;
  logic [CountWidth-1:0] owed_q;  // candidates that are in the queue, or may get there
  candidate_t  candidate;

  assign ready_o = takes_q & (owed_q != CountWidth'(Depth));
  assign accept  = valid_i & ready_o;
  assign step    = (accept & is_held_q) | (flush_q & (owed_q != CountWidth'(Depth)));
  assign next    = flush_q ? '0 : '{data: {data_i[7:0], data_i[15:8], data_i[23:16], data_i[31:24]},
                                    known: ~masked_i & {{4{keep_i[0]}}, {4{keep_i[1]}}, {4{keep_i[2]}}, {4{keep_i[3]}}},
                                    unchecked: ~checked_i};
  assign window  = {before_q, held_q.data, next.data[31:16]};
  assign known   = {before_known_q & {4{~is_first_q}}, held_q.known, next.known[15:8]};
  assign unchecked = (before_unchecked_q & ~is_first_q) | held_q.unchecked | next.unchecked;
  assign read_o  = step;
  for (genvar lookup = 0; lookup < Lookups; lookup++) begin : gen_word
    assign words_o[lookup] = window[(Window-3-lookup)*8 +: 16];
    assign candidate.found[lookup] = present_i[lookup] & (&pending_known_q[(Window-3-lookup)*4 +: 8]);
  end

  assign candidate.at    = pending_at_q;
  assign candidate.known = pending_known_q;
  assign candidate.bytes = pending_bytes_q;
  assign candidate.unchecked = pending_unchecked_q;
  assign found   = pending_q & (candidate.found != '0);
  assign missed  = pending_q & ~found;
  assign pop     = valid_o & ready_i;
  assign takes_o = takes_q;
  assign busy_o  = takes_q | flush_q | (owed_q != '0);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {takes_q, flush_q, is_held_q, is_first_q, pending_q} <= '0;
      owed_q <= '0;
    end else begin
      if (accept) begin
        is_held_q <= 1'b1;
        takes_q   <= ~last_i;
        flush_q   <= last_i;
      end
      if (step) begin
        is_first_q <= 1'b0;
        if (flush_q) {flush_q, is_held_q} <= 2'b00;
      end
      pending_q <= step;
      owed_q    <= owed_q + CountWidth'(step) - CountWidth'(missed) - CountWidth'(pop);
      if (start_i) {takes_q, is_first_q} <= 2'b11;
    end
  end
  always_ff @(posedge clk_i) begin
    if (accept) held_q <= next;
    if (step) begin
      before_q        <= held_q.data[7:0];
      before_known_q  <= held_q.known[3:0];
      before_unchecked_q  <= held_q.unchecked;
      pending_unchecked_q <= unchecked;
      at_q            <= at_q + byte_t'(4);
      pending_at_q    <= at_q;
      pending_bytes_q <= window;
      pending_known_q <= known;
    end
    if (start_i) at_q <= '0;
  end

  prim_fifo #(.Width($bits(candidate_t)), .Depth(Depth)) u_queue (
    .clk_i, .rst_ni, .valid_i(found), .ready_o(room), .data_i(candidate), .valid_o, .ready_i, .data_o(candidate_o)
  );
  `ifndef SYNTHESIS
  always_ff @(posedge clk_i) if (rst_ni) a_room: assert (!found || room);
  `else
  logic unused;
  assign unused = room;
  `endif
endmodule
