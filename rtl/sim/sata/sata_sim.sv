// SPDX-License-Identifier: Apache-2.0 OR MIT
// The Serial ATA host on plain pins: its block interface, checked, and decoded words to and from a drive, or, with
// `Serial`, the parallel side of a transceiver.
module sata_sim
  import block_pkg::*;
#(
  parameter bit          Ncq           = 1'b1,
  parameter int unsigned BlockSizeLog2 = 9,
  parameter int unsigned ClockKhz      = 1,
  parameter int unsigned TimeoutCycles = 20000,                // for data, and without others for everything: at Fastest with Serial
  parameter int unsigned SignatureCycles = TimeoutCycles,
  parameter int unsigned FlushCycles   = TimeoutCycles,
  parameter bit          Serial        = 1'b0,
  parameter int unsigned Fastest       = 2,
  parameter int unsigned RetryDwords   = 3000
) (
  input  logic clk_i,
  input  logic rst_ni,
  output logic idle,
  output logic ready,
  output logic volatile_write_cache, discard, fua,
  output logic [3:0]  generation,
  output logic [47:0] block_count,

  input  logic        up,
  output logic        reset,
  input  logic        rx_bad,
  input  logic        rx_k,
  input  logic [31:0] rx_data,
  output logic        tx_k,
  output logic [31:0] tx_data,

  input  logic        rx_clk_i,
  input  logic [39:0] rx_bits,
  input  logic        rx_idle,
  output logic [39:0] tx_bits,
  output logic        tx_idle,
  output logic [1:0]  rate,
  input  logic [1:0]  rate_now,
  output logic [3:0]  phase,
  output logic        damaged,

  input  logic        cancel,
  `BLOCK_HOST_PINS(32)
);
  host_t host;
  dev_t  dev;
  block_pins_host u_pins (.*, .host_o(host), .dev_i(dev));

  geometry_t geometry;
  assign ready                = geometry.ready;
  assign generation           = geometry.generation;
  assign block_count          = geometry.block_count;
  assign discard              = geometry.discard;
  assign fua                  = geometry.fua;
  assign volatile_write_cache = geometry.volatile_write_cache;

  block_checker #(
    .DataWidth(32), .BlockSizeLog2(BlockSizeLog2), .TimeoutCycles(2 * ClockKhz * FlushCycles + 5000), .CancelCycles(5000)
  ) u_check (
    .clk_i, .rst_ni, .geometry_i(geometry), .host_i(host), .write_data_i(write_data), .dev_i(dev),
    .read_data_i(read_data), .idle_o(idle)
  );

  if (Serial) begin : gen_serial
    sata_pkg::rate_e      wanted;
    sata_pkg::phy_phase_e now;
    sata_host #(
      .Ncq(Ncq), .BlockSizeLog2(BlockSizeLog2), .ClockKhz(ClockKhz), .SignatureMs(SignatureCycles >> Fastest),
      .FlushMs(FlushCycles >> Fastest), .DataMs(TimeoutCycles >> Fastest), .Fastest(Fastest),
      .RetryDwords(RetryDwords)
    ) u_host (
      .clk_i, .rst_ni, .geometry_o(geometry), .host_i(host), .write_data_i(write_data), .dev_o(dev),
      .read_data_o(read_data), .phase_o(now), .damaged_o(damaged), .rate_o(wanted),
      .rate_i(sata_pkg::rate_e'(rate_now)), .tx_bits_o(tx_bits), .tx_idle_o(tx_idle), .rx_clk_i, .rx_rst_ni(rst_ni),
      .rx_bits_i(rx_bits), .rx_idle_i(rx_idle)
    );
    assign {rate, phase}          = {wanted, now};
    assign {reset, tx_k, tx_data} = '0;
  end else begin : gen_words
    sata_pkg::rx_word_t rx;
    sata_pkg::word_t    tx;
    assign rx = '{bad: rx_bad, word: '{k: rx_k, data: rx_data}};
    assign {tx_k, tx_data} = {tx.k, tx.data};
    assign {tx_bits, tx_idle, rate, phase, damaged} = '0;

    sata #(
      .Ncq(Ncq), .BlockSizeLog2(BlockSizeLog2), .ClockKhz(ClockKhz), .SignatureMs(SignatureCycles), .FlushMs(FlushCycles),
      .DataMs(TimeoutCycles)
    ) u_sata (
      .clk_i, .rst_ni, .geometry_o(geometry), .host_i(host), .write_data_i(write_data), .dev_o(dev),
      .read_data_o(read_data), .up_i(up), .rate_i(2'd0), .reset_o(reset), .rx_i(rx), .tx_o(tx)
    );
  end
endmodule
