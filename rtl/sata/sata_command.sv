// SPDX-License-Identifier: Apache-2.0 OR MIT
// The command layer of a Serial ATA host: turns block requests into ATA commands (ACS-3), and their results into responses.
//
// After the link has come up: signature, IDENTIFY DEVICE, SET FEATURES; then READ and WRITE DMA EXT one at a
// time, or, with a drive that has 32 queue places, READ and WRITE FPDMA QUEUED with the requests' own tags, in
// the drive's order. `sata_writes` buffers the data of queued writes until the drive requests it.
// FLUSH CACHE EXT and DATA SET MANAGEMENT (TRIM) wait until the queue is empty.
//
// Owns each request until its response, which is given exactly once, after exactly the requested words (B6, B7):
//   an error in the drive's status     Device, {error, status}; with a queue from READ LOG EXT 10h, other commands Aborted
//   data damaged on the link           Device, DetailLink
//   a drive that breaks the protocol   COMRESET, all requests Device, DetailProtocol
//   no progress in a frame             after a quarter of DataMs SYNC ends the frame; then the drive ends the command
//   no progress until the deadline     COMRESET, all requests TimedOut; waiting for the host does not count
//   `cancel` by the host               COMRESET, all requests Aborted
//   the link is lost                   all requests Gone
//
// Ncq, Trim      support queued commands; support discard
// BlockSizeLog2  log2 of a logical block's bytes; drives with another size are not used
// WriteWords     words buffered for queued writes, a power of two: writes that fit together overlap
// ClockKhz, SignatureMs, FlushMs, DataMs   as in sata
module sata_command
  import block_pkg::*;
  import sata_pkg::*;
