// SPDX-License-Identifier: Apache-2.0 OR MIT
// The second half of the seed scan: compares the bases of each candidate with the queries' entries of its bucket, one entry a
// cycle. Where eleven in a row are equal, a hit leaves; in the order of the look-ups, and of the entries.
//
// The directory has the first entry of each bucket and the number of entries after it. All stages hold while a hit waits.
//
// EntriesLog2  entries: positions of the queries, of both strands
// BucketLog2   buckets: the lowest bits of the eight bases
module blastn_verify
  import blastn_pkg::*;
#(
  parameter int unsigned EntriesLog2 = 12,
  parameter int unsigned BucketLog2  = 12,
  localparam int unsigned EntryWidth = 32 - BucketLog2
) (
  input  logic                     clk_i,
  input  logic                     rst_ni,

  input  logic                     write_directory_i,
  input  logic                     write_entry_i,
  input  logic [15:0]              write_address_i,
  input  logic [31:0]              write_data_i,

  input  logic                     valid_i,
  output logic                     ready_o,
  input  candidate_t               candidate_i,

  output logic                     valid_o,
  input  logic                     ready_i,
  output hit_t                     hit_o,
  output logic                     busy_o,
  output logic                     compares_o  // an entry is compared in this cycle
);
  typedef logic [EntriesLog2-1:0] index_t;
  typedef struct packed {
    index_t first;
    index_t more;
  } directory_t;
  typedef struct packed {
    logic [1:0]              room_before;
    logic [1:0]              room_after;
    logic [5:0]              prior;
    logic [15-BucketLog2:0]  tag;
    logic [5:0]              after;
  } entry_t;
  // A look-up on its way.
  typedef struct packed {
    logic [33:0] base;
    logic        unchecked;
    logic [1:0]  room_before;
    logic [1:0]  room_after;
    context_t    bases;
  } lookup_t;

  logic go;

  // --- The next look-up of the candidate --------------------------------------------------------------
  logic [Lookups-1:0] done_q, waiting, one;
  logic [1:0]         which;
  lookup_t            lookup, asked_q, walked_q;
  logic               ask, asked_valid_q, walk_free;

  always_comb begin
    waiting  = candidate_i.found & ~done_q;
    one   = waiting & (~waiting + Lookups'(1));
    which = '0;
    for (int unsigned at = 0; at < Lookups; at++) if (one[at]) which = 2'(at);
    lookup = '0;
    for (int unsigned at = 0; at < Lookups; at++) begin
      if (which == 2'(at)) begin
        lookup.bases       = context_t'(candidate_i.bytes[(Window-4-at)*8 + 2 +: 28]);
        lookup.room_before = room_before(candidate_i.known[(Window-1-at)*4 +: 3]);
        lookup.room_after  = room_after(candidate_i.known[(Window-4-at)*4 + 1 +: 3]);
      end
    end
    lookup.base      = {candidate_i.at, 2'b00} + 34'({which, 2'b00});
    lookup.unchecked = candidate_i.unchecked;
  end
  assign ask     = valid_i & go & (~asked_valid_q | walk_free);
  assign ready_o = ask & (waiting == one);

  // --- The walk over the bucket -----------------------------------------------------------------------
  directory_t directory;
  index_t     pointer, pointer_q, more, more_q, read_q;
  logic       walking_q, walk, compared_q;

  // The first entry comes from the directory, the others count.
  assign walk_free = ~walking_q;
  assign walk      = go & (walking_q | asked_valid_q);
  assign pointer   = walking_q ? pointer_q : directory.first;
  assign more      = walking_q ? more_q : directory.more;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      done_q <= '0;
      {asked_valid_q, walking_q, compared_q} <= '0;
    end else begin
      if (ask) done_q <= ready_o ? '0 : (done_q | one);
      if (go) begin
        asked_valid_q <= ask | (asked_valid_q & walking_q);
        walking_q     <= walk & (more != '0);
        compared_q    <= walk;
      end
    end
  end
  always_ff @(posedge clk_i) begin
    if (ask) asked_q <= lookup;
    if (walk) begin
      pointer_q <= pointer + index_t'(1);
      more_q    <= more - index_t'(1);
      read_q    <= pointer;
      if (!walking_q) walked_q <= asked_q;
    end
  end

  // --- The comparison ---------------------------------------------------------------------------------
  entry_t     entry;
  logic [1:0] prior, after;
  logic       hit, valid_q;
  hit_t       hit_q;

  assign prior = least(least(equal_before(entry.prior, walked_q.bases.prior), entry.room_before), walked_q.room_before);
  assign after  = least(least(equal_after(entry.after, walked_q.bases.after), entry.room_after), walked_q.room_after);
  assign hit    = (entry.tag == walked_q.bases.eight[15:BucketLog2]) & (3'(prior) + 3'(after) >= 3'd3);
  assign go     = ~valid_q | ready_i;
  assign valid_o    = valid_q;
  assign hit_o      = hit_q;
  assign busy_o     = asked_valid_q | walking_q | compared_q | valid_q;
  assign compares_o = compared_q & go;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni)  valid_q <= 1'b0;
    else if (go)  valid_q <= compared_q & hit;
  end
  always_ff @(posedge clk_i) begin
    if (go) hit_q <= '{entry: 16'(read_q), prior: prior, base: walked_q.base - 34'(prior), unchecked: walked_q.unchecked};
  end

  prim_ram #(.Width($bits(directory_t)), .Depth(1 << BucketLog2)) u_directory (
    .clk_i, .write_i(write_directory_i), .write_address_i(write_address_i[BucketLog2-1:0]),
    .write_data_i(write_data_i[$bits(directory_t)-1:0]), .read_i(ask), .read_address_i(lookup.bases.eight[BucketLog2-1:0]),
    .read_data_o(directory)
  );
  prim_ram #(.Width(EntryWidth), .Depth(1 << EntriesLog2)) u_entries (
    .clk_i, .write_i(write_entry_i), .write_address_i(write_address_i[EntriesLog2-1:0]),
    .write_data_i(write_data_i[EntryWidth-1:0]), .read_i(walk), .read_address_i(pointer), .read_data_o(entry)
  );
  logic unused;
  assign unused = ^{write_data_i, write_address_i, walked_q.bases.eight[BucketLog2-1:0]};
endmodule
