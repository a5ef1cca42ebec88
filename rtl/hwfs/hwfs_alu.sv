// SPDX-License-Identifier: Apache-2.0 OR MIT
// The sequencer's arithmetic, combinational, 64 bits.
module hwfs_alu
  import hwfs_pkg::*;
(
  input  alu_e        func_i,
  input  logic [63:0] a_i,
  input  logic [63:0] b_i,
  output logic [63:0] result_o,
  output logic        carry_o  // of a sum; of a difference: a < b, unsigned
);
  // One adder produces sums, differences and the results without a carry.
  logic [64:0] sum;
  logic [63:0] addend;
  logic        subtract, adds;
  assign subtract = func_i == AluSub;
  assign adds     = func_i inside {AluAdd, AluSub};
  always_comb begin
    unique case (func_i)
      AluSub:  addend = ~b_i;
      AluAnd:  addend = a_i & b_i;
      AluOr:   addend = a_i | b_i;
      AluXor:  addend = a_i ^ b_i;
      AluAndn: addend = a_i & ~b_i;
      default: addend = b_i;
    endcase
  end
  assign sum     = {1'b0, a_i & {64{adds}}} + {1'b0, addend} + 65'(subtract);
  assign carry_o = sum[64] ^ subtract;

  // One shifter serves both directions.
  function automatic logic [63:0] mirror(logic [63:0] value);
    for (int unsigned i = 0; i < 64; i++) mirror[i] = value[63 - i];
  endfunction
  logic [63:0] shifted, shift_in;
  assign shift_in = (func_i == AluShl) ? mirror(a_i) : a_i;
  assign shifted  = shift_in >> ((func_i == AluByte) ? {b_i[2:0], 3'b000} : b_i[5:0]);

  logic [6:0] zeroes;
  always_comb begin
    zeroes = 7'd64;
    for (int i = 63; i >= 0; i--) if (b_i[i]) zeroes = 7'(i);
  end

  logic [7:0] match;
  for (genvar i = 0; i < 8; i++) begin : gen_match
    assign match[i] = a_i[8*i+:6] == b_i[5:0];
  end

  logic [3:0] ones;
  always_comb begin
    ones = '0;
    for (int i = 0; i < 8; i++) ones = ones + 4'(b_i[i]);
  end

  always_comb begin
    unique case (func_i)
      AluShl:         result_o = mirror(shifted);
      AluShr:         result_o = shifted;
      AluCtz:         result_o = 64'(zeroes);
      AluMatch:       result_o = 64'(match);
      AluTag:         result_o = 64'(b_i[30:26]) + 64'd1;
      AluByte:        result_o = shifted;
      AluOnes:        result_o = 64'(ones);
      default:        result_o = sum[63:0];
    endcase
  end
endmodule
