// SPDX-License-Identifier: Apache-2.0 OR MIT
// The write half of an array's lane: the queue of data for the disk, and the results of writes,
// flushes and discards in the order of the pieces, regardless of the order in which the disk
// responds.
//
// Owns the queued data and a ring of results. The disk's tag is the place in the ring plus `TagBase`.
// The data of a write are offered only after the disk has taken its request (rule B4).
//
// UpWidth, DiskWidth  bits of the two data streams; the first is a multiple of the second
// QueueWords          words of UpWidth in the data queue, a power of two
// Places              places in the ring, a power of two, 2 to 16
// TagBase             the first of the disk's tags used here
module raid_lane_write
  import block_pkg::*;
  import raid_pkg::*;
#(
  parameter int unsigned UpWidth       = 32,
  parameter int unsigned DiskWidth     = 32,
  parameter int unsigned BlockSizeLog2 = 9,
  parameter int unsigned QueueWords    = 256,
  parameter int unsigned Places        = 4,
  parameter int unsigned TagBase       = 16
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  // A piece is given a place in the ring.
  output logic                 free_o,
  input  logic                 take_i,
  output tag_t                 tag_o,

  // Its data, in the order of the pieces.
  input  logic                 valid_i,
  output logic                 ready_o,
  input  logic [UpWidth-1:0]   data_i,

  // The result of the oldest piece.
  output logic                 result_valid_o,
  output result_t              result_o,
  input  logic                 retire_i,

  // To and from the disk.
  input  logic                 req_taken_i,  // a write with data
  input  tag_t                 req_tag_i,
  input  count_t               req_count_i,
  output logic                 write_valid_o,
  input  logic                 write_ready_i,
  output beat_t                write_o,
  output logic [DiskWidth-1:0] write_data_o,
  input  logic                 rsp_valid_i,
  input  rsp_t                 rsp_i
);
  localparam int unsigned Ratio      = UpWidth / DiskWidth;
  localparam int unsigned PlaceWidth = $clog2(Places);
  localparam int unsigned WordsLog2  = BlockSizeLog2 - $clog2(DiskWidth / 8);
  typedef logic [PlaceWidth-1:0] place_t;
  typedef logic [PlaceWidth:0]   pointer_t;
  typedef logic [CountWidth+WordsLog2-1:0] words_t;

  // --- The ring of results --------------------------------------------------------------------
  logic [Places-1:0] done_q;
  result_t  result_q [Places];
  pointer_t take_q, retire_q;
  place_t   rsp_place;

  assign free_o         = (take_q - retire_q) != pointer_t'(Places);
  assign tag_o          = tag_t'(TagBase) | tag_t'(place_t'(take_q));
  assign rsp_place      = place_t'(rsp_i.tag);
  assign result_valid_o = done_q[place_t'(retire_q)];
  assign result_o       = result_q[place_t'(retire_q)];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      take_q   <= '0;
      retire_q <= '0;
      done_q   <= '0;
    end else begin
      if (take_i) take_q <= take_q + pointer_t'(1);
      if (rsp_valid_i) done_q[rsp_place] <= 1'b1;
      if (retire_i) begin
        retire_q <= retire_q + pointer_t'(1);
        done_q[place_t'(retire_q)] <= 1'b0;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (rsp_valid_i) result_q[rsp_place] <= '{status: rsp_i.status, detail: rsp_i.detail};
  end

  // --- Data: UpWidth words into the queue, DiskWidth words out --------------------------------
  logic word_valid, word_done, open, words_last, write_taken;
  logic [UpWidth-1:0] word;
  tag_t   open_tag;
  count_t open_count;
  words_t index_q;

  prim_fifo_ram #(.Width(UpWidth), .Depth(QueueWords)) u_data (
    .clk_i,
    .rst_ni,
    .valid_i,
    .ready_o,
    .data_i,
    .valid_o (word_valid),
    .ready_i (word_done),
    .data_o  (word)
  );

  // No more writes can be open than there are places.
  prim_fifo #(.Width(TagWidth + CountWidth), .Depth(Places)) u_open (
    .clk_i,
    .rst_ni,
    .valid_i (req_taken_i),
    .ready_o (),
    .data_i  ({req_tag_i, req_count_i}),
    .valid_o (open),
    .ready_i (write_taken & words_last),
    .data_o  ({open_tag, open_count})
  );

  assign write_valid_o = word_valid & open;
  assign write_taken   = write_valid_o & write_ready_i;
  assign words_last    = index_q == (words_t'(open_count) << WordsLog2) - words_t'(1);
  assign write_o       = '{tag: open_tag, last: words_last};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) index_q <= '0;
    else if (write_taken) index_q <= words_last ? '0 : index_q + words_t'(1);
  end

  if (Ratio == 1) begin : gen_equal
    assign write_data_o = word;
    assign word_done    = write_taken;
  end else begin : gen_wider
    localparam int unsigned PartWidth = $clog2(Ratio);
    logic [PartWidth-1:0] part;
    assign part         = index_q[PartWidth-1:0];
    assign write_data_o = word[part*DiskWidth+:DiskWidth];
    assign word_done    = write_taken & (part == PartWidth'(Ratio - 1));
  end
endmodule
