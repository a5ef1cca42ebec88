// SPDX-License-Identifier: Apache-2.0 OR MIT
// Reads ahead of reads in order: makes the next pages present before they are asked for. Off while `pages_i` is zero.
//
// A read of the page behind the last one continues a run, any other page starts a new one. Follows one run. Its lookups come
// after those of accesses, its pages keep to the context's limit and rights, and a page that cannot be read is left to the
// access that needs it.
//
// PageLog2  log2 of a page's bytes
module smmu_ahead
  import smmu_pkg::*;
#(
  parameter int unsigned PageLog2 = 12
) (
  input  logic       clk_i,
  input  logic       rst_ni,
  input  logic [3:0] pages_i,     // how far

  input  answer_e    answer_i,
  input  access_t    answered_i,

  input  logic       ready_i,     // a walk and a read of the drive can begin
  output logic       valid_o,
  output access_t    access_o,
  input  logic       take_i
);
  page_t      last_q, next_q, page;
  context_t   context_q;
  logic [3:0] left_q;
  logic       read, run_q, same, follows, ready_q;

  assign page    = page_t'(answered_i.burst.address >> PageLog2);
  assign read    = (answer_i == AnswerGo) & ~answered_i.ahead & ~answered_i.write;
  assign same    = run_q & (context_q == answered_i.number) & (page == last_q);
  assign follows = run_q & (context_q == answered_i.number) & (page == (last_q + page_t'(1)));
  assign valid_o = (left_q != '0) & ready_q;

  always_comb begin
    access_o               = '0;
    access_o.slot          = slot_t'(Slots);
    access_o.ahead         = 1'b1;
    access_o.number        = context_q;
    access_o.burst.address = axi_pkg::address_t'(next_q) << PageLog2;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      left_q <= '0;
      run_q  <= 1'b0;
    end else if (read && !same) begin
      run_q <= 1'b1;
      // A run whose next page is already beyond: one page more.
      if (follows && (next_q > page)) left_q <= (left_q < pages_i) ? left_q + 4'd1 : pages_i;
      else                            left_q <= pages_i;
    end else if (answered_i.ahead && (answer_i == AnswerGo)) begin
      left_q <= (left_q == '0) ? '0 : left_q - 4'd1;
    end else if (answered_i.ahead && (answer_i == AnswerRefuse)) begin
      left_q <= '0;
    end
  end

  always_ff @(posedge clk_i) begin
    ready_q <= ready_i;
    if (read && !same) begin
      last_q    <= page;
      context_q <= answered_i.number;
      if (!follows || (next_q <= page)) next_q <= page + page_t'(1);
    end else if (answered_i.ahead && (answer_i == AnswerGo)) begin
      next_q <= next_q + page_t'(1);
    end
  end
endmodule
