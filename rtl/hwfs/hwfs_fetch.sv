// SPDX-License-Identifier: Apache-2.0 OR MIT
// Moves data from the device to the application: drops the bytes of the block before the offset, shifts the rest so that
// the first requested byte comes first, and stops after the last one. Consecutive fetches form one stream.
//
// Owns at most five words. Holds all data back while `hold_i` is high, because the metadata that names them has not been
// verified yet. Takes and drops data that was not requested, so that the device never waits (rule B6). An offer to the
// application stays until it is taken; only `withdraw_i` drops it, together with everything after it.
//
// DataWidth      bits of the data streams
// BlockSizeLog2  log2 of the device's block
module hwfs_fetch
  import hwfs_pkg::*;
#(
  parameter int unsigned DataWidth     = 32,
  parameter int unsigned BlockSizeLog2 = 6,
  localparam int unsigned Bytes        = DataWidth / 8
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  input  logic                 start_i,   // `do_i` is a DoReadTo
  input  logic                 emit_i,    // `do_i` is a DoEmit, until ready
  output logic                 emit_ready_o,
  input  do_t                  do_i,
  input  logic                 abort_i,
  input  logic                 withdraw_i, // with an abort: the application has stopped taking
  input  logic                 hold_i,
  output logic                 drained_o, // all requested data are in the output registers
  output logic                 given_o,   // the application has taken all data, or they were withdrawn

  input  logic                 read_valid_i,
  output logic                 read_ready_o,
  input  logic [DataWidth-1:0] read_data_i,

  output logic                 data_valid_o,
  input  logic                 data_ready_i,
  output logic [DataWidth-1:0] data_o,
  output logic [Bytes-1:0]     data_keep_o,
  output logic                 data_last_o
);
  localparam int unsigned WordLog2  = $clog2(Bytes);
  localparam int unsigned DropWidth = BlockSizeLog2 - WordLog2;
  typedef logic [WordLog2-1:0]  lane_t;
  typedef logic [WordLog2:0]    lanes_t;
  typedef logic [DropWidth-1:0] drop_t;

  lane_t       shift_q;
  drop_t       drop_q;
  logic [63:0] left_n_q;   // bytes still to be delivered, inverted: counting up needs no inverters
  logic        held_q, emit_high_q;
  logic        wanted_q, many_q;  // bytes are left; at least two words
  logic        more;              // at least three words
  logic [DataWidth-1:0] rotated, held_data_q, merged;
  logic push, room, few, at_end, in_hold, use_held;
  lanes_t rest;  // the bytes that are left, unless `many_q`

  // Byte l of a word goes to lane l - shift.
  assign rotated = DataWidth'({read_data_i, read_data_i} >> {shift_q, 3'b000});

  assign more     = (left_n_q[63:WordLog2+2] != '1) | (left_n_q[WordLog2+:2] == 2'b00);
  assign rest     = ~left_n_q[WordLog2:0];
  // The held word contains all remaining bytes.
  assign few      = ~many_q & (rest <= lanes_t'(Bytes) - lanes_t'(shift_q));
  assign at_end   = ~many_q & (rest <= lanes_t'(Bytes));
  assign use_held = held_q & few & wanted_q;
  // The first word of a shifted stream is only held, unless it contains all bytes.
  assign in_hold  = (shift_q != '0) & ~held_q & ~few;

  for (genvar i = 0; i < Bytes; i++) begin : gen_merge
    assign merged[8*i+:8] = (held_q && (lanes_t'(i) + lanes_t'(shift_q) < lanes_t'(Bytes))) ?
                            held_data_q[8*i+:8] : rotated[8*i+:8];
  end

  logic [Bytes-1:0] keep;
  for (genvar i = 0; i < Bytes; i++) begin : gen_keep
    assign keep[i] = many_q | (rest > lanes_t'(i));
  end

  always_comb begin
    read_ready_o = 1'b0;
    push         = 1'b0;
    if (!hold_i) begin
      if (!wanted_q || (drop_q != '0)) begin
        read_ready_o = 1'b1;
      end else if (use_held) begin
        push = room;
      end else begin
        read_ready_o = in_hold | room;
        push         = read_valid_i & room & ~in_hold;
      end
    end
  end

  logic taken;
  assign taken = read_valid_i & read_ready_o;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      left_n_q <= '1;
      wanted_q <= 1'b0;
      many_q <= 1'b0;
      held_q <= 1'b0;
      drop_q <= '0;
    end else if (abort_i) begin
      left_n_q <= '1;
      wanted_q <= 1'b0;
      many_q <= 1'b0;
      held_q <= 1'b0;
      drop_q <= '0;
    end else if (start_i) begin
      left_n_q <= ~do_i.b;
      wanted_q <= do_i.b != '0;
      many_q <= do_i.b[63:WordLog2+1] != '0;
      held_q <= 1'b0;
      drop_q <= do_i.a[BlockSizeLog2-1:WordLog2];
    end else begin
      if (taken && (drop_q != '0)) drop_q <= drop_q - drop_t'(1);
      if (push) begin
        left_n_q <= at_end ? '1 : left_n_q + 64'(Bytes);
        wanted_q <= ~at_end;
        many_q <= more;
      end
      if (taken && wanted_q && (drop_q == '0)) held_q <= shift_q != '0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (start_i) shift_q <= do_i.a[WordLog2-1:0];
    if (taken) held_data_q <= rotated;
  end

  // The output, which the words that the sequencer emits share.
  logic [DataWidth-1:0] emitted;
  logic                 emit_last, emit_end;
  if (DataWidth == 32) begin : gen_emit_narrow
    assign emitted  = emit_high_q ? do_i.a[63:32] : do_i.a[31:0];
    assign emit_end = emit_high_q;
  end else begin : gen_emit_wide
    assign emitted  = DataWidth'(do_i.a);
    assign emit_end = 1'b1;
  end
  assign emit_last    = do_i.imm[0] & emit_end;
  assign emit_ready_o = room & emit_end;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) emit_high_q <= 1'b0;
    else if (withdraw_i) emit_high_q <= 1'b0;
    else if (emit_i && room) emit_high_q <= ~emit_high_q & (DataWidth == 32);
  end

  // Withdrawn words are discarded in the next cycles; the application does not see them.
  logic out_valid, withdrawn_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) withdrawn_q <= 1'b0;
    else         withdrawn_q <= withdraw_i | (withdrawn_q & out_valid);
  end
  assign data_valid_o = out_valid & ~withdrawn_q;
  assign given_o      = ~out_valid & ~withdrawn_q;

  prim_fifo #(.Width(DataWidth + Bytes + 1), .Depth(4)) u_out (
    .clk_i,
    .rst_ni,
    .valid_i (push | emit_i),
    .ready_o (room),
    .data_i  (emit_i ? {emit_last, Bytes'(8'hff), emitted} : {at_end, keep, use_held ? held_data_q : merged}),
    .valid_o (out_valid),
    .ready_i (data_ready_i | withdrawn_q),
    .data_o  ({data_last_o, data_keep_o, data_o})
  );
  assign drained_o = ~wanted_q;
endmodule
