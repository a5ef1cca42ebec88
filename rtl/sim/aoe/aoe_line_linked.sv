// SPDX-License-Identifier: Apache-2.0 OR MIT
// Frames between two nodes over two links, in both directions.
module aoe_line_linked
  import link_pkg::*;
(
  input  logic clk_i,
  input  logic rst_ni,
  input  logic cut_i,

  input  logic [1:0]       valid_i,
  output logic [1:0]       ready_o,
  input  logic [1:0][31:0] data_i,
  input  logic [1:0]       last_i,
  output logic [1:0]       valid_o,
  output logic [1:0][31:0] data_o,
  output logic [1:0]       last_o,
  output logic [1:0]       bad_o
);
  logic [1:0] up, tx_valid, tx_ready, tx_last, rx_valid, rx_ready, rx_last;
  logic [1:0][63:0] tx_data, rx_data;
  block_t [1:0] line;

  for (genvar side = 0; side < 2; side++) begin : gen_side
    aoe_widen u_widen (
      .clk_i, .rst_ni, .up_i(up[side]), .valid_i(valid_i[side]), .ready_o(ready_o[side]), .data_i(data_i[side]),
      .last_i(last_i[side]), .valid_o(tx_valid[side]), .ready_i(tx_ready[side]), .data_o(tx_data[side]), .last_o(tx_last[side])
    );
    link #(.WindowLog2(8), .FrameWords(64), .DeadLog2(10)) u_link (
      .clk_i, .rst_ni, .up_o(up[side]), .tx_valid_i(tx_valid[side]), .tx_ready_o(tx_ready[side]), .tx_data_i(tx_data[side]),
      .tx_last_i(tx_last[side]), .rx_valid_o(rx_valid[side]), .rx_ready_i(rx_ready[side]), .rx_data_o(rx_data[side]),
      .rx_last_o(rx_last[side]), .phy_tx_ready_i(1'b1), .phy_tx_block_o(line[side]), .phy_rx_valid_i(~cut_i),
      .phy_rx_block_i(line[1-side]), .phy_rx_slip_o(), .locked_o(), .damaged_o(), .back_o()
    );
    // What arrives at this side goes to the other's output: from the initiator to the target, and back.
    aoe_narrow u_narrow (
      .clk_i, .rst_ni, .up_i(up[side]), .valid_i(rx_valid[side]), .ready_o(rx_ready[side]), .data_i(rx_data[side]),
      .last_i(rx_last[side]), .valid_o(valid_o[1-side]), .data_o(data_o[1-side]), .last_o(last_o[1-side]),
      .bad_o(bad_o[1-side])
    );
  end
endmodule
