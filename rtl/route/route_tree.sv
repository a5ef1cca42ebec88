// SPDX-License-Identifier: Apache-2.0 OR MIT
// A tree between a root and `Ways` ** `Levels` leaves: words of any leaf to the root, in the order of each leaf, and words of the root
// to any leaf, in order. README.md has the bounds.
//
// Width     bits of a word
// Ways      children of a node, a power of two, 2 or more
// Levels    nodes between the root and a leaf, 1 or more
// Interval  cycles between two words of a leaf. From 4 x leaves on, the bound upwards holds while the root takes all words
module route_tree #(
  parameter int unsigned Width    = 32,
  parameter int unsigned Ways     = 4,
  parameter int unsigned Levels   = 2,
  parameter int unsigned Interval = 4 * Ways ** Levels,
  localparam int unsigned Leaves       = Ways ** Levels,
  localparam int unsigned AddressWidth = Levels * $clog2(Ways)
) (
  input  logic                    clk_i,
  input  logic                    rst_ni,

  // The leaves.
  input  logic                    in_valid_i  [Leaves],
  output logic                    in_ready_o  [Leaves],
  input  logic [Width-1:0]        in_data_i   [Leaves],
  output logic                    out_valid_o [Leaves],
  input  logic                    out_ready_i [Leaves],
  output logic [Width-1:0]        out_data_o  [Leaves],

  // The root.
  output logic                    root_valid_o,
  input  logic                    root_ready_i,
  output logic [AddressWidth-1:0] root_from_o,
  output logic [Width-1:0]        root_data_o,
  input  logic                    root_valid_i,
  output logic                    root_ready_o,
  input  logic [AddressWidth-1:0] root_to_i,
  input  logic [Width-1:0]        root_data_i
);
  // What the parameters must be.
  if (Width < 1) begin : gen_bad_width
    $error("Width is %0d: 1 or more", Width);
  end
  if ((Ways < 2) || ((Ways & (Ways - 1)) != 0)) begin : gen_bad_ways
    $error("Ways is %0d: a power of two from 2 on", Ways);
  end
  if (Levels < 1) begin : gen_bad_levels
    $error("Levels is %0d: 1 or more", Levels);
  end
  if (Interval < 1) begin : gen_bad_interval
    $error("Interval is %0d: 1 or more", Interval);
  end

  // Above the nodes of each level; a level's children are those of the level below, and the leaves' are at 0.
  logic                    up_valid   [Levels+1][Leaves];
  logic                    up_ready   [Levels+1][Leaves];
  logic [AddressWidth-1:0] up_from    [Levels+1][Leaves];
  logic [Width-1:0]        up_data    [Levels+1][Leaves];
  logic                    down_valid [Levels+1][Leaves];
  logic                    down_ready [Levels+1][Leaves];
  logic [AddressWidth-1:0] down_to    [Levels+1][Leaves];
  logic [Width-1:0]        down_data  [Levels+1][Leaves];

  for (genvar leaf = 0; leaf < Leaves; leaf++) begin : gen_leaf
    route_source #(.Interval(Interval)) u_source (
      .clk_i, .rst_ni, .valid_i(in_valid_i[leaf]), .ready_o(in_ready_o[leaf]), .valid_o(up_valid[0][leaf]),
      .ready_i(up_ready[0][leaf])
    );
    assign up_from[0][leaf]    = '0;
    assign up_data[0][leaf]    = in_data_i[leaf];
    assign out_valid_o[leaf]   = down_valid[0][leaf];
    assign out_data_o[leaf]    = down_data[0][leaf];
    assign down_ready[0][leaf] = out_ready_i[leaf];
  end

  for (genvar level = 0; level < Levels; level++) begin : gen_level
    for (genvar node = 0; node < Leaves / Ways ** (level + 1); node++) begin : gen_node
      route_switch #(.Width(Width), .Ways(Ways), .Digits(Levels), .Level(level)) u_switch (
        .clk_i, .rst_ni, .up_valid_i(up_valid[level][node*Ways +: Ways]), .up_ready_o(up_ready[level][node*Ways +: Ways]),
        .up_from_i(up_from[level][node*Ways +: Ways]), .up_data_i(up_data[level][node*Ways +: Ways]),
        .up_valid_o(up_valid[level+1][node]), .up_ready_i(up_ready[level+1][node]), .up_from_o(up_from[level+1][node]),
        .up_data_o(up_data[level+1][node]), .down_valid_i(down_valid[level+1][node]),
        .down_ready_o(down_ready[level+1][node]), .down_to_i(down_to[level+1][node]), .down_data_i(down_data[level+1][node]),
        .down_valid_o(down_valid[level][node*Ways +: Ways]), .down_ready_i(down_ready[level][node*Ways +: Ways]),
        .down_to_o(down_to[level][node*Ways +: Ways]), .down_data_o(down_data[level][node*Ways +: Ways])
      );
    end
  end

  assign up_ready[Levels][0]   = root_ready_i;
  assign root_valid_o          = up_valid[Levels][0];
  assign root_from_o           = up_from[Levels][0];
  assign root_data_o           = up_data[Levels][0];
  assign down_valid[Levels][0] = root_valid_i;
  assign root_ready_o          = down_ready[Levels][0];
  assign down_to[Levels][0]    = root_to_i;
  assign down_data[Levels][0]  = root_data_i;
endmodule
