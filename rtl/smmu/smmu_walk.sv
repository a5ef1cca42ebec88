// SPDX-License-Identifier: Apache-2.0 OR MIT
// Makes pages present, one after another: reads the table, takes a frame, writes the frame into the table and starts the
// drive's read. Does all else that changes which page a frame has, too: it evicts by CLOCK, writes dirty pages behind, and
// walks through all frames for a command. So a table's entry, the TLB and a frame's owner change in one place and one order.
//
// Keeps one free frame in hand, so that a miss need not wait for the hand of the CLOCK, nor for a victim's write.
//
// A walk ends for sure: it fails, or binds the access to its frame, or (no frame now, but a page is moving or in use) tells
// the access to ask again. The order in a table: the entry names the frame before its page is requested, and the drive again
// before the frame is free; so no two frames ever have one page.
//
// Frames         number of frames, a power of two
// PageLog2       log2 of a page's bytes
// BlockSizeLog2  log2 of a block's bytes
// Clears         steps after the reset, each of a frame and a set of the TLB: at least as many as of either
module smmu_walk
  import smmu_pkg::*;
#(
  parameter int unsigned Frames        = 1024,
  parameter int unsigned PageLog2      = 12,
  parameter int unsigned BlockSizeLog2 = 9,
  parameter int unsigned Clears        = MostFrames
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  output logic                 started_o,      // all frames are absent after the reset
  input  frames_t              frames_i,       // frames in use
  input  frames_t              dirty_limit_i,  // more dirty pages than this are written behind
  input  logic                 usable_i,
  input  block_pkg::geometry_t geometry_i,

  input  logic                 job_valid_i,
  input  job_t                 job_i,
  output logic                 job_ready_o,
  output logic                 ahead_ready_o,  // a page could be read ahead
  output logic                 ended_o,        // the walk: with a frame, a failure, or neither
  output logic                 bound_o,
  output logic                 failed_o,
  output slot_t                walked_slot_o,
  output frame_t               walked_frame_o,
  output reason_e              walked_reason_o,
  output logic                 event_o,

  // Commands: one at a time, until `done`.
  input  logic                 flush_i,
  input  logic                 drop_i,
  input  logic                 discard_i,      // ... dirty pages, too
  output logic                 done_o,
  output logic                 done_error_o,
  output logic                 hold_o,
  output logic                 hold_reads_o,
  output frame_t               hold_frame_o,

  // Pages: the operation begins in the cycle in which it is granted; who uses its frame counts in the next one, and the result is
  // there in the one after that.
  output page_op_e             op_o,
  output frame_t               op_frame_o,
  output logic                 op_force_o,
  output logic                 op_pinned_o,
  input  logic                 op_grant_i,
  input  logic                 op_busy_i,
  input  result_e              op_result_i,
  input  frames_t              dirty_i,
  input  frames_t              failed_i,
  input  logic                 waits_i,        // who uses the last op_frame_o
  input  logic                 reads_i,
  input  logic                 writes_i,

  output logic                 tlb_clear_o,
  output logic                 tlb_insert_o,
  output logic                 tlb_remove_o,
  output table_t               tlb_in_o,
  output page_t                tlb_page_o,
  output frame_t               tlb_frame_o,
  output logic                 tlb_writable_o,

  output move_t                move_o,
  input  logic                 fill_ready_i,
  input  logic                 write_ready_i,
  input  logic                 flush_ready_i,
  input  logic                 writes_idle_i,
  input  moved_t               moved_i,

  output table_t               table_of_o,     // whose address is needed
  input  axi_pkg::address_t    table_base_i,
  output table_req_t           table_o,
  input  table_rsp_t           table_i,

  output logic                 walked_o
);
  localparam int unsigned IndexWidth = $clog2(Frames);
  typedef enum logic [3:0] {
    Init, Idle, Read, Owner, Check, Judge, Name, Start, Evict, Return, Write, Flush, Flushing
  } walk_e;
  typedef struct packed {
    logic    valid;
    table_t  in;
    page_t   page;
    number_t number;
    logic    writable;
  } owner_t;

  walk_e   state_q, state_d;
  job_t    job_q;
  logic    job_q_valid, free_valid_q, swept_q, flush_bad_q, at_end_q, all_stuck_q, turned_q, many_dirty_q;
  logic    sweep_q, step_q;  // what the last operation was for
  entry_t  entry_q;
  frame_t  free_q, freed_q, hand_q, clean_q, command_q, last, look, op_frame;
  frames_t stuck_q;
  logic [$bits(frames_t):0] steps_q;
  owner_t  owner, owner_q;
  table_rsp_t rsp_q;
  logic    granted, free_op, begun_q, decided_q, command, at_end, sweep, clean, step_command;
  reason_e reason;
  logic    fail, retry, finish, present, advance;

  function automatic frame_t next(frame_t frame, frame_t most);
    return (frame == most) ? '0 : frame + frame_t'(1);
  endfunction
  // The bits that are always zero.
  function automatic frame_t trim(frame_t frame);
    return frame_t'(frame[IndexWidth-1:0]);
  endfunction
  assign last    = frame_t'(frames_i - frames_t'(1));
  assign command = flush_i | drop_i;
  assign granted = op_grant_i & (op_o != PageNone);
  // No operation of the walker is on its way to its result.
  assign free_op = ~begun_q & ~decided_q;

  // --- What Idle does --------------------------------------------------------------------------------
  // First the hand, if there is no free frame; then a job; then a command's next frame; then the writes behind.
  assign sweep        = (state_q == Idle) & free_op & ~free_valid_q & ~swept_q;
  assign step_command = (state_q == Idle) & free_op & ~sweep & ~job_q_valid & command & ~at_end_q;
  assign clean        = (state_q == Idle) & free_op & ~sweep & ~job_q_valid & ~command & many_dirty_q & write_ready_i;
  assign at_end        = command_q == last;
  assign job_ready_o   = (state_q == Idle) & ~job_q_valid;
  assign ahead_ready_o = job_ready_o & fill_ready_i & free_valid_q & usable_i;

  always_comb begin
    op_o       = PageNone;
    op_force_o = flush_i | (drop_i & discard_i);
    // The frame is chosen without the conditions of the operation.
    op_frame   = command ? command_q : clean_q;
    if (!free_valid_q && !swept_q) op_frame = hand_q;
    if (state_q == Start) op_frame = free_q;
    if (state_q == Init)  op_frame = hand_q;
    if (state_q == Init) op_o = PageClear;
    else if (sweep) op_o = PageStep;
    else if (step_command) op_o = flush_i ? PageClean : PageDrop;
    else if (clean) op_o = PageClean;
    else if ((state_q == Start) && free_op) op_o = PageFill;
  end
  assign op_frame_o   = trim(op_frame);
  assign op_pinned_o  = writes_i | (reads_i & (sweep_q | (step_q & drop_i))) | (waits_i & sweep_q);
  // A command waits for those who use a frame; until then the frame gets no new ones.
  assign hold_o       = command & ~at_end_q & (state_q != Init);
  assign hold_reads_o = drop_i;
  assign hold_frame_o = trim(command_q);
  assign advance      = step_q & decided_q & (op_result_i != ResultLater);

  // --- A walk ----------------------------------------------------------------------------------------
  number_t pages;  // of the drive
  logic    too_many, is_owner, is_owner_q, beyond_q, usable_q;
  assign pages     = number_t'(geometry_i.block_count >> (PageLog2 - BlockSizeLog2));
  assign too_many  = (geometry_i.block_count >> (PageLog2 - BlockSizeLog2 + $bits(number_t))) != '0;
  assign present   = entry_q.kind == KindFrame;
  assign is_owner  = owner.valid & (owner.in == job_q.in) & (owner.page == job_q.page) &
                     (entry_q.number == number_t'(entry_q.number[IndexWidth-1:0]));

  always_comb begin
    fail   = 1'b0;
    retry  = 1'b0;
    reason = ReasonNone;
    unique case (state_q)
      Read: if (rsp_q.done && rsp_q.error) {fail, reason} = {1'b1, ReasonTable};
      Judge: begin
        if (present) begin
          if (!is_owner_q) {fail, reason} = {1'b1, ReasonTable};
        end else if (entry_q.kind == KindNone) begin
          {fail, reason} = {1'b1, ReasonUnmapped};
        end else if (entry_q.kind != KindDrive) begin
          {fail, reason} = {1'b1, ReasonTable};
        end else if (!usable_q) begin
          {fail, reason} = {1'b1, ReasonGone};
        end else if (beyond_q) begin
          {fail, reason} = {1'b1, ReasonDrive};
        end else if (!free_valid_q) begin
          fail   = all_stuck_q;
          retry  = ~all_stuck_q;
          reason = ReasonFrames;
        end
      end
      Name: if (rsp_q.done && rsp_q.error) {fail, reason} = {1'b1, ReasonTable};
      default: reason = ReasonNone;
    endcase
  end
  assign bound_o = ((state_q == Judge) & present & ~fail) | ((state_q == Start) & decided_q);
  assign finish  = fail | retry | bound_o;

  assign walked_slot_o   = job_q.slot;
  assign walked_frame_o  = trim((state_q == Judge) ? frame_t'(entry_q.number) : free_q);
  assign walked_reason_o = reason;
  assign failed_o        = fail;
  assign ended_o         = finish;
  assign walked_o        = finish & ~retry;

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      Init: if (granted && (hand_q == frame_t'(Clears - 1))) state_d = Idle;
      Idle: begin
        if (decided_q && (op_result_i == ResultEvict)) state_d = Evict;
        else if (decided_q && (op_result_i == ResultWrite)) state_d = Write;
        else if (free_op && !sweep && job_q_valid) state_d = Read;
        // The counts of dirty pages are right when no operation is under way.
        else if (free_op && flush_i && at_end_q && !job_q_valid && writes_idle_i && !op_busy_i && flush_ready_i) state_d = Flush;
      end
      Read: if (rsp_q.done) state_d = rsp_q.error ? Idle : Owner;
      Owner: state_d = Check;
      Check: state_d = Judge;
      Judge: begin
        if (finish) state_d = Idle;
        else if (fill_ready_i) state_d = Name;
      end
      Name: if (rsp_q.done) state_d = rsp_q.error ? Idle : Start;
      Start: if (decided_q) state_d = Idle;
      Evict: state_d = Return;
      Return: if (rsp_q.done) state_d = Idle;
      Write: state_d = Idle;
      Flush: state_d = Flushing;
      Flushing: if (moved_i.move == MoveFlush) state_d = Idle;
      default: state_d = Idle;
    endcase
  end

  // --- Owners: which page a frame has ----------------------------------------------------------------
  owner_t owner_new;
  logic   owner_write;
  frame_t owner_frame;
  // After a reset no frame has a page, whatever the memory and the tables still say.
  assign owner_write = ((state_q == Start) & decided_q) | (state_q == Evict) | (state_q == Init);
  assign owner_frame = (state_q == Start) ? free_q : (state_q == Init) ? hand_q : freed_q;
  assign owner_new   = '{valid: state_q == Start, in: job_q.in, page: job_q.page, number: entry_q.number,
                         writable: entry_q.writable};
  assign look        = (state_q == Owner) ? frame_t'(entry_q.number[IndexWidth-1:0]) : freed_q;

  prim_ram #(.Width($bits(owner_t)), .Depth(Frames)) u_owners (
    .clk_i,
    .write_i         (owner_write),
    .write_address_i (owner_frame[IndexWidth-1:0]),
    .write_data_i    (owner_new),
    .read_i          ((begun_q & (state_q == Idle)) | (state_q == Owner)),
    .read_address_i  (look[IndexWidth-1:0]),
    .read_data_o     (owner)
  );

  // --- TLB, table and moves --------------------------------------------------------------------------
  // The TLB does in the next cycle what is decided in this one; an entry's address is made a cycle before its state.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) {tlb_clear_o, tlb_insert_o, tlb_remove_o} <= '0;
    else         {tlb_clear_o, tlb_insert_o, tlb_remove_o} <= {state_q == Init, bound_o, state_q == Evict};
  end
  page_t entry_page;
  axi_pkg::address_t address_q;
  assign table_of_o = (state_q == Evict) ? owner_q.in : job_q.in;
  assign entry_page = (state_q == Evict) ? owner_q.page : job_q.page;
  always_ff @(posedge clk_i) begin
    tlb_in_o       <= table_of_o;
    tlb_page_o     <= (state_q == Init) ? page_t'(hand_q) : entry_page;
    tlb_frame_o    <= walked_frame_o;
    tlb_writable_o <= entry_q.writable;
    if ((state_q == Idle) || (state_q == Evict)) begin
      address_q <= {table_base_i[$bits(table_base_i)-1:2], 2'b00} + (axi_pkg::address_t'(entry_page) << 2);
    end
  end

  always_comb begin
    table_o.valid   = ((state_q == Read) | (state_q == Name) | (state_q == Return)) & ~rsp_q.done;
    table_o.write   = state_q != Read;
    table_o.address = address_q;
    table_o.entry   = (state_q == Return) ? '{kind: KindDrive, writable: owner_q.writable, number: owner_q.number}
                                          : '{kind: KindFrame, writable: entry_q.writable, number: number_t'(free_q)};
  end

  always_comb begin
    move_o = '{move: MoveNone, frame: freed_q, number: owner_q.number};
    if (state_q == Write) move_o.move = MoveWrite;
    if (state_q == Flush) move_o.move = MoveFlush;
    if ((state_q == Start) && decided_q) move_o = '{move: MoveFill, frame: free_q, number: entry_q.number};
  end

  // --- Commands --------------------------------------------------------------------------------------
  assign done_o       = (drop_i & at_end_q & (state_q == Idle)) | ((state_q == Flushing) & (moved_i.move == MoveFlush));
  assign done_error_o = flush_i & (moved_i.error | flush_bad_q);
  assign started_o    = state_q != Init;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q      <= Init;
      {job_q_valid, free_valid_q, swept_q, event_o, at_end_q, begun_q, decided_q} <= '0;
      rsp_q <= '{done: 1'b0, error: 1'b0, entry: '{kind: KindNone, writable: 1'b0, number: '0}};
      {hand_q, clean_q, command_q, steps_q, stuck_q} <= '0;
    end else begin
      state_q   <= state_d;
      begun_q   <= granted & (state_q != Init);
      decided_q <= begun_q;
      rsp_q     <= table_i;
      event_o <= finish | advance | (moved_i.move != MoveNone) | ((state_q == Return) & rsp_q.done) | done_o;
      if (job_valid_i && job_ready_o) job_q_valid <= 1'b1;
      else if (finish) job_q_valid <= 1'b0;

      if (((state_q == Init) && granted) || (sweep_q && decided_q)) begin
        hand_q <= next(hand_q, (state_q == Init) ? frame_t'(Clears - 1) : last);
      end
      if (clean && granted) clean_q <= next(clean_q, last);
      if (advance) {at_end_q, command_q} <= {at_end, next(command_q, last)};
      if (done_o) {at_end_q, command_q} <= '0;

      // Two turns without a free frame: first the job, as its page may be present.
      if (sweep_q && decided_q) begin
        steps_q <= steps_q + ($bits(frames_t) + 1)'(1);
        if (op_result_i != ResultNever) stuck_q <= '0;
        else if (!all_stuck_q) stuck_q <= stuck_q + frames_t'(1);
        if (turned_q) {swept_q, steps_q} <= {1'b1, ($bits(frames_t) + 1)'(0)};
        if (op_result_i == ResultFree) free_valid_q <= 1'b1;
      end
      if (free_valid_q || finish || (moved_i.move != MoveNone)) begin
        {swept_q, steps_q} <= '0;
        if (!fail) stuck_q <= '0;
      end
      // An evicted page's frame is free when the table no longer names it.
      if ((state_q == Return) && rsp_q.done && sweep_q && !rsp_q.error) free_valid_q <= 1'b1;
      if ((state_q == Start) && decided_q) free_valid_q <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (job_valid_i && job_ready_o) job_q <= job_i;
    if (rsp_q.done && (state_q == Read)) entry_q <= rsp_q.entry;
    if (granted) begin
      freed_q           <= op_frame_o;
      {sweep_q, step_q} <= {sweep, step_command};
    end
    if (sweep_q && decided_q && (op_result_i == ResultFree)) free_q <= hand_q;
    if ((state_q == Return) && sweep_q) free_q <= freed_q;
    owner_q      <= owner;
    is_owner_q   <= is_owner;
    beyond_q     <= ~too_many & (entry_q.number >= pages);
    usable_q     <= usable_i;
    all_stuck_q  <= stuck_q >= frames_i;
    turned_q     <= steps_q >= {frames_i, 1'b0};
    many_dirty_q <= (dirty_i > dirty_limit_i) & usable_i;
    // A flush is bad if a page is still dirty at its end.
    if (state_q == Flush) flush_bad_q <= (failed_i != '0) | ~usable_i;
  end
endmodule
