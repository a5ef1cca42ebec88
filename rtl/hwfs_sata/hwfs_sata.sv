// SPDX-License-Identifier: Apache-2.0 OR MIT
// A file system in hardware on Serial ATA drives: `hwfs` in its own clock domain, each drive's host in the drive's.
//
// The application's ports are those of `hwfs`. Each drive's ports carry decoded words, like those of `sata`; a transceiver
// needs a `sata_phy` in between (as in `sata_host`). With two cycles for each of a drive's, the file system keeps up with two drives.
//
// `Slots` selects the connection between the file system and the drives:
//   Slots 0    one drive, through a clock crossing without a buffer. The file system reads one extent at a time, so a
//              queue's answers are never out of order. Suitable for files with few extents
//   Slots >=2  `raid0`: reads are split and overlap, and its slots restore the order of their data; several drives are
//              striped or mirrored. Suitable for files with many extents, and for long latencies
//
// Disks           1 to 8; with Mirror each is a copy
// Slots           0, or concurrent reads on each drive, a power of two, 2 to 16 (mirrors: 8)
// SlotBlocks      blocks of a read, a power of two: Slots * SlotBlocks blocks of RAM for each drive
// StripeBlocks    blocks in a stripe and the longest write, a power of two, to 32768
// WriteSlots      RAM for data to be written to each drive, in units of SlotBlocks
// WriteWords      words for queued writes in each drive's host, a power of two: writes that fit overlap
// Ncq             with queued commands
// DriveKhz        kHz of the drives' clocks
// SignatureMs, FlushMs, DataMs   the deadlines of each drive, as in `sata`
// ClockKhz        kHz of clk_i
// TimeoutMs       the longest time without progress of the file system: more than the drives' deadlines
// The others are parameters of `hwfs`.
module hwfs_sata
  import block_pkg::*;
  import hwfs_pkg::*;
