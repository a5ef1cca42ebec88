// SPDX-License-Identifier: Apache-2.0 OR MIT
// Buffers the data of outstanding writes: words arrive in the order of the host's requests, and leave in the order in
// which the drive requests them.
//
// Owns a ring of words. Writes that fit together are taken together, and each keeps its space until its data has left; a
// write that is longer than the ring is taken alone, and streams through. There is room for every word of the writes that
// were taken (B10 of the block interface), so the data that the drive requests always arrives.
//
// Words      words of the ring, a power of two; if a block does not fit, every write is taken alone
// WordsLog2  log2 of a block's words
// Places     outstanding writes, a power of two
module sata_writes
  import block_pkg::*;
#(
  parameter int unsigned Words     = 4096,
  parameter int unsigned WordsLog2 = 7,
  parameter int unsigned Places    = 8
) (
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic [15:0] count_i,      // blocks of the write that the host offers
  output logic        room_o,       // it can be taken
  input  logic        take_i,
  input  tag_t        take_tag_i,
  input  logic        take_start_i, // and its data leave next

  input  logic        valid_i,
  output logic        ready_o,
  input  logic [31:0] data_i,
  input  logic        sink_i,       // arriving and buffered words are dropped ...
  output logic        dropped_o,    // ... and all were dropped: no word is outstanding or buffered
  input  logic        clear_i,      // all writes have ended; no word is outstanding

  input  logic        start_i,      // this write's data leave next
  input  tag_t        start_tag_i,  // from the cycle before on
  input  logic        active_i,     // they are leaving
  input  logic        sent_i,       // they have left
  output logic        valid_o,
  input  logic        ready_i,
  output logic [31:0] data_o
);
  // What the parameters must be.
  if ((Words < 2) || (Words > 65536) || ((Words & (Words - 1)) != 0)) begin : gen_bad_words
    $error("Words is %0d: a power of two from 2 to 65536", Words);
  end
  if (WordsLog2 > 10) begin : gen_bad_words_log2
    $error("WordsLog2 is %0d: 0 to 10", WordsLog2);
  end
  if ((Places < 2) || (Places > 32) || ((Places & (Places - 1)) != 0)) begin : gen_bad_places
    $error("Places is %0d: a power of two from 2 to 32", Places);
  end

  localparam int unsigned AddressWidth = $clog2(Words);
  localparam int unsigned PlaceWidth   = $clog2(Places);
  localparam int unsigned OwedWidth    = 16 + WordsLog2;
  typedef logic [AddressWidth:0]   pointer_t;
  typedef logic [PlaceWidth-1:0]   place_t;
  typedef logic [OwedWidth-1:0]    owed_t;
  localparam pointer_t Whole = pointer_t'(Words);

  // Head: the oldest buffered word; fill: the next word to arrive; tail: the end of the space of the writes taken.
  pointer_t head_q, fill_q, tail_q, read_q, end_q, tail, start, used;
  pointer_t starts_q [Places];
  pointer_t ends_q [Places];
  place_t   place_of_q [NumTags];
  logic [Places-1:0]   sent_q;
  logic [PlaceWidth:0] first_q, next_q;  // places in use
  place_t   now_q, place;                // of the data that are leaving
  owed_t    owed_q, length;
  logic     alone_q, fits, push, fetch, fetched_q, available, pop;

  assign length = owed_t'(count_i) << WordsLog2;
  assign fits   = count_i <= 16'(Words >> WordsLog2);
  assign used   = tail_q - head_q;
  assign tail   = tail_q + pointer_t'(length);
  assign room_o = ~alone_q & (fits ? ((next_q - first_q) != (PlaceWidth + 1)'(Places)) & (pointer_t'(length) <= Whole - used)
                                   : (next_q == first_q) & (owed_q == '0));
  always_ff @(posedge clk_i) place <= place_of_q[start_tag_i];
  assign start  = starts_q[place];

  // --- In --------------------------------------------------------------------------------------
  assign ready_o = (owed_q != '0) & (sink_i | ((fill_q - head_q) != Whole));
  assign push    = valid_i & ready_o;

  // --- Out -------------------------------------------------------------------------------------
  // `read_q` is at most a ring behind `fill_q`, or ahead of it while the host has not sent these words.
  pointer_t ready_words;
  assign ready_words = fill_q - read_q;
  assign available   = active_i & ~sink_i & (ready_words != '0) & (ready_words <= Whole) & (alone_q | (read_q != end_q));
  assign pop         = (first_q != next_q) & sent_q[place_t'(first_q)];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      head_q    <= '0;
      fill_q    <= '0;
      tail_q    <= '0;
      first_q   <= '0;
      next_q    <= '0;
      owed_q    <= '0;
      alone_q   <= 1'b0;
      fetched_q <= 1'b0;
    end else begin
      fetched_q <= fetch;
      if (push && !sink_i) fill_q <= fill_q + pointer_t'(1);
      owed_q <= owed_q + (take_i ? length : '0) - owed_t'(push);
      if (take_i) begin
        tail_q  <= tail;
        next_q  <= next_q + (PlaceWidth + 1)'(1);
        alone_q <= ~fits;
      end
      if (alone_q && fetch) head_q <= head_q + pointer_t'(1);
      if (pop) begin
        head_q  <= ends_q[place_t'(first_q)];
        first_q <= first_q + (PlaceWidth + 1)'(1);
        alone_q <= 1'b0;
      end
      if (clear_i) begin
        head_q  <= '0;
        fill_q  <= '0;
        tail_q  <= '0;
        first_q <= '0;
        next_q  <= '0;
        alone_q <= 1'b0;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (fetch) read_q <= read_q + pointer_t'(1);
    if (start_i) begin
      read_q <= start;
      end_q  <= ends_q[place];
      now_q  <= place;
    end
    if (sent_i) sent_q[now_q] <= 1'b1;
    if (take_i) begin
      starts_q[place_t'(next_q)] <= tail_q;
      ends_q[place_t'(next_q)]   <= tail;
      place_of_q[take_tag_i]     <= place_t'(next_q);
      sent_q[place_t'(next_q)]   <= 1'b0;
      if (take_start_i) begin
        read_q <= tail_q;
        end_q  <= tail;
        now_q  <= place_t'(next_q);
      end
    end
  end

  logic [31:0] word;
  prim_ram #(.Width(32), .Depth(Words)) u_ram (
    .clk_i, .write_i(push & ~sink_i), .write_address_i(fill_q[AddressWidth-1:0]), .write_data_i(data_i),
    .read_i(fetch), .read_address_i(read_q[AddressWidth-1:0]), .read_data_o(word)
  );

  // Words read ahead for a write that ended early must not be sent for another write.
  assign dropped_o = (owed_q == '0) & ~fetched_q & ~valid_o;
  prim_ahead #(.Width(32)) u_ahead (
    .clk_i, .rst_ni, .available_i(available), .fetch_o(fetch), .fetched_i(fetched_q), .data_i(word), .valid_o,
    .ready_i(ready_i | ~active_i | sink_i), .data_o
  );
endmodule
