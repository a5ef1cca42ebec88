// SPDX-License-Identifier: Apache-2.0 OR MIT
// The streaming port on `sata`, with plain pins: the block interface between the two is checked, and decoded words go
// to and from a drive.
module sata_stream_sim
  import block_pkg::*;
#(
  parameter bit          Ncq           = 1'b1,
  parameter int unsigned BlockSizeLog2 = 9,
  parameter int unsigned TimeoutCycles = 20000
) (
  input  logic clk_i,
  input  logic rst_ni,
  output logic idle,
  output logic ready,

  input  logic        cmd_valid,
  output logic        cmd_ready,
  input  logic [2:0]  cmd_op,
  input  logic [47:0] cmd_lba,
  input  logic [23:0] cmd_count,
  input  logic        write_valid, write_last,
  output logic        write_ready,
  input  logic [31:0] write_data,
  output logic        read_valid, read_last,
  input  logic        read_ready,
  output logic [31:0] read_data,
  output logic        status_valid, status_framing,
  input  logic        status_ready,
  output logic [3:0]  status_code,
  output logic [15:0] status_detail,

  input  logic        up,
  output logic        reset,
  input  logic        rx_bad,
  input  logic        rx_k,
  input  logic [31:0] rx_data,
  output logic        tx_k,
  output logic [31:0] tx_data
);
  geometry_t          geometry;
  host_t              host;
  dev_t               dev;
  status_e            ended;
  logic [31:0]        to_device, to_host;
  sata_pkg::rx_word_t rx;
  sata_pkg::word_t    tx;

  assign ready = geometry.ready;
  assign status_code = ended;
  assign rx = '{bad: rx_bad, word: '{k: rx_k, data: rx_data}};
  assign {tx_k, tx_data} = {tx.k, tx.data};

  sata_stream #(.DataWidth(32), .BlockSizeLog2(BlockSizeLog2)) u_stream (
    .clk_i, .rst_ni,
    .cmd_valid_i(cmd_valid), .cmd_ready_o(cmd_ready), .cmd_op_i(op_e'(cmd_op)), .cmd_lba_i(cmd_lba),
    .cmd_count_i(cmd_count),
    .write_valid_i(write_valid), .write_ready_o(write_ready), .write_last_i(write_last), .write_data_i(write_data),
    .read_valid_o(read_valid), .read_ready_i(read_ready), .read_last_o(read_last), .read_data_o(read_data),
    .status_valid_o(status_valid), .status_ready_i(status_ready), .status_o(ended), .status_detail_o(status_detail),
    .status_framing_o(status_framing),
    .host_o(host), .write_data_o(to_device), .dev_i(dev), .read_data_i(to_host)
  );

  block_checker #(
    .DataWidth(32), .BlockSizeLog2(BlockSizeLog2), .TimeoutCycles(2 * TimeoutCycles + 5000), .CancelCycles(5000)
  ) u_check (
    .clk_i, .rst_ni, .geometry_i(geometry), .host_i(host), .write_data_i(to_device), .dev_i(dev), .read_data_i(to_host),
    .idle_o(idle)
  );

  sata #(
    .Ncq(Ncq), .BlockSizeLog2(BlockSizeLog2), .ClockKhz(1), .SignatureMs(TimeoutCycles), .FlushMs(TimeoutCycles),
    .DataMs(TimeoutCycles)
  ) u_sata (
    .clk_i, .rst_ni, .geometry_o(geometry), .host_i(host), .write_data_i(to_device), .dev_o(dev), .read_data_o(to_host),
    .up_i(up), .rate_i(2'd0), .reset_o(reset), .rx_i(rx), .tx_o(tx)
  );
endmodule
