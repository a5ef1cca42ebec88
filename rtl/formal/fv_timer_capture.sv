// SPDX-License-Identifier: Apache-2.0 OR MIT
// timer_capture: every event that is recorded leaves once or is counted as missed; events leave in the order of their time, with
// the time of their cycle and their tag; none is missed below the stated rate.
module fv_timer_capture
  import timer_pkg::*;
#(
  parameter int unsigned Lines  = 2,
  parameter int unsigned Groups = 2
) (
  input logic             clk_i,
  input logic             rst_ni,
  input logic             record_i,
  input logic             event_i,
  input logic [31:0]      tag_i,
  input logic [Lines-1:0] rises_i,
  input logic             mark_i,
  input logic             is_slow_i
);
  time_t       now_o;
  logic        valid_o;
  event_t      event_o;
  logic [31:0] missed_o;

  timer_capture #(.Lines(Lines), .Groups(Groups)) dut (.clear_i(1'b0), .*);

  logic started_q, marked_q, seen_q, is_slow_q, on_q;
  logic [7:0]  came_q, left_q, missed_q, ahead_q;
  logic [2:0]  pause_q;  // cycles without events that are still owed
  logic [31:0] tag_q;
  time_t       at_q, last_q;
  logic [2:0]  number;

  initial started_q = 1'b0;
  assign number = (record_i & on_q) ? 3'(event_i) + 3'(rises_i[0]) + 3'(rises_i[1]) : 3'd0;

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      marked_q  <= 1'b0;
      seen_q    <= 1'b0;
      on_q      <= 1'b0;
      is_slow_q <= is_slow_i;
      came_q    <= '0;
      left_q    <= '0;
      missed_q  <= '0;
      pause_q   <= '0;
      last_q    <= '0;
    end else begin
      on_q <= 1'b1;  // the cycle after the reset records nothing
      if (is_slow_q && (pause_q != '0)) assume (number == 3'd0);
      pause_q  <= (number > 3'd1) ? number - 3'd1 : (pause_q != '0) ? pause_q - 3'd1 : '0;
      came_q   <= came_q + 8'(number);
      left_q   <= left_q + 8'(valid_o);
      missed_q <= missed_q + missed_o[7:0];
      seen_q   <= seen_q | valid_o;
      if (valid_o) last_q <= event_o.at;

      // Each is accounted for: none leaves that did not come, and none waits longer than those before it.
      a_accounted: assert (left_q + missed_q <= came_q);
      a_nothing_invented: assert (!valid_o || (left_q + missed_q < came_q));
      a_all_leave: assert (valid_o || (left_q + missed_q == came_q));
      if (is_slow_q) a_none_missed: assert (missed_o == '0);
      if (valid_o) begin
        a_past: assert (event_o.at < now_o);
        if (seen_q) a_monotonic: assert (event_o.at >= last_q);
        if (event_o.is_line) a_line: assert (event_o.tag < Lines);
      end
      // A software event, anyone: it has the time of its cycle, its tag, and its place.
      if (!marked_q && mark_i && event_i && record_i && on_q && (missed_o == '0)) begin
        marked_q <= 1'b1;
        tag_q    <= tag_i;
        at_q     <= now_o;
        ahead_q  <= came_q - missed_q - left_q - 8'(valid_o);
      end else if (marked_q && valid_o) begin
        ahead_q <= ahead_q - 8'd1;
        if (ahead_q == '0) a_event: assert (!event_o.is_line && (event_o.tag == tag_q) && (event_o.at == at_q));
      end
    end
  end
endmodule
