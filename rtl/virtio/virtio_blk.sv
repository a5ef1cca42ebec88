// SPDX-License-Identifier: Apache-2.0 OR MIT
// A virtio-blk device in front of any device of the block interface, so that stock drivers can use it as a disk.
//
// Registers over AXI4-Lite (virtio over MMIO, version 2); rings and data over an AXI4 manager; the disk is a block device
// with 32-bit data. rtl/virtio/README.md describes features, limits and the handling of invalid input.
//
// Requests           requests in flight on the block interface, 1 to 32
// Queues, QueueSize  number of queues, and the largest size of each, a power of two from 8 to 1024
// Platform           offer VIRTIO_F_ACCESS_PLATFORM and VIRTIO_F_ORDER_PLATFORM
// BlockSizeLog2      log2 of the device's block in bytes, 6 to 16
// Serial             20 characters, the first in the lowest bits
module virtio_blk
  import virtio_pkg::*;
  import block_pkg::*;
#(
  parameter int unsigned  Requests      = 1,
  parameter int unsigned  Queues        = 1,
  parameter int unsigned  QueueSize     = 128,
  parameter bit           Platform      = 1'b1,
  parameter int unsigned  BlockSizeLog2 = 9,
  parameter logic [159:0] Serial        = "straightway-virtio-0"
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,

  input  axil_pkg::manager_t     axil_i,
  output axil_pkg::subordinate_t axil_o,
  output logic                   irq_o,

  output axi_pkg::manager_t      axi_o,
  output logic [31:0]            axi_write_data_o,
  output logic [3:0]             axi_write_strobe_o,
  input  axi_pkg::memory_t       axi_i,
  input  logic [31:0]            axi_read_data_i,

  input  geometry_t              geometry_i,
  output host_t                  host_o,
  output logic [31:0]            write_data_o,
  input  dev_t                   dev_i,
  input  logic [31:0]            read_data_i
);
  // What the parameters must be.
  if ((Requests < 1) || (Requests > 32)) begin : gen_bad_requests
    $error("Requests is %0d: 1 to 32", Requests);
  end
  if ((Queues < 1) || (Queues > 64)) begin : gen_bad_queues
    $error("Queues is %0d: 1 to 64", Queues);
  end
  if ((QueueSize < 8) || (QueueSize > 1024) || ((QueueSize & (QueueSize - 1)) != 0)) begin : gen_bad_queue_size
    $error("QueueSize is %0d: a power of two from 8 to 1024", QueueSize);
  end
  if ((BlockSizeLog2 < 6) || (BlockSizeLog2 > 16)) begin : gen_bad_block_size_log2
    $error("BlockSizeLog2 is %0d: 6 to 16", BlockSizeLog2);
  end

  localparam int unsigned QueueWidth = (Queues > 1) ? $clog2(Queues) : 1;
  localparam int unsigned SlotWidth  = $clog2(QueueSize);
  localparam int unsigned IndexWidth = (Requests > 1) ? $clog2(Requests) : 1;
  localparam bit          Parallel   = Requests > 1;
  // The state that virtio_request and virtio_move keep for a parked request.
  localparam int unsigned ContextWidth = 9 + LbaWidth + 2 * CountWidth + BytesWidth;
  localparam int unsigned PlaceWidth   = SlotWidth + axi_pkg::AddressWidth + BytesWidth + 3;

  logic reset, abort, quiet, run, used, broken, ring_idle, idle, hold;
  logic [Queues-1:0] ready, begins, kick, busy;
  logic [QueueWidth-1:0] queue_index, return_queue;
  features_t features;
  queue_t    queue;

  virtio_regs #(
    .Queues(Queues), .QueueSize(QueueSize), .Platform(Platform), .BlockSizeLog2(BlockSizeLog2)
  ) u_regs (
    .clk_i, .rst_ni, .axil_i, .axil_o, .irq_o, .geometry_i,
    .reset_o(reset), .quiet_i(quiet), .idle_i(idle), .busy_i(busy), .run_o(run), .features_o(features),
    .ready_o(ready), .begin_o(begins), .kick_o(kick), .queue_i(queue_index), .queue_o(queue), .used_i(used),
    .broken_i(broken)
  );

  // --- Memory accesses: one module at a time -------------------------------------------------------
  mem_req_t mem_req, ring_req, walk_req, move_req, status_req;
  mem_rsp_t mem_rsp;
  assign mem_req = ring_req | walk_req | move_req | status_req;

  virtio_mem u_mem (
    .clk_i, .rst_ni, .abort_i(abort), .quiet_o(quiet), .mem_i(mem_req), .mem_o(mem_rsp),
    .axi_o, .axi_write_data_o, .axi_write_strobe_o, .axi_i, .axi_read_data_i
  );

  // --- A chain: read, executed, returned -----------------------------------------------------------
  logic start, walked, walk_failed, request_start, request_done, request_failed, request_idle, returned;
  logic [15:0] head, return_head;
  logic [31:0] used_len;
  chain_t walked_chain, chain;
  logic park, again, resume;
  resume_e why;
  logic [ContextWidth-1:0] parked_context, context_now;
  logic [PlaceWidth-1:0] parked_place, place;
  logic [IndexWidth-1:0] index;

  virtio_ring #(.Queues(Queues), .Parallel(Parallel)) u_ring (
    .clk_i, .rst_ni, .clear_i(reset), .run_i(run), .features_i(features), .ready_i(ready), .begin_i(begins),
    .kick_i(kick), .queue_o(queue_index), .queue_i(queue), .start_o(start), .head_o(head), .hold_i(hold),
    .taken_i(park), .done_i((walked & walk_failed) | request_done), .fail_i(walk_failed | request_failed),
    .return_queue_i(return_queue), .return_head_i(return_head), .used_len_i(used_len), .returned_o(returned),
    .used_o(used), .broken_o(broken), .idle_o(ring_idle), .mem_o(ring_req), .mem_i(mem_rsp)
  );

  logic segment_write, segment_read;
  logic [SlotWidth+1:0] segment_write_address, segment_read_address;
  logic [31:0] segment_in, segment_out;

  virtio_walk #(.Slots(QueueSize)) u_walk (
    .clk_i, .rst_ni, .abort_i(abort), .start_i(start), .head_i(head), .queue_i(queue), .indirect_i(features.indirect),
    .done_o(walked), .fail_o(walk_failed), .chain_o(walked_chain), .mem_o(walk_req), .mem_i(mem_rsp), .segment_write_o(segment_write),
    .segment_address_o(segment_write_address), .segment_data_o(segment_in)
  );

  // One region for each request in flight.
  localparam int unsigned SegmentWidth = $clog2(4 * QueueSize * Requests);
  prim_ram #(.Width(32), .Depth(4 * QueueSize * Requests)) u_segments (
    .clk_i,
    .write_i         (segment_write),
    .write_address_i (SegmentWidth'({index, segment_write_address})),
    .write_data_i    (segment_in),
    .read_i          (segment_read),
    .read_address_i  (SegmentWidth'({index, segment_read_address})),
    .read_data_o     (segment_out)
  );

  logic seek, move, push, moved, move_error, out_valid, out_ready, in_valid, in_ready;
  logic [SlotWidth-1:0] slot;
  bytes_t bytes;
  logic [31:0] out_data, in_data;

  virtio_move #(.Slots(QueueSize)) u_move (
    .clk_i, .rst_ni, .abort_i(abort), .seek_i(seek), .slot_i(slot), .load_i(resume), .place_i(parked_place), .place_o(place),
    .start_i(move), .push_i(push), .bytes_i(bytes), .done_o(moved),
    .error_o(move_error), .out_valid_o(out_valid), .out_ready_i(out_ready), .out_data_o(out_data),
    .in_valid_i(in_valid), .in_ready_o(in_ready), .in_data_i(in_data), .segment_read_o(segment_read),
    .segment_address_o(segment_read_address), .segment_data_i(segment_out), .mem_o(move_req), .mem_i(mem_rsp)
  );

  host_t host;
  dev_t  dev;
  virtio_request #(
    .BlockSizeLog2(BlockSizeLog2), .Serial(Serial), .Slots(QueueSize), .Parallel(Parallel)
  ) u_request (
    .clk_i, .rst_ni, .start_i(request_start), .chain_i(chain), .flush_i(features.flush),
    .done_o(request_done), .fail_o(request_failed), .used_len_o(used_len), .idle_o(request_idle), .abort_i(abort),
    .returned_i(returned), .park_o(park), .again_o(again), .context_o(context_now), .resume_i(resume), .why_i(why),
    .context_i(parked_context), .seek_o(seek), .slot_o(slot), .move_o(move),
    .push_o(push), .bytes_o(bytes), .moved_i(moved), .move_error_i(move_error), .out_valid_i(out_valid),
    .out_ready_o(out_ready), .out_data_i(out_data), .in_valid_o(in_valid), .in_ready_i(in_ready), .in_data_o(in_data),
    .mem_o(status_req), .mem_i(mem_rsp), .geometry_i, .host_o(host), .write_data_o, .dev_i(dev), .read_data_i
  );

  // --- The disk ------------------------------------------------------------------------------------
  // A reset cancels the requests in flight (rule B13), and so does an invalid ring, because memory must not be accessed
  // after it. The driver does not wait for their end, only for that of the accesses to memory.
  if (Parallel) begin : gen_parallel
    logic [Queues-1:0] slots_busy;
    logic    slots_idle;
    status_e status;
    host_t   slots_host;
    virtio_slots #(
      .Requests(Requests), .Queues(Queues), .SlotWidth(SlotWidth), .ContextWidth(ContextWidth), .PlaceWidth(PlaceWidth)
    ) u_slots (
      .clk_i, .rst_ni, .abort_i(abort), .idle_o(slots_idle), .begin_i(start), .head_i(head), .queue_i(queue_index),
      .walked_i(walked & ~walk_failed & ~abort), .walked_chain_i(walked_chain),
      .rest_i(abort ? ~request_start : ring_idle), .hold_o(hold),
      .busy_o(slots_busy), .slot_o(index), .head_o(return_head), .queue_o(return_queue), .chain_o(chain),
      .start_o(request_start), .resume_o(resume), .why_o(why), .context_o(parked_context), .place_o(parked_place),
      .status_o(status), .idle_i(request_idle), .park_i(park), .again_i(again), .context_i(context_now),
      .place_i(place), .end_i(request_done & (returned | abort)), .host_i(host), .host_o(slots_host), .dev_i
    );
    assign abort = reset | broken;
    assign idle  = ring_idle & slots_idle & quiet;
    always_comb begin
      busy = slots_busy;
      if (!ring_idle) busy[queue_index] = 1'b1;
      host_o        = slots_host;
      host_o.cancel = abort;
      // virtio_slots accepts a request at once and has already taken the response.
      dev           = dev_i;
      dev.req_ready = 1'b1;
      dev.rsp_valid = 1'b1;
      dev.rsp       = '{tag: '0, status: status, detail: '0};
    end
  end else begin : gen_one
    assign abort          = reset;
    assign idle           = ring_idle & request_idle & quiet;
    assign hold           = 1'b0;
    assign request_start  = walked & ~walk_failed & ~abort;
    assign chain          = walked_chain;
    assign return_head    = head;
    assign return_queue   = queue_index;
    assign index          = '0;
    assign resume         = 1'b0;
    assign why            = ResumeOffer;
    assign parked_context = '0;
    assign parked_place   = '0;
    assign dev            = dev_i;
    always_comb begin
      busy = '0;
      if (!ring_idle) busy[queue_index] = 1'b1;
      host_o        = host;
      host_o.cancel = reset;
    end
  end
endmodule
