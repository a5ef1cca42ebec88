// SPDX-License-Identifier: Apache-2.0 OR MIT
// Words, primitives, scrambling and CRC of the Serial ATA link (Serial ATA 3.x, link layer), and types that the
// core's layers share.
//
// The lowest byte of a dword is sent first. A primitive has a control character (K) in that byte.
package sata_pkg;
  typedef struct packed {
    logic        k;     // the lowest byte is a control character: a primitive
    logic [31:0] data;
  } word_t;

  typedef struct packed {
    logic  bad;  // a byte was not a valid 10-bit character, or had the wrong disparity
    word_t word;
  } rx_word_t;

  localparam logic [31:0] Align  = 32'h7B4A_4ABC;
  localparam logic [31:0] Sync   = 32'hB5B5_957C;
  localparam logic [31:0] Xrdy   = 32'h5757_B57C;
  localparam logic [31:0] Rrdy   = 32'h4A4A_957C;
  localparam logic [31:0] Sof    = 32'h3737_B57C;
  localparam logic [31:0] Eof    = 32'hD5D5_B57C;
  localparam logic [31:0] Rip    = 32'h5555_B57C;
  localparam logic [31:0] Rok    = 32'h3535_B57C;
  localparam logic [31:0] Rerr   = 32'h5656_B57C;
  localparam logic [31:0] Wtrm   = 32'h5858_B57C;
  localparam logic [31:0] Hold   = 32'hD5D5_AA7C;
  localparam logic [31:0] Holda  = 32'h9595_AA7C;
  localparam logic [31:0] Cont   = 32'h9999_AA7C;
  localparam logic [31:0] PmReqP = 32'h1717_B57C;
  localparam logic [31:0] PmReqS = 32'h7575_957C;
  localparam logic [31:0] PmNak  = 32'hF5F5_957C;

  // The line's rate: the core's clock runs at 37.5, 75 or 150 MHz, one dword per cycle.
  typedef enum logic [1:0] {Rate1500 = 2'd0, Rate3000 = 2'd1, Rate6000 = 2'd2} rate_e;

  // The PHY's phase, for bringing up a board.
  typedef enum logic [3:0] {
    PhyReset      = 4'd0,  // sends COMRESET
    PhyAwaitInit  = 4'd1,  // no answer yet: no drive, no power, or TX and RX swapped
    PhyInit       = 4'd2,  // COMINIT is on the line
    PhyWake       = 4'd3,  // sends COMWAKE
    PhyAwaitWake  = 4'd4,  // the drive does not answer COMWAKE
    PhyAwoken     = 4'd5,  // COMWAKE is on the line
    PhyAwaitAlign = 4'd6,  // no ALIGN at this rate
    PhySendAlign  = 4'd7,  // the drive does not answer ALIGN
    PhyReady      = 4'd8
  } phy_phase_e;

  // The result of a sent frame.
  typedef enum logic [1:0] {
    SentOk    = 2'd0,  // R_OK
    SentError = 2'd1,  // R_ERR: the receiver saw a wrong CRC or an unknown frame
    SentCut   = 2'd2   // SYNC within the frame, or the link was lost
  } sent_e;

  // Scrambler and CRC are linear: each bit of the result is the parity of some bits of the input. These bits are found from the
  // definition, a step per bit, when the design is elaborated; written as a chain of steps, they would take more logic.
  //
  // The next 32 steps of the scrambler, x^16 + x^15 + x^13 + x^4 + 1: the word to XOR, and the new state.
  typedef struct packed {
    logic [15:0] state;
    logic [31:0] word;
  } scramble_t;
  typedef logic [47:0][15:0] scramble_rows_t;  // of each bit of a scramble_t

  localparam logic [15:0] ScrambleSeed = '1;

  function automatic scramble_t scramble_steps(logic [15:0] state);
    scramble_t next;
    next = '{state: state, word: '0};
    for (int unsigned i = 0; i < 32; i++) begin
      next.word[i] = next.state[15];
      next.state   = {next.state[14:0], 1'b0} ^ (next.state[15] ? 16'hA011 : 16'h0000);
    end
    return next;
  endfunction

  function automatic scramble_rows_t scramble_rows();
    scramble_rows_t rows;
    logic [47:0]    column;
    for (int unsigned from = 0; from < 16; from++) begin
      column = scramble_steps(16'd1 << from);
      for (int unsigned to = 0; to < 48; to++) rows[to][from] = column[to];
    end
    return rows;
  endfunction

  localparam scramble_rows_t ScrambleRows = scramble_rows();

  function automatic scramble_t scramble(logic [15:0] state);
    logic [47:0] next;
    for (int unsigned to = 0; to < 48; to++) next[to] = ^(state & ScrambleRows[to]);
    return next;
  endfunction

  // CRC of one more dword; x^32 + x^26 + ... + 1 (04C11DB7), highest bit first, no final inversion. A frame
  // with a correct CRC yields zero when its CRC is included.
  typedef logic [31:0][31:0] crc_rows_t;  // of each bit of the CRC

  localparam logic [31:0] CrcSeed = 32'h5232_5032;

  function automatic crc_rows_t crc_rows();
    crc_rows_t   rows;
    logic [31:0] column;
    for (int unsigned from = 0; from < 32; from++) begin
      column = 32'd1 << from;
      for (int unsigned i = 0; i < 32; i++) column = {column[30:0], 1'b0} ^ (column[31] ? 32'h04C1_1DB7 : 32'h0);
      for (int unsigned to = 0; to < 32; to++) rows[to][from] = column[to];
    end
    return rows;
  endfunction

  localparam crc_rows_t CrcRows = crc_rows();

  function automatic logic [31:0] crc(logic [31:0] so_far, logic [31:0] data);
    logic [31:0] next;
    for (int unsigned to = 0; to < 32; to++) next[to] = ^((so_far ^ data) & CrcRows[to]);
    return next;
  endfunction

  // What `crc` makes CrcSeed of: its steps backwards.
  function automatic logic [31:0] before_crc_seed();
    logic [31:0] value, other;
    value = CrcSeed;
    for (int unsigned i = 0; i < 32; i++) begin
      other = value ^ (value[0] ? 32'h04C1_1DB7 : 32'h0);
      value = {value[0], other[31:1]};
    end
    return value;
  endfunction

  localparam logic [31:0] BeforeCrcSeed = before_crc_seed();

  // Frame information structures, by their type byte.
  localparam logic [7:0] FisRegH2D    = 8'h27;
  localparam logic [7:0] FisRegD2H    = 8'h34;
  localparam logic [7:0] FisActivate  = 8'h39;  // DMA activate
  localparam logic [7:0] FisSetup     = 8'h41;  // DMA setup
  localparam logic [7:0] FisData      = 8'h46;
  localparam logic [7:0] FisPioSetup  = 8'h5F;
  localparam logic [7:0] FisSetBits   = 8'hA1;  // set device bits
endpackage
