// SPDX-License-Identifier: Apache-2.0 OR MIT
// Stamps what happens in a cycle with that cycle's time, and gives it out as one event per cycle, in order.
//
// Everything of one cycle (an event of software, and each line that has risen) is a group. Groups wait in a short queue, so
// several things may happen in one cycle. A group that finds the queue full is lost and counted, whole. Owns the order: events
// leave by their time, in a group software first, then the lines by their number. An event never waits for anything but
// those before it.
//
// Nothing is lost if a cycle with K events is followed by K - 1 cycles without, on average over any `Groups` - 1 groups.
//
// Lines   number of lines, in this clock domain
// Groups  cycles with events that may wait
module timer_capture
  import timer_pkg::*;
#(
  parameter int unsigned Lines  = 4,
  parameter int unsigned Groups = 8
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic             clear_i,   // drops what waits; the time continues
  input  logic             record_i,
  input  logic             event_i,
  input  logic [31:0]      tag_i,
  input  logic [Lines-1:0] rises_i,

  output time_t            now_o,
  output logic             valid_o,
  output event_t           event_o,
  output logic [31:0]      missed_o   // events that are lost in this cycle
);
  typedef logic [Lines:0] mask_t;  // bit 0: software
  typedef struct packed {
    mask_t       mask;
    logic [31:0] tag;
    time_t       at;
  } group_t;

  time_t  now_q;
  group_t arrived, head;
  mask_t  done_q, left, first;
  logic   push, room, waits, ends, clear_q;

  function automatic logic [31:0] ones(mask_t mask);
    ones = '0;
    for (int unsigned bit_ = 0; bit_ <= Lines; bit_++) ones += 32'(mask[bit_]);
  endfunction

  assign now_o    = now_q;
  assign arrived  = '{mask: {rises_i, event_i}, tag: tag_i, at: now_q};
  assign push     = record_i & ~clear_q & (arrived.mask != '0);
  assign missed_o = (push & ~room) ? ones(arrived.mask) : '0;

  // The queue begins again one cycle after a clear, and nothing is recorded in that cycle.
  prim_fifo #(.Width($bits(group_t)), .Depth(Groups)) u_groups (
    .clk_i, .rst_ni(rst_ni & ~clear_q), .valid_i(push), .ready_o(room), .data_i(arrived),
    .valid_o(waits), .ready_i(ends), .data_o(head)
  );

  assign left    = head.mask & ~done_q;
  assign first   = left & (~left + mask_t'(1));
  assign valid_o = waits & ~clear_q;
  assign ends    = left == first;

  always_comb begin
    event_o = '{is_line: ~first[0], tag: head.tag, at: head.at};
    if (!first[0]) begin
      event_o.tag = '0;
      for (int unsigned line = 0; line < Lines; line++) if (first[line + 1]) event_o.tag = 32'(line);
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      now_q   <= '0;
      done_q  <= '0;
      clear_q <= 1'b1;
    end else begin
      now_q   <= now_q + time_t'(1);
      clear_q <= clear_i;
      if (clear_q | (waits & ends)) done_q <= '0;
      else if (waits)               done_q <= done_q | first;
    end
  end
endmodule
