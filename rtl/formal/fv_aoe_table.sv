// SPDX-License-Identifier: Apache-2.0 OR MIT
// aoe_table: whichever answers arrive, with whichever tags: no tag is sent twice; an entry accepts one answer at most, to a frame that was
// sent in its present use; each entry ends once, in order, with that answer or without any, within a bound; a write ends only when all
// its copies were answered or a frame's lifetime has passed; and nothing ends while its frame is leaving.
module fv_aoe_table #(
  parameter int unsigned LifeTicks = 2
) (
  input logic        clk_i,
  input logic        rst_ni,
  input logic        rise_i,
  input logic [1:0]  limit_i,
  input logic        take_i,
  input logic        take_settles_i,
  input logic        filled_i,
  input logic        send_ready_i,
  input logic        leaves_i,
  input logic        answer_i,
  input logic [31:0] answer_tag_i,
  input logic        retire_i,
  input logic [31:0] mark_i
);
  localparam int unsigned Slots = 2, Tries = 2, TickLog2 = 1, RetryTicks = 1, Bound = 25;

  logic lost, free, take_slot, send_valid, send_slot, accept, empty, done, gone, done_slot, take, filled, sent, retire;
  logic [31:0] send_tag;
  logic up_q, filling_q, fill_slot_q, sending_q, sending_slot_q;
  logic [1:0] limit_q;

  assign take   = take_i & free & ~filling_q;
  assign filled = filled_i & (filling_q | take);
  assign sent   = send_valid & send_ready_i & ~sending_q;
  assign retire = retire_i & done;

  aoe_table #(.Slots(Slots), .Tries(Tries), .TickLog2(TickLog2), .RetryTicks(RetryTicks), .LifeTicks(LifeTicks)) dut (
    .clk_i, .rst_ni, .tick_o(), .up_i(up_q), .limit_i(limit_q), .lost_o(lost), .free_o(free), .take_i(take),
    .take_settles_i, .take_slot_o(take_slot), .filled_i(filled), .filled_slot_i(filling_q ? fill_slot_q : take_slot),
    .send_valid_o(send_valid), .send_ready_i(send_ready_i & ~sending_q), .send_slot_o(send_slot), .send_tag_o(send_tag),
    .sending_i(sending_q), .sending_slot_i(sending_slot_q), .look_tag_i(answer_tag_i), .look_o(), .answer_i, .answer_tag_i,
    .accept_o(accept), .empty_o(empty), .done_o(done), .gone_o(gone), .done_slot_o(done_slot), .retire_i(retire)
  );

  // The proof follows one arbitrary tag, and its entry.
  logic [31:0] mark_q, tag_q [Tries];
  logic slot, attempt, started_q, sent_q, taken_q, ready_q, settles_q, accepted_q, next_q;
  logic [Tries-1:0] copies_q, answered_q;
  logic [7:0] age_q, waits_q;
  initial started_q = 1'b0;
  assign slot    = mark_q[0];
  assign attempt = answer_tag_i[1];

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      mark_q    <= mark_i;
      limit_q   <= limit_i;
      up_q      <= 1'b0;
      filling_q <= 1'b0;
      sending_q <= 1'b0;
      sent_q    <= 1'b0;
      taken_q   <= 1'b0;
      next_q    <= 1'b0;
      waits_q   <= '0;
    end else begin
      assume (limit_q == 2'd2);
      // Up again only when nothing is left.
      if (lost) up_q <= 1'b0;
      else if (rise_i && empty && !filling_q && !sending_q) up_q <= 1'b1;
      if (filled)    filling_q <= 1'b0;
      else if (take) filling_q <= 1'b1;
      if (take) fill_slot_q <= take_slot;
      if (sent) begin
        sending_q      <= 1'b1;
        sending_slot_q <= send_slot;
      end else if (leaves_i) begin
        sending_q <= 1'b0;
      end

      if (sent && (send_tag == mark_q)) begin
        a_once: assert (!sent_q);
        sent_q <= 1'b1;
      end

      if (sent && (send_slot == slot)) begin
        a_filled: assert (taken_q && ready_q);
        copies_q[send_tag[1]] <= 1'b1;
        tag_q[send_tag[1]]    <= send_tag;
      end
      if (answer_i && (answer_tag_i[0] == slot) && copies_q[attempt] && (answer_tag_i == tag_q[attempt])) answered_q[attempt] <= 1'b1;
      if (accept && (answer_tag_i[0] == slot)) begin
        a_one_answer: assert (taken_q && !accepted_q);
        a_its_own: assert (copies_q[attempt] && (answer_tag_i == tag_q[attempt]));
        accepted_q <= 1'b1;
        age_q      <= '0;
      end else if (age_q != '1) begin
        age_q <= age_q + 8'd1;
      end
      if (done) a_order: assert (done_slot == next_q);
      if (retire) next_q <= ~next_q;
      if (done && (done_slot == slot)) begin
        a_under_way: assert (taken_q && ready_q);
        a_answered: assert (accepted_q != gone);
        a_not_leaving: assert (!(up_q && sending_q && (sending_slot_q == slot)));
        if (settles_q && accepted_q) a_settled: assert (((copies_q & ~answered_q) == '0) || (age_q >= 8'(LifeTicks << TickLog2)));
      end
      // As long as those who end are retired, and a frame leaves in two cycles.
      waits_q <= (taken_q && ready_q && leaves_i && retire_i && send_ready_i && !(retire && (done_slot == slot))) ? waits_q + 8'd1 : '0;
      a_bounded: assert (waits_q < 8'(Bound));
      if (retire && (done_slot == slot)) taken_q <= 1'b0;
      if (filled && ((filling_q ? fill_slot_q : take_slot) == slot)) ready_q <= 1'b1;
      if (take && (take_slot == slot)) begin
        taken_q    <= 1'b1;
        ready_q    <= filled;
        settles_q  <= take_settles_i;
        accepted_q <= 1'b0;
        copies_q   <= '0;
        answered_q <= '0;
      end
    end
  end
endmodule
