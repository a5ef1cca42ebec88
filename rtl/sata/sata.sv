// SPDX-License-Identifier: Apache-2.0 OR MIT
// A Serial ATA host behind the block interface: `block_front`, the command, transport and link layers.
//
// The PHY interface has 32 bits of decoded words in each direction in this clock (75 MHz for 3 Gb/s, 150 MHz for 6 Gb/s):
// `up_i` while the link is up, `reset_o` requests COMRESET and stays high until `up_i` has fallen. `sata_host` connects
// `sata_phy`.
//
// Ncq, Trim      queued commands; discard
// BlockSizeLog2  log2 of a logical block's bytes: 9, or 12 for drives with 4 KiB sectors
// WriteWords     words buffered for queued writes, a power of two: writes that fit together overlap
//
// Deadlines: time without progress until COMRESET ends all requests.
// ClockKhz       kHz of clk_i while `rate_i` is 0; with 1 and 2 it is two and four times as fast. Tie it to 0 where it does not change
// SignatureMs    from COMRESET until the drive is ready; ATA allows 31 s
// FlushMs        a flush or a discard; a FLUSH CACHE EXT may take 30 s and more
// DataMs         everything else; 8 or more
module sata
  import block_pkg::*;
#(
  parameter bit          Ncq           = 1'b1,
  parameter bit          Trim          = 1'b1,
  parameter int unsigned BlockSizeLog2 = 9,
  parameter int unsigned WriteWords    = 4096,
  parameter int unsigned ClockKhz      = 75_000,
  parameter int unsigned SignatureMs   = 31_000,
  parameter int unsigned FlushMs       = 30_000,
  parameter int unsigned DataMs        = 10_000
) (
  input  logic               clk_i,
  input  logic               rst_ni,

  output geometry_t          geometry_o,
  input  host_t              host_i,
  input  logic [31:0]        write_data_i,
  output dev_t               dev_o,
  output logic [31:0]        read_data_o,

  input  logic               up_i,
  input  logic [1:0]         rate_i,
  output logic               reset_o,
  input  sata_pkg::rx_word_t rx_i,
  output sata_pkg::word_t    tx_o
);
  // What the parameters must be.
  if ((BlockSizeLog2 < 9) || (BlockSizeLog2 > 12)) begin : gen_bad_block_size_log2
    $error("BlockSizeLog2 is %0d: 9 to 12", BlockSizeLog2);
  end
  if ((WriteWords < 16) || (WriteWords > 65536) || ((WriteWords & (WriteWords - 1)) != 0)) begin : gen_bad_write_words
    $error("WriteWords is %0d: a power of two from 16 to 65536", WriteWords);
  end
  if ((ClockKhz < 1) || (ClockKhz > 1000000)) begin : gen_bad_clock_khz
    $error("ClockKhz is %0d: 1 to 1000000", ClockKhz);
  end
  if (SignatureMs < 1) begin : gen_bad_signature_ms
    $error("SignatureMs is %0d: 1 or more", SignatureMs);
  end
  if (FlushMs < 1) begin : gen_bad_flush_ms
    $error("FlushMs is %0d: 1 or more", FlushMs);
  end
  if (DataMs < 8) begin : gen_bad_data_ms
    $error("DataMs is %0d: 8 or more", DataMs);
  end

  import sata_pkg::*;

  host_t host;
  dev_t  dev;
  logic [31:0] write_data, read_data;

  block_front #(.DataWidth(32), .BlockSizeLog2(BlockSizeLog2)) u_front (
    .clk_i, .rst_ni, .geometry_i(geometry_o), .host_i, .write_data_i, .dev_o, .read_data_o,
    .host_o(host), .write_data_o(write_data), .dev_i(dev), .read_data_i(read_data)
  );

  logic cmd_valid, cmd_sent, data_start, data_valid, data_ready, data_last, data_sent, data_failed, fis_valid;
  logic word_valid, word_wanted, data_bad, receiving, room, escape, rx_escape;
  logic [4:0][31:0] cmd;
  logic [31:0] data, fis_first, fis_second, word;
  logic [7:0]  fis_type;

  sata_command #(
    .Ncq(Ncq), .Trim(Trim), .BlockSizeLog2(BlockSizeLog2), .WriteWords(WriteWords), .ClockKhz(ClockKhz),
    .SignatureMs(SignatureMs), .FlushMs(FlushMs), .DataMs(DataMs)
  ) u_command (
    .clk_i, .rst_ni, .geometry_o, .host_i(host), .write_data_i(write_data), .dev_o(dev), .read_data_o(read_data),
    .up_i, .rate_i, .reset_o,
    .cmd_valid_o(cmd_valid), .cmd_o(cmd), .cmd_sent_i(cmd_sent),
    .data_start_o(data_start), .data_valid_o(data_valid), .data_ready_i(data_ready), .data_o(data),
    .data_last_o(data_last), .data_sent_i(data_sent), .data_failed_i(data_failed),
    .fis_valid_i(fis_valid), .fis_type_i(fis_type), .fis_first_i(fis_first), .fis_second_i(fis_second),
    .word_valid_i(word_valid), .word_i(word), .word_wanted_o(word_wanted), .data_bad_i(data_bad),
    .receiving_i(receiving), .room_o(room), .escape_o(escape)
  );

  logic tx_frame, tx_valid, tx_ready, tx_last, tx_end, rx_start, rx_valid, rx_end, rx_good, rx_refuse;
  logic [31:0] tx_data, rx_data;
  sent_e tx_sent;

  sata_transport u_transport (
    .clk_i, .rst_ni, .up_i,
    .cmd_valid_i(cmd_valid), .cmd_i(cmd), .cmd_sent_o(cmd_sent),
    .data_start_i(data_start), .data_valid_i(data_valid), .data_ready_o(data_ready), .data_i(data),
    .data_last_i(data_last), .data_sent_o(data_sent), .data_failed_o(data_failed),
    .fis_valid_o(fis_valid), .fis_type_o(fis_type), .fis_first_o(fis_first), .fis_second_o(fis_second),
    .word_valid_o(word_valid), .word_o(word), .word_wanted_i(word_wanted), .data_bad_o(data_bad),
    .receiving_o(receiving),
    .tx_frame_o(tx_frame), .tx_valid_o(tx_valid), .tx_ready_i(tx_ready), .tx_data_o(tx_data), .tx_last_o(tx_last),
    .tx_end_i(tx_end), .tx_sent_i(tx_sent),
    .rx_start_i(rx_start), .rx_valid_i(rx_valid), .rx_data_i(rx_data), .rx_end_i(rx_end), .rx_good_i(rx_good),
    .rx_refuse_o(rx_refuse), .rx_escape_o(rx_escape)
  );

  sata_link u_link (
    .clk_i, .rst_ni, .up_i, .rx_i, .tx_o,
    .tx_frame_i(tx_frame), .tx_valid_i(tx_valid), .tx_ready_o(tx_ready), .tx_data_i(tx_data), .tx_last_i(tx_last),
    .tx_end_o(tx_end), .tx_sent_o(tx_sent),
    .rx_start_o(rx_start), .rx_valid_o(rx_valid), .rx_data_o(rx_data), .rx_end_o(rx_end), .rx_good_o(rx_good),
    .rx_room_i(room), .rx_refuse_i(rx_refuse), .escape_i(escape | rx_escape)
  );
endmodule
