// SPDX-License-Identifier: Apache-2.0 OR MIT
// Loads nodes from the device into memory and verifies their CRC32C; computes the CRC32C of nodes in memory before they are
// stored. One CRC unit processes one word of the data stream per cycle, or one row of memory while it seals a node.
//
// The CRC32C of a node covers the volume's identity, the node's byte address and the node without its
// checksum (FORMAT.md, "Checksums of nodes"). Owns the identity's CRC32C. Never sends a request:
// `hwfs_ports` sends it in the cycle in which this engine starts.
//
// DataWidth      bits of the data streams
// AddressBits    log2 of the memory's bytes
// BlockSizeLog2  log2 of the device's block
module hwfs_load
  import hwfs_pkg::*;
#(
  parameter int unsigned DataWidth     = 32,
  parameter int unsigned AddressBits   = 12,
  parameter int unsigned BlockSizeLog2 = 6,
  localparam int unsigned RowBits    = (DataWidth > 64) ? DataWidth : 64,
  localparam int unsigned Halves     = RowBits / 32,
  localparam int unsigned RowLog2    = $clog2(RowBits / 8)
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  input  logic                 do_valid_i,  // an instruction for this engine, which is taken in this cycle
  input  do_t                  do_i,
  output logic                 idle_o,
  output logic                 sealing_o,
  output logic                 verified_o,  // no node is being loaded, and the checksum of the last one is correct; a cycle late
  output logic                 good_o,      // the same about the checksum, from the second cycle on in which the engine is idle
  output logic                 head_o,      // its first 96 bytes are in memory
  output logic                 part_o,      // its first 160 bytes are in memory
  output logic [15:0]          node_bytes_o,

  input  logic                 read_valid_i,
  output logic                 read_ready_o,
  input  logic                 read_last_i,
  input  logic [DataWidth-1:0] read_data_i,

  output logic                           writes_o,  // high if `write_o` may be other than zero
  output logic [Halves-1:0]              write_o,
  output logic [AddressBits-1:RowLog2]   write_row_o,
  output logic [RowBits-1:0]             write_data_o,
  output logic                           ram_read_o,
  input  logic                           ram_ready_i,  // the row is read in this cycle
  output logic [AddressBits-1:RowLog2]   ram_row_o,
  input  logic [RowBits-1:0]             ram_data_i
);
  localparam int unsigned WordLog2 = $clog2(DataWidth / 8);
  typedef logic [AddressBits-1:WordLog2] word_t;  // an address in memory, in words of the stream

  // Words of the stream in a row: sealing processes one row per cycle.
  localparam int unsigned RowWords = RowBits / DataWidth;

  typedef enum logic [2:0] {Idle, Seed, Load, Seal, SealWrite} state_e;

  state_e state_q, state_d;
  logic [31:0] crc_q, crc_d, stored_q, identity_q;
  logic        raw_q, super_q, sealing_q, identity_step_q, idle_q, loading_q, good;
  logic        full_q, last;  // all words of the node were processed; this word or row is the last
  word_t       at_q, at_d, base_q, words_q, index_q, index_d;
  logic [15:0] node_bytes_q;

  // The word that is processed in this cycle.
  logic               take, read;
  logic [RowBits-1:0] word;
  logic [RowBits-1:0] crc_data;
  logic [31:0]        crc_next;

  assign idle_o       = idle_q;
  assign sealing_o    = sealing_q & ~idle_o;
  assign node_bytes_o = node_bytes_q;
  assign good         = raw_q | (~crc_q == stored_q);
  assign read_ready_o = (state_q == Load) | idle_o;

  hwfs_crc #(.Width(RowBits)) u_crc (.data_i(crc_data), .crc_o(crc_next));

  // The first words of a node or superblock, for the CRC: the bytes of the row before the checksum are shifted over it, and zeroes are
  // inserted in front. A node has four such bytes, a superblock eight.
  function automatic logic [RowBits-1:0] shifted(logic [RowBits-1:0] row);
    shifted = row;
    if (!super_q)           shifted[63:0] = {row[31:0], 32'b0};
    else if (RowBits == 64) shifted[63:0] = {row[63:32], 32'b0};
    else                    shifted = (row & ~RowBits'({96{1'b1}})) | RowBits'({row[63:0], 32'b0});
  endfunction
  logic at_checksum;  // `index_q` is that of the row with the checksum
  assign at_checksum = index_q == word_t'((super_q && (RowBits == 64)) ? RowWords : 0);

  // A row of memory that is sealed is in registers before its CRC is calculated, and so is the address with which that begins. While a
  // node is loaded, half a row waits there for the other half, so that the sequencer can write in every other cycle.
  logic [RowBits-1:0] row_q;
  logic               shown_q, row_valid_q;  // memory shows a row that was read here; a row is in `row_q`
  logic               over_q, over;  // the previous CRC belongs to the row's second half, as the row is shifted
  logic               fetched;       // the row that memory shows is the one with the checksum
  // The row after the one that is processed, or else the next one to be.
  assign fetched = (state_q == Seal) &
                   ((super_q && (RowBits == 64)) ? (index_q == (row_valid_q ? '0 : word_t'(RowWords))) : (index_q == '0) & ~row_valid_q);
  always_ff @(posedge clk_i) begin
    if (state_q == Load) begin
      if (take) row_q <= word;
    end else if (state_q == Idle) begin
      row_q                <= '0;
      row_q[RowBits-1-:64] <= do_i.a;
    end else begin
      row_q <= fetched ? shifted(ram_data_i) : ram_data_i;
    end
    over_q      <= fetched;
    shown_q     <= read;
    row_valid_q <= shown_q;
  end
  assign word = {RowWords{read_data_i}};
  if (RowWords == 2) begin : gen_row
    assign write_data_o = (state_q == SealWrite) ? {Halves{~crc_q}} : {word[31:0], row_q[31:0]};
    assign over         = (state_q == Load) | over_q;
  end else begin : gen_word
    assign write_data_o = (state_q == SealWrite) ? {Halves{~crc_q}} : word;
    assign over         = (state_q == Load) ? at_checksum : over_q;
  end

  // A word of half a row is shifted to the end of the row.
  always_comb begin
    crc_data = row_q;
    if (state_q == Load) crc_data = (RowWords == 2) ? RowBits'(word[31:0]) << 32 : at_checksum ? shifted(word) : word;
    if ((RowBits > 64) && (state_q == Seed)) crc_data[RowBits-1-:64] = crc_data[RowBits-1-:64] ^ 64'(crc_q);
    else crc_data[63:0] = crc_data[63:0] ^ (over ? {crc_q, 32'b0} : {32'b0, crc_q});
  end

  logic skip;  // the checksum covers no byte of this word
  assign skip = (state_q == Load) && (RowWords == 2) && (index_q == (super_q ? word_t'(2) : word_t'(1)));

  // The word with the checksum, and the checksum's position in it.
  logic        has_stored;
  logic [31:0] stored;
  if (RowWords == 2) begin : gen_stored_narrow
    assign has_stored = skip;
    assign stored     = word[31:0];
  end else begin : gen_stored_wide
    assign has_stored = index_q == word_t'((super_q && (DataWidth == 64)) ? 1 : 0);
    localparam int unsigned SuperAt = (DataWidth == 64) ? 0 : 64;
    assign stored = super_q ? word[SuperAt+:32] : word[63:32];
  end

  word_t step;
  assign step = (state_q == Load) ? word_t'(1) : word_t'(RowWords);

  assign last = index_q + step == words_q;

  always_comb begin
    state_d = state_q;
    crc_d   = crc_q;
    index_d = index_q;
    at_d    = at_q;
    take    = 1'b0;
    unique case (state_q)
      Idle: if (do_valid_i) begin
        state_d = (do_i.unit == DoShape) ? Idle : Seed;
        index_d = '0;
        at_d    = do_i.b[AddressBits-1:WordLog2];
        crc_d   = identity_q;
        if (((do_i.unit == DoIdentity) && do_i.imm[0]) || ((do_i.unit != DoIdentity) && do_i.imm[DoSuper])) crc_d = '1;
      end
      Seed: begin
        crc_d   = crc_next;
        state_d = identity_step_q ? Idle : (sealing_q ? Seal : Load);
      end
      Load: if (read_valid_i) begin
        take = ~full_q;
        if (read_last_i) state_d = Idle;
      end
      Seal: begin
        take = row_valid_q;
        if (row_valid_q && last) state_d = SealWrite;
      end
      SealWrite: state_d = Idle;
      default: state_d = Idle;
    endcase
    if (take) begin
      index_d = index_q + step;
      if (!skip) crc_d = crc_next;
    end
    if (read || ((state_q == Load) && take)) at_d = at_q + step;
  end

  // Sealing reads two rows ahead, in the cycles in which a store does not read.
  assign ram_read_o = state_q == Seal;
  assign read       = ram_read_o & ram_ready_i;
  assign ram_row_o  = at_q[AddressBits-1:RowLog2];

  // A node's checksum is in its first 64 bits, a superblock's in the second.
  word_t seal_at;
  assign seal_at = super_q ? base_q + word_t'(8 >> WordLog2) : base_q;

  always_comb begin
    writes_o    = (loading_q & read_valid_i & ((RowWords == 1) | at_q[WordLog2])) | (state_q == SealWrite);
    write_o     = '0;
    write_row_o = at_q[AddressBits-1:RowLog2];
    if ((state_q == Load) && take && ((RowWords == 1) || at_q[WordLog2])) write_o = '1;
    if (state_q == SealWrite) begin
      write_row_o = seal_at[AddressBits-1:RowLog2];
      write_o     = Halves'(super_q ? 4'b0100 : 4'b0010);
      if (Halves == 2) write_o = Halves'(super_q ? 2'b01 : 2'b10);
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) {state_q, idle_q, loading_q} <= {Idle, 2'b10};
    else         {state_q, idle_q, loading_q} <= {state_d, state_d == Idle, state_d == Load};
  end

  always_ff @(posedge clk_i) begin
    verified_o <= idle_q & (state_d == Idle) & good;
    good_o  <= good;
    head_o  <= (state_d == Idle) | ((state_q == Load) & (head_o | (take & (index_q == word_t'((96 >> WordLog2) - 1)))));
    part_o  <= (state_d == Idle) | ((state_q == Load) & (part_o | (take & (index_q == word_t'((160 >> WordLog2) - 1)))));
    crc_q   <= crc_d;
    full_q  <= ~idle_q & (full_q | (take & last));
    index_q <= index_d;
    at_q    <= at_d;
    if (take && has_stored && (state_q == Load)) stored_q <= stored;
    if (idle_o && do_valid_i) begin
      if (do_i.unit == DoShape) node_bytes_q <= do_i.a[15:0];
      base_q          <= do_i.b[AddressBits-1:WordLog2];
      super_q         <= (do_i.unit != DoIdentity) & do_i.imm[DoSuper];
      sealing_q       <= do_i.unit == DoSeal;
      identity_step_q <= do_i.unit == DoIdentity;
      raw_q           <= (do_i.unit == DoLoad) & do_i.imm[DoRaw];
      words_q         <= word_t'(node_bytes_q >> WordLog2);
      if (do_i.imm[DoSuper]) words_q <= word_t'(256 >> WordLog2);
      if (do_i.imm[DoRaw])   words_q <= word_t'((1 << BlockSizeLog2) >> WordLog2);
    end
    if (identity_step_q && (state_d == Idle) && (state_q != Idle)) identity_q <= crc_next;
  end
endmodule
