// SPDX-License-Identifier: Apache-2.0 OR MIT
// An initiator and a target of ATA over Ethernet on plain pins. The test bench is the initiator's host, the target's device, and the
// network: it may join the two, or play either side. Every block interface is checked.
module aoe_sim
  import block_pkg::*;
#(
  parameter int unsigned Slots         = 8,
  parameter int unsigned Buffers       = 4,
  parameter int unsigned Initiators    = 1,
  parameter int unsigned SectorsLog2   = 1,
  parameter int unsigned Tries         = 5,
  parameter int unsigned TickLog2      = 8,
  parameter int unsigned RetryTicks    = 8,
  parameter int unsigned LifeTicks     = 64,
  parameter int unsigned TargetChecks  = 1,
  parameter int unsigned TimeoutCycles = 200000
) (
  input  logic clk_i,
  input  logic rst_ni,         // the initiator's
  input  logic target_rst_ni,
  output logic idle,
  output logic ready,
  output logic [3:0] generation,
  output logic cache,
  output logic [47:0] block_count,
  output logic again, damaged, lost, target_damaged, target_full,
  output logic disk_idle,
  input  logic disk_away,
  input  logic disk_cache,
  input  logic [47:0] disk_blocks,
  input  logic [15:0] shelf,
  input  logic [7:0] slot,

  `BLOCK_HOST_PINS(32),

  output logic        disk_req_valid, disk_req_fua, disk_write_valid, disk_write_last, disk_read_ready, disk_rsp_ready,
  output logic [2:0]  disk_req_op,
  output logic [4:0]  disk_req_tag, disk_write_tag,
  output logic [47:0] disk_req_lba,
  output logic [23:0] disk_req_count,
  output logic [31:0] disk_write_data,
  input  logic        disk_req_ready, disk_write_ready, disk_read_valid, disk_read_last, disk_rsp_valid,
  input  logic [4:0]  disk_read_tag, disk_rsp_tag,
  input  logic [3:0]  disk_rsp_status,
  input  logic [15:0] disk_rsp_detail,
  input  logic [31:0] disk_read_data,

  // Frames from and to the initiator, from and to the target.
  output logic        i_tx_valid, i_tx_last,
  input  logic        i_tx_ready,
  output logic [31:0] i_tx_data,
  input  logic        i_rx_valid, i_rx_last, i_rx_bad,
  input  logic [31:0] i_rx_data,
  output logic        t_tx_valid, t_tx_last,
  input  logic        t_tx_ready,
  output logic [31:0] t_tx_data,
  input  logic        t_rx_valid, t_rx_last, t_rx_bad,
  input  logic [31:0] t_rx_data
);
  localparam logic [47:0] InitiatorMac = 48'h02_00_00_00_00_01;
  localparam logic [47:0] TargetMac    = 48'h02_00_00_00_00_02;

  host_t host, disk_host, far_host;
  dev_t  dev, disk_dev, far_dev;
  logic [31:0] far_writes, far_reads;
  geometry_t geometry, disk_geometry;

  block_pins_host u_pins (.*, .cancel(1'b0), .host_o(host), .dev_i(dev));
  block_pins_dev u_disk_pins (
    .req_valid(disk_req_valid), .req_fua(disk_req_fua), .write_valid(disk_write_valid), .write_last(disk_write_last),
    .read_ready(disk_read_ready), .rsp_ready(disk_rsp_ready), .req_op(disk_req_op), .req_tag(disk_req_tag),
    .write_tag(disk_write_tag), .req_lba(disk_req_lba), .req_count(disk_req_count), .req_ready(disk_req_ready),
    .write_ready(disk_write_ready), .read_valid(disk_read_valid), .read_last(disk_read_last), .rsp_valid(disk_rsp_valid),
    .read_tag(disk_read_tag), .rsp_tag(disk_rsp_tag), .rsp_status(disk_rsp_status), .rsp_detail(disk_rsp_detail),
    .host_i(disk_host), .dev_o(disk_dev)
  );

  assign disk_geometry = '{ready: ~disk_away, generation: '0, block_size_log2: 5'd9, block_count: disk_blocks,
                           max_transfer_blocks: '1, volatile_write_cache: disk_cache, fua: 1'b1, discard: 1'b1,
                           write_zeroes: 1'b1, read_only: 1'b0};
  assign ready       = geometry.ready;
  assign generation  = geometry.generation;
  assign cache       = geometry.volatile_write_cache;
  assign block_count = geometry.block_count;

  block_checker #(.DataWidth(32), .TimeoutCycles(TimeoutCycles)) u_check (
    .clk_i, .rst_ni, .geometry_i(geometry), .host_i(host), .write_data_i(write_data), .dev_i(dev), .read_data_i(read_data),
    .idle_o(idle)
  );
  geometry_t static_geometry;
  always_comb begin
    static_geometry = disk_geometry;
    static_geometry.ready = 1'b1;
  end
  block_checker #(.DataWidth(32)) u_disk_check (
    .clk_i, .rst_ni(target_rst_ni), .geometry_i(static_geometry), .host_i(disk_host), .write_data_i(disk_write_data),
    .dev_i(disk_dev), .read_data_i(disk_read_data), .idle_o(disk_idle)
  );

  aoe_initiator #(
    .Slots(Slots), .SectorsLog2(SectorsLog2), .Tries(Tries), .TickLog2(TickLog2), .RetryTicks(RetryTicks), .LifeTicks(LifeTicks)
  ) u_initiator (
    .clk_i, .rst_ni, .mac_i(InitiatorMac), .shelf_i(shelf), .slot_i(slot), .geometry_o(geometry), .host_i(host),
    .write_data_i(write_data), .dev_o(dev), .read_data_o(read_data), .rx_valid_i(i_rx_valid), .rx_data_i(i_rx_data),
    .rx_last_i(i_rx_last), .rx_bad_i(i_rx_bad), .tx_valid_o(i_tx_valid), .tx_ready_i(i_tx_ready), .tx_data_o(i_tx_data),
    .tx_last_o(i_tx_last), .again_o(again), .damaged_o(damaged), .lost_o(lost)
  );

  // Every device has this gate.
  block_front #(.DataWidth(32)) u_front (
    .clk_i, .rst_ni(target_rst_ni), .geometry_i(static_geometry), .host_i(far_host), .write_data_i(far_writes), .dev_o(far_dev),
    .read_data_o(far_reads), .host_o(disk_host), .write_data_o(disk_write_data), .dev_i(disk_dev), .read_data_i(disk_read_data)
  );

  aoe_target #(.Buffers(Buffers), .Initiators(Initiators), .SectorsLog2(SectorsLog2), .Checksums(TargetChecks != 0)) u_target (
    .clk_i, .rst_ni(target_rst_ni), .mac_i(TargetMac), .shelf_i(shelf), .slot_i(slot), .rx_valid_i(t_rx_valid),
    .rx_data_i(t_rx_data), .rx_last_i(t_rx_last), .rx_bad_i(t_rx_bad), .tx_valid_o(t_tx_valid), .tx_ready_i(t_tx_ready),
    .tx_data_o(t_tx_data), .tx_last_o(t_tx_last), .geometry_i(disk_geometry), .host_o(far_host),
    .write_data_o(far_writes), .dev_i(far_dev), .read_data_i(far_reads), .damaged_o(target_damaged),
    .full_o(target_full)
  );
endmodule
