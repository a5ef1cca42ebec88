// SPDX-License-Identifier: Apache-2.0 OR MIT
// Several disks as one block device: striped (RAID-0) or, with `Mirror`, copies (RAID-1). With a single disk that
// reorders, the order of the reads is restored, and they still overlap.
//
// Takes requests of any legal length, cuts them at stripes, and keeps all disks busy at once. Read
// data leave in the order of the reads and of their blocks, whatever order the disks answer in;
// reads are answered in their order, and writes, flushes and discards in theirs; neither waits for
// the other. An error is reported on the request whose piece failed, and `error_o` names the disk.
//
// A striped array passes `cancel` on to all disks. A mirror does not: a write that only one disk has completed would leave
// copies that differ, or make a disk stale.
//
// Striped: stripe s is stripe s / Disks of disk s mod Disks. Mirrored: reads take turns among the
// live disks and are retried on another disk after an error. A disk that fails a write that another disk completed,
// or that disappears while another remains, is stale: `failed_o` is set until reset and the disk is not used. A mirror
// begins when all enabled disks are ready. The owner of the
// array keeps this across a reset and supplies it as `enable_i` (constant from reset on; the geometry of each enabled
// disk counts), and copies the data before it enables the disk again.
//
// After a power cut the copies may differ in writes that no flush had covered. With `resync_i` (constant from reset on) a mirror
// first makes them equal, all blocks, and is ready afterwards; it does the same when all its disks were away and more than
// one returned at once. The owner sets it unless the last use ended with a flush, or enables one disk alone.
//
// Disks          1 to 8; mirrors: 2 to 8
// UpWidth        bits of the array's data streams: DiskWidth times a power of two. With DiskWidth *
//                Disks the array is as fast as all disks together
// DiskWidth      bits of each disk's data streams
// BlockSizeLog2  log2 of a block's bytes, the same for all; a block is at least one UpWidth word
// StripeBlocks   blocks in a stripe, a power of two, and the longest piece: at most each disk's largest transfer
// SlotBlocks     blocks in a piece of a read, a power of two, at most StripeBlocks (mirrors: any)
// Slots          outstanding read pieces on each disk, a power of two, 2 to 16; mirrors: 2 to 8
// WritePlaces    other outstanding pieces on each disk, a power of two, 2 to 16
// WriteSlots     write data queued for each disk, in slots, a power of two
// LbaBits        bits of the array's block addresses
// Async          each disk has its own clock
// Block RAM for each disk: Slots (mirrors: twice that) + WriteSlots, times SlotBlocks blocks. A mirror has min(Slots, 4) times
// SlotBlocks more.
module raid0
  import block_pkg::*;
  import raid_pkg::*;
