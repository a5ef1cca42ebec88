// SPDX-License-Identifier: Apache-2.0 OR MIT
// Makes a mirror's copies equal: reads each piece from a disk that can, and writes it to all. A flush ends the pass.
//
// A host of the mirror while nobody else is: one request at a time. Where the copies differ, the mirror has not said that
// it is ready since they came to differ, so its host has seen neither version: any of them may stay (B12). A piece that
// no disk can read is left as it is.
//
// UpWidth, BlockSizeLog2  those of the array
// PieceBlocks             blocks that are copied at once, a power of two: block RAM for these
module raid_resync
  import block_pkg::*;
#(
  parameter int unsigned UpWidth       = 32,
  parameter int unsigned BlockSizeLog2 = 9,
  parameter int unsigned PieceBlocks   = 8
) (
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               go_i,     // copy; when it falls, the request under way ends and the pass with it
  input  logic               clear_i,  // no other host's request is under way
  input  lba_t               block_count_i,
  output logic               busy_o,
  output logic               done_o,   // high for one cycle

  output host_t              host_o,
  output logic [UpWidth-1:0] write_data_o,
  input  dev_t               dev_i,
  input  logic [UpWidth-1:0] read_data_i
);
  localparam int unsigned WordsLog2 = BlockSizeLog2 - $clog2(UpWidth / 8);
  localparam int unsigned Words     = PieceBlocks << WordsLog2;
  localparam int unsigned WordWidth = $clog2(Words + 1);
  typedef logic [WordWidth-1:0] words_t;

  typedef enum logic [2:0] {Idle, Read, ReadEnd, Write, WriteEnd, Drop, Flush, FlushEnd} state_e;

  state_e state_q, state_d;
  lba_t   lba_q, lba_d, left;
  words_t index_q, index_d;
  count_t count;
  words_t words;
  logic   word_valid, word_taken, is_last, responds;

  assign left     = block_count_i - lba_q;
  assign count    = (left < lba_t'(PieceBlocks)) ? count_t'(left) : count_t'(PieceBlocks);
  assign words    = words_t'(count) << WordsLog2;
  assign is_last  = index_q == words - words_t'(1);
  assign responds = dev_i.rsp_valid;
  assign busy_o   = state_q != Idle;

  prim_fifo_ram #(.Width(UpWidth), .Depth(Words)) u_words (
    .clk_i,
    .rst_ni,
    .valid_i (dev_i.read_valid & host_o.read_ready),
    .ready_o (),
    .data_i  (read_data_i),
    .valid_o (word_valid),
    .ready_i (word_taken),
    .data_o  (write_data_o)
  );

  always_comb begin
    host_o             = '0;
    host_o.req_valid   = (state_q == Read) | (state_q == Write) | (state_q == Flush);
    host_o.req.op      = (state_q == Write) ? OpWrite : (state_q == Flush) ? OpFlush : OpRead;
    host_o.req.lba     = (state_q == Flush) ? '0 : lba_q;
    host_o.req.count   = (state_q == Flush) ? '0 : count;
    host_o.write_valid = (state_q == WriteEnd) & word_valid;
    host_o.write.last  = is_last;
    host_o.read_ready  = 1'b1;
    host_o.rsp_ready   = 1'b1;
  end

  assign word_taken = word_valid & ((state_q == Drop) | ((state_q == WriteEnd) & dev_i.write_ready));

  always_comb begin
    state_d = state_q;
    lba_d   = lba_q;
    index_d = index_q;
    done_o  = 1'b0;
    if (word_taken) index_d = is_last ? '0 : index_q + words_t'(1);
    unique case (state_q)
      Idle: begin
        lba_d = '0;
        if (go_i && clear_i) state_d = Read;
      end
      Read:    if (dev_i.req_ready) state_d = ReadEnd;
      ReadEnd: if (responds) state_d = (dev_i.rsp.status == StatusOk) ? Write : Drop;
      Write:   if (dev_i.req_ready) state_d = WriteEnd;
      WriteEnd, Drop: if ((state_q == Drop) ? word_taken && is_last : responds) begin
        lba_d   = lba_q + lba_t'(count);
        state_d = !go_i ? Idle : (left == lba_t'(count)) ? Flush : Read;
      end
      Flush:    if (dev_i.req_ready) state_d = FlushEnd;
      FlushEnd: if (responds) begin
        done_o  = go_i;
        state_d = Idle;
      end
      default: state_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      index_q <= '0;
    end else begin
      state_q <= state_d;
      index_q <= index_d;
    end
  end

  always_ff @(posedge clk_i) lba_q <= lba_d;
endmodule
