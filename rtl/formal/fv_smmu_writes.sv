// SPDX-License-Identifier: Apache-2.0 OR MIT
// smmu_window's writes, with any masters, answers and memory: one write, whichever it is, is offered as it came, goes to its own
// frame once, a fixed one as that many single beats, and takes exactly its data and their answers; a refused one's data and answer
// never touch the memory; its frame is in use until its answer.
module fv_smmu_writes
  import smmu_pkg::*;
(
  input logic       clk_i,
  input logic       rst_ni,
  input master_t    window_i,
  input axi_pkg::memory_t data_i,
  input logic       take_i,
  input logic [1:0] answer_i,
  input frame_t     frame_i,
  input logic       watch_i,
  input frame_t     user_i
);
  window_t window;
  axi_pkg::manager_t data;
  access_t access, taken_q;
  answer_e answer;
  logic    valid, have_q, take, writes, started_q;
  logic [1:0] aw_burst;
  initial started_q = 1'b0;

  assign take   = valid & ~have_q & take_i;
  assign answer = have_q ? answer_e'(answer_i) : AnswerNone;

  smmu_window #(.DataWidth(32)) dut (
    .clk_i, .rst_ni, .frames_i('0), .window_i, .write_data_i('0), .write_strobe_i('0), .window_o(window), .read_data_o(),
    .data_o(data), .data_aw_burst_o(aw_burst), .data_ar_burst_o(), .data_write_o(), .data_strobe_o(), .data_i,
    .data_read_i('0), .some_o(), .valid_o(valid), .access_o(access), .take_i(take), .answer_i(answer), .answered_i(taken_q), .frame_i,
    .bind_i(1'b0), .asked_i(1'b0), .walked_i(1'b0), .bound_i(1'b0), .failed_i(1'b0), .walked_slot_i('0),
    .walked_frame_i('0), .walked_reason_i(ReasonNone), .event_i(1'b1), .user_i, .waits_o(), .reads_o(), .writes_o(writes),
    .idle_o()
  );

  // The watched write: it waits, then it is under way behind `before` writes that still take data and answers.
  logic       watched_q, waits_q, flies_q, refused_q, sent_q, moved_q;
  id_t        id_q;
  burst_t     burst_q;
  frame_t     frame_q;
  logic [3:0] data_ring_q, answer_ring_q, data_before_q, answers_before_q;
  logic [7:0] left_q, answers_q;  // addresses that follow the first; answers of the memory
  logic       later_q;            // a later write was settled
  axi_pkg::resp_e bad_q;
  logic       settle, mine, word, last, answered, fixed;
  assign fixed    = burst_q.burst == BurstFixed;
  assign settle   = ((answer == AnswerGo) | (answer == AnswerRefuse)) & taken_q.write;
  assign mine     = settle & waits_q;
  assign word     = window_i.w_valid & window.w_ready;
  assign last     = word & window_i.w_last;
  assign answered = window.b_valid & window_i.b_ready;

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      {have_q, watched_q, waits_q, flies_q, sent_q, data_ring_q, answer_ring_q} <= '0;
    end else begin
      if (take) {have_q, taken_q} <= {1'b1, access};
      if (have_q) have_q <= 1'b0;
      // Nothing else is served (fv_smmu_burst).
      assume ((answer != AnswerGo) || (taken_q.burst.burst != BurstFixed) || (taken_q.burst.len <= 8'd15));
      data_ring_q   <= data_ring_q + 4'(settle) - 4'(last);
      answer_ring_q <= answer_ring_q + 4'(settle) - 4'(answered);

      if (window_i.aw_valid && window.aw_ready && watch_i && !watched_q) begin
        {watched_q, waits_q} <= 2'b11;
        id_q    <= window_i.aw_id;
        burst_q <= window_i.aw;
      end
      if (waits_q && take && access.write) a_same: assert (access.burst == burst_q);
      if (mine) begin
        {waits_q, flies_q, moved_q, sent_q} <= {3'b010, answer == AnswerGo};
        frame_q          <= frame_i;
        refused_q        <= answer == AnswerRefuse;
        data_before_q    <= data_ring_q - 4'(last);
        answers_before_q <= answer_ring_q - 4'(answered);
        left_q           <= fixed ? burst_q.len : '0;
        {answers_q, later_q, bad_q} <= '0;
      end
      if (flies_q && settle) later_q <= 1'b1;
      // Its address goes to the memory next, if it was not refused.
      if (sent_q) begin
        a_sent: assert (data.aw_valid && (data.aw.address == {24'd0, frame_q, burst_q.address[11:0] & ~beat_mask(burst_q.size)}) &&
                        (data.aw.len == (fixed ? 8'd0 : burst_q.len)) && (data.aw.size == burst_q.size) &&
                        (aw_burst == (fixed ? BurstIncr : burst_q.burst)));
        if (data_i.aw_ready) begin
          sent_q <= left_q != '0;
          left_q <= left_q - 8'd1;
        end
      end
      if (flies_q && !sent_q && !later_q) a_once: assert (!data.aw_valid);
      if (flies_q) begin
        a_used: assert (refused_q || ($past(user_i) != frame_q) || writes);
        if (last && (data_before_q != '0)) data_before_q <= data_before_q - 4'd1;
        if (answered && (answers_before_q != '0)) answers_before_q <= answers_before_q - 4'd1;
        if (!moved_q && (data_before_q == '0)) begin
          a_dropped: assert (!refused_q || !data.w_valid);
          a_given:   assert (refused_q || (word == (data.w_valid && data_i.w_ready)));
          a_ends:    assert (refused_q || !data.w_valid || (data.w_last == (fixed || window_i.w_last)));
          if (last) moved_q <= 1'b1;
        end
        if (answers_before_q == '0) begin
          a_after: assert (!window.b_valid || moved_q);
          a_kept:  assert (!refused_q || !data.b_ready);
          a_whole: assert (!window.b_valid || refused_q || (answers_q == (fixed ? burst_q.len : 8'd0)));
          // The memory's answers are taken while it may wait for that with the next beats.
          a_flows: assert (refused_q || !fixed || (answers_q == burst_q.len) || data.b_ready);
          if (data_i.b_valid && data.b_ready && !answered) begin
            answers_q <= answers_q + 8'd1;
            if (bad_q == axi_pkg::RespOkay) bad_q <= data_i.b_resp;
          end
          if (answered) begin
            flies_q <= 1'b0;
            a_id:    assert (window.b_id == id_q);
            a_error: assert (window.b_resp == (refused_q ? axi_pkg::RespSlvErr :
                                               (bad_q != axi_pkg::RespOkay) ? bad_q : data_i.b_resp));
            a_taken: assert (refused_q || (data_i.b_valid && data.b_ready));
          end
        end
      end
    end
  end
endmodule
