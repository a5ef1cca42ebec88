// SPDX-License-Identifier: Apache-2.0 OR MIT
// Takes a command from the application and writes it to the core's memory, from which the sequencer reads it: first the
// fields, then the names. Hashes each name (CRC32C, one byte per cycle) and checks that it is UTF-8 without NUL. Takes the
// next command only after this one has been answered.
//
// AddressBits    log2 of the memory's bytes
// the others     the core's parameters, which are passed to the sequencer
module hwfs_intake
  import block_pkg::*;
  import hwfs_pkg::*;
#(
  parameter int unsigned AddressBits   = 12,
  parameter int unsigned BlockSizeLog2 = 6,
  parameter int unsigned NodeLog2Max   = 9,
  parameter int unsigned Files         = 4,
  parameter int unsigned IndexSlots    = 1024,
  parameter int unsigned Outstanding   = 2,
  parameter bit          DataChecksums = 0
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  geometry_t   geometry_i,

  input  logic        cmd_valid_i,
  output logic        cmd_ready_o,
  input  cmd_t        cmd_i,
  input  logic        name_valid_i,  // the names' bytes, four at a time; a second name begins a new word
  output logic        name_ready_o,
  input  logic [31:0] name_data_i,

  output logic        begun_o,     // the first field of a command is in memory, and the command has not been answered
  output logic        ready_o,     // all of its fields are in memory
  output logic        hashed_o,    // its names and their hashes are in memory, too
  input  logic        answered_i,  // it was answered

  input  logic                   hold_i,      // another may write memory: wait
  output logic [1:0]             write_o,
  output logic [AddressBits-1:3] write_word_o,
  output logic [63:0]            write_data_o
);
  typedef logic [AddressBits-1:3] word_t;
  // Words of the memory; `microcode/layout.asm` has them too.
  localparam word_t AtName  = word_t'(8);
  localparam word_t AtName2 = word_t'(16);
  localparam word_t AtHash  = word_t'(4);

  typedef enum logic [1:0] {Idle, Take, Done} state_e;
  typedef enum logic [1:0] {NameWord, NameByte, NameHash, NameNone} name_e;

  state_e state_q, state_d;
  name_e  name_q, name_d;
  cmd_t   cmd_q;
  logic [2:0]  field_q, field_d;
  logic        second_q, second_d;
  logic [6:0]  at_q, at_d;          // bytes hashed
  logic [31:0] shift_q, shift_d;
  logic [31:0] hash_q, hash_d;
  logic [1:0]  more_q, more_d;      // bytes of this character that are still missing
  logic [7:0]  low_q, low_d, high_q, high_d;  // the allowed range of the next byte
  logic        bad_q, bad_d;
  logic        name_write, answered_q, held;
  logic        begun_q, stored_q;   // its first field, all of its fields are in memory

  logic [6:0]  length;
  logic [2:0]  last_field;
  assign length     = second_q ? cmd_q.name2_bytes : cmd_q.name_bytes;
  assign last_field = (cmd_q.op == CmdMount) ? 3'd4 : 3'd2;

  function automatic logic [31:0] crc_byte(logic [31:0] crc, logic [7:0] data);
    crc_byte = crc ^ 32'(data);
    for (int i = 0; i < 8; i++) crc_byte = (crc_byte >> 1) ^ (crc_byte[0] ? 32'h82f63b78 : 32'h0);
  endfunction

  // The word without the bytes after the name's end.
  logic [31:0] clean;
  logic [6:0]  left;
  assign left = length - at_q;
  for (genvar i = 0; i < 4; i++) begin : gen_clean
    assign clean[8*i+:8] = (left > 7'(i)) ? name_data_i[8*i+:8] : 8'h0;
  end

  assign held         = hold_i & (state_q == Take);  // it writes in no other state
  assign cmd_ready_o  = state_q == Idle;
  assign hashed_o     = state_q == Done;
  assign begun_o      = begun_q & ~answered_q;
  assign ready_o      = stored_q & ~answered_q;
  assign name_ready_o = (state_q == Take) & (name_q == NameWord) & (field_q != '0) & ~held;
  assign name_write   = name_ready_o & name_valid_i;

  // After this cycle all names are in memory. Not by `name_d`, which waits for the comparison of lengths.
  logic no_name, is_next;
  assign is_next = ~second_q & (cmd_q.name2_bytes != '0);
  assign no_name = (name_q == NameNone) | ((name_q == NameHash) & ~is_next);

  always_comb begin
    name_d   = name_q;
    second_d = second_q;
    at_d     = at_q;
    shift_d  = shift_q;
    hash_d   = hash_q;
    more_d   = more_q;
    low_d    = low_q;
    high_d   = high_q;
    bad_d    = bad_q;
    unique case (name_q)
      NameWord: if (name_write) begin
        shift_d = clean;
        name_d  = NameByte;
      end
      NameByte: begin
        hash_d  = crc_byte(hash_q, shift_q[7:0]);
        shift_d = shift_q >> 8;
        at_d    = at_q + 7'd1;
        if (at_q[1:0] == 2'd3) name_d = NameWord;
        if (at_d == length)    name_d = NameHash;
        if (more_q != 2'd0) begin
          more_d = more_q - 2'd1;
          low_d  = 8'h80;
          high_d = 8'hbf;
          if ((shift_q[7:0] < low_q) || (shift_q[7:0] > high_q)) bad_d = 1'b1;
        end else begin
          low_d  = 8'h80;
          high_d = 8'hbf;
          if (shift_q[7]) begin
            unique case (shift_q[7:4])
              4'hc, 4'hd: more_d = 2'd1;
              4'he:       more_d = 2'd2;
              4'hf:       more_d = 2'd3;
              default:    bad_d  = 1'b1;
            endcase
            // Refuse overlong encodings, surrogates and values above the last code point.
            unique case (shift_q[7:0])
              8'hc0, 8'hc1: bad_d  = 1'b1;
              8'he0:        low_d  = 8'ha0;
              8'hed:        high_d = 8'h9f;
              8'hf0:        low_d  = 8'h90;
              8'hf4:        high_d = 8'h8f;
              default:      ;
            endcase
            if (shift_q[7:0] > 8'hf4) bad_d = 1'b1;
          end else if (shift_q[7:0] == 8'h0) begin
            bad_d = 1'b1;
          end
        end
      end
      NameHash: begin
        name_d   = NameNone;
        second_d = 1'b1;
        at_d     = '0;
        hash_d   = '1;
        more_d   = '0;
        bad_d    = 1'b0;
        if (is_next) name_d = NameWord;
      end
      default: ;
    endcase
    if (state_q == Idle) begin
      name_d   = (cmd_i.name_bytes != '0) ? NameWord : NameNone;
      second_d = 1'b0;
      at_d     = '0;
      hash_d   = '1;
      more_d   = '0;
      bad_d    = 1'b0;
    end
  end

  always_comb begin
    state_d = state_q;
    field_d = field_q;
    unique case (state_q)
      Idle: begin
        field_d = '0;
        if (cmd_valid_i) state_d = Take;
      end
      Take: begin
        if ((field_q <= last_field) && !name_write && (name_q != NameHash)) field_d = field_q + 3'd1;
        if ((field_d > last_field) && no_name) state_d = Done;
      end
      Done: if (answered_i || answered_q) state_d = Idle;
      default: state_d = Idle;
    endcase
  end

  // The operation as the sequencer sees it: a read by name and a put have their own numbers.
  logic [3:0] op;
  always_comb begin
    op = cmd_q.op;
    if (cmd_q.op > CmdList) op = 4'd15;
    if ((cmd_q.op == CmdRead) && (cmd_q.name_bytes != '0)) op = 4'd13;
    if ((cmd_q.op == CmdCreate) && cmd_q.flags[0]) op = (DataChecksums && cmd_q.flags[1]) ? 4'd15 : 4'd14;
  end

  // One word a cycle: the first field, then a name's, then a hash, then the other fields.
  always_comb begin
    write_o      = 2'b00;
    write_word_o = word_t'(field_q);
    write_data_o = '0;
    unique case (field_q)
      3'd0: write_data_o = 64'({1'b0, cmd_q.name2_bytes, 1'b0, cmd_q.name_bytes, 32'(cmd_q.file) >= Files, 4'b0,
                                cmd_q.file, cmd_q.flags, op});
      3'd1: write_data_o = cmd_q.offset;
      3'd2: write_data_o = cmd_q.length;
      3'd3: write_data_o = {geometry_i.block_count, 5'(NodeLog2Max), Outstanding > 1, DataChecksums, 5'(BlockSizeLog2),
                            geometry_i.read_only, geometry_i.fua, geometry_i.volatile_write_cache, geometry_i.ready};
      default: begin
        write_word_o = word_t'(7);
        write_data_o = {32'(IndexSlots), 32'(geometry_i.max_transfer_blocks)};
      end
    endcase
    if (state_q == Take) begin
      if (name_write) begin
        // A name of more than 64 bytes is refused later; it must not overwrite the memory after the name.
        write_o      = at_q[2] ? 2'b10 : 2'b11;
        write_word_o = (second_q ? AtName2 : AtName) + word_t'(at_q[5:3]);
        write_data_o = at_q[2] ? {clean, 32'b0} : {32'b0, clean};
      end else if (name_q == NameHash) begin
        write_o      = 2'b11;
        write_word_o = AtHash + word_t'(second_q);
        write_data_o = {31'b0, bad_q | (more_q != '0), ~hash_q};
      end else if (field_q <= last_field) begin
        write_o = 2'b11;
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q    <= Idle;
      name_q     <= NameNone;
      answered_q <= 1'b0;
      begun_q    <= 1'b0;
      stored_q   <= 1'b0;
    end else begin
      if (!held) begun_q  <= (state_d == Done) | ((state_d == Take) & (field_d != '0));
      if (!held) stored_q <= (state_d == Done) | ((state_d == Take) & (field_d > last_field));
      if (!held) state_q <= state_d;
      if (!held) name_q  <= name_d;
      answered_q <= (answered_q | answered_i) & ((state_d != Idle) | held);
    end
  end

  always_ff @(posedge clk_i) begin
    if (!held) begin
      field_q  <= field_d;
      second_q <= second_d;
      at_q     <= at_d;
      shift_q  <= shift_d;
      hash_q   <= hash_d;
      more_q   <= more_d;
      low_q    <= low_d;
      high_q   <= high_d;
      bad_q    <= bad_d;
    end
    if (cmd_ready_o && cmd_valid_i) cmd_q <= cmd_i;
  end
endmodule
