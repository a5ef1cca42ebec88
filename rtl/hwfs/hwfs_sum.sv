// SPDX-License-Identifier: Apache-2.0 OR MIT
// Computes the CRC32C of a file's data in the stream, before hwfs_fetch or after hwfs_store, one word per cycle. Data that
// are read come in parts. The sequencer supplies the end and the expected checksum of each; the last word of a part with
// another checksum is not passed on. For data that are written, the sequencer supplies the checksum to continue, and reads
// the new one. FORMAT.md, "Checksums of data".
//
// Owns the current part and the next one. A word that only partly belongs to the application is processed one byte per
// cycle; only the first and the last word can be such words.
//
// DataWidth  bits of the data streams
module hwfs_sum
  import hwfs_pkg::*;
#(
  parameter int unsigned DataWidth = 32,
  localparam int unsigned Bytes    = DataWidth / 8
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  input  logic                 read_i,    // `do_i` is a DoReadTo
  input  logic                 write_i,   // `do_i` is a DoWriteTo, which is taken in this cycle; its parts follow
  input  logic                 part_i,    // `do_i` is a DoSum, which is taken in this cycle
  output logic                 ready_o,   // for another part
  input  do_t                  do_i,
  input  logic                 abort_i,
  input  logic                 forget_i,

  output logic                 writing_o, // the words are on the way to the device
  input  logic                 word_valid_i,
  input  logic [DataWidth-1:0] word_i,
  input  logic                 taken_i,   // the word is passed on
  input  logic                 wanted_i,  // the application expects data, or the word contains application data
  output logic                 pass_o,    // the word may be passed on

  output logic                 rot_o,     // high for one cycle when the data do not match their checksum
  output logic                 bad_o,     // the same, until errors are cleared
  output logic [31:0]          sum_o      // of the part that was taken last
);
  localparam int unsigned LaneWidth = $clog2(Bytes);
  typedef logic [LaneWidth-1:0] lane_t;
  typedef logic [16:0]          left_t;  // bytes: a part has 64 KiB at most

  typedef struct packed {
    logic        check;
    left_t       left;
    lane_t       lane;    // where its first byte is
    logic [31:0] stored;
  } part_t;

  logic  on_q, writing_q, bad_q, part_q, next_q, done_q;  // done: the sum includes the waiting word
  part_t now_q, then_q;
  lane_t first_q;  // of data that are written: lane of the first byte
  logic [31:0] crc_q, crc_word, crc_byte;
  logic [7:0]  data;

  // The part's remaining bytes, compared with a word.
  logic more, exact, none, whole;
  assign more  = now_q.left > left_t'(Bytes);
  assign exact = now_q.left == left_t'(Bytes);
  assign none  = now_q.left == '0;
  assign whole = now_q.lane == '0;

  hwfs_crc #(.Width(DataWidth)) u_crc (.data_i(word_i ^ DataWidth'(crc_q)), .crc_o(crc_word));

  assign data = word_i[{now_q.lane, 3'b000}+:8];
  always_comb begin
    crc_byte = crc_q ^ 32'(data);
    for (int i = 0; i < 8; i++) crc_byte = (crc_byte >> 1) ^ (crc_byte[0] ? 32'h82f63b78 : 32'h0);
  end

  logic right, streams;
  assign sum_o     = ~crc_q;
  assign right     = ~none | ~now_q.check | (sum_o == now_q.stored);
  assign streams   = on_q & wanted_i & part_q & word_valid_i;
  assign pass_o    = ~on_q | ~wanted_i | (part_q & ((whole & more) | (done_q & right)));
  assign rot_o     = streams & done_q & ~right;
  assign bad_o     = bad_q;
  assign ready_o   = ~on_q | ~next_q;
  assign writing_o = writing_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      on_q      <= 1'b0;
      writing_q <= 1'b0;
      bad_q     <= 1'b0;
      part_q    <= 1'b0;
      next_q    <= 1'b0;
      done_q    <= 1'b0;
    end else begin
      if (read_i) on_q <= do_i.imm[DoSums];
      else if (write_i || abort_i || rot_o) on_q <= 1'b0;
      else if (part_i && do_i.imm[DoWriting]) on_q <= 1'b1;
      if (read_i) writing_q <= 1'b0;
      else if (part_i) writing_q <= do_i.imm[DoWriting];
      bad_q   <= (bad_q | rot_o) & ~read_i & ~forget_i;
      if (!on_q) begin
        part_q <= 1'b0;
        next_q <= part_i & do_i.imm[DoWriting];
        done_q <= 1'b0;
      end else begin
        if (!part_q) part_q <= next_q;
        else if (taken_i && done_q && none) part_q <= 1'b0;
        next_q <= part_i | (next_q & part_q);
        if (taken_i) done_q <= 1'b0;
        else if (streams && !done_q && (whole ? !more : ((now_q.lane == '1) || (now_q.left == left_t'(1))))) begin
          done_q <= exact | ~whole | (now_q.left == left_t'(1));
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (write_i) first_q <= do_i.a[LaneWidth-1:0];
    if (part_i) begin
      then_q  <= '{check: do_i.b[17], left: do_i.b[16:0], lane: do_i.imm[DoWriting] ? first_q : '0,
                   stored: do_i.a[31:0]};
      first_q <= '0;
    end
    if (!part_q) begin
      now_q <= then_q;
      if (next_q) crc_q <= writing_q ? ~then_q.stored : '1;
    end else if (streams && !done_q) begin
      if (whole && (more || exact)) begin
        if (exact || taken_i) begin
          crc_q      <= crc_word;
          now_q.left <= now_q.left - left_t'(Bytes);
        end
      end else begin
        crc_q      <= crc_byte;
        now_q.lane <= now_q.lane + lane_t'(1);
        now_q.left <= now_q.left - left_t'(1);
      end
    end
  end
endmodule
