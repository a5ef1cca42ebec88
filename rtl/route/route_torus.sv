// SPDX-License-Identifier: Apache-2.0 OR MIT
// A network of Columns x Rows nodes that moves single words: each word arrives once, and within a bound. README.md has the bound.
//
// Node n is in column n % Columns and row n / Columns. Each node's output must be taken in its cycle.
//
// Width          bits of a word
// Columns, Rows  its size, powers of two, 2 or more
// Interval       cycles between two words of a node. From 2 x Columns x Rows on, the bound and the order hold for any destinations
// Fast           nodes, a bit each, that have FastInterval instead, 2 or more: README.md has which may
module route_torus #(
  parameter int unsigned Width    = 32,
  parameter int unsigned Columns  = 4,
  parameter int unsigned Rows     = 4,
  parameter int unsigned Interval = 2 * Columns * Rows,
  parameter logic [Columns*Rows-1:0] Fast = '0,
  parameter int unsigned FastInterval = 2,
  localparam int unsigned Nodes       = Columns * Rows,
  localparam int unsigned ColumnWidth = $clog2(Columns),
  localparam int unsigned RowWidth    = $clog2(Rows),
  localparam int unsigned NodeWidth   = ColumnWidth + RowWidth
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  input  logic                 in_valid_i  [Nodes],
  output logic                 in_ready_o  [Nodes],
  input  logic [NodeWidth-1:0] in_to_i     [Nodes],
  input  logic [Width-1:0]     in_data_i   [Nodes],
  output logic                 out_valid_o [Nodes],
  output logic [Width-1:0]     out_data_o  [Nodes],
  output logic [Nodes-1:0]     deflected_o           // a word went around a row: only with a shorter interval
);
  // What the parameters must be.
  if (Width < 1) begin : gen_bad_width
    $error("Width is %0d: 1 or more", Width);
  end
  if ((Columns < 2) || ((Columns & (Columns - 1)) != 0)) begin : gen_bad_columns
    $error("Columns is %0d: a power of two from 2 on", Columns);
  end
  if ((Rows < 2) || ((Rows & (Rows - 1)) != 0)) begin : gen_bad_rows
    $error("Rows is %0d: a power of two from 2 on", Rows);
  end
  if (Interval < 1) begin : gen_bad_interval
    $error("Interval is %0d: 1 or more", Interval);
  end
  if (FastInterval < 2) begin : gen_bad_fast_interval
    $error("FastInterval is %0d: 2 or more", FastInterval);
  end

  // What leaves each node to the east and to the south.
  logic                   east_valid   [Nodes];
  logic [ColumnWidth-1:0] east_column  [Nodes];
  logic [RowWidth-1:0]    east_row     [Nodes];
  logic [Width-1:0]       east_data    [Nodes];
  logic                   south_valid  [Nodes];
  logic [RowWidth-1:0]    south_row    [Nodes];
  logic [Width-1:0]       south_data   [Nodes];

  for (genvar row = 0; row < Rows; row++) begin : gen_row
    for (genvar column = 0; column < Columns; column++) begin : gen_column
      localparam int unsigned Node  = row * Columns + column;
      localparam int unsigned West  = row * Columns + (column + Columns - 1) % Columns;
      localparam int unsigned North = ((row + Rows - 1) % Rows) * Columns + column;
      logic valid, ready;

      route_source #(.Interval(Fast[Node] ? FastInterval : Interval)) u_source (
        .clk_i, .rst_ni, .valid_i(in_valid_i[Node]), .ready_o(in_ready_o[Node]), .valid_o(valid), .ready_i(ready)
      );

      route_router #(.Width(Width), .Columns(Columns), .Rows(Rows), .Column(column), .Row(row)) u_router (
        .clk_i, .rst_ni, .in_valid_i(valid), .in_ready_o(ready), .in_column_i(in_to_i[Node][ColumnWidth-1:0]),
        .in_row_i(in_to_i[Node][NodeWidth-1:ColumnWidth]), .in_data_i(in_data_i[Node]), .out_valid_o(out_valid_o[Node]),
        .out_data_o(out_data_o[Node]), .west_valid_i(east_valid[West]), .west_column_i(east_column[West]),
        .west_row_i(east_row[West]), .west_data_i(east_data[West]), .east_valid_o(east_valid[Node]),
        .east_column_o(east_column[Node]), .east_row_o(east_row[Node]), .east_data_o(east_data[Node]),
        .north_valid_i(south_valid[North]), .north_row_i(south_row[North]), .north_data_i(south_data[North]),
        .south_valid_o(south_valid[Node]), .south_row_o(south_row[Node]), .south_data_o(south_data[Node]),
        .deflected_o(deflected_o[Node])
      );
    end
  end
endmodule
