// SPDX-License-Identifier: Apache-2.0 OR MIT
// A switch of a tree whose two children are in other nodes: a pair of links for each, with the bench as the line between them.
module tree_link_sim
  import link_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  output logic        up,

  input  logic        in_valid     [2],
  output logic        in_ready     [2],
  input  logic [63:0] in_data      [2],
  output logic        out_valid    [2],
  input  logic        out_ready    [2],
  output logic [63:0] out_data     [2],

  output logic        root_valid,
  input  logic        root_ready,
  output logic        root_from,
  output logic [63:0] root_data,
  input  logic        send_valid,
  output logic        send_ready,
  input  logic        send_to,
  input  logic [63:0] send_data,

  // Lines 2 n and 2 n + 1: from the switch to child n, and back.
  output logic [63:0] line_data    [4],
  output logic [1:0]  line_sync    [4],
  input  logic        arrive_valid [4],
  input  logic [63:0] arrive_data  [4],
  input  logic [1:0]  arrive_sync  [4],
  output logic        slip         [4]
);
  logic        up_valid [2], up_ready [2], down_valid [2], down_ready [2], up_from [2], down_to [2];
  logic [63:0] up_data [2], down_data [2];
  logic [3:0]  ups;

  assign up = &ups;

  route_switch #(.Width(64), .Ways(2), .Digits(1), .Level(0)) u_switch (
    .clk_i, .rst_ni, .up_valid_i(up_valid), .up_ready_o(up_ready), .up_from_i(up_from), .up_data_i(up_data),
    .up_valid_o(root_valid), .up_ready_i(root_ready), .up_from_o(root_from), .up_data_o(root_data),
    .down_valid_i(send_valid), .down_ready_o(send_ready), .down_to_i(send_to), .down_data_i(send_data),
    .down_valid_o(down_valid), .down_ready_i(down_ready), .down_to_o(down_to), .down_data_o(down_data)
  );

  for (genvar child = 0; child < 2; child++) begin : gen_child
    block_t [1:0] sent, arrives;
    assign up_from[child] = 1'b0;
    for (genvar way = 0; way < 2; way++) begin : gen_way
      assign line_data[2*child + way] = sent[way].data;
      assign line_sync[2*child + way] = sent[way].sync;
      assign arrives[way] = '{data: arrive_data[2*child + way], sync: arrive_sync[2*child + way]};
    end

    link #(.DeadLog2(13)) u_near (
      .clk_i, .rst_ni, .up_o(ups[2*child]), .tx_valid_i(down_valid[child]), .tx_ready_o(down_ready[child]),
      .tx_data_i(down_data[child]), .tx_last_i(1'b0), .rx_valid_o(up_valid[child]), .rx_ready_i(up_ready[child]),
      .rx_data_o(up_data[child]), .rx_last_o(), .phy_tx_ready_i(1'b1), .phy_tx_block_o(sent[0]),
      .phy_rx_valid_i(arrive_valid[2*child + 1]), .phy_rx_block_i(arrives[1]), .phy_rx_slip_o(slip[2*child + 1]),
      .locked_o(), .damaged_o(), .back_o()
    );
    link #(.DeadLog2(13)) u_far (
      .clk_i, .rst_ni, .up_o(ups[2*child + 1]), .tx_valid_i(in_valid[child]), .tx_ready_o(in_ready[child]),
      .tx_data_i(in_data[child]), .tx_last_i(1'b0), .rx_valid_o(out_valid[child]), .rx_ready_i(out_ready[child]),
      .rx_data_o(out_data[child]), .rx_last_o(), .phy_tx_ready_i(1'b1), .phy_tx_block_o(sent[1]),
      .phy_rx_valid_i(arrive_valid[2*child]), .phy_rx_block_i(arrives[0]), .phy_rx_slip_o(slip[2*child]),
      .locked_o(), .damaged_o(), .back_o()
    );
  end
endmodule