#(
  parameter int unsigned Disks         = 2,
  parameter bit          Mirror        = 1'b0,
  parameter int unsigned UpWidth       = 32,
  parameter int unsigned DiskWidth     = 32,
  parameter int unsigned BlockSizeLog2 = 9,
  parameter int unsigned StripeBlocks  = 1,
  parameter int unsigned SlotBlocks    = 1,
  parameter int unsigned Slots         = 4,
  parameter int unsigned WritePlaces   = 4,
  parameter int unsigned WriteSlots    = 2,
  parameter int unsigned LbaBits       = 40,
  parameter bit          Async         = 1'b0
) (
  input  logic                            clk_i,
  input  logic                            rst_ni,

  output geometry_t                       geometry_o,
  input  host_t                           host_i,
  input  logic [UpWidth-1:0]              write_data_i,
  output dev_t                            dev_o,
  output logic [UpWidth-1:0]              read_data_o,

  input  logic [Disks-1:0]                enable_i,  // mirrors: the disks that are up to date
  input  logic                            resync_i,  // mirrors: they may differ in writes that no flush had covered
  output logic [Disks-1:0]                failed_o,  // mirrors: the disks that no longer are
  output logic [Disks-1:0]                error_o,   // high for one cycle: this disk failed a piece

  input  logic [Disks-1:0]                disk_clk_i,   // Async only
  input  logic [Disks-1:0]                disk_rst_ni,  // Async only
  input  geometry_t [Disks-1:0]           disk_geometry_i,
  output host_t [Disks-1:0]               disk_host_o,
  output logic [Disks-1:0][DiskWidth-1:0] disk_write_data_o,
  input  dev_t [Disks-1:0]                disk_dev_i,
  input  logic [Disks-1:0][DiskWidth-1:0] disk_read_data_i
);
  // What the parameters must be.
  if ((Disks < (Mirror ? 2 : 1)) || (Disks > 8)) begin : gen_bad_disks
    $error("Disks is %0d: 1 to 8 (mirrors: from 2 on)", Disks);
  end
  if ((UpWidth < DiskWidth) || (UpWidth > 256) || ((UpWidth & (UpWidth - 1)) != 0)) begin : gen_bad_up_width
    $error("UpWidth is %0d: DiskWidth times a power of two, to 256", UpWidth);
  end
  if ((DiskWidth < 32) || (DiskWidth > 256) || ((DiskWidth & (DiskWidth - 1)) != 0)) begin : gen_bad_disk_width
    $error("DiskWidth is %0d: a power of two from 32 to 256", DiskWidth);
  end
  if ((BlockSizeLog2 < 6) || (BlockSizeLog2 > 16)) begin : gen_bad_block_size_log2
    $error("BlockSizeLog2 is %0d: 6 to 16", BlockSizeLog2);
  end
  if ((StripeBlocks < 1) || (StripeBlocks > 32768) || ((StripeBlocks & (StripeBlocks - 1)) != 0)) begin : gen_bad_stripe_blocks
    $error("StripeBlocks is %0d: a power of two from 1 to 32768", StripeBlocks);
  end
  if ((SlotBlocks < 1) || (SlotBlocks > (Mirror ? 32768 : StripeBlocks)) || ((SlotBlocks & (SlotBlocks - 1)) != 0)) begin : gen_bad_slot_blocks
    $error("SlotBlocks is %0d: a power of two, at most StripeBlocks (mirrors: 32768)", SlotBlocks);
  end
  if ((Slots < 2) || (Slots > (Mirror ? 8 : 16)) || ((Slots & (Slots - 1)) != 0)) begin : gen_bad_slots
    $error("Slots is %0d: a power of two from 2 to 16 (mirrors: 8)", Slots);
  end
  if ((WritePlaces < 2) || (WritePlaces > 16) || ((WritePlaces & (WritePlaces - 1)) != 0)) begin : gen_bad_write_places
    $error("WritePlaces is %0d: a power of two from 2 to 16", WritePlaces);
  end
  if ((WriteSlots < 1) || (WriteSlots > 64) || ((WriteSlots & (WriteSlots - 1)) != 0)) begin : gen_bad_write_slots
    $error("WriteSlots is %0d: a power of two from 1 to 64", WriteSlots);
  end
  if ((LbaBits < 16) || (LbaBits > 48)) begin : gen_bad_lba_bits
    $error("LbaBits is %0d: 16 to 48", LbaBits);
  end

  localparam int unsigned WordsLog2  = BlockSizeLog2 - $clog2(UpWidth / 8);
  localparam int unsigned StripeLog2 = $clog2(StripeBlocks);
  localparam int unsigned LaneWidth  = (Disks > 1) ? $clog2(Disks) : 1;
  // A mirror's pieces are cut for one disk only; which one is chosen below.
  localparam int unsigned SplitDisks  = Mirror ? 1 : Disks;
  localparam int unsigned SplitStripe = (Mirror && (StripeBlocks < SlotBlocks)) ? SlotBlocks : StripeBlocks;
  localparam int unsigned SplitWidth  = (SplitDisks > 1) ? $clog2(SplitDisks) : 1;
  typedef logic [LaneWidth-1:0] lane_t;

  logic [Disks-1:0] live, failed_q;
  geometry_t [Disks-1:0] disk_geometry;  // on this side of the clock crossings

  // --- Geometry: the smallest disk's size, common capabilities --------------------------------
  geometry_t joint;
  always_comb begin
    lba_t least;
    joint                     = '0;
    joint.max_transfer_blocks = '1;
    joint.fua                 = 1'b1;
    joint.discard             = 1'b1;
    joint.write_zeroes        = 1'b1;
    joint.block_size_log2     = 5'(BlockSizeLog2);
    least                     = '1;
    for (int unsigned i = 0; i < Disks; i++) begin
      if ((enable_i[i] && !failed_q[i]) || !Mirror) begin
        if (disk_geometry[i].block_count < least) least = disk_geometry[i].block_count;
        joint.fua                  &= disk_geometry[i].fua;
        joint.discard              &= disk_geometry[i].discard;
        joint.write_zeroes         &= disk_geometry[i].write_zeroes;
        joint.read_only            |= disk_geometry[i].read_only;
        joint.volatile_write_cache |= disk_geometry[i].volatile_write_cache;
      end
    end
    joint.block_count = Mirror ? least : ((least >> StripeLog2) << StripeLog2) * lba_t'(Disks);
    if ((joint.block_count >> LbaBits) != '0) joint.block_count = lba_t'(1) << LbaBits;
  end

  // Ready again only when no request is left that one disk ended and another has not (B14).
  logic usable, up, was_up_q, idle;
  logic [3:0] generation_q;

  block_ready u_ready (
    .clk_i,
    .rst_ni,
    .ready_i (usable),
    .taken_i (host_i.req_valid & dev_o.req_ready),
    .ended_i (dev_o.rsp_valid & host_i.rsp_ready),
    .ready_o (up),
    .idle_o  (idle)
  );

  // Counts the times that `ready` fell.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      was_up_q     <= 1'b0;
      generation_q <= '0;
    end else begin
      was_up_q <= up;
      if (was_up_q && !up) generation_q <= generation_q + 4'd1;
    end
  end

  logic resync_go, resyncs, resync_done;
  logic begun;  // a mirror in which all enabled disks have been ready
  if (Mirror) begin : gen_kept
    // A disk that disappears or returns does not change the geometry that the host has seen (B14).
    logic begun_q, differ_q, several;
    geometry_t  kept_q;
    assign begun     = begun_q;
    assign several   = (live & (live - Disks'(1))) != '0;
    assign usable    = begun_q & (|live) & ~differ_q & ~resyncs;
    assign resync_go = begun_q & several & differ_q;
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        begun_q  <= 1'b0;
        differ_q <= 1'b0;
      end else begin
        begun_q <= begun_q | ((enable_i != '0) & (live == enable_i));
        // Disks that leave together may each have lost other writes. One disk alone has no other to differ from.
        if (!begun_q)                     differ_q <= resync_i;
        else if (live == '0)              differ_q <= 1'b1;
        else if (resync_done || !several) differ_q <= 1'b0;
      end
    end
    always_ff @(posedge clk_i) if (!up) kept_q <= joint;
    always_comb begin
      geometry_o            = kept_q;
      geometry_o.ready      = up;
      geometry_o.generation = generation_q;
    end
  end else begin : gen_found
    logic unused_mirror;
    assign unused_mirror = resync_i ^ resync_done ^ idle;
    assign begun     = 1'b0;
    assign usable    = &live;
    assign resync_go = 1'b0;
    always_comb begin
      geometry_o            = joint;
      geometry_o.ready      = up;
      geometry_o.generation = generation_q;
    end
  end

  // --- Requests -------------------------------------------------------------------------------
  host_t host, front_host;
  dev_t  dev, front_dev;
  logic [UpWidth-1:0] write_data, read_data, front_write_data;

  block_front #(.DataWidth(UpWidth), .BlockSizeLog2(BlockSizeLog2)) u_front (
    .clk_i,
    .rst_ni,
    .geometry_i   (geometry_o),
    .host_i,
    .write_data_i,
    .dev_o,
    .read_data_o,
    .host_o       (front_host),
    .write_data_o (front_write_data),
    .dev_i        (front_dev),
    .read_data_i  (read_data)
  );

  // While a mirror's copies are made equal it is not ready: no request passes the front.
  if (Mirror) begin : gen_resync
    host_t resync_host;
    logic [UpWidth-1:0] resync_data;
    raid_resync #(
      .UpWidth(UpWidth), .BlockSizeLog2(BlockSizeLog2), .PieceBlocks(SlotBlocks * ((Slots < 4) ? Slots : 4))
    ) u_resync (
      .clk_i,
      .rst_ni,
      .go_i          (resync_go),
      .clear_i       (idle),
      .block_count_i (geometry_o.block_count),
      .busy_o        (resyncs),
      .done_o        (resync_done),
      .host_o        (resync_host),
      .write_data_o  (resync_data),
      .dev_i         (resyncs ? dev : dev_t'('0)),
      .read_data_i   (read_data)
    );
    assign host       = resyncs ? resync_host : front_host;
    assign write_data = resyncs ? resync_data : front_write_data;
    assign front_dev  = resyncs ? dev_t'('0) : dev;
  end else begin : gen_no_resync
    assign resyncs     = 1'b0;
    assign resync_done = 1'b0;
    assign host        = front_host;
    assign write_data  = front_write_data;
    assign front_dev   = dev;
  end

  logic   split_valid, split_ready, split_last;
  piece_t split_piece;
  tag_t   split_tag;
  logic [SplitWidth-1:0] split_disk;

  raid_split #(
    .Disks(SplitDisks), .StripeBlocks(SplitStripe), .SlotBlocks(SlotBlocks), .LbaBits(LbaBits)
  ) u_split (
    .clk_i,
    .rst_ni,
    .valid_i (host.req_valid),
    .ready_o (dev.req_ready),
    .req_i   (host.req),
    .valid_o (split_valid),
    .ready_i (split_ready),
    .piece_o (split_piece),
    .disk_o  (split_disk),
    .tag_o   (split_tag),
    .last_o  (split_last)
  );

  // --- The lanes of a piece -----------------------------------------------------------------
  logic [Disks-1:0] read_free, other_free, extra_free, lanes, piece_valid;
  logic  is_read, join_read_free, join_write_free, again_valid, again_ready, taken;
  lane_t read_lane;
  logic [Disks-1:0] read_select;
  piece_t again, piece;

  assign is_read = split_piece.op == OpRead;

  if (Mirror) begin : gen_turns
    lane_t turn_q;
    // The first live disk, beginning with the one whose turn it is.
    always_comb begin
      logic found;
      read_lane = turn_q;
      found     = 1'b0;
      for (int unsigned i = 0; i < Disks; i++) begin
        int unsigned candidate;
        candidate = (32'(turn_q) + i) % Disks;
        if (!found && live[candidate]) begin
          read_lane = lane_t'(candidate);
          found     = 1'b1;
        end
      end
    end
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) turn_q <= '0;
      else if (taken && is_read) begin
        turn_q <= (read_lane == lane_t'(Disks - 1)) ? '0 : read_lane + lane_t'(1);
      end
    end
    assign lanes = is_read ? Disks'(1) << read_lane : live;
  end else begin : gen_stripes
    assign read_lane = lane_t'(split_disk);
    assign lanes     = (split_piece.op == OpFlush) ? '1 : Disks'(1) << read_lane;
  end

  // A mirror's retry of a read has priority over everything else.
  always_comb begin
    split_ready = ~again_valid;
    if (is_read) split_ready &= join_read_free & (|(lanes & read_free));
    else         split_ready &= join_write_free & (&(~lanes | other_free));
  end
  assign taken       = split_valid & split_ready;
  assign again_ready = |(read_select & extra_free);
  assign piece       = again_valid ? again : split_piece;
  assign piece_valid = again_valid ? read_select & extra_free : (taken ? lanes : '0);

  // --- Lanes ----------------------------------------------------------------------------------
  logic [Disks-1:0] read_valid, read_ready, read_bad, read_drop, read_result_valid, read_retire;
  logic [Disks-1:0] read_error, write_error, write_fail;
  logic [Disks-1:0] write_valid, write_ready, other_result_valid, other_retire;
  logic [Disks-1:0][UpWidth-1:0] lane_data;
  result_t [Disks-1:0] read_result, other_result;
  logic read_extra;

  for (genvar i = 0; i < Disks; i++) begin : gen_lane
    host_t lane_host;
    dev_t  lane_dev;
    logic [DiskWidth-1:0] lane_write_data, lane_read_data;

    raid_lane #(
      .UpWidth(UpWidth), .DiskWidth(DiskWidth), .BlockSizeLog2(BlockSizeLog2), .SlotBlocks(SlotBlocks),
      .Slots(Slots), .WritePlaces(WritePlaces), .WriteWords((WriteSlots * SlotBlocks) << WordsLog2),
      .Whole(Mirror)
    ) u_lane (
      .clk_i,
      .rst_ni,
      .read_free_o          (read_free[i]),
      .extra_free_o         (extra_free[i]),
      .other_free_o         (other_free[i]),
      .piece_valid_i        (piece_valid[i]),
      .piece_i              (piece),
      .piece_extra_i        (again_valid),
      .read_select_i        (read_select[i]),
      .read_extra_i         (read_extra & read_select[i]),
      .read_valid_o         (read_valid[i]),
      .read_ready_i         (read_ready[i]),
      .read_data_o          (lane_data[i]),
      .read_bad_o           (read_bad[i]),
      .read_drop_i          (read_drop[i]),
      .read_result_valid_o  (read_result_valid[i]),
      .read_result_o        (read_result[i]),
      .read_retire_i        (read_retire[i]),
      .write_valid_i        (write_valid[i]),
      .write_ready_o        (write_ready[i]),
      .write_data_i         (write_data),
      .other_result_valid_o (other_result_valid[i]),
      .other_result_o       (other_result[i]),
      .other_retire_i       (other_retire[i]),
      .cancel_i             (~Mirror & host.cancel),
      .host_o               (lane_host),
      .write_data_o         (lane_write_data),
      .dev_i                (lane_dev),
      .read_data_i          (lane_read_data)
    );

    if (Async) begin : gen_async
      block_cdc #(.DataWidth(DiskWidth)) u_cdc (
        .host_clk_i   (clk_i),
        .host_rst_ni  (rst_ni),
        .host_i       (lane_host),
        .write_data_i (lane_write_data),
        .dev_o        (lane_dev),
        .read_data_o  (lane_read_data),
        .geometry_o   (disk_geometry[i]),
        .dev_clk_i    (disk_clk_i[i]),
        .dev_rst_ni   (disk_rst_ni[i]),
        .host_o       (disk_host_o[i]),
        .write_data_o (disk_write_data_o[i]),
        .dev_i        (disk_dev_i[i]),
        .read_data_i  (disk_read_data_i[i]),
        .geometry_i   (disk_geometry_i[i])
      );
    end else begin : gen_sync
      logic unused_clocks;
      assign unused_clocks        = disk_clk_i[i] ^ disk_rst_ni[i];
      assign disk_geometry[i]     = disk_geometry_i[i];
      assign disk_host_o[i]       = lane_host;
      assign disk_write_data_o[i] = lane_write_data;
      assign lane_dev             = disk_dev_i[i];
      assign lane_read_data       = disk_read_data_i[i];
    end
  end

  // --- Joining --------------------------------------------------------------------------------
  logic [1:0] rsp_valid, rsp_ready;
  rsp_t [1:0] rsp;

  raid_read_join #(
    .UpWidth(UpWidth), .Disks(Disks), .WordsLog2(WordsLog2), .SlotBlocks(SlotBlocks),
    .Pieces(Disks * Slots), .Mirror(Mirror)
  ) u_read_join (
    .clk_i,
    .rst_ni,
    .live_i         (live),
    .free_o         (join_read_free),
    .take_i         (taken & is_read),
    .piece_i        (split_piece),
    .lane_i         (read_lane),
    .tag_i          (split_tag),
    .last_i         (split_last),
    .select_o       (read_select),
    .extra_o        (read_extra),
    .valid_i        (read_valid),
    .ready_o        (read_ready),
    .data_i         (lane_data),
    .bad_i          (read_bad),
    .drop_o         (read_drop),
    .result_valid_i (read_result_valid),
    .result_i       (read_result),
    .retire_o       (read_retire),
    .error_o        (read_error),
    .again_valid_o  (again_valid),
    .again_ready_i  (again_ready),
    .again_o        (again),
    .read_valid_o   (dev.read_valid),
    .read_ready_i   (host.read_ready),
    .read_o         (dev.read),
    .read_data_o    (read_data),
    .rsp_valid_o    (rsp_valid[0]),
    .rsp_ready_i    (rsp_ready[0]),
    .rsp_o          (rsp[0])
  );

  raid_write_join #(
    .Disks(Disks), .WordsLog2(WordsLog2), .PieceBlocks(SplitStripe),
    .Pieces(Disks * WritePlaces), .Mirror(Mirror)
  ) u_write_join (
    .clk_i,
    .rst_ni,
    .free_o         (join_write_free),
    .take_i         (taken & ~is_read),
    .piece_i        (split_piece),
    .lanes_i        (lanes),
    .tag_i          (split_tag),
    .last_i         (split_last),
    .write_valid_i  (host.write_valid),
    .write_ready_o  (dev.write_ready),
    .valid_o        (write_valid),
    .ready_i        (write_ready),
    .result_valid_i (other_result_valid),
    .result_i       (other_result),
    .retire_o       (other_retire),
    .error_o        (write_error),
    .fail_o         (write_fail),
    .failed_i       (failed_q),
    .rsp_valid_o    (rsp_valid[1]),
    .rsp_ready_i    (rsp_ready[1]),
    .rsp_o          (rsp[1])
  );

  prim_merge #(.Width($bits(rsp_t))) u_merge (
    .clk_i,
    .rst_ni,
    .valid_i (rsp_valid),
    .ready_o (rsp_ready),
    .data_i  (rsp),
    .valid_o (dev.rsp_valid),
    .ready_i (host.rsp_ready),
    .data_o  (dev.rsp)
  );

  // --- Which disks are used -------------------------------------------------------------------
  logic [Disks-1:0] ready, stale;
  for (genvar i = 0; i < Disks; i++) begin : gen_ready
    assign ready[i] = disk_geometry[i].ready;
    // A disk that left while the copies were made equal has missed nothing that the host knows of: if all left, they are made equal
    // again, and if others stay, it is stale by that.
    assign stale[i] = write_fail[i] & ~(resyncs & (other_result[i].status == StatusGone));
  end
  assign live     = Mirror ? enable_i & ready & ~failed_q : ready;
  assign failed_o = failed_q;
  assign error_o  = read_error | write_error;

  // A mirror's disk that disappears misses writes and may lose its cache. The last disk stays in use.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni)                failed_q <= '0;
    else if (begun && (|live)) failed_q <= failed_q | stale | (enable_i & ~ready);
    else                        failed_q <= failed_q | stale;
  end
endmodule
