// SPDX-License-Identifier: Apache-2.0 OR MIT
// blastn_mask: for any list, written at any time, a word that is shown as checked has the bases masked that the list says, another
// has none; words are checked without a gap as long as their entries are written four cycles before they come, and again when the
// stream has waited for a list that was late.
//
// The proof follows one arbitrary word of the stream.
module fv_blastn_mask (
  input logic        clk_i,
  input logic        rst_ni,
  input logic        write_i,
  input logic [31:0] write_data_i,
  input logic        step_i,
  input logic [2:0]  any_i
);
  localparam int unsigned MaskLog2 = 1;
  localparam int unsigned Ready = 4;  // cycles from a write until the entry is at work
  logic [MaskLog2:0] room_o;
  logic [15:0]       masked_o;
  logic              checked_o;

  blastn_mask #(.MaskLog2(MaskLog2)) dut (.*);

  logic             started_q, ended_q, rest_q, known_q, in_time_q;
  logic [2:0]       mark_q, at_q, quiet_q;
  logic [3:0]       written_q;  // the word after that of the last entry
  logic [15:0]      truth_q;
  logic [3:0]       reach_q [Ready];  // words that the list reached some cycles ago
  logic [3:0]       next, reach;
  logic             is_end, decides;
  initial started_q = 1'b0;
  assign is_end  = write_data_i[31:17] == '0;
  assign next    = written_q + 4'(write_data_i[19:17]);
  assign decides = write_i & ~known_q & (is_end | (next > 4'(mark_q)));
  assign reach   = (ended_q | (write_i & is_end)) ? 4'hf : write_i ? next : written_q;

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      mark_q    <= any_i;
      in_time_q <= 1'b1;
      {ended_q, rest_q, known_q, at_q, quiet_q, written_q, truth_q} <= '0;
      for (int unsigned at = 0; at < Ready; at++) reach_q[at] <= '0;
    end else begin
      // The stream and its list have at most seven words; nothing is written behind the end, or without room.
      assume (!write_i || (room_o != '0 && !ended_q));
      assume (!write_i || (write_data_i[31:20] == '0 && next < 4'd8));
      assume (!step_i || (at_q != 3'd7));
      if (write_i) begin
        if (is_end) ended_q <= 1'b1;
        else {written_q, rest_q} <= {next, write_data_i[16]};
      end
      if (decides) begin
        known_q <= 1'b1;
        truth_q <= (!is_end && next == 4'(mark_q) + 4'd1) ? write_data_i[15:0] : {16{rest_q}};
      end
      reach_q[0] <= reach;
      for (int unsigned at = 1; at < Ready; at++) reach_q[at] <= reach_q[at-1];
      if (step_i) begin
        at_q <= at_q + 3'd1;
        if (4'(at_q) >= reach_q[Ready-1]) in_time_q <= 1'b0;
        if (!checked_o) a_none: assert (masked_o == '0);
        if (at_q == mark_q && checked_o) a_exact: assert (known_q && masked_o == truth_q);
        if (in_time_q && 4'(at_q) < reach_q[Ready-1]) a_in_time: assert (checked_o);
      end
      quiet_q <= (write_i | step_i) ? '0 : quiet_q + 3'(quiet_q != '1);
      if (ended_q && (quiet_q >= 3'd6)) a_again: assert (checked_o);
      // What is dropped has been passed: the list is never ahead of the stream.
      a_past: assert (dut.past_q <= 31'(at_q) + 31'd1);
    end
  end
endmodule
