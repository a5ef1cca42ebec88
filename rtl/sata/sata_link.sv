// SPDX-License-Identifier: Apache-2.0 OR MIT
// The link layer of a Serial ATA host (Serial ATA 3.x, clause "Link layer"): sends and receives frames, one at a time,
// each scrambled, with a CRC, between SOF and EOF; flow control by HOLD in both directions; two ALIGN in
// every 256 dwords.
//
// Owns the state of the current frame, the scrambler and the CRC: both directions share them, since only one
// direction has a frame at a time. Answers a primitive in the next dword. Never drops or repeats a word: an outgoing word is
// taken in the cycle in which it is sent. Incoming words cannot be stalled, so the receiver must have room for `Slack`
// more words when it lowers `rx_room_i` (the 20 of the specification, and those in flight in both directions).
//
// A repeated primitive is sent as CONT and filler; data dwords after a received CONT are ignored. Power
// management requests are refused (PMNAK). DMAT is ignored, as a transmitter may.
//
// SendCont   send CONT
// AlignLog2  log2 of the dwords with two ALIGN among them: 8 by the specification; a proof uses fewer
module sata_link
  import sata_pkg::*;
#(
  parameter bit          SendCont  = 1'b1,
  parameter int unsigned AlignLog2 = 8
) (
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic        up_i,  // the link is up; a frame ends when this falls
  input  rx_word_t    rx_i,
  output word_t       tx_o,

  // The frame to send: `tx_frame_i` is high until `tx_end_o`.
  input  logic        tx_frame_i,
  input  logic        tx_valid_i,
  output logic        tx_ready_o,
  input  logic [31:0] tx_data_i,
  input  logic        tx_last_i,
  output logic        tx_end_o,
  output sent_e       tx_sent_o,

  // The received frame: start, its words without the CRC, end.
  output logic        rx_start_o,
  output logic        rx_valid_o,
  output logic [31:0] rx_data_o,
  output logic        rx_end_o,
  output logic        rx_good_o,   // with `rx_end_o`: complete, with a correct CRC, and not refused
  input  logic        rx_room_i,
  input  logic        rx_refuse_i, // the frame is refused: R_ERR at its end

  input  logic        escape_i     // end the current frame by SYNC
);
  typedef enum logic [3:0] {
    LIdle, LSendRdy, LSof, LData, LCrc, LEof, LWait, LRcvRdy, LRcv, LJudge, LGood, LBad, LPmDeny, LEscape
  } state_e;
  typedef enum logic [3:0] {
    PNone, PSync, PXrdy, PRrdy, PSof, PEof, PRok, PRerr, PWtrm, PHold, PPmReq, PHolda, PRip, PPmNak, POther
  } prim_e;

  // The next state depends on the received primitive and determines the sent one, all in one cycle: as a binary code this takes
  // less logic than with a bit for each state.
  (* fsm_encoding = "none" *) state_e state_q, state_d;

  // --- The received dword: a primitive, a data word (PNone), or one to ignore (ALIGN) ----------------------
  // Decoding takes a cycle of its own: `rx_prim` is on the line now, `prim` belongs to `state_q`.
  prim_e now, rx_prim, prim, last_q;
  logic  rx_align, is_align, is_cont, cont_q, word_seen, hold_seen, damaged;
  logic [31:0] rx_word_q;

  always_comb begin
    unique case (rx_i.word.data)
      Sync:           now = PSync;
      Xrdy:           now = PXrdy;
      Rrdy:           now = PRrdy;
      Sof:            now = PSof;
      Eof:            now = PEof;
      Rok:            now = PRok;
      Rerr:           now = PRerr;
      Wtrm:           now = PWtrm;
      Hold:           now = PHold;
      PmReqP, PmReqS: now = PPmReq;
      default:        now = POther;
    endcase
    rx_align = rx_i.word.k & ~rx_i.bad & (rx_i.word.data == Align);
    is_cont  = rx_i.word.k & ~rx_i.bad & (rx_i.word.data == Cont);
    // A damaged word may have been data or a primitive. In a frame it counts as data, so that the CRC fails.
    if (is_cont || (cont_q && (rx_i.bad || !rx_i.word.k))) rx_prim = last_q;
    else if (rx_i.bad || !rx_i.word.k)                     rx_prim = PNone;
    else                                                   rx_prim = now;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      last_q <= PSync;
      cont_q <= 1'b0;
    end else if (!up_i) begin
      last_q <= PSync;
      cont_q <= 1'b0;
    end else if (!rx_align) begin
      last_q <= rx_prim;
      if (is_cont)                           cont_q <= 1'b1;
      else if (rx_i.word.k && !rx_i.bad)     cont_q <= 1'b0;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      prim      <= PSync;
      is_align  <= 1'b0;
      word_seen <= 1'b0;
      hold_seen <= 1'b0;
    end else if (!up_i) begin
      prim      <= PSync;
      is_align  <= 1'b0;
      word_seen <= 1'b0;
      hold_seen <= 1'b0;
    end else begin
      prim      <= rx_prim;
      is_align  <= rx_align;
      word_seen <= (rx_prim == PNone) & ~rx_align;
      // A received ALIGN leaves the last primitive in effect.
      hold_seen <= rx_align ? (last_q == PHold) : (rx_prim == PHold);
    end
  end
  always_ff @(posedge clk_i) begin
    rx_word_q <= rx_i.word.data;
    damaged   <= rx_i.bad;
  end

  // --- Two ALIGN in 256 dwords ---------------------------------------------------------------------------
  logic [AlignLog2-1:0] align_q;
  logic align;

  assign align = align_q[AlignLog2-1:1] == '0;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) align_q <= '0;
    else         align_q <= align_q + AlignLog2'(1);
  end

  // --- The state belongs to the last word sent; with the word received now it determines the next -----------
  logic last_sent_q, held_q, good, good_q, bad_q, going, sends, one_shot;
  logic to_sof, in_escapable;
  logic [31:0] sum, sum_q, word_q;  // `sum` is the CRC of the words before `word_q`

  assign good = held_q & (sum == word_q) & ~bad_q & ~rx_refuse_i;

  // The comparison takes a cycle: after EOF the state is LJudge once.
  always_ff @(posedge clk_i) good_q <= good;

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      LIdle: begin
        if (prim == PXrdy)               state_d = rx_room_i ? LRcvRdy : LIdle;
        else if (prim == PPmReq)         state_d = LPmDeny;
        else if (tx_frame_i && !escape_i) state_d = LSendRdy;
      end
      LSendRdy: begin
        // Both sides request to send: the device has priority.
        if (prim == PXrdy)      state_d = rx_room_i ? LRcvRdy : LIdle;
        else if (prim == PRrdy) state_d = LSof;
        else if (escape_i)      state_d = LIdle;
      end
      LSof:  state_d = (prim == PSync) ? LIdle : (escape_i ? LEscape : LData);
      LData: begin
        if (prim == PSync)    state_d = LIdle;
        else if (escape_i)    state_d = LEscape;
        else if (last_sent_q) state_d = LCrc;
      end
      LCrc:  state_d = (prim == PSync) ? LIdle : LEof;
      LEof:  state_d = LWait;
      LWait: begin
        if ((prim == PRok) || (prim == PRerr) || (prim == PSync)) state_d = LIdle;
        else if (escape_i)                                        state_d = LEscape;
      end
      LRcvRdy: begin
        if (prim == PSof)       state_d = LRcv;
        else if (prim != PXrdy) state_d = LIdle;
      end
      LRcv: begin
        if (prim == PEof)       state_d = LJudge;
        else if (prim == PWtrm) state_d = LBad;  // the EOF was lost
        else if (prim == PSync) state_d = LIdle;
        else if (escape_i)      state_d = LEscape;
      end
      LJudge:      state_d = good_q ? LGood : LBad;
      LGood, LBad: if ((prim == PSync) || (prim == PXrdy)) state_d = LIdle;
      LPmDeny:     if (prim != PPmReq) state_d = LIdle;
      LEscape:     if ((prim == PSync) || (prim == PXrdy)) state_d = LIdle;
      default:     state_d = LIdle;
    endcase
    // A dword received while ALIGN is sent has no effect; a primitive that is sent once is delayed.
    if (is_align) begin
      if ((state_q == LRcvRdy) || (state_q == LPmDeny)) state_d = state_q;
    end
    one_shot = (state_d == LSendRdy) | (state_d == LSof) | (state_d == LData) | (state_d == LCrc) | (state_d == LEof);
    if (align && one_shot) state_d = state_q;
    if (!up_i) state_d = LIdle;
  end

  // What leaves this module, and what begins with a frame, is said of the primitive and not of `state_d`: it would wait for all of that.
  assign to_sof       = (state_q == LSendRdy) & (prim == PRrdy) & ~align & up_i;
  assign in_escapable = (state_q == LSof) | (state_q == LData) | (state_q == LWait);

  // --- Sending ----------------------------------------------------------------------------------------------
  logic take, send_crc, filler, same;
  prim_e symbol, sent_q;   // the primitive to send, and the one sent last
  logic [1:0]  repeats_q;  // 0: once so far, 1: twice, 2: after CONT
  scramble_t   scrambler_q;  // the word is computed a cycle ahead: it is not in the way of what is sent
  logic        is_data;

  // These are `state_d == LData` and `state_d == LCrc` while no ALIGN is sent, without the other states' logic.
  assign going      = (prim != PSync) & ~escape_i & ~align & up_i;
  assign sends      = going & ((state_q == LSof) | ((state_q == LData) & ~last_sent_q));
  // After CONT a data word would be taken for filler, so the primitive is repeated first.
  assign filler     = repeats_q[1];
  assign tx_ready_o = sends & ~hold_seen & ~last_sent_q & ~filler;
  assign take       = tx_ready_o & tx_valid_i;
  assign send_crc   = going & (state_q == LData) & last_sent_q;
  assign is_data    = take | send_crc;

  always_comb begin
    unique case (state_d)
      LSendRdy: symbol = PXrdy;
      LSof:     symbol = PSof;
      LData:    symbol = hold_seen ? PHolda : PHold;
      LEof:     symbol = PEof;
      LWait:    symbol = PWtrm;
      LRcvRdy:  symbol = PRrdy;
      LJudge:   symbol = PRip;
      LRcv:     symbol = !rx_room_i ? PHold : (hold_seen ? PHolda : PRip);
      LGood:    symbol = PRok;
      LBad:     symbol = PRerr;
      LPmDeny:  symbol = PPmNak;
      default:  symbol = PSync;
    endcase
  end

  function automatic logic [31:0] dword(prim_e which);
    unique case (which)
      PXrdy:   return Xrdy;
      PRrdy:   return Rrdy;
      PSof:    return Sof;
      PEof:    return Eof;
      PRok:    return Rok;
      PRerr:   return Rerr;
      PWtrm:   return Wtrm;
      PHold:   return Hold;
      PHolda:  return Holda;
      PRip:    return Rip;
      PPmNak:  return PmNak;
      default: return Sync;
    endcase
  endfunction

  // A primitive is sent twice, then CONT, then filler until the primitive changes.
  word_t tx_d;

  assign same = (symbol == sent_q) & SendCont & (state_d != LSof) & (state_d != LEof) &
                ~((state_d == LData) & tx_valid_i & filler);

  always_comb begin
    tx_d = '{k: 1'b1, data: dword(symbol)};
    if (align || !up_i) tx_d.data = Align;
    else if (is_data) tx_d = '{k: 1'b0, data: scrambler_q.word ^ (send_crc ? sum : tx_data_i)};
    else if (same && (repeats_q == 2'd1)) tx_d.data = Cont;
    else if (same && (repeats_q == 2'd2)) tx_d = '{k: 1'b0, data: scrambler_q.word};
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      tx_o      <= '{k: 1'b1, data: Align};
      sent_q    <= POther;
      repeats_q <= '0;
    end else begin
      tx_o <= tx_d;
      if (!up_i || is_data) begin
        sent_q    <= POther;
        repeats_q <= '0;
      end else if (!align) begin
        sent_q    <= symbol;
        repeats_q <= !same ? 2'd0 : (repeats_q[1] ? 2'd2 : repeats_q + 2'd1);
      end
    end
  end

  // --- Scrambler and CRC of the current frame, in either direction -------------------------------------------
  logic start, rx_word, framed;
  logic [31:0] checked;

  assign start   = to_sof | rx_start_o;
  assign rx_word = (state_q == LRcv) & word_seen;
  assign framed  = (state_q == LSof) | (state_q == LData) | (state_q == LCrc) | (state_q == LRcv);
  assign checked = (state_q == LRcv) ? word_q : tx_data_i;
  // The last word is in `sum_q`, but has not gone through the CRC's matrix: that of a word to send comes late in a cycle.
  assign sum     = crc(sum_q, '0);

  always_ff @(posedge clk_i) begin
    if (start) begin
      scrambler_q <= scramble(ScrambleSeed);
      sum_q       <= BeforeCrcSeed;
    end else begin
      // Between frames the scrambler continues, for the filler after CONT.
      if (is_data || rx_word || !framed) scrambler_q <= scramble(scrambler_q.state);
      if (take || rx_valid_o)            sum_q       <= sum ^ checked;
    end
  end

  // --- Sent frames -------------------------------------------------------------------------------------------
  logic sending_q;
  assign sending_q = (state_q == LSof) | (state_q == LData) | (state_q == LCrc) | (state_q == LEof) | (state_q == LWait);
  // To LIdle or LEscape. Neither is put off by an ALIGN.
  assign tx_end_o  = sending_q & (~up_i | ((prim == PSync) & (state_q != LEof)) | (escape_i & in_escapable) |
                                  (((prim == PRok) | (prim == PRerr)) & (state_q == LWait)));
  always_comb begin
    tx_sent_o = SentCut;
    if (up_i && (state_q == LWait)) begin
      if (prim == PRok)       tx_sent_o = SentOk;
      else if (prim == PRerr) tx_sent_o = SentError;
    end
  end

  // --- Received frames: a word is passed on when the next one shows that it is not the CRC ------------------------
  assign rx_start_o = (state_q == LRcvRdy) & (prim == PSof) & ~is_align & up_i;
  assign rx_valid_o = rx_word & held_q;
  assign rx_data_o  = word_q;
  assign rx_end_o   = ((state_q == LRcv) & (~up_i | (prim == PWtrm) | (prim == PSync) | (escape_i & (prim != PEof)))) | (state_q == LJudge);
  assign rx_good_o  = (state_q == LJudge) & good_q & up_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q     <= LIdle;
      last_sent_q <= 1'b0;
      held_q      <= 1'b0;
      bad_q       <= 1'b0;
    end else begin
      state_q <= state_d;
      if (to_sof)                 last_sent_q <= 1'b0;
      else if (take && tx_last_i) last_sent_q <= 1'b1;
      if (rx_start_o) begin
        held_q <= 1'b0;
        bad_q  <= 1'b0;
      end else if (rx_word) begin
        held_q <= 1'b1;
        bad_q  <= bad_q | damaged;
      end
    end
  end

  always_ff @(posedge clk_i) if (rx_word) word_q <= rx_word_q ^ scrambler_q.word;
endmodule
