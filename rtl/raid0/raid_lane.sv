// SPDX-License-Identifier: Apache-2.0 OR MIT
// One disk of an array: gives each piece its tag, keeps the pieces' order whatever order the disk
// answers in, and matches the data widths.
//
// Owns the disk's block interface and all its tags. Pieces go in by `piece_i`; their data and their
// results come out in the order in which they went in, separately for reads and for other pieces;
// the two do not wait for each other.
//
// The parameters are those of raid0.
module raid_lane
  import block_pkg::*;
  import raid_pkg::*;
#(
  parameter int unsigned UpWidth       = 32,
  parameter int unsigned DiskWidth     = 32,
  parameter int unsigned BlockSizeLog2 = 9,
  parameter int unsigned SlotBlocks    = 1,
  parameter int unsigned Slots         = 4,
  parameter int unsigned WritePlaces   = 4,
  parameter int unsigned WriteWords    = 256,
  parameter bit          Whole         = 1'b0
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  output logic                 read_free_o,    // a read piece can be taken
  output logic                 extra_free_o,   // a read piece for the extra slot can be taken
  output logic                 other_free_o,   // a piece of another kind can be taken
  input  logic                 piece_valid_i,  // only while a piece of this kind can be taken
  input  piece_t               piece_i,
  input  logic                 piece_extra_i,  // into the extra slot (mirrors)

  input  logic                 read_select_i,  // Whole: the oldest read is this lane's
  input  logic                 read_extra_i,   // Whole: the oldest read is in the extra slot
  output logic                 read_valid_o,
  input  logic                 read_ready_i,
  output logic [UpWidth-1:0]   read_data_o,
  output logic                 read_bad_o,
  input  logic                 read_drop_i,
  output logic                 read_result_valid_o,
  output result_t              read_result_o,
  input  logic                 read_retire_i,

  input  logic                 write_valid_i,
  output logic                 write_ready_o,
  input  logic [UpWidth-1:0]   write_data_i,
  output logic                 other_result_valid_o,
  output result_t              other_result_o,
  input  logic                 other_retire_i,

  input  logic                 cancel_i,  // of the array's host

  output host_t                host_o,
  output logic [DiskWidth-1:0] write_data_o,
  input  dev_t                 dev_i,
  input  logic [DiskWidth-1:0] read_data_i
);
  localparam int unsigned WordsLog2 = BlockSizeLog2 - $clog2(UpWidth / 8);
  localparam int unsigned SlotWords = SlotBlocks << WordsLog2;
  localparam int unsigned TagBase   = 16;

  logic slot_free, place_free, req_ready, is_read;
  tag_t slot_tag, place_tag;

  assign is_read      = piece_i.op == OpRead;
  assign read_free_o  = slot_free & req_ready;
  assign extra_free_o = req_ready;
  assign other_free_o = place_free & req_ready;

  req_t req;
  assign req = '{op: piece_i.op, fua: piece_i.fua, tag: is_read ? slot_tag : place_tag,
                 lba: piece_i.lba, count: piece_i.count};

  prim_fifo #(.Width($bits(req_t)), .Depth(2)) u_req (
    .clk_i,
    .rst_ni,
    .valid_i (piece_valid_i),
    .ready_o (req_ready),
    .data_i  (req),
    .valid_o (host_o.req_valid),
    .ready_i (dev_i.req_ready),
    .data_o  (host_o.req)
  );

  raid_lane_read #(
    .UpWidth(UpWidth), .DiskWidth(DiskWidth), .SlotWords(SlotWords), .Slots(Slots), .Whole(Whole)
  ) u_read (
    .clk_i,
    .rst_ni,
    .free_o         (slot_free),
    .take_i         (piece_valid_i & is_read),
    .take_extra_i   (Whole & piece_extra_i),
    .words_i        (piece_i.count << WordsLog2),
    .tag_o          (slot_tag),
    .select_i       (read_select_i),
    .extra_i        (read_extra_i),
    .valid_o        (read_valid_o),
    .ready_i        (read_ready_i),
    .data_o         (read_data_o),
    .bad_o          (read_bad_o),
    .drop_i         (read_drop_i),
    .result_valid_o (read_result_valid_o),
    .result_o       (read_result_o),
    .retire_i       (read_retire_i),
    .read_valid_i   (dev_i.read_valid),
    .read_ready_o   (host_o.read_ready),
    .read_i         (dev_i.read),
    .read_data_i,
    .rsp_valid_i    (dev_i.rsp_valid & ~dev_i.rsp.tag[TagWidth-1]),
    .rsp_i          (dev_i.rsp)
  );

  raid_lane_write #(
    .UpWidth(UpWidth), .DiskWidth(DiskWidth), .BlockSizeLog2(BlockSizeLog2), .QueueWords(WriteWords),
    .Places(WritePlaces), .TagBase(TagBase)
  ) u_write (
    .clk_i,
    .rst_ni,
    .free_o         (place_free),
    .take_i         (piece_valid_i & ~is_read),
    .tag_o          (place_tag),
    .valid_i        (write_valid_i),
    .ready_o        (write_ready_o),
    .data_i         (write_data_i),
    .result_valid_o (other_result_valid_o),
    .result_o       (other_result_o),
    .retire_i       (other_retire_i),
    .req_taken_i    (host_o.req_valid & dev_i.req_ready & (host_o.req.op == OpWrite)),
    .req_tag_i      (host_o.req.tag),
    .req_count_i    (host_o.req.count),
    .write_valid_o  (host_o.write_valid),
    .write_ready_i  (dev_i.write_ready),
    .write_o        (host_o.write),
    .write_data_o,
    .rsp_valid_i    (dev_i.rsp_valid & dev_i.rsp.tag[TagWidth-1]),
    .rsp_i          (dev_i.rsp)
  );

  assign host_o.rsp_ready = 1'b1;
  // When the array has no outstanding request, none of its disks has one.
  assign host_o.cancel    = cancel_i;
endmodule
