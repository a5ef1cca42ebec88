// SPDX-License-Identifier: Apache-2.0 OR MIT
// A remote disk as a device of the block interface, over Ethernet frames, with plain ports. aoe_initiator has the meaning of
// parameters and ports. Written by rtl/flat.py; do not edit.
module aoe_initiator_flat #(
  parameter int unsigned Slots = 8,
  parameter int unsigned SectorsLog2 = 1,
  parameter int unsigned Tries = 6,
  parameter int unsigned TickLog2 = 12,
  parameter int unsigned RetryTicks = 8,
  parameter int unsigned LifeTicks = 512,
  parameter bit          Checksums = 1'b1,
  parameter int unsigned LeastWords = 15
) (
  input  logic        clk,
  input  logic        rst_n,
  input  logic [47:0] mac,  // its own
  input  logic [15:0] shelf,  // the target's
  input  logic [7:0]  slot,
  output logic        block_geometry_ready,
  output logic [3:0]  block_geometry_generation,
  output logic [4:0]  block_geometry_block_size_log2,
  output logic [47:0] block_geometry_block_count,
  output logic [23:0] block_geometry_max_transfer_blocks,
  output logic        block_geometry_volatile_write_cache,
  output logic        block_geometry_fua,
  output logic        block_geometry_discard,
  output logic        block_geometry_write_zeroes,
  output logic        block_geometry_read_only,
  input  logic        block_req_valid,
  input  logic [2:0]  block_req_op,
  input  logic        block_req_fua,
  input  logic [4:0]  block_req_tag,
  input  logic [47:0] block_req_lba,
  input  logic [23:0] block_req_count,
  input  logic        block_write_valid,
  input  logic [4:0]  block_write_tag,
  input  logic        block_write_last,
  input  logic        block_read_ready,
  input  logic        block_rsp_ready,
  input  logic        block_cancel,
  input  logic [31:0] block_write_data,
  output logic        block_req_ready,
  output logic        block_write_ready,
  output logic        block_read_valid,
  output logic [4:0]  block_read_tag,
  output logic        block_read_last,
  output logic        block_rsp_valid,
  output logic [4:0]  block_rsp_tag,
  output logic [3:0]  block_rsp_status,
  output logic [15:0] block_rsp_detail,
  output logic [31:0] block_read_data,
  input  logic        rx_valid,  // cannot be held
  input  logic [31:0] rx_data,
  input  logic        rx_last,
  input  logic        rx_bad,  // with the last word: the frame is damaged
  output logic        tx_valid,
  input  logic        tx_ready,
  output logic [31:0] tx_data,
  output logic        tx_last,
  output logic        again,  // a frame is sent again
  output logic        damaged,  // an answer was short, or its checksum was wrong
  output logic        lost  // the target is lost
);
  aoe_initiator #(.Slots(Slots), .SectorsLog2(SectorsLog2), .Tries(Tries), .TickLog2(TickLog2), .RetryTicks(RetryTicks),
    .LifeTicks(LifeTicks), .Checksums(Checksums), .LeastWords(LeastWords)) u_aoe_initiator (
    .clk_i(clk),
    .rst_ni(rst_n),
    .mac_i(mac),
    .shelf_i(shelf),
    .slot_i(slot),
    .geometry_o({block_geometry_ready, block_geometry_generation, block_geometry_block_size_log2, block_geometry_block_count,
      block_geometry_max_transfer_blocks, block_geometry_volatile_write_cache, block_geometry_fua, block_geometry_discard,
      block_geometry_write_zeroes, block_geometry_read_only}),
    .host_i({block_req_valid, block_req_op, block_req_fua, block_req_tag, block_req_lba, block_req_count, block_write_valid,
      block_write_tag, block_write_last, block_read_ready, block_rsp_ready, block_cancel}),
    .write_data_i(block_write_data),
    .dev_o({block_req_ready, block_write_ready, block_read_valid, block_read_tag, block_read_last, block_rsp_valid, block_rsp_tag,
      block_rsp_status, block_rsp_detail}),
    .read_data_o(block_read_data),
    .rx_valid_i(rx_valid),
    .rx_data_i(rx_data),
    .rx_last_i(rx_last),
    .rx_bad_i(rx_bad),
    .tx_valid_o(tx_valid),
    .tx_ready_i(tx_ready),
    .tx_data_o(tx_data),
    .tx_last_o(tx_last),
    .again_o(again),
    .damaged_o(damaged),
    .lost_o(lost)
  );
endmodule
