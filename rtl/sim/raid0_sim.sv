// SPDX-License-Identifier: Apache-2.0 OR MIT
// An array on pins, for test benches that act as its host and its disks. Every interface is checked.
module raid0_sim
  import block_pkg::*;
#(
  parameter int unsigned Disks         = 2,
  parameter bit          Mirror        = 1'b0,
  parameter int unsigned UpWidth       = 32,
  parameter int unsigned DiskWidth     = 32,
  parameter int unsigned BlockSizeLog2 = 6,
  parameter int unsigned StripeBlocks  = 1,
  parameter int unsigned SlotBlocks    = 1,
  parameter int unsigned Slots         = 4,
  parameter int unsigned WritePlaces   = 4,
  parameter int unsigned WriteSlots    = 2,
  parameter bit          Async         = 1'b0,
  parameter int unsigned DiskBlocks    = 1024,
  parameter int unsigned TimeoutCycles = 20000
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic disk_clk_i [Disks],
  input  logic disk_rst_ni [Disks],
  input  logic [Disks-1:0] enable,
  input  logic resync,
  output logic [Disks-1:0] failed,
  output logic [Disks-1:0] error,
  output logic [47:0] block_count,
  output logic ready,
  output logic idle,
  input  logic disk_away [Disks],       // the disk is not ready
  input  logic [3:0] disk_medium [Disks],  // its generation
  input  logic cancel,
  output logic disk_cancel [Disks],

  `BLOCK_HOST_PINS(UpWidth),

  output logic        disk_req_valid [Disks],
  output logic [2:0]  disk_req_op [Disks],
  output logic        disk_req_fua [Disks],
  output logic [4:0]  disk_req_tag [Disks],
  output logic [47:0] disk_req_lba [Disks],
  output logic [23:0] disk_req_count [Disks],
  output logic        disk_write_valid [Disks],
  output logic [4:0]  disk_write_tag [Disks],
  output logic        disk_write_last [Disks],
  output logic        disk_read_ready [Disks],
  output logic        disk_rsp_ready [Disks],
  output logic [DiskWidth-1:0] disk_write_data [Disks],
  input  logic        disk_req_ready [Disks],
  input  logic        disk_write_ready [Disks],
  input  logic        disk_read_valid [Disks],
  input  logic [4:0]  disk_read_tag [Disks],
  input  logic        disk_read_last [Disks],
  input  logic        disk_rsp_valid [Disks],
  input  logic [4:0]  disk_rsp_tag [Disks],
  input  logic [3:0]  disk_rsp_status [Disks],
  input  logic [15:0] disk_rsp_detail [Disks],
  input  logic [DiskWidth-1:0] disk_read_data [Disks]
);
  host_t host;
  dev_t  dev;
  block_pins_host u_pins (.*, .host_o(host), .dev_i(dev));

  // A mirror's disks are not cancelled.
  block_checker #(
    .DataWidth(UpWidth), .BlockSizeLog2(BlockSizeLog2), .TimeoutCycles(TimeoutCycles), .CancelCycles(Mirror ? 0 : 3000)
  ) u_check (
    .clk_i,
    .rst_ni,
    .geometry_i   (geometry),
    .host_i       (host),
    .write_data_i (write_data),
    .dev_i        (dev),
    .read_data_i  (read_data),
    .idle_o       (idle)
  );

  geometry_t geometry;
  geometry_t [Disks-1:0] disk_geometry;
  host_t [Disks-1:0] disk_host;
  dev_t [Disks-1:0] disk_dev;
  logic [Disks-1:0][DiskWidth-1:0] disk_writes, disk_reads;
  logic [Disks-1:0] disk_clk, disk_rst_n;

  assign block_count = geometry.block_count;
  assign ready       = geometry.ready;

  for (genvar i = 0; i < Disks; i++) begin : gen_disk
    // Disks of unequal size: the smallest determines the size of the array.
    assign disk_geometry[i] = '{ready: ~disk_away[i], generation: disk_medium[i], block_size_log2: 5'(BlockSizeLog2),
                                block_count: lba_t'(DiskBlocks) + lba_t'(i), max_transfer_blocks: '1,
                                volatile_write_cache: 1'b1, fua: 1'b1, discard: 1'b1, write_zeroes: 1'b1,
                                read_only: 1'b0};
    assign disk_clk[i]        = disk_clk_i[i];
    assign disk_rst_n[i]      = disk_rst_ni[i];
    assign disk_write_data[i] = disk_writes[i];
    assign disk_cancel[i]     = disk_host[i].cancel;
    assign disk_reads[i]      = disk_read_data[i];

    block_pins_dev u_pins (
      .req_valid (disk_req_valid[i]),
      .req_op (disk_req_op[i]),
      .req_fua (disk_req_fua[i]),
      .req_tag (disk_req_tag[i]),
      .req_lba (disk_req_lba[i]),
      .req_count (disk_req_count[i]),
      .write_valid (disk_write_valid[i]),
      .write_tag (disk_write_tag[i]),
      .write_last (disk_write_last[i]),
      .read_ready (disk_read_ready[i]),
      .rsp_ready (disk_rsp_ready[i]),
      .req_ready (disk_req_ready[i]),
      .write_ready (disk_write_ready[i]),
      .read_valid (disk_read_valid[i]),
      .read_tag (disk_read_tag[i]),
      .read_last (disk_read_last[i]),
      .rsp_valid (disk_rsp_valid[i]),
      .rsp_tag (disk_rsp_tag[i]),
      .rsp_status (disk_rsp_status[i]),
      .rsp_detail (disk_rsp_detail[i]),
      .host_i (disk_host[i]),
      .dev_o (disk_dev[i])
    );

    block_checker #(.DataWidth(DiskWidth), .BlockSizeLog2(BlockSizeLog2)) u_check (
      .clk_i        (Async ? disk_clk_i[i] : clk_i),
      .rst_ni       (Async ? disk_rst_ni[i] : rst_ni),
      .geometry_i   (disk_geometry[i]),
      .host_i       (disk_host[i]),
      .write_data_i (disk_writes[i]),
      .dev_i        (disk_dev[i]),
      .read_data_i  (disk_reads[i]),
      .idle_o       ()
    );
  end

  raid0 #(
    .Disks(Disks), .Mirror(Mirror), .UpWidth(UpWidth), .DiskWidth(DiskWidth), .BlockSizeLog2(BlockSizeLog2),
    .StripeBlocks(StripeBlocks), .SlotBlocks(SlotBlocks), .Slots(Slots), .WritePlaces(WritePlaces),
    .WriteSlots(WriteSlots), .Async(Async)
  ) u_raid0 (
    .clk_i,
    .rst_ni,
    .geometry_o        (geometry),
    .host_i            (host),
    .write_data_i      (write_data),
    .dev_o             (dev),
    .read_data_o       (read_data),
    .enable_i          (enable),
    .resync_i          (resync),
    .failed_o          (failed),
    .error_o           (error),
    .disk_clk_i        (disk_clk),
    .disk_rst_ni       (disk_rst_n),
    .disk_geometry_i   (disk_geometry),
    .disk_host_o       (disk_host),
    .disk_write_data_o (disk_writes),
    .disk_dev_i        (disk_dev),
    .disk_read_data_i  (disk_reads)
  );
endmodule
