// SPDX-License-Identifier: Apache-2.0 OR MIT
// Tracks the queued commands: which tags are taken, have all their data, or were ended by the drive.
//
// Owns these bits, the direction and the length of each tag. A tag ends once: by the drive (`done_i`, then offered as
// `rsp_*`) or by the command layer (`drop_i`).
module sata_tags
  import block_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,

  input  logic         take_i,
  input  tag_t         take_tag_i,
  input  logic         take_read_i,
  input  logic [15:0]  take_count_i,

  input  tag_t         look_tag_i,
  output logic         look_open_o,   // taken, and its data are incomplete
  output logic         look_read_o,
  output logic [15:0]  look_count_o,

  input  logic         full_i,        // this tag's data are complete
  input  tag_t         full_tag_i,

  input  logic         done_valid_i,  // the drive ended these
  input  logic [31:0]  done_i,
  output logic         wrong_o,       // one of them does not have all its data

  output logic         any_o,         // a tag is taken
  output tag_t         any_tag_o,     // one that the drive has not ended; valid while `rsp_valid_o` is low
  input  logic         drop_i,
  input  tag_t         drop_tag_i,

  output logic         rsp_valid_o,   // the drive has ended `rsp_tag_o`
  output tag_t         rsp_tag_o,
  input  logic         rsp_ready_i
);
  function automatic logic [2:0] lowest(logic [7:0] bits);
    lowest = '0;
    for (int unsigned i = 8; i > 0; i--) if (bits[i-1]) lowest = 3'(i - 1);
  endfunction

  logic [NumTags-1:0] taken_q, full_q, ended_q, read_q, pick;
  logic [15:0] count_q [NumTags];

  always_ff @(posedge clk_i) begin
    look_open_o  <= taken_q[look_tag_i] & ~full_q[look_tag_i];
    look_read_o  <= read_q[look_tag_i];
    look_count_o <= count_q[look_tag_i];
  end
  assign wrong_o      = done_valid_i & (|(done_i & taken_q & ~full_q));
  assign any_o        = |taken_q;
  assign rsp_valid_o  = |ended_q;
  assign pick         = rsp_valid_o ? ended_q : taken_q;

  // The lowest of them, by groups of eight.
  always_comb begin
    rsp_tag_o = '0;
    for (int unsigned group = NumTags / 8; group > 0; group--) begin
      if (pick[8*(group-1)+:8] != '0) rsp_tag_o = {(TagWidth - 3)'(group - 1), lowest(pick[8*(group-1)+:8])};
    end
  end
  assign any_tag_o = rsp_tag_o;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      taken_q <= '0;
      ended_q <= '0;
    end else begin
      if (done_valid_i) ended_q <= ended_q | (done_i & taken_q & full_q);
      if (rsp_valid_o && rsp_ready_i) begin
        ended_q[rsp_tag_o] <= 1'b0;
        taken_q[rsp_tag_o] <= 1'b0;
      end
      if (drop_i) taken_q[drop_tag_i] <= 1'b0;
      if (take_i) taken_q[take_tag_i] <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (full_i) full_q[full_tag_i] <= 1'b1;
    if (take_i) begin
      full_q[take_tag_i]  <= 1'b0;
      read_q[take_tag_i]  <= take_read_i;
      count_q[take_tag_i] <= take_count_i;
    end
  end
endmodule
