// SPDX-License-Identifier: Apache-2.0 OR MIT
// A memory with one write port and one read port in one clock domain. The requested word appears one
// cycle later and stays until the next request. A read in the cycle of a write to the same word
// returns the old word, which every vendor's block RAM supports.
//
// Width  bits of a word
// Depth  number of words
module prim_ram #(
  parameter int unsigned Width = 32,
  parameter int unsigned Depth = 512,
  localparam int unsigned AddressWidth = (Depth > 1) ? $clog2(Depth) : 1
) (
  input  logic                    clk_i,

  input  logic                    write_i,
  input  logic [AddressWidth-1:0] write_address_i,
  input  logic [Width-1:0]        write_data_i,

  input  logic                    read_i,
  input  logic [AddressWidth-1:0] read_address_i,
  output logic [Width-1:0]        read_data_o
);
  // What the parameters must be.
  if (Width < 1) begin : gen_bad_width
    $error("Width is %0d: 1 or more", Width);
  end
  if (Depth < 1) begin : gen_bad_depth
    $error("Depth is %0d: 1 or more", Depth);
  end

  logic [Width-1:0] words_q [Depth];

  always_ff @(posedge clk_i) begin
    if (write_i) words_q[write_address_i] <= write_data_i;
    if (read_i) read_data_o <= words_q[read_address_i];
  end
endmodule
