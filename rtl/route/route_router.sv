// SPDX-License-Identifier: Apache-2.0 OR MIT
// A node of a torus whose rings have one direction each: words go east in their row until they are in their column, turn, and go
// south to their row. A word that passes never waits: in the row it has priority over the node's own, in the column over those that
// turn, which wait in a queue.
//
// A word that finds the queue full goes around the row once more, and may then leave behind a later one: `deflected_o`. With
// sources that keep the interval of `route_torus` the queue is never full.
//
// Width          bits of a word
// Columns, Rows  the torus's size, 2 or more each
// Column, Row    this node's place
module route_router #(
  parameter int unsigned Width   = 32,
  parameter int unsigned Columns = 4,
  parameter int unsigned Rows    = 4,
  parameter int unsigned Column  = 0,
  parameter int unsigned Row     = 0,
  localparam int unsigned ColumnWidth = $clog2(Columns),
  localparam int unsigned RowWidth    = $clog2(Rows)
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,

  // The node's own words.
  input  logic                   in_valid_i,
  output logic                   in_ready_o,
  input  logic [ColumnWidth-1:0] in_column_i,  // where they go
  input  logic [RowWidth-1:0]    in_row_i,
  input  logic [Width-1:0]       in_data_i,
  output logic                   out_valid_o,  // must be taken
  output logic [Width-1:0]       out_data_o,

  // The row's ring.
  input  logic                   west_valid_i,
  input  logic [ColumnWidth-1:0] west_column_i,
  input  logic [RowWidth-1:0]    west_row_i,
  input  logic [Width-1:0]       west_data_i,
  output logic                   east_valid_o,
  output logic [ColumnWidth-1:0] east_column_o,
  output logic [RowWidth-1:0]    east_row_o,
  output logic [Width-1:0]       east_data_o,

  // The column's ring.
  input  logic                   north_valid_i,
  input  logic [RowWidth-1:0]    north_row_i,
  input  logic [Width-1:0]       north_data_i,
  output logic                   south_valid_o,
  output logic [RowWidth-1:0]    south_row_o,
  output logic [Width-1:0]       south_data_o,

  output logic                   deflected_o
);
  // What the parameters must be.
  if (Width < 1) begin : gen_bad_width
    $error("Width is %0d: 1 or more", Width);
  end
  if (Columns < 2) begin : gen_bad_columns
    $error("Columns is %0d: 2 or more", Columns);
  end
  if (Rows < 2) begin : gen_bad_rows
    $error("Rows is %0d: 2 or more", Rows);
  end
  if (Column > (Columns - 1)) begin : gen_bad_column
    $error("Column is %0d: less than Columns", Column);
  end
  if (Row > (Rows - 1)) begin : gen_bad_row
    $error("Row is %0d: less than Rows", Row);
  end

  // --- The row ----------------------------------------------------------------------------------------------
  logic west_turns, west_goes, in_turns, room, push, own;

  assign west_turns  = west_valid_i & (west_column_i == ColumnWidth'(Column));
  assign west_goes   = west_valid_i & ~(west_turns & room);
  assign deflected_o = west_turns & ~room;
  assign in_turns    = in_column_i == ColumnWidth'(Column);
  assign in_ready_o  = in_turns ? (room & ~west_turns) : ~west_goes;
  assign own         = in_valid_i & in_ready_o;
  assign push        = west_turns | (own & in_turns);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) east_valid_o <= 1'b0;
    else         east_valid_o <= west_goes | (own & ~in_turns);
  end
  always_ff @(posedge clk_i) begin
    {east_column_o, east_row_o, east_data_o} <= west_goes ? {west_column_i, west_row_i, west_data_i}
                                                          : {in_column_i, in_row_i, in_data_i};
  end

  // --- The turn ---------------------------------------------------------------------------------------------
  logic turn_valid;
  logic [RowWidth-1:0] turn_row;
  logic [Width-1:0]    turn_data;

  // Every source of the row can have a word in it.
  prim_fifo #(.Width(RowWidth + Width), .Depth(Columns)) u_turn (
    .clk_i,
    .rst_ni,
    .valid_i (push),
    .ready_o (room),
    .data_i  (west_turns ? {west_row_i, west_data_i} : {in_row_i, in_data_i}),
    .valid_o (turn_valid),
    .ready_i (~north_valid_i),
    .data_o  ({turn_row, turn_data})
  );

  // --- The column -------------------------------------------------------------------------------------------
  logic                column_valid, here;
  logic [RowWidth-1:0] column_row;
  logic [Width-1:0]    column_data;

  assign column_valid = north_valid_i | turn_valid;
  assign {column_row, column_data} = north_valid_i ? {north_row_i, north_data_i} : {turn_row, turn_data};
  assign here = column_row == RowWidth'(Row);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      out_valid_o   <= 1'b0;
      south_valid_o <= 1'b0;
    end else begin
      out_valid_o   <= column_valid & here;
      south_valid_o <= column_valid & ~here;
    end
  end
  always_ff @(posedge clk_i) begin
    out_data_o                 <= column_data;
    {south_row_o, south_data_o} <= {column_row, column_data};
  end
endmodule
