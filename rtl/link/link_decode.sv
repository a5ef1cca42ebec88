// SPDX-License-Identifier: Apache-2.0 OR MIT
// Makes symbols from the received blocks of a link: descrambles, recognises frames, and checks the CRC.
//
// Words of a frame come before it is known whether the frame is good: only `good_o`, with the frame's end, makes them valid.
// A frame that any other block interrupts has no end. A start begins another frame at any time. A block becomes a
// symbol two cycles later.
module link_decode
  import link_pkg::*;
(
  input  logic    clk_i,
  input  logic    rst_ni,

  input  logic    locked_i,  // the blocks' boundaries are known
  input  logic    valid_i,
  input  block_t  block_i,

  output symbol_t symbol_o,  // idle while there is no other
  output logic    good_o,    // with an end: the frame is complete and unchanged
  output logic    damaged_o  // a frame was not
);
  logic [57:0] past_q;
  block_t      plain_q;
  logic        valid_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= 1'b0;
    else         valid_q <= valid_i & locked_i;
  end
  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      past_q <= block_i.data[63:6];
      plain_q  <= '{sync: block_i.sync, data: descramble(past_q, block_i.data)};
    end
  end

  logic        open_q, is_control, good;
  logic [31:0] crc_q;
  symbol_t     symbol;
  kind_e       kind_q;
  logic [63:0] data_q;

  assign is_control = plain_q.sync == SyncControl;
  always_comb begin
    symbol = '{kind: SymIdle, data: plain_q.data};
    if (is_control && (plain_q.data[7:0] == TypeStart)) begin
      symbol = '{kind: SymStart, data: plain_q.data >> 8};
    end else if (open_q && (plain_q.sync == SyncData)) begin
      symbol.kind = SymData;
    end else if (open_q && is_control && (plain_q.data[7:0] == TypeEnd) && (plain_q.data[63:48] == '0)) begin
      symbol = '{kind: SymEnd, data: 64'(plain_q.data[15:8])};
    end
    good = plain_q.data[47:16] == crc_end(crc_q, plain_q.data[15:8]);
  end

  assign symbol_o = '{kind: kind_q, data: data_q};
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      open_q    <= 1'b0;
      kind_q    <= SymIdle;
      good_o    <= 1'b0;
      damaged_o <= 1'b0;
    end else begin
      kind_q <= valid_q ? symbol.kind : SymIdle;
      good_o <= valid_q & good & (symbol.kind == SymEnd);
      damaged_o <= valid_q & open_q & ((symbol.kind == SymEnd) ? ~good : (symbol.kind != SymData));
      if (valid_q) open_q <= (symbol.kind == SymStart) | (symbol.kind == SymData);
    end
  end

  always_ff @(posedge clk_i) begin
    if (valid_q) data_q <= symbol.data;
    if (valid_q && (symbol.kind == SymStart)) crc_q <= crc_header(symbol.data[55:0]);
    if (valid_q && (symbol.kind == SymData))  crc_q <= crc_word(crc_q, symbol.data);
  end
endmodule
