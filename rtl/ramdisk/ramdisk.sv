// SPDX-License-Identifier: Apache-2.0 OR MIT
// A block device in memory, behind an AXI4 memory controller. Reads and writes run in parallel;
// reads are answered in order, and so are writes and flushes.
//
// Owns the requests in its queues, but no data: words pass directly between AXI and the block
// interface. A flush is answered when all writes before it are in memory. An AXI error ends the
// request with StatusDevice, `detail` the AXI response code; its data are still counted to the word.
//
// DataWidth      bits of both data paths, 32 to 1024
// BlockSizeLog2  log2 of a block's bytes, 6 to 16, at least one word
// BlockCount     blocks of the device
// BaseAddress    the address of block 0 in memory, a multiple of the block size
// QueueDepth     outstanding requests (and bursts) in each direction
module ramdisk
  import block_pkg::*;
#(
  parameter int unsigned       DataWidth     = 32,
  parameter int unsigned       BlockSizeLog2 = 9,
  parameter lba_t              BlockCount    = lba_t'(2048),
  parameter axi_pkg::address_t BaseAddress   = '0,
  parameter int unsigned       QueueDepth    = 8
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  output geometry_t            geometry_o,
  input  host_t                host_i,
  input  logic [DataWidth-1:0] write_data_i,
  output dev_t                 dev_o,
  output logic [DataWidth-1:0] read_data_o,

  output axi_pkg::manager_t    axi_o,
  output logic [DataWidth-1:0] axi_write_data_o,
  input  axi_pkg::memory_t     axi_i,
  input  logic [DataWidth-1:0] axi_read_data_i
);
  // What the parameters must be.
  if ((DataWidth < 32) || (DataWidth > 1024) || ((DataWidth & (DataWidth - 1)) != 0)) begin : gen_bad_data_width
    $error("DataWidth is %0d: a power of two from 32 to 1024", DataWidth);
  end
  if ((BlockSizeLog2 < ((DataWidth > 512) ? 7 : 6)) || (BlockSizeLog2 > 16)) begin : gen_bad_block_size_log2
    $error("BlockSizeLog2 is %0d: 6 to 16, at least one word", BlockSizeLog2);
  end
  if (BlockCount < 1) begin : gen_bad_block_count
    $error("BlockCount is %0d: 1 or more", BlockCount);
  end
  if (QueueDepth < 1) begin : gen_bad_queue_depth
    $error("QueueDepth is %0d: 1 or more", QueueDepth);
  end

  assign geometry_o = '{ready: 1'b1, generation: '0, block_size_log2: 5'(BlockSizeLog2), block_count: BlockCount,
                        max_transfer_blocks: '1, volatile_write_cache: 1'b0, fua: 1'b1, discard: 1'b0,
                        write_zeroes: 1'b1, read_only: 1'b0};

  host_t host;
  dev_t  dev;
  logic [DataWidth-1:0] write_data;

  block_front #(.DataWidth(DataWidth), .BlockSizeLog2(BlockSizeLog2), .OpenWrites(QueueDepth)) u_front (
    .clk_i,
    .rst_ni,
    .geometry_i   (geometry_o),
    .host_i,
    .write_data_i,
    .dev_o,
    .read_data_o,
    .host_o       (host),
    .write_data_o (write_data),
    .dev_i        (dev),
    .read_data_i  (axi_read_data_i)
  );

  logic [1:0] rsp_valid, rsp_ready;
  rsp_t [1:0] rsp;

  prim_merge #(.Width($bits(rsp_t))) u_merge (
    .clk_i,
    .rst_ni,
    .valid_i (rsp_valid),
    .ready_o (rsp_ready),
    .data_i  (rsp),
    .valid_o (dev.rsp_valid),
    .ready_i (host.rsp_ready),
    .data_o  (dev.rsp)
  );

  function automatic rsp_t answer(tag_t tag, axi_pkg::resp_e resp);
    if (resp[1]) return '{tag: tag, status: StatusDevice, detail: 16'(resp)};
    return '{tag: tag, status: StatusOk, detail: '0};
  endfunction

  // The first error of a request's words or bursts is reported.
  function automatic axi_pkg::resp_e worse(axi_pkg::resp_e so_far, axi_pkg::resp_e now);
    return so_far[1] ? so_far : now;
  endfunction

  // --- Reads: AR ahead of R -------------------------------------------------------------------
  logic is_read, read_start_ready, ar_valid, ar_last, read_order_ready, r_valid, r_last, r_taken;
  tag_t ar_tag, r_tag;
  logic read_done_ready;
  axi_pkg::resp_e r_worst_q;

  assign is_read = host.req.op == OpRead;

  ramdisk_bursts #(.DataWidth(DataWidth), .BlockSizeLog2(BlockSizeLog2)) u_read_bursts (
    .clk_i,
    .rst_ni,
    .base_i  (BaseAddress),
    .valid_i (host.req_valid & is_read),
    .ready_o (read_start_ready),
    .tag_i   (host.req.tag),
    .zero_i  (1'b0),
    .lba_i   (host.req.lba),
    .count_i (host.req.count),
    .valid_o (ar_valid),
    .ready_i (axi_i.ar_ready & read_order_ready),
    .burst_o (axi_o.ar),
    .tag_o   (ar_tag),
    .zero_o  (),
    .last_o  (ar_last)
  );

  assign axi_o.ar_valid = ar_valid & read_order_ready;

  prim_fifo #(.Width(TagWidth + 1), .Depth(QueueDepth)) u_read_order (
    .clk_i,
    .rst_ni,
    .valid_i (ar_valid & axi_i.ar_ready),
    .ready_o (read_order_ready),
    .data_i  ({ar_tag, ar_last}),
    .valid_o (r_valid),
    .ready_i (r_taken & axi_i.r_last),
    .data_o  ({r_tag, r_last})
  );

  // The last word needs room for its response.
  assign dev.read_valid = axi_i.r_valid & r_valid & read_done_ready;
  assign dev.read       = '{tag: r_tag, last: axi_i.r_last & r_last};
  assign axi_o.r_ready  = host.read_ready & r_valid & read_done_ready;
  assign r_taken        = axi_i.r_valid & axi_o.r_ready;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni)      r_worst_q <= axi_pkg::RespOkay;
    else if (r_taken) r_worst_q <= dev.read.last ? axi_pkg::RespOkay : worse(r_worst_q, axi_i.r_resp);
  end

  prim_fifo #(.Width($bits(rsp_t)), .Depth(2)) u_read_done (
    .clk_i,
    .rst_ni,
    .valid_i (r_taken & dev.read.last),
    .ready_o (read_done_ready),
    .data_i  (answer(r_tag, worse(r_worst_q, axi_i.r_resp))),
    .valid_o (rsp_valid[0]),
    .ready_i (rsp_ready[0]),
    .data_o  (rsp[0])
  );

  // --- Writes: AW ahead of W, B in order; a flush is in the order without a burst -----------
  logic write_start_ready, aw_valid, aw_last, aw_taken, w_open, w_order_ready, b_order_ready;
  logic b_valid, b_last, b_flush, b_taken, b_done, flush_taken, w_last, is_write, aw_zero, w_zero;
  tag_t aw_tag, b_tag;
  logic [7:0] w_len, w_index_q;
  axi_pkg::resp_e b_resp, b_worst_q;

  // A request to write zeroes becomes bursts for which the host sends no data.
  assign is_write = (host.req.op == OpWrite) | (host.req.op == OpWriteZeroes);

  ramdisk_bursts #(.DataWidth(DataWidth), .BlockSizeLog2(BlockSizeLog2)) u_write_bursts (
    .clk_i,
    .rst_ni,
    .base_i  (BaseAddress),
    .valid_i (host.req_valid & is_write),
    .ready_o (write_start_ready),
    .tag_i   (host.req.tag),
    .zero_i  (host.req.op == OpWriteZeroes),
    .lba_i   (host.req.lba),
    .count_i (host.req.count),
    .valid_o (aw_valid),
    .ready_i (axi_i.aw_ready & w_order_ready & b_order_ready),
    .burst_o (axi_o.aw),
    .tag_o   (aw_tag),
    .zero_o  (aw_zero),
    .last_o  (aw_last)
  );

  assign axi_o.aw_valid = aw_valid & w_order_ready & b_order_ready;
  assign aw_taken       = axi_o.aw_valid & axi_i.aw_ready;
  // A flush waits until all bursts of the earlier writes are in the queue.
  assign flush_taken    = host.req_valid & (host.req.op == OpFlush) & ~aw_valid & b_order_ready;

  prim_fifo #(.Width(9), .Depth(QueueDepth)) u_w_order (
    .clk_i,
    .rst_ni,
    .valid_i (aw_taken),
    .ready_o (w_order_ready),
    .data_i  ({aw_zero, axi_o.aw.len}),
    .valid_o (w_open),
    .ready_i (axi_o.w_valid & axi_i.w_ready & w_last),
    .data_o  ({w_zero, w_len})
  );

  assign w_last          = w_index_q == w_len;
  assign axi_o.w_valid   = (host.write_valid | w_zero) & w_open;
  assign axi_o.w_last    = w_last;
  assign dev.write_ready = axi_i.w_ready & w_open & ~w_zero;

  assign axi_write_data_o = w_zero ? '0 : write_data;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) w_index_q <= '0;
    else if (axi_o.w_valid && axi_i.w_ready) w_index_q <= w_last ? '0 : w_index_q + 8'd1;
  end

  prim_fifo #(.Width(TagWidth + 2), .Depth(QueueDepth)) u_b_order (
    .clk_i,
    .rst_ni,
    .valid_i (aw_taken | flush_taken),
    .ready_o (b_order_ready),
    .data_i  (flush_taken ? {host.req.tag, 2'b11} : {aw_tag, aw_last, 1'b0}),
    .valid_o (b_valid),
    .ready_i (b_taken),
    .data_o  ({b_tag, b_last, b_flush})
  );

  assign b_done        = b_valid & b_last & (b_flush | axi_i.b_valid);
  assign axi_o.b_ready = b_valid & ~b_flush & (~b_last | rsp_ready[1]);
  assign b_taken       = b_last ? b_done & rsp_ready[1] : axi_i.b_valid & axi_o.b_ready;
  assign b_resp        = b_flush ? axi_pkg::RespOkay : worse(b_worst_q, axi_i.b_resp);
  assign rsp_valid[1]  = b_done;
  assign rsp[1]        = answer(b_tag, b_resp);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni)      b_worst_q <= axi_pkg::RespOkay;
    else if (b_taken) b_worst_q <= b_last ? axi_pkg::RespOkay : b_resp;
  end

  always_comb begin
    unique case (host.req.op)
      OpRead:                 dev.req_ready = read_start_ready;
      OpWrite, OpWriteZeroes: dev.req_ready = write_start_ready;
      default: dev.req_ready = ~aw_valid & b_order_ready;
    endcase
  end
endmodule
