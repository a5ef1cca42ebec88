// SPDX-License-Identifier: Apache-2.0 OR MIT
// Keeps several requests in flight on the block interface, each in a slot whose number is its tag.
//
// `virtio_request` and `virtio_move` work on one slot at a time. A request that would wait for the disk is parked here,
// and resumed when the disk has responded, has its data, or accepts another request. Slots finish in any order.
//
// The mover cannot transfer a read's data in the middle of a write's, but rule B10 forbids a host to make the disk wait
// for that. Therefore no write is issued while a read has data outstanding, and no read before a write's data are
// transferred. Responses are taken immediately.
//
// Requests      number of slots
// Queues        number of queues
// SlotWidth     bits of a segment's number
// ContextWidth  bits of virtio_request's state
// PlaceWidth    bits of virtio_move's state
module virtio_slots
  import virtio_pkg::*;
  import block_pkg::*;
#(
  parameter int unsigned Requests     = 4,
  parameter int unsigned Queues       = 1,
  parameter int unsigned SlotWidth    = 7,
  parameter int unsigned ContextWidth = 1,
  parameter int unsigned PlaceWidth   = 1,
  localparam int unsigned IndexWidth  = (Requests > 1) ? $clog2(Requests) : 1,
  localparam int unsigned QueueWidth  = (Queues > 1) ? $clog2(Queues) : 1
) (
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  logic                    abort_i,    // issue no more requests to the disk, and resume each until it has ended
  output logic                    idle_o,     // no slot is in use

  // The ring's chains.
  input  logic                    begin_i,    // the walk of this chain starts
  input  logic [15:0]             head_i,
  input  logic [QueueWidth-1:0]   queue_i,
  input  logic                    walked_i,   // the walk succeeded: the chain occupies the slot
  input  chain_t                  walked_chain_i,
  input  logic                    rest_i,     // the ring is idle: a request may be resumed
  output logic                    hold_o,     // the ring may take no chain
  output logic [Queues-1:0]       busy_o,     // queues with chains in slots

  // The request that virtio_request works on.
  output logic [IndexWidth-1:0]   slot_o,
  output logic [15:0]             head_o,
  output logic [QueueWidth-1:0]   queue_o,
  output chain_t                  chain_o,
  output logic                    start_o,
  output logic                    resume_o,
  output resume_e                 why_o,
  output logic [ContextWidth-1:0] context_o,
  output logic [PlaceWidth-1:0]   place_o,
  output status_e                 status_o,   // of the device's response
  input  logic                    idle_i,     // virtio_request is idle
  input  logic                    park_i,
  input  logic                    again_i,    // with park_i: it has another request for the disk
  input  logic [ContextWidth-1:0] context_i,
  input  logic [PlaceWidth-1:0]   place_i,
  input  logic                    end_i,      // its chain was returned
  input  host_t                   host_i,     // its request, for one cycle, and its data

  output host_t                   host_o,
  input  dev_t                    dev_i
);
  typedef logic [IndexWidth-1:0] index_t;
  typedef logic [QueueWidth-1:0] queue_index_t;
  typedef struct packed {
    logic [15:0]             head;
    queue_index_t            ring;
    bytes_t                  writable;
    logic [SlotWidth-1:0]    first_writable;
    axi_pkg::address_t       last_byte;
    logic [ContextWidth-1:0] request;
    logic [PlaceWidth-1:0]   place;
  } kept_t;

  logic [Requests-1:0] used_q, again_q, answered_q;
  queue_index_t queues_q [Requests];
  status_e      status_q [Requests];
  kept_t        kept_q   [Requests];
  index_t       slot_q, free, asking, answered;
  chain_t       chain_q;
  logic [15:0]  head_q;
  queue_index_t queue_q;
  logic         start_q, resume_q;
  resume_e      why_q;

  always_comb begin
    free     = '0;
    asking   = '0;
    answered = '0;
    for (int unsigned i = Requests; i > 0; i--) begin
      if (!used_q[i-1])    free     = index_t'(i - 1);
      if (again_q[i-1])    asking   = index_t'(i - 1);
      if (answered_q[i-1]) answered = index_t'(i - 1);
    end
    busy_o = '0;
    for (int unsigned i = 0; i < Requests; i++) begin
      if (used_q[i]) busy_o[queues_q[i]] = 1'b1;
    end
  end

  // --- Requests to the disk ----------------------------------------------------------------------
  logic offer_q, data_owed_q, wait_for_reads, dropped, offered_move;
  req_t req_q;
  logic [IndexWidth:0] reads_q;  // reads with data outstanding
  logic read_end, write_end;
  assign wait_for_reads = (req_q.op == OpWrite) & (reads_q != '0);
  assign dropped        = offer_q & wait_for_reads & abort_i;
  assign offered_move   = moves_data(host_i.req) & host_i.req_valid;
  assign read_end       = host_i.read_ready & dev_i.read_valid & dev_i.read.last;
  assign write_end      = host_i.write_valid & dev_i.write_ready & host_i.write.last;

  always_comb begin
    host_o           = host_i;
    host_o.req_valid = offer_q & ~wait_for_reads;
    host_o.req       = req_q;
    host_o.write.tag = req_q.tag;
    host_o.rsp_ready = 1'b1;
  end

  // --- Which request is resumed ------------------------------------------------------------------
  logic    pending, pick;
  index_t  next_slot;
  resume_e next_why;
  always_comb begin
    pending   = 1'b1;
    next_slot = answered;
    next_why  = ResumeResponse;
    if (answered_q != '0)                 {next_slot, next_why} = {answered, ResumeResponse};
    else if (dev_i.read_valid)            {next_slot, next_why} = {index_t'(dev_i.read.tag), ResumeRead};
    else if (data_owed_q && !offer_q)     {next_slot, next_why} = {index_t'(req_q.tag), ResumeWrite};
    else if ((again_q != '0) && !offer_q) {next_slot, next_why} = {asking, ResumeOffer};
    else pending = 1'b0;
  end
  assign pick   = pending & rest_i & idle_i & ~resume_q;
  // No new chain while a request waits to be issued: otherwise new requests in lower slots could delay it indefinitely.
  assign hold_o = pending | resume_q | ~idle_i | (used_q == '1) | (again_q != '0);
  assign idle_o = (used_q == '0) & idle_i;

  assign slot_o    = slot_q;
  assign head_o    = head_q;
  assign queue_o   = queue_q;
  assign start_o   = start_q;
  assign resume_o  = resume_q;
  assign why_o     = why_q;
  assign context_o = kept_q[slot_q].request;
  assign place_o   = kept_q[slot_q].place;
  assign status_o  = status_q[slot_q];
  assign chain_o   = chain_q;

  kept_t parked;
  assign parked = '{head: head_q, ring: queue_q, writable: chain_q.writable,
                    first_writable: SlotWidth'(chain_q.first_writable), last_byte: chain_q.last_byte,
                    request: context_i, place: place_i};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      used_q      <= '0;
      again_q     <= '0;
      answered_q  <= '0;
      start_q     <= 1'b0;
      resume_q    <= 1'b0;
      offer_q     <= 1'b0;
      data_owed_q <= 1'b0;
      reads_q     <= '0;
    end else begin
      start_q  <= walked_i;
      resume_q <= pick;
      if (walked_i) used_q[slot_q] <= 1'b1;
      if (end_i) used_q[slot_q] <= 1'b0;
      if (park_i) again_q[slot_q] <= again_i;
      if (pick && (next_why == ResumeOffer)) again_q[asking] <= 1'b0;
      if (pick && (next_why == ResumeResponse)) answered_q[answered] <= 1'b0;
      if (dev_i.rsp_valid) answered_q[index_t'(dev_i.rsp.tag)] <= 1'b1;
      if (dropped) answered_q[index_t'(req_q.tag)] <= 1'b1;

      if (host_i.req_valid) offer_q <= 1'b1;
      else if (dropped || (host_o.req_valid && dev_i.req_ready)) offer_q <= 1'b0;
      if (offered_move && (host_i.req.op == OpWrite)) data_owed_q <= 1'b1;
      else if (write_end || dropped) data_owed_q <= 1'b0;
      reads_q <= reads_q + (IndexWidth + 1)'(offered_move & (host_i.req.op == OpRead)) - (IndexWidth + 1)'(read_end);
    end
  end

  always_ff @(posedge clk_i) begin
    if (begin_i) begin
      slot_q  <= free;
      head_q  <= head_i;
      queue_q <= queue_i;
    end
    if (walked_i) begin
      chain_q          <= walked_chain_i;
      queues_q[slot_q] <= queue_q;
    end
    if (pick) begin
      slot_q <= next_slot;
      why_q  <= next_why;
    end
    if (resume_q) begin
      head_q  <= kept_q[slot_q].head;
      queue_q <= kept_q[slot_q].ring;
      // The readable total is only used before a request is parked.
      chain_q <= '{readable: '0, writable: kept_q[slot_q].writable, too_long: 1'b0,
                   first_writable: 16'(kept_q[slot_q].first_writable), last_byte: kept_q[slot_q].last_byte};
    end
    if (park_i) kept_q[slot_q] <= parked;
    if (host_i.req_valid) begin
      req_q     <= host_i.req;
      req_q.tag <= tag_t'(slot_q);
    end
    if (dev_i.rsp_valid) status_q[index_t'(dev_i.rsp.tag)] <= dev_i.rsp.status;
    if (dropped) status_q[index_t'(req_q.tag)] <= StatusAborted;
  end
endmodule
