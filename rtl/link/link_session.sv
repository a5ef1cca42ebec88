// SPDX-License-Identifier: Apache-2.0 OR MIT
// Whether both sides have started from zero: a session begins when each has heard the other's greeting, and ends when one side
// greets again (it was reset) or nothing good is received for `2 ** DeadLog2` cycles.
//
// A side that has no session greets for twice that time without listening. So the other side hears it, or hears
// nothing and ends the session too, and what is still on the line has arrived: a session never takes in a frame of the one before.
// This needs a line whose delay, both ways together, is shorter than `2 ** DeadLog2` cycles.
//
// DeadLog2  log2 of the cycles without a good frame after which a session ends
module link_session
  import link_pkg::*;
#(
  parameter int unsigned DeadLog2 = 16
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic good_i,   // a good frame: the next two are from its header
  input  logic up_i,
  input  logic heard_i,

  output logic up_o,
  output logic heard_o
);
  logic [DeadLog2:0] cycles_q;
  logic deaf_q, greets;

  assign greets = good_i & ~up_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      up_o     <= 1'b0;
      heard_o  <= 1'b0;
      deaf_q   <= 1'b1;
      cycles_q <= '0;
    end else begin
      cycles_q <= cycles_q + (DeadLog2 + 1)'(1);
      if (up_o) begin
        if (good_i) cycles_q <= '0;
        if ((greets && !heard_i) || cycles_q[DeadLog2]) begin
          up_o     <= 1'b0;
          heard_o  <= 1'b0;
          deaf_q   <= 1'b1;
          cycles_q <= '0;
        end
      end else if (deaf_q) begin
        if (cycles_q == '1) deaf_q <= 1'b0;
      end else begin
        if (greets) heard_o <= 1'b1;
        if ((greets && heard_i) || (good_i && up_i && heard_o)) begin
          up_o     <= 1'b1;
          cycles_q <= '0;
        end
      end
    end
  end
endmodule
