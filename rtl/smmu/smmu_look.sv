// SPDX-License-Identifier: Apache-2.0 OR MIT
// Translates one access at a time: takes it with its context's rights, looks it up while its page's state is requested, touches
// the page, and answers.
//
// Refuses what the burst's form, the context, its limit, its rights or the page forbid, and reports each refusal once with
// its address. An access whose page is in no TLB entry becomes a job of the walker. The touch is two cycles after the lookup: a
// page that leaves its frame then is absent already, and the frame cannot have another page so early.
//
// WindowBits  bits of the window's addresses
// WordLog2    log2 of a word's bytes
// PageLog2    log2 of a page's bytes
module smmu_look
  import smmu_pkg::*;
#(
  parameter int unsigned WindowBits = 40,
  parameter int unsigned WordLog2   = 2,
  parameter int unsigned PageLog2   = 12
) (
  input  logic     clk_i,
  input  logic     rst_ni,
  input  logic     enabled_i,

  input  logic     valid_i,
  input  access_t  access_i,
  output logic     take_o,
  output answer_e  answer_o,
  output access_t  answered_o,
  output frame_t   frame_o,
  output logic     bind_o,

  output context_t context_o,     // of `access_i`
  input  rights_t  rights_i,

  // The TLB: sampled with `take_o`, used not in cycles in which the walker uses it.
  input  logic     tlb_busy_i,
  output table_t   tlb_in_o,
  output page_t    tlb_page_o,
  input  logic     tlb_hit_i,
  input  frame_t   tlb_frame_i,
  input  logic     tlb_writable_i,

  // The page's state: requested by `touch_o`, only while `pages_ready_i`; `cancel_o` with the result, two cycles later.
  output logic     touch_o,
  output frame_t   touch_frame_o,
  output logic     cancel_o,
  input  logic     pages_ready_i,
  input  result_e  touched_i,
  input  logic     hold_i,        // no writes to this frame now
  input  logic     hold_reads_i,  // ... and no reads
  input  frame_t   hold_frame_i,

  output logic     job_valid_o,
  output job_t     job_o,
  input  logic     job_ready_i,

  output logic     report_o,
  output report_t  reported_o
);
  typedef enum logic [1:0] {Idle, Look, Touch, Answer} state_e;
  state_e  state_q;
  access_t access_q;
  reason_e reason, reason_q;
  rights_t rights_q;
  logic    hit_q, writable_q, held, held_q, refuse, refuse_q, cancel_q;
  frame_t  frame_q;
  page_t   page;
  logic [axi_pkg::AddressWidth-PageLog2-1:0] whole_page;

  assign take_o     = (state_q == Idle) & valid_i;
  assign context_o  = access_i.number;
  assign whole_page = access_q.burst.address[axi_pkg::AddressWidth-1:PageLog2];
  assign page       = page_t'(whole_page);
  assign tlb_in_o   = rights_i.in;
  assign tlb_page_o = page_t'(access_i.burst.address >> PageLog2);

  always_comb begin
    reason = ReasonNone;
    if (!access_q.ahead && !is_served(access_q.burst, 3'(WordLog2)))                   reason = ReasonBurst;
    else if (!enabled_i || !rights_q.enabled)                                          reason = ReasonContext;
    else if (((access_q.burst.address >> WindowBits) != '0) || (page > rights_q.last)) reason = ReasonRange;
    else if (access_q.write ? !rights_q.write : !rights_q.read)                        reason = ReasonRights;
    else                                                                               reason = access_q.failed;
  end

  // --- The answer ------------------------------------------------------------------------------------
  assign held       = hold_i & (hold_frame_i == frame_q) & (access_q.write | hold_reads_i);
  assign refuse     = (reason_q != ReasonNone) | (hit_q & access_q.write & ~writable_q);
  assign touch_o    = (state_q == Look) & ~tlb_busy_i & pages_ready_i;
  assign cancel_o   = cancel_q;
  assign job_o      = '{slot: access_q.slot, in: rights_q.in, page: page};
  assign touch_frame_o = tlb_frame_i;
  assign frame_o    = frame_q;
  assign answered_o = access_q;

  always_comb begin
    answer_o    = AnswerNone;
    bind_o      = 1'b0;
    job_valid_o = 1'b0;
    reported_o  = '{reason: reason_q, write: access_q.write, about: 4'(access_q.number),
                    address: access_q.burst.address};
    if (state_q == Answer) begin
      if (refuse_q) begin
        answer_o = AnswerRefuse;
        if (reason_q == ReasonNone) reported_o.reason = ReasonRights;
      end else if (!hit_q) begin
        answer_o    = AnswerWait;
        job_valid_o = 1'b1;
        // What is read ahead asks again instead.
        if (access_q.ahead && job_ready_i) answer_o = AnswerGo;
      end else if (access_q.ahead) begin
        answer_o = AnswerGo;
      end else if (held_q) begin
        answer_o = AnswerWait;
      end else begin
        unique case (touched_i)
          ResultDone:  answer_o = AnswerGo;
          ResultNever: begin
            answer_o          = AnswerRefuse;
            reported_o.reason = ReasonPoisoned;
          end
          default: {answer_o, bind_o} = {AnswerWait, 1'b1};
        endcase
      end
    end
  end
  assign report_o = (answer_o == AnswerRefuse) & ~access_q.ahead;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) state_q <= Idle;
    else unique case (state_q)
      Idle:    if (valid_i) state_q <= Look;
      Look:    if (touch_o) state_q <= Touch;
      Touch:   state_q <= Answer;
      default: state_q <= Idle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (take_o) {access_q, rights_q} <= {access_i, rights_i};
    if (state_q == Look) begin
      reason_q   <= reason;
      hit_q      <= tlb_hit_i;
      frame_q    <= tlb_frame_i;
      writable_q <= tlb_writable_i;
    end
    if (state_q == Touch) {refuse_q, held_q, cancel_q} <= {refuse, held, refuse | ~hit_q | held | access_q.ahead};
  end
endmodule
