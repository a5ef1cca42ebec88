// SPDX-License-Identifier: Apache-2.0 OR MIT
// timer_stream: each event that is taken is written once, as one record at its place, in order and whole; nothing goes beyond the
// limit; an offer to the bus stays until it is taken; the count covers exactly the records that are in memory without a
// gap, and the others that were answered are lost.
module fv_timer_stream
  import timer_pkg::*;
#(
  parameter int unsigned Width       = 64,
  parameter int unsigned Outstanding = 2
) (
  input logic       clk_i,
  input logic       rst_ni,
  input logic       enable_i,
  input logic [2:0] first_limit_i,
  input logic       valid_i,
  input event_t     event_i,
  input logic       aw_ready_i,
  input logic       w_ready_i,
  input logic       b_valid_i,
  input logic       b_bad_i,
  input logic       mark_i
);
  localparam int unsigned Words = 128 / Width;
  localparam logic [47:0] Base  = 48'h1234_5678_0ff0;

  axi_pkg::manager_t axi_o;
  axi_pkg::memory_t  axi_i;
  logic [Width-1:0]  axi_write_data_o;
  logic [31:0]       written_o;
  logic              ready_o, busy_o, failed_o, lost_o;

  assign axi_i = '{aw_ready: aw_ready_i, w_ready: w_ready_i, b_valid: b_valid_i,
                   b_resp: b_bad_i ? axi_pkg::RespSlvErr : axi_pkg::RespOkay, ar_ready: 1'b0, r_valid: 1'b0,
                   r_resp: axi_pkg::RespOkay, r_last: 1'b0};

  logic started_q, marked_q, broken_q, aw_held_q, w_held_q, event_held_q;
  logic [3:0] limit_q, taken_q, addressed_q, sent_q, answered_q, good_q, lost_q, place_q, word_q;
  logic [127:0] record_q, shown;
  axi_pkg::burst_t aw_q;
  logic [Width-1:0] data_q;
  event_t event_q;
  initial started_q = 1'b0;

  timer_stream #(.Width(Width), .Outstanding(Outstanding)) dut (
    .clear_i(1'b0), .base_i(Base), .limit_i(32'(limit_q)), .*
  );

  logic aw_goes, w_goes, ends;
  assign aw_goes = axi_o.aw_valid & aw_ready_i;
  assign w_goes  = axi_o.w_valid & w_ready_i;
  assign ends    = w_goes & axi_o.w_last;
  assign shown   = record_q >> (Width * word_q);

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      limit_q      <= 4'(first_limit_i);
      marked_q     <= 1'b0;
      broken_q     <= 1'b0;
      aw_held_q    <= 1'b0;
      w_held_q     <= 1'b0;
      event_held_q <= 1'b0;
      taken_q      <= '0;
      addressed_q  <= '0;
      sent_q       <= '0;
      answered_q   <= '0;
      good_q       <= '0;
      lost_q       <= '0;
      word_q       <= '0;
    end else begin
      // The memory answers what it has whole.
      if (b_valid_i) assume ((answered_q < addressed_q) && (answered_q < sent_q));
      // The queue keeps its head until it is taken.
      event_held_q <= valid_i & ~ready_o;
      event_q      <= event_i;
      if (event_held_q) assume (valid_i && (event_i == event_q));

      taken_q     <= taken_q + 4'(valid_i & ready_o);
      addressed_q <= addressed_q + 4'(aw_goes);
      sent_q      <= sent_q + 4'(ends);
      answered_q  <= answered_q + 4'(b_valid_i);
      lost_q      <= lost_q + 4'(lost_o);
      word_q      <= w_goes ? (axi_o.w_last ? '0 : word_q + 4'd1) : word_q;
      broken_q    <= broken_q | (b_valid_i & b_bad_i);
      good_q      <= good_q + 4'(b_valid_i & ~b_bad_i & ~broken_q);

      a_taken_once: assert ((addressed_q <= taken_q) && (sent_q <= taken_q));
      a_limit: assert (taken_q <= limit_q);
      a_flight: assert ((taken_q - answered_q <= 4'(Outstanding)) && (busy_o == (taken_q != answered_q)));
      a_written: assert (32'(good_q) == written_o);
      a_lost: assert (good_q + lost_q == answered_q);
      a_failed: assert (!broken_q || (failed_o && !ready_o));

      // AXI: an offer stays as it is until it is taken.
      aw_held_q <= axi_o.aw_valid & ~aw_ready_i;
      w_held_q  <= axi_o.w_valid & ~w_ready_i;
      aw_q      <= axi_o.aw;
      data_q    <= axi_write_data_o;
      if (aw_held_q) a_aw_stays: assert (axi_o.aw_valid && (axi_o.aw == aw_q));
      if (w_held_q) a_w_stays: assert (axi_o.w_valid && (axi_write_data_o == data_q));
      if (axi_o.w_valid) a_last: assert (axi_o.w_last == (word_q == 4'(Words - 1)));

      // An event, anyone: its record has its place, and its words.
      if (!marked_q && mark_i && valid_i && ready_o) begin
        marked_q <= 1'b1;
        place_q  <= taken_q;
        record_q <= {30'd0, 1'b1, event_i.is_line, event_i.tag, event_i.at};
      end
      if (marked_q && aw_goes && (addressed_q == place_q)) begin
        a_place: assert (axi_o.aw.address == Base + 48'({place_q, 4'd0}));
        a_shape: assert ((axi_o.aw.len == 8'(Words - 1)) && (axi_o.aw.size == 3'($clog2(Width / 8))));
      end
      if (marked_q && w_goes && (sent_q == place_q)) a_words: assert (axi_write_data_o == shown[Width-1:0]);
    end
  end
endmodule
