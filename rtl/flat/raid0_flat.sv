// SPDX-License-Identifier: Apache-2.0 OR MIT
// Several devices of the block interface as one, with plain ports. raid0 has the meaning of parameters and ports. Written by
// rtl/flat.py; do not edit.
module raid0_flat #(
  parameter int unsigned Disks = 2,
  parameter bit          Mirror = 1'b0,
  parameter int unsigned UpWidth = 32,
  parameter int unsigned DiskWidth = 32,
  parameter int unsigned BlockSizeLog2 = 9,
  parameter int unsigned StripeBlocks = 1,
  parameter int unsigned SlotBlocks = 1,
  parameter int unsigned Slots = 4,
  parameter int unsigned WritePlaces = 4,
  parameter int unsigned WriteSlots = 2,
  parameter int unsigned LbaBits = 40,
  parameter bit          Async = 1'b0
) (
  input  logic                       clk,
  input  logic                       rst_n,
  output logic                       block_geometry_ready,
  output logic [3:0]                 block_geometry_generation,
  output logic [4:0]                 block_geometry_block_size_log2,
  output logic [47:0]                block_geometry_block_count,
  output logic [23:0]                block_geometry_max_transfer_blocks,
  output logic                       block_geometry_volatile_write_cache,
  output logic                       block_geometry_fua,
  output logic                       block_geometry_discard,
  output logic                       block_geometry_write_zeroes,
  output logic                       block_geometry_read_only,
  input  logic                       block_req_valid,
  input  logic [2:0]                 block_req_op,
  input  logic                       block_req_fua,
  input  logic [4:0]                 block_req_tag,
  input  logic [47:0]                block_req_lba,
  input  logic [23:0]                block_req_count,
  input  logic                       block_write_valid,
  input  logic [4:0]                 block_write_tag,
  input  logic                       block_write_last,
  input  logic                       block_read_ready,
  input  logic                       block_rsp_ready,
  input  logic                       block_cancel,
  input  logic [UpWidth-1:0]         block_write_data,
  output logic                       block_req_ready,
  output logic                       block_write_ready,
  output logic                       block_read_valid,
  output logic [4:0]                 block_read_tag,
  output logic                       block_read_last,
  output logic                       block_rsp_valid,
  output logic [4:0]                 block_rsp_tag,
  output logic [3:0]                 block_rsp_status,
  output logic [15:0]                block_rsp_detail,
  output logic [UpWidth-1:0]         block_read_data,
  input  logic [Disks-1:0]           enable,  // mirrors: the disks that are up to date
  input  logic                       resync,  // mirrors: they may differ in writes that no flush had covered
  output logic [Disks-1:0]           failed,  // mirrors: the disks that no longer are
  output logic [Disks-1:0]           error,  // high for one cycle: this disk failed a piece
  input  logic [Disks-1:0]           disk_clk,  // Async only
  input  logic [Disks-1:0]           disk_rst_n,  // Async only
  input  logic [Disks-1:0]           disk_geometry_ready,
  input  logic [Disks*4-1:0]         disk_geometry_generation,
  input  logic [Disks*5-1:0]         disk_geometry_block_size_log2,
  input  logic [Disks*48-1:0]        disk_geometry_block_count,
  input  logic [Disks*24-1:0]        disk_geometry_max_transfer_blocks,
  input  logic [Disks-1:0]           disk_geometry_volatile_write_cache,
  input  logic [Disks-1:0]           disk_geometry_fua,
  input  logic [Disks-1:0]           disk_geometry_discard,
  input  logic [Disks-1:0]           disk_geometry_write_zeroes,
  input  logic [Disks-1:0]           disk_geometry_read_only,
  output logic [Disks-1:0]           disk_req_valid,
  output logic [Disks*3-1:0]         disk_req_op,
  output logic [Disks-1:0]           disk_req_fua,
  output logic [Disks*5-1:0]         disk_req_tag,
  output logic [Disks*48-1:0]        disk_req_lba,
  output logic [Disks*24-1:0]        disk_req_count,
  output logic [Disks-1:0]           disk_write_valid,
  output logic [Disks*5-1:0]         disk_write_tag,
  output logic [Disks-1:0]           disk_write_last,
  output logic [Disks-1:0]           disk_read_ready,
  output logic [Disks-1:0]           disk_rsp_ready,
  output logic [Disks-1:0]           disk_cancel,
  output logic [Disks*DiskWidth-1:0] disk_write_data,
  input  logic [Disks-1:0]           disk_req_ready,
  input  logic [Disks-1:0]           disk_write_ready,
  input  logic [Disks-1:0]           disk_read_valid,
  input  logic [Disks*5-1:0]         disk_read_tag,
  input  logic [Disks-1:0]           disk_read_last,
  input  logic [Disks-1:0]           disk_rsp_valid,
  input  logic [Disks*5-1:0]         disk_rsp_tag,
  input  logic [Disks*4-1:0]         disk_rsp_status,
  input  logic [Disks*16-1:0]        disk_rsp_detail,
  input  logic [Disks*DiskWidth-1:0] disk_read_data
);
  logic [Disks-1:0][86:0] disk_geometry_in;
  for (genvar i = 0; i < Disks; i++) begin : gen_disk_geometry_in
    assign disk_geometry_in[i] = {disk_geometry_ready[1*i+:1], disk_geometry_generation[4*i+:4],
      disk_geometry_block_size_log2[5*i+:5], disk_geometry_block_count[48*i+:48], disk_geometry_max_transfer_blocks[24*i+:24],
      disk_geometry_volatile_write_cache[1*i+:1], disk_geometry_fua[1*i+:1], disk_geometry_discard[1*i+:1],
      disk_geometry_write_zeroes[1*i+:1], disk_geometry_read_only[1*i+:1]};
  end
  logic [Disks-1:0][91:0] disk_host_out;
  for (genvar i = 0; i < Disks; i++) begin : gen_disk_host_out
    assign {disk_req_valid[1*i+:1], disk_req_op[3*i+:3], disk_req_fua[1*i+:1], disk_req_tag[5*i+:5], disk_req_lba[48*i+:48],
      disk_req_count[24*i+:24], disk_write_valid[1*i+:1], disk_write_tag[5*i+:5], disk_write_last[1*i+:1], disk_read_ready[1*i+:1],
      disk_rsp_ready[1*i+:1], disk_cancel[1*i+:1]} = disk_host_out[i];
  end
  logic [Disks-1:0][34:0] disk_dev_in;
  for (genvar i = 0; i < Disks; i++) begin : gen_disk_dev_in
    assign disk_dev_in[i] = {disk_req_ready[1*i+:1], disk_write_ready[1*i+:1], disk_read_valid[1*i+:1], disk_read_tag[5*i+:5],
      disk_read_last[1*i+:1], disk_rsp_valid[1*i+:1], disk_rsp_tag[5*i+:5], disk_rsp_status[4*i+:4], disk_rsp_detail[16*i+:16]};
  end
  raid0 #(.Disks(Disks), .Mirror(Mirror), .UpWidth(UpWidth), .DiskWidth(DiskWidth), .BlockSizeLog2(BlockSizeLog2),
    .StripeBlocks(StripeBlocks), .SlotBlocks(SlotBlocks), .Slots(Slots), .WritePlaces(WritePlaces), .WriteSlots(WriteSlots),
    .LbaBits(LbaBits), .Async(Async)) u_raid0 (
    .clk_i(clk),
    .rst_ni(rst_n),
    .geometry_o({block_geometry_ready, block_geometry_generation, block_geometry_block_size_log2, block_geometry_block_count,
      block_geometry_max_transfer_blocks, block_geometry_volatile_write_cache, block_geometry_fua, block_geometry_discard,
      block_geometry_write_zeroes, block_geometry_read_only}),
    .host_i({block_req_valid, block_req_op, block_req_fua, block_req_tag, block_req_lba, block_req_count, block_write_valid,
      block_write_tag, block_write_last, block_read_ready, block_rsp_ready, block_cancel}),
    .write_data_i(block_write_data),
    .dev_o({block_req_ready, block_write_ready, block_read_valid, block_read_tag, block_read_last, block_rsp_valid, block_rsp_tag,
      block_rsp_status, block_rsp_detail}),
    .read_data_o(block_read_data),
    .enable_i(enable),
    .resync_i(resync),
    .failed_o(failed),
    .error_o(error),
    .disk_clk_i(disk_clk),
    .disk_rst_ni(disk_rst_n),
    .disk_geometry_i(disk_geometry_in),
    .disk_host_o(disk_host_out),
    .disk_write_data_o(disk_write_data),
    .disk_dev_i(disk_dev_in),
    .disk_read_data_i(disk_read_data)
  );
endmodule
