// SPDX-License-Identifier: Apache-2.0 OR MIT
// A target of ATA over Ethernet: a block device as a remote disk. README.md has its answers to each request.
//
// A target cannot refuse a request for a time, and an initiator learns once how many it may send. So the slots are divided among the
// initiators: each is told its share, and one that has its share of slots in use gets no other.
//
// It keeps nothing about those who ask. Each request has a slot, from its header until its answer has left; a request that finds no
// free slot is dropped, and its sender repeats it. Requests go to the device in the order in which they came. One that overlaps
// another, if either writes, waits until that one has ended: so a repeated write takes effect before what came after it.
//
// The device has blocks of 512 bytes. A write is answered when the device has completed it.
//
// Buffers      slots, a power of two, at least 2
// Initiators   that use the target at the same time: each has Buffers / Initiators slots
// SectorsLog2  log2 of the sectors in the longest frame: 1 for frames of 1,500 bytes, 4 for 9,000
// Checksums    take and answer frames with a CRC32C above Ethernet's
// LeastWords   the shortest frame that is sent: 15 for Ethernet, 9 where nothing demands padding
// Block RAM: two times Buffers times the longest frame's data.
module aoe_target
  import aoe_pkg::*;
  import block_pkg::*;
#(
  parameter int unsigned Buffers     = 4,
  parameter int unsigned Initiators  = 1,
  parameter int unsigned SectorsLog2 = 1,
  parameter bit          Checksums   = 1'b1,
  parameter int unsigned LeastWords  = PaddedWords
) (
  input  logic        clk_i,
  input  logic        rst_ni,

  // Constant.
  input  logic [47:0] mac_i,
  input  logic [15:0] shelf_i,  // not 0xffff
  input  logic [7:0]  slot_i,   // not 0xff

  input  logic        rx_valid_i,  // cannot be held
  input  logic [31:0] rx_data_i,
  input  logic        rx_last_i,
  input  logic        rx_bad_i,    // with the last word: the frame is damaged

  output logic        tx_valid_o,
  input  logic        tx_ready_i,
  output logic [31:0] tx_data_o,
  output logic        tx_last_o,

  input  geometry_t   geometry_i,
  output host_t       host_o,
  output logic [31:0] write_data_o,
  input  dev_t        dev_i,
  input  logic [31:0] read_data_i,

  // For counters, each one cycle long.
  output logic        damaged_o,  // a request was short, or its checksum was wrong
  output logic        full_o      // a request found no slot, or its sender has its share of them
);
  // What the parameters must be.
  if ((Buffers < 2) || (Buffers > 16) || ((Buffers & (Buffers - 1)) != 0)) begin : gen_bad_buffers
    $error("Buffers is %0d: a power of two from 2 to 16", Buffers);
  end
  if ((Initiators < 1) || (Initiators > Buffers)) begin : gen_bad_initiators
    $error("Initiators is %0d: 1 to Buffers", Initiators);
  end
  if (SectorsLog2 > 4) begin : gen_bad_sectors_log2
    $error("SectorsLog2 is %0d: 0 to 4", SectorsLog2);
  end
  if ((LeastWords < 9) || (LeastWords > 15)) begin : gen_bad_least_words
    $error("LeastWords is %0d: 9 to 15", LeastWords);
  end

  localparam int unsigned Share      = Buffers / Initiators;
  localparam int unsigned SlotLog2   = $clog2(Buffers);
  localparam int unsigned DataLog2   = SectorsLog2 + 7;
  localparam int unsigned DataWords  = 1 << DataLog2;
  localparam int unsigned LengthWidth = DataLog2 + 1;
  typedef logic [SlotLog2-1:0]   place_t;
  typedef logic [SectorsLog2:0]  sectors_t;

  typedef enum logic [2:0] {
    Free,
    Taking,    // its frame arrives
    Waiting,   // for its turn, or an overlapping request
    Asked,     // the device has it
    Filling,   // a sector of the target's own
    Answered,  // the answer waits
    Sending
  } slot_e;

  typedef struct packed {
    logic [47:0] from;
    logic [15:0] shelf;
    logic [7:0]  slot;
    logic [7:0]  command;
    logic [31:0] tag;
    logic        check;
    logic        identify;
    op_e         op;
    lba_t        lba;
    sectors_t    count;
  } request_t;

  typedef struct packed {
    logic        failed;
    logic [7:0]  error;
    logic [95:0] argument;
  } answer_t;

  slot_e    state_q   [Buffers];
  request_t request_q [Buffers];
  answer_t  answer_q  [Buffers];

  // --- Requests arrive ------------------------------------------------------------------------
  logic    head, data_valid, ended, good;
  header_t header;
  logic [LengthWidth-1:0] data_index;
  logic [31:0] data;
  logic     ignore, access, identify, checked, failed;
  logic [7:0] code;
  logic [95:0] argument;
  op_e      op;
  lba_t     lba;
  sectors_t count;

  aoe_judge #(.SectorsLog2(SectorsLog2), .Buffers(Share), .Checksums(Checksums)) u_judge (
    .header_i(header), .mac_i, .shelf_i, .slot_i, .geometry_i, .ignore_o(ignore), .access_o(access), .identify_o(identify),
    .check_o(checked), .op_o(op), .lba_o(lba), .count_o(count), .failed_o(failed), .error_o(code), .argument_o(argument)
  );

  aoe_receive #(.DataWords(DataWords)) u_receive (
    .clk_i, .rst_ni, .rx_valid_i, .rx_data_i, .rx_last_i, .rx_bad_i, .head_o(head), .header_o(header),
    // A request that is refused is not looked at further, but a checksum must be right before anything is believed.
    .words_i((op == OpWrite) && (access || checked) ? LengthWidth'(count) << 7 : '0), .check_i(checked),
    .data_valid_o(data_valid), .data_index_o(data_index), .data_o(data), .end_o(ended), .good_o(good)
  );

  logic   found, room, taking_q, access_q, identify_q;
  place_t free, into_q;

  always_comb begin
    found = 1'b0;
    free  = '0;
    for (int unsigned i = 0; i < Buffers; i++) begin
      if (!found && (state_q[i] == Free)) begin
        found = 1'b1;
        free  = place_t'(i);
      end
    end
  end

  if (Initiators > 1) begin : gen_share
    logic [SlotLog2:0] uses;
    always_comb begin
      uses = '0;
      for (int unsigned i = 0; i < Buffers; i++) begin
        if ((state_q[i] != Free) && (request_q[i].from == header.from)) uses = uses + 1'b1;
      end
    end
    assign room = found & (uses < (SlotLog2 + 1)'(Share));
  end else begin : gen_whole
    assign room = found;
  end

  assign full_o    = head & ~ignore & ~room;
  assign damaged_o = ended & taking_q & ~good;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni)   taking_q <= 1'b0;
    else if (head) taking_q <= ~ignore & room;
  end

  always_ff @(posedge clk_i) begin
    if (head) begin
      into_q     <= free;
      access_q   <= access;
      identify_q <= identify;
      if (!ignore && room) begin
        request_q[free] <= '{from: header.from, shelf: shelf_i, slot: slot_i, command: header.command, tag: header.tag,
                             check: checked, identify: identify, op: op, lba: lba, count: count};
      end
    end
  end

  // --- Requests go to the device, in order ----------------------------------------------------
  logic   order_valid, ask, clear, write_room;
  place_t ask_slot;
  request_t ask_request;

  prim_fifo #(.Width(SlotLog2), .Depth(Buffers)) u_order (
    .clk_i, .rst_ni, .valid_i(ended & taking_q & good & access_q), .ready_o(), .data_i(into_q), .valid_o(order_valid),
    .ready_i(ask), .data_o(ask_slot)
  );

  assign ask_request = request_q[ask_slot];

  always_comb begin
    clear = 1'b1;
    for (int unsigned i = 0; i < Buffers; i++) begin
      if ((state_q[i] == Asked) && ((request_q[i].op == OpWrite) || (ask_request.op == OpWrite)) &&
          (request_q[i].lba < ask_request.lba + lba_t'(ask_request.count)) &&
          (ask_request.lba < request_q[i].lba + lba_t'(request_q[i].count))) begin
        clear = 1'b0;
      end
    end
  end

  assign ask = host_o.req_valid & dev_i.req_ready;

  // The data of writes, in the order of the requests.
  logic   write_open, write_fetch, write_fetched_q, write_last_q, write_ends, write_valid, write_last;
  place_t write_slot, write_slot_q, write_tag;
  logic [DataLog2-1:0] write_index_q;
  logic [31:0] write_word;

  prim_fifo #(.Width(SlotLog2), .Depth(Buffers)) u_writes (
    .clk_i, .rst_ni, .valid_i(ask & (ask_request.op == OpWrite)), .ready_o(write_room), .data_i(ask_slot), .valid_o(write_open),
    .ready_i(write_fetch & write_ends), .data_o(write_slot)
  );

  assign write_ends = {1'b0, write_index_q} == (LengthWidth'(request_q[write_slot].count) << 7) - LengthWidth'(1);

  prim_ram #(.Width(32), .Depth(Buffers * DataWords)) u_writes_ram (
    .clk_i, .write_i(data_valid & taking_q), .write_address_i({into_q, data_index[DataLog2-1:0]}), .write_data_i(data),
    .read_i(write_fetch), .read_address_i({write_slot, write_index_q}), .read_data_o(write_word)
  );

  prim_ahead #(.Width(33 + SlotLog2)) u_write_ahead (
    .clk_i, .rst_ni, .available_i(write_open), .fetch_o(write_fetch), .fetched_i(write_fetched_q),
    .data_i({write_slot_q, write_last_q, write_word}), .valid_o(write_valid), .ready_i(dev_i.write_ready),
    .data_o({write_tag, write_last, write_data_o})
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      write_fetched_q <= 1'b0;
      write_index_q   <= '0;
    end else begin
      write_fetched_q <= write_fetch;
      if (write_fetch) write_index_q <= write_ends ? '0 : write_index_q + DataLog2'(1);
    end
  end

  always_ff @(posedge clk_i) begin
    write_slot_q <= write_slot;
    write_last_q <= write_ends;
  end

  logic fill_q, read_taken;
  always_comb begin
    host_o = '{req_valid: order_valid & clear & write_room,
               req: '{op: ask_request.op, fua: 1'b0, tag: tag_t'(ask_slot), lba: ask_request.lba, count: count_t'(ask_request.count)},
               write_valid: write_valid, write: '{tag: tag_t'(write_tag), last: write_last},
               read_ready: ~fill_q, rsp_ready: 1'b1, cancel: 1'b0};
  end

  // --- Data of answers: from the device, or the sector of IDENTIFY ----------------------------
  logic   fill_found;
  place_t fill_next, fill_slot_q, read_slot, rsp_slot;
  logic [DataLog2-1:0] read_index_q;
  logic [6:0] fill_index_q;
  logic [31:0] identity;

  always_comb begin
    fill_found = 1'b0;
    fill_next  = '0;
    for (int unsigned i = 0; i < Buffers; i++) begin
      if (state_q[i] == Filling) begin
        fill_found = 1'b1;
        fill_next  = place_t'(i);
      end
    end
  end

  aoe_identify u_identify (.index_i(fill_index_q), .geometry_i, .mac_i, .data_o(identity));

  assign read_taken = dev_i.read_valid & ~fill_q;
  assign read_slot  = place_t'(dev_i.read.tag);
  assign rsp_slot   = place_t'(dev_i.rsp.tag);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      read_index_q <= '0;
      fill_index_q <= '0;
      fill_q       <= 1'b0;
    end else begin
      if (read_taken) read_index_q <= dev_i.read.last ? '0 : read_index_q + DataLog2'(1);
      if (fill_q) begin
        fill_index_q <= fill_index_q + 7'd1;
        fill_q       <= fill_index_q != '1;
      end else begin
        fill_q <= fill_found;
      end
    end
  end

  always_ff @(posedge clk_i) if (!fill_q) fill_slot_q <= fill_next;

  logic   send_fetch;
  place_t sending_q;
  logic [LengthWidth-1:0] send_index;
  logic [31:0] send_word;

  prim_ram #(.Width(32), .Depth(Buffers * DataWords)) u_reads_ram (
    .clk_i, .write_i(fill_q | read_taken),
    .write_address_i(fill_q ? {fill_slot_q, DataLog2'(fill_index_q)} : {read_slot, read_index_q}),
    .write_data_i(fill_q ? identity : read_data_i), .read_i(send_fetch),
    .read_address_i({sending_q, send_index[DataLog2-1:0]}), .read_data_o(send_word)
  );

  // --- Answers --------------------------------------------------------------------------------
  logic     send, send_found, send_ready, sent;
  place_t   send_slot;
  request_t send_request;
  answer_t  send_answer;
  header_t  send_header;
  logic [LengthWidth-1:0] send_words;

  // The slots take turns.
  always_comb begin
    send_found = 1'b0;
    send_slot  = '0;
    for (int unsigned i = 1; i <= Buffers; i++) begin
      place_t candidate;
      candidate = sending_q + place_t'(i);
      if (!send_found && (state_q[candidate] == Answered)) begin
        send_found = 1'b1;
        send_slot  = candidate;
      end
    end
  end

  assign send_request = request_q[send_slot];
  assign send_answer  = answer_q[send_slot];
  assign send         = send_found & send_ready;
  assign sent         = tx_valid_o & tx_ready_i & tx_last_o;

  always_comb begin
    ata_t ata;
    ata        = ata_t'(send_answer.argument);
    send_words = '0;
    if ((send_request.command == CommandAta) && !send_answer.failed && ((ata.command & AtaFailed) == '0)) begin
      if (send_request.identify)           send_words = LengthWidth'(SectorWords);
      else if (send_request.op == OpRead) send_words = LengthWidth'(send_request.count) << 7;
    end
    send_header = '{to: send_request.from, from: mac_i, ether_type: EtherType, version: AoeVersion, response: 1'b1,
                    failed: send_answer.failed, zero: '0, error: send_answer.error, shelf: send_request.shelf,
                    slot: send_request.slot, command: send_request.command, tag: send_request.tag,
                    argument: send_answer.argument};
  end

  aoe_send #(.DataWords(DataWords), .LeastWords(LeastWords)) u_send (
    .clk_i, .rst_ni, .valid_i(send_found), .ready_o(send_ready), .header_i(send_header), .words_i(send_words),
    .check_i(send_request.check), .fetch_o(send_fetch), .index_o(send_index), .data_i(send_word), .tx_valid_o, .tx_ready_i,
    .tx_data_o, .tx_last_o
  );

  // --- The slots ------------------------------------------------------------------------------
  // What the disk's registers say after a command.
  function automatic logic [15:0] registers(status_e status, op_e asked);  // status, error
    unique case (status)
      StatusOk:         return {AtaReady, 8'd0};
      StatusOutOfRange: return {AtaError, AtaNoId};
      StatusDevice:     return (asked == OpRead) ? {AtaError, AtaUnread} : {AtaFault, AtaAbort};
      default:          return {AtaError, AtaAbort};
    endcase
  endfunction

  // In a cycle a slot has one event at most.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      for (int unsigned i = 0; i < Buffers; i++) state_q[i] <= Free;
      sending_q <= '0;
    end else begin
      if (head && !ignore && room) state_q[free] <= Taking;
      if (ended && taking_q) state_q[into_q] <= !good ? Free : access_q ? Waiting : identify_q ? Filling : Answered;
      if (ask) state_q[ask_slot] <= Asked;
      if (dev_i.rsp_valid) state_q[rsp_slot] <= Answered;
      if (fill_q && (fill_index_q == '1)) state_q[fill_slot_q] <= Answered;
      if (send) begin
        state_q[send_slot] <= Sending;
        sending_q          <= send_slot;
      end
      if (sent) state_q[sending_q] <= Free;
    end
  end

  always_ff @(posedge clk_i) begin
    if (head && !ignore && room) answer_q[free] <= '{failed: failed, error: code, argument: argument};
    if (dev_i.rsp_valid) begin
      // Flags, count, address and the mark of the checksum stay.
      {answer_q[rsp_slot].argument[71:64], answer_q[rsp_slot].argument[87:80]} <= registers(dev_i.rsp.status,
                                                                                           request_q[rsp_slot].op);
      if (dev_i.rsp.status == StatusGone) begin
        answer_q[rsp_slot].failed <= 1'b1;
        answer_q[rsp_slot].error  <= ErrorUnavailable;
      end
    end
  end
endmodule
