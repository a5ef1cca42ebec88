// SPDX-License-Identifier: Apache-2.0 OR MIT
// A full-duplex link between two nodes: words that enter on one side leave on the other, in order, each once, as long as the
// CRC detects what the line does to them. README.md has the format and the bounds.
//
// The PHY moves blocks of 66 bits and finds their boundary by `phy_rx_slip_o`. One clock, at least as fast as the blocks of
// both directions.
//
// WindowLog2  log2 of the words that are kept until they are received, the same on both sides
// FrameWords  the longest frame
// DeadLog2    log2 of the cycles without a good frame after which the session ends, the same on both sides
// SlipBlocks  the blocks that the PHY needs at most to move the boundary
module link
  import link_pkg::*;
#(
  parameter int unsigned WindowLog2 = 10,
  parameter int unsigned FrameWords = 128,
  parameter int unsigned DeadLog2   = 16,
  parameter int unsigned SlipBlocks = 32
) (
  input  logic        clk_i,
  input  logic        rst_ni,

  // A session with the other side. When this falls, all words under way are dropped, and none is taken.
  output logic        up_o,

  input  logic        tx_valid_i,
  output logic        tx_ready_o,
  input  logic [63:0] tx_data_i,
  input  logic        tx_last_i,  // of a packet

  output logic        rx_valid_o,
  input  logic        rx_ready_i,
  output logic [63:0] rx_data_o,
  output logic        rx_last_o,

  input  logic        phy_tx_ready_i,
  output block_t      phy_tx_block_o,  // always valid
  input  logic        phy_rx_valid_i,
  input  block_t      phy_rx_block_i,
  output logic        phy_rx_slip_o,

  // For counters, each one cycle long.
  output logic        locked_o,   // the received blocks' boundary is known (a level)
  output logic        damaged_o,  // a frame was received damaged
  output logic        back_o      // words are sent again
);
  // What the parameters must be.
  if ((WindowLog2 < 1) || (WindowLog2 > 14)) begin : gen_bad_window_log2
    $error("WindowLog2 is %0d: 1 to 14", WindowLog2);
  end
  if ((FrameWords < 1) || (FrameWords > 16384)) begin : gen_bad_frame_words
    $error("FrameWords is %0d: 1 to 16384", FrameWords);
  end
  if ((DeadLog2 < 1) || (DeadLog2 > 31)) begin : gen_bad_dead_log2
    $error("DeadLog2 is %0d: 1 to 31", DeadLog2);
  end
  if ((SlipBlocks < 1) || (SlipBlocks > 1024) || ((SlipBlocks & (SlipBlocks - 1)) != 0)) begin : gen_bad_slip_blocks
    $error("SlipBlocks is %0d: a power of two from 1 to 1024", SlipBlocks);
  end

  symbol_t  to, from;
  logic     good, heard, peer_valid;
  header_t  peer;
  receipt_t receipt;

  link_lock #(.SlipBlocks(SlipBlocks)) u_lock (
    .clk_i, .rst_ni, .valid_i(phy_rx_valid_i), .sync_i(phy_rx_block_i.sync), .locked_o, .slip_o(phy_rx_slip_o)
  );

  link_decode u_decode (
    .clk_i, .rst_ni, .locked_i(locked_o), .valid_i(phy_rx_valid_i), .block_i(phy_rx_block_i), .symbol_o(from),
    .good_o(good), .damaged_o
  );

  link_session #(.DeadLog2(DeadLog2)) u_session (
    .clk_i, .rst_ni, .good_i(peer_valid), .up_i(peer.up), .heard_i(peer.heard), .up_o, .heard_o(heard)
  );

  link_receive #(.WindowLog2(WindowLog2)) u_receive (
    .clk_i, .rst_ni, .up_i(up_o), .symbol_i(from), .good_i(good), .peer_valid_o(peer_valid), .peer_o(peer),
    .receipt_o(receipt), .rx_valid_o, .rx_ready_i, .rx_data_o, .rx_last_o
  );

  link_send #(.WindowLog2(WindowLog2), .FrameWords(FrameWords)) u_send (
    .clk_i, .rst_ni, .up_i(up_o), .heard_i(heard), .tx_valid_i, .tx_ready_o, .tx_data_i, .tx_last_i,
    .receipt_i(receipt), .peer_valid_i(peer_valid & peer.up),
    .peer_i('{taken: peer.taken, received: peer.received, retry: peer.retry}), .slot_i(phy_tx_ready_i),
    .symbol_o(to), .back_o
  );

  link_encode u_encode (
    .clk_i, .rst_ni, .slot_i(phy_tx_ready_i), .symbol_i(to), .block_o(phy_tx_block_o)
  );
endmodule
