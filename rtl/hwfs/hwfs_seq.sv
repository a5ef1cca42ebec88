// SPDX-License-Identifier: Apache-2.0 OR MIT
// The sequencer: runs the microprograms of `microcode/`, one instruction per cycle, without branch delays. It makes the
// decisions; the engines move the data.
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

  logic [35:0] instr;
  pc_t pc_q, pc_d, pc_next;
  logic stall, timeout, run_q;

  hwfs_rom #(.ProgramLog2(ProgramLog2)) u_rom (
    .clk_i,
    .read_i    (~stall | timeout | ~run_q),
    .address_i (pc_d),
    .instr_o   (instr)
  );

  // Decode.
  instr_e kind;
  assign kind = instr_e'(instr[31:28]);

  logic [63:0] regs_q [32];
  logic [4:0]  index_a, index_b, index_d;
  logic [63:0] reg_a, reg_b, first, operand, result, alu_result;
  logic        alu_carry, reg_write;

  assign index_a = {instr[33], instr[19:16]};
  assign index_d = {instr[32], instr[23:20]};
  assign index_b = (kind == InstrAlu) ? instr[4:0] : index_d;
  assign reg_a   = regs_q[index_a];
  assign reg_b   = regs_q[index_b];

  always_comb begin
    unique case (src_e'(instr[14:12]))
      SrcImm:  operand = 64'(signed'(instr[11:0]));
      SrcMd:   operand = read_data_i;
      SrcMdLo: operand = 64'(read_data_i[31:0]);
      SrcMdHi: operand = 64'(read_data_i[63:32]);
      default: operand = reg_b;
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

  hwfs_alu u_alu (
    .func_i   (alu_e'(instr[27:24])),
    .a_i      (first),
    .b_i      (operand),
    .result_o (alu_result),
    .carry_o  (alu_carry)
  );

  // LI: a signed constant of 19 bits. With the scale bit it is in units of the longest node's size divided by the
  // shortest node's size.
  logic [63:0] constant;
  assign constant = instr[19] ? 64'(instr[18:0]) << (NodeLog2Max - 8) : 64'(signed'(instr[18:0]));
  assign result   = (kind == InstrLi) ? constant : alu_result;
  assign reg_write = ~stall & run_q & ((kind == InstrLi) | ((kind == InstrAlu) & instr[15]));

  always_ff @(posedge clk_i) begin
    if (reg_write) regs_q[index_d] <= result;
  end

  // Flags: zero from every ALU instruction, carry from sums and differences.
  logic zero_q, carry_q, alu_step;
  assign alu_step = ~stall & run_q & (kind == InstrAlu);

  always_ff @(posedge clk_i) begin
    if (alu_step) zero_q <= alu_result == '0;
    if (alu_step && (alu_e'(instr[27:24]) inside {AluAdd, AluSub})) carry_q <= alu_carry;
  end

  // Conditions: a branch is taken, or a wait ends, when the chosen one has the wanted value.
  logic [31:0] conditions;
  logic condition;
  always_comb begin
    conditions             = cond_i;
    conditions[CondAlways] = 1'b1;
    conditions[CondZero]   = zero_q;
    conditions[CondCarry]  = carry_q;
  end
  assign condition = conditions[instr[27:23]] ^ instr[22];

  // The return stack, newest entry first.
  localparam int unsigned StackDepth = 8;
  pc_t  stack_q [StackDepth];
  logic [$clog2(StackDepth)-1:0] top_q;
  pc_t  return_to;
  assign return_to = stack_q[top_q - 1'b1];

  assign pc_next = pc_q + pc_t'(1);

  always_comb begin
    pc_d = pc_next;
    unique case (kind)
      InstrBr:   if (condition) pc_d = pc_t'(instr[11:0]);
      InstrCall: pc_d = pc_t'(instr[11:0]);
      InstrRet:  pc_d = return_to;
      InstrJump: pc_d = pc_t'(reg_a) + pc_t'(instr[11:0]);
      default:   ;
    endcase
    if (timeout) pc_d = TimeoutEntry;
    if (!run_q)  pc_d = '0;
  end

  always_ff @(posedge clk_i) begin
    if (!stall && (kind == InstrCall)) stack_q[top_q] <= pc_next;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      run_q <= 1'b0;
      pc_q  <= '0;
      top_q <= '0;
    end else begin
      run_q <= 1'b1;
      if (!run_q || !stall || timeout) pc_q <= pc_d;
      if (timeout) top_q <= '0;
      else if (run_q && !stall && (kind == InstrCall)) top_q <= top_q + 1'b1;
      else if (run_q && !stall && (kind == InstrRet))  top_q <= top_q - 1'b1;
    end
  end

  // Waiting, and the watchdog, which does not apply while the sequencer waits for a command or for an answer to be taken.
  logic [WatchWidth-1:0] watch_q;
  always_comb begin
    unique case (kind)
      InstrSt:   stall = ~write_ready_i;
      InstrWait: stall = ~condition;
      InstrDo:   stall = ~do_ready_i;
      default:   stall = 1'b0;
    endcase
    if (!run_q) stall = 1'b0;
  end
  assign timeout = run_q & stall & (watch_q == WatchWidth'(TimeoutCycles));

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) watch_q <= '0;
    else if (!stall || progress_i || timeout || ((kind == InstrWait) && instr[21])) watch_q <= '0;
    else watch_q <= watch_q + WatchWidth'(1);
  end

  // Memory and engines.
  logic [AddressBits-1:0] address;
  assign address      = AddressBits'(reg_a) + AddressBits'(instr[11:0]);
  assign read_o       = run_q & (kind == InstrLd);
  assign read_word_o  = address[AddressBits-1:3];
  assign write_o      = {2{run_q & (kind == InstrSt)}} & instr[15:14];
  assign write_word_o = address[AddressBits-1:3];
  // A write of only one half uses the low 32 bits.
  assign write_data_o = (instr[15:14] == 2'b10) ? {reg_b[31:0], reg_b[31:0]} : reg_b;

  assign do_valid_o = run_q & (kind == InstrDo);
  assign do_o       = '{unit: do_e'(instr[27:24]), imm: instr[11:0], a: reg_a, b: reg_b};
endmodule
