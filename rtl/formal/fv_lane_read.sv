// SPDX-License-Identifier: Apache-2.0 OR MIT
// raid_lane_read: for any order in which a disk serves its reads, and for any pauses, the data and
// results of the pieces leave in the order in which the pieces arrived.
//
// Pieces are numbered in this order. The disk's words consist of the piece's number and the word's
// position, so the outgoing words must count up. The disk may serve any open slot; a piece has one or two words.
module fv_lane_read
  import block_pkg::*;
  import raid_pkg::*;
#(
  parameter int unsigned Slots = 2
) (
  input logic clk_i,
  input logic rst_ni,
  input logic take_i,
  input logic two_i,     // the piece has two words
  input logic ready_i,
  input logic retire_i,
  input logic read_valid_i,
  input logic slot_i,    // the slot that the disk serves now
  input logic rsp_valid_i,
  input logic rsp_slot_i
);
  logic free, valid, result_valid;
  logic [7:0] data;
  tag_t tag;
  result_t result;
  typedef struct packed { logic [3:0] number; logic two; logic sent; logic open; } slot_t;
  slot_t slots_q [Slots];
  logic [3:0] taken_q, left_q, retired_q;
  logic [7:0] two_q;  // of the pieces by number, for the output
  logic word_q, in_word_q;
  logic serving_q;
  logic serving_slot_q;
  logic last;

  assign last = in_word_q == slots_q[slot_i].two;

  raid_lane_read #(.UpWidth(8), .DiskWidth(8), .SlotWords(2), .Slots(Slots)) dut (
    .clk_i, .rst_ni, .free_o(free), .take_i, .take_extra_i(1'b0),
    .words_i(two_i ? count_t'(2) : count_t'(1)), .tag_o(tag),
    .select_i(1'b1), .extra_i(1'b0), .valid_o(valid), .ready_i, .data_o(data), .bad_o(), .drop_i(1'b0),
    .result_valid_o(result_valid), .result_o(result), .retire_i,
    .read_valid_i, .read_ready_o(), .read_i('{tag: tag_t'(slot_i), last: last}),
    .read_data_i({3'b101, slots_q[slot_i].number, in_word_q}),
    .rsp_valid_i, .rsp_i('{tag: tag_t'(rsp_slot_i), status: StatusOk, detail: 16'(slots_q[rsp_slot_i].number)})
  );

  logic started_q;
  initial started_q = 1'b0;

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      taken_q   <= '0;
      left_q    <= '0;
      retired_q <= '0;
      word_q    <= 1'b0;
      in_word_q <= 1'b0;
      serving_q <= 1'b0;
      for (int i = 0; i < Slots; i++) slots_q[i] <= '0;
    end else begin
      // The user takes a free slot, and retires a result whose data have left.
      assume (!take_i || free);
      assume (!retire_i || (result_valid && (retired_q != left_q)));
      // The disk serves an open slot whose words are not all sent, up to its last word; then it responds.
      if (read_valid_i) begin
        assume (slots_q[slot_i].open && !slots_q[slot_i].sent);
        assume (!serving_q || (slot_i == serving_slot_q));
      end
      if (rsp_valid_i) assume (slots_q[rsp_slot_i].open && slots_q[rsp_slot_i].sent);

      if (take_i) begin
        a_slot_closed: assert (!slots_q[tag[0]].open);
        slots_q[tag[0]] <= '{number: taken_q, two: two_i, sent: 1'b0, open: 1'b1};
        two_q[taken_q[2:0]] <= two_i;
        taken_q <= taken_q + 4'd1;
      end
      if (read_valid_i) begin
        in_word_q      <= last ? 1'b0 : 1'b1;
        serving_q      <= ~last;
        serving_slot_q <= slot_i;
        if (last) slots_q[slot_i].sent <= 1'b1;
      end
      if (rsp_valid_i) slots_q[rsp_slot_i].open <= 1'b0;

      if (valid) begin
        a_order: assert (data == {3'b101, left_q, word_q});
        a_taken: assert (left_q != taken_q);
        if (ready_i) begin
          word_q <= (word_q == two_q[left_q[2:0]]) ? 1'b0 : 1'b1;
          if (word_q == two_q[left_q[2:0]]) left_q <= left_q + 4'd1;
        end
      end
      if (result_valid && (retired_q != left_q)) begin
        a_result: assert (result.detail == 16'(retired_q));
      end
      if (retire_i) retired_q <= retired_q + 4'd1;
    end
  end
endmodule
