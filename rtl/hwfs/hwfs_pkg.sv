// SPDX-License-Identifier: Apache-2.0 OR MIT
// The file system core's types: the application's command and status, and the sequencer's
// instruction set. rtl/hwfs/README.md explains both; `microcode/isa.py` holds the same numbers, and
// a test compares the two.
package hwfs_pkg;
  // --- The application's interface ------------------------------------------------------------
  typedef enum logic [3:0] {
    CmdMount   = 4'd0,   // flags[0]: read-only
    CmdUnmount = 4'd1,
    CmdOpen    = 4'd2,   // a name; flags[0]: for writing. `file` is the number of the open file
    CmdCreate  = 4'd3,   // a name; `length` bytes are reserved. Opens the file for writing. With flags[0],
                         // `length` bytes of data follow, and the file is complete and durable when the command ends.
                         // With flags[1] the file has data checksums. Not both
    CmdRead    = 4'd4,   // returns `length` bytes from `offset`; of a named file, open or not
    CmdWrite   = 4'd5,   // `length` bytes of data are written to `offset`: an overwrite or an append
    CmdReserve = 4'd6,   // reserves space for `length` bytes after those that were written
    CmdCommit  = 4'd7,   // the written data become part of the file
    CmdSync    = 4'd8,   // the same, durable when the command ends
    CmdClose   = 4'd9,   // sync, and release reserved space that was not used
    CmdDelete  = 4'd10,  // a name
    CmdRename  = 4'd11,  // two names
    CmdList    = 4'd12   // the first file in slot `offset` or a later one: 80 bytes of data
  } cmd_op_e;

  typedef struct packed {
    cmd_op_e     op;
    logic [3:0]  flags;
    logic [2:0]  file;
    logic [6:0]  name_bytes;   // 1 to 64, for commands with a name
    logic [6:0]  name2_bytes;  // of the second name, for a rename
    logic [63:0] offset;
    logic [63:0] length;
  } cmd_t;

  // 0 to 9 are those of the block interface, with the same meaning.
  typedef enum logic [5:0] {
    FsOk           = 6'd0,
    FsDevice       = 6'd6,   // the device failed a request; `value` is its own code
    FsTimedOut     = 6'd7,   // the device or the application made no progress for too long
    FsGone         = 6'd9,   // the device is not present
    FsBadCommand   = 6'd16,  // unknown command, or invalid number of an open file
    FsNotMounted   = 6'd17,  // mount first; also after an error that left a change half-way
    FsNotAVolume   = 6'd18,
    FsNewerVersion = 6'd19,  // or unknown features
    FsUnsuitable   = 6'd20,  // nodes longer than this core's buffers, or more slots than its index
    FsCorrupt      = 6'd21,  // a node has a wrong checksum or inconsistent contents
    FsStale        = 6'd22,  // the newest superblock was lost: mount read-only
    FsReadOnly     = 6'd23,
    FsBadName      = 6'd24,
    FsNotFound     = 6'd25,
    FsExists       = 6'd26,
    FsTableFull    = 6'd27,
    FsNoSpace      = 6'd28,
    FsMapFull      = 6'd29,
    FsInUse        = 6'd30,
    FsNotOpen      = 6'd31,
    FsNotWritable  = 6'd32,
    FsPastEnd      = 6'd33,
    FsUnsupported  = 6'd34,  // a feature of the format that this core does not implement
    FsNeedsRecovery = 6'd35  // not unmounted cleanly, and this build cannot recover
  } fs_status_e;

  typedef struct packed {
    fs_status_e  status;
    logic [63:0] value;  // bytes moved, a size or the next slot to list, depending on the command
  } fs_rsp_t;

  // --- The sequencer --------------------------------------------------------------------------
  // Bit 3: what comes next is known from the instruction; bit 2 of those: it returns.
  typedef enum logic [3:0] {
    InstrAlu    = 4'd0,
    InstrLi     = 4'd1,  // a constant
    InstrLd     = 4'd2,  // a word of memory, in `md` from the next instruction on; bits 12, 13: early, and waits (hwfs_seq)
    InstrSt     = 4'd3,
    InstrBr     = 4'd4,  // a branch that is not expected to be taken
    InstrWait   = 4'd5,
    InstrDo     = 4'd6,  // starts an engine
    InstrJump   = 4'd7,  // to the sum of a constant and the low four bits of a register or of a loaded word
    InstrLikely = 4'd8,  // a branch that is expected to be taken
    InstrCall   = 4'd9,
    InstrRet    = 4'd12
  } instr_e;

  typedef enum logic [3:0] {
    AluMov   = 4'd0,
    AluAdd   = 4'd1,
    AluSub   = 4'd2,
    AluAnd   = 4'd3,
    AluOr    = 4'd4,
    AluXor   = 4'd5,
    AluShl   = 4'd6,
    AluShr   = 4'd7,
    AluAndn  = 4'd8,   // a and not b
    AluCtz   = 4'd9,   // number of trailing zeroes of b; 64 for 0
    AluMatch = 4'd10,  // bit i: byte i of a and b are equal in their low six bits
    AluTag   = 4'd11,  // the index's tag of a name with hash b
    AluByte  = 4'd12,  // a, shifted right by b[2:0] bytes
    AluOnes  = 4'd13   // number of ones in the low byte of b
  } alu_e;

  // What the ALU does, decoded. One of the five sources of its result is set.
  typedef enum logic [1:0] {AddendB, AddendAnd, AddendOr, AddendXor} addend_e;
  typedef enum logic [1:0] {BriefMatch, BriefTag, BriefOnes} brief_e;
  typedef struct packed {
    logic    adds;        // a and the addend, not the addend alone
    logic    subtract;
    addend_e addend;
    logic    bytes;       // shift by bytes
    brief_e  brief;
    logic    from_sum;
    logic    from_right;  // the shifted operand
    logic    left;        // ... mirrored before and after
    logic    from_zeroes;
    logic    from_brief;
  } alu_ctl_t;

  function automatic alu_ctl_t alu_decode(alu_e func);
    alu_decode            = '0;
    alu_decode.adds       = func inside {AluAdd, AluSub};
    alu_decode.subtract   = func == AluSub;  // of these the second operand comes inverted, as for an AluAndn
    alu_decode.bytes      = func == AluByte;
    alu_decode.from_right = func inside {AluShr, AluByte};
    alu_decode.left       = func == AluShl;
    alu_decode.from_zeroes = func == AluCtz;
    alu_decode.from_brief = func inside {AluMatch, AluTag, AluOnes};
    alu_decode.from_sum   = ~(alu_decode.from_right | alu_decode.left | alu_decode.from_zeroes | alu_decode.from_brief);
    unique case (func)
      AluAnd, AluAndn: alu_decode.addend = AddendAnd;
      AluOr:           alu_decode.addend = AddendOr;
      AluXor:          alu_decode.addend = AddendXor;
      default:         alu_decode.addend = AddendB;
    endcase
    unique case (func)
      AluMatch: alu_decode.brief = BriefMatch;
      AluTag:   alu_decode.brief = BriefTag;
      default:  alu_decode.brief = BriefOnes;
    endcase
  endfunction

  // SrcLong and SrcScaled: the constant of an InstrLi, in bytes or in units of the longest node's size divided by the shortest node's.
  typedef enum logic [2:0] {SrcReg, SrcImm, SrcMd, SrcMdLo, SrcMdHi, SrcLong, SrcScaled} src_e;
  typedef enum logic [1:0] {FromReg, FromMd, FromMdLo, FromMdHi} from_e;  // the first operand of the ALU

  typedef enum logic [4:0] {
    CondAlways, CondZero, CondCarry, CondCommand, CondLoaded, CondGood, CondPart, CondSent,
    CondWritten, CondFlushed, CondFetched, CondDrained, CondSealed, CondError, CondAnswered,
    CondReady, CondHashed, CondHead, CondBegun, CondTaken, CondGiven
  } cond_e;

  typedef enum logic [3:0] {
    DoRespond  = 4'd0,   // a: value, b: status
    DoLoad     = 4'd1,   // a: byte address, b: place in memory
    DoStore    = 4'd2,   // a: byte address, b: place in memory
    DoFlush    = 4'd3,
    DoSeal     = 4'd4,   // as store: sets the checksum of the node at b
    DoShape    = 4'd5,   // a: bytes of a node
    DoIdentity = 4'd6,   // a: eight bytes more of the volume's identity; imm[0]: the first
    DoReadTo   = 4'd7,   // a: offset, b: bytes that the application gets from the following fetches
    DoFetch    = 4'd8,   // a: byte address, b: bytes
    DoWriteTo  = 4'd9,   // a: offset, b: bytes that the application supplies for the following puts
    DoPut      = 4'd10,  // a: byte address, b: bytes
    DoEmit     = 4'd11,  // a: eight bytes for the application; imm[0]: the last
    DoAbort    = 4'd12,  // imm[0]: drop the rest of the data on both sides; imm[1]: clear errors; imm[2]: release
                         // data that are held back; imm[3]: the same once the node being loaded is verified;
                         // imm[4]: withdraw data that the application has not taken
    DoEdges    = 4'd13,  // a: memory with the first block, b: with the last; see DoWriteTo
    DoSum      = 4'd14   // the next part of the data; a: its checksum, b: bytes; bit 17: compare.
                         // Of data that are written, a: the checksum to continue
  } do_e;

  // Bits of a DO instruction's immediate.
  localparam int unsigned DoSuper = 0;  // load, store, seal: a superblock, not a node
  localparam int unsigned DoRaw   = 1;  // load: whole blocks, no checksum; b of seal: bytes
  localparam int unsigned DoFua   = 2;  // store: durable when done
  localparam int unsigned DoSums  = 1;  // readto: in parts, which `sum` defines
  localparam int unsigned DoWriting = 0; // sum: of data that are written
  localparam int unsigned DoHead  = 0;  // writeto: the first block's other bytes are in memory
  localparam int unsigned DoTail  = 1;  // writeto: the last block's other bytes are in memory

  // A command to an engine.
  typedef struct packed {
    do_e         unit;
    logic [11:0] imm;
    logic [63:0] a;
    logic [63:0] b;
  } do_t;
endpackage
