// SPDX-License-Identifier: Apache-2.0 OR MIT
// A torus between a head node and its disk nodes: flits of any disk to the head's port that serves it, and back.
//
// Port p of the head is the node in column p and row p, and its disks are column Ports + p: disk d is in column Ports + d / Ways and row
// d % Ways. So the disks of one port alone send into its column, its port alone into theirs, and a row has one port at most:
// `route_torus`'s bound holds with S = Ways for the disks, whose flits are 2 x Ways cycles apart, and a port may send in every second
// cycle. A flit that arrives is offered for one cycle; README.md has why a `system_unpack` always has room for it.
//
// Ways   disks of each port, a power of two, 2 or more
// Ports  ports of the head, a power of two, not more than Ways
// Width  bits of a flit
module system_torus #(
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
  input  logic                   head_ready_i [Ports],  // not looked at
  output logic [NumberWidth-1:0] head_from_o  [Ports],
  output logic [Width-1:0]       head_flit_o  [Ports],

  input  logic                   disk_valid_i [Disks],
  output logic                   disk_ready_o [Disks],
  input  logic [Width-1:0]       disk_flit_i  [Disks],
  output logic                   disk_valid_o [Disks],
  input  logic                   disk_ready_i [Disks],  // not looked at
  output logic [Width-1:0]       disk_flit_o  [Disks],

  output logic                   deflected_o            // for a counter: never, by the bound
);
  // What the parameters must be.
  if ((Ways < 2) || ((Ways & (Ways - 1)) != 0)) begin : gen_bad_ways
    $error("Ways is %0d: a power of two from 2 on", Ways);
  end
  if ((Ports < 1) || (Ports > Ways) || ((Ports & (Ports - 1)) != 0)) begin : gen_bad_ports
    $error("Ports is %0d: a power of two from 1 to Ways", Ports);
  end
  if (Width < 1) begin : gen_bad_width
    $error("Width is %0d: 1 or more", Width);
  end

  localparam int unsigned Columns     = 2 * Ports;
  localparam int unsigned Nodes       = Columns * Ways;
  localparam int unsigned NodeWidth   = $clog2(Nodes);
  localparam int unsigned Interval    = (2 * Ways > Columns) ? 2 * Ways : Columns;
  localparam logic [Nodes-1:0] Heads  = heads();

  function automatic logic [Nodes-1:0] heads();
    heads = '0;
    for (int unsigned port = 0; port < Ports; port++) heads[port * Columns + port] = 1'b1;
  endfunction

  logic in_valid [Nodes], in_ready [Nodes], out_valid [Nodes];
  logic [NodeWidth-1:0] in_to [Nodes];
  logic [NumberWidth+Width-1:0] in_data [Nodes], out_data [Nodes];
  logic [Nodes-1:0] deflected;
  logic unused;
  assign deflected_o = deflected != '0;

  route_torus #(
    .Width(NumberWidth + Width), .Columns(Columns), .Rows(Ways), .Interval(Interval), .Fast(Heads), .FastInterval(2)
  ) u_torus (
    .clk_i, .rst_ni, .in_valid_i(in_valid), .in_ready_o(in_ready), .in_to_i(in_to), .in_data_i(in_data),
    .out_valid_o(out_valid), .out_data_o(out_data), .deflected_o(deflected)
  );

  for (genvar node = 0; node < Nodes; node++) begin : gen_node
    localparam int unsigned Column = node % Columns;
    localparam int unsigned Row    = node / Columns;
    if (Column >= Ports) begin : gen_disk
      localparam int unsigned Disk = (Column - Ports) * Ways + Row;
      assign in_valid[node]     = disk_valid_i[Disk];
      assign disk_ready_o[Disk] = in_ready[node];
      assign in_to[node]        = NodeWidth'((Column - Ports) * (Columns + 1));
      assign in_data[node]      = {NumberWidth'(Row), disk_flit_i[Disk]};
      assign disk_valid_o[Disk] = out_valid[node];
      assign disk_flit_o[Disk]  = out_data[node][Width-1:0];
    end else if (Row == Column) begin : gen_head
      assign in_valid[node]       = head_valid_i[Column];
      assign head_ready_o[Column] = in_ready[node];
      assign in_to[node]          = NodeWidth'(head_to_i[Column]) * NodeWidth'(Columns) + NodeWidth'(Ports + Column);
      assign in_data[node]        = {NumberWidth'(0), head_flit_i[Column]};
      assign head_valid_o[Column] = out_valid[node];
      assign {head_from_o[Column], head_flit_o[Column]} = out_data[node];
    end else begin : gen_none
      assign in_valid[node] = 1'b0;
      assign in_to[node]    = '0;
      assign in_data[node]  = '0;
    end
  end

  always_comb begin
    unused = 1'b0;
    for (int unsigned node = 0; node < Nodes; node++) unused = unused ^ in_ready[node] ^ out_valid[node] ^ (^out_data[node]);
    for (int unsigned port = 0; port < Ports; port++) unused = unused ^ head_ready_i[port];
    for (int unsigned disk = 0; disk < Disks; disk++) unused = unused ^ disk_ready_i[disk];
  end
endmodule
