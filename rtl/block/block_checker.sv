// SPDX-License-Identifier: Apache-2.0 OR MIT
// Watches one block interface and checks both sides against the rules B1 to B9, B13 and B14 of
// docs/rtl-interfaces.md. For simulation (Verilator with --assert) and for proofs, where either side
// may be assumed instead. Drives nothing but `idle_o`.
//
// DataWidth      bits of the data streams
// BlockSizeLog2  log2 of a block's bytes
// UsedTags       tags from 0 on that the host may use (fewer keep a proof small)
// CountBits      bits of a request's length in blocks (fewer keep a proof small)
// AssumeHost     assume the host's rules instead of asserting them
// AssumeDevice   assume the device's rules instead of asserting them
// TimeoutCycles  the longest time without progress that a device may cause (B9); 0: not checked
// CancelCycles   the same while the host cancels (B13); 0: not checked
module block_checker
  import block_pkg::*;
#(
  parameter int unsigned DataWidth     = 32,
  parameter int unsigned BlockSizeLog2 = 9,
  parameter int unsigned UsedTags      = NumTags,
  parameter int unsigned CountBits     = CountWidth,
  parameter bit          AssumeHost    = 1'b0,
  parameter bit          AssumeDevice  = 1'b0,
  parameter int unsigned TimeoutCycles = 0,
  parameter int unsigned CancelCycles   = 0
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  geometry_t            geometry_i,
  input  host_t                host_i,
  input  logic [DataWidth-1:0] write_data_i,
  input  dev_t                 dev_i,
  input  logic [DataWidth-1:0] read_data_i,
  output logic                 idle_o  // nothing is outstanding
);
  localparam int unsigned WordsLog2  = BlockSizeLog2 - $clog2(DataWidth / 8);
  localparam int unsigned WordsWidth = CountBits + WordsLog2;
  localparam int unsigned IndexWidth = (UsedTags > 1) ? $clog2(UsedTags) : 1;
  typedef logic [IndexWidth-1:0] index_t;
  typedef logic [WordsWidth-1:0] words_t;

  // The blocks matter: without them Verilator takes `else` as the assumption's own, and drops the assertion.
  `define HOST(name, rule) if (AssumeHost) begin name: assume (rule); end else begin name``_holds: assert (rule); end
  `define DEVICE(name, rule) if (AssumeDevice) begin name: assume (rule); end else begin name``_holds: assert (rule); end

  // Each tag's request.
  logic [UsedTags-1:0] open_q, read_q;
  words_t left_q [UsedTags];
  // The writes whose data are expected, in the order of their requests.
  tag_t order_q [UsedTags];
  logic [IndexWidth:0] order_head_q, order_tail_q;
  // The read whose data are being transferred.
  logic reading_q;
  tag_t reading_tag_q;
  // The previous cycle.
  host_t host_q;
  dev_t  dev_q;
  geometry_t geometry_q;
  logic [3:0] generation_q;  // when the device was last ready
  logic was_ready_q;
  logic [UsedTags-1:0] old_q;  // outstanding since before `ready` fell
  logic [DataWidth-1:0] write_data_q, read_data_q;
  logic  seen_q;

  logic req_taken, write_taken, read_taken, rsp_taken;
  index_t req_index, write_index, read_index, rsp_index;
  tag_t write_tag;

  assign req_taken   = host_i.req_valid & dev_i.req_ready;
  assign write_taken = host_i.write_valid & dev_i.write_ready;
  assign read_taken  = dev_i.read_valid & host_i.read_ready;
  assign rsp_taken   = dev_i.rsp_valid & host_i.rsp_ready;
  assign req_index   = index_t'(host_i.req.tag);
  assign write_tag   = order_q[index_t'(order_head_q)];
  assign write_index = index_t'(write_tag);
  assign read_index  = index_t'(dev_i.read.tag);
  assign rsp_index   = index_t'(dev_i.rsp.tag);
  assign idle_o      = open_q == '0;

  function automatic logic [IndexWidth:0] advance(logic [IndexWidth:0] pointer);
    if (index_t'(pointer) == index_t'(UsedTags - 1)) return {~pointer[IndexWidth], index_t'(0)};
    return pointer + (IndexWidth + 1)'(1);
  endfunction

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      if (seen_q) begin
        if (host_q.req_valid && !dev_q.req_ready) begin
          `HOST(b1_request, host_i.req_valid && (host_i.req == host_q.req))
        end
        if (host_q.write_valid && !dev_q.write_ready) begin
          `HOST(b1_write, host_i.write_valid && (host_i.write == host_q.write) &&
                (write_data_i == write_data_q))
        end
        if (dev_q.read_valid && !host_q.read_ready) begin
          `DEVICE(b1_read, dev_i.read_valid && (dev_i.read == dev_q.read) &&
                  (read_data_i == read_data_q))
        end
        if (host_q.cancel && !idle_o) begin
          `HOST(b13_until_idle, host_i.cancel)
        end
        if (geometry_q.ready && geometry_i.ready) begin
          `DEVICE(b14_constant, geometry_i == geometry_q)
        end
        if (!geometry_q.ready && geometry_i.ready && was_ready_q) begin
          `DEVICE(b14_generation, geometry_i.generation != generation_q)
        end
        if (!geometry_q.ready && geometry_i.ready) begin
          `DEVICE(b14_ended, old_q == '0)
        end
        if (dev_q.rsp_valid && !host_q.rsp_ready) begin
          `DEVICE(b1_response, dev_i.rsp_valid && (dev_i.rsp == dev_q.rsp))
        end
      end
      if (geometry_i.ready) begin
        `DEVICE(b14_block_size, 32'(geometry_i.block_size_log2) == BlockSizeLog2)
      end
      if (host_i.req_valid) begin
        `HOST(b2_tag_range, 32'(host_i.req.tag) < UsedTags)
        `HOST(b2_tag_free, !open_q[req_index])
        `HOST(b3_fua, !host_i.req.fua || (host_i.req.op == OpWrite))
        `HOST(b3_flush_count, (host_i.req.op != OpFlush) || (host_i.req.count == '0))
      end
      if (host_i.write_valid) begin
        `HOST(b4_write_after_request, order_head_q != order_tail_q)
        `HOST(b5_write_tag, host_i.write.tag == write_tag)
        `HOST(b6_write_last, host_i.write.last == (left_q[write_index] == words_t'(1)))
      end
      if (dev_i.read_valid) begin
        `DEVICE(b5_read_tag_range, 32'(dev_i.read.tag) < UsedTags)
        `DEVICE(b5_read_tag, open_q[read_index] && read_q[read_index] && (left_q[read_index] != '0))
        `DEVICE(b5_read_together, !reading_q || (dev_i.read.tag == reading_tag_q))
        `DEVICE(b6_read_last, dev_i.read.last == (left_q[read_index] == words_t'(1)))
      end
      if (dev_i.rsp_valid) begin
        `DEVICE(b7_response_tag_range, 32'(dev_i.rsp.tag) < UsedTags)
        `DEVICE(b7_response_tag, open_q[rsp_index])
        `DEVICE(b7_response_after_data, left_q[rsp_index] == '0)
        `DEVICE(b8_status, dev_i.rsp.status <= StatusGone)
        `DEVICE(b8_detail, (dev_i.rsp.status != StatusOk) || (dev_i.rsp.detail == '0))
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      open_q       <= '0;
      old_q        <= '0;
      order_head_q <= '0;
      order_tail_q <= '0;
      reading_q    <= 1'b0;
      seen_q       <= 1'b0;
      was_ready_q  <= 1'b0;
    end else begin
      seen_q <= 1'b1;
      if (geometry_i.ready) was_ready_q <= 1'b1;
      if (geometry_q.ready && !geometry_i.ready) old_q <= open_q;
      if (rsp_taken) open_q[rsp_index] <= 1'b0;
      if (rsp_taken) old_q[rsp_index] <= 1'b0;
      if (req_taken) begin
        open_q[req_index] <= 1'b1;
        if ((host_i.req.op == OpWrite) && (host_i.req.count != '0)) begin
          order_tail_q <= advance(order_tail_q);
        end
      end
      if (write_taken && host_i.write.last) order_head_q <= advance(order_head_q);
      if (read_taken) reading_q <= ~dev_i.read.last;
    end
  end

  always_ff @(posedge clk_i) begin
    host_q       <= host_i;
    dev_q        <= dev_i;
    geometry_q   <= geometry_i;
    if (geometry_i.ready) generation_q <= geometry_i.generation;
    write_data_q <= write_data_i;
    read_data_q  <= read_data_i;
    if (read_taken) reading_tag_q <= dev_i.read.tag;
    if (req_taken) begin
      read_q[req_index] <= host_i.req.op == OpRead;
      left_q[req_index] <= moves_data(host_i.req) ? words_t'(host_i.req.count) << WordsLog2 : '0;
      order_q[index_t'(order_tail_q)] <= host_i.req.tag;
    end
    if (write_taken) left_q[write_index] <= left_q[write_index] - words_t'(1);
    if (read_taken)  left_q[read_index]  <= left_q[read_index] - words_t'(1);
  end

  // B9: while a request is outstanding, the device must make progress unless the host prevents it.
  if ((TimeoutCycles != 0) || (CancelCycles != 0)) begin : gen_timeout
    int unsigned still_q, cancel_q;  // cycles without progress: all, and those while the host cancels
    logic host_waits;
    assign host_waits = (dev_i.read_valid & ~host_i.read_ready) | (dev_i.rsp_valid & ~host_i.rsp_ready) |
                        ((order_head_q != order_tail_q) & ~host_i.write_valid);
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        still_q <= 0;
        cancel_q <= 0;
      end else if (idle_o || host_waits || write_taken || read_taken || rsp_taken) begin
        still_q <= 0;
        cancel_q <= 0;
      end else begin
        still_q <= still_q + 1;
        cancel_q <= host_i.cancel ? cancel_q + 1 : 0;
      end
    end
    always_ff @(posedge clk_i) begin
      if (rst_ni) begin
        `DEVICE(b9_bounded, (TimeoutCycles == 0) || (still_q < TimeoutCycles))
        `DEVICE(b13_bounded, (CancelCycles == 0) || (cancel_q < CancelCycles))
      end
    end
  end

  `undef HOST
  `undef DEVICE
endmodule
