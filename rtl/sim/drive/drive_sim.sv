// SPDX-License-Identifier: Apache-2.0 OR MIT
// The drive behind a core under test: a block device that the bench plays on the block pins (`External`), the Serial ATA host,
// whose drive is the bench's too (`Sata`), or a RAM disk or an array of them (`Disks`).
//
// Cached, WriteZeroes  what the bench's device reports
// DiskBlocks           blocks of each RAM disk, or of the bench's device

// The pins of a Serial ATA drive, in words.
`define SATA_WORD_PINS \
  input  logic        sata_up, \
  output logic        sata_reset, \
  input  logic        sata_rx_bad, \
  input  logic        sata_rx_k, \
  input  logic [31:0] sata_rx_data, \
  output logic        sata_tx_k, \
  output logic [31:0] sata_tx_data

// The pins of a Serial ATA drive in parallel bits, as the examples have them at their transceiver, and what joins them.
`define SATA_BIT_PINS \
  input  logic        sata_clk, \
  input  logic        rx_clk, \
  output logic [1:0]  rate, \
  input  logic [1:0]  rate_now, \
  output logic [39:0] tx_bits, \
  output logic        tx_idle, \
  input  logic [39:0] rx_bits, \
  input  logic        rx_idle

`define SATA_BIT_JOIN \
  .sata_clk, .sata_resetn(rst_ni), .sata_phase(), .sata_damaged(), .gt_rate(rate), .gt_rate_now(rate_now), \
  .gt_tx_bits(tx_bits), .gt_tx_idle(tx_idle), .gt_rx_clk(rx_clk), .gt_rx_resetn(rst_ni), .gt_rx_bits(rx_bits), \
  .gt_rx_idle(rx_idle)

module drive_sim
  import block_pkg::*;
#(
  parameter bit          External      = 1'b0,
  parameter bit          Sata          = 1'b0,
  parameter int unsigned Disks         = 1,
  parameter int unsigned DiskBlocks    = 1024,
  parameter int unsigned BlockSizeLog2 = 9,
  parameter bit          Cached        = 1'b0,
  parameter bit          WriteZeroes   = 1'b0,
  parameter int unsigned TimeoutCycles = 20000
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  output geometry_t   geometry_o,
  input  geometry_t   front_geometry_i,  // for `External`: requests that this does not allow do not reach the bench
  input  host_t       host_i,
  input  logic [31:0] write_data_i,
  output dev_t        dev_o,
  output logic [31:0] read_data_o,
  input  logic        fault_i,           // the RAM disks' memory fails bursts that touch `fault_address_i`
  input  logic [47:0] fault_address_i,

  `SATA_WORD_PINS,

  `BLOCK_DEV_PINS(32)
);
  if (External) begin : gen_external
    host_t pins_host;
    dev_t  pins_dev;
    assign geometry_o = '{ready: 1'b1, generation: '0, block_size_log2: 5'(BlockSizeLog2), block_count: lba_t'(DiskBlocks),
                          max_transfer_blocks: count_t'(65535), volatile_write_cache: Cached, fua: 1'b0, discard: 1'b0,
                          write_zeroes: WriteZeroes, read_only: 1'b0};
    block_front #(.DataWidth(32), .BlockSizeLog2(BlockSizeLog2)) u_front (
      .clk_i, .rst_ni, .geometry_i(front_geometry_i), .host_i, .write_data_i, .dev_o, .read_data_o,
      .host_o(pins_host), .write_data_o(write_data), .dev_i(pins_dev), .read_data_i(read_data)
    );
    block_pins_dev u_pins (.*, .host_i(pins_host), .dev_o(pins_dev));
  end else begin : gen_no_pins
    assign {req_valid, req_fua, write_valid, write_last, read_ready, rsp_ready, req_op, req_tag, write_tag, req_lba,
            req_count, write_data} = '0;
  end

  if (Sata) begin : gen_sata
    sata_pkg::rx_word_t rx;
    sata_pkg::word_t    tx;
    assign rx = '{bad: sata_rx_bad, word: '{k: sata_rx_k, data: sata_rx_data}};
    assign {sata_tx_k, sata_tx_data} = {tx.k, tx.data};
    sata #(
      .BlockSizeLog2(BlockSizeLog2), .ClockKhz(1), .SignatureMs(TimeoutCycles), .FlushMs(TimeoutCycles), .DataMs(TimeoutCycles)
    ) u_sata (
      .clk_i, .rst_ni, .geometry_o, .host_i, .write_data_i, .dev_o, .read_data_o, .up_i(sata_up), .rate_i(2'd0), .reset_o(sata_reset),
      .rx_i(rx), .tx_o(tx)
    );
  end else begin : gen_no_sata
    assign {sata_reset, sata_tx_k, sata_tx_data} = '0;
  end

  if (!Sata && !External) begin : gen_ram
    ramdisks #(.Disks(Disks), .BlockSizeLog2(BlockSizeLog2), .DiskBlocks(DiskBlocks)) u_disks (
      .clk_i, .rst_ni, .geometry_o, .host_i, .write_data_i, .dev_o, .read_data_o, .fault_i({Disks{fault_i}}),
      .fault_address_i, .failed_o()
    );
  end
endmodule
