// SPDX-License-Identifier: Apache-2.0 OR MIT
// One RAM disk, or an array of them, each on its own memory with the model's delays, on pins for a
// test bench that acts as the host. Every interface is checked.
module ramdisk_sim
  import block_pkg::*;
#(
  parameter int unsigned Disks           = 1,
  parameter int unsigned UpWidth         = 32,
  parameter int unsigned DiskWidth       = 32,
  parameter int unsigned BlockSizeLog2   = 6,
  parameter int unsigned StripeBlocks    = 8,
  parameter int unsigned DiskBlocks      = 16384,
  parameter int unsigned ReadLatency     = 0,
  parameter int unsigned ReadRateWords   = 1,
  parameter int unsigned ReadRateCycles  = 1,
  parameter int unsigned WriteLatency    = 0,
  parameter int unsigned WriteRateWords  = 1,
  parameter int unsigned WriteRateCycles = 1,
  parameter int unsigned TimeoutCycles   = 20000
) (
  input  logic clk_i,
  input  logic rst_ni,
  output logic [47:0] block_count,
  output logic idle,
  input  logic [Disks-1:0] fault,
  input  logic [47:0] fault_address,

  `BLOCK_HOST_PINS(UpWidth)
);
  host_t host;
  dev_t  dev;
  block_pins_host u_pins (.*, .cancel(1'b0), .host_o(host), .dev_i(dev));

  geometry_t geometry;
  block_checker #(.DataWidth(UpWidth), .BlockSizeLog2(BlockSizeLog2), .TimeoutCycles(TimeoutCycles)) u_check (
    .clk_i,
    .rst_ni,
    .geometry_i   (geometry),
    .host_i       (host),
    .write_data_i (write_data),
    .dev_i        (dev),
    .read_data_i  (read_data),
    .idle_o       (idle)
  );

  assign block_count = geometry.block_count;
  ramdisks #(
    .Disks(Disks), .UpWidth(UpWidth), .DiskWidth(DiskWidth), .BlockSizeLog2(BlockSizeLog2),
    .StripeBlocks(StripeBlocks), .DiskBlocks(DiskBlocks), .ReadLatency(ReadLatency),
    .ReadRateWords(ReadRateWords), .ReadRateCycles(ReadRateCycles), .WriteLatency(WriteLatency),
    .WriteRateWords(WriteRateWords), .WriteRateCycles(WriteRateCycles)
  ) u_disks (
    .clk_i,
    .rst_ni,
    .geometry_o      (geometry),
    .host_i          (host),
    .write_data_i    (write_data),
    .dev_o           (dev),
    .read_data_o     (read_data),
    .fault_i         (fault),
    .fault_address_i (fault_address),
    .failed_o        ()
  );
endmodule
