// SPDX-License-Identifier: Apache-2.0 OR MIT
// The PHY of a Serial ATA host, up to the transceiver's parallel side: brings the link up and monitors it
// (Serial ATA 3.x, clause "Phy initialization state machine", host), encodes, decodes, crosses from the recovered clock.
//
// Owns the rate and the state of the link. Begins at `Fastest`; if no ALIGN arrives within 873.8 us it restarts at the
// next slower rate, and after `Slowest` at `Fastest`. An unexpected COMINIT (a drive was plugged in or restarted), an
// idle line and words that cannot be aligned end the link; so does `reset_i`.
//
// ALIGN does not cross from the recovered clock: without it, the queue gets 8 in 1,000 words less than the line carries,
// and the clock of a drive with spread spectrum is at most 6 in 1,000 fast. When the queue is empty, the core gets an ALIGN.
//
// The transceiver's data are 40 bits per cycle, bit 0 first on the line, encoded and unaligned; see README.md.
//
// RetryDwords  time between COMRESETs while no drive answers; all times are in dwords at 1.5 Gb/s, here 10 ms
// AlignDwords  the longest time that the drive may take to answer after COMWAKE
// LostDwords   the longest time without alignment
module sata_phy
  import sata_pkg::*;
#(
  parameter int unsigned Fastest     = 2,
  parameter int unsigned Slowest     = 0,
  parameter int unsigned RetryDwords = 375_000,
  parameter int unsigned AlignDwords = 32_768,
  parameter int unsigned LostDwords  = 2_048
) (
  input  logic        clk_i,      // 37.5, 75 or 150 MHz, by `rate_i`
  input  logic        rst_ni,

  // The link layer.
  output logic        up_o,
  input  logic        reset_i,    // COMRESET, until `up_o` falls
  output rx_word_t    rx_o,
  input  word_t       tx_i,
  output phy_phase_e  phase_o,
  output logic        damaged_o,  // a word of a link that is up was damaged

  // The transceiver.
  output rate_e       rate_o,     // the requested rate ...
  input  rate_e       rate_i,     // ... and the current rate of `clk_i` and both directions
  output logic [39:0] tx_bits_o,
  output logic        tx_idle_o,
  input  logic        rx_clk_i,
  input  logic        rx_rst_ni,
  input  logic [39:0] rx_bits_i,
  input  logic        rx_idle_i   // squelched; in any clock
);
  // What the parameters must be.
  if (Fastest > 2) begin : gen_bad_fastest
    $error("Fastest is %0d: 0 to 2", Fastest);
  end
  if (Slowest > Fastest) begin : gen_bad_slowest
    $error("Slowest is %0d: 0 to Fastest", Slowest);
  end
  if (RetryDwords < 1) begin : gen_bad_retry_dwords
    $error("RetryDwords is %0d: 1 or more", RetryDwords);
  end
  if (AlignDwords < 1) begin : gen_bad_align_dwords
    $error("AlignDwords is %0d: 1 or more", AlignDwords);
  end
  if (LostDwords < 1) begin : gen_bad_lost_dwords
    $error("LostDwords is %0d: 1 or more", LostDwords);
  end

  import sata_code_pkg::*;

  // Longer than the gaps of COMINIT, so that those are detected.
  localparam int unsigned QuietDwords = 24;
  localparam int unsigned TimerWidth  = $clog2(RetryDwords + AlignDwords + 1);
  typedef logic [TimerWidth-1:0] timer_t;

  // --- From the line's clock ---------------------------------------------------------------------------------------
  logic     line_locked, line_valid, fifo_valid;
  rx_word_t line_word, fifo_word;

  sata_phy_rx u_rx (
    .clk_i(rx_clk_i), .rst_ni(rx_rst_ni), .bits_i(rx_bits_i), .idle_i(rx_idle_i), .locked_o(line_locked),
    .valid_o(line_valid), .word_o(line_word)
  );
  prim_fifo_async #(.Width($bits(rx_word_t)), .Depth(8)) u_elastic (
    .write_clk_i(rx_clk_i), .write_rst_ni(rx_rst_ni), .write_valid_i(line_valid), .write_ready_o(),
    .write_data_i(line_word), .read_clk_i(clk_i), .read_rst_ni(rst_ni), .read_valid_o(fifo_valid),
    .read_ready_i(1'b1), .read_data_o(fifo_word)
  );

  (* ASYNC_REG = "TRUE" *) logic [1:0] locked_q, idle_q;
  logic locked, idle;
  assign locked = locked_q[1] & ~idle;
  assign idle   = idle_q[1];
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      locked_q <= '0;
      idle_q   <= '1;
    end else begin
      locked_q <= {locked_q[0], line_locked};
      idle_q   <= {idle_q[0], rx_idle_i};
    end
  end

  always_ff @(posedge clk_i) rx_o <= fifo_valid ? fifo_word : '{bad: 1'b0, word: '{k: 1'b1, data: Align}};
  assign damaged_o = up_o & rx_o.bad;

  // --- Initialisation ----------------------------------------------------------------------------------------------
  phy_phase_e phase_q, phase_d;
  rate_e      rate_q, rate_d;
  timer_t     timer_q;
  logic [1:0] part_q, words_q;
  logic       tick, init, wake, send, sent, burst, lost, is_settled;

  assign is_settled = rate_i == rate_q;
  assign send       = ((phase_q == PhyReset) & is_settled) | (phase_q == PhyWake);

  sata_oob u_oob (
    .clk_i, .rst_ni, .rate_i, .idle_i(idle), .init_o(init), .wake_o(wake), .send_i(send),
    .is_wake_i(phase_q == PhyWake), .burst_o(burst), .done_o(sent)
  );

  assign lost    = (idle & (timer_q >= timer_t'(QuietDwords))) | (timer_q == timer_t'(LostDwords));
  assign up_o    = phase_q == PhyReady;
  assign phase_o = phase_q;
  assign rate_o  = rate_q;

  always_comb begin
    phase_d = phase_q;
    rate_d  = rate_q;
    unique case (phase_q)
      PhyReset:      if (sent && !reset_i) phase_d = PhyAwaitInit;
      PhyAwaitInit: begin
        if (init) begin
          phase_d = PhyInit;
        end else if (timer_q == timer_t'(RetryDwords)) begin
          phase_d = PhyReset;
          rate_d  = rate_e'(Fastest);
        end
      end
      PhyInit:       if (!init && is_settled) phase_d = PhyWake;
      PhyWake:       if (sent) phase_d = PhyAwaitWake;
      PhyAwaitWake:  if (wake) phase_d = PhyAwoken;
      PhyAwoken:     if (!wake) phase_d = PhyAwaitAlign;
      PhyAwaitAlign: if (locked) phase_d = PhySendAlign;
      PhySendAlign:  if (words_q == 2'd3) phase_d = PhyReady;
      default: begin
        if (lost || reset_i) phase_d = PhyReset;
        if (init)            phase_d = PhyInit;
        if (phase_d != PhyReady) rate_d = rate_e'(Fastest);
      end
    endcase
    if ((phase_q == PhyAwaitWake) || (phase_q == PhyAwaitAlign) || (phase_q == PhySendAlign)) begin
      if (init) begin
        phase_d = PhyInit;
      end else if (timer_q == timer_t'(AlignDwords)) begin
        phase_d = PhyReset;
        if (phase_q != PhyAwaitWake) rate_d = (rate_q == rate_e'(Slowest)) ? rate_e'(Fastest) : rate_e'(rate_q - 2'd1);
      end
    end
  end

  assign tick = part_q == 2'((32'd1 << rate_i) - 32'd1);
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      phase_q <= PhyReset;
      rate_q  <= rate_e'(Fastest);
      timer_q <= '0;
      part_q  <= '0;
      words_q <= '0;
    end else begin
      phase_q <= phase_d;
      rate_q  <= rate_d;
      part_q  <= tick ? 2'd0 : part_q + 2'd1;
      if ((phase_d != phase_q) || (up_o && locked)) timer_q <= '0;
      else if (tick && (timer_q != '1))             timer_q <= timer_q + timer_t'(1);
      if (phase_q != PhySendAlign) words_q <= '0;
      else if (fifo_valid)         words_q <= (fifo_word.bad | ~fifo_word.word.k) ? 2'd0 : words_q + 2'd1;
    end
  end

  // --- Sent --------------------------------------------------------------------------------------------------------
  // Bursts (D24.3), and the D10.2 that is sent until the drive's ALIGN, have the bit rate of 1.5 Gb/s at every rate.
  logic [39:0] slow, words;
  logic        positive_q, positive_d, half_q;
  symbol_t     symbol;
  word_t       word;

  always_comb begin
    unique case (rate_i)
      Rate1500: slow = burst ? {10{4'b0011}} : {20{2'b10}};
      Rate3000: slow = burst ? {5{8'h0F}} : {10{4'b1100}};
      default:  slow = burst ? {8'hFF, 8'h00, 8'hFF, 8'h00, 8'hFF} ^ {40{half_q}} : {5{8'hF0}};
    endcase
    word = up_o ? tx_i : '{k: 1'b1, data: Align};
    positive_d = positive_q;
    for (int unsigned i = 0; i < 4; i++) begin
      symbol          = encode(word.k & (i == 0), word.data[8*i+:8], positive_d);
      positive_d      = symbol.positive;
      words[10*i+:10] = symbol.bits;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      tx_idle_o  <= 1'b1;
      positive_q <= 1'b0;
      half_q     <= 1'b0;
    end else begin
      tx_idle_o  <= ~(burst | (phase_q == PhyAwaitAlign) | (phase_q == PhySendAlign) | up_o);
      positive_q <= positive_d;
      half_q     <= ~half_q;
    end
  end
  always_ff @(posedge clk_i) tx_bits_o <= ((phase_q == PhySendAlign) || up_o) ? words : slow;
endmodule
