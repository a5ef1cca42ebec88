// SPDX-License-Identifier: Apache-2.0 OR MIT
// virtio_walk: for any contents of memory, it reads whole descriptors inside the descriptor table or inside one indirect
// table that a descriptor of this chain names; it ends after a bounded number of descriptors; a chain that it accepts is in
// order, has room for a status, and has the totals of its segments.
module fv_virtio_walk
  import virtio_pkg::*;
(
  input logic        clk_i,
  input logic        rst_ni,
  input logic        start_i,
  input logic [15:0] head_i,
  input queue_t      queue_i,
  input logic        indirect_i,
  input logic        error_i,
  input logic [31:0] data_i
);
  localparam int unsigned Slots = 2;
  queue_t   queue_q;
  mem_req_t req;
  mem_rsp_t rsp;
  chain_t   chain;
  logic     done, fail, segment_write, started_q, busy_q, open_q, indirect_q;
  logic [2:0]  segment_address;
  logic [31:0] segment_data;

  // A memory that takes one run at a time, returns any words, and ends the run. It does not pause, to save depth.
  logic [2:0] left_q;
  assign rsp = '{ready: ~open_q, w_ready: 1'b0, r_valid: open_q & (left_q != '0), r_data: data_i,
                 done: open_q & (left_q == '0), error: error_i};

  virtio_walk #(.Slots(Slots)) dut (
    .clk_i, .rst_ni, .abort_i(1'b0), .start_i(start_i & rst_ni & ~busy_q), .head_i, .queue_i(queue_q), .indirect_i(indirect_q),
    .done_o(done), .fail_o(fail), .chain_o(chain), .mem_o(req), .mem_i(rsp), .segment_write_o(segment_write),
    .segment_address_o(segment_address), .segment_data_o(segment_data)
  );

  // An independent evaluation of each descriptor.
  logic [3:0][31:0] words_q;
  logic [2:0]  segments_q;    // descriptors that were read, except those of tables
  logic        named_q, again_q;  // an indirect table was named; a second one was
  logic [63:0] table_q;
  logic [31:0] table_bytes_q;
  logic [35:0] readable_q, writable_q;
  logic        last, is_table, is_write;
  logic        writing_q, mixed_q;  // a writable segment; a readable one after it
  assign is_table = words_q[3][2];
  assign is_write = words_q[3][1];
  assign last     = open_q & (left_q == '0) & ~error_i;

  logic in_ring, in_table;
  logic [63:0] place;
  assign place    = 64'(req.address);
  assign in_ring  = (place >= 64'(queue_q.desc)) && (place + 64'd16 <= 64'(queue_q.desc) + 64'd16 * (64'(queue_q.mask) + 64'd1)) &&
                    (place[3:0] == queue_q.desc[3:0]);
  assign in_table = named_q && (place >= table_q) && (place + 64'd16 <= table_q + 64'(table_bytes_q)) &&
                    ((place[3:0] - table_q[3:0]) == '0);
  initial started_q = 1'b0;

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      // A queue that the registers accept.
      assume (((queue_i.mask & (queue_i.mask + 10'd1)) == '0) && (queue_i.mask <= 10'd3) && (queue_i.desc[3:0] == '0) && (queue_i.desc[46:12] == '0));
      queue_q    <= queue_i;
      indirect_q <= indirect_i;
      busy_q     <= 1'b0;
      open_q     <= 1'b0;
      left_q     <= '0;
    end else begin
      if (start_i && !busy_q) begin
        busy_q     <= 1'b1;
        segments_q <= '0;
        {named_q, again_q} <= '0;
        {writing_q, mixed_q} <= '0;
        readable_q <= '0;
        writable_q <= '0;
      end
      if (done) begin
        a_only_when_asked: assert (busy_q);
        busy_q <= 1'b0;
        if (!fail) begin
          a_status:   assert (chain.too_long || (chain.writable != '0));
          a_readable: assert (chain.too_long || (36'(chain.readable) == readable_q));
          a_writable: assert (chain.too_long || (36'(chain.writable) == writable_q));
          a_long:     assert (chain.too_long == ((readable_q >= 36'd1 << 26) || (writable_q >= 36'd1 << 26)));
          a_order:    assert (!mixed_q);
          a_slot:     assert (chain.first_writable < 16'(Slots));
        end
      end
      if (req.valid) begin
        a_reads:  assert (!req.write && (req.words == words_t'(4)));
        a_inside: assert (in_ring || in_table);
        a_indirect: assert ((!named_q || in_table) && !again_q);
        a_bounded: assert (32'(segments_q) < Slots);
      end
      if (req.valid && rsp.ready) begin
        open_q <= 1'b1;
        left_q <= 3'd4;
      end
      if (rsp.r_valid && req.r_ready) begin
        left_q  <= left_q - 3'd1;
        words_q <= {data_i, words_q[3:1]};
      end
      if (rsp.done) open_q <= 1'b0;
      if (last && is_table) begin
        // The indirect table of a descriptor, which the core has accepted if it continues to read.
        named_q       <= 1'b1;
        again_q       <= named_q;
        table_q       <= {words_q[1], words_q[0]};
        table_bytes_q <= words_q[2];
      end
      if (last && !is_table) begin
        segments_q <= segments_q + 3'd1;
        writing_q  <= writing_q | is_write;
        mixed_q    <= mixed_q | (writing_q & ~is_write);
        if (is_write) writable_q <= writable_q + 36'(words_q[2]);
        else          readable_q <= readable_q + 36'(words_q[2]);
      end
      if (segment_write) begin
        a_segment: assert (busy_q && (segment_address[1:0] == 2'(3'd4 - left_q)) && (segment_data == data_i));
      end
    end
  end
endmodule
