// SPDX-License-Identifier: Apache-2.0 OR MIT
// A Serial ATA host down to the transceiver: `sata` and its PHY. Instantiate one for each transceiver.
//
// The parameters are those of `sata` and `sata_phy`. ClockKhz is the clock's at 1.5 Gb/s; `rate_i` says how fast it is, so the deadlines
// are the same at each rate. RetryDwords is in dwords at 1.5 Gb/s.
module sata_host
  import block_pkg::*;
#(
  parameter bit          Ncq           = 1'b1,
  parameter bit          Trim          = 1'b1,
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
  input  logic                 clk_i,
  input  logic                 rst_ni,

  output geometry_t            geometry_o,
  input  host_t                host_i,
  input  logic [31:0]          write_data_i,
  output dev_t                 dev_o,
  output logic [31:0]          read_data_o,

  output sata_pkg::phy_phase_e phase_o,
  output logic                 damaged_o,

  output sata_pkg::rate_e      rate_o,
  input  sata_pkg::rate_e      rate_i,
  output logic [39:0]          tx_bits_o,
  output logic                 tx_idle_o,
  input  logic                 rx_clk_i,
  input  logic                 rx_rst_ni,
  input  logic [39:0]          rx_bits_i,
  input  logic                 rx_idle_i
);
  logic               up, reset;
  sata_pkg::rx_word_t rx;
  sata_pkg::word_t    tx;

  sata #(
    .Ncq(Ncq), .Trim(Trim), .BlockSizeLog2(BlockSizeLog2), .WriteWords(WriteWords), .ClockKhz(ClockKhz), .SignatureMs(SignatureMs),
    .FlushMs(FlushMs), .DataMs(DataMs)
  ) u_sata (
    .clk_i, .rst_ni, .geometry_o, .host_i, .write_data_i, .dev_o, .read_data_o, .up_i(up), .rate_i(rate_i), .reset_o(reset), .rx_i(rx),
    .tx_o(tx)
  );
  sata_phy #(.Fastest(Fastest), .Slowest(Slowest), .RetryDwords(RetryDwords)) u_phy (
    .clk_i, .rst_ni, .up_o(up), .reset_i(reset), .rx_o(rx), .tx_i(tx), .phase_o, .damaged_o, .rate_o, .rate_i,
    .tx_bits_o, .tx_idle_o, .rx_clk_i, .rx_rst_ni, .rx_bits_i, .rx_idle_i
  );
endmodule
