// SPDX-License-Identifier: Apache-2.0 OR MIT
// Makes the blocks of a link from symbols: adds the CRC, then scrambles. A symbol is on the line two slots later.
//
// A slot is a cycle in which the PHY takes a block.
module link_encode
  import link_pkg::*;
(
  input  logic    clk_i,
  input  logic    rst_ni,

  input  logic    slot_i,
  input  symbol_t symbol_i,
  output block_t  block_o
);
  logic [31:0] crc_q;
  block_t      block, plain_q;

  always_comb begin
    block = '{sync: SyncControl, data: 64'(TypeIdle)};
    unique case (symbol_i.kind)
      SymStart: block.data = {symbol_i.data[55:0], TypeStart};
      SymData:  block      = '{sync: SyncData, data: symbol_i.data};
      SymEnd:   block.data = {16'd0, crc_end(crc_q, symbol_i.data[7:0]), symbol_i.data[7:0], TypeEnd};
      default:  ;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (slot_i && (symbol_i.kind == SymStart)) crc_q <= crc_header(symbol_i.data[55:0]);
    if (slot_i && (symbol_i.kind == SymData))  crc_q <= crc_word(crc_q, symbol_i.data);
  end

  // The scrambler's state is the last block's highest bits.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      plain_q <= '{sync: SyncControl, data: 64'(TypeIdle)};
      block_o <= '{sync: SyncControl, data: '1};
    end else if (slot_i) begin
      plain_q <= block;
      block_o <= '{sync: plain_q.sync, data: scramble(block_o.data[63:6], plain_q.data)};
    end
  end
endmodule
