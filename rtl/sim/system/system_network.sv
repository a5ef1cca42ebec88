// SPDX-License-Identifier: Apache-2.0 OR MIT
// The networks of the simulated system between the head's ports and the disk nodes: a torus, a tree, and a line between the head and the
// first disk. `network_i` chooses; the others are silent.
module system_network #(
  parameter int unsigned Ways  = 4,
  parameter int unsigned Ports = 2,
  parameter int unsigned Width = 261,
  localparam int unsigned Disks       = Ways * Ports,
  localparam int unsigned NumberWidth = $clog2(Ways)
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  logic [1:0]             network_i,  // 1 line, 2 torus, 3 tree
  output logic                   deflected_o,

  input  logic                   head_valid_i [Ports],
  output logic                   head_ready_o [Ports],
  input  logic [NumberWidth-1:0] head_to_i    [Ports],
  input  logic [Width-1:0]       head_flit_i  [Ports],
  output logic                   head_valid_o [Ports],
  input  logic                   head_ready_i [Ports],
  output logic [NumberWidth-1:0] head_from_o  [Ports],
  output logic [Width-1:0]       head_flit_o  [Ports],

  input  logic                   disk_valid_i [Disks],
  output logic                   disk_ready_o [Disks],
  input  logic [Width-1:0]       disk_flit_i  [Disks],
  output logic                   disk_valid_o [Disks],
  input  logic                   disk_ready_i [Disks],
  output logic [Width-1:0]       disk_flit_o  [Disks]
);
  // [0] the torus, [1] the tree.
  logic head_in [2][Ports], head_taken [2][Ports], head_out [2][Ports], disk_in [2][Disks], disk_taken [2][Disks], disk_out [2][Disks];
  logic [NumberWidth-1:0] head_from [2][Ports];
  logic [Width-1:0]       head_flit [2][Ports], disk_flit [2][Disks];
  logic line, tree;
  assign line = network_i == 2'd1;
  assign tree = network_i[0];

  system_torus #(.Ways(Ways), .Ports(Ports), .Width(Width)) u_torus (
    .clk_i, .rst_ni, .head_valid_i(head_in[0]), .head_ready_o(head_taken[0]), .head_to_i, .head_flit_i,
    .head_valid_o(head_out[0]), .head_ready_i, .head_from_o(head_from[0]), .head_flit_o(head_flit[0]), .disk_valid_i(disk_in[0]),
    .disk_ready_o(disk_taken[0]), .disk_flit_i, .disk_valid_o(disk_out[0]), .disk_ready_i, .disk_flit_o(disk_flit[0]), .deflected_o
  );
  system_tree #(.Ways(Ways), .Ports(Ports), .Width(Width)) u_tree (
    .clk_i, .rst_ni, .head_valid_i(head_in[1]), .head_ready_o(head_taken[1]), .head_to_i, .head_flit_i,
    .head_valid_o(head_out[1]), .head_ready_i, .head_from_o(head_from[1]), .head_flit_o(head_flit[1]), .disk_valid_i(disk_in[1]),
    .disk_ready_o(disk_taken[1]), .disk_flit_i, .disk_valid_o(disk_out[1]), .disk_ready_i, .disk_flit_o(disk_flit[1])
  );

  for (genvar port = 0; port < Ports; port++) begin : gen_port
    assign head_in[0][port] = head_valid_i[port] & (network_i == 2'd2);
    assign head_in[1][port] = head_valid_i[port] & (network_i == 2'd3);
    if (port == 0) begin : gen_line
      assign head_ready_o[port] = line ? (head_to_i[0] != '0) | disk_ready_i[0] : head_taken[tree][port];
      assign head_valid_o[port] = line ? disk_valid_i[0] : head_out[tree][port];
      assign head_from_o[port]  = line ? '0 : head_from[tree][port];
      assign head_flit_o[port]  = line ? disk_flit_i[0] : head_flit[tree][port];
    end else begin : gen_network
      assign head_ready_o[port] = line | head_taken[tree][port];
      assign head_valid_o[port] = ~line & head_out[tree][port];
      assign head_from_o[port]  = head_from[tree][port];
      assign head_flit_o[port]  = head_flit[tree][port];
    end
  end
  for (genvar disk = 0; disk < Disks; disk++) begin : gen_disk
    assign disk_in[0][disk] = disk_valid_i[disk] & (network_i == 2'd2);
    assign disk_in[1][disk] = disk_valid_i[disk] & (network_i == 2'd3);
    if (disk == 0) begin : gen_line
      assign disk_ready_o[disk] = line ? head_ready_i[0] : disk_taken[tree][disk];
      assign disk_valid_o[disk] = line ? head_valid_i[0] & (head_to_i[0] == '0) : disk_out[tree][disk];
      assign disk_flit_o[disk]  = line ? head_flit_i[0] : disk_flit[tree][disk];
    end else begin : gen_network
      assign disk_ready_o[disk] = line | disk_taken[tree][disk];
      assign disk_valid_o[disk] = ~line & disk_out[tree][disk];
      assign disk_flit_o[disk]  = disk_flit[tree][disk];
    end
  end
endmodule