#(
  parameter int unsigned Disks              = 1,
  parameter bit          Mirror             = 1'b0,
  parameter int unsigned Slots              = 0,
  parameter int unsigned SlotBlocks         = 8,
  parameter int unsigned StripeBlocks       = (Disks == 1) ? 32768 : 32,
  parameter int unsigned WriteSlots         = 2,
  parameter int unsigned WriteWords         = 4096,
  parameter bit          Ncq                = 1'b1,
  parameter int unsigned DriveKhz           = 75_000,
  parameter int unsigned SignatureMs        = 31_000,
  parameter int unsigned FlushMs            = 30_000,
  parameter int unsigned DataMs             = 10_000,
  parameter int unsigned NodeLog2Max        = 9,
  parameter int unsigned Files              = 4,
  parameter int unsigned IndexSlots         = 1024,
  parameter int unsigned ClockKhz           = 150_000,
  parameter int unsigned TimeoutMs          = 45_000,
  parameter bit          DataChecksums      = 0
) (
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic        cmd_valid_i,
  output logic        cmd_ready_o,
  input  cmd_t        cmd_i,
  input  logic        name_valid_i,
  output logic        name_ready_o,
  input  logic [31:0] name_data_i,
  output logic        rsp_valid_o,
  input  logic        rsp_ready_i,
  output fs_rsp_t     rsp_o,

  input  logic        write_valid_i,
  output logic        write_ready_o,
  input  logic [31:0] write_data_i,
  output logic        read_valid_o,
  input  logic        read_ready_i,
  output logic [31:0] read_data_o,
  output logic [3:0]  read_keep_o,
  output logic        read_last_o,

  output geometry_t   geometry_o,          // of the volume's device; `ready` when the drives are ready
  input  logic [Disks-1:0] enable_i,       // mirrors: the drives that are up to date
  input  logic        resync_i,            // mirrors: they may differ after a power cut: make them equal first
  output logic [Disks-1:0] failed_o,       // mirrors: the drives that no longer are

  input  logic [Disks-1:0] drive_clk_i,
  input  logic [Disks-1:0] drive_rst_ni,
  input  logic [Disks-1:0] up_i,
  output logic [Disks-1:0] reset_o,
  input  sata_pkg::rx_word_t [Disks-1:0] rx_i,
  output sata_pkg::word_t [Disks-1:0] tx_o
);
  // What the parameters must be.
  if ((Disks < (Mirror ? 2 : 1)) || (Disks > ((Slots == 0) ? 1 : 8))) begin : gen_bad_disks
    $error("Disks is %0d: 1 to 8 (mirrors: from 2 on; without slots 1)", Disks);
  end
  if ((Slots == 1) || (Slots > (Mirror ? 8 : 16)) || ((Slots & (Slots - 1)) != 0)) begin : gen_bad_slots
    $error("Slots is %0d: 0, or a power of two from 2 to 16 (mirrors: 8)", Slots);
  end
  if (ClockKhz < 1) begin : gen_bad_clock_khz
    $error("ClockKhz is %0d: 1 or more", ClockKhz);
  end
  if ((TimeoutMs < 2) || (TimeoutMs <= FlushMs) || (TimeoutMs <= DataMs)) begin : gen_bad_timeout_ms
    $error("TimeoutMs is %0d: more than FlushMs and DataMs", TimeoutMs);
  end

  host_t host;
  dev_t  dev;
  logic [31:0] write_data, read_data;

  hwfs #(
    .DataWidth(32), .BlockSizeLog2(9), .NodeLog2Max(NodeLog2Max), .Files(Files), .IndexSlots(IndexSlots),
    .Outstanding((Slots == 0) ? 1 : 16), .TimeoutCycles(longint'(ClockKhz) * TimeoutMs), .DataChecksums(DataChecksums)
  ) u_hwfs (
    .clk_i, .rst_ni, .geometry_i(geometry_o), .cmd_valid_i, .cmd_ready_o, .cmd_i, .name_valid_i, .name_ready_o,
    .name_data_i, .rsp_valid_o, .rsp_ready_i, .rsp_o, .write_valid_i, .write_ready_o, .write_data_i, .read_valid_o,
    .read_ready_i, .read_data_o, .read_keep_o, .read_last_o, .host_o(host), .host_write_data_o(write_data),
    .dev_i(dev), .dev_read_data_i(read_data)
  );

  geometry_t [Disks-1:0] drive_geometry;
  host_t [Disks-1:0] drive_host;
  dev_t [Disks-1:0] drive_dev;
  logic [Disks-1:0][31:0] drive_write, drive_read;

  if (Slots == 0) begin : gen_direct
    if (Disks != 1) begin : gen_too_many
      $error("several drives need slots");
    end
    logic unused_enable;
    assign unused_enable = enable_i[0] ^ resync_i;
    assign failed_o      = '0;
    block_cdc u_cdc (
      .host_clk_i(clk_i), .host_rst_ni(rst_ni), .host_i(host), .write_data_i(write_data), .dev_o(dev),
      .read_data_o(read_data), .geometry_o, .dev_clk_i(drive_clk_i[0]), .dev_rst_ni(drive_rst_ni[0]),
      .host_o(drive_host[0]), .write_data_o(drive_write[0]), .dev_i(drive_dev[0]), .read_data_i(drive_read[0]),
      .geometry_i(drive_geometry[0])
    );
  end else begin : gen_slots
    raid0 #(
      .Disks(Disks), .Mirror(Mirror), .UpWidth(32), .DiskWidth(32), .BlockSizeLog2(9), .StripeBlocks(StripeBlocks),
      .SlotBlocks(SlotBlocks), .Slots(Slots), .WritePlaces(16), .WriteSlots(WriteSlots), .LbaBits(40), .Async(1'b1)
    ) u_raid (
      .clk_i, .rst_ni, .geometry_o, .host_i(host), .write_data_i(write_data), .dev_o(dev), .read_data_o(read_data),
      .enable_i, .resync_i, .failed_o, .error_o(), .disk_clk_i(drive_clk_i), .disk_rst_ni(drive_rst_ni),
      .disk_geometry_i(drive_geometry), .disk_host_o(drive_host), .disk_write_data_o(drive_write),
      .disk_dev_i(drive_dev), .disk_read_data_i(drive_read)
    );
  end

  for (genvar i = 0; i < Disks; i++) begin : gen_drive
    sata #(
      .Ncq(Ncq), .Trim(1'b0), .WriteWords(WriteWords), .ClockKhz(DriveKhz), .SignatureMs(SignatureMs), .FlushMs(FlushMs),
      .DataMs(DataMs)
    ) u_sata (
      .clk_i(drive_clk_i[i]), .rst_ni(drive_rst_ni[i]), .geometry_o(drive_geometry[i]), .host_i(drive_host[i]),
      .write_data_i(drive_write[i]), .dev_o(drive_dev[i]), .read_data_o(drive_read[i]), .up_i(up_i[i]), .rate_i(2'd0),
      .reset_o(reset_o[i]), .rx_i(rx_i[i]), .tx_o(tx_o[i])
    );
  end
endmodule
