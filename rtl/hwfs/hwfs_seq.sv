// SPDX-License-Identifier: Apache-2.0 OR MIT
// The sequencer: runs the microprograms of `microcode/`, one instruction per cycle. It makes the decisions; the engines move
// the data.
//
// Three stages. `F` has the instruction that the control store shows, and follows a call, a return and a branch that the
// assembler expects to be taken. `D` has it in a register and reads the operands. `X` has the operands in registers: it calculates,
// writes memory, starts engines, waits, and decides branches. A branch that was expected wrongly, and a jump, cost two cycles, in
// which `X` is empty; the use of a word of memory directly after a load whose address `X` calculates costs one. Results reach the
// next instruction in time.
// The assembler marks the loads whose address is a constant and whose word no store before them changes (`early`): `D` reads
// those, and their word is there for the next instruction.
//
// Owns the program counter, 32 registers of 64 bits, the return stack and the watchdog: when an instruction waits for
// `TimeoutCycles` without progress, the program continues at its time-out entry. Never touches a stream.
//
// ProgramLog2    log2 of the instructions: 12, or 13 for the program for grown tables
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

  input  logic [31:0]            cond_i,      // by cond_e; the first three, which the sequencer computes itself, are 0
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
  // A branch's target has as many bits as the program counter; any other constant has 12.
  localparam int unsigned ImmBits = (ProgramLog2 > 12) ? ProgramLog2 : 12;

  // --- F: the instruction, and where the next one is ------------------------------------------
  logic [35:0] shown, instr;
  pc_t  pc_q, pc_d, pc_next, target;
  logic run_q;        // after reset: the control store shows an instruction
  logic stall;        // X waits
  logic timeout_q;
  logic redirect;     // the next instruction is the one at `target`
  logic short_q;      // D waits for the word that X reads
  logic moves;        // the instruction in F goes to D

  hwfs_rom #(.ProgramLog2(ProgramLog2)) u_rom (
    .clk_i,
    .read_i    (~run_q | moves),
    .address_i (pc_d),
    .instr_o   (shown)
  );

  logic follows, returns, calls, is_ret;
  assign follows = shown[31] & ~shown[30]; // a branch that is likely, a call
  assign returns = shown[31] & shown[30];
  assign calls   = instr_e'(shown[31:28]) == InstrCall;
  assign is_ret  = instr_e'(shown[31:28]) == InstrRet;
  assign moves   = timeout_q | (~stall & ~short_q);

  // The return stack, newest entry first. What a call or return in D has done to it is undone when it is not executed.
  localparam int unsigned StackDepth = 8;
  pc_t  stack_q [2 * StackDepth];  // such a call may come on top of a full stack
  logic [$clog2(2*StackDepth)-1:0] top_q, before_q;
  pc_t  return_to;
  assign return_to = stack_q[top_q - 1'b1];

  assign pc_next = pc_q + pc_t'(1);

  assign pc_d = redirect ? target : follows ? pc_t'(shown[ImmBits-1:0]) : returns ? return_to : pc_next;

  always_ff @(posedge clk_i) begin
    if (moves && !redirect && calls) stack_q[top_q] <= pc_next;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      run_q <= 1'b0;
      pc_q  <= '0;
      top_q <= '0;
    end else begin
      run_q <= 1'b1;
      if (!run_q || moves) pc_q <= pc_d;
      if (timeout_q)             top_q <= '0;
      else if (redirect)         top_q <= before_q;
      else if (moves && calls)   top_q <= top_q + 1'b1;
      else if (moves && is_ret)  top_q <= top_q - 1'b1;
    end
  end

  // --- D: the instruction in registers ----------------------------------------------------------
  logic valid_q, go;  // go: it goes to X
  pc_t  next_q;       // the address after it
  always_ff @(posedge clk_i) begin
    if (moves) begin
      instr  <= shown;
      next_q <= pc_next;
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q  <= 1'b0;
      before_q <= '0;
    end else if (moves || redirect) begin
      valid_q  <= ~redirect;
      before_q <= timeout_q ? '0 : redirect ? before_q : top_q;
    end
  end

  instr_e kind;
  logic likely, early, waits, inverts;
  assign kind    = instr_e'(instr[31:28]);
  assign likely  = kind == InstrLikely;
  assign early   = instr[12];
  assign waits   = instr[13];              // of a load that is not early: the next instruction uses the word
  assign inverts = (kind == InstrAlu) & (alu_e'(instr[27:24]) inside {AluSub, AluAndn});
  assign go      = valid_q & ~stall & ~short_q & ~redirect;

  // --- X: what is executed ----------------------------------------------------------------------
  // One bit for each kind of instruction that does something here.
  // add: sets the flags; branch, test: of an engine's condition, of a flag.
  logic        add_q, write_q, load_q, store_q, branch_q, test_q, wait_q, do_q, jump_q;
  alu_ctl_t    ctl_q;
  logic [4:0]  cond_q;       // the high four bits are the engine's number, too
  logic        flip_q;       // the condition ends a wait, or is as expected, if it is this
  logic        unwatched_q;
  logic [1:0]  halves_q;
  logic [4:0]  index_q;      // the register that is written
  logic [ImmBits-1:0] imm_q; // of a branch: where to go if it was expected wrongly
  logic [63:0] a_q, b_q;
  logic [63:0] regs_q [32];
  logic [63:0] result, sum, no_sum;
  logic        alu_carry;

  hwfs_alu u_alu (
    .ctl_i    (ctl_q),
    .a_i      (a_q),
    .b_i      (b_q),
    .sum_o    (sum),
    .other_o  (no_sum),
    .carry_o  (alu_carry)
  );
  assign result = ({64{ctl_q.from_sum}} & sum) | no_sum;

  always_ff @(posedge clk_i) begin
    if (write_q) regs_q[index_q] <= result;
  end

  // --- D: operands --------------------------------------------------------------------------------
  logic        on_flag;
  logic [4:0]  index_a, index_b;
  logic [63:0] reg_a, reg_b, first, operand;
  assign on_flag = instr[27:23] <= CondCarry;
  assign index_a = {instr[33], instr[19:16]};
  assign index_b = instr[4:0];
  // The assembler marks a register that the instruction before writes. If that was not in X, it came before long ago. The control store
  // says late what an operand is, and the ALU a sum: little is between them and the operands' registers.
  src_e  src;
  from_e from;
  logic  fresh_a, fresh_b, sum_a, sum_b;
  assign src     = src_e'(instr[14:12]);
  assign from    = from_e'(instr[35:34]);
  assign fresh_a = instr[15] & write_q;
  assign fresh_b = instr[11] & (src == SrcReg) & write_q;
  assign sum_a   = fresh_a & ctl_q.from_sum;
  assign sum_b   = fresh_b & ctl_q.from_sum;
  assign reg_a   = regs_q[index_a] & {64{(from == FromReg) & ~fresh_a}};
  assign reg_b   = regs_q[index_b] & {64{(src == SrcReg) & ~fresh_b}};

  // A constant: 12 bits, or, of an LI, which is a `mov` of it without flags, 19.
  logic [18:0] constant;
  logic [63:0] fixed;
  assign constant = {instr[35:33], instr[19:16], instr[11:0]};
  always_comb begin
    unique case (src)
      SrcImm:    fixed = 64'(signed'(instr[11:0]));
      SrcLong:   fixed = 64'(signed'(constant));
      SrcScaled: fixed = 64'(constant) << (NodeLog2Max - 8);
      default:   fixed = '0;
    endcase
  end

  // A word of memory, or a half of it.
  function automatic logic [63:0] loaded(logic [63:0] word, logic whole, logic low, logic high);
    return {word[63:32] & {32{whole}}, (word[31:0] & {32{whole | low}}) | (word[63:32] & {32{high}})};
  endfunction
  assign first   = reg_a | loaded(read_data_i, from == FromMd, from == FromMdLo, from == FromMdHi);
  assign operand = reg_b | fixed | loaded(read_data_i, src == SrcMd, src == SrcMdLo, src == SrcMdHi);

  always_ff @(posedge clk_i) begin
    if (!stall) begin
      ctl_q       <= alu_decode(alu_e'(instr[27:24]));
      cond_q      <= instr[27:23];
      flip_q      <= instr[22] ^ likely;
      unwatched_q <= instr[21];
      halves_q    <= instr[27:26];
      index_q     <= {instr[32], instr[23:20]};
      unique case (kind)
        InstrLikely: imm_q <= ImmBits'(next_q);
        InstrSt:     imm_q <= ImmBits'({instr[22:20], instr[10:5], 3'b000});
        InstrDo:     imm_q <= ImmBits'(instr[10:5]);
        default:     imm_q <= instr[ImmBits-1:0];
      endcase
      a_q         <= ({64{sum_a}} & sum) | ({64{fresh_a}} & no_sum) | first;
      b_q         <= (({64{sum_b}} & sum) | ({64{fresh_b}} & no_sum) | operand) ^ {64{inverts}};
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {add_q, write_q, load_q, short_q, store_q, branch_q, test_q, wait_q, do_q, jump_q} <= '0;
    end else if (timeout_q || !stall) begin
      add_q    <= go & (kind == InstrAlu);
      write_q  <= go & ((kind == InstrLi) | ((kind == InstrAlu) & ({instr[32], instr[23:20]} != '0)));
      load_q   <= go & (kind == InstrLd) & ~early;
      short_q <= go & (kind == InstrLd) & ~early & waits;
      store_q  <= go & (kind == InstrSt);
      branch_q <= go & ((kind == InstrBr) | likely) & ~on_flag;
      test_q   <= go & ((kind == InstrBr) | likely) & on_flag;
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

  // A branch is taken, or a wait ends, when the chosen condition has the wanted value. An engine's comes last; no wait is for a flag.
  logic flag, condition, leaves;
  logic [3:0] entry;  // where a jump goes, from its constant on
  assign entry     = {4{jump_q}} & a_q[3:0];
  assign flag      = (cond_q[1:0] == CondAlways[1:0]) | ((cond_q[1:0] == CondZero[1:0]) ? zero : carry_q);
  assign condition = cond_i[cond_q] ^ flip_q;
  assign leaves    = ~run_q | timeout_q | jump_q | (test_q & (flag ^ flip_q));
  assign redirect  = leaves | (branch_q & condition);
  assign target    = !run_q ? '0 : timeout_q ? TimeoutEntry : pc_t'(imm_q) + pc_t'(entry);

  // Waiting, and the watchdog, which does not apply while the sequencer waits for a command or for an answer to be taken. The
  // instruction that waited has no effect in the cycle of a time-out.
  logic [WatchWidth-1:0] watch_q;  // a cycle late
  logic watched, watched_q;
  assign stall   = (store_q & ~write_ready_i) | (wait_q & ~condition) | (do_q & ~do_ready_i);
  assign watched = stall & ~progress_i & ~timeout_q & ~(wait_q & unwatched_q);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      watch_q   <= '0;
      watched_q <= 1'b0;
      timeout_q <= 1'b0;
    end else begin
      watch_q   <= watched_q ? watch_q + WatchWidth'(1) : '0;
      watched_q <= watched;
      timeout_q <= watched & watched_q & (watch_q == WatchWidth'(TimeoutCycles - 1));
    end
  end

  // --- Memory and engines --------------------------------------------------------------------------
  logic [AddressBits-1:0] address;
  assign address      = AddressBits'(a_q) + AddressBits'(imm_q[11:0]);
  // While X waits, D reads again and again; nobody needs the word before.
  assign read_o       = load_q | ((kind == InstrLd) & early & valid_q & ~redirect);
  assign read_word_o  = load_q ? address[AddressBits-1:3] : (AddressBits - 3)'(instr[11:3]);
  assign store_o      = store_q;
  assign write_o      = {2{store_q & ~timeout_q}} & halves_q;
  assign write_word_o = address[AddressBits-1:3];
  // A write of only one half uses the low 32 bits.
  assign write_data_o = (halves_q == 2'b10) ? {b_q[31:0], b_q[31:0]} : b_q;

  assign do_valid_o = do_q & ~timeout_q;
  assign do_o       = '{unit: do_e'(cond_q[4:1]), imm: imm_q[11:0], a: a_q, b: b_q};
endmodule
