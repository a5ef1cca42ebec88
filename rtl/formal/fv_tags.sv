// SPDX-License-Identifier: Apache-2.0 OR MIT
// sata_tags: for any Set Device Bits of the drive, repeated or not, a queued command ends exactly once: it is offered as
// ended only if it is outstanding, its data are complete and the drive has ended it; and no ended command is lost.
module fv_tags
  import block_pkg::*;
(
  input logic        clk_i,
  input logic        rst_ni,
  input logic        take_i,
  input tag_t        take_tag_i,
  input logic        full_i,
  input tag_t        full_tag_i,
  input logic        done_valid_i,
  input logic [31:0] done_i,
  input logic        drop_i,
  input logic        rsp_ready_i,
  input tag_t        any_tag_i
);
  logic look_open, wrong, any, rsp_valid;
  tag_t any_tag, rsp_tag, mark_q;

  sata_tags dut (
    .clk_i, .rst_ni, .take_i, .take_tag_i, .take_read_i(1'b0), .take_count_i('0), .look_tag_i(mark_q),
    .look_open_o(look_open), .look_read_o(), .look_count_o(), .full_i, .full_tag_i, .done_valid_i, .done_i,
    .wrong_o(wrong), .any_o(any), .any_tag_o(any_tag), .drop_i, .drop_tag_i(any_tag), .rsp_valid_o(rsp_valid),
    .rsp_tag_o(rsp_tag), .rsp_ready_i
  );

  // The proof follows one arbitrary tag.
  logic started_q, open_q, full_q, named_q, ends;
  logic was_open_q;  // the answer about a tag is there a cycle later
  logic [31:0] taken_q, complete_q;
  initial started_q = 1'b0;
  assign ends = (rsp_valid & rsp_ready_i & (rsp_tag == mark_q)) | (drop_i & (any_tag == mark_q));

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      mark_q     <= any_tag_i;
      open_q     <= 1'b0;
      named_q    <= 1'b0;
      was_open_q <= 1'b0;
      taken_q    <= '0;
      complete_q <= '0;
    end else begin
      // The command layer takes a free tag, completes its data once, and drops commands that the drive has not ended last.
      assume (!take_i || !taken_q[take_tag_i]);
      assume (!full_i || (taken_q[full_tag_i] && !complete_q[full_tag_i]));
      assume (!drop_i || (any && !rsp_valid && !take_i && !full_i && !done_valid_i));
      if (rsp_valid && rsp_ready_i) taken_q[rsp_tag] <= 1'b0;
      if (drop_i) taken_q[any_tag] <= 1'b0;
      if (take_i) begin
        taken_q[take_tag_i]    <= 1'b1;
        complete_q[take_tag_i] <= 1'b0;
      end
      if (full_i) complete_q[full_tag_i] <= 1'b1;

      if (rsp_valid && (rsp_tag == mark_q)) a_under_way: assert (open_q && full_q && named_q);
      if (drop_i && (any_tag == mark_q))    a_dropped_once: assert (open_q);
      if (open_q)                           a_known: assert (any);
      if (named_q)                          a_not_forgotten: assert (rsp_valid);
      a_open: assert (look_open == was_open_q);
      was_open_q <= open_q && !full_q;
      if (done_valid_i && done_i[mark_q] && open_q && !full_q) a_told: assert (wrong);

      if (ends) begin
        open_q  <= 1'b0;
        named_q <= 1'b0;
      end else if (done_valid_i && done_i[mark_q] && open_q && full_q) begin
        named_q <= 1'b1;
      end
      if (full_i && (full_tag_i == mark_q)) full_q <= 1'b1;
      if (take_i && (take_tag_i == mark_q)) begin
        open_q <= 1'b1;
        full_q <= 1'b0;
      end
    end
  end
endmodule
