// SPDX-License-Identifier: Apache-2.0 OR MIT
// Splits each request into pieces: a piece lies on one disk, in one stripe, and a piece of a read also fits into one slot.
// Computes the disk and the address on it: stripe s of the array is stripe s / Disks of disk s mod Disks.
//
// Owns one request at a time. If the number of disks is not a power of two, a division takes one
// cycle for four bits of the address, except for a request that continues where the previous one
// ended. Mirrors (Disks 1 here) keep the address.
//
// Disks         number of disks, 1 to 8
// StripeBlocks  blocks in a stripe, a power of two: the longest piece
// SlotBlocks    the longest piece of a read, a power of two, at most StripeBlocks
// LbaBits       bits of the array's block addresses
module raid_split
  import block_pkg::*;
  import raid_pkg::*;
#(
  parameter int unsigned Disks        = 2,
  parameter int unsigned StripeBlocks = 8,
  parameter int unsigned SlotBlocks   = 8,
  parameter int unsigned LbaBits      = 40,
  localparam int unsigned DiskWidth   = (Disks > 1) ? $clog2(Disks) : 1
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  input  logic                 valid_i,
  output logic                 ready_o,
  input  req_t                 req_i,

  output logic                 valid_o,
  input  logic                 ready_i,
  output piece_t               piece_o,
  output logic [DiskWidth-1:0] disk_o,
  output tag_t                 tag_o,
  output logic                 last_o   // the request's last piece
);
  localparam int unsigned StripeLog2 = $clog2(StripeBlocks);
  localparam int unsigned SlotLog2   = $clog2(SlotBlocks);
  localparam bit          Divides    = (Disks & (Disks - 1)) != 0;
  localparam int unsigned NumberBits = LbaBits - StripeLog2;
  localparam int unsigned Steps      = (NumberBits + 3) / 4;
  localparam int unsigned StepWidth  = $clog2(Steps + 1);
  typedef logic [DiskWidth-1:0] disk_t;
  typedef logic [LbaBits:0]     array_t;  // a bit more, for the end of the largest array
  typedef logic [Steps*4-1:0]   number_t;

  typedef enum logic [1:0] {Idle, Divide, Pieces} state_e;

  state_e  state_q, state_d;
  req_t    req_q, req_d;
  array_t  lba_q, lba_d;    // of the next piece; after a request, the address that would continue it
  disk_t   disk_q, disk_d;
  number_t row_q, row_d;    // the stripe on the disk
  logic [StepWidth-1:0] step_q, step_d;

  // Four steps of long division: the remainder in disk_q, the quotient comes into row_q from below.
  disk_t   divided_disk;
  number_t divided_row;
  always_comb begin
    logic [DiskWidth:0] remainder;
    divided_disk = disk_q;
    divided_row  = row_q;
    for (int unsigned i = 0; i < 4; i++) begin
      remainder   = {divided_disk, divided_row[$bits(number_t)-1]};
      divided_row = divided_row << 1;
      if (remainder >= (DiskWidth + 1)'(Disks)) begin
        remainder      = remainder - (DiskWidth + 1)'(Disks);
        divided_row[0] = 1'b1;
      end
      divided_disk = disk_t'(remainder);
    end
  end

  // The piece: to the end of the slot or stripe, or of the request.
  count_t room, count;
  array_t lba_next;
  logic   ranged, ends_stripe;
  count_t slot_room, stripe_room;
  if (SlotLog2 == 0) begin : gen_one
    assign slot_room = count_t'(1);
  end else begin : gen_more
    assign slot_room = count_t'(SlotBlocks) - count_t'(lba_q[SlotLog2-1:0]);
  end
  if (StripeLog2 == 0) begin : gen_one_block
    assign stripe_room = count_t'(1);
  end else begin : gen_more_blocks
    assign stripe_room = count_t'(StripeBlocks) - count_t'(lba_q[StripeLog2-1:0]);
  end
  // Only reads wait in slots; other pieces pass through.
  assign room        = (req_q.op == OpRead) ? slot_room : stripe_room;
  assign ranged      = req_q.op != OpFlush;
  assign last_o      = req_q.count <= room;
  assign count       = last_o ? req_q.count : room;
  assign lba_next    = lba_q + array_t'(count);
  assign ends_stripe = lba_next[StripeLog2] != lba_q[StripeLog2];

  assign valid_o = state_q == Pieces;
  assign ready_o = state_q == Idle;
  assign disk_o  = disk_q;
  assign tag_o   = req_q.tag;

  lba_t disk_lba;
  if (StripeLog2 == 0) begin : gen_row
    assign disk_lba = lba_t'(row_q);
  end else begin : gen_row_offset
    assign disk_lba = lba_t'({row_q, lba_q[StripeLog2-1:0]});
  end
  assign piece_o = '{op: req_q.op, fua: req_q.fua, lba: ranged ? disk_lba : '0, count: count};

  always_comb begin
    state_d = state_q;
    req_d   = req_q;
    lba_d   = lba_q;
    disk_d  = disk_q;
    row_d   = row_q;
    step_d  = step_q;
    unique case (state_q)
      Idle: if (valid_i) begin
        req_d   = req_i;
        state_d = Pieces;
        if ((req_i.op != OpFlush) && (array_t'(req_i.lba) != lba_q)) begin
          lba_d = array_t'(req_i.lba);
          row_d = number_t'(req_i.lba[LbaBits-1:StripeLog2]);
          if (Divides) begin
            disk_d  = '0;
            step_d  = StepWidth'(Steps);
            state_d = Divide;
          end else if (Disks > 1) begin
            disk_d = disk_t'(row_d);
            row_d  = row_d >> DiskWidth;
          end
        end
      end
      Divide: begin
        disk_d = divided_disk;
        row_d  = divided_row;
        step_d = step_q - StepWidth'(1);
        if (step_q == StepWidth'(1)) state_d = Pieces;
      end
      Pieces: if (ready_i) begin
        if (ranged) begin
          lba_d       = lba_next;
          req_d.count = req_q.count - count;
          if (ends_stripe) begin
            disk_d = (disk_q == disk_t'(Disks - 1)) ? '0 : disk_q + disk_t'(1);
            if (disk_q == disk_t'(Disks - 1)) row_d = row_q + number_t'(1);
          end
        end
        if (last_o) state_d = Idle;
      end
      default: state_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      lba_q   <= '0;
      disk_q  <= '0;
      row_q   <= '0;
    end else begin
      state_q <= state_d;
      lba_q   <= lba_d;
      disk_q  <= disk_d;
      row_q   <= row_d;
    end
  end

  always_ff @(posedge clk_i) begin
    req_q  <= req_d;
    step_q <= step_d;
  end
endmodule
