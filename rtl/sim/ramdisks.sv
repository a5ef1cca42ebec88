// SPDX-License-Identifier: Apache-2.0 OR MIT
// RAM disks, each on a memory with the model's delays, as one block device: a single disk, or an array of several.
module ramdisks
  import block_pkg::*;
#(
  parameter int unsigned Disks           = 1,
  parameter bit          Mirror          = 1'b0,
  parameter int unsigned UpWidth         = 32,
  parameter int unsigned DiskWidth       = 32,
  parameter int unsigned BlockSizeLog2   = 6,
  parameter int unsigned StripeBlocks    = 8,
  parameter int unsigned SlotBlocks      = StripeBlocks,
  parameter int unsigned Slots           = 4,
  parameter int unsigned WritePlaces     = 4,
  parameter int unsigned WriteSlots      = 2,
  parameter int unsigned DiskBlocks      = 16384,
  parameter int unsigned ReadLatency     = 0,
  parameter int unsigned ReadRateWords   = 1,
  parameter int unsigned ReadRateCycles  = 1,
  parameter int unsigned WriteLatency    = 0,
  parameter int unsigned WriteRateWords  = 1,
  parameter int unsigned WriteRateCycles = 1
) (
  input  logic               clk_i,
  input  logic               rst_ni,
  output geometry_t          geometry_o,
  input  host_t              host_i,
  input  logic [UpWidth-1:0] write_data_i,
  output dev_t               dev_o,
  output logic [UpWidth-1:0] read_data_o,
  input  logic [Disks-1:0]   fault_i,  // this disk's memory fails the bursts that touch `fault_address_i`
  input  logic [47:0]        fault_address_i,
  output logic [Disks-1:0]   failed_o
);
  axi_pkg::manager_t [Disks-1:0] manager;
  axi_pkg::memory_t [Disks-1:0]  memory;
  logic [Disks-1:0][DiskWidth-1:0] axi_write, axi_read;

  example_disks #(
    .Disks(Disks), .Mirror(Mirror), .DataWidth(UpWidth), .DiskWidth(DiskWidth), .BlockSizeLog2(BlockSizeLog2),
    .StripeBlocks(StripeBlocks), .SlotBlocks(SlotBlocks), .Slots(Slots), .WritePlaces(WritePlaces), .WriteSlots(WriteSlots),
    .LbaBits(40), .DiskBlocks(lba_t'(DiskBlocks))
  ) u_disks (
    .clk_i, .rst_ni, .geometry_o, .host_i, .write_data_i, .dev_o, .read_data_o, .failed_o, .disk_clk_i(clk_i),
    .disk_rst_ni(rst_ni), .axi_o(manager), .axi_write_data_o(axi_write), .axi_i(memory), .axi_read_data_i(axi_read)
  );

  for (genvar i = 0; i < Disks; i++) begin : gen_disk
    axi_memory #(
      .DataWidth(DiskWidth), .MemoryWidth(DiskWidth), .SizeBytes(DiskBlocks << BlockSizeLog2),
      .ReadLatency(ReadLatency), .ReadRateWords(ReadRateWords), .ReadRateCycles(ReadRateCycles),
      .WriteLatency(WriteLatency), .WriteRateWords(WriteRateWords), .WriteRateCycles(WriteRateCycles)
    ) u_memory (
      .clk_i,
      .rst_ni,
      .axi_i           (manager[i]),
      .write_data_i    (axi_write[i]),
      .axi_o           (memory[i]),
      .read_data_o     (axi_read[i]),
      .fault_i         (fault_i[i]),
      .fault_address_i (fault_address_i)
    );
  end
endmodule
