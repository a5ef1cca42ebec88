// SPDX-License-Identifier: Apache-2.0 OR MIT
// The sequencer: runs the microprograms of `microcode/`, one instruction per cycle. It makes the decisions; the engines move
// the data.
//
// Two stages. `D` has the instruction that the control store shows: it reads the operands, and follows a call, a return and a
// branch that the assembler expects to be taken. `X` has the operands in registers: it calculates, writes memory, starts engines,
// waits, and decides branches. A branch that was expected wrongly, and a jump, cost one cycle, in which `X` is empty; so does
// the use of a word of memory directly after a load whose address `X` calculates. Results reach the next instruction in time.
// The assembler marks the loads whose address is a constant and whose word no store before them changes (`early`): `D` reads
// those, and their word is there for the next instruction.
//
// Owns the program counter, 32 registers of 64 bits, the return stack and the watchdog: when an instruction waits for
// `TimeoutCycles` without progress, the program continues at its time-out entry. Never touches a stream.
//
// ProgramLog2    log2 of the instructions
// AddressBits    log2 of the memory's bytes
// NodeLog2Max    log2 of the longest node; an `lin` constant is scaled by it
// TimeoutCycles  the longest wait without progress; a number of 32 bits or more, so it has no type
module hwfs_seq
  import hwfs_pkg::*;
