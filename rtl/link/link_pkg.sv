// SPDX-License-Identifier: Apache-2.0 OR MIT
// Blocks, frames, CRC and scrambling of the link between nodes.
//
// Blocks are those of 64b/66b coding (IEEE 802.3, clauses 49 and 82): two bits of synchronisation, then eight octets, the lowest bit
// first on the line. A frame is a start block, data blocks, and an end block.
package link_pkg;
  typedef struct packed {
    logic [63:0] data;
    logic [1:0]  sync;
  } block_t;

  localparam logic [1:0] SyncData    = 2'b10;  // on the line: 0, 1
  localparam logic [1:0] SyncControl = 2'b01;

  // The types of control blocks, in their lowest octet. All others are ignored.
  localparam logic [7:0] TypeIdle  = 8'h1e;
  localparam logic [7:0] TypeStart = 8'h78;  // S0 D1 to D7
  localparam logic [7:0] TypeEnd   = 8'hd2;  // D0 to D4, T5, two idle characters

  // D1 to D7 of the start block. `attempt` and `retry` are an alternating bit: a receiver that misses words inverts `retry`,
  // the sender goes back to `received` and copies `retry` into `attempt`.
  typedef struct packed {
    logic [15:0] taken;     // words that have left the receiver's buffer: it has room for those up to `taken` + its size
    logic [15:0] received;  // words received in order
    logic [15:0] sequence_; // number of the frame's first word
    logic [3:0]  zero;
    logic        up;        // the sender is in a session; without, the frame is a greeting
    logic        heard;     // a greeting was received
    logic        retry;
    logic        attempt;
  } header_t;

  // What a side reports in each frame about what it has received.
  typedef struct packed {
    logic [15:0] taken;
    logic [15:0] received;
    logic        retry;
  } receipt_t;

  typedef enum logic [1:0] {SymIdle, SymStart, SymData, SymEnd} kind_e;

  // A block's content: a header, a word, or, in the lowest bit of an end, whether the frame's last word ends a packet.
  typedef struct packed {
    kind_e       kind;
    logic [63:0] data;
  } symbol_t;

  // CRC-32 as in Ethernet (04C11DB7, reflected, initial value and result inverted), over the header, the words, and the first octet of
  // the end block. It is linear: each bit of the result is the parity of some bits of the data. These are found from
  // the definition when the design is elaborated.
  typedef logic [31:0][63:0] crc_rows_t;

  function automatic crc_rows_t crc_rows();
    crc_rows_t   rows;
    logic [31:0] effect;
    for (int unsigned from = 0; from < 64; from++) begin
      effect = 32'd1;
      for (int unsigned i = 0; i < 64 - from; i++) effect = (effect >> 1) ^ (effect[0] ? 32'hedb8_8320 : 32'd0);
      for (int unsigned to = 0; to < 32; to++) rows[to][from] = effect[to];
    end
    return rows;
  endfunction

  localparam crc_rows_t CrcRows = crc_rows();

  // Of 64 bits, into which the value so far was XORed. Leading zeroes have no effect.
  function automatic logic [31:0] crc(logic [63:0] data);
    logic [31:0] next;
    for (int unsigned to = 0; to < 32; to++) next[to] = ^(data & CrcRows[to]);
    return next;
  endfunction

  function automatic logic [31:0] crc_header(header_t header);
    return crc({header ^ 56'hffff_ffff, 8'd0});
  endfunction

  function automatic logic [31:0] crc_word(logic [31:0] so_far, logic [63:0] word);
    return crc(word ^ 64'(so_far));
  endfunction

  function automatic logic [31:0] crc_end(logic [31:0] so_far, logic [7:0] octet);
    return ~((so_far >> 8) ^ crc({octet ^ so_far[7:0], 56'd0}));
  endfunction

  // The scrambler x^58 + x^39 + 1. `past` are the last 58 scrambled bits, the latest in the highest.
  function automatic logic [63:0] scramble(logic [57:0] past, logic [63:0] data);
    logic [121:0] bits;
    bits[57:0] = past;
    for (int unsigned i = 58; i < 122; i++) bits[i] = data[i - 58] ^ bits[i - 39] ^ bits[i - 58];
    return bits[121:58];
  endfunction

  function automatic logic [63:0] descramble(logic [57:0] past, logic [63:0] data);
    logic [121:0] bits;
    bits = {data, past};
    return data ^ bits[82:19] ^ bits[63:0];
  endfunction
endpackage
