// SPDX-License-Identifier: Apache-2.0 OR MIT
// A storage memory management unit: a window of an AXI4 bus through which masters load from and store to a drive.
//
// A page of the window that is accessed is read from the drive into a frame in memory, the access goes on to the frame, and
// so do later ones, without the drive. README.md describes the tables, the registers, the errors and the limits.
//
// Two manager ports: `data_o` has the window's accesses and nothing else, `move_o` has pages and tables. A master that stalls
// its own reads stalls the first port only.
//
// DataWidth      bits of the window, of both manager ports and of the block interface, 32 to 256
// PageLog2       log2 of a page's bytes, 12 to 16
// BlockSizeLog2  log2 of the drive's block in bytes, 6 to PageLog2
// Frames         number of frames, a power of two, 4 to 4096
// TlbEntries     pages that are translated without a walk, a power of two, 16 or more
// WindowBits     bits of the window's addresses, PageLog2 + 1 to 40
module smmu
  import smmu_pkg::*;
  import block_pkg::*;
#(
  parameter int unsigned DataWidth     = 32,
  parameter int unsigned PageLog2      = 12,
  parameter int unsigned BlockSizeLog2 = 9,
  parameter int unsigned Frames        = 1024,
  parameter int unsigned TlbEntries    = 64,
  parameter int unsigned WindowBits    = 40
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,

  input  axil_pkg::manager_t     axil_i,
  output axil_pkg::subordinate_t axil_o,
  output logic                   irq_o,

  input  master_t                window_i,
  input  logic [DataWidth-1:0]   window_write_data_i,
  input  logic [DataWidth/8-1:0] window_write_strobe_i,
  output window_t                window_o,
  output logic [DataWidth-1:0]   window_read_data_o,

  output axi_pkg::manager_t      data_o,
  output logic [1:0]             data_aw_burst_o,  // the burst types of data_o
  output logic [1:0]             data_ar_burst_o,
  output logic [DataWidth-1:0]   data_write_data_o,
  output logic [DataWidth/8-1:0] data_write_strobe_o,
  input  axi_pkg::memory_t       data_i,
  input  logic [DataWidth-1:0]   data_read_data_i,

  output axi_pkg::manager_t      move_o,
  output logic [DataWidth-1:0]   move_write_data_o,
  output logic [DataWidth/8-1:0] move_write_strobe_o,
  input  axi_pkg::memory_t       move_i,
  input  logic [DataWidth-1:0]   move_read_data_i,

  input  geometry_t              geometry_i,
  output host_t                  host_o,
  output logic [DataWidth-1:0]   write_data_o,
  input  dev_t                   dev_i,
  input  logic [DataWidth-1:0]   read_data_i
);
  // What the parameters must be.
  if ((DataWidth < 32) || (DataWidth > 256) || ((DataWidth & (DataWidth - 1)) != 0)) begin : gen_bad_data_width
    $error("DataWidth is %0d: a power of two from 32 to 256", DataWidth);
  end
  if ((PageLog2 < 12) || (PageLog2 > 16)) begin : gen_bad_page_log2
    $error("PageLog2 is %0d: 12 to 16", PageLog2);
  end
  if ((BlockSizeLog2 < 6) || (BlockSizeLog2 > PageLog2)) begin : gen_bad_block_size_log2
    $error("BlockSizeLog2 is %0d: 6 to PageLog2", BlockSizeLog2);
  end
  if ((Frames < 4) || (Frames > 4096) || ((Frames & (Frames - 1)) != 0)) begin : gen_bad_frames
    $error("Frames is %0d: a power of two from 4 to 4096", Frames);
  end
  if ((TlbEntries < 16) || (TlbEntries > 1024) || ((TlbEntries & (TlbEntries - 1)) != 0)) begin : gen_bad_tlb_entries
    $error("TlbEntries is %0d: a power of two from 16 to 1024", TlbEntries);
  end
  if ((WindowBits < (PageLog2 + 1)) || (WindowBits > 40)) begin : gen_bad_window_bits
    $error("WindowBits is %0d: PageLog2 + 1 to 40", WindowBits);
  end

  // --- Registers -------------------------------------------------------------------------------------
  logic started, ready, enabled, usable, flush, drop, discard, done, done_error, report;
  axi_pkg::address_t base, table_base;
  frames_t  frames, dirty_limit, dirty, failed;
  logic [3:0] ahead_pages;
  context_t context_number;
  rights_t  rights, allowed;
  table_t   table_of;
  report_t  reported;
  logic [3:0] counts;

  // The drive's shape is constant while it is there, and another drive has another generation: a cycle late is early enough.
  logic shape_q;
  assign ready = geometry_i.ready & shape_q;
  always_ff @(posedge clk_i) begin
    shape_q <= (geometry_i.block_size_log2 == 5'(BlockSizeLog2)) &
               (geometry_i.max_transfer_blocks >= count_t'(1 << (PageLog2 - BlockSizeLog2)));
  end

  smmu_regs #(.Frames(Frames), .PageLog2(PageLog2), .WindowBits(WindowBits)) u_regs (
    .clk_i, .rst_ni, .axil_i, .axil_o, .irq_o, .started_i(started), .ready_i(ready), .generation_i(geometry_i.generation),
    .enabled_o(enabled), .usable_o(usable), .frames_base_o(base), .frames_o(frames), .dirty_limit_o(dirty_limit),
    .ahead_o(ahead_pages), .flush_o(flush), .drop_o(drop), .discard_o(discard), .done_i(done), .done_error_i(done_error),
    .dirty_i(dirty), .failed_i(failed), .context_i(context_number), .rights_o(rights), .table_i(table_of),
    .table_base_o(table_base), .report_i(report), .reported_i(reported), .counts_i(counts)
  );

  always_comb begin
    allowed       = rights;
    allowed.write = rights.write & ~(geometry_i.ready & geometry_i.read_only);
  end

  // --- The window and what is read ahead -------------------------------------------------------------
  logic    window_some, window_valid, ahead_valid, take, bind_wait, bound, walk_ends, walk_failed, step, waits, reads, writes, ahead_ready;
  access_t window_access, ahead_access, answered;
  answer_e answer;
  frame_t  answered_frame, walked_frame, op_frame, walk_frame;
  slot_t   walked_slot;
  reason_e walked_reason;
  logic    for_window, job_valid, job_ready;
  assign for_window = walked_slot < slot_t'(Slots);

  smmu_window #(.DataWidth(DataWidth), .PageLog2(PageLog2)) u_window (
    .clk_i, .rst_ni, .frames_i(base), .window_i, .write_data_i(window_write_data_i),
    .write_strobe_i(window_write_strobe_i), .window_o, .read_data_o(window_read_data_o), .data_o,
    .data_aw_burst_o, .data_ar_burst_o, .data_write_o(data_write_data_o), .data_strobe_o(data_write_strobe_o), .data_i,
    .data_read_i(data_read_data_i),
    .some_o(window_some), .valid_o(window_valid), .access_o(window_access), .take_i(take & window_some), .answer_i(answer),
    .answered_i(answered), .frame_i(answered_frame), .bind_i(bind_wait),
    .asked_i(job_valid & job_ready), .walked_i(walk_ends & for_window), .bound_i(bound & for_window),
    .failed_i(walk_failed & for_window), .walked_slot_i(walked_slot), .walked_frame_i(walked_frame),
    .walked_reason_i(walked_reason), .event_i(step), .user_i(walk_frame), .waits_o(waits), .reads_o(reads),
    .writes_o(writes), .idle_o()
  );

  smmu_ahead #(.PageLog2(PageLog2)) u_ahead (
    .clk_i, .rst_ni, .pages_i(ahead_pages), .answer_i(answer), .answered_i(answered), .ready_i(ahead_ready),
    .valid_o(ahead_valid), .access_o(ahead_access), .take_i(take & ~window_some)
  );

  // --- Translation -----------------------------------------------------------------------------------
  logic    tlb_hit, tlb_writable, tlb_busy, clear, insert, remove, walk_tlb, insert_writable, touch, cancel, hold, hold_reads, refused;
  table_t  look_in, walk_in;
  page_t   look_page, walk_page;
  frame_t  tlb_frame, touch_frame, insert_frame, hold_frame;
  job_t    job;
  result_e result, touched;
  report_t refusal;
  moved_t  moved;
  logic    moves, pages_busy;
  assign walk_tlb = clear | insert | remove | tlb_busy;
  assign moves = (moved.move == MoveFill) | (moved.move == MoveWrite);

  smmu_look #(.WindowBits(WindowBits), .WordLog2($clog2(DataWidth / 8)), .PageLog2(PageLog2)) u_look (
    .clk_i, .rst_ni, .enabled_i(enabled), .valid_i(started & (window_some ? window_valid : ahead_valid)),
    .access_i(window_some ? window_access : ahead_access), .take_o(take), .answer_o(answer), .answered_o(answered),
    .frame_o(answered_frame), .bind_o(bind_wait), .context_o(context_number), .rights_i(allowed),
    .tlb_busy_i(walk_tlb), .tlb_in_o(look_in), .tlb_page_o(look_page), .tlb_hit_i(tlb_hit),
    .tlb_frame_i(tlb_frame), .tlb_writable_i(tlb_writable), .touch_o(touch),
    .touch_frame_o(touch_frame), .cancel_o(cancel), .pages_ready_i(~moves & ~pages_busy), .touched_i(touched), .hold_i(hold), .hold_reads_i(hold_reads), .hold_frame_i(hold_frame),
    .job_valid_o(job_valid), .job_o(job), .job_ready_i(job_ready), .report_o(refused), .reported_o(refusal)
  );

  smmu_tlb #(.Entries(TlbEntries), .Frames(Frames)) u_tlb (
    .clk_i, .rst_ni, .look_i(take), .look_in_i(look_in), .look_page_i(look_page), .in_i(walk_in), .page_i(walk_page),
    .hit_o(tlb_hit), .frame_o(tlb_frame), .writable_o(tlb_writable), .clear_i(clear), .insert_i(insert), .remove_i(remove),
    .frame_i(insert_frame), .writable_i(insert_writable), .busy_o(tlb_busy)
  );

  // --- Pages: what has been moved comes first, then accesses, then the walker --------------------------
  page_op_e op, walk_op;
  logic     walk_pinned, walk_force, grant, fill_ready, write_ready, flush_ready, writes_idle;
  assign grant = ~moves & ~touch & ~pages_busy;
  always_comb begin
    {op, op_frame} = {walk_op, walk_frame};
    if (moves) {op, op_frame} = {(moved.move == MoveFill) ? PageFilled : PageWritten, moved.frame};
    // Its frame comes last, from the TLB.
    if (touch) {op, op_frame} = {PageTouch, touch_frame};
  end

  smmu_pages #(.Frames(Frames)) u_pages (
    .clk_i, .rst_ni, .op_i(op), .frame_i(op_frame), .force_i(walk_force), .error_i(moved.error), .busy_o(pages_busy),
    .pinned_i(walk_pinned), .ready_i(write_ready), .usable_i(usable), .cancel_i(cancel), .write_i(answered.write), .state_o(),
    .result_o(result), .touched_o(touched), .dirty_o(dirty), .failed_o(failed)
  );

  // --- The walker and what moves -----------------------------------------------------------------------
  table_req_t table_req;
  table_rsp_t table_rsp;
  move_t      move;
  logic       walked;

  smmu_walk #(.Frames(Frames), .PageLog2(PageLog2), .BlockSizeLog2(BlockSizeLog2)) u_walk (
    .clk_i, .rst_ni, .started_o(started), .frames_i(frames), .dirty_limit_i(dirty_limit), .usable_i(usable), .geometry_i,
    .job_valid_i(job_valid), .job_i(job), .job_ready_o(job_ready), .ahead_ready_o(ahead_ready), .ended_o(walk_ends), .bound_o(bound),
    .failed_o(walk_failed), .walked_slot_o(walked_slot), .walked_frame_o(walked_frame), .walked_reason_o(walked_reason),
    .event_o(step), .flush_i(flush), .drop_i(drop), .discard_i(discard), .done_o(done), .done_error_o(done_error),
    .hold_o(hold), .hold_reads_o(hold_reads), .hold_frame_o(hold_frame), .op_o(walk_op), .op_frame_o(walk_frame),
    .op_force_o(walk_force), .op_pinned_o(walk_pinned), .op_grant_i(grant), .op_busy_i(pages_busy), .op_result_i(result), .dirty_i(dirty),
    .failed_i(failed), .waits_i(waits), .reads_i(reads), .writes_i(writes), .tlb_clear_o(clear), .tlb_insert_o(insert), .tlb_remove_o(remove),
    .tlb_in_o(walk_in), .tlb_page_o(walk_page), .tlb_frame_o(insert_frame), .tlb_writable_o(insert_writable),
    .move_o(move), .fill_ready_i(fill_ready), .write_ready_i(write_ready), .flush_ready_i(flush_ready),
    .writes_idle_i(writes_idle), .moved_i(moved), .table_of_o(table_of), .table_base_i(table_base), .table_o(table_req),
    .table_i(table_rsp), .walked_o(walked)
  );

  smmu_move #(.DataWidth(DataWidth), .PageLog2(PageLog2), .BlockSizeLog2(BlockSizeLog2)) u_move (
    .clk_i, .rst_ni, .frames_i(base), .move_i(move), .fill_ready_o(fill_ready), .write_ready_o(write_ready),
    .flush_ready_o(flush_ready), .moved_ready_i(~pages_busy), .moved_o(moved), .idle_o(), .writes_idle_o(writes_idle), .table_i(table_req),
    .table_o(table_rsp), .host_o, .write_data_o, .dev_i, .read_data_i, .axi_o(move_o), .axi_write_data_o(move_write_data_o),
    .axi_write_strobe_o(move_write_strobe_o), .axi_i(move_i), .axi_read_data_i(move_read_data_i)
  );

  // --- Reports: a move's and a refusal are never in one cycle -----------------------------------------
  always_comb begin
    report   = refused;
    reported = refusal;
    if (moves && moved.error) begin
      report   = 1'b1;
      reported = '{reason: (moved.move == MoveFill) ? ReasonRead : ReasonWrite, write: moved.move == MoveWrite,
                   about: moved.status, address: axi_pkg::address_t'(moved.number) << PageLog2};
    end
  end
  assign counts = {moved.move == MoveWrite, moved.move == MoveFill, walked, (answer == AnswerGo) & ~answered.ahead};
endmodule
