// SPDX-License-Identifier: Apache-2.0 OR MIT
// The window: an AXI4 subordinate whose accesses wait here until their pages are present, and then go on to the frames.
//
// Up to four read bursts and one write burst wait at the same time. Reads with the same identifier stay in order, others
// overtake one that waits for the drive; writes stay in order, as their data do. A refused read returns zeroes, and a refused
// write's data are dropped, exactly as many beats as the burst has.
//
// A burst goes on with its size, from an address that is aligned to it: AXI4 allows no strobes for the bytes before an unaligned
// address (A3.4.3). A fixed burst goes on as single beats, because few memories take fixed ones; its answers become one.
//
// Never offers an access to the translation that could then be held up by the frames' port, so reads that their master does
// not take cannot stop writes. `pinned_o` names the uses of a frame, which must not leave it.
//
// DataWidth  bits of both data paths
// PageLog2   log2 of a page's bytes
module smmu_window
  import smmu_pkg::*;
#(
  parameter int unsigned DataWidth = 32,
  parameter int unsigned PageLog2  = 12
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  axi_pkg::address_t      frames_i,      // the address of frame 0

  input  master_t                window_i,
  input  logic [DataWidth-1:0]   write_data_i,
  input  logic [DataWidth/8-1:0] write_strobe_i,
  output window_t                window_o,
  output logic [DataWidth-1:0]   read_data_o,

  output axi_pkg::manager_t      data_o,
  output logic [1:0]             data_aw_burst_o,
  output logic [1:0]             data_ar_burst_o,
  output logic [DataWidth-1:0]   data_write_o,
  output logic [DataWidth/8-1:0] data_strobe_o,
  input  axi_pkg::memory_t       data_i,
  input  logic [DataWidth-1:0]   data_read_i,

  // To the translation.
  output logic                   some_o,        // an access could be offered if the port had room
  output logic                   valid_o,
  output access_t                access_o,
  input  logic                   take_i,
  input  answer_e                answer_i,      // to the access that was taken
  input  access_t                answered_i,
  input  frame_t                 frame_i,       // with AnswerGo, and with AnswerWait if `bind_i`
  input  logic                   bind_i,
  input  logic                   asked_i,       // with AnswerWait: the walker works for it
  // From the walker: the walk has ended, with the page's frame, with a failure or without either; and something has changed
  // that may be waited for.
  input  logic                   walked_i,
  input  logic                   bound_i,
  input  logic                   failed_i,
  input  slot_t                  walked_slot_i,
  input  frame_t                 walked_frame_i,
  input  reason_e                walked_reason_i,
  input  logic                   event_i,

  // Who uses this frame: one cycle later. A use that begins in the cycle of the question counts for each frame.
  input  frame_t                 user_i,
  output logic                   waits_o,       // an access that waits
  output logic                   reads_o,       // a read under way
  output logic                   writes_o,      // a write under way
  output logic                   idle_o
);
  import axi_pkg::address_t;
  localparam int unsigned ReadRing = 8, WriteRing = 4;
  typedef struct packed {
    context_t number;
    burst_t   burst;
  } kept_t;

  // --- Slots -----------------------------------------------------------------------------------------
  logic [Slots-1:0] valid_q, waits_q, asked_q, bound_q, failed_q, may;
  id_t     id_q [Slots];
  kept_t   read_q [ReadSlots], write_q, kept;
  frame_t  frame_q [Slots];
  reason_e reason_q [Slots];
  logic [ReadSlots-1:0] behind_q [ReadSlots];  // reads with the same identifier that came before
  logic [ReadSlots-1:0] same;
  slot_t free;
  logic  read_in, write_in, read_room, write_room, settle;
  slot_t next, read, last_q, done;
  logic  may_read, may_write, is_write;

  always_comb begin
    free = '0;
    for (int unsigned i = ReadSlots; i > 0; i--) begin
      if (!valid_q[i-1]) free = slot_t'(i - 1);
    end
  end
  assign window_o.ar_ready = valid_q[ReadSlots-1:0] != '1;
  assign window_o.aw_ready = ~valid_q[WriteSlot];
  assign read_in  = window_i.ar_valid & window_o.ar_ready;
  assign write_in = window_i.aw_valid & window_o.aw_ready;
  assign settle   = (answer_i == AnswerGo) | (answer_i == AnswerRefuse);
  assign done     = answered_i.slot;

  // The candidates, and the first of them behind the last one that was taken.
  always_comb begin
    // Not while the walker works for it: its result is this access's and no other's.
    may = valid_q & ~waits_q & ~asked_q;
    for (int unsigned i = 0; i < ReadSlots; i++) begin
      if (behind_q[i] != '0) may[i] = 1'b0;
    end
    read = '0;
    for (int unsigned i = ReadSlots; i > 0; i--) begin
      if (may[i-1]) read = slot_t'(i - 1);
    end
    for (int unsigned i = ReadSlots; i > 0; i--) begin
      if (may[i-1] && (slot_t'(i - 1) > last_q)) read = slot_t'(i - 1);
    end
  end
  // Whether there is room is known late: it decides between one read and the write.
  assign may_read  = (may[ReadSlots-1:0] != '0) & read_room;
  assign may_write = may[WriteSlot] & write_room;
  assign is_write  = may_write & (~may_read | ((last_q != slot_t'(WriteSlot)) & (read <= last_q)));
  assign next      = is_write ? slot_t'(WriteSlot) : read;
  assign kept      = is_write ? write_q : read_q[read[1:0]];
  assign some_o    = may != '0;
  assign valid_o   = may_read | may_write;
  assign access_o  = '{slot: next, write: is_write, ahead: 1'b0, number: kept.number, burst: kept.burst,
                       failed: failed_q[next] ? reason_q[next] : ReasonNone};

  always_comb begin
    for (int unsigned i = 0; i < ReadSlots; i++) begin
      same[i] = valid_q[i] & (id_q[i] == window_i.ar_id) & ~(settle & (done == slot_t'(i)));
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q  <= '0;
      waits_q  <= '0;
      asked_q  <= '0;
      bound_q  <= '0;
      failed_q <= '0;
      last_q   <= '0;
      for (int unsigned i = 0; i < ReadSlots; i++) behind_q[i] <= '0;
    end else begin
      if (take_i) last_q <= next;
      if (event_i) waits_q <= '0;
      if ((answer_i == AnswerWait) && !answered_i.ahead) begin
        waits_q[done] <= 1'b1;
        asked_q[done] <= asked_i;
        if (bind_i) bound_q[done] <= 1'b1;
      end
      if (walked_i) asked_q[walked_slot_i] <= 1'b0;
      if (bound_i) bound_q[walked_slot_i] <= 1'b1;
      if (failed_i) failed_q[walked_slot_i] <= 1'b1;
      if (settle && !answered_i.ahead) begin
        valid_q[done]  <= 1'b0;
        bound_q[done]  <= 1'b0;
        failed_q[done] <= 1'b0;
        for (int unsigned i = 0; i < ReadSlots; i++) begin
          if (!answered_i.write) behind_q[i][done[1:0]] <= 1'b0;
        end
      end
      if (read_in) begin
        valid_q[free]  <= 1'b1;
        waits_q[free]  <= 1'b0;
        behind_q[free[1:0]] <= same;
      end
      if (write_in) {valid_q[WriteSlot], waits_q[WriteSlot]} <= 2'b10;
    end
  end
  always_ff @(posedge clk_i) begin
    if (read_in) begin
      id_q[free]        <= window_i.ar_id;
      read_q[free[1:0]] <= '{number: window_i.ar_context, burst: window_i.ar};
    end
    if (write_in) begin
      id_q[WriteSlot] <= window_i.aw_id;
      write_q         <= '{number: window_i.aw_context, burst: window_i.aw};
    end
    if ((answer_i == AnswerWait) && bind_i && !answered_i.ahead) frame_q[done] <= frame_i;
    if (bound_i) frame_q[walked_slot_i] <= walked_frame_i;
    if (failed_i) reason_q[walked_slot_i] <= walked_reason_i;
  end

  // --- What goes on ----------------------------------------------------------------------------------
  logic    go, refuse, push_read, push_write;
  address_t address;
  burst_t  burst;
  logic [3:0] more;  // beats of a fixed burst behind the first
  assign go         = (answer_i == AnswerGo) & ~answered_i.ahead;
  assign refuse     = (answer_i == AnswerRefuse) & ~answered_i.ahead;
  assign push_read  = (go | refuse) & ~answered_i.write;
  assign push_write = (go | refuse) & answered_i.write;
  assign address    = {frames_i[$bits(address_t)-1:PageLog2] + ($bits(address_t) - PageLog2)'(frame_i),
                       answered_i.burst.address[PageLog2-1:0] & ~PageLog2'(beat_mask(answered_i.burst.size))};
  always_comb begin
    burst         = answered_i.burst;
    burst.address = address;
    more          = '0;
    if (answered_i.burst.burst == BurstFixed) begin
      more        = answered_i.burst.len[3:0];
      burst.len   = '0;
      burst.burst = BurstIncr;
    end
  end

  // --- Reads under way, in order ---------------------------------------------------------------------
  logic [2:0] r_head_q, r_tail_q;
  logic [ReadRing-1:0] r_used_q, r_error_q;
  frame_t     r_frame_q [ReadRing];
  id_t        r_id_q [ReadRing];
  logic [7:0] r_len_q [ReadRing], r_count_q;
  logic       ar_valid_q, ar_ends, r_now, r_taken, r_end;
  burst_t     ar_q;
  logic [3:0] ar_more_q;

  assign ar_ends   = data_i.ar_ready & (ar_more_q == '0);
  assign read_room = ~r_used_q[r_tail_q] & (~ar_valid_q | ar_ends);
  assign r_now     = r_used_q[r_head_q];
  assign r_end     = r_count_q == r_len_q[r_head_q];
  assign window_o.r_valid = r_now & (r_error_q[r_head_q] | data_i.r_valid);
  assign window_o.r_id    = r_id_q[r_head_q];
  assign window_o.r_resp  = r_error_q[r_head_q] ? axi_pkg::RespSlvErr : data_i.r_resp;
  assign window_o.r_last  = r_end;
  assign read_data_o      = r_error_q[r_head_q] ? '0 : data_read_i;
  assign r_taken          = window_o.r_valid & window_i.r_ready;
  assign data_o.ar_valid  = ar_valid_q;
  assign data_o.ar        = '{address: ar_q.address, len: ar_q.len, size: ar_q.size};
  assign data_ar_burst_o  = ar_q.burst;
  assign data_o.r_ready   = r_now & ~r_error_q[r_head_q] & window_i.r_ready;

  // --- Writes under way, in order --------------------------------------------------------------------
  logic [1:0] w_head_q, w_tail_q, w_data_q;
  logic [WriteRing-1:0] w_used_q, w_error_q, w_moved_q;
  frame_t w_frame_q [WriteRing];
  id_t    w_id_q [WriteRing];
  logic   aw_valid_q, aw_ends, w_now, w_taken, b_now, b_first, b_taken;
  burst_t aw_q;
  logic [3:0] aw_more_q, w_more_q [WriteRing], b_count_q;  // single beats behind the first; answers to single beats
  logic [WriteRing-1:0] w_single_q;
  axi_pkg::resp_e b_bad_q;                                 // the first error of those answers

  assign aw_ends    = data_i.aw_ready & (aw_more_q == '0);
  assign write_room = ~w_used_q[w_tail_q] & (~aw_valid_q | aw_ends);
  assign w_now      = w_used_q[w_data_q] & ~w_moved_q[w_data_q];
  assign window_o.w_ready = w_now & (w_error_q[w_data_q] | data_i.w_ready);
  assign w_taken          = window_o.w_ready & window_i.w_valid;
  assign data_o.aw_valid  = aw_valid_q;
  assign data_o.aw        = '{address: aw_q.address, len: aw_q.len, size: aw_q.size};
  assign data_aw_burst_o  = aw_q.burst;
  assign data_o.w_valid   = w_now & ~w_error_q[w_data_q] & window_i.w_valid;
  assign data_o.w_last    = window_i.w_last | w_single_q[w_data_q];
  assign data_write_o     = write_data_i;
  assign data_strobe_o    = write_strobe_i;

  // Answers to single beats before the last are taken while the burst's data still move, or a memory might take no more of them.
  assign b_first          = w_used_q[w_head_q] & ~w_error_q[w_head_q] & (b_count_q != w_more_q[w_head_q]);
  assign b_now            = w_used_q[w_head_q] & w_moved_q[w_head_q] & ~b_first;
  assign window_o.b_valid = b_now & (w_error_q[w_head_q] | data_i.b_valid);
  assign window_o.b_id    = w_id_q[w_head_q];
  assign window_o.b_resp  = w_error_q[w_head_q] ? axi_pkg::RespSlvErr : (b_bad_q == axi_pkg::RespOkay) ? data_i.b_resp : b_bad_q;
  assign b_taken          = window_o.b_valid & window_i.b_ready;
  assign data_o.b_ready   = b_first | (b_now & ~w_error_q[w_head_q] & window_i.b_ready);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {r_head_q, r_tail_q, r_used_q, r_count_q, ar_valid_q, ar_more_q} <= '0;
      {w_head_q, w_tail_q, w_data_q, w_used_q, w_moved_q, aw_valid_q, aw_more_q, b_count_q} <= '0;
      b_bad_q <= axi_pkg::RespOkay;
    end else begin
      if (ar_ends) ar_valid_q <= 1'b0;
      if (ar_valid_q && data_i.ar_ready && !ar_ends) ar_more_q <= ar_more_q - 4'd1;
      if (go && !answered_i.write) {ar_valid_q, ar_more_q} <= {1'b1, more};
      if (aw_ends) aw_valid_q <= 1'b0;
      if (aw_valid_q && data_i.aw_ready && !aw_ends) aw_more_q <= aw_more_q - 4'd1;
      if (go && answered_i.write) {aw_valid_q, aw_more_q} <= {1'b1, more};
      if (b_first && data_i.b_valid) begin
        b_count_q <= b_count_q + 4'd1;
        if (b_bad_q == axi_pkg::RespOkay) b_bad_q <= data_i.b_resp;
      end
      if (r_taken) r_count_q <= r_end ? '0 : r_count_q + 8'd1;
      if (r_taken && r_end) begin
        r_used_q[r_head_q] <= 1'b0;
        r_head_q           <= r_head_q + 3'd1;
      end
      if (push_read) begin
        r_used_q[r_tail_q] <= 1'b1;
        r_tail_q           <= r_tail_q + 3'd1;
      end
      if (w_taken && window_i.w_last) begin
        w_moved_q[w_data_q] <= 1'b1;
        w_data_q            <= w_data_q + 2'd1;
      end
      if (b_taken) begin
        w_used_q[w_head_q] <= 1'b0;
        w_head_q           <= w_head_q + 2'd1;
        b_count_q          <= '0;
        b_bad_q            <= axi_pkg::RespOkay;
      end
      if (push_write) begin
        w_used_q[w_tail_q]  <= 1'b1;
        w_moved_q[w_tail_q] <= 1'b0;
        w_tail_q            <= w_tail_q + 2'd1;
      end
    end
  end
  always_ff @(posedge clk_i) begin
    if (go && !answered_i.write) ar_q <= burst;
    if (go && answered_i.write)  aw_q <= burst;
    if (push_read) begin
      r_error_q[r_tail_q] <= refuse;
      r_frame_q[r_tail_q] <= frame_i;
      r_id_q[r_tail_q]    <= id_q[done];
      r_len_q[r_tail_q]   <= answered_i.burst.len;
    end
    if (push_write) begin
      w_error_q[w_tail_q] <= refuse;
      w_frame_q[w_tail_q] <= frame_i;
      w_id_q[w_tail_q]    <= id_q[done];
      w_more_q[w_tail_q]   <= more;
      w_single_q[w_tail_q] <= answered_i.burst.burst == BurstFixed;
    end
  end

  // --- Who uses a frame ------------------------------------------------------------------------------
  logic [Slots-1:0]     waits_for_q;
  logic [ReadRing-1:0]  reads_from_q;
  logic [WriteRing-1:0] writes_to_q;
  always_ff @(posedge clk_i) begin
    for (int unsigned i = 0; i < Slots; i++) begin
      waits_for_q[i] <= (frame_q[i] == user_i) | ((answer_i == AnswerWait) & bind_i) | bound_i;
    end
    for (int unsigned i = 0; i < ReadRing; i++)  reads_from_q[i] <= (r_frame_q[i] == user_i) | push_read;
    for (int unsigned i = 0; i < WriteRing; i++) writes_to_q[i]  <= (w_frame_q[i] == user_i) | push_write;
  end
  assign waits_o  = (waits_for_q & bound_q) != '0;
  assign reads_o  = (reads_from_q & r_used_q & ~r_error_q) != '0;
  assign writes_o = (writes_to_q & w_used_q & ~w_error_q) != '0;
  assign idle_o = (valid_q == '0) & (r_used_q == '0) & (w_used_q == '0);
endmodule
