// SPDX-License-Identifier: Apache-2.0 OR MIT
// The types of the storage memory management unit.
//
// A *page* is a page of a table, which contexts see from address 0 of the window on. A *frame* is a page's place in memory.
// A *number* is a page of the drive. A table has one entry of 32 bits for each page, little-endian:
//
//   bits 31:30  KindNone, KindDrive (bits 28:0 are a number) or KindFrame (bits 11:0 are a frame)
//   bit  29     the page may be written
package smmu_pkg;
  import axi_pkg::address_t;
  localparam int unsigned IdWidth      = 4;
  localparam int unsigned ContextWidth = 3;
  localparam int unsigned Contexts     = 1 << ContextWidth;
  localparam int unsigned MostFrames   = 4096;

  typedef logic [IdWidth-1:0]      id_t;
  typedef logic [ContextWidth-1:0] context_t;
  typedef logic [ContextWidth-1:0] table_t;
  typedef logic [27:0]             page_t;    // 40 bits of address with pages of 4 KiB
  typedef logic [28:0]             number_t;
  typedef logic [11:0]             frame_t;
  typedef logic [12:0]             frames_t;  // a number of frames

  typedef enum logic [1:0] {KindNone = 2'd0, KindDrive = 2'd1, KindFrame = 2'd2} kind_e;
  typedef struct packed {
    kind_e   kind;
    logic    writable;
    number_t number;
  } entry_t;

  // --- The window ----------------------------------------------------------------------------------
  localparam logic [1:0] BurstFixed = 2'd0, BurstIncr = 2'd1, BurstWrap = 2'd2;
  typedef struct packed {
    address_t   address;
    logic [7:0] len;   // words minus one
    logic [2:0] size;  // log2 of a beat's bytes
    logic [1:0] burst;
  } burst_t;

  // From a master of the window. The context is a part of AxUSER that the master's software cannot choose.
  typedef struct packed {
    logic     aw_valid;
    id_t      aw_id;
    context_t aw_context;
    burst_t   aw;
    logic     w_valid;
    logic     w_last;
    logic     b_ready;
    logic     ar_valid;
    id_t      ar_id;
    context_t ar_context;
    burst_t   ar;
    logic     r_ready;
  } master_t;

  typedef struct packed {
    logic           aw_ready;
    logic           w_ready;
    logic           b_valid;
    id_t            b_id;
    axi_pkg::resp_e b_resp;
    logic           ar_ready;
    logic           r_valid;
    id_t            r_id;
    axi_pkg::resp_e r_resp;
    logic           r_last;
  } window_t;

  // --- Accesses --------------------------------------------------------------------------------------
  localparam int unsigned ReadSlots = 4, WriteSlot = 4, Slots = 5;
  typedef logic [2:0] slot_t;  // Slots: the read-ahead

  // Why an access is refused, or a page is reported.
  typedef enum logic [3:0] {
    ReasonNone     = 4'd0,
    ReasonBurst    = 4'd1,   // a burst that the window does not serve
    ReasonContext  = 4'd2,   // the context does not exist
    ReasonRange    = 4'd3,   // past the context's limit or the window's end
    ReasonRights   = 4'd4,   // the context or the page does not allow it
    ReasonUnmapped = 4'd5,   // the table's entry is empty
    ReasonTable    = 4'd6,   // the table cannot be read, or its entry is invalid
    ReasonDrive    = 4'd7,   // past the end of the drive
    ReasonGone     = 4'd8,   // the drive is not there, or is another one
    ReasonFrames   = 4'd9,   // every frame has a dirty page that cannot be written
    ReasonPoisoned = 4'd10,  // the page could not be read
    ReasonRead     = 4'd11,  // reported: a page was not read, its accesses get ReasonPoisoned
    ReasonWrite    = 4'd12   // reported: a dirty page was not written and is kept
  } reason_e;

  typedef struct packed {
    slot_t    slot;
    logic     write;
    logic     ahead;    // no access: make the page present
    context_t number;
    burst_t   burst;
    reason_e  failed;   // the walk for this access failed
  } access_t;

  typedef enum logic [1:0] {AnswerNone, AnswerGo, AnswerWait, AnswerRefuse} answer_e;

  // What a context may do.
  typedef struct packed {
    logic   enabled;
    logic   read;
    logic   write;
    table_t in;      // its table
    page_t  last;    // the last page of it
  } rights_t;

  typedef struct packed {
    reason_e  reason;
    logic     write;
    logic [3:0] about;  // the context; with ReasonRead and ReasonWrite the drive's status
    address_t address;  // in the window; with ReasonRead and ReasonWrite on the drive
  } report_t;

  // A page that the walker looks for.
  typedef struct packed {
    slot_t  slot;
    table_t in;
    page_t  page;
  } job_t;

  // --- Pages ---------------------------------------------------------------------------------------
  typedef enum logic [2:0] {Absent, Reading, Clean, Dirty, Writing, Poisoned} state_e;

  typedef enum logic [3:0] {
    PageNone,
    PageClear,    // forget it: after a reset
    PageTouch,    // an access
    PageFill,     // its data are requested
    PageFilled,   // ... and are in memory
    PageStep,     // the CLOCK's hand
    PageClean,    // write it if it is dirty
    PageWritten,  // ... and it was written
    PageDrop      // evict it whether it was used or not
  } page_op_e;

  typedef enum logic [2:0] {
    ResultDone,
    ResultLater,  // another step decides
    ResultSkip,   // nothing to do
    ResultNever,  // poisoned; or dirty and cannot be written
    ResultFree,   // the frame is free
    ResultEvict,  // the page has left: remove it from table and TLB
    ResultWrite   // write it now
  } result_e;

  // --- Moves between drive and memory --------------------------------------------------------------
  typedef enum logic [1:0] {MoveNone, MoveFill, MoveWrite, MoveFlush} move_e;
  typedef struct packed {
    move_e   move;
    frame_t  frame;
    number_t number;
  } move_t;

  typedef struct packed {
    move_e              move;
    frame_t             frame;
    number_t            number;
    logic               error;
    block_pkg::status_e status;
  } moved_t;

  // One entry of a table.
  typedef struct packed {
    logic     valid;
    logic     write;
    address_t address;
    entry_t   entry;
  } table_req_t;
  typedef struct packed {
    logic   done;
    logic   error;
    entry_t entry;
  } table_rsp_t;

  // The bytes of an address within its beat.
  function automatic logic [11:0] beat_mask(logic [2:0] size);
    return (12'd1 << size) - 12'd1;
  endfunction

  // Whether AXI4 allows such a burst on this port (A3.4.1: a size up to the port's, none across 4 KiB, wrapping ones aligned and of
  // 2, 4, 8 or 16 beats, fixed ones of up to 16). The first address of the others need not be aligned to the size.
  function automatic logic is_served(burst_t burst, logic [2:0] word_log2);
    logic [13:0] last;
    logic aligned, wraps;
    last    = {2'd0, burst.address[11:0]} + (14'(burst.len) << burst.size);
    aligned = (burst.address[11:0] & beat_mask(burst.size)) == '0;
    wraps   = (burst.len == 8'd1) | (burst.len == 8'd3) | (burst.len == 8'd7) | (burst.len == 8'd15);
    return (burst.size <= word_log2) &
           (((burst.burst == BurstIncr) & (last[13:12] == '0)) | ((burst.burst == BurstWrap) & aligned & wraps) |
            ((burst.burst == BurstFixed) & (burst.len < 8'd16)));
  endfunction
endpackage
