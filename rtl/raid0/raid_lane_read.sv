// SPDX-License-Identifier: Apache-2.0 OR MIT
// The read half of an array's lane: a ring of slots, each room for one piece's data. A piece gets a
// slot before its request goes to the disk, so the disk is never held up, may answer its requests in
// any order, and the data still leave in the order in which the pieces came.
//
// Owns the slots. A slot is free again when its data have left and its result was taken. The disk's
// tag is the slot's number. In `Whole` mode a piece's data leave only when all are there and its
// status is good; the head of the ring can then be dropped instead, and read from elsewhere through
// the extra slot `Slots`, which is not part of the ring.
//
// UpWidth, DiskWidth  bits of the two data streams; the first is a multiple of the second
// SlotWords           words of UpWidth in a slot, a power of two
// Slots               slots in the ring, a power of two, 2 to 16; with Whole to 8
// Whole               see above; for mirrors
module raid_lane_read
  import block_pkg::*;
  import raid_pkg::*;
#(
  parameter int unsigned UpWidth   = 32,
  parameter int unsigned DiskWidth = 32,
  parameter int unsigned SlotWords = 128,
  parameter int unsigned Slots     = 4,
  parameter bit          Whole     = 1'b0
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  // A piece is given a slot.
  output logic                 free_o,
  input  logic                 take_i,
  input  logic                 take_extra_i,
  input  count_t               words_i,      // UpWidth words of the piece
  output tag_t                 tag_o,        // for the disk's request

  // The data of the ring's head, or of the extra slot.
  input  logic                 select_i,     // Whole: this lane's turn
  input  logic                 extra_i,
  output logic                 valid_o,
  input  logic                 ready_i,
  output logic [UpWidth-1:0]   data_o,
  output logic                 bad_o,        // Whole: the head has failed
  input  logic                 drop_i,       // Whole: drop the head

  // The result of the oldest piece whose data have left (or of the one that is bad).
  output logic                 result_valid_o,
  output result_t              result_o,
  input  logic                 retire_i,

  // From the disk.
  input  logic                 read_valid_i,
  output logic                 read_ready_o,
  input  beat_t                read_i,
  input  logic [DiskWidth-1:0] read_data_i,
  input  logic                 rsp_valid_i,
  input  rsp_t                 rsp_i
);
  localparam int unsigned Ratio      = UpWidth / DiskWidth;
  localparam int unsigned PartWidth  = (Ratio > 1) ? $clog2(Ratio) : 1;
  localparam int unsigned SlotWidth  = $clog2(Slots);
  localparam int unsigned WordWidth  = (SlotWords > 1) ? $clog2(SlotWords) : 1;
  localparam int unsigned Places     = Whole ? 2 * Slots : Slots;
  localparam int unsigned PlaceWidth = $clog2(Places);
  typedef logic [SlotWidth-1:0]  slot_t;
  typedef logic [PlaceWidth-1:0] place_t;
  typedef logic [WordWidth:0]    words_t;

  localparam place_t Extra = place_t'(Slots);  // wraps to 0 and is unused where not Whole

  logic [Places-1:0] full_q, done_q;
  result_t result_q [Places];
  words_t  length_q [Places];
  logic [SlotWidth:0] take_q, drain_q, retire_q;

  // --- Slots are given and come back in the order of the ring ---------------------------------
  place_t take_place, retire_place, rsp_place;
  assign free_o       = (take_q - retire_q) != (SlotWidth + 1)'(Slots);
  assign take_place   = take_extra_i ? Extra : place_t'(slot_t'(take_q));
  assign retire_place = (Whole && extra_i) ? Extra : place_t'(slot_t'(retire_q));
  assign tag_o        = tag_t'(take_place);
  assign rsp_place    = place_t'(rsp_i.tag);

  assign result_valid_o = done_q[retire_place];
  assign result_o       = result_q[retire_place];

  // --- Fill: put DiskWidth words together, write UpWidth words --------------------------------
  place_t  fill_place;
  words_t  filled_q;
  logic    word_done;
  logic [UpWidth-1:0] fill_word;

  assign read_ready_o = 1'b1;
  assign fill_place   = place_t'(read_i.tag);

  if (Ratio == 1) begin : gen_equal
    assign word_done = read_valid_i;
    assign fill_word = read_data_i;
  end else begin : gen_wider
    logic [PartWidth-1:0] part_q;
    logic [UpWidth-DiskWidth-1:0] parts_q;
    assign word_done = read_valid_i & (part_q == PartWidth'(Ratio - 1));
    assign fill_word = {read_data_i, parts_q};
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) part_q <= '0;
      else if (read_valid_i) part_q <= word_done ? '0 : part_q + PartWidth'(1);
    end
    always_ff @(posedge clk_i) begin
      if (read_valid_i) parts_q <= fill_word[UpWidth-1:DiskWidth];
    end
  end

  // What the slot being filled holds so far, for the drain to follow closely.
  place_t filling_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      filled_q  <= '0;
      filling_q <= '0;
    end else if (word_done) begin
      filling_q <= fill_place;
      filled_q  <= read_i.last ? '0 : filled_q + words_t'(1);
    end
  end

  // --- Drain: in the ring's order, or the extra slot ------------------------------------------
  words_t offset_q;
  logic   available, fetch, fetch_last, fetched_q;
  place_t drain_place;
  logic [UpWidth-1:0] word;

  assign drain_place = (Whole && extra_i) ? Extra : place_t'(slot_t'(drain_q));
  assign fetch_last  = offset_q == length_q[drain_place] - words_t'(1);
  if (Whole) begin : gen_whole
    // One piece at a time: words that are read ahead must not precede the extra slot's words.
    logic ended_q;
    assign bad_o     = ~ended_q & done_q[drain_place] & (result_q[drain_place].status != StatusOk);
    assign available = select_i & ~ended_q & full_q[drain_place] & done_q[drain_place] & ~bad_o;
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni)                  ended_q <= 1'b0;
      else if (retire_i)            ended_q <= 1'b0;
      else if (fetch && fetch_last) ended_q <= 1'b1;
    end
  end else begin : gen_through
    assign bad_o     = 1'b0;
    assign available = full_q[drain_place] | ((filling_q == drain_place) & (offset_q < filled_q));
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      take_q    <= '0;
      drain_q   <= '0;
      retire_q  <= '0;
      offset_q  <= '0;
      full_q    <= '0;
      done_q    <= '0;
      fetched_q <= 1'b0;
    end else begin
      fetched_q <= fetch;
      if (take_i && !take_extra_i)      take_q   <= take_q + (SlotWidth + 1)'(1);
      if (retire_i && !(Whole && extra_i)) retire_q <= retire_q + (SlotWidth + 1)'(1);
      if (fetch) offset_q <= fetch_last ? '0 : offset_q + words_t'(1);
      if (word_done && read_i.last) full_q[fill_place] <= 1'b1;
      if ((fetch && fetch_last) || drop_i) begin
        full_q[drain_place] <= 1'b0;
        if (!(Whole && extra_i)) drain_q <= drain_q + (SlotWidth + 1)'(1);
      end
      if (rsp_valid_i) done_q[rsp_place]    <= 1'b1;
      if (retire_i)    done_q[retire_place] <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (take_i)      length_q[take_place] <= words_t'(words_i);
    if (rsp_valid_i) result_q[rsp_place]  <= '{status: rsp_i.status, detail: rsp_i.detail};
  end

  if (SlotWords > 1) begin : gen_ram
    prim_ram #(.Width(UpWidth), .Depth(Places * SlotWords)) u_ram (
      .clk_i,
      .write_i         (word_done),
      .write_address_i ({fill_place, filled_q[WordWidth-1:0]}),
      .write_data_i    (fill_word),
      .read_i          (fetch),
      .read_address_i  ({drain_place, offset_q[WordWidth-1:0]}),
      .read_data_o     (word)
    );
  end else begin : gen_words
    prim_ram #(.Width(UpWidth), .Depth(Places)) u_ram (
      .clk_i,
      .write_i         (word_done),
      .write_address_i (fill_place),
      .write_data_i    (fill_word),
      .read_i          (fetch),
      .read_address_i  (drain_place),
      .read_data_o     (word)
    );
  end

  prim_ahead #(.Width(UpWidth)) u_ahead (
    .clk_i,
    .rst_ni,
    .available_i (available),
    .fetch_o     (fetch),
    .fetched_i   (fetched_q),
    .data_i      (word),
    .valid_o,
    .ready_i,
    .data_o
  );
endmodule