#(
  parameter bit          Ncq           = 1'b1,
  parameter bit          Trim          = 1'b1,
  parameter int unsigned BlockSizeLog2 = 9,
  parameter int unsigned WriteWords    = 4096,
  parameter int unsigned ClockKhz      = 75_000,
  parameter int unsigned SignatureMs   = 31_000,
  parameter int unsigned FlushMs       = 30_000,
  parameter int unsigned DataMs        = 10_000
) (
  input  logic        clk_i,
  input  logic        rst_ni,

  // The block interface, behind block_front.
  output geometry_t   geometry_o,
  input  host_t       host_i,
  input  logic [31:0] write_data_i,
  output dev_t        dev_o,
  output logic [31:0] read_data_o,

  // The PHY.
  input  logic        up_i,
  input  logic [1:0]  rate_i,
  output logic        reset_o,  // COMRESET, until `up_i` falls

  // The transport.
  output logic        cmd_valid_o,
  output logic [4:0][31:0] cmd_o,
  input  logic        cmd_sent_i,
  output logic        data_start_o,
  output logic        data_valid_o,
  input  logic        data_ready_i,
  output logic [31:0] data_o,
  output logic        data_last_o,
  input  logic        data_sent_i,
  input  logic        data_failed_i,
  input  logic        fis_valid_i,
  input  logic [7:0]  fis_type_i,
  input  logic [31:0] fis_first_i,
  input  logic [31:0] fis_second_i,
  input  logic        word_valid_i,
  input  logic [31:0] word_i,
  output logic        word_wanted_o,
  input  logic        data_bad_i,
  input  logic        receiving_i,
  output logic        room_o,
  output logic        escape_o  // end the current frame by SYNC
);
  localparam int unsigned WordsLog2  = BlockSizeLog2 - 2;
  localparam int unsigned WordsWidth = 16 + WordsLog2;
  localparam int unsigned FrameLog2  = 11;
  localparam int unsigned FrameWords = 1 << FrameLog2;  // the longest data FIS
  localparam int unsigned ReadDepth  = 512;
  // After HOLD the drive may send 20 more dwords, and those in flight in both directions.
  localparam int unsigned Slack      = 96;
  localparam int unsigned CycleWidth = $clog2((ClockKhz << 3) + 1);
  localparam int unsigned LongestMs  = (SignatureMs > FlushMs) ? ((SignatureMs > DataMs) ? SignatureMs : DataMs)
                                                               : ((FlushMs > DataMs) ? FlushMs : DataMs);
  localparam int unsigned TimerWidth = $clog2(LongestMs + 1);
  localparam logic [15:0] DetailLink     = 16'hFF01;
  localparam logic [15:0] DetailProtocol = 16'hFF02;
  typedef logic [WordsWidth-1:0] words_t;

  typedef enum logic [3:0] {
    SDown, SSignature, SUnusable, SIssue, SAck, SWait, SReady, SReset, SSweep, SFinish, SRespond
  } state_e;
  typedef enum logic [2:0] {KIdentify, KMode, KActivate, KRead, KWrite, KFlush, KTrim, KLog} kind_e;

  state_e state_q, state_d;
  kind_e  kind_q, kind_d;
  // The next request waits here, so that neither the host's nor the gate's logic is in the way of a command's. It is owned: it ends
  // as all others do when the drive is lost.
  req_t   slot_q;
  logic   slot_valid_q, slot_take, slot_open;
  logic   aged_q, room_q;        // it was there in the last cycle, too, and then its data fitted; they still do, as only it takes room
  logic   settle_q, settled_q;   // in a sweep: `any_tag_q` is there, and in the next cycle the answer about it
  req_t   req_q, req_d;
  logic   queued_q, queued_d;    // the command is, or was last, a queued one
  logic   pending_q, pending_d;  // a request that is not queued has no response yet
  rsp_t   rsp_q, rsp_d;          // the response being offered
  logic   sweep_q, sweep_d;      // all requests are being ended with rsp_q's status
  logic   named_q, named_d;      // except the one that the log names, which has another status
  logic   ready_q, ready_d, bad_q, bad_d;
  logic   signed_q;              // the signature was received, possibly while requests were still being ended
  logic [3:0] generation_q, generation_d;

  // The current transfer.
  logic   transfer_q, transfer_d, read_q, read_d;
  tag_t   transfer_tag_q, transfer_tag_d;
  words_t words_q, words_d;

  logic is_pio, is_block;
  assign is_pio   = (kind_q == KIdentify) | (kind_q == KLog);
  assign is_block = (kind_q == KRead) | (kind_q == KWrite) | (kind_q == KFlush) | (kind_q == KTrim);

  // --- Received frames ---------------------------------------------------------------------------------------------
  logic got_register, got_activate, got_setup, got_data, got_bits, has_error, is_busy;
  assign got_register = fis_valid_i & (fis_type_i == FisRegD2H);
  assign got_activate = fis_valid_i & (fis_type_i == FisActivate);
  assign got_setup    = fis_valid_i & (fis_type_i == FisSetup) & Ncq;
  assign got_data     = fis_valid_i & (fis_type_i == FisData);
  assign got_bits     = fis_valid_i & (fis_type_i == FisSetBits) & Ncq;
  assign has_error    = fis_first_i[16] | fis_first_i[21];  // ERR, DF
  assign is_busy      = fis_first_i[23];

  // --- The drive ---------------------------------------------------------------------------------------------------
  logic usable, cache, fua, trim, queue, activate, complete, log_named, pio_start;
  tag_t log_tag;
  logic [15:0] log_detail;
  lba_t block_count;

  sata_identify #(.BlockSizeLog2(BlockSizeLog2)) u_identify (
    .clk_i, .rst_ni, .start_i(pio_start), .is_log_i(kind_q == KLog), .valid_i(word_valid_i & is_pio & (state_q == SWait)),
    .word_i, .complete_o(complete), .usable_o(usable), .block_count_o(block_count), .cache_o(cache), .fua_o(fua),
    .trim_o(trim), .queue_o(queue), .activate_o(activate), .log_named_o(log_named), .log_tag_o(log_tag),
    .log_detail_o(log_detail)
  );

  assign geometry_o = '{ready: ready_q, generation: generation_q, block_size_log2: 5'(BlockSizeLog2),
                        block_count: block_count, max_transfer_blocks: count_t'(16'hFFFF),
                        volatile_write_cache: cache, fua: fua, discard: Trim & trim, write_zeroes: 1'b0,
                        read_only: 1'b0};

  // --- Data in: words to the host, zeroes for missing ones  -----------------------------------------------------------
  logic [$clog2(ReadDepth+1)-1:0] level_q;
  logic fifo_push, fifo_pop, fifo_valid, fifo_room, came, pad, is_last;

  assign pad           = (state_q == SFinish) & (words_q != '0) & read_q & room_o;
  assign is_last       = words_q == words_t'(1);
  assign word_wanted_o = (is_pio & (state_q == SWait) & ~complete) | (transfer_q & read_q & (words_q != '0));
  assign came          = word_valid_i & transfer_q & read_q & (words_q != '0);
  assign fifo_push     = (came & fifo_room) | pad;
  // A cycle late, in which one of the `Slack` words comes: the link's next state depends on it.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) room_o <= 1'b1;
    else         room_o <= level_q < ($bits(level_q))'(ReadDepth - Slack);
  end

  prim_fifo_ram #(.Width(32 + $bits(beat_t)), .Depth(ReadDepth)) u_read (
    .clk_i, .rst_ni, .valid_i(fifo_push), .ready_o(fifo_room), .data_i({transfer_tag_q, is_last, pad ? 32'd0 : word_i}),
    .valid_o(fifo_valid), .ready_i(host_i.read_ready), .data_o({dev_o.read, read_data_o})
  );
  assign dev_o.read_valid = fifo_valid;
  assign fifo_pop         = fifo_valid & host_i.read_ready;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) level_q <= '0;
    else if (fifo_push != fifo_pop) level_q <= fifo_push ? level_q + 1'b1 : level_q - 1'b1;
  end

  // --- Data out: the host's words, or the list of blocks to trim -----------------------------------------------------
  logic give_valid, give_ready, sent_word, sending_q;
  logic [31:0] give;
  logic [11:0] frame_q;

  // If a write ends early, the words that the host still has to send are dropped.
  logic writes_room, write_take, sink, sink_word, sunk, setup_write, writes_clear, full, use_queue;
  assign sink       = (state_q == SFinish) & (words_q != '0) & ~read_q;
  assign write_take = slot_take & (slot_q.op == OpWrite);
  if (Ncq) begin : gen_writes
    // No reading ahead after a write has ended: the next write may be taken in the cycle after its response.
    logic leaves, dropped;
    assign leaves    = transfer_q & ~read_q & (words_q != '0);
    assign sink_word = 1'b0;
    assign sunk      = sink & dropped;
    sata_writes #(.Words(WriteWords), .WordsLog2(WordsLog2)) u_writes (
      .clk_i, .rst_ni, .count_i(slot_q.count[15:0]), .room_o(writes_room), .take_i(write_take),
      .take_tag_i(slot_q.tag), .take_start_i(~use_queue), .valid_i(host_i.write_valid), .ready_o(dev_o.write_ready),
      .data_i(write_data_i), .sink_i(sweep_q | sink), .dropped_o(dropped), .clear_i(writes_clear), .start_i(setup_write),
      .start_tag_i(fis_second_i[4:0]), .active_i(leaves), .sent_i(full & ~read_q), .valid_o(give_valid),
      .ready_i(give_ready), .data_o(give)
    );
  end else begin : gen_write
    logic unused_writes;
    assign unused_writes = write_take ^ setup_write ^ writes_clear;
    assign writes_room   = 1'b1;
    assign sink_word     = sink & give_valid;
    assign sunk          = 1'b0;
    prim_fifo #(.Width(32), .Depth(16)) u_write (
      .clk_i, .rst_ni, .valid_i(host_i.write_valid), .ready_o(dev_o.write_ready), .data_i(write_data_i),
      .valid_o(give_valid), .ready_i(give_ready | sink), .data_o(give)
    );
  end

  // A drive may fail a command that it has just asked for data: the frame is still sent, with the words that are available.
  logic trim_odd, is_trim, fed, frame_is_long;
  logic [15:0] look_count;  // of the tag in a setup
  logic [15:0] trim_count;
  assign is_trim      = Trim & (kind_q == KTrim);
  assign fed          = transfer_q & (state_q != SFinish) & (state_q != SRespond);
  assign trim_odd     = frame_q[0];  // the remaining count is even before the first word of each entry, which has two
  assign trim_count   = (req_q.count > count_t'(16'hFFFF)) ? 16'hFFFF : req_q.count[15:0];
  assign sent_word    = data_valid_o & data_ready_i;
  assign data_valid_o = is_trim | give_valid | ~fed;
  assign data_o       = !is_trim ? give : (trim_odd ? {trim_count, req_q.lba[47:32]} : req_q.lba[31:0]);
  assign data_last_o  = frame_q == 12'd1;
  assign give_ready   = data_ready_i & ~is_trim;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      frame_q   <= '0;
      sending_q <= 1'b0;
    end else begin
      if (data_start_o) begin
        sending_q <= 1'b1;
        if (is_trim)                             frame_q <= 12'd128;
        else if (frame_is_long)                  frame_q <= 12'(FrameWords);
        else                                     frame_q <= got_setup ? 12'(look_count) << WordsLog2 : 12'(words_q);
      end else if (sent_word) begin
        frame_q <= frame_q - 12'd1;
      end
      if (data_sent_i || !up_i) sending_q <= 1'b0;
    end
  end

  // A setup's words are not in `words_q` yet.
  assign frame_is_long = got_setup ? look_count[15:FrameLog2-WordsLog2] != '0 : words_q[WordsWidth-1:FrameLog2] != '0;

  // --- The queue -----------------------------------------------------------------------------------------------------
  logic take, wrong, any, drop, ended_valid, ended_ready, look_open, look_read;
  tag_t look_tag, any_tag, any_tag_q, ended_tag;

  // The drive ends commands by Set Device Bits until one fails. With the queued error log it discards the rest: it sends Set Device Bits
  // with all bits before the log (Serial ATA 3.5, 11.15, DFPDMAQ14), which ends no command well.
  logic ends;
  assign ends     = got_bits & (kind_q != KLog) & ~sweep_q;
  always_ff @(posedge clk_i) any_tag_q <= any_tag;
  assign look_tag = (state_q == SSweep) ? any_tag_q : fis_second_i[4:0];
  if (Ncq) begin : gen_tags
    sata_tags u_tags (
      .clk_i, .rst_ni, .take_i(take), .take_tag_i(slot_q.tag), .take_read_i(slot_q.op == OpRead),
      .take_count_i(slot_q.count[15:0]), .look_tag_i(look_tag), .look_open_o(look_open), .look_read_o(look_read),
      .look_count_o(look_count), .full_i(full), .full_tag_i(transfer_tag_q), .done_valid_i(ends),
      .done_i(fis_second_i), .wrong_o(wrong), .any_o(any), .any_tag_o(any_tag), .drop_i(drop), .drop_tag_i(rsp_q.tag),
      .rsp_valid_o(ended_valid), .rsp_tag_o(ended_tag), .rsp_ready_i(ended_ready)
    );
  end else begin : gen_none
    assign {look_open, look_read, look_count, wrong, any, any_tag, ended_valid, ended_tag} = '0;
  end

  // Responses to queued commands wait until the words before them have been taken (B7). An offer stays until it is taken.
  logic told_q, ended, is_named;
  tag_t told_tag_q;
  assign ended_ready     = (level_q == '0) & ~told_q & (state_q != SRespond);
  assign ended           = ended_valid & ended_ready;
  assign dev_o.rsp_valid = told_q | (state_q == SRespond) | ended;
  assign is_named        = named_q & (rsp_q.tag == log_tag);
  always_comb begin
    dev_o.rsp = rsp_q;
    if (is_named) dev_o.rsp = '{tag: rsp_q.tag, status: StatusDevice, detail: log_detail};
    if (told_q || ended) dev_o.rsp = '{tag: told_q ? told_tag_q : ended_tag, status: StatusOk, detail: '0};
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) told_q <= 1'b0;
    else         told_q <= (told_q | ended) & ~host_i.rsp_ready;
  end
  always_ff @(posedge clk_i) if (ended) told_tag_q <= ended_tag;

  // --- Time ----------------------------------------------------------------------------------------------------------
  // A deadline by what the drive does: until it is ready, a command that writes its cache or discards, and everything else. Milliseconds
  // without progress, in the clock of the current rate.
  typedef logic [CycleWidth-1:0] cycles_t;
  typedef logic [TimerWidth-1:0] timer_t;
  cycles_t cycles_q;
  timer_t  timer_q, limit;
  cycles_t last_q;  // of a millisecond
  logic    tick;
  logic overdue, progress, host_waits, waiting, stuck_q;
  assign waiting    = (state_q == SSignature) | (state_q == SIssue) | (state_q == SAck) | (state_q == SWait) |
                      (((state_q == SReady) & (any | transfer_q | sending_q | slot_valid_q)));
  // A word that no command requested is not progress; otherwise a frame whose end was lost would never be overdue.
  assign progress   = fis_valid_i | (word_valid_i & word_wanted_o) | sent_word;
  // After the last word of a frame the drive must answer.
  assign host_waits = (fifo_valid & ~host_i.read_ready) | (sending_q & ~data_valid_o & (frame_q != '0)) |
                      (told_q & ~host_i.rsp_ready);
  assign limit      = !ready_q ? timer_t'(SignatureMs) :
                      ((kind_q == KFlush) || (kind_q == KTrim)) ? timer_t'(FlushMs) : timer_t'(DataMs);
  assign tick       = cycles_q == last_q;
  // The frame must have been under way for half of that time: a frame that began later is not the cause.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      escape_o <= 1'b0;
      overdue  <= 1'b0;
    end else begin
      escape_o <= tick & (timer_q == timer_t'(DataMs / 4)) & stuck_q;
      overdue  <= (timer_q >= limit) & waiting & ~progress & ~host_waits;
    end
  end
  always_ff @(posedge clk_i) last_q <= (cycles_t'(ClockKhz) << rate_i) - cycles_t'(1);
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      cycles_q <= '0;
      timer_q  <= '0;
    end else if (!waiting || progress || host_waits) begin
      cycles_q <= '0;
      timer_q  <= '0;
    end else begin
      cycles_q <= tick ? '0 : cycles_q + cycles_t'(1);
      if (tick && !overdue) timer_q <= timer_q + timer_t'(1);
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni)                                             stuck_q <= 1'b0;
    else if (!receiving_i && !sending_q)                     stuck_q <= 1'b0;
    else if (timer_q == '0)                                  stuck_q <= 1'b0;
    else if (timer_q == timer_t'(DataMs / 8))                stuck_q <= 1'b1;
  end

  // --- The command FIS -------------------------------------------------------------------------------------------------
  logic [7:0]  command, feature;
  logic [15:0] count;
  logic [47:0] lba;
  logic        device_fua, could_take;
  always_comb begin
    command    = 8'hEC;
    feature    = 8'h00;
    count      = 16'h0000;
    lba        = '0;
    device_fua = 1'b0;
    unique case (kind_q)
      KIdentify: ;
      KMode:     begin command = 8'hEF; feature = 8'h03; count = 16'h0045; end  // SET FEATURES: Ultra DMA 5
      KActivate: begin command = 8'hEF; feature = 8'h10; count = 16'h0002; end  // SET FEATURES: DMA Setup Auto-Activate
      KFlush:    command = 8'hEA;
      KTrim:     begin command = 8'h06; feature = 8'h01; count = 16'h0001; end
      KLog:      begin command = 8'h2F; count = 16'h0001; lba = 48'h10; end
      default: begin
        lba     = req_q.lba;
        count   = req_q.count[15:0];
        command = (kind_q == KRead) ? 8'h25 : (req_q.fua ? 8'h3D : 8'h35);
        if (queued_q) begin
          command    = (kind_q == KRead) ? 8'h60 : 8'h61;
          feature    = req_q.count[7:0];
          count      = {8'd0, req_q.tag, 3'd0};
          device_fua = req_q.fua;
        end
      end
    endcase
    cmd_o = {32'd0, {16'd0, count}, {queued_q ? req_q.count[15:8] : 8'd0, lba[47:24]},
             {device_fua, 7'h40, lba[23:0]}, {feature, command, 8'h80, FisRegH2D}};
  end
  // X_RDY is sent while the request is being taken; the FIS is needed two cycles later at the earliest.
  assign cmd_valid_o = ((state_q == SIssue) & ~sending_q & ~(queued_q & transfer_q)) | could_take;

  // --- The next state ----------------------------------------------------------------------------------------------------
  logic lost;
  assign use_queue = Ncq & queue & ((slot_q.op == OpRead) | (slot_q.op == OpWrite));
  // While a FIS ends it is still being received.
  assign could_take = (state_q == SReady) & ready_q & ~receiving_i & ~sending_q & ~transfer_q & slot_valid_q & aged_q &
                      (use_queue | (~any & ~told_q)) & (room_q | (slot_q.op != OpWrite));
  assign slot_open = ready_q & ~sweep_q & ~slot_valid_q;
  assign dev_o.req_ready = slot_open;
  assign take      = could_take & use_queue;
  assign reset_o   = state_q == SReset;
  assign lost      = ~up_i & (state_q != SDown) & (state_q != SReset) & ~sweep_q;

  // The response that ends all requests with this status.
  function automatic rsp_t ending(status_e status, logic [15:0] detail);
    return '{tag: '0, status: status, detail: detail};
  endfunction

  always_comb begin
    state_d        = state_q;
    kind_d         = kind_q;
    req_d          = req_q;
    queued_d       = queued_q;
    pending_d      = pending_q;
    rsp_d          = rsp_q;
    sweep_d        = sweep_q;
    named_d        = named_q;
    ready_d        = ready_q;
    bad_d          = bad_q;
    generation_d   = generation_q;
    transfer_d     = transfer_q;
    read_d         = read_q;
    transfer_tag_d = transfer_tag_q;
    words_d        = words_q;
    data_start_o   = 1'b0;
    pio_start      = 1'b0;
    full           = 1'b0;
    setup_write    = 1'b0;
    writes_clear   = 1'b0;
    drop           = 1'b0;
    slot_take      = 1'b0;

    // Words of the transfer under way.
    if (fifo_push || (sent_word && fed && !is_trim)) words_d = words_q - words_t'(1);
    if (is_trim && sent_word && trim_odd) begin
      req_d.lba   = req_q.lba + lba_t'(trim_count);
      req_d.count = req_q.count - count_t'(trim_count);
    end
    // A drive that does not stop at HOLD loses words: the request ends with an error.
    if (data_bad_i || (data_sent_i && data_failed_i) || (came && !fifo_room)) bad_d = 1'b1;

    // A queued transfer begins, continues, and ends when all its data has arrived undamaged.
    if (got_setup && !transfer_q && look_open) begin
      transfer_d     = 1'b1;
      read_d         = look_read;
      transfer_tag_d = fis_second_i[4:0];
      words_d        = words_t'(look_count) << WordsLog2;
      bad_d          = 1'b0;
      setup_write    = ~look_read;
      data_start_o   = ~look_read & fis_first_i[15];
    end
    if (got_activate && !sending_q) begin
      data_start_o = (transfer_q & ~read_q & (words_q != '0)) | (Trim & (kind_q == KTrim) & (state_q == SWait));
    end
    if (transfer_q && queued_q && (words_q == '0) && !bad_d && (read_q ? got_data : data_sent_i)) begin
      full       = 1'b1;
      transfer_d = 1'b0;
    end

    unique case (state_q)
      SDown: begin
        ready_d = 1'b0;
        if (up_i) state_d = SSignature;
      end
      SSignature: if (signed_q || got_register) begin
        kind_d   = KIdentify;
        queued_d = 1'b0;
        state_d  = (fis_second_i[23:8] == '0) ? SIssue : SUnusable;
      end
      SUnusable: ;
      SIssue: begin
        pio_start = 1'b1;
        if (cmd_sent_i) state_d = queued_q ? SAck : SWait;
      end
      // After an error the log is requested when BSY has been cleared: the drive answers a command that crossed its error, too.
      SAck: if (got_register && !is_busy) begin
        if (kind_q == KLog)  state_d = SIssue;
        else if (!has_error) state_d = SReady;
      end
      SWait: begin
        if ((got_register && !is_busy) || (is_pio && complete && got_data)) begin
          unique case (kind_q)
            KIdentify: begin
              kind_d  = KMode;
              state_d = !(complete && got_data) ? SReset : (usable ? SIssue : SUnusable);
            end
            KMode: begin
              kind_d  = KActivate;
              state_d = (Ncq && queue && activate) ? SIssue : SReady;
            end
            KActivate: state_d = SReady;
            KLog: begin
              // The log names the command that failed; without it the drive is reset.
              rsp_d   = ending(StatusAborted, '0);
              named_d = log_named & complete & ~got_register;
              sweep_d = 1'b1;
              state_d = named_d ? SSweep : SReset;
            end
            default: begin
              rsp_d.tag    = req_q.tag;
              rsp_d.status = StatusOk;
              rsp_d.detail = '0;
              if (has_error) begin
                rsp_d.status = StatusDevice;
                rsp_d.detail = {fis_first_i[31:24], fis_first_i[23:16]};
              end else if (bad_q || (words_q != '0)) begin
                rsp_d.status = StatusDevice;
                rsp_d.detail = bad_q ? DetailLink : DetailProtocol;
              end
              state_d = SFinish;
              // More blocks to trim than one command takes.
              if (Trim && (kind_q == KTrim) && !has_error && (req_q.count != '0)) state_d = SIssue;
            end
          endcase
        end
      end
      SReady: begin
        if (!ready_q) begin
          ready_d      = 1'b1;
          generation_d = generation_q + 4'd1;
        end
        if (could_take) begin
          slot_take = 1'b1;
          req_d    = slot_q;
          queued_d = use_queue;
          state_d  = SIssue;
          bad_d    = 1'b0;
          unique case (slot_q.op)
            OpRead:  kind_d = KRead;
            OpWrite: kind_d = KWrite;
            OpFlush: kind_d = KFlush;
            default: kind_d = KTrim;
          endcase
          if (!use_queue) begin
            pending_d      = 1'b1;
            transfer_d     = (slot_q.op == OpRead) | (slot_q.op == OpWrite);
            read_d         = slot_q.op == OpRead;
            transfer_tag_d = slot_q.tag;
            words_d        = transfer_d ? words_t'(slot_q.count) << WordsLog2 : '0;
          end
        end
      end
      SReset: begin
        ready_d = 1'b0;
        if (!up_i) state_d = SSweep;
      end
      // First the current transfer, then the other requests, at last the one that waits, unless it can still be sent.
      SSweep: if (!ended_valid && !told_q && settled_q) begin
        if (pending_q || transfer_q) begin
          rsp_d.tag = pending_q ? req_q.tag : transfer_tag_q;
          state_d   = SFinish;
        end else if (any) begin
          rsp_d.tag = any_tag_q;
          read_d         = look_read;
          transfer_tag_d = any_tag_q;
          words_d        = look_open ? words_t'(look_count) << WordsLog2 : '0;
          state_d        = SFinish;
        end else if (slot_valid_q && !(ready_q && up_i)) begin
          slot_take      = 1'b1;
          req_d          = slot_q;
          pending_d      = 1'b1;
          rsp_d.tag      = slot_q.tag;
          transfer_d     = (slot_q.op == OpRead) | (slot_q.op == OpWrite);
          read_d         = slot_q.op == OpRead;
          transfer_tag_d = slot_q.tag;
          words_d        = transfer_d ? words_t'(slot_q.count) << WordsLog2 : '0;
          state_d        = SFinish;
        end else begin
          sweep_d      = 1'b0;
          named_d      = 1'b0;
          writes_clear = 1'b1;
          state_d      = (ready_q && up_i) ? SReady : SDown;
        end
      end
      SFinish: begin
        if (sunk) words_d = '0;
        if (sink_word) words_d = words_q - words_t'(1);
        if ((words_q == '0) && (level_q == '0) && !told_q && !ended_valid) state_d = SRespond;
      end
      SRespond: if (host_i.rsp_ready) begin
        drop         = ~pending_q;
        writes_clear = pending_q;
        pending_d    = 1'b0;
        transfer_d   = 1'b0;
        state_d      = sweep_q ? SSweep : SReady;
      end
      default: state_d = SReset;
    endcase

    // Events that end all requests; the most severe is last, because the last assignment wins.
    if (!sweep_q && (state_q != SDown) && (state_q != SReset) && (state_q != SUnusable) && (state_q != SFinish) &&
        (state_q != SRespond)) begin
      // A queued command failed: read the log to identify it. A command that was not sent yet is not lost: its tag is taken.
      if (Ncq && (any || take) && (kind_q != KLog) && has_error && (got_bits || got_register)) begin
        kind_d   = KLog;
        queued_d = 1'b0;
        state_d  = ((state_q == SAck) && got_bits) ? SAck : SIssue;
      end
      if (wrong || (got_setup && (transfer_q || !look_open || (fis_first_i[13] != look_read)))) begin
        rsp_d   = ending(StatusDevice, DetailProtocol);
        state_d = SReset;
      end
      if (host_i.cancel && (pending_q || any || slot_valid_q)) begin
        rsp_d   = ending(StatusAborted, '0);
        state_d = SReset;
      end
      if (overdue) begin
        rsp_d   = ending(StatusTimedOut, '0);
        state_d = SReset;
      end
      if (state_d == SReset) sweep_d = 1'b1;
    end
    if (!up_i) ready_d = 1'b0;
    if (lost) begin
      if ((state_q != SFinish) && (state_q != SRespond)) begin
        rsp_d   = ending(StatusGone, '0);
        sweep_d = 1'b1;
        state_d = SSweep;
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      slot_valid_q <= 1'b0;
      aged_q       <= 1'b0;
      settle_q     <= 1'b0;
      settled_q    <= 1'b0;
      signed_q     <= 1'b0;
      state_q      <= SDown;
      kind_q       <= KIdentify;
      queued_q     <= 1'b0;
      pending_q    <= 1'b0;
      sweep_q      <= 1'b0;
      named_q      <= 1'b0;
      ready_q      <= 1'b0;
      bad_q        <= 1'b0;
      generation_q <= '0;
      transfer_q   <= 1'b0;
      words_q      <= '0;
      read_q       <= 1'b0;
    end else begin
      slot_valid_q <= slot_open ? host_i.req_valid : slot_valid_q & ~slot_take;
      aged_q       <= slot_valid_q & ~slot_take;
      settle_q     <= (state_q == SSweep) & ~ended_valid;
      settled_q    <= (state_q == SSweep) & settle_q;
      signed_q     <= up_i & (signed_q | got_register);
      state_q      <= state_d;
      kind_q       <= kind_d;
      queued_q     <= queued_d;
      pending_q    <= pending_d;
      sweep_q      <= sweep_d;
      named_q      <= named_d;
      ready_q      <= ready_d;
      bad_q        <= bad_d;
      generation_q <= generation_d;
      transfer_q   <= transfer_d;
      words_q      <= words_d;
      read_q       <= read_d;
    end
  end

  always_ff @(posedge clk_i) begin
    if (slot_open) slot_q <= host_i.req;
    room_q         <= writes_room;
    req_q          <= req_d;
    rsp_q          <= rsp_d;
    transfer_tag_q <= transfer_tag_d;
  end
endmodule
