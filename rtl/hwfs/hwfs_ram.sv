// SPDX-License-Identifier: Apache-2.0 OR MIT
// The core's memory: the volume's state, the nodes in use and the index. It has two read ports, each with its own copy in
// block RAM, and one write port, which the load engine, the sealing engine, the sequencer and the command intake use with
// descending priority.
//
// A row is one word of the data streams, but at least 64 bits; the sequencer accesses one 64-bit lane of it. Each write
// enable covers 32 bits.
//
// RowBits      bits of a row, a multiple of 64
// AddressBits  log2 of the bytes
module hwfs_ram #(
  parameter int unsigned RowBits     = 64,
  parameter int unsigned AddressBits = 12,
  localparam int unsigned Halves     = RowBits / 32,
  localparam int unsigned RowLog2    = $clog2(RowBits / 8),
  localparam int unsigned RowAddress = AddressBits - RowLog2
) (
  input  logic                  clk_i,

  input  logic [Halves-1:0]     write_i,
  input  logic [RowAddress-1:0] write_row_i,
  input  logic [RowBits-1:0]    write_data_i,

  input  logic [1:0]                 read_i,
  input  logic [1:0][RowAddress-1:0] read_row_i,
  output logic [1:0][RowBits-1:0]    read_data_o
);
  for (genvar copy = 0; copy < 2; copy++) begin : gen_copy
    for (genvar half = 0; half < Halves; half++) begin : gen_half
      prim_ram #(.Width(32), .Depth(1 << RowAddress)) u_ram (
        .clk_i,
        .write_i         (write_i[half]),
        .write_address_i (write_row_i),
        .write_data_i    (write_data_i[half*32+:32]),
        .read_i          (read_i[copy]),
        .read_address_i  (read_row_i[copy]),
        .read_data_o     (read_data_o[copy][half*32+:32])
      );
    end
  end
endmodule
