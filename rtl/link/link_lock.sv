// SPDX-License-Identifier: Apache-2.0 OR MIT
// Finds the blocks' boundaries (IEEE 802.3, clause 49, block lock): locked after 64 correct synchronisation headers in a row, not
// locked after 16 wrong ones among 64. While not locked, each wrong header moves the boundary by a bit.
//
// A PHY may take up to `SlipBlocks` blocks to move the boundary: blocks in between are not examined.
//
// SlipBlocks  a power of two
module link_lock
  import link_pkg::*;
#(
  parameter int unsigned SlipBlocks = 32
) (
  input  logic       clk_i,
  input  logic       rst_ni,

  input  logic       valid_i,
  input  logic [1:0] sync_i,

  output logic       locked_o,
  output logic       slip_o    // one cycle: move the boundary by a bit
);
  localparam int unsigned SlipWidth = $clog2(SlipBlocks);

  logic [5:0] headers_q;
  logic [3:0] wrong_q;
  logic [SlipWidth:0] wait_q;  // its highest bit: nothing to wait for
  logic is_wrong, lose, full;

  assign is_wrong = sync_i[1] == sync_i[0];
  assign lose     = is_wrong & (~locked_o | (wrong_q == '1));
  assign full     = headers_q == '1;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      locked_o  <= 1'b0;
      slip_o    <= 1'b0;
      headers_q <= '0;
      wrong_q   <= '0;
      wait_q    <= '0;
    end else begin
      slip_o <= 1'b0;
      if (valid_i && !wait_q[SlipWidth]) begin
        wait_q <= wait_q + (SlipWidth + 1)'(1);
      end else if (valid_i) begin
        headers_q <= headers_q + 6'd1;
        wrong_q   <= full ? '0 : wrong_q + 4'(is_wrong);
        if (full && !is_wrong && (wrong_q == '0)) locked_o <= 1'b1;
        if (lose) begin
          locked_o  <= 1'b0;
          slip_o    <= 1'b1;
          headers_q <= '0;
          wrong_q   <= '0;
          wait_q    <= '0;
        end
      end
    end
  end
endmodule
