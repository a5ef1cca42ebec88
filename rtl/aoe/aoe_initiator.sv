// SPDX-License-Identifier: Apache-2.0 OR MIT
// A remote disk as a block device: an initiator of ATA over Ethernet.
//
// Cuts requests into frames, has several under way, sends each again until it is answered, and completes requests in the order in
// which they were taken. README.md has the time-outs, and what makes copies and late answers harmless. A target that does not answer
// is lost: all requests end with StatusGone, `ready` falls, and rises when the target was found again.
//
// `cancel` is not looked at: requests end within the bound of the attempts.
//
// Slots        frames under way, a power of two, 2 or more
// SectorsLog2  log2 of the sectors in the longest frame: 1 for frames of 1,500 bytes, 4 for 9,000
// Tries        attempts for a frame, 2 to 8
// TickLog2     log2 of the cycles of a tick
// RetryTicks   ticks until the second attempt; twice as long for each next one
// LifeTicks    ticks within which a frame and its answer arrive, or never
// Checksums    use frames with a CRC32C if the target has them
// LeastWords   the shortest frame that is sent: 15 for Ethernet, 9 where nothing demands padding
// Block RAM: two times Slots times the longest frame's data.
module aoe_initiator
  import aoe_pkg::*;
  import block_pkg::*;
