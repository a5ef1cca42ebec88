// SPDX-License-Identifier: Apache-2.0 OR MIT
// A node of a tree: words of `Ways` children to their parent, in turns, and words of the parent to the child that they name.
//
// Upwards a child waits for at most one word of each other child whenever the parent takes words. Downwards a word passes in one
// cycle; one whose child takes none stops those behind it. Every port may be a `link`.
//
// Width   bits of a word
// Ways    children, a power of two, 2 or more
// Digits  the tree's levels: an address has a digit for each, the highest for the children of the root
// Level   this node's level: 0 has leaves as children
module route_switch #(
  parameter int unsigned Width  = 32,
  parameter int unsigned Ways   = 4,
  parameter int unsigned Digits = 2,
  parameter int unsigned Level  = 0,
  localparam int unsigned DigitWidth   = $clog2(Ways),
  localparam int unsigned AddressWidth = Digits * DigitWidth
) (
  input  logic                    clk_i,
  input  logic                    rst_ni,

  input  logic                    up_valid_i [Ways],
  output logic                    up_ready_o [Ways],
  input  logic [AddressWidth-1:0] up_from_i  [Ways],  // the digits of the levels below
  input  logic [Width-1:0]        up_data_i  [Ways],
  output logic                    up_valid_o,
  input  logic                    up_ready_i,
  output logic [AddressWidth-1:0] up_from_o,
  output logic [Width-1:0]        up_data_o,

  input  logic                    down_valid_i,
  output logic                    down_ready_o,
  input  logic [AddressWidth-1:0] down_to_i,
  input  logic [Width-1:0]        down_data_i,
  output logic                    down_valid_o [Ways],
  input  logic                    down_ready_i [Ways],
  output logic [AddressWidth-1:0] down_to_o    [Ways],
  output logic [Width-1:0]        down_data_o  [Ways]
);
  // What the parameters must be.
  if (Width < 1) begin : gen_bad_width
    $error("Width is %0d: 1 or more", Width);
  end
  if ((Ways < 2) || ((Ways & (Ways - 1)) != 0)) begin : gen_bad_ways
    $error("Ways is %0d: a power of two from 2 on", Ways);
  end
  if (Digits < 1) begin : gen_bad_digits
    $error("Digits is %0d: 1 or more", Digits);
  end
  if (Level > (Digits - 1)) begin : gen_bad_level
    $error("Level is %0d: less than Digits", Level);
  end

  typedef logic [DigitWidth-1:0]   digit_t;
  typedef logic [AddressWidth-1:0] address_t;

  // --- Upwards ----------------------------------------------------------------------------------------------
  logic     waits [Ways];
  address_t from  [Ways];
  logic [Width-1:0] data [Ways];
  digit_t   last_q, choice;

  for (genvar way = 0; way < Ways; way++) begin : gen_way
    prim_fifo #(.Width(AddressWidth + Width), .Depth(2)) u_words (
      .clk_i,
      .rst_ni,
      .valid_i (up_valid_i[way]),
      .ready_o (up_ready_o[way]),
      .data_i  ({up_from_i[way], up_data_i[way]}),
      .valid_o (waits[way]),
      .ready_i (up_ready_i & (choice == digit_t'(way))),
      .data_o  ({from[way], data[way]})
    );
  end

  // The next one behind the last that was served.
  always_comb begin
    choice = last_q;
    for (int unsigned i = Ways; i > 0; i--) if (waits[last_q + digit_t'(i)]) choice = last_q + digit_t'(i);
  end
  assign up_valid_o = waits[choice];
  assign up_from_o  = from[choice] | (address_t'(choice) << (Level * DigitWidth));
  assign up_data_o  = data[choice];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni)                       last_q <= '0;
    else if (up_valid_o && up_ready_i) last_q <= choice;
  end

  // --- Downwards --------------------------------------------------------------------------------------------
  digit_t to;
  logic   room [Ways];

  assign to           = down_to_i[Level*DigitWidth +: DigitWidth];
  assign down_ready_o = room[to];

  for (genvar way = 0; way < Ways; way++) begin : gen_down
    prim_fifo #(.Width(AddressWidth + Width), .Depth(2)) u_words (
      .clk_i,
      .rst_ni,
      .valid_i (down_valid_i & (to == digit_t'(way))),
      .ready_o (room[way]),
      .data_i  ({down_to_i, down_data_i}),
      .valid_o (down_valid_o[way]),
      .ready_i (down_ready_i[way]),
      .data_o  ({down_to_o[way], down_data_o[way]})
    );
  end
endmodule
