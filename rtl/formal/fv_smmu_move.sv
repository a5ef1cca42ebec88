// SPDX-License-Identifier: Apache-2.0 OR MIT
// smmu_move with pages of 4 words in bursts of 2, and any moves, accesses to tables, drive and memory that keep their rules: a
// page, whichever it is, ends without an error only when its words, any of which is watched, are where they belong, unchanged, and both
// sides have answered; an error of either side is told; an access to a table is answered once, with its own word.
module fv_smmu_move
  import smmu_pkg::*;
  import block_pkg::*;
(
  input logic        clk_i,
  input logic        rst_ni,
  input logic [1:0]  move_i,
  input logic [1:0]  frame_i,
  input logic [2:0]  number_i,
  input logic        watch_i,
  input logic [1:0]  index_i,      // the watched word of the page
  input logic        table_i,      // an access begins
  input logic        table_write_i,
  input logic [1:0]  table_word_i,
  input entry_t      entry_i,
  input dev_t        dev_i,
  input logic [31:0] read_data_i,
  input axi_pkg::memory_t axi_i,
  input logic [31:0] axi_read_data_i,
  input logic        moved_ready_i
);
  import axi_pkg::address_t;
  localparam int unsigned Words = 4, Fills = 4, Tags = 7, FlushTag = 6, Bursts = 16;

  // --- The mover, and what asks it ---------------------------------------------------------------------
  move_t      move;
  moved_t     moved;
  table_req_t table_req;
  table_rsp_t table_rsp;
  host_t      host;
  axi_pkg::manager_t axi;
  logic       fill_ready, write_ready, flush_ready, started_q, table_q, table_write_q, now;
  logic [1:0] table_word_q;
  entry_t     entry_q;
  logic [31:0] write_data, axi_write_data;
  initial started_q = 1'b0;

  always_comb begin
    move = '{move: move_e'(move_i), frame: frame_t'(frame_i), number: number_t'(number_i)};
    if (((move.move == MoveFill) && !fill_ready) || ((move.move == MoveWrite) && !write_ready) ||
        ((move.move == MoveFlush) && !flush_ready)) move.move = MoveNone;
    // Tables are not in the frames.
    table_req = '{valid: table_q, write: table_write_q, address: {1'b1, 43'd0, table_word_q, 2'b00}, entry: entry_q};
  end

  smmu_move #(.PageLog2(4), .BlockSizeLog2(4), .BurstLog2(1)) dut (
    .clk_i, .rst_ni, .frames_i('0), .move_i(move), .fill_ready_o(fill_ready), .write_ready_o(write_ready),
    .flush_ready_o(flush_ready), .moved_ready_i, .moved_o(moved), .idle_o(), .writes_idle_o(), .table_i(table_req), .table_o(table_rsp),
    .host_o(host), .write_data_o(write_data), .dev_i, .read_data_i, .axi_o(axi), .axi_write_data_o(axi_write_data),
    .axi_write_strobe_o(), .axi_i, .axi_read_data_i
  );

  // --- The drive: data by request, each request's words together; the answer after them (B4 to B7) ------
  logic [Tags-1:0] asked_q, moves_q;       // requests without an answer; ... whose words have not all moved
  logic       giving_q, req_taken, given, taken;
  logic [2:0] giving_tag_q, req_tag, rsp_tag;
  logic [1:0] given_q, taken_q;
  assign req_tag   = host.req.tag[2:0];
  assign rsp_tag   = dev_i.rsp.tag[2:0];
  assign req_taken = host.req_valid & dev_i.req_ready;
  assign given     = dev_i.read_valid & host.read_ready;
  assign taken     = host.write_valid & dev_i.write_ready;

  // --- The memory: addresses in order, words in order, answers in order ----------------------------------
  address_t   aw_q [Bursts], ar_q [Bursts], write_at, read_at;
  logic [7:0] ar_len_q [Bursts];
  logic [4:0] aws_q, ars_q, ws_q, bs_q, rs_q;  // addresses taken; bursts of words written, answered, read
  logic [7:0] w_beat_q, r_beat_q;
  logic       wrote, read;
  assign wrote    = axi.w_valid & axi_i.w_ready;
  assign read     = axi_i.r_valid & axi.r_ready;
  assign write_at = aw_q[ws_q[3:0]] + (address_t'(w_beat_q) << 2);
  assign read_at  = ar_q[rs_q[3:0]] + (address_t'(r_beat_q) << 2);

  // --- The watched page --------------------------------------------------------------------------------
  logic        watched_q, open_q, fill_q, good_q, from_q, to_q, stored_q, failed_q;
  logic [1:0]  index_q;
  logic [2:0]  tag_q;
  frame_t      frame_q;
  number_t     number_q;
  logic [31:0] word_q;
  logic [4:0]  burst_q;
  address_t    place;
  logic        ends;
  logic [3:0]  busy_q;  // frames with a move under way
  assign place = (address_t'(frame_q) << 4) + (address_t'(index_q) << 2);
  assign now   = move.move == MoveFill || move.move == MoveWrite;
  assign ends  = open_q & (moved.move == (fill_q ? MoveFill : MoveWrite)) & (moved.frame == frame_q);

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      {asked_q, moves_q, giving_q, given_q, taken_q, aws_q, ars_q, ws_q, bs_q, rs_q, w_beat_q, r_beat_q} <= '0;
      {table_q, watched_q, open_q, busy_q} <= '0;
    end else begin
      // The drive.
      assume (!dev_i.read_valid || (dev_i.read.tag[4:3] == '0));
      assume (!dev_i.read_valid || (giving_q ? (dev_i.read.tag[2:0] == giving_tag_q)
                                             : (dev_i.read.tag[2:0] < 3'(Fills)) && moves_q[dev_i.read.tag[2:0]]));
      assume (dev_i.read.last == (given_q == '1));
      assume (!dev_i.rsp_valid || ((dev_i.rsp.tag < tag_t'(Tags)) && asked_q[rsp_tag] && !moves_q[rsp_tag]));
      if (req_taken) begin
        a_free: assert ((host.req.tag < tag_t'(Tags)) && !asked_q[req_tag]);
        asked_q[req_tag] <= 1'b1;
        moves_q[req_tag] <= host.req.op != OpFlush;
      end
      if (dev_i.rsp_valid) asked_q[rsp_tag] <= 1'b0;
      if (dev_i.read_valid && !giving_q) {giving_q, giving_tag_q} <= {1'b1, dev_i.read.tag[2:0]};
      if (given) begin
        given_q <= given_q + 2'd1;
        if (given_q == '1) {giving_q, moves_q[dev_i.read.tag[2:0]]} <= '0;
      end
      if (taken) begin
        taken_q <= taken_q + 2'd1;
        a_last: assert ((host.write.last == (taken_q == '1)) && moves_q[host.write.tag[2:0]]);
        if (host.write.last) moves_q[host.write.tag[2:0]] <= 1'b0;
      end
      // The memory.
      assume (!axi_i.w_ready || (ws_q < aws_q));
      assume (!axi_i.b_valid || (bs_q < ws_q));
      assume (!axi_i.r_valid || (rs_q < ars_q));
      if (axi.aw_valid && axi_i.aw_ready) begin
        aw_q[aws_q[3:0]] <= axi.aw.address;
        aws_q <= aws_q + 5'd1;
      end
      if (axi.ar_valid && axi_i.ar_ready) begin
        {ar_q[ars_q[3:0]], ar_len_q[ars_q[3:0]]} <= {axi.ar.address, axi.ar.len};
        ars_q <= ars_q + 5'd1;
      end
      if (wrote) {w_beat_q, ws_q} <= axi.w_last ? {8'd0, ws_q + 5'd1} : {w_beat_q + 8'd1, ws_q};
      if (read) {r_beat_q, rs_q} <= (r_beat_q == ar_len_q[rs_q[3:0]]) ? {8'd0, rs_q + 5'd1} : {r_beat_q + 8'd1, rs_q};
      if (axi_i.b_valid) bs_q <= bs_q + 5'd1;

      // Tables: an answer comes for an access, after it was made, and has its word.
      if (table_i && !table_q) {table_q, table_write_q, table_word_q, entry_q} <= {1'b1, table_write_i, table_word_i, entry_i};
      if (table_rsp.done) begin
        table_q <= 1'b0;
        a_asked: assert (table_q);
        a_read:  assert (table_write_q || (read && (read_at == table_req.address) && (table_rsp.entry == axi_read_data_i) &&
                                           (table_rsp.error == axi_i.r_resp[1])));
        a_wrote: assert (!table_write_q || (axi_i.b_valid && (aw_q[bs_q[3:0]] == table_req.address) &&
                                            (table_rsp.error == axi_i.b_resp[1])));
      end
      if (wrote && write_at[47]) a_entry: assert ((write_at == table_req.address) && (axi_write_data == entry_q));

      // A frame has one move at a time (smmu_pages).
      assume (!now || !busy_q[frame_i]);
      if ((moved.move == MoveFill) || (moved.move == MoveWrite)) busy_q[moved.frame[1:0]] <= 1'b0;
      if (now) busy_q[frame_i] <= 1'b1;

      // The watched page.
      if (now && watch_i && !watched_q) begin
        {watched_q, open_q, from_q, to_q, stored_q, failed_q} <= 6'b110000;
        fill_q   <= move.move == MoveFill;
        index_q  <= index_i;
        tag_q    <= dut.tag;
        frame_q  <= move.frame;
        number_q <= move.number;
      end
      if (open_q) begin
        if (req_taken && (req_tag == tag_q)) begin
          a_request: assert ((host.req.op == (fill_q ? OpRead : OpWrite)) && (host.req.lba == lba_t'(number_q)) &&
                             (host.req.count == count_t'(1)));
        end
        if (fill_q) begin
          if (given && (dev_i.read.tag[2:0] == tag_q) && (given_q == index_q)) {from_q, word_q} <= {1'b1, read_data_i};
          if (wrote && (write_at == place)) begin
            a_once: assert (!to_q);
            a_word: assert (given && (dev_i.read.tag[2:0] == tag_q) && (given_q == index_q) && (axi_write_data == read_data_i));
            {to_q, burst_q} <= {1'b1, ws_q};
          end
          if (axi_i.b_valid && to_q && (bs_q == burst_q)) {stored_q, failed_q} <= {1'b1, failed_q | axi_i.b_resp[1]};
        end else begin
          if (read && (read_at == place)) begin
            a_from: assert (!from_q && taken && (host.write.tag[2:0] == tag_q) && (taken_q == index_q) && (write_data == axi_read_data_i));
            {from_q, to_q, stored_q} <= '1;
            if (axi_i.r_resp[1]) failed_q <= 1'b1;
          end
        end
        if (dev_i.rsp_valid && (rsp_tag == tag_q) && (dev_i.rsp.status != StatusOk)) failed_q <= 1'b1;
        if (ends) begin
          open_q <= 1'b0;
          a_ends:  assert (from_q && to_q && stored_q && !asked_q[tag_q]);
          a_error: assert (!failed_q || moved.error);
          a_names: assert (moved.number == number_q);
        end
      end
    end
  end
endmodule