#(
  parameter int unsigned Slots       = 8,
  parameter int unsigned SectorsLog2 = 1,
  parameter int unsigned Tries       = 6,
  parameter int unsigned TickLog2    = 12,
  parameter int unsigned RetryTicks  = 8,
  parameter int unsigned LifeTicks   = 512,
  parameter bit          Checksums   = 1'b1,
  parameter int unsigned LeastWords  = PaddedWords
) (
  input  logic        clk_i,
  input  logic        rst_ni,

  // Constant.
  input  logic [47:0] mac_i,    // its own
  input  logic [15:0] shelf_i,  // the target's
  input  logic [7:0]  slot_i,

  output geometry_t   geometry_o,
  input  host_t       host_i,
  input  logic [31:0] write_data_i,
  output dev_t        dev_o,
  output logic [31:0] read_data_o,

  input  logic        rx_valid_i,  // cannot be held
  input  logic [31:0] rx_data_i,
  input  logic        rx_last_i,
  input  logic        rx_bad_i,    // with the last word: the frame is damaged

  output logic        tx_valid_o,
  input  logic        tx_ready_i,
  output logic [31:0] tx_data_o,
  output logic        tx_last_o,

  // For counters, each one cycle long.
  output logic        again_o,    // a frame is sent again
  output logic        damaged_o,  // an answer was short, or its checksum was wrong
  output logic        lost_o      // the target is lost
);
  // What the parameters must be.
  if ((Slots < 2) || (Slots > 16) || ((Slots & (Slots - 1)) != 0)) begin : gen_bad_slots
    $error("Slots is %0d: a power of two from 2 to 16", Slots);
  end
  if (SectorsLog2 > 4) begin : gen_bad_sectors_log2
    $error("SectorsLog2 is %0d: 0 to 4", SectorsLog2);
  end
  if ((Tries < 2) || (Tries > 8)) begin : gen_bad_tries
    $error("Tries is %0d: 2 to 8", Tries);
  end
  if ((TickLog2 < 1) || (TickLog2 > 31)) begin : gen_bad_tick_log2
    $error("TickLog2 is %0d: 1 to 31", TickLog2);
  end
  if ((RetryTicks < 1) || (RetryTicks > 65535)) begin : gen_bad_retry_ticks
    $error("RetryTicks is %0d: 1 to 65535", RetryTicks);
  end
  if ((LifeTicks < 1) || (LifeTicks > 65535)) begin : gen_bad_life_ticks
    $error("LifeTicks is %0d: 1 to 65535", LifeTicks);
  end
  if ((LeastWords < 9) || (LeastWords > 15)) begin : gen_bad_least_words
    $error("LeastWords is %0d: 9 to 15", LeastWords);
  end

  localparam int unsigned SlotLog2    = $clog2(Slots);
  localparam int unsigned DataLog2    = SectorsLog2 + 7;
  localparam int unsigned LengthWidth = DataLog2 + 1;
  typedef logic [SlotLog2-1:0]    slot_t;
  typedef logic [SectorsLog2:0]   sectors_t;
  typedef logic [LengthWidth-1:0] length_t;

  // A frame of a request.
  typedef struct packed {
    op_e      op;
    tag_t     tag;  // the request's
    lba_t     lba;
    sectors_t count;
    logic     last;
  } piece_t;

  typedef struct packed {
    status_e     status;
    logic [15:0] detail;
  } outcome_t;

  // --- The target -----------------------------------------------------------------------------
  logic up, idle, tick, lost, checked, extended, cache, find_valid, find_identify, config_found, identified, ready;
  logic [3:0]  generation;
  logic [47:0] target;
  logic [SlotLog2:0] limit;
  sectors_t    sectors;
  lba_t        block_count;
  logic [31:0] find_tag;
  logic        send_ready, data_valid, identity_q;
  length_t     data_index;
  logic [31:0] data;
  header_t     answer_q;

  aoe_discover #(
    .SectorsLog2(SectorsLog2), .Slots(Slots), .Tries(Tries), .RetryTicks(RetryTicks), .LifeTicks(LifeTicks), .Checksums(Checksums)
  ) u_discover (
    .clk_i, .rst_ni, .tick_i(tick), .idle_i(idle), .busy_i(~send_ready), .lost_i(lost), .up_o(up), .generation_o(generation),
    .target_o(target), .limit_o(limit), .sectors_o(sectors), .checked_o(checked), .extended_o(extended), .cache_o(cache),
    .block_count_o(block_count), .send_valid_o(find_valid), .send_ready_i(send_ready), .send_identify_o(find_identify),
    .send_tag_o(find_tag), .config_i(config_found), .identified_i(identified), .answer_i(answer_q),
    .data_valid_i(data_valid & identity_q), .data_index_i(data_index[6:0]), .data_i(data)
  );

  block_ready u_ready (
    .clk_i, .rst_ni, .ready_i(up), .taken_i(host_i.req_valid & dev_o.req_ready), .ended_i(dev_o.rsp_valid & host_i.rsp_ready),
    .ready_o(ready), .idle_o()
  );

  assign geometry_o = '{ready: ready, generation: generation, block_size_log2: 5'd9, block_count: block_count,
                        max_transfer_blocks: '1, volatile_write_cache: cache, fua: 1'b0, discard: 1'b0, write_zeroes: 1'b0,
                        read_only: 1'b0};
  assign lost_o = lost;

  // --- Requests are cut into pieces -----------------------------------------------------------
  host_t host;
  dev_t  dev;
  logic [31:0] write_data, read_data;

  block_front #(.DataWidth(32), .BlockSizeLog2(9)) u_front (
    .clk_i, .rst_ni, .geometry_i(geometry_o), .host_i, .write_data_i, .dev_o, .read_data_o, .host_o(host),
    .write_data_o(write_data), .dev_i(dev), .read_data_i(read_data)
  );

  req_t   split_q;  // what is left of a request
  logic   split_valid_q, filling_q, take, free, empty, filled, write_taken;
  piece_t piece, piece_q [Slots];
  slot_t  take_slot, fill_slot_q;
  length_t fill_left_q;
  logic [DataLog2-1:0] fill_index_q;

  always_comb begin
    piece = '{op: split_q.op, tag: split_q.tag, lba: split_q.lba, count: sectors, last: 1'b0};
    if (split_q.count <= count_t'(sectors)) begin
      piece.count = sectors_t'(split_q.count);
      piece.last  = 1'b1;
    end
  end

  assign take        = split_valid_q & free & ~filling_q;
  assign write_taken = host.write_valid & filling_q;
  assign filled      = filling_q ? write_taken & (fill_left_q == length_t'(1)) : take & (piece.op != OpWrite);
  assign idle        = empty & ~split_valid_q & ~filling_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      split_valid_q <= 1'b0;
      filling_q     <= 1'b0;
    end else begin
      if (host.req_valid && !split_valid_q) split_valid_q <= 1'b1;
      else if (take && piece.last)          split_valid_q <= 1'b0;
      if (take && (piece.op == OpWrite)) filling_q <= 1'b1;
      else if (filled)                   filling_q <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!split_valid_q) begin
      split_q <= host.req;
    end else if (take) begin
      split_q.lba   <= split_q.lba + lba_t'(piece.count);
      split_q.count <= split_q.count - count_t'(piece.count);
      piece_q[take_slot] <= piece;
    end
    if (take) begin
      fill_slot_q  <= take_slot;
      fill_left_q  <= length_t'(piece.count) << 7;
      fill_index_q <= '0;
    end else if (write_taken) begin
      fill_left_q  <= fill_left_q - length_t'(1);
      fill_index_q <= fill_index_q + DataLog2'(1);
    end
  end

  // --- Frames under way -----------------------------------------------------------------------
  logic    table_lost, ring_valid, sending_q, look, answered, accept, done, gone, retire, refused;
  slot_t   ring_slot, sending_slot_q, done_slot;
  logic [31:0] ring_tag;
  header_t header;

  aoe_table #(.Slots(Slots), .Tries(Tries), .TickLog2(TickLog2), .RetryTicks(RetryTicks), .LifeTicks(LifeTicks)) u_table (
    .clk_i, .rst_ni, .tick_o(tick), .up_i(up), .limit_i(limit), .lost_o(table_lost), .free_o(free), .take_i(take),
    .take_settles_i(piece.op == OpWrite), .take_slot_o(take_slot), .filled_i(filled),
    .filled_slot_i(filling_q ? fill_slot_q : take_slot), .send_valid_o(ring_valid), .send_ready_i(send_ready),
    .send_slot_o(ring_slot), .send_tag_o(ring_tag), .sending_i(sending_q & ~send_ready), .sending_slot_i(sending_slot_q),
    .look_tag_i(header.tag), .look_o(look), .answer_i(answered), .answer_tag_i(answer_q.tag), .accept_o(accept),
    .empty_o(empty), .done_o(done), .gone_o(gone), .done_slot_o(done_slot), .retire_i(retire)
  );

  // --- Frames leave ---------------------------------------------------------------------------
  piece_t  ring_piece;
  header_t send_header;
  ata_t    send_ata;
  length_t send_words, send_index;
  logic    send_fetch, send_moves;
  logic [31:0] send_word;

  assign ring_piece = piece_q[ring_slot];
  assign send_moves = ring_piece.op != OpFlush;
  assign send_words = (up && (ring_piece.op == OpWrite)) ? length_t'(ring_piece.count) << 7 : '0;

  always_comb begin
    config_t query;
    query = '{version: AoeVersion, command: ConfigRead, default: '0};
    send_ata = '0;
    send_ata.check = checked ? Checked : '0;
    if (!up) begin
      send_ata.count   = 8'd1;
      send_ata.command = AtaIdentify;
    end else begin
      send_ata.flags.extended = extended & send_moves;
      send_ata.flags.write    = ring_piece.op == OpWrite;
      send_ata.count          = 8'(ring_piece.count);
      unique case (ring_piece.op)
        OpRead:  send_ata.command = extended ? AtaReadExt : AtaRead;
        OpWrite: send_ata.command = extended ? AtaWriteExt : AtaWrite;
        default: send_ata.command = AtaFlush;
      endcase
      // In the short form the highest byte also selects LBA.
      if (send_moves) send_ata.lba = reversed(extended ? ring_piece.lba : {20'h0000e, ring_piece.lba[27:0]});
    end
    send_header = '{to: target, from: mac_i, ether_type: EtherType, version: AoeVersion, shelf: shelf_i, slot: slot_i,
                    command: CommandAta, tag: up ? ring_tag : find_tag, argument: send_ata, default: '0};
    if (!up && !find_identify) begin
      send_header.to       = Broadcast;
      send_header.command  = CommandConfig;
      send_header.argument = query;
    end
  end

  aoe_send #(.DataWords(1 << DataLog2), .LeastWords(LeastWords)) u_send (
    .clk_i, .rst_ni, .valid_i(up ? ring_valid : find_valid), .ready_o(send_ready), .header_i(send_header), .words_i(send_words),
    .check_i(checked & (up | find_identify)), .fetch_o(send_fetch), .index_o(send_index), .data_i(send_word), .tx_valid_o,
    .tx_ready_i, .tx_data_o, .tx_last_o
  );
  assign again_o    = ring_valid & send_ready & (ring_tag[SlotLog2+:3] != '0);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni)          sending_q <= 1'b0;
    else if (send_ready) sending_q <= ring_valid;
  end
  always_ff @(posedge clk_i) if (send_ready) sending_slot_q <= ring_slot;

  // Data of a request whose target is lost are dropped: what was under way may still be leaving from here.
  prim_ram #(.Width(32), .Depth(Slots << DataLog2)) u_writes_ram (
    .clk_i, .write_i(write_taken & up), .write_address_i({fill_slot_q, fill_index_q}), .write_data_i(write_data),
    .read_i(send_fetch), .read_address_i({sending_slot_q, send_index[DataLog2-1:0]}), .read_data_o(send_word)
  );

  // --- Answers arrive -------------------------------------------------------------------------
  logic    head, ended, good, ours, from_ring, from_find, moves;
  ata_t    ata, answer_ata;
  piece_t  look_piece;
  length_t answer_words;
  logic    ring_q, find_q, stored_q;

  aoe_receive #(.DataWords(1 << DataLog2)) u_receive (
    .clk_i, .rst_ni, .rx_valid_i, .rx_data_i, .rx_last_i, .rx_bad_i, .head_o(head), .header_o(header), .words_i(answer_words),
    .check_i(checked & (header.command == CommandAta)), .data_valid_o(data_valid), .data_index_o(data_index), .data_o(data),
    .end_o(ended), .good_o(good)
  );

  assign ata        = ata_t'(header.argument);
  assign look_piece = piece_q[header.tag[SlotLog2-1:0]];
  assign ours       = (header.to == mac_i) & (header.ether_type == EtherType) & (header.version == AoeVersion) & header.response &
                      (header.shelf == shelf_i) & (header.slot == slot_i) &
                      ((header.command == CommandConfig) |
                       ((header.command == CommandAta) & (header.from == target) & (ata.check == (checked ? Checked : '0))));
  assign from_ring  = ours & up & (header.command == CommandAta) & ~header.tag[31];
  assign from_find  = ours & ~up & (header.tag == find_tag) & ~header.failed &
                      ((header.command == CommandConfig) | ((ata.command & AtaFailed) == '0));
  // A failed command has no data.
  assign moves      = ~header.failed & ((ata.command & AtaFailed) == '0);

  always_comb begin
    answer_words = '0;
    if (from_find && (header.command == CommandAta)) answer_words = length_t'(SectorWords);
    if (from_ring && moves && (look_piece.op == OpRead)) answer_words = length_t'(look_piece.count) << 7;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      ring_q <= 1'b0;
      find_q <= 1'b0;
    end else if (head) begin
      ring_q <= from_ring;
      find_q <= from_find;
    end
  end

  always_ff @(posedge clk_i) begin
    if (head) begin
      answer_q   <= header;
      stored_q   <= from_ring & look & (look_piece.op == OpRead);
      identity_q <= from_find & (header.command == CommandAta);
    end
  end

  assign damaged_o    = ended & (ring_q | find_q) & ~good;
  assign answered     = ended & good & ring_q & up;
  assign config_found = ended & good & find_q & (answer_q.command == CommandConfig);
  assign identified   = ended & good & find_q & (answer_q.command == CommandAta);
  assign answer_ata   = ata_t'(answer_q.argument);
  assign refused      = answer_q.failed & (answer_q.error == ErrorUnavailable);
  assign lost         = table_lost | (accept & refused);

  outcome_t outcome, outcome_q [Slots];
  always_comb begin
    outcome = '{status: StatusOk, detail: '0};
    if (refused)                                        outcome = '{status: StatusGone, detail: '0};
    else if (answer_q.failed)                           outcome = '{status: StatusDevice, detail: {answer_q.error, 8'd0}};
    else if ((answer_ata.command & AtaFailed) != '0)    outcome = '{status: StatusDevice,
                                                                   detail: {answer_ata.feature, answer_ata.command}};
  end
  always_ff @(posedge clk_i) if (accept) outcome_q[answer_q.tag[SlotLog2-1:0]] <= outcome;

  // --- Requests are completed, in order -------------------------------------------------------
  piece_t  done_piece;
  outcome_t done_outcome, worst, so_far_q;
  logic    is_read, deliver, fetch, fetched_q, fetch_last, word_last_q, rsp_room, rsp_valid, rsp_read, read_ends;
  logic [DataLog2-1:0] fetch_index_q;
  logic [31:0] stored;
  tag_t    word_tag_q;
  logic [2:0] lasts_q;  // reads whose last word was taken, without their response

  assign done_piece  = piece_q[done_slot];
  assign done_outcome = gone ? '{status: StatusGone, detail: '0} : outcome_q[done_slot];
  assign worst       = (so_far_q.status != StatusOk) ? so_far_q : done_outcome;
  assign is_read     = done_piece.op == OpRead;
  assign deliver     = done & is_read & rsp_room;
  assign fetch_last  = {1'b0, fetch_index_q} == (length_t'(done_piece.count) << 7) - length_t'(1);
  assign retire      = is_read ? fetch & fetch_last : done & rsp_room;

  prim_ram #(.Width(32), .Depth(Slots << DataLog2)) u_reads_ram (
    .clk_i, .write_i(data_valid & stored_q), .write_address_i({answer_q.tag[SlotLog2-1:0], data_index[DataLog2-1:0]}),
    .write_data_i(data), .read_i(fetch), .read_address_i({done_slot, fetch_index_q}), .read_data_o(stored)
  );

  prim_ahead #(.Width(33 + TagWidth)) u_ahead (
    .clk_i, .rst_ni, .available_i(deliver), .fetch_o(fetch), .fetched_i(fetched_q),
    .data_i({word_tag_q, word_last_q, stored}), .valid_o(dev.read_valid), .ready_i(host.read_ready),
    .data_o({dev.read.tag, dev.read.last, read_data})
  );

  prim_fifo #(.Width(1 + $bits(rsp_t)), .Depth(4)) u_responses (
    .clk_i, .rst_ni, .valid_i(retire & done_piece.last), .ready_o(rsp_room),
    .data_i({is_read, done_piece.tag, worst}), .valid_o(rsp_valid),
    .ready_i(dev.rsp_valid & host.rsp_ready), .data_o({rsp_read, dev.rsp})
  );

  // B7: a response comes after the last word was taken.
  assign dev.rsp_valid   = rsp_valid & (~rsp_read | (lasts_q != '0));
  assign dev.req_ready   = ~split_valid_q;
  assign dev.write_ready = filling_q;
  assign read_ends       = dev.read_valid & host.read_ready & dev.read.last;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      fetched_q     <= 1'b0;
      fetch_index_q <= '0;
      lasts_q       <= '0;
      so_far_q      <= '{status: StatusOk, detail: '0};
    end else begin
      fetched_q <= fetch;
      if (fetch) fetch_index_q <= fetch_last ? '0 : fetch_index_q + DataLog2'(1);
      if (retire) so_far_q <= done_piece.last ? '{status: StatusOk, detail: '0} : worst;
      if (read_ends != (dev.rsp_valid & host.rsp_ready & rsp_read)) lasts_q <= read_ends ? lasts_q + 3'd1 : lasts_q - 3'd1;
    end
  end

  always_ff @(posedge clk_i) begin
    word_last_q <= fetch_last & done_piece.last;
    word_tag_q  <= done_piece.tag;
  end
endmodule
