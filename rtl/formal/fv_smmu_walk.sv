// SPDX-License-Identifier: Apache-2.0 OR MIT
// smmu_walk with smmu_pages (4 frames), and any jobs, accesses, commands, drives and memories: one page of one table, whichever it
// is. It is requested only into the frame that its entry names, never into two, and no other page into its frame; a translation
// is of the frame that it has; its entry names the same page of the drive again before its frame gets another page.
module fv_smmu_walk
  import smmu_pkg::*;
(
  input logic       clk_i,
  input logic       rst_ni,
  input logic       usable_i,
  input logic [3:0] blocks_i,       // of the drive
  input logic       job_valid_i,
  input logic       job_page_i,
  input logic       flush_i,
  input logic       drop_i,
  input logic       discard_i,
  input logic       touch_i,
  input logic       touch_write_i,
  input logic       touch_cancel_i,
  input logic [1:0] touch_frame_i,
  input logic       waits_i, reads_i, writes_i, fill_ready_i, write_ready_i, flush_ready_i, writes_idle_i,
  input logic [1:0] moved_i,
  input logic [1:0] moved_frame_i,
  input logic       moved_error_i,
  input logic       answer_i,       // the table's memory answers
  input logic       answer_error_i,
  input logic       answer_wrote_i, // a write that failed took effect
  input entry_t     answer_entry_i, // of another page
  input entry_t     first_i,        // of the watched page, as software wrote it
  input logic       watch_i         // which page
);
  localparam int unsigned Frames = 4;
  logic       started_q, watch_q, command_q;
  logic [3:0] blocks_q;
  initial started_q = 1'b0;

  // --- The walker and the states -------------------------------------------------------------------------
  job_t       job;
  page_op_e   op, walk_op;
  frame_t     op_frame, walk_frame, insert_frame;
  logic       pinned, force_op, grant, moves, touch, busy, insert, remove, done, writable;
  page_t      tlb_page;
  frames_t    dirty, failed;
  result_e    result;
  move_t      move;
  moved_t     moved;
  table_req_t table_req;
  table_rsp_t table_rsp;
  block_pkg::geometry_t geometry;

  always_comb begin
    job   = '{slot: '0, in: '0, page: page_t'(job_page_i)};
    moved = '{move: move_e'(moved_i), frame: frame_t'(moved_frame_i), number: '0, error: moved_error_i, status: block_pkg::StatusOk};
    if (busy && moved.move != MoveFlush) moved.move = MoveNone;
    moves = (moved.move == MoveFill) | (moved.move == MoveWrite);
    touch = touch_i & ~moves & (walk_op != PageClear) & ~busy;
    grant = ~moves & ~touch & ~busy;
    {op, op_frame} = {walk_op, walk_frame};
    if (touch) {op, op_frame} = {PageTouch, frame_t'(touch_frame_i)};
    if (moves) {op, op_frame} = {(moved.move == MoveFill) ? PageFilled : PageWritten, moved.frame};
    geometry = '0;
    geometry.block_count = block_pkg::lba_t'(blocks_q);
  end

  smmu_pages #(.Frames(Frames)) u_pages (
    .clk_i, .rst_ni, .op_i(op), .frame_i(op_frame), .force_i(force_op), .error_i(moved.error), .busy_o(busy), .pinned_i(pinned),
    .ready_i(write_ready_i), .usable_i, .cancel_i(touch_cancel_i), .write_i(touch_write_i), .state_o(), .result_o(result), .touched_o(), .dirty_o(dirty), .failed_o(failed)
  );

  smmu_walk #(.Frames(Frames), .PageLog2(12), .BlockSizeLog2(12), .Clears(Frames)) dut (
    .clk_i, .rst_ni, .started_o(), .frames_i(frames_t'(Frames)), .dirty_limit_i('0), .usable_i, .geometry_i(geometry),
    .job_valid_i, .job_i(job), .job_ready_o(), .ahead_ready_o(), .ended_o(), .bound_o(), .failed_o(), .walked_slot_o(),
    .walked_frame_o(), .walked_reason_o(), .event_o(), .flush_i(flush_i & ~drop_i), .drop_i, .discard_i(discard_i & drop_i),
    .done_o(done), .done_error_o(), .hold_o(), .hold_reads_o(), .hold_frame_o(), .op_o(walk_op), .op_frame_o(walk_frame),
    .op_force_o(force_op), .op_pinned_o(pinned), .op_grant_i(grant), .op_busy_i(busy), .op_result_i(result), .dirty_i(dirty), .failed_i(failed),
    .waits_i, .reads_i, .writes_i, .tlb_clear_o(), .tlb_insert_o(insert), .tlb_remove_o(remove), .tlb_in_o(),
    .tlb_page_o(tlb_page), .tlb_frame_o(insert_frame), .tlb_writable_o(writable), .move_o(move), .fill_ready_i, .write_ready_i,
    .flush_ready_i, .writes_idle_i, .moved_i(moved), .table_of_o(), .table_base_i('0), .table_o(table_req),
    .table_i(table_rsp), .walked_o()
  );

  // --- The table in memory ---------------------------------------------------------------------------------
  entry_t entry_q;
  logic   ours, answers;
  assign ours    = table_req.address == (axi_pkg::address_t'(watch_q) << 2);
  assign answers = table_req.valid & answer_i;
  assign table_rsp = '{done: answers, error: answer_error_i, entry: ours ? entry_q : answer_entry_i};

  // --- The watched page ------------------------------------------------------------------------------------
  logic    held_q, told_q, of_watched, fills;  // it has a frame; a translation names it
  frame_t  frame_q;
  number_t number_q;
  logic    writable_q;
  assign of_watched = dut.job_q.page == page_t'(watch_q);
  assign fills      = move.move == MoveFill;

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      {held_q, told_q} <= '0;
      watch_q  <= watch_i;
      entry_q  <= first_i;
      blocks_q <= blocks_i;
    end else begin
      // Software gives each page of the drive one entry, and a command stays until its end.
      command_q <= (flush_i | drop_i) & ~done;
      if (command_q) assume ((flush_i == $past(flush_i)) && (drop_i == $past(drop_i)) && (discard_i == $past(discard_i)));
      if (fills && of_watched) begin
        a_named: assert ((entry_q.kind == KindFrame) && (entry_q.number == number_t'(move.frame)));
        a_once:  assert (!held_q);
        {held_q, frame_q} <= {1'b1, move.frame};
        number_q   <= move.number;
        writable_q <= writable;
        a_drive: assert (move.number < number_t'(blocks_q));
      end
      if (fills && !of_watched) begin
        a_alone: assert (!held_q || (move.frame != frame_q));
        a_stale: assert (!told_q || (move.frame != frame_q));
      end
      if (move.move == MoveWrite && held_q && (move.frame == frame_q)) a_home: assert (move.number == number_q);
      if (insert && (tlb_page == page_t'(watch_q))) begin
        told_q <= 1'b1;
        a_told: assert ((held_q && (insert_frame == frame_q)) || (fills && (insert_frame == move.frame)));
      end
      if (remove && (tlb_page == page_t'(watch_q))) told_q <= 1'b0;
      if (answers && table_req.write && ours) begin
        if (!answer_error_i || answer_wrote_i) entry_q <= table_req.entry;
        if (table_req.entry.kind == KindDrive) begin
          a_again: assert (held_q && (table_req.entry.number == number_q) && (table_req.entry.writable == writable_q));
          held_q <= 1'b0;
        end
      end
    end
  end
endmodule
