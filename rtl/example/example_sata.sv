// SPDX-License-Identifier: Apache-2.0 OR MIT
// The Serial ATA drive of the examples as a block device in the host's clock: a clock crossing, and `sata_host` with the
// transceiver's parallel bits.
//
// The parameters  as in sata_host
module example_sata
  import block_pkg::*;
#(
  parameter int unsigned BlockSizeLog2 = 9,
  parameter int unsigned WriteWords    = 4096,
  parameter int unsigned ClockKhz      = 37_500,
  parameter int unsigned SignatureMs   = 31_000,
  parameter int unsigned FlushMs       = 30_000,
  parameter int unsigned DataMs        = 10_000,
  parameter int unsigned Fastest       = 2,
  parameter int unsigned Slowest       = 0,
  parameter int unsigned RetryDwords   = 375_000
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  output geometry_t   geometry_o,
  input  host_t       host_i,
  input  logic [31:0] write_data_i,
  output dev_t        dev_o,
  output logic [31:0] read_data_o,

  input  logic        sata_clk_i,
  input  logic        sata_rst_ni,
  output logic [3:0]  phase_o,    // phy_phase_e
  output logic        damaged_o,
  output logic [1:0]  rate_o,     // rate_e
  input  logic [1:0]  rate_i,
  output logic [39:0] tx_bits_o,
  output logic        tx_idle_o,
  input  logic        rx_clk_i,
  input  logic        rx_rst_ni,
  input  logic [39:0] rx_bits_i,
  input  logic        rx_idle_i
);
  geometry_t   geometry;
  host_t       host;
  dev_t        dev;
  logic [31:0] write_data, read_data;

  block_cdc #(.DataWidth(32)) u_cdc (
    .host_clk_i(clk_i), .host_rst_ni(rst_ni), .host_i, .write_data_i, .dev_o, .read_data_o, .geometry_o,
    .dev_clk_i(sata_clk_i), .dev_rst_ni(sata_rst_ni), .host_o(host), .write_data_o(write_data), .dev_i(dev),
    .read_data_i(read_data), .geometry_i(geometry)
  );

  sata_pkg::rate_e      rate;
  sata_pkg::phy_phase_e phase;
  assign rate_o  = rate;
  assign phase_o = phase;

  sata_host #(
    .BlockSizeLog2(BlockSizeLog2), .WriteWords(WriteWords), .ClockKhz(ClockKhz), .SignatureMs(SignatureMs), .FlushMs(FlushMs),
    .DataMs(DataMs), .Fastest(Fastest), .Slowest(Slowest), .RetryDwords(RetryDwords)
  ) u_sata (
    .clk_i(sata_clk_i), .rst_ni(sata_rst_ni), .geometry_o(geometry), .host_i(host), .write_data_i(write_data), .dev_o(dev),
    .read_data_o(read_data), .phase_o(phase), .damaged_o, .rate_o(rate), .rate_i(sata_pkg::rate_e'(rate_i)), .tx_bits_o,
    .tx_idle_o, .rx_clk_i, .rx_rst_ni, .rx_bits_i, .rx_idle_i
  );
endmodule
