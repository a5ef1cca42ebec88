// SPDX-License-Identifier: Apache-2.0 OR MIT
// Sends the core's requests to the device and counts the outstanding ones of each class: loads, flushes, writes, fetches.
// Tags: 00000 the load, 00001 the flush, 01nnn a write, 1nnnn a fetch. The numbers are assigned in ascending order, so a
// fetch that is answered out of order is detected.
//
// Owns the request port, the tags and the first error since errors were last cleared. Never touches data.
//
// BlockSizeLog2  log2 of the device's block
// Outstanding    concurrent fetches, 1 to 16; more than 1 only with a device that answers reads in order
module hwfs_ports
  import block_pkg::*;
  import hwfs_pkg::*;
#(
  parameter int unsigned BlockSizeLog2 = 6,
  parameter int unsigned Outstanding   = 2
) (
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic        do_valid_i,  // an instruction that needs a request, which is free
  input  do_t         do_i,
  output logic        load_free_o,   // a request of this class can be taken
  output logic        flush_free_o,
  output logic        write_free_o,
  output logic        fetch_free_o,
  input  logic [15:0] node_bytes_i,
  input  logic        forget_i,    // clear errors

  output logic        req_valid_o,
  output req_t        req_o,
  input  logic        req_ready_i,
  output logic        send_o,      // a write request was taken: its data may follow

  input  logic        rsp_valid_i,
  input  rsp_t        rsp_i,
  input  logic        read_end_i,  // the last word of a fetch was taken
  input  beat_t       read_i,
  input  logic        read_valid_i,

  output logic        loaded_o,
  output logic        flushed_o,
  output logic        written_o,
  output logic        fetched_o,
  output logic        error_o,
  output status_e     status_o,
  output logic [15:0] detail_o
);
  typedef enum logic [1:0] {ClassLoad, ClassFlush, ClassWrite, ClassFetch} class_e;
  typedef logic [2:0] write_t;
  typedef logic [3:0] fetch_t;
  typedef logic [$clog2(Outstanding + 1)-1:0] left_t;

  logic [NumTags-1:0] open_q, open_d;
  write_t             write_q, writes_q;  // number of the next one; number of outstanding ones
  fetch_t             fetch_q, read_q;    // number of the next one; number of the one whose data come next
  left_t              fetches_q;          // number of outstanding fetches
  logic               req_valid_q, error_q;
  req_t               req_q;
  status_e            status_q;
  logic [15:0]        detail_q;

  class_e kind;
  tag_t   tag;
  logic   accept, misordered, rsp_fetch, rsp_write, req_valid_d;
  write_t write_d, writes_d;
  fetch_t fetch_d;
  left_t  fetches_d;
  lba_t   lba;
  count_t count, node_blocks;

  always_comb begin
    unique case (do_i.unit)
      DoLoad:  kind = ClassLoad;
      DoFlush: kind = ClassFlush;
      DoFetch: kind = ClassFetch;
      default: kind = ClassWrite;
    endcase
    unique case (kind)
      ClassFetch: tag = {1'b1, fetch_q};
      ClassWrite: tag = {2'b01, write_q};
      ClassFlush: tag = tag_t'(1);
      default:    tag = tag_t'(0);
    endcase
    node_blocks = count_t'(node_bytes_i) >> BlockSizeLog2;
    if (do_i.imm[DoSuper]) node_blocks = (BlockSizeLog2 > 8) ? count_t'(1) : count_t'(256 >> BlockSizeLog2);
    if (do_i.imm[DoRaw])   node_blocks = count_t'(1);
    lba   = lba_t'(do_i.a >> BlockSizeLog2);
    count = node_blocks;
    if (do_i.unit == DoFlush) begin
      lba   = '0;
      count = '0;
    end
    if ((do_i.unit == DoFetch) || (do_i.unit == DoPut)) count = count_t'(do_i.b >> BlockSizeLog2);
  end

  assign accept     = do_valid_i;
  assign rsp_fetch  = rsp_valid_i & rsp_i.tag[4];
  assign rsp_write  = rsp_valid_i & (rsp_i.tag[4:3] == 2'b01);
  // Fetches must be answered in order; otherwise the device is at fault.
  assign misordered = read_valid_i & read_i.tag[4] & (read_i.tag[3:0] != read_q);

  assign req_valid_o = req_valid_q;
  assign req_o       = req_q;
  assign send_o      = req_valid_q & req_ready_i & (req_q.op == OpWrite);
  assign loaded_o    = ~open_q[0];
  assign flushed_o   = ~open_q[1];
  assign written_o   = writes_q == '0;
  assign fetched_o   = fetches_q == '0;
  assign error_o     = error_q;
  assign status_o    = status_q;
  assign detail_o    = detail_q;

  always_comb begin
    open_d = open_q;
    if (rsp_valid_i) open_d[rsp_i.tag] = 1'b0;
    if (accept)      open_d[tag]       = 1'b1;
    req_valid_d = accept | (req_valid_q & ~req_ready_i);
    write_d     = write_q + write_t'(accept && (kind == ClassWrite));
    fetch_d     = fetch_q + fetch_t'(accept && (kind == ClassFetch));
    writes_d    = writes_q + write_t'(accept && (kind == ClassWrite)) - write_t'(rsp_write);
    fetches_d   = fetches_q + left_t'(accept && (kind == ClassFetch)) - left_t'(rsp_fetch);
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      open_q      <= '0;
      write_q     <= '0;
      writes_q    <= '0;
      fetch_q     <= '0;
      fetches_q   <= '0;
      read_q      <= '0;
      req_valid_q <= 1'b0;
      error_q     <= 1'b0;
      {load_free_o, flush_free_o, write_free_o, fetch_free_o} <= '1;
    end else begin
      open_q       <= open_d;
      req_valid_q  <= req_valid_d;
      write_q      <= write_d;
      fetch_q      <= fetch_d;
      writes_q     <= writes_d;
      fetches_q    <= fetches_d;
      load_free_o  <= ~req_valid_d & ~open_d[0];
      flush_free_o <= ~req_valid_d & ~open_d[1];
      write_free_o <= ~req_valid_d & ~open_d[{2'b01, write_d}] & (writes_d != '1);
      fetch_free_o <= ~req_valid_d & ~open_d[{1'b1, fetch_d}] & (fetches_d != left_t'(Outstanding));
      if (read_end_i) read_q <= read_q + fetch_t'(1);
      if (forget_i) error_q <= 1'b0;
      else if (misordered || (rsp_valid_i && (rsp_i.status != StatusOk))) error_q <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (accept) begin
      req_q <= '{op: (kind == ClassFlush) ? OpFlush : ((kind == ClassWrite) ? OpWrite : OpRead),
                 fua: (do_i.unit == DoStore) & do_i.imm[DoFua], tag: tag, lba: lba, count: count};
    end
    if (!error_q) begin
      status_q <= (rsp_valid_i && (rsp_i.status != StatusOk)) ? rsp_i.status : StatusDevice;
      detail_q <= rsp_i.detail;
    end
  end
endmodule
