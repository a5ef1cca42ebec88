// SPDX-License-Identifier: Apache-2.0 OR MIT
// Remote RAM disks, one as a block device, or several as an array. Every block interface is checked.
module aoe_array_sim
  import block_pkg::*;
#(
  parameter int unsigned Disks         = 4,
  parameter int unsigned UpWidth       = 128,
  parameter int unsigned SectorsLog2   = 1,
  parameter int unsigned StripeBlocks  = 8,
  parameter int unsigned DiskBlocks    = 2048,
  parameter int unsigned Delay         = 50,  // cycles in each direction
  parameter int unsigned Linked        = 0,
  parameter int unsigned TimeoutCycles = 100000
) (
  input  logic clk_i,
  input  logic rst_ni,
  output logic [47:0] block_count,
  output logic ready,
  output logic idle,
  output logic [Disks-1:0] again, sent,  // a frame is sent again; a frame has left
  input  logic [Disks-1:0] cut,          // the line carries nothing

  `BLOCK_HOST_PINS(UpWidth)
);
  host_t host;
  dev_t  dev;
  geometry_t geometry;
  block_pins_host u_pins (.*, .cancel(1'b0), .host_o(host), .dev_i(dev));
  block_checker #(.DataWidth(UpWidth), .TimeoutCycles(TimeoutCycles)) u_check (
    .clk_i, .rst_ni, .geometry_i(geometry), .host_i(host), .write_data_i(write_data), .dev_i(dev), .read_data_i(read_data),
    .idle_o(idle)
  );
  assign block_count = geometry.block_count;
  assign ready       = geometry.ready;

  geometry_t [Disks-1:0] disk_geometry;
  host_t [Disks-1:0] disk_host;
  dev_t [Disks-1:0]  disk_dev;
  logic [Disks-1:0][31:0] disk_writes, disk_reads;

  if (Disks == 1) begin : gen_one
    assign geometry       = disk_geometry[0];
    assign disk_host[0]   = host;
    assign dev            = disk_dev[0];
    assign disk_writes[0] = write_data;
    assign read_data      = disk_reads[0];
  end else begin : gen_array
    raid0 #(
      .Disks(Disks), .UpWidth(UpWidth), .DiskWidth(32), .StripeBlocks(StripeBlocks), .SlotBlocks(StripeBlocks), .Slots(4)
    ) u_raid0 (
      .clk_i, .rst_ni, .geometry_o(geometry), .host_i(host), .write_data_i(write_data), .dev_o(dev), .read_data_o(read_data),
      .enable_i('1), .resync_i(1'b0), .failed_o(), .error_o(), .disk_clk_i('0), .disk_rst_ni('0),
      .disk_geometry_i(disk_geometry), .disk_host_o(disk_host), .disk_write_data_o(disk_writes), .disk_dev_i(disk_dev),
      .disk_read_data_i(disk_reads)
    );
  end

  for (genvar i = 0; i < Disks; i++) begin : gen_disk
    aoe_remote #(
      .SectorsLog2(SectorsLog2), .DiskBlocks(DiskBlocks), .Delay(Delay), .Linked(Linked)
    ) u_remote (
      .clk_i, .rst_ni, .number_i(8'(i)), .again_o(again[i]), .sent_o(sent[i]), .cut_i(cut[i]), .geometry_o(disk_geometry[i]),
      .host_i(disk_host[i]), .write_data_i(disk_writes[i]), .dev_o(disk_dev[i]), .read_data_o(disk_reads[i])
    );
  end
endmodule
