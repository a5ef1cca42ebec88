// SPDX-License-Identifier: Apache-2.0 OR MIT
// smmu_window, with any masters, answers, walks and memory: one read, whichever it is, is offered as it came, never before an
// earlier one with its identifier, carries a walk's failure only if its own walk failed, names its frame as in use until its
// last word, goes to its frame once, a fixed one as that many single beats, and gets exactly its words.
module fv_smmu_window
  import smmu_pkg::*;
(
  input logic       clk_i,
  input logic       rst_ni,
  input master_t    window_i,
  input axi_pkg::memory_t data_i,
  input logic       take_i,
  input logic [1:0] answer_i,
  input frame_t     frame_i,
  input logic       asked_i,
  input logic       walked_i,
  input logic       failed_i,
  input logic       event_i,
  input logic       watch_i,
  input frame_t     user_i
);
  window_t window;
  axi_pkg::manager_t data;
  access_t access, taken_q;
  answer_e answer;
  logic    valid, have_q, take, reads, job_q, started_q, ends;
  logic [1:0] ar_burst;
  slot_t   job_slot_q;
  initial started_q = 1'b0;

  assign take   = valid & ~have_q & take_i;
  assign answer = have_q ? answer_e'(answer_i) : AnswerNone;
  assign ends   = job_q & walked_i;

  smmu_window #(.DataWidth(32)) dut (
    .clk_i, .rst_ni, .frames_i('0), .window_i, .write_data_i('0), .write_strobe_i('0), .window_o(window), .read_data_o(),
    .data_o(data), .data_aw_burst_o(), .data_ar_burst_o(ar_burst), .data_write_o(), .data_strobe_o(), .data_i, .data_read_i('0), .some_o(), .valid_o(valid), .access_o(access),
    .take_i(take), .answer_i(answer), .answered_i(taken_q), .frame_i, .bind_i(1'b0), .asked_i(asked_i & ~job_q),
    .walked_i(ends), .bound_i(1'b0), .failed_i(ends & failed_i), .walked_slot_i(job_slot_q), .walked_frame_i('0),
    .walked_reason_i(ReasonTable), .event_i, .user_i, .waits_o(), .reads_o(reads), .writes_o(), .idle_o()
  );

  // The watched read.
  logic       watched_q, waits_q, flies_q, refused_q, failed_q;
  slot_t      slot_q;
  id_t        id_q;
  burst_t     burst_q;
  frame_t     frame_q;
  logic [3:0] ring_q, before_q;   // bursts under way; those before it
  logic [7:0] words_q;
  logic [ReadSlots-1:0] older_q;  // earlier reads with its identifier
  logic       sent_q, later_q;    // its addresses are offered; a later read was settled
  logic [7:0] left_q;             // addresses that follow
  logic       accept, settle, watched_settles, word, last, fixed;
  assign fixed = burst_q.burst == BurstFixed;
  assign accept = window_i.ar_valid & window.ar_ready;
  assign settle = ((answer == AnswerGo) | (answer == AnswerRefuse)) & ~taken_q.write;
  assign watched_settles = settle & waits_q & (taken_q.slot == slot_q);
  assign word   = window.r_valid & window_i.r_ready;
  assign last   = word & window.r_last;

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      {have_q, job_q, watched_q, waits_q, flies_q, ring_q, sent_q} <= '0;
    end else begin
      // Nothing else is served (fv_smmu_burst).
      assume ((answer != AnswerGo) || (taken_q.burst.burst != BurstFixed) || (taken_q.burst.len <= 8'd15));
      if (take) {have_q, taken_q} <= {1'b1, access};
      if (have_q) have_q <= 1'b0;
      if ((answer == AnswerWait) && asked_i && !job_q) {job_q, job_slot_q} <= {1'b1, taken_q.slot};
      else if (ends) job_q <= 1'b0;
      ring_q <= ring_q + 4'(settle) - 4'(last);

      if (accept && watch_i && !watched_q) begin
        {watched_q, waits_q, failed_q} <= 3'b110;
        slot_q  <= dut.free;
        id_q    <= window_i.ar_id;
        burst_q <= window_i.ar;
        older_q <= dut.same;
      end
      if (waits_q) begin
        if (settle) older_q[taken_q.slot[1:0]] <= 1'b0;
        if (ends && failed_i && (job_slot_q == slot_q)) failed_q <= 1'b1;
        if (take && (access.slot == slot_q)) begin
          a_same:  assert (!access.write && (access.burst == burst_q));
          a_own:   assert ((access.failed == ReasonNone) == !failed_q);
          a_order: assert (older_q == '0);
        end
      end
      if (watched_settles) begin
        {waits_q, flies_q} <= 2'b01;
        frame_q   <= frame_i;
        refused_q <= answer == AnswerRefuse;
        before_q  <= ring_q - 4'(last);
        words_q   <= '0;
        sent_q    <= answer == AnswerGo;
        left_q    <= fixed ? burst_q.len : '0;
        later_q   <= 1'b0;
      end
      if (flies_q && settle) later_q <= 1'b1;
      if (sent_q) begin
        a_sent: assert (data.ar_valid && (data.ar.address == {24'd0, frame_q, burst_q.address[11:0] & ~beat_mask(burst_q.size)}) &&
                        (data.ar.len == (fixed ? 8'd0 : burst_q.len)) && (data.ar.size == burst_q.size) &&
                        (ar_burst == (fixed ? BurstIncr : burst_q.burst)));
        if (data_i.ar_ready) begin
          sent_q <= left_q != '0;
          left_q <= left_q - 8'd1;
        end
      end
      if (flies_q && !sent_q && !later_q) a_once: assert (!data.ar_valid);
      if (flies_q) begin
        a_used: assert (refused_q || ($past(user_i) != frame_q) || reads);
        if (last && (before_q != '0)) before_q <= before_q - 4'd1;
        if (word && (before_q == '0)) begin
          words_q <= words_q + 8'd1;
          a_id:    assert (window.r_id == id_q);
          a_error: assert (!refused_q || (window.r_resp == axi_pkg::RespSlvErr));
          a_last:  assert (window.r_last == (words_q == burst_q.len));
          if (last) flies_q <= 1'b0;
        end
      end
    end
  end
endmodule
