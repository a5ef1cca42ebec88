// SPDX-License-Identifier: Apache-2.0 OR MIT
// prim_merge: an offer stays until it is taken; each entry is taken from exactly one side and is
// unchanged; a side that waits is served before the other is served twice.
module fv_merge #(
  parameter int unsigned Width = 4
) (
  input logic                  clk_i,
  input logic                  rst_ni,
  input logic [1:0]            valid_i,
  input logic [1:0][Width-1:0] data_i,
  input logic                  ready_i
);
  logic [1:0] ready_o;
  logic valid_o;
  logic [Width-1:0] data_o;

  prim_merge #(.Width(Width)) dut (.*);

  logic started_q, out_valid_q, out_ready_q, past_q;
  logic [1:0] valid_q, taken_q;
  logic [1:0][Width-1:0] data_q;
  logic [Width-1:0] out_q;
  logic [1:0] passed_q;  // this side waited while the other was served

  initial started_q = 1'b0;

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    past_q      <= rst_ni;
    valid_q     <= valid_i;
    data_q      <= data_i;
    taken_q     <= valid_i & ready_o;
    out_valid_q <= valid_o;
    out_ready_q <= ready_i;
    out_q       <= data_o;
    if (!rst_ni) begin
      passed_q <= '0;
      past_q   <= 1'b0;
    end else begin
      for (int i = 0; i < 2; i++) begin
        // Each side follows the rules of the ready/valid handshake.
        if (past_q && valid_q[i] && !taken_q[i]) begin
          assume (valid_i[i] && (data_i[i] == data_q[i]));
        end
        if (valid_i[i] && ready_o[i]) begin
          assert (valid_o && ready_i && (data_o == data_i[i]));
        end
        if (valid_i[i] && ready_o[1-i] && valid_i[1-i]) begin
          passed_q[i] <= 1'b1;
          assert (!passed_q[i]);
        end
        if (!valid_i[i] || ready_o[i]) passed_q[i] <= 1'b0;
        // For the induction: a side that was passed over still waits, and the other was served last.
        assert (!passed_q[i] || (valid_i[i] && (dut.last_q != 1'(i) || dut.held_q)));
        assert (!passed_q[i] || !dut.held_q || (dut.last_q == 1'(i)));
      end
      if (past_q) begin
        i_held: assert (dut.held_q == (out_valid_q && !out_ready_q));
        if (dut.held_q) i_choice: assert (valid_i[dut.last_q] && (data_i[dut.last_q] == out_q));
      end
      a_one:  assert (ready_o != 2'b11);
      a_some: assert (valid_o == (valid_i != '0));
      a_take: assert (((valid_i & ready_o) != '0) == (valid_o && ready_i));
      if (past_q && out_valid_q && !out_ready_q) a_stays: assert (valid_o && (data_o == out_q));
    end
  end
endmodule
