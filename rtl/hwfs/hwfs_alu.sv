// SPDX-License-Identifier: Apache-2.0 OR MIT
// The sequencer's arithmetic, combinational, 64 bits.
module hwfs_alu
  import hwfs_pkg::*;
(
  input  alu_ctl_t    ctl_i,
  input  logic [63:0] a_i,
  input  logic [63:0] b_i,      // inverted for a difference and an AluAndn
  output logic [63:0] sum_o,   // the result is this or the other, which is 0 then
  output logic [63:0] other_o,
  output logic        carry_o  // of a sum; of a difference: a < b, unsigned
);
  // One adder produces sums, differences and the results without a carry.
  logic [64:0] sum;
  logic [63:0] addend;
  always_comb begin
    unique case (ctl_i.addend)
      AddendAnd: addend = a_i & b_i;
      AddendOr:  addend = a_i | b_i;
      AddendXor: addend = a_i ^ b_i;
      default:   addend = b_i;
    endcase
  end
  assign sum     = {1'b0, a_i & {64{ctl_i.adds}}} + {1'b0, addend} + 65'(ctl_i.subtract);
  assign carry_o = sum[64] ^ ctl_i.subtract;

  // One shifter serves both directions.
  function automatic logic [63:0] mirror(logic [63:0] value);
    for (int unsigned i = 0; i < 64; i++) mirror[i] = value[63 - i];
  endfunction
  logic [63:0] shifted, shift_in;
  // Zero unless something is shifted: nothing has to be masked behind the shifter.
  assign shift_in = ({64{ctl_i.from_right}} & a_i) | ({64{ctl_i.left}} & mirror(a_i));
  assign shifted  = shift_in >> (ctl_i.bytes ? {b_i[2:0], 3'b000} : b_i[5:0]);

  // Trailing zeroes: of four bits each, then of pairs.
  logic [15:0] any4;       // a bit is set
  logic [1:0]  low4 [16];  // which is the lowest
  logic [7:0]  any8;
  logic [2:0]  low8 [8];
  logic [3:0]  any16;
  logic [3:0]  low16 [4];
  logic [1:0]  any32;
  logic [4:0]  low32 [2];
  for (genvar i = 0; i < 16; i++) begin : gen_low4
    assign any4[i] = b_i[4*i+:4] != '0;
    assign low4[i] = {~(b_i[4*i] | b_i[4*i+1]), ~b_i[4*i] & (b_i[4*i+1] | ~b_i[4*i+2])};
  end
  for (genvar i = 0; i < 8; i++) begin : gen_low8
    assign any8[i] = any4[2*i] | any4[2*i+1];
    assign low8[i] = any4[2*i] ? {1'b0, low4[2*i]} : {1'b1, low4[2*i+1]};
  end
  for (genvar i = 0; i < 4; i++) begin : gen_low16
    assign any16[i] = any8[2*i] | any8[2*i+1];
    assign low16[i] = any8[2*i] ? {1'b0, low8[2*i]} : {1'b1, low8[2*i+1]};
  end
  for (genvar i = 0; i < 2; i++) begin : gen_low32
    assign any32[i] = any16[2*i] | any16[2*i+1];
    assign low32[i] = any16[2*i] ? {1'b0, low16[2*i]} : {1'b1, low16[2*i+1]};
  end
  logic       any;
  logic [6:0] zeroes;
  assign any    = any32[0] | any32[1];
  assign zeroes = {~any, any & ~any32[0], {5{any}} & (any32[0] ? low32[0] : low32[1])};

  logic [7:0] match;
  for (genvar i = 0; i < 8; i++) begin : gen_match
    assign match[i] = a_i[8*i+:6] == b_i[5:0];
  end

  logic [3:0] ones;
  always_comb begin
    ones = '0;
    for (int i = 0; i < 8; i++) ones = ones + 4'(b_i[i]);
  end

  logic [7:0] brief;
  always_comb begin
    unique case (ctl_i.brief)
      BriefMatch: brief = match;
      BriefTag:   brief = 8'(b_i[30:26]) + 8'd1;
      default:    brief = 8'(ones);
    endcase
  end

  assign sum_o   = sum[63:0];
  assign other_o = (ctl_i.left ? mirror(shifted) : shifted) | 64'({8{ctl_i.from_brief}} & brief) | 64'({7{ctl_i.from_zeroes}} & zeroes);
endmodule
