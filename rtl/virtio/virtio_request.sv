// SPDX-License-Identifier: Apache-2.0 OR MIT
// Executes the request of one chain (section 5.2.6): reads its header, issues requests to the disk, moves the data,
// writes the status.
//
// An error of the disk becomes VIRTIO_BLK_S_IOERR, an unsupported operation VIRTIO_BLK_S_UNSUPP. A length or sector that
// is not a whole number of blocks, or a chain without room for a header, is VIRTIO_BLK_S_IOERR and moves no data. A
// transfer longer than the disk's `max_transfer_blocks` is split. If the driver did not accept VIRTIO_BLK_F_FLUSH and the
// disk has a volatile cache, each change is followed by a flush.
//
// With `Parallel` this module never waits for the disk: it parks a request that would wait, hands its `context` out, and
// gets it back when the request is resumed.
//
// While `abort_i` is high, which it stays until nothing is under way, memory is not accessed, nothing new is asked of the disk,
// and no request is answered. What the disk was asked before is ended as rules B6 and B7 require: all words of a
// read are dropped, all words that a write lacks are given, the response is taken.
//
// BlockSizeLog2  log2 of the device's block in bytes
// Serial         the answer to VIRTIO_BLK_T_GET_ID: 20 characters
// Slots          segments of a chain
module virtio_request
  import virtio_pkg::*;
  import block_pkg::*;
