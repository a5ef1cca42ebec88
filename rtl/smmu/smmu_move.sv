// SPDX-License-Identifier: Apache-2.0 OR MIT
// Moves whole pages between the drive and their frames, and reads and writes single entries of tables, over one AXI4 manager
// port and one block interface (as the host).
//
// Up to `Fills` reads and `Writes` writes of pages are under way, each under its own tag; a flush has a tag of its own. Words
// pass without a buffer: the drive's wait only for the memory and the memory's only for the drive (rule B10), because no other
// traffic is on this port. A page has been filled when the drive has answered and the memory has answered its last burst.
//
// Bursts are short, so that a table's entry never waits long behind a page.
//
// DataWidth      bits of both data paths
// PageLog2       log2 of a page's bytes
// BlockSizeLog2  log2 of a block's bytes
// BurstLog2      log2 of a burst's words
module smmu_move
  import smmu_pkg::*;
  import block_pkg::*;
#(
  parameter int unsigned DataWidth     = 32,
  parameter int unsigned PageLog2      = 12,
  parameter int unsigned BlockSizeLog2 = 9,
  parameter int unsigned BurstLog2     = 6
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  axi_pkg::address_t      frames_i,

  input  move_t                  move_i,        // starts now: its kind is ready
  output logic                   fill_ready_o,
  output logic                   write_ready_o,
  output logic                   flush_ready_o,
  input  logic                   moved_ready_i, // a page's end can be reported
  output moved_t                 moved_o,       // for one cycle
  output logic                   idle_o,        // no page moves
  output logic                   writes_idle_o,

  input  table_req_t             table_i,       // until `done`
  output table_rsp_t             table_o,

  output host_t                  host_o,
  output logic [DataWidth-1:0]   write_data_o,
  input  dev_t                   dev_i,
  input  logic [DataWidth-1:0]   read_data_i,

  output axi_pkg::manager_t      axi_o,
  output logic [DataWidth-1:0]   axi_write_data_o,
  output logic [DataWidth/8-1:0] axi_write_strobe_o,
  input  axi_pkg::memory_t       axi_i,
  input  logic [DataWidth-1:0]   axi_read_data_i
);
  import axi_pkg::address_t;
  localparam int unsigned Fills = 4, Writes = 2, Tags = Fills + Writes, FlushTag = Tags;
  localparam int unsigned WordLog2   = $clog2(DataWidth / 8);
  localparam int unsigned WordsLog2  = PageLog2 - WordLog2;
  localparam int unsigned BurstsLog2 = WordsLog2 - BurstLog2;
  localparam int unsigned Lanes      = DataWidth / 32;
  localparam int unsigned LaneWidth  = (Lanes > 1) ? $clog2(Lanes) : 1;
  typedef logic [2:0]            index_t;
  typedef logic [BurstsLog2:0]   bursts_t;
  typedef logic [WordsLog2-1:0]  word_t;

  // --- Moves under way -------------------------------------------------------------------------------
  logic [Tags-1:0] used_q, answered_q, stored_q, error_q;
  frame_t  frame_q [Tags];
  number_t number_q [Tags];
  status_e status_q [Tags];
  logic    req_valid_q, flushing_q, fill_free, write_free, start;
  req_t    req_q;
  index_t  fill, write, tag, ended;
  logic    req_taken, rsp, ends;

  always_comb begin
    fill       = '0;
    fill_free  = 1'b0;
    write      = '0;
    write_free = 1'b0;
    for (int unsigned i = Fills; i > 0; i--) begin
      if (!used_q[i-1]) {fill_free, fill} = {1'b1, index_t'(i - 1)};
    end
    for (int unsigned i = Tags; i > Fills; i--) begin
      if (!used_q[i-1]) {write_free, write} = {1'b1, index_t'(i - 1)};
    end
    tag = (move_i.move == MoveFill) ? fill : (move_i.move == MoveWrite) ? write : index_t'(FlushTag);
    // A page that has been filled, or has been written.
    ends  = 1'b0;
    ended = '0;
    for (int unsigned i = Tags; i > 0; i--) begin
      if (answered_q[i-1] && stored_q[i-1]) {ends, ended} = {moved_ready_i, index_t'(i - 1)};
    end
  end
  assign start         = move_i.move != MoveNone;
  assign fill_ready_o  = ~req_valid_q & fill_free;
  assign write_ready_o = ~req_valid_q & write_free;
  assign flush_ready_o = ~req_valid_q & ~flushing_q;
  assign req_taken     = req_valid_q & dev_i.req_ready;
  assign rsp           = dev_i.rsp_valid;
  assign idle_o        = (used_q == '0);
  assign writes_idle_o = used_q[Tags-1:Fills] == '0;

  logic flushed;
  assign flushed = rsp & (dev_i.rsp.tag == tag_t'(FlushTag));
  always_comb begin
    moved_o = '{move: MoveNone, frame: frame_q[ended], number: number_q[ended], error: error_q[ended],
                status: status_q[ended]};
    if (flushed)   moved_o = '{move: MoveFlush, frame: '0, number: '0, error: dev_i.rsp.status != StatusOk,
                               status: dev_i.rsp.status};
    else if (ends) moved_o.move = (ended < index_t'(Fills)) ? MoveFill : MoveWrite;
  end

  // --- The drive -------------------------------------------------------------------------------------
  logic   filling_q, writing, write_end, read_end, w_page, r_page;
  index_t filling_tag_q, writing_tag;
  always_comb begin
    host_o             = '0;
    host_o.req_valid   = req_valid_q;
    host_o.req         = req_q;
    host_o.write_valid = writing & r_page & axi_i.r_valid;
    host_o.write       = '{tag: tag_t'(writing_tag), last: write_end};
    host_o.read_ready  = filling_q & w_page & axi_i.w_ready;
    host_o.rsp_ready   = 1'b1;
  end
  assign write_data_o = axi_read_data_i;
  assign read_end     = dev_i.read_valid & host_o.read_ready & dev_i.read.last;

  // Writes whose data are to move, in the order of their requests.
  prim_fifo #(.Width($bits(index_t)), .Depth(Writes)) u_writes (
    .clk_i,
    .rst_ni,
    .valid_i (req_taken & (req_q.op == OpWrite)),
    .ready_o (),
    .data_i  (index_t'(req_q.tag)),
    .valid_o (writing),
    .ready_i (host_o.write_valid & dev_i.write_ready & write_end),
    .data_o  (writing_tag)
  );

  // --- Memory: addresses -----------------------------------------------------------------------------
  function automatic address_t place(address_t base, frame_t frame);
    return {base[$bits(address_t)-1:PageLog2] + ($bits(address_t) - PageLog2)'(frame), PageLog2'(0)};
  endfunction

  typedef struct packed {
    logic   page;   // otherwise a table's entry
    logic   last;   // the last burst of its page
    index_t tag;
  } order_t;
  logic     aw_valid_q, ar_valid_q, aw_room, ar_room, aw_table, ar_table, aw_page, ar_page, w_room, b_room, r_room;
  address_t aw_next_q, ar_next_q;
  bursts_t  aw_left_q, ar_left_q;
  logic     asked_q, reading_q;  // the table's access is under way; a write's addresses are being sent
  axi_pkg::burst_t aw_q, ar_q;
  order_t   aw_order, ar_order, w_order, b_order, r_order;
  logic     w_valid, w_end, b_valid, r_valid, r_end;

  assign aw_room  = (~aw_valid_q | axi_i.aw_ready) & w_room & b_room;
  assign ar_room  = (~ar_valid_q | axi_i.ar_ready) & r_room;
  assign aw_table = table_i.valid & table_i.write & ~asked_q & aw_room;
  assign ar_table = table_i.valid & ~table_i.write & ~asked_q & ar_room;
  assign aw_page  = ~aw_table & (aw_left_q != '0) & aw_room;
  assign ar_page  = ~ar_table & (ar_left_q != '0) & ar_room;
  assign aw_order = '{page: aw_page, last: aw_left_q == bursts_t'(1), tag: filling_tag_q};
  assign ar_order = '{page: ar_page, last: ar_left_q == bursts_t'(1), tag: writing_tag};

  // The order of write data, of their answers, and of the words that are read.
  prim_fifo #(.Width($bits(order_t)), .Depth(2)) u_w_order (
    .clk_i,
    .rst_ni,
    .valid_i (aw_table | aw_page),
    .ready_o (w_room),
    .data_i  (aw_order),
    .valid_o (w_valid),
    .ready_i (w_end),
    .data_o  (w_order)
  );
  prim_fifo #(.Width($bits(order_t)), .Depth(8)) u_b_order (
    .clk_i,
    .rst_ni,
    .valid_i (aw_table | aw_page),
    .ready_o (b_room),
    .data_i  (aw_order),
    .valid_o (b_valid),
    .ready_i (axi_i.b_valid),
    .data_o  (b_order)
  );
  prim_fifo #(.Width($bits(order_t)), .Depth(3)) u_r_order (
    .clk_i,
    .rst_ni,
    .valid_i (ar_table | ar_page),
    .ready_o (r_room),
    .data_i  (ar_order),
    .valid_o (r_valid),
    .ready_i (r_end),
    .data_o  (r_order)
  );

  // --- Memory: words ---------------------------------------------------------------------------------
  logic [BurstLog2-1:0] w_word_q, r_word_q;
  logic [LaneWidth-1:0] lane;
  assign lane   = (Lanes > 1) ? table_i.address[2+:LaneWidth] : '0;
  assign w_page = w_valid & w_order.page;
  assign r_page = r_valid & r_order.page;
  assign write_end = r_page & r_order.last & (r_word_q == '1);

  always_comb begin
    axi_o          = '0;
    axi_o.aw_valid = aw_valid_q;
    axi_o.aw       = aw_q;
    axi_o.ar_valid = ar_valid_q;
    axi_o.ar       = ar_q;
    axi_o.w_valid  = w_valid & (~w_order.page | (filling_q & dev_i.read_valid));
    axi_o.w_last   = ~w_order.page | (w_word_q == '1);
    axi_o.b_ready  = 1'b1;
    axi_o.r_ready  = r_valid & (~r_order.page | (writing & dev_i.write_ready));
    axi_write_data_o   = w_order.page ? read_data_i : {Lanes{table_i.entry}};
    axi_write_strobe_o = '1;
    if (!w_order.page) axi_write_strobe_o = (DataWidth / 8)'(4'hf) << {lane, 2'b00};
  end
  assign w_end = axi_o.w_valid & axi_i.w_ready & axi_o.w_last;
  assign r_end = axi_i.r_valid & axi_o.r_ready & (~r_order.page | (r_word_q == '1));

  logic wrote, read;
  assign wrote         = axi_i.b_valid & b_valid & ~b_order.page;
  assign read          = r_end & ~r_order.page;
  assign table_o.done  = wrote | read;
  assign table_o.error = wrote ? axi_i.b_resp[1] : axi_i.r_resp[1];
  assign table_o.entry = axi_read_data_i[32*lane+:32];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {used_q, answered_q, stored_q} <= '0;
      {req_valid_q, flushing_q, filling_q, reading_q, asked_q} <= '0;
      {aw_valid_q, ar_valid_q, aw_left_q, ar_left_q, w_word_q, r_word_q} <= '0;
    end else begin
      if (req_taken) req_valid_q <= 1'b0;
      if (start) req_valid_q <= 1'b1;
      if (flushed) flushing_q <= 1'b0;
      if (ends && !flushed) {used_q[ended], answered_q[ended], stored_q[ended]} <= '0;
      if (start) begin
        if (move_i.move == MoveFlush) flushing_q <= 1'b1;
        else used_q[tag] <= 1'b1;
        // The drive's answer to a write comes after its data.
        if (move_i.move == MoveWrite) stored_q[tag] <= 1'b1;
      end
      if (rsp && !flushed) answered_q[index_t'(dev_i.rsp.tag)] <= 1'b1;
      if (axi_i.b_valid && b_order.page && b_order.last) stored_q[b_order.tag] <= 1'b1;

      if (axi_i.aw_ready) aw_valid_q <= 1'b0;
      if (aw_table || aw_page) aw_valid_q <= 1'b1;
      if (axi_i.ar_ready) ar_valid_q <= 1'b0;
      if (ar_table || ar_page) ar_valid_q <= 1'b1;
      if (aw_table || ar_table) asked_q <= 1'b1;
      else if (table_o.done) asked_q <= 1'b0;

      // The drive's next page begins.
      if (!filling_q && dev_i.read_valid) begin
        filling_q <= 1'b1;
        aw_left_q <= bursts_t'(1 << BurstsLog2);
      end else begin
        if (read_end) filling_q <= 1'b0;
        if (aw_page) aw_left_q <= aw_left_q - bursts_t'(1);
      end
      // The next page for the drive.
      if (writing && !reading_q) begin
        reading_q <= 1'b1;
        ar_left_q <= bursts_t'(1 << BurstsLog2);
      end else begin
        if (host_o.write_valid && dev_i.write_ready && write_end) reading_q <= 1'b0;
        if (ar_page) ar_left_q <= ar_left_q - bursts_t'(1);
      end
      if (axi_o.w_valid && axi_i.w_ready && w_order.page) w_word_q <= w_word_q + BurstLog2'(1);
      if (axi_i.r_valid && axi_o.r_ready && r_order.page) r_word_q <= r_word_q + BurstLog2'(1);
    end
  end

  localparam int unsigned Blocks = 1 << (PageLog2 - BlockSizeLog2);
  always_ff @(posedge clk_i) begin
    if (start) begin
      req_q <= '{op: OpFlush, fua: 1'b0, tag: tag_t'(tag), lba: '0, count: '0};
      if (move_i.move != MoveFlush) begin
        req_q.op      <= (move_i.move == MoveFill) ? OpRead : OpWrite;
        req_q.lba     <= lba_t'(move_i.number) << (PageLog2 - BlockSizeLog2);
        req_q.count   <= count_t'(Blocks);
        frame_q[tag]  <= move_i.frame;
        number_q[tag] <= move_i.number;
        status_q[tag] <= StatusOk;
        error_q[tag]  <= 1'b0;
      end
    end
    if (rsp && !flushed) begin
      status_q[index_t'(dev_i.rsp.tag)] <= dev_i.rsp.status;
      if (dev_i.rsp.status != StatusOk) error_q[index_t'(dev_i.rsp.tag)] <= 1'b1;
    end
    if (axi_i.b_valid && b_order.page && axi_i.b_resp[1]) error_q[b_order.tag] <= 1'b1;
    if (r_page && axi_i.r_valid && axi_o.r_ready && axi_i.r_resp[1]) error_q[writing_tag] <= 1'b1;

    if (aw_table || aw_page) begin
      aw_q <= aw_table ? '{address: table_i.address, len: '0, size: 3'd2}
                       : '{address: aw_next_q, len: 8'((1 << BurstLog2) - 1), size: 3'(WordLog2)};
    end
    if (ar_table || ar_page) begin
      ar_q <= ar_table ? '{address: table_i.address, len: '0, size: 3'd2}
                       : '{address: ar_next_q, len: 8'((1 << BurstLog2) - 1), size: 3'(WordLog2)};
    end
    if (!filling_q && dev_i.read_valid) begin
      filling_tag_q <= index_t'(dev_i.read.tag);
      aw_next_q     <= place(frames_i, frame_q[index_t'(dev_i.read.tag)]);
    end else if (aw_page) begin
      aw_next_q[PageLog2-1:BurstLog2+WordLog2] <= aw_next_q[PageLog2-1:BurstLog2+WordLog2] + BurstsLog2'(1);
    end
    if (writing && !reading_q)  ar_next_q <= place(frames_i, frame_q[writing_tag]);
    else if (ar_page) ar_next_q[PageLog2-1:BurstLog2+WordLog2] <= ar_next_q[PageLog2-1:BurstLog2+WordLog2] + BurstsLog2'(1);
  end
endmodule
