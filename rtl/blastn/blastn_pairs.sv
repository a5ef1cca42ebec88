// SPDX-License-Identifier: Apache-2.0 OR MIT
// The two-hit filter: a hit leaves if another one precedes it on its diagonal within the window, without a common base. It never drops
// a hit that has one, and it may pass some that have none; README.md has the bounds.
//
// A slot has the mark of one diagonal: a hit with which those that follow are compared. Hits that overlap the mark do not replace it,
// so the mark stands for hits of up to ten bases behind it. Between two streams all slots are emptied, one a cycle; hits wait for that.
//
// EntriesLog2    entries of the table
// DiagonalsLog2  slots
module blastn_pairs
  import blastn_pkg::*;
#(
  parameter int unsigned EntriesLog2   = 12,
  parameter int unsigned DiagonalsLog2 = 12,
  localparam int unsigned PositionWidth = EntriesLog2 + 2
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        run_ni,   // low also for a stop
  input  logic        stream_i, // low between streams
  input  logic [9:0]  window_i, // bases from the first one of a hit to that of the other; 0 passes all

  input  logic        write_i,  // the position of an entry
  input  logic [15:0] write_address_i,
  input  logic [31:0] write_data_i,

  input  logic        valid_i,
  output logic        ready_o,
  input  hit_t        hit_i,

  output logic        valid_o,
  input  logic        ready_i,
  output hit_t        hit_o,
  output logic        busy_o
);
  // Ten bases that the mark stands for; three that a hit without the mask begins earlier than with it; three by which hits of two
  // diagonals may be out of order.
  localparam logic [33:0] Slack = 34'd16;
  typedef logic [PositionWidth-1:0] position_t;
  typedef logic [DiagonalsLog2-1:0] slot_t;
  typedef struct packed {
    logic                     used;
    logic                     passed;    // the mark has left
    logic [33-DiagonalsLog2:0] diagonal;  // the highest bits; the others are the slot
    position_t                position;  // of the mark in the queries
  } mark_t;

  logic go, sweeps, streamed_q;
  logic [DiagonalsLog2:0] sweep_q;
  assign sweeps  = ~sweep_q[DiagonalsLog2];
  assign go      = (~valid_o | ready_i) & ~sweeps;
  assign ready_o = go;

  // --- The diagonal of a hit, and its slot ------------------------------------------------------------
  logic        asked_q, read_q;
  hit_t        asked_hit_q, hit_q;
  position_t   entry_position, position, position_q;
  logic [33:0] diagonal, diagonal_q;
  assign position = entry_position - position_t'(asked_hit_q.prior);
  assign diagonal = asked_hit_q.base - 34'(position);

  // --- The comparison with the mark -------------------------------------------------------------------
  mark_t       stored, forwarded_q, mark, next;
  logic [33:0] apart, reach;
  logic        forward_q, is_own, is_near, overlaps, is_unclear, pass, update;
  assign mark       = forward_q ? forwarded_q : stored;
  assign reach      = 34'(window_i) + Slack;
  assign apart      = hit_q.base - {mark.diagonal, diagonal_q[DiagonalsLog2-1:0]} - 34'(mark.position);
  assign is_own     = mark.used & (mark.diagonal == diagonal_q[33:DiagonalsLog2]);
  assign overlaps   = is_own & (apart < 34'd11);
  assign is_near    = is_own & (apart <= reach);
  assign is_unclear = mark.used & ~is_own & (apart + 34'd3 <= reach);  // it may have replaced one of this diagonal
  assign pass       = (window_i == '0) | hit_q.unchecked | is_unclear | (overlaps ? mark.passed : is_near);
  assign update     = go & read_q & ~overlaps;
  assign next       = '{used: 1'b1, passed: pass, diagonal: diagonal_q[33:DiagonalsLog2], position: position_q};
  assign busy_o     = asked_q | read_q | valid_o;

  always_ff @(posedge clk_i or negedge run_ni) begin
    if (!run_ni) begin
      {asked_q, read_q, valid_o, forward_q} <= '0;
    end else if (go) begin
      asked_q   <= valid_i;
      read_q    <= asked_q;
      valid_o   <= read_q & pass;
      forward_q <= update & (diagonal[DiagonalsLog2-1:0] == diagonal_q[DiagonalsLog2-1:0]);
    end
  end
  always_ff @(posedge clk_i) begin
    if (go) begin
      asked_hit_q <= hit_i;
      hit_q       <= asked_hit_q;
      position_q  <= position;
      diagonal_q  <= diagonal;
      hit_o       <= hit_q;
      forwarded_q <= next;
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {sweep_q, streamed_q} <= '0;
    end else begin
      streamed_q <= stream_i;
      if (streamed_q && !stream_i) sweep_q <= '0;
      else if (sweeps) sweep_q <= sweep_q + (DiagonalsLog2+1)'(1);
    end
  end

  prim_ram #(.Width(PositionWidth), .Depth(1 << EntriesLog2)) u_positions (
    .clk_i, .write_i, .write_address_i(write_address_i[EntriesLog2-1:0]), .write_data_i(write_data_i[PositionWidth-1:0]),
    .read_i(go & valid_i), .read_address_i(hit_i.entry[EntriesLog2-1:0]), .read_data_o(entry_position)
  );
  prim_ram #(.Width($bits(mark_t)), .Depth(1 << DiagonalsLog2)) u_marks (
    .clk_i, .write_i(sweeps | update), .write_address_i(sweeps ? sweep_q[DiagonalsLog2-1:0] : slot_t'(diagonal_q)),
    .write_data_i(sweeps ? '0 : next), .read_i(go & asked_q), .read_address_i(slot_t'(diagonal)), .read_data_o(stored)
  );
  logic unused;
  assign unused = ^{write_data_i, write_address_i, hit_i.entry};
endmodule
