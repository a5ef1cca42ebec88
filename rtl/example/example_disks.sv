// SPDX-License-Identifier: Apache-2.0 OR MIT
// RAM disks of the examples as one block device: one, or an array of 2 to 8. Each has a memory port of its own, in the disks'
// clock, which is the host's without `Async`.
//
// BaseAddress  address of the first disk in memory; the next ones follow at distances of DiskStride bytes
// The others   as in ramdisk and raid0
module example_disks
  import block_pkg::*;
#(
  parameter int unsigned       Disks         = 1,
  parameter bit                Mirror        = 1'b0,
  parameter bit                Async         = 1'b0,
  parameter int unsigned       DataWidth     = 32,
  parameter int unsigned       DiskWidth     = 32,
  parameter int unsigned       BlockSizeLog2 = 9,
  parameter int unsigned       StripeBlocks  = 8,
  parameter int unsigned       SlotBlocks    = StripeBlocks,
  parameter int unsigned       Slots         = 4,
  parameter int unsigned       WritePlaces   = 4,
  parameter int unsigned       WriteSlots    = 2,
  parameter int unsigned       LbaBits       = 32,
  parameter lba_t              DiskBlocks    = lba_t'(1 << 16),
  parameter axi_pkg::address_t BaseAddress   = '0,
  parameter axi_pkg::address_t DiskStride    = '0
) (
  input  logic                            clk_i,
  input  logic                            rst_ni,
  output geometry_t                       geometry_o,
  input  host_t                           host_i,
  input  logic [DataWidth-1:0]            write_data_i,
  output dev_t                            dev_o,
  output logic [DataWidth-1:0]            read_data_o,
  output logic [Disks-1:0]                failed_o,

  input  logic                            disk_clk_i,
  input  logic                            disk_rst_ni,
  output axi_pkg::manager_t [Disks-1:0]   axi_o,
  output logic [Disks-1:0][DiskWidth-1:0] axi_write_data_o,
  input  axi_pkg::memory_t [Disks-1:0]    axi_i,
  input  logic [Disks-1:0][DiskWidth-1:0] axi_read_data_i
);
  geometry_t [Disks-1:0] disk_geometry;
  host_t [Disks-1:0] disk_host;
  dev_t [Disks-1:0] disk_dev;
  logic [Disks-1:0][DiskWidth-1:0] disk_write, disk_read;

  for (genvar i = 0; i < Disks; i++) begin : gen_disk
    ramdisk #(
      .DataWidth(DiskWidth), .BlockSizeLog2(BlockSizeLog2), .BlockCount(DiskBlocks),
      .BaseAddress(BaseAddress + axi_pkg::address_t'(i) * DiskStride)
    ) u_ramdisk (
      .clk_i            (disk_clk_i),
      .rst_ni           (disk_rst_ni),
      .geometry_o       (disk_geometry[i]),
      .host_i           (disk_host[i]),
      .write_data_i     (disk_write[i]),
      .dev_o            (disk_dev[i]),
      .read_data_o      (disk_read[i]),
      .axi_o            (axi_o[i]),
      .axi_write_data_o (axi_write_data_o[i]),
      .axi_i            (axi_i[i]),
      .axi_read_data_i  (axi_read_data_i[i])
    );
  end

  if (Disks > 1) begin : gen_array
    raid0 #(
      .Disks(Disks), .Mirror(Mirror), .UpWidth(DataWidth), .DiskWidth(DiskWidth), .BlockSizeLog2(BlockSizeLog2),
      .StripeBlocks(StripeBlocks), .SlotBlocks(SlotBlocks), .Slots(Slots), .WritePlaces(WritePlaces), .WriteSlots(WriteSlots),
      .LbaBits(LbaBits), .Async(Async)
    ) u_raid0 (
      .clk_i,
      .rst_ni,
      .geometry_o,
      .host_i,
      .write_data_i,
      .dev_o,
      .read_data_o,
      .enable_i          ('1),
      .resync_i          (1'b0),
      .failed_o,
      .error_o           (),
      .disk_clk_i        ({Disks{disk_clk_i}}),
      .disk_rst_ni       ({Disks{disk_rst_ni}}),
      .disk_geometry_i   (disk_geometry),
      .disk_host_o       (disk_host),
      .disk_write_data_o (disk_write),
      .disk_dev_i        (disk_dev),
      .disk_read_data_i  (disk_read)
    );
  end else begin : gen_one
    assign failed_o = '0;
    if (Async) begin : gen_async
      block_cdc #(.DataWidth(DataWidth)) u_cdc (
        .host_clk_i   (clk_i),
        .host_rst_ni  (rst_ni),
        .host_i,
        .write_data_i,
        .dev_o,
        .read_data_o,
        .geometry_o,
        .dev_clk_i    (disk_clk_i),
        .dev_rst_ni   (disk_rst_ni),
        .host_o       (disk_host[0]),
        .write_data_o (disk_write[0]),
        .dev_i        (disk_dev[0]),
        .read_data_i  (disk_read[0]),
        .geometry_i   (disk_geometry[0])
      );
    end else begin : gen_sync
      assign geometry_o    = disk_geometry[0];
      assign disk_host[0]  = host_i;
      assign disk_write[0] = write_data_i;
      assign dev_o         = disk_dev[0];
      assign read_data_o   = disk_read[0];
    end
  end
endmodule