#(
  parameter int unsigned ProgramLog2   = 12,
  parameter int unsigned AddressBits   = 12,
  parameter int unsigned NodeLog2Max   = 9,
  parameter              TimeoutCycles = 100_000_000
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,

  input  logic [31:0]            cond_i,      // by cond_e; the sequencer computes the first three itself
  input  logic                   progress_i,  // something moved in this cycle

  output logic                   read_o,
  output logic [AddressBits-1:3] read_word_o,
  input  logic [63:0]            read_data_i,  // in the next cycle, and until the next read
  output logic                   store_o,      // `write_o` may be other than zero
  output logic [1:0]             write_o,
  output logic [AddressBits-1:3] write_word_o,
  output logic [63:0]            write_data_o,
  input  logic                   write_ready_i,

  output logic                   do_valid_o,
  output do_t                    do_o,
  input  logic                   do_ready_i
);
  typedef logic [ProgramLog2-1:0] pc_t;
  localparam pc_t TimeoutEntry = pc_t'(1);
  localparam int unsigned WatchWidth = $clog2(TimeoutCycles + 1);

  // --- D: the instruction, and where the next one is ------------------------------------------
  logic [35:0] instr;
  pc_t  pc_q, pc_d, pc_next, target;
  logic run_q;        // after reset: the control store shows an instruction
  logic stall;        // X waits
  logic timeout_q, redirect;
  logic short_q;      // D waits for the word that X reads
  logic go;           // the instruction in D goes to X

  hwfs_rom #(.ProgramLog2(ProgramLog2)) u_rom (
    .clk_i,
    .read_i    (~run_q | timeout_q | (~stall & ~short_q)),
    .address_i (pc_d),
    .instr_o   (instr)
  );

  instr_e kind;
  assign kind = instr_e'(instr[31:28]);

  logic likely, early, waits, follows, returns;
  assign likely  = kind == InstrLikely;
  assign early   = instr[12];
  assign waits   = instr[13];              // of a load that is not early: the next instruction uses the word
  assign follows = instr[31] & ~instr[30]; // a branch that is likely, a call
  assign returns = instr[31] & instr[30];
  assign go      = run_q & ~stall & ~short_q & ~redirect & ~timeout_q;

  // The return stack, newest entry first.
  localparam int unsigned StackDepth = 8;
  pc_t  stack_q [StackDepth];
  logic [$clog2(StackDepth)-1:0] top_q;
  pc_t  return_to;
  assign return_to = stack_q[top_q - 1'b1];

  assign pc_next = pc_q + pc_t'(1);

  assign pc_d = !run_q ? '0 : timeout_q ? TimeoutEntry : redirect ? target :
                follows ? pc_t'(instr[11:0]) : returns ? return_to : pc_next;

  always_ff @(posedge clk_i) begin
    if (go && (kind == InstrCall)) stack_q[top_q] <= pc_next;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      run_q <= 1'b0;
      pc_q  <= '0;
      top_q <= '0;
    end else begin
      run_q <= 1'b1;
      if (!run_q || timeout_q || (!stall && !short_q)) pc_q <= pc_d;
      if (timeout_q) top_q <= '0;
      else if (go && (kind == InstrCall)) top_q <= top_q + 1'b1;
      else if (go && (kind == InstrRet))  top_q <= top_q - 1'b1;
    end
  end

  // --- X: what is executed ----------------------------------------------------------------------
  // One bit for each kind of instruction that does something here.
  logic        add_q, write_q, load_q, store_q, branch_q, wait_q, do_q, jump_q;  // add: sets the flags
  alu_ctl_t    ctl_q;
  logic [4:0]  cond_q;       // the high four bits are the engine's number, too
  logic        flip_q;       // the condition ends a wait, or is as expected, if it is this
  logic        unwatched_q;
  logic [1:0]  halves_q;
  logic [4:0]  index_q;      // the register that is written
  logic [11:0] imm_q;        // of a branch: where to go if it was expected wrongly
  logic [63:0] a_q, b_q;
  logic [63:0] regs_q [32];
  logic [63:0] result;
  logic        alu_carry;

  hwfs_alu u_alu (
    .ctl_i    (ctl_q),
    .a_i      (a_q),
    .b_i      (b_q),
    .result_o (result),
    .carry_o  (alu_carry)
  );

  always_ff @(posedge clk_i) begin
    if (write_q) regs_q[index_q] <= result;
  end

  // --- D: operands --------------------------------------------------------------------------------
  logic [4:0]  index_a, index_b;
  logic [63:0] reg_a, reg_b, first, operand;
  assign index_a = {instr[33], instr[19:16]};
  assign index_b = instr[4:0];
  // The assembler marks a register that the instruction before writes. If that was not in X, it came before long ago.
  assign reg_a   = (instr[15] && write_q) ? result : regs_q[index_a];
  assign reg_b   = (instr[11] && write_q) ? result : regs_q[index_b];

  // LI: a `mov` of a constant of 19 bits, without flags.
  logic [18:0] constant;
  assign constant = {instr[35:33], instr[19:16], instr[11:0]};

  always_comb begin
    unique case (src_e'(instr[14:12]))
      SrcImm:    operand = 64'(signed'(instr[11:0]));
      SrcLong:   operand = 64'(signed'(constant));
      SrcScaled: operand = 64'(constant) << (NodeLog2Max - 8);
      SrcMd:     operand = read_data_i;
      SrcMdLo:   operand = 64'(read_data_i[31:0]);
      SrcMdHi:   operand = 64'(read_data_i[63:32]);
      default:   operand = reg_b;
    endcase
  end

  always_comb begin
    unique case (from_e'(instr[35:34]))
      FromMd:   first = read_data_i;
      FromMdLo: first = 64'(read_data_i[31:0]);
      FromMdHi: first = 64'(read_data_i[63:32]);
      default:  first = reg_a;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (!stall) begin
      ctl_q       <= alu_decode(alu_e'(instr[27:24]));
      cond_q      <= instr[27:23];
      flip_q      <= instr[22] ^ likely;
      unwatched_q <= instr[21];
      halves_q    <= instr[27:26];
      index_q     <= {instr[32], instr[23:20]};
      unique case (kind)
        InstrLikely: imm_q <= 12'(pc_next);
        InstrSt:     imm_q <= {instr[22:20], instr[10:5], 3'b000};
        InstrDo:     imm_q <= 12'(instr[10:5]);
        default:     imm_q <= instr[11:0];
      endcase
      a_q         <= first;
      b_q         <= operand;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {add_q, write_q, load_q, short_q, store_q, branch_q, wait_q, do_q, jump_q} <= '0;
    end else if (timeout_q || !stall) begin
      add_q    <= go & (kind == InstrAlu);
      write_q  <= go & ((kind == InstrLi) | ((kind == InstrAlu) & ({instr[32], instr[23:20]} != '0)));
      load_q   <= go & (kind == InstrLd) & ~early;
      short_q <= go & (kind == InstrLd) & ~early & waits;
      store_q  <= go & (kind == InstrSt);
      branch_q <= go & ((kind == InstrBr) | likely);
      wait_q   <= go & (kind == InstrWait);
      do_q     <= go & (kind == InstrDo);
      jump_q   <= go & (kind == InstrJump);
    end
  end

  // --- X: flags, conditions, branches --------------------------------------------------------------
  // Flags: zero from every ALU instruction, carry from sums and differences. The next instruction looks which nibbles of the
  // result are zero.
  logic [15:0] nibbles_q;
  logic        carry_q, zero;
  assign zero = nibbles_q == '0;

  always_ff @(posedge clk_i) begin
    if (add_q) begin
      for (int unsigned i = 0; i < 16; i++) nibbles_q[i] <= result[4*i+:4] != '0;
    end
    if (add_q && ctl_q.adds) carry_q <= alu_carry;
  end

  // A branch is taken, or a wait ends, when the chosen condition has the wanted value.
  logic [31:0] conditions;
  logic condition;
  always_comb begin
    conditions             = cond_i;
    conditions[CondAlways] = 1'b1;
    conditions[CondZero]   = zero;
    conditions[CondCarry]  = carry_q;
  end
  assign condition = conditions[cond_q] ^ flip_q;
  assign redirect  = (branch_q & condition) | jump_q;
  assign target    = pc_t'({12{jump_q}} & a_q[11:0]) + pc_t'(imm_q);

  // Waiting, and the watchdog, which does not apply while the sequencer waits for a command or for an answer to be taken. The
  // instruction that waited has no effect in the cycle of a time-out.
  logic [WatchWidth-1:0] watch_q;
  logic watched;
  assign stall   = (store_q & ~write_ready_i) | (wait_q & ~condition) | (do_q & ~do_ready_i);
  assign watched = stall & ~progress_i & ~timeout_q & ~(wait_q & unwatched_q);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      watch_q   <= '0;
      timeout_q <= 1'b0;
    end else begin
      watch_q   <= watched ? watch_q + WatchWidth'(1) : '0;
      timeout_q <= watched & (watch_q == WatchWidth'(TimeoutCycles));
    end
  end

  // --- Memory and engines --------------------------------------------------------------------------
  logic [AddressBits-1:0] address;
  assign address      = AddressBits'(a_q) + AddressBits'(imm_q);
  // While X waits, D reads again and again; nobody needs the word before.
  assign read_o       = load_q | ((kind == InstrLd) & early & run_q & ~redirect);
  assign read_word_o  = load_q ? address[AddressBits-1:3] : (AddressBits - 3)'(instr[11:3]);
  assign store_o      = store_q;
  assign write_o      = {2{store_q & ~timeout_q}} & halves_q;
  assign write_word_o = address[AddressBits-1:3];
  // A write of only one half uses the low 32 bits.
  assign write_data_o = (halves_q == 2'b10) ? {b_q[31:0], b_q[31:0]} : b_q;

  assign do_valid_o = do_q & ~timeout_q;
  assign do_o       = '{unit: do_e'(cond_q[4:1]), imm: imm_q, a: a_q, b: b_q};
endmodule