#(
  parameter int unsigned  BlockSizeLog2 = 9,
  parameter logic [159:0] Serial        = '0,
  parameter int unsigned  Slots         = 128,
  parameter bit           Parallel      = 1'b0,
  localparam int unsigned SlotWidth     = $clog2(Slots),
  localparam int unsigned ContextWidth  = 9 + LbaWidth + 2 * CountWidth + BytesWidth
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  input  logic                 start_i,
  input  chain_t               chain_i,
  input  logic                 flush_i,     // the driver accepted VIRTIO_BLK_F_FLUSH
  output logic                 done_o,
  output logic                 fail_o,      // with done_o: the status was not written
  output logic [31:0]          used_len_o,

  input  logic                 abort_i,
  output logic                 idle_o,
  // With `Parallel`.
  input  logic                 returned_i,  // done_o stays high until then
  output logic                 park_o,
  output logic                 again_o,     // with park_o: it has another request for the disk
  output logic [ContextWidth-1:0] context_o,
  input  logic                 resume_i,
  input  resume_e              why_i,
  input  logic [ContextWidth-1:0] context_i,

  output logic                 seek_o,
  output logic [SlotWidth-1:0] slot_o,
  output logic                 move_o,
  output logic                 push_o,
  output bytes_t               bytes_o,
  input  logic                 moved_i,
  input  logic                 move_error_i,
  input  logic                 out_valid_i,
  output logic                 out_ready_o,
  input  logic [31:0]          out_data_i,
  output logic                 in_valid_o,
  input  logic                 in_ready_i,
  output logic [31:0]          in_data_o,
  output mem_req_t             mem_o,
  input  mem_rsp_t             mem_i,

  input  geometry_t            geometry_i,
  output host_t                host_o,
  output logic [31:0]          write_data_o,
  input  dev_t                 dev_i,
  input  logic [31:0]          read_data_i
);
  typedef logic [SlotWidth-1:0] slot_t;
  localparam int unsigned UnitLog2 = (BlockSizeLog2 > 9) ? BlockSizeLog2 : 9;
  localparam int unsigned Finer    = (BlockSizeLog2 < 9) ? 9 - BlockSizeLog2 : 0;   // blocks in a sector, log2
  localparam int unsigned Coarser  = (BlockSizeLog2 > 9) ? BlockSizeLog2 - 9 : 0;   // sectors in a block, log2

  typedef enum logic [3:0] {
    Idle, Header, Decide, Range, Judge, Piece, Request, Data, Drain, Response, Id, Status, Done, Park
  } state_e;
  typedef enum logic [2:0] {DoRead, DoWrite, DoFlush, DoRanges, DoId, DoNothing} do_e;

  state_e      state_q, state_d;
  do_e         do_q, do_d;
  op_e         op_q, op_d;
  blk_status_e status_q, status_d;
  logic        begun_q, begun_d, fail_q, fail_d, first_q, first_d, again_q, again_d;
  logic [3:0][31:0] words_q;     // the header, or a range
  lba_t        lba_q, lba_d;
  count_t      blocks_q, blocks_d, piece, piece_q, piece_d;
  words_t      last_q, last_d;   // words left of the piece
  bytes_t      rest_q, rest_d;   // of the ranges
  logic [2:0]  id_q, id_d;

  // --- The header and the ranges: sectors to blocks ------------------------------------------------
  // What is wrong with them is known a cycle after the last word, in Decide and Judge, and with the chain's lengths two cycles after it.
  typedef logic [63:0] sector_t;
  typedef logic [63+Finer:0] wide_t;
  typedef logic [31+Finer:0] count_wide_t;
  function automatic wide_t blocks_of(sector_t sector);
    return (wide_t'(sector) << Finer) >> Coarser;
  endfunction
  function automatic logic is_bad(sector_t sector);
    wide_t wide;
    wide = blocks_of(sector);
    return (wide[63+Finer:LbaWidth] != '0) | ((sector & 64'((1 << Coarser) - 1)) != '0);
  endfunction
  function automatic logic is_uneven(bytes_t bytes);  // not some whole blocks
    return (bytes[UnitLog2-1:0] != '0) | (bytes == '0);
  endfunction

  sector_t header_sector, range_sector;
  bytes_t  room_q, payload_q, data;
  count_wide_t count_wide;
  logic    header_bad_q, range_bad_q, unknown_flag_q, room_uneven_q, payload_uneven_q, no_room_q, ranges_uneven_q, data_bad, whole;

  assign header_sector = {words_q[3], words_q[2]};
  assign range_sector  = {words_q[1], words_q[0]};
  assign count_wide    = (count_wide_t'(words_q[2]) << Finer) >> Coarser;
  assign data          = (do_q == DoRead) ? room_q : payload_q;
  assign data_bad      = (do_q == DoRead) ? room_uneven_q : payload_uneven_q;
  always_ff @(posedge clk_i) begin
    room_q           <= chain_i.writable - bytes_t'(1);
    payload_q        <= chain_i.readable - bytes_t'(16);
    room_uneven_q    <= is_uneven(room_q);
    payload_uneven_q <= is_uneven(payload_q);
    no_room_q        <= room_q == '0;
    ranges_uneven_q  <= (payload_q[3:0] != '0) | (payload_q == '0);
    header_bad_q     <= is_bad(header_sector);
    range_bad_q      <= is_bad(range_sector) | (count_wide[31+Finer:CountWidth] != '0) |
                        ((words_q[2] & 32'((1 << Coarser) - 1)) != '0);
    // Section 5.2.6.2: only write zeroes has a flag (unmap), which permits but does not require anything.
    unknown_flag_q   <= (words_q[3][31:1] != '0) | (words_q[3][0] & (op_q == OpDiscard));
  end
  // The next request's share of the remaining blocks. Ranges are never split.
  assign whole      = (blocks_q < geometry_i.max_transfer_blocks) | (do_q == DoRanges);
  assign piece      = (op_q == OpFlush) ? '0 : whole ? blocks_q : geometry_i.max_transfer_blocks;

  // --- The disk ------------------------------------------------------------------------------------
  logic moves, in_data_state, draining, is_id, good, filled, taken, moved_all;
  logic [31:0] id_word;
  assign moves         = (op_q == OpRead) | (op_q == OpWrite);
  assign draining      = state_q == Drain;
  assign in_data_state = (state_q == Data) | draining;
  assign is_id         = state_q == Id;

  always_comb begin
    host_o             = '0;
    host_o.req_valid   = state_q == Request;
    host_o.req         = '{op: op_q, fua: 1'b0, tag: '0, lba: lba_q, count: piece_q};
    host_o.write_valid = in_data_state & (op_q == OpWrite) & (out_valid_i | draining);
    host_o.write.last  = last_q == words_t'(1);
    host_o.read_ready  = in_data_state & (op_q == OpRead) & (in_ready_i | draining);
    host_o.rsp_ready   = state_q == Response;
  end
  assign taken        = (host_o.write_valid & dev_i.write_ready) | (host_o.read_ready & dev_i.read_valid);
  // Nothing of the piece is left after this cycle: both comparisons are made while it is not known which one counts.
  assign moved_all    = taken ? (last_q == words_t'(1)) : (last_q == '0);
  assign write_data_o = out_data_i;
  assign out_ready_o  = in_data_state ? dev_i.write_ready : 1'b1;
  assign in_valid_o   = is_id | (in_data_state & (op_q == OpRead) & dev_i.read_valid);
  // A string literal has its first character in the highest bits.
  assign id_word      = Serial[32*(4-32'(id_q))+:32];
  assign in_data_o    = is_id ? {id_word[7:0], id_word[15:8], id_word[23:16], id_word[31:24]} : read_data_i;

  // --- Steps ---------------------------------------------------------------------------------------
  function automatic blk_status_e status_of(status_e status);
    if (status == StatusOk)          return BlkOk;
    if (status == StatusUnsupported) return BlkUnsupported;
    return BlkIoError;
  endfunction

  assign done_o     = state_q == Done;
  assign fail_o     = fail_q;
  assign idle_o     = state_q == Idle;
  assign park_o     = state_q == Park;
  assign again_o    = again_q;
  assign context_o  = {do_q, op_q, status_q[1:0], first_q, lba_q, blocks_q, piece_q, rest_q};
  // The bytes written without a gap from the first writable one: after an error at most the status.
  assign good       = status_q == BlkOk;
  assign filled     = no_room_q | (good & ((do_q == DoRead) | ((do_q == DoId) & (room_q <= bytes_t'(20)))));
  // Settled in Status, before Done.
  always_ff @(posedge clk_i) begin
    used_len_o <= chain_i.too_long ? '0 : filled ? 32'(chain_i.writable) : (good && (do_q == DoId)) ? 32'd20 : '0;
  end
  assign slot_o     = push_o ? slot_t'(chain_i.first_writable) : '0;

  always_comb begin
    mem_o = '0;
    if (state_q == Status) begin
      mem_o.valid   = ~begun_q;
      mem_o.write   = 1'b1;
      mem_o.address = {1'b0, chain_i.last_byte[axi_pkg::AddressWidth-1:2], 2'b00};
      mem_o.words   = words_t'(1);
      mem_o.strobe  = 4'd1 << chain_i.last_byte[1:0];
      mem_o.w_valid = 1'b1;
      mem_o.w_data  = {4{8'(status_q)}};
    end
  end

  always_comb begin
    state_d  = state_q;
    do_d     = do_q;
    op_d     = op_q;
    status_d = status_q;
    begun_d  = begun_q;
    fail_d   = fail_q;
    lba_d    = lba_q;
    blocks_d = blocks_q;
    piece_d  = piece_q;
    last_d   = last_q;
    rest_d   = rest_q;
    first_d  = first_q;
    id_d     = id_q;
    again_d  = again_q;
    seek_o   = 1'b0;
    move_o   = 1'b0;
    push_o   = 1'b0;
    bytes_o  = bytes_t'(16);
    if (taken) last_d = last_q - words_t'(1);
    unique case (state_q)
      Idle: if (start_i) begin
        status_d = BlkOk;
        begun_d  = 1'b0;
        fail_d   = 1'b0;
        first_d  = 1'b1;
        id_d     = '0;
        state_d  = Header;
        if (chain_i.too_long || (chain_i.readable < bytes_t'(16))) begin
          status_d = BlkIoError;
          state_d  = Status;
        end
      end else if (Parallel && resume_i) begin
        do_d     = do_e'(context_i[ContextWidth-1-:3]);
        op_d     = op_e'(context_i[ContextWidth-4-:3]);
        status_d = blk_status_e'({6'd0, context_i[ContextWidth-7-:2]});
        {first_d, lba_d, blocks_d, piece_d, rest_d} = context_i[ContextWidth-9:0];
        begun_d  = 1'b0;
        fail_d   = 1'b0;
        again_d  = 1'b0;
        last_d   = words_t'(piece_d) << (BlockSizeLog2 - 2);
        unique case (why_i)
          ResumeOffer:    state_d = Request;
          ResumeResponse: state_d = Response;
          default:        state_d = Data;
        endcase
      end
      Header: begin
        seek_o  = ~begun_q;
        move_o  = ~begun_q;
        begun_d = 1'b1;
        if (begun_q && moved_i) begin
          begun_d = 1'b0;
          state_d = Decide;
          do_d    = DoNothing;
          op_d    = OpFlush;
          unique case (words_q[0])
            TypeIn:          {do_d, op_d} = {DoRead, OpRead};
            TypeOut:         {do_d, op_d} = {DoWrite, OpWrite};
            TypeFlush:       do_d = DoFlush;
            TypeGetId:       do_d = DoId;
            TypeDiscard:     {do_d, op_d} = {DoRanges, OpDiscard};
            TypeWriteZeroes: {do_d, op_d} = {DoRanges, OpWriteZeroes};
            default:         status_d = BlkUnsupported;
          endcase
          if (move_error_i) begin
            status_d = BlkIoError;
            state_d  = Status;
          end
        end
      end
      Decide: begin
        lba_d    = lba_t'(blocks_of(header_sector));
        blocks_d = count_t'(data >> BlockSizeLog2);
        rest_d   = payload_q;
        unique case (do_q)
          DoRead, DoWrite: begin
            state_d = Piece;
            if (data_bad || header_bad_q) {status_d, state_d} = {BlkIoError, Status};
          end
          DoFlush:  state_d = Piece;
          DoId:     state_d = no_room_q ? Status : Id;
          DoRanges: begin
            state_d = Range;
            if (ranges_uneven_q) {status_d, state_d} = {BlkIoError, Status};
          end
          default:  state_d = Status;
        endcase
      end
      Range: begin
        move_o  = ~begun_q;
        begun_d = 1'b1;
        if (begun_q && moved_i) begin
          begun_d = 1'b0;
          rest_d  = rest_q - bytes_t'(16);
          state_d = move_error_i ? Status : Judge;
          if (move_error_i) status_d = BlkIoError;
        end
      end
      Judge: begin
        lba_d    = lba_t'(blocks_of(range_sector));
        blocks_d = count_t'(count_wide);
        state_d  = Piece;
        if (range_bad_q)    {status_d, state_d} = {BlkIoError, Status};
        if (unknown_flag_q) {status_d, state_d} = {BlkUnsupported, Status};
      end
      Piece: begin
        piece_d = piece;
        state_d = Request;
        if (Parallel) {again_d, state_d} = {1'b1, Park};
      end
      Request: if (dev_i.req_ready) begin
        last_d  = words_t'(piece_q) << (BlockSizeLog2 - 2);
        state_d = Parallel ? Park : (moves && (piece_q != '0)) ? Data : Response;
      end
      Data: begin
        // A read's first piece starts at the first writable byte; everything else continues at the current position.
        push_o  = op_q == OpRead;
        seek_o  = ~begun_q & push_o & first_q;
        move_o  = ~begun_q;
        bytes_o = bytes_t'(piece_q) << BlockSizeLog2;
        begun_d = 1'b1;
        if (begun_q && moved_i) begin
          begun_d = 1'b0;
          state_d = Parallel ? Park : Response;
          first_d = 1'b0;
          if (move_error_i) status_d = BlkIoError;
        end
      end
      Drain: begin
        if (moved_all) state_d = Parallel ? Park : Response;
      end
      Response: if (dev_i.rsp_valid) begin
        lba_d    = lba_q + lba_t'(piece_q);
        blocks_d = blocks_q - piece_q;
        if (status_q == BlkOk) status_d = status_of(dev_i.rsp.status);
        state_d = Status;
        if (status_d == BlkOk) begin
          if (moves && (blocks_q != piece_q))                  state_d = Piece;
          else if ((do_q == DoRanges) && (op_q != OpFlush) && (rest_q != '0)) state_d = Range;
          else if (!flush_i && geometry_i.volatile_write_cache && ((op_q == OpWrite) || (op_q == OpWriteZeroes))) begin
            op_d    = OpFlush;
            state_d = Piece;
          end
        end
      end
      Id: begin
        push_o  = 1'b1;
        seek_o  = ~begun_q;
        move_o  = ~begun_q;
        bytes_o = (room_q < bytes_t'(20)) ? room_q : bytes_t'(20);
        begun_d = 1'b1;
        if (in_ready_i) id_d = id_q + 3'd1;
        if (begun_q && moved_i) begin
          begun_d  = 1'b0;
          state_d  = Status;
          if (move_error_i) status_d = BlkIoError;
        end
      end
      Status: begin
        if (mem_i.ready) begun_d = 1'b1;
        if (begun_q && mem_i.done) begin
          fail_d  = mem_i.error;
          state_d = Done;
        end
      end
      Done: if (!Parallel || returned_i) state_d = Idle;
      default: state_d = Idle;
    endcase
    if (abort_i) begin
      unique case (state_q)
        Idle: begin
          if (start_i) state_d = Done;
          else if (Parallel && resume_i) state_d = ((why_i == ResumeWrite) || (why_i == ResumeRead)) ? Drain : Done;
        end
        Request, Drain, Park: ;
        Data:     state_d = ~moved_all ? Drain : Parallel ? Park : Response;
        Response: state_d = dev_i.rsp_valid ? Done : Response;
        Done:     state_d = Idle;
        default:  state_d = Done;
      endcase
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) state_q <= Idle;
    else         state_q <= state_d;
  end

  always_ff @(posedge clk_i) begin
    do_q     <= do_d;
    op_q     <= op_d;
    status_q <= status_d;
    begun_q  <= begun_d;
    fail_q   <= fail_d;
    lba_q    <= lba_d;
    blocks_q <= blocks_d;
    piece_q  <= piece_d;
    last_q   <= last_d;
    rest_q   <= rest_d;
    first_q  <= first_d;
    id_q     <= id_d;
    again_q  <= again_d;
    if (out_valid_i && out_ready_o && !in_data_state) words_q <= {out_data_i, words_q[3:1]};
  end
endmodule
