// SPDX-License-Identifier: Apache-2.0 OR MIT
// The frames that an initiator has under way: which may be sent, which are sent again and when, which answer belongs to which, and the
// order in which they are completed. No data.
//
// The entries are a ring, completed in the order in which they were taken. Each frame that is sent has a tag that no other has:
// the generation of the entry's use, the number of the attempt, and the entry. An answer is accepted if its entry still waits in that
// generation, and was sent in that attempt; the first one counts.
//
// A write that was sent several times ends only when each attempt was answered, or a frame's lifetime has passed since its first
// answer: a copy of it that is still under way cannot change a block after its host wrote it again.
//
// Slots       entries, a power of two
// Tries       attempts, 2 to 8
// TickLog2    log2 of the cycles of a tick
// RetryTicks  until the second attempt; twice as long for each next one
// LifeTicks   a frame and its answer arrive within this time, or never
module aoe_table #(
  parameter int unsigned Slots      = 8,
  parameter int unsigned Tries      = 6,
  parameter int unsigned TickLog2   = 12,
  parameter int unsigned RetryTicks = 8,
  parameter int unsigned LifeTicks  = 512,
  localparam int unsigned SlotLog2 = $clog2(Slots)
) (
  input  logic                clk_i,
  input  logic                rst_ni,
  output logic                tick_o,

  input  logic                up_i,     // while low, entries end without an answer
  input  logic [SlotLog2:0]   limit_i,  // entries that may wait for an answer, 1 to Slots
  output logic                lost_o,   // one cycle: the target does not answer, or the line takes nothing

  // An entry is taken, and may be sent when it is filled, in the same cycle or later.
  output logic                free_o,
  input  logic                take_i,
  input  logic                take_settles_i,  // a write
  output logic [SlotLog2-1:0] take_slot_o,
  input  logic                filled_i,
  input  logic [SlotLog2-1:0] filled_slot_i,

  output logic                send_valid_o,
  input  logic                send_ready_i,
  output logic [SlotLog2-1:0] send_slot_o,
  output logic [31:0]         send_tag_o,
  input  logic                sending_i,       // the last one that was sent is still leaving
  input  logic [SlotLog2-1:0] sending_slot_i,

  input  logic [31:0]         look_tag_i,
  output logic                look_o,    // an answer with this tag would be the first
  input  logic                answer_i,  // such an answer has arrived, the first or another one
  input  logic [31:0]         answer_tag_i,
  output logic                accept_o,  // it is the first

  output logic                empty_o,
  output logic                done_o,   // the oldest entry has ended
  output logic                gone_o,   // without an answer
  output logic [SlotLog2-1:0] done_slot_o,
  input  logic                retire_i
);
  localparam int unsigned TryWidth = 3;
  localparam int unsigned GenerationWidth = 31 - TryWidth - SlotLog2;
  localparam int unsigned MostTicks = (RetryTicks << (Tries - 1)) + 1;
  localparam int unsigned TimeWidth = $clog2(((MostTicks > LifeTicks) ? MostTicks : LifeTicks) + 2);
  typedef logic [SlotLog2-1:0] slot_t;
  typedef logic [GenerationWidth-1:0] generation_t;
  typedef logic [TimeWidth-1:0] ticks_t;

  typedef struct packed {
    logic                zero;  // discovery has the other half of the tags
    generation_t         generation;
    logic [TryWidth-1:0] attempt;
    slot_t               slot;
  } name_t;

  typedef enum logic [2:0] {
    Free,
    Filled,    // its data are not complete
    Ready,     // to be sent
    Sent,      // an answer is expected
    Settling,  // answered; copies may be under way
    Ended
  } entry_e;

  entry_e      state_q      [Slots];
  generation_t generation_q [Slots];
  logic [TryWidth:0] sent_q [Slots];     // attempts
  logic [Tries-1:0]  answered_q [Slots];
  ticks_t      timer_q      [Slots];
  logic [Slots-1:0] settles_q, gone_q;

  slot_t head_q, tail_q;
  generation_t laps_q;  // of the ring

  // --- Time -----------------------------------------------------------------------------------
  logic [TickLog2-1:0] cycles_q;
  ticks_t stuck_q;
  logic   exhausted;

  assign tick_o = cycles_q == '1;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      cycles_q <= '0;
      stuck_q  <= '0;
    end else begin
      cycles_q <= cycles_q + TickLog2'(1);
      if (!sending_i || !up_i) stuck_q <= '0;
      else if (tick_o)         stuck_q <= stuck_q + ticks_t'(1);
    end
  end

  // --- Names ----------------------------------------------------------------------------------
  name_t look, answer;
  logic  look_known, answer_known;

  function automatic logic waits(entry_e state);
    return (state == Ready) || (state == Sent);
  endfunction

  assign look         = name_t'(look_tag_i);
  assign answer       = name_t'(answer_tag_i);
  assign look_known   = ~look.zero & (generation_q[look.slot] == look.generation) &
                        ({1'b0, look.attempt} < sent_q[look.slot]);
  assign answer_known = ~answer.zero & (generation_q[answer.slot] == answer.generation) &
                        ({1'b0, answer.attempt} < sent_q[answer.slot]);
  assign look_o       = look_known & waits(state_q[look.slot]);
  assign accept_o     = answer_i & answer_known & waits(state_q[answer.slot]);

  // --- Which is sent next: the oldest that may be ---------------------------------------------
  logic [SlotLog2:0] waiting;

  always_comb begin
    waiting = '0;
    for (int unsigned i = 0; i < Slots; i++) begin
      if (waits(state_q[i]) && (sent_q[i] != '0)) waiting = waiting + (SlotLog2 + 1)'(1);
    end
    send_valid_o = 1'b0;
    send_slot_o  = head_q;
    for (int unsigned i = 0; i < Slots; i++) begin
      slot_t candidate;
      candidate = head_q + slot_t'(i);
      if (!send_valid_o && (state_q[candidate] == Ready) && ((sent_q[candidate] != '0) || (waiting < limit_i))) begin
        send_valid_o = up_i;
        send_slot_o  = candidate;
      end
    end
  end

  name_t send_name;
  assign send_name  = '{zero: 1'b0, generation: generation_q[send_slot_o], attempt: sent_q[send_slot_o][TryWidth-1:0],
                        slot: send_slot_o};
  assign send_tag_o = send_name;

  // --- The ring -------------------------------------------------------------------------------
  assign take_slot_o = tail_q;
  assign done_slot_o = head_q;
  assign gone_o      = gone_q[head_q];
  assign empty_o     = state_q[head_q] == Free;
  // What is being sent must not change. A line that takes nothing must not stop the others' end, and then nothing is taken in.
  assign free_o      = state_q[tail_q] == Free;
  assign done_o      = (state_q[head_q] == Ended) & ~(up_i & sending_i & (sending_slot_i == head_q));

  always_comb begin
    exhausted = 1'b0;
    for (int unsigned i = 0; i < Slots; i++) begin
      if ((state_q[i] == Sent) && (timer_q[i] == '0) && (sent_q[i] == (TryWidth + 1)'(Tries))) exhausted = 1'b1;
    end
  end
  assign lost_o = up_i & (exhausted | (stuck_q == ticks_t'(LifeTicks)));

  for (genvar i = 0; i < Slots; i++) begin : gen_entry
    logic taken, sent, accepted, known;
    logic [Tries-1:0] answered, wanted;
    assign taken    = take_i & free_o & (tail_q == slot_t'(i));
    assign sent     = send_valid_o & send_ready_i & (send_slot_o == slot_t'(i));
    assign accepted = accept_o & (answer.slot == slot_t'(i));
    assign known    = answer_i & answer_known & (answer.slot == slot_t'(i));
    assign answered = answered_q[i] | (known ? Tries'(1) << answer.attempt : '0);
    assign wanted   = (Tries'(1) << sent_q[i]) - Tries'(1);

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        state_q[i]      <= Free;
        generation_q[i] <= '0;
        sent_q[i]       <= '0;
        answered_q[i]   <= '0;
        timer_q[i]      <= '0;
        settles_q[i]    <= 1'b0;
        gone_q[i]       <= 1'b0;
      end else begin
        if (tick_o && (timer_q[i] != '0)) timer_q[i] <= timer_q[i] - ticks_t'(1);
        if (sent) sent_q[i] <= sent_q[i] + (TryWidth + 1)'(1);
        answered_q[i] <= answered;
        unique case (state_q[i])
          Filled: if (filled_i && (filled_slot_i == slot_t'(i))) state_q[i] <= Ready;
          Ready: if (sent) begin
            state_q[i] <= Sent;
            timer_q[i] <= (ticks_t'(RetryTicks) << sent_q[i]) + ticks_t'(1);
          end
          Sent: if ((timer_q[i] == '0) && (sent_q[i] != (TryWidth + 1)'(Tries))) state_q[i] <= Ready;
          Settling: if (!settles_q[i] || ((answered_q[i] & wanted) == wanted) || (timer_q[i] == '0)) state_q[i] <= Ended;
          Ended: if (retire_i && (head_q == slot_t'(i))) state_q[i] <= Free;
          default: ;
        endcase
        if (accepted) begin
          state_q[i] <= Settling;
          timer_q[i] <= ticks_t'(LifeTicks) + ticks_t'(1);
        end else if (!up_i && waits(state_q[i])) begin
          state_q[i] <= Ended;
          gone_q[i]  <= 1'b1;
        end
        if (taken) begin
          state_q[i]      <= (filled_i && (filled_slot_i == slot_t'(i))) ? Ready : Filled;
          generation_q[i] <= laps_q;
          sent_q[i]       <= '0;
          answered_q[i]   <= '0;
          settles_q[i]    <= take_settles_i;
          gone_q[i]       <= 1'b0;
        end
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      head_q <= '0;
      tail_q <= '0;
      laps_q <= '0;
    end else begin
      if (retire_i && done_o) head_q <= head_q + slot_t'(1);
      if (take_i && free_o) begin
        tail_q <= tail_q + slot_t'(1);
        if (tail_q == '1) laps_q <= laps_q + generation_t'(1);
      end
    end
  end
endmodule
