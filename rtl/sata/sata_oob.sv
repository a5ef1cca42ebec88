// SPDX-License-Identifier: Apache-2.0 OR MIT
// Out-of-band signals (Serial ATA 3.x, clause "Out of band signaling"): six bursts with idle gaps between them. The
// length of the gaps distinguishes COMRESET and COMINIT from COMWAKE.
//
// Owns the signal being sent and the lengths of the last received gaps. Lengths are in dwords at 1.5 Gb/s (26.67 ns),
// one, two or four cycles of this clock, depending on the rate. A signal is detected after four consecutive gaps within
// the limits. The specification requires COMINIT 304 to 336 ns (never below 175 or above 525), COMWAKE 101.3 to 112 ns (never
// below 35 or above 175).
//
// InitGap, WakeGap          gaps that are sent
// InitLeast, InitMost, ...  limits of accepted gaps: at least the first, less than the second
module sata_oob
  import sata_pkg::*;
#(
  parameter int unsigned Bursts    = 6,
  parameter int unsigned Burst     = 4,
  parameter int unsigned InitGap   = 12,
  parameter int unsigned WakeGap   = 4,
  parameter int unsigned InitLeast = 9,
  parameter int unsigned InitMost  = 18,
  parameter int unsigned WakeLeast = 3,
  parameter int unsigned WakeMost  = 6
) (
  input  logic  clk_i,
  input  logic  rst_ni,
  input  rate_e rate_i,

  input  logic  idle_i,  // the line from the drive is idle
  output logic  init_o,  // COMINIT is being received
  output logic  wake_o,  // COMWAKE is being received

  input  logic  send_i,  // send one signal, then `done_o` until this falls
  input  logic  is_wake_i,
  output logic  burst_o,
  output logic  done_o
);
  typedef logic [6:0] length_t;

  function automatic length_t cycles(int unsigned dwords, rate_e at);
    return length_t'(dwords << at);
  endfunction

  // --- Received ----------------------------------------------------------------------------------------------------
  length_t    run_q;  // how long the line has been idle or active
  logic       line_q, is_init, is_wake;
  logic [2:0] inits_q, wakes_q;

  assign is_init = (run_q >= cycles(InitLeast, rate_i)) & (run_q < cycles(InitMost, rate_i));
  assign is_wake = (run_q >= cycles(WakeLeast, rate_i)) & (run_q < cycles(WakeMost, rate_i));
  assign init_o  = inits_q[2];
  assign wake_o  = wakes_q[2];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      run_q   <= '0;
      line_q  <= 1'b1;
      inits_q <= '0;
      wakes_q <= '0;
    end else begin
      line_q <= idle_i;
      if (idle_i != line_q) run_q <= length_t'(1);
      else if (run_q != '1) run_q <= run_q + length_t'(1);
      if (line_q && !idle_i) begin
        inits_q <= !is_init ? 3'd0 : (init_o ? inits_q : inits_q + 3'd1);
        wakes_q <= !is_wake ? 3'd0 : (wake_o ? wakes_q : wakes_q + 3'd1);
      end else if (run_q >= cycles(InitMost, rate_i)) begin
        inits_q <= '0;
        wakes_q <= '0;
      end
    end
  end

  // --- Sent --------------------------------------------------------------------------------------------------------
  length_t    left_q;
  logic [3:0] bursts_q;
  logic       gap_q, active_q;

  assign done_o  = active_q & (bursts_q == 4'(Bursts));
  assign burst_o = active_q & ~gap_q & ~done_o;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      left_q   <= '0;
      bursts_q <= '0;
      gap_q    <= 1'b0;
      active_q <= 1'b0;
    end else if (!send_i || !active_q) begin
      left_q   <= cycles(Burst, rate_i) - length_t'(1);
      bursts_q <= '0;
      gap_q    <= 1'b0;
      active_q <= send_i;
    end else if (!done_o) begin
      if (left_q != '0) begin
        left_q <= left_q - length_t'(1);
      end else begin
        gap_q  <= ~gap_q;
        left_q <= (gap_q ? cycles(Burst, rate_i) : cycles(is_wake_i ? WakeGap : InitGap, rate_i)) - length_t'(1);
        if (!gap_q) bursts_q <= bursts_q + 4'd1;
      end
    end
  end
endmodule
