// SPDX-License-Identifier: Apache-2.0 OR MIT
// A tree between a head node and its disk nodes, with the ports of `system_torus`: the head is the root, and its ports share the
// root's words, in turns. Every source may send in each cycle; the switches hold back what does not fit.
//
// Ways   disks of each port, a power of two, 2 or more
// Ports  ports of the head, a power of two
// Width  bits of a flit
module system_tree #(
  parameter int unsigned Ways  = 4,
  parameter int unsigned Ports = 2,
  parameter int unsigned Width = 261,
  localparam int unsigned Disks       = Ways * Ports,
  localparam int unsigned NumberWidth = $clog2(Ways)
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,

  input  logic                   head_valid_i [Ports],
  output logic                   head_ready_o [Ports],
  input  logic [NumberWidth-1:0] head_to_i    [Ports],  // the disk's number at the port
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
  // What the parameters must be.
  if ((Ways < 2) || ((Ways & (Ways - 1)) != 0)) begin : gen_bad_ways
    $error("Ways is %0d: a power of two from 2 on", Ways);
  end
  if ((Ports < 1) || ((Ports & (Ports - 1)) != 0)) begin : gen_bad_ports
    $error("Ports is %0d: a power of two from 1 on", Ports);
  end
  if (Width < 1) begin : gen_bad_width
    $error("Width is %0d: 1 or more", Width);
  end

  localparam int unsigned Levels    = $clog2(Disks);
  localparam int unsigned PortWidth = (Ports > 1) ? $clog2(Ports) : 1;

  logic up_valid, up_ready, down_valid, down_ready;
  logic [Levels-1:0] up_from, down_to;
  logic [Width-1:0]  up_flit, down_flit;
  logic [PortWidth-1:0] up_port;
  assign up_port = PortWidth'(up_from >> NumberWidth);

  route_tree #(.Width(Width), .Ways(2), .Levels(Levels), .Interval(1)) u_tree (
    .clk_i, .rst_ni, .in_valid_i(disk_valid_i), .in_ready_o(disk_ready_o), .in_data_i(disk_flit_i), .out_valid_o(disk_valid_o),
    .out_ready_i(disk_ready_i), .out_data_o(disk_flit_o), .root_valid_o(up_valid), .root_ready_i(up_ready),
    .root_from_o(up_from), .root_data_o(up_flit), .root_valid_i(down_valid), .root_ready_o(down_ready), .root_to_i(down_to),
    .root_data_i(down_flit)
  );

  assign up_ready = head_ready_i[up_port];
  for (genvar port = 0; port < Ports; port++) begin : gen_port
    assign head_valid_o[port] = up_valid & (up_port == PortWidth'(port));
    assign head_from_o[port]  = NumberWidth'(up_from);
    assign head_flit_o[port]  = up_flit;
  end

  if (Ports == 1) begin : gen_direct
    assign down_valid      = head_valid_i[0];
    assign head_ready_o[0] = down_ready;
    assign down_to         = head_to_i[0];
    assign down_flit       = head_flit_i[0];
  end else begin : gen_merge
    logic [PortWidth-1:0]         no_from [Ports], from;
    logic [NumberWidth+Width-1:0] data [Ports], no_data;
    logic                         no_ready [Ports];
    for (genvar port = 0; port < Ports; port++) begin : gen_port
      assign no_from[port]  = '0;
      assign no_ready[port] = 1'b0;
      assign data[port]     = {head_to_i[port], head_flit_i[port]};
    end
    assign no_data = '0;
    // A switch's way up.
    route_switch #(.Width(NumberWidth + Width), .Ways(Ports), .Digits(1), .Level(0)) u_merge (
      .clk_i, .rst_ni, .up_valid_i(head_valid_i), .up_ready_o(head_ready_o), .up_from_i(no_from), .up_data_i(data),
      .up_valid_o(down_valid), .up_ready_i(down_ready), .up_from_o(from), .up_data_o({down_to[NumberWidth-1:0], down_flit}),
      .down_valid_i(1'b0), .down_ready_o(), .down_to_i('0), .down_data_i(no_data), .down_valid_o(), .down_ready_i(no_ready),
      .down_to_o(), .down_data_o()
    );
    assign down_to[Levels-1:NumberWidth] = from;
  end
endmodule
