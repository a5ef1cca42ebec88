// SPDX-License-Identifier: Apache-2.0 OR MIT
// A disk node: an AoE target over the node's block device, with its port to a network. Reset it when the node's power returns.
//
// Buffers, SectorsLog2  as in aoe_target
// Lanes                 words in a flit
module system_disk_node
  import block_pkg::*;
#(
  parameter int unsigned Buffers     = 8,
  parameter int unsigned SectorsLog2 = 1,
  parameter int unsigned Lanes       = 8,
  localparam int unsigned FlitWidth = 32 * Lanes + $clog2(Lanes) + 2
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic [7:0]           number_i,  // constant: the AoE slot

  // The network.
  output logic                 tx_valid_o,
  input  logic                 tx_ready_i,
  output logic [FlitWidth-1:0] tx_flit_o,
  input  logic                 rx_valid_i,
  output logic                 rx_ready_o,  // a flit that comes without it is dropped
  input  logic [FlitWidth-1:0] rx_flit_i,
  output logic                 dropped_o,   // for a counter

  // The disk.
  input  geometry_t            geometry_i,
  output host_t                host_o,
  output logic [31:0]          write_data_o,
  input  dev_t                 dev_i,
  input  logic [31:0]          read_data_i
);
  logic tx_valid, tx_ready, tx_last, rx_valid, rx_last, rx_bad;
  logic [31:0] tx_data, rx_data;

  system_unpack #(.Lanes(Lanes)) u_unpack (
    .clk_i, .rst_ni, .valid_i(rx_valid_i), .ready_o(rx_ready_o), .flit_i(rx_flit_i), .valid_o(rx_valid), .data_o(rx_data),
    .last_o(rx_last), .bad_o(rx_bad), .dropped_o
  );
  aoe_target #(.Buffers(Buffers), .SectorsLog2(SectorsLog2), .LeastWords(aoe_pkg::HeaderWords)) u_target (
    .clk_i, .rst_ni, .mac_i({40'h02_53_57_00_01, number_i}), .shelf_i(16'd0), .slot_i(number_i), .rx_valid_i(rx_valid),
    .rx_data_i(rx_data), .rx_last_i(rx_last), .rx_bad_i(rx_bad), .tx_valid_o(tx_valid), .tx_ready_i(tx_ready),
    .tx_data_o(tx_data), .tx_last_o(tx_last), .geometry_i, .host_o, .write_data_o, .dev_i, .read_data_i, .damaged_o(), .full_o()
  );
  system_pack #(.Lanes(Lanes)) u_pack (
    .clk_i, .rst_ni, .valid_i(tx_valid), .ready_o(tx_ready), .data_i(tx_data), .last_i(tx_last), .valid_o(tx_valid_o),
    .ready_i(tx_ready_i), .flit_o(tx_flit_o)
  );
endmodule
