// SPDX-License-Identifier: Apache-2.0 OR MIT
// A device of the block interface as a remote disk, over Ethernet frames, with plain ports. aoe_target has the meaning of
// parameters and ports. Written by rtl/flat.py; do not edit.
module aoe_target_flat #(
  parameter int unsigned Buffers = 4,
  parameter int unsigned Initiators = 1,
  parameter int unsigned SectorsLog2 = 1,
  parameter bit          Checksums = 1'b1,
  parameter int unsigned LeastWords = 15
) (
  input  logic        clk,
  input  logic        rst_n,
  input  logic [47:0] mac,
  input  logic [15:0] shelf,  // not 0xffff
  input  logic [7:0]  slot,  // not 0xff
  input  logic        rx_valid,  // cannot be held
  input  logic [31:0] rx_data,
  input  logic        rx_last,
  input  logic        rx_bad,  // with the last word: the frame is damaged
  output logic        tx_valid,
  input  logic        tx_ready,
  output logic [31:0] tx_data,
  output logic        tx_last,
  input  logic        block_geometry_ready,
  input  logic [3:0]  block_geometry_generation,
  input  logic [4:0]  block_geometry_block_size_log2,
  input  logic [47:0] block_geometry_block_count,
  input  logic [23:0] block_geometry_max_transfer_blocks,
  input  logic        block_geometry_volatile_write_cache,
  input  logic        block_geometry_fua,
  input  logic        block_geometry_discard,
  input  logic        block_geometry_write_zeroes,
  input  logic        block_geometry_read_only,
  output logic        block_req_valid,
  output logic [2:0]  block_req_op,
  output logic        block_req_fua,
  output logic [4:0]  block_req_tag,
  output logic [47:0] block_req_lba,
  output logic [23:0] block_req_count,
  output logic        block_write_valid,
  output logic [4:0]  block_write_tag,
  output logic        block_write_last,
  output logic        block_read_ready,
  output logic        block_rsp_ready,
  output logic        block_cancel,
  output logic [31:0] block_write_data,
  input  logic        block_req_ready,
  input  logic        block_write_ready,
  input  logic        block_read_valid,
  input  logic [4:0]  block_read_tag,
  input  logic        block_read_last,
  input  logic        block_rsp_valid,
  input  logic [4:0]  block_rsp_tag,
  input  logic [3:0]  block_rsp_status,
  input  logic [15:0] block_rsp_detail,
  input  logic [31:0] block_read_data,
  output logic        damaged,  // a request was short, or its checksum was wrong
  output logic        full  // a request found no slot, or its sender has its share of them
);
  aoe_target #(.Buffers(Buffers), .Initiators(Initiators), .SectorsLog2(SectorsLog2), .Checksums(Checksums),
    .LeastWords(LeastWords)) u_aoe_target (
    .clk_i(clk),
    .rst_ni(rst_n),
    .mac_i(mac),
    .shelf_i(shelf),
    .slot_i(slot),
    .rx_valid_i(rx_valid),
    .rx_data_i(rx_data),
    .rx_last_i(rx_last),
    .rx_bad_i(rx_bad),
    .tx_valid_o(tx_valid),
    .tx_ready_i(tx_ready),
    .tx_data_o(tx_data),
    .tx_last_o(tx_last),
    .geometry_i({block_geometry_ready, block_geometry_generation, block_geometry_block_size_log2, block_geometry_block_count,
      block_geometry_max_transfer_blocks, block_geometry_volatile_write_cache, block_geometry_fua, block_geometry_discard,
      block_geometry_write_zeroes, block_geometry_read_only}),
    .host_o({block_req_valid, block_req_op, block_req_fua, block_req_tag, block_req_lba, block_req_count, block_write_valid,
      block_write_tag, block_write_last, block_read_ready, block_rsp_ready, block_cancel}),
    .write_data_o(block_write_data),
    .dev_i({block_req_ready, block_write_ready, block_read_valid, block_read_tag, block_read_last, block_rsp_valid, block_rsp_tag,
      block_rsp_status, block_rsp_detail}),
    .read_data_i(block_read_data),
    .damaged_o(damaged),
    .full_o(full)
  );
endmodule
