// SPDX-License-Identifier: Apache-2.0 OR MIT
// Two links on plain pins; the bench is the line between them.
module link_sim
  import link_pkg::*;
#(
  parameter int unsigned WindowLog2 = 10,
  parameter int unsigned FrameWords = 128,
  parameter int unsigned DeadLog2   = 11,
  parameter int unsigned SlipBlocks = 32
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        restart    [2],  // one side's reset

  output logic        up         [2],
  input  logic        tx_valid   [2],
  output logic        tx_ready   [2],
  input  logic [63:0] tx_data    [2],
  input  logic        tx_last    [2],
  output logic        rx_valid   [2],
  input  logic        rx_ready   [2],
  output logic [63:0] rx_data    [2],
  output logic        rx_last    [2],

  input  logic        out_ready  [2],
  output logic [63:0] out_data   [2],
  output logic [1:0]  out_sync   [2],
  input  logic        in_valid   [2],
  input  logic [63:0] in_data    [2],
  input  logic [1:0]  in_sync    [2],
  output logic        slip       [2],
  output logic        locked     [2],
  output logic        damaged    [2],
  output logic        back       [2]
);
  for (genvar side = 0; side < 2; side++) begin : gen_side
    block_t out, in;
    assign in             = '{data: in_data[side], sync: in_sync[side]};
    assign out_data[side] = out.data;
    assign out_sync[side] = out.sync;

    link #(.WindowLog2(WindowLog2), .FrameWords(FrameWords), .DeadLog2(DeadLog2), .SlipBlocks(SlipBlocks)) u_link (
      .clk_i, .rst_ni(rst_ni & ~restart[side]), .up_o(up[side]), .tx_valid_i(tx_valid[side]),
      .tx_ready_o(tx_ready[side]), .tx_data_i(tx_data[side]), .tx_last_i(tx_last[side]), .rx_valid_o(rx_valid[side]),
      .rx_ready_i(rx_ready[side]), .rx_data_o(rx_data[side]), .rx_last_o(rx_last[side]),
      .phy_tx_ready_i(out_ready[side]), .phy_tx_block_o(out), .phy_rx_valid_i(in_valid[side]), .phy_rx_block_i(in),
      .phy_rx_slip_o(slip[side]), .locked_o(locked[side]), .damaged_o(damaged[side]), .back_o(back[side])
    );
  end
endmodule
