// SPDX-License-Identifier: Apache-2.0 OR MIT
// The sequencer's arithmetic, combinational, 64 bits.
module hwfs_alu
  import hwfs_pkg::*;
(
  input  alu_ctl_t    ctl_i,
  input  logic [63:0] a_i,
  input  logic [63:0] b_i,
  output logic [63:0] result_o,
  output logic        carry_o  // of a sum; of a difference: a < b, unsigned
);
  // One adder produces sums, differences and the results without a carry.
  logic [64:0] sum;
  logic [63:0] addend;
  always_comb begin
    unique case (ctl_i.addend)
      AddendNotB: addend = ~b_i;
      AddendAnd:  addend = a_i & b_i;
      AddendOr:   addend = a_i | b_i;
      AddendXor:  addend = a_i ^ b_i;
      AddendAndn: addend = a_i & ~b_i;
      default:    addend = b_i;
    endcase
  end
  assign sum     = {1'b0, a_i & {64{ctl_i.adds}}} + {1'b0, addend} + 65'(ctl_i.subtract);
  assign carry_o = sum[64] ^ ctl_i.subtract;

  // One shifter serves both directions.
  function automatic logic [63:0] mirror(logic [63:0] value);
    for (int unsigned i = 0; i < 64; i++) mirror[i] = value[63 - i];
  endfunction
  logic [63:0] shifted, shift_in;
  assign shift_in = ctl_i.left ? mirror(a_i) : a_i;
  assign shifted  = shift_in >> (ctl_i.bytes ? {b_i[2:0], 3'b000} : b_i[5:0]);

  // The lowest bit of eight.
  function automatic logic [2:0] lowest(logic [7:0] bits);
    lowest = (bits[3:0] != '0) ? (bits[0] ? 3'd0 : bits[1] ? 3'd1 : bits[2] ? 3'd2 : 3'd3)
                               : (bits[4] ? 3'd4 : bits[5] ? 3'd5 : bits[6] ? 3'd6 : 3'd7);
  endfunction
  logic [7:0] any;       // bytes of b that are not zero
  logic [2:0] low [8];
  logic [2:0] first;
  logic [6:0] zeroes;
  for (genvar i = 0; i < 8; i++) begin : gen_any
    assign any[i] = b_i[8*i+:8] != '0;
    assign low[i] = lowest(b_i[8*i+:8]);
  end
  assign first  = lowest(any);
  assign zeroes = (any == '0) ? 7'd64 : {1'b0, first, low[first]};

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
      BriefCtz:   brief = 8'(zeroes);
      BriefMatch: brief = match;
      BriefTag:   brief = 8'(b_i[30:26]) + 8'd1;
      default:    brief = 8'(ones);
    endcase
  end

  assign result_o = ({64{ctl_i.from_sum}} & sum[63:0]) | ({64{ctl_i.from_right}} & shifted) |
                    ({64{ctl_i.left}} & mirror(shifted)) | 64'({8{ctl_i.from_brief}} & brief);
endmodule
