// SPDX-License-Identifier: Apache-2.0 OR MIT
// raid_split, three disks (so that it divides): the pieces of any request cover its blocks once, in
// order, each on the right disk at the right address, within one stripe (reads: one slot), and no shorter than
// necessary; and the module never hangs.
module fv_split
  import block_pkg::*;
  import raid_pkg::*;
#(
  parameter int unsigned Disks        = 3,
  parameter int unsigned StripeBlocks = 4,
  parameter int unsigned SlotBlocks   = 2,
  parameter int unsigned LbaBits      = 7
) (
  input logic clk_i,
  input logic rst_ni,
  input logic valid_i,
  input req_t req_i,
  input logic ready_i
);
  logic ready, valid, last;
  piece_t piece;
  logic [1:0] disk;
  tag_t tag;

  raid_split #(
    .Disks(Disks), .StripeBlocks(StripeBlocks), .SlotBlocks(SlotBlocks), .LbaBits(LbaBits)
  ) dut (
    .clk_i, .rst_ni, .valid_i, .ready_o(ready), .req_i, .valid_o(valid), .ready_i, .piece_o(piece),
    .disk_o(disk), .tag_o(tag), .last_o(last)
  );

  // The rest of the current request.
  logic   busy_q, started_q;
  req_t   req_q;
  logic [LbaBits:0] lba_q, left_q;
  logic [3:0] still_q;
  initial started_q = 1'b0;

  // Divisions by constants, as narrow as the array's addresses: a solver takes long for others.
  typedef logic [LbaBits:0] array_t;
  logic [63:0] room, offset;
  assign room   = (req_q.op == OpRead) ? 64'(SlotBlocks) : 64'(StripeBlocks);
  assign offset = 64'((req_q.op == OpRead) ? piece.lba % SlotBlocks : piece.lba % StripeBlocks);
  array_t stripe, row;
  assign stripe = lba_q / StripeBlocks;
  assign row    = stripe / array_t'(Disks);

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      busy_q  <= 1'b0;
      still_q <= '0;
    end else begin
      a_one: assert (ready == !busy_q);
      if (valid_i) begin
        assume ((req_i.op == OpFlush) ? (req_i.count == '0) :
                ((req_i.count != '0) && (req_i.count <= count_t'(6)) &&
                 (64'(req_i.lba) + 64'(req_i.count) <= 64'(1 << LbaBits))));
      end
      if (valid_i && ready) begin
        busy_q <= 1'b1;
        req_q  <= req_i;
        lba_q  <= (LbaBits + 1)'(req_i.lba);
        left_q <= (LbaBits + 1)'(req_i.count);
      end
      still_q <= (busy_q && !valid) ? still_q + 4'd1 : '0;
      a_bounded: assert (still_q <= 4'((LbaBits + 3) / 4));
      if (valid) begin
        a_busy: assert (busy_q);
        a_same: assert ((tag == req_q.tag) && (piece.op == req_q.op) && (piece.fua == req_q.fua));
        if (req_q.op == OpFlush) a_flush: assert (last);
        else begin
          a_disk: assert (array_t'(disk) == stripe % array_t'(Disks));
          a_lba:  assert (64'(piece.lba) == 64'(row) * StripeBlocks + 64'(lba_q) % StripeBlocks);
          a_some: assert ((piece.count != '0) && (piece.count <= count_t'(left_q)));
          a_slot: assert (offset + 64'(piece.count) <= room);
          a_long: assert (last || (offset + 64'(piece.count) == room));
          a_last: assert (last == (piece.count == count_t'(left_q)));
        end
        if (ready_i) begin
          busy_q <= ~last;
          lba_q  <= lba_q + (LbaBits + 1)'(piece.count);
          left_q <= left_q - (LbaBits + 1)'(piece.count);
        end
      end
    end
  end
endmodule
