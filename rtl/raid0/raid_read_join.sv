// SPDX-License-Identifier: Apache-2.0 OR MIT
// Joins the lanes' data into the array's read stream, in the order of the pieces, and their results
// into the responses.
//
// Owns the order of the read pieces. An array without mirrors passes each piece's data on as they
// arrive, and its result afterwards; the first error of a request's pieces is the request's error. A
// mirror delivers only good data: a piece that one disk cannot read is read from the next live disk.
// Only when no disk can read it, it delivers zeroes and an error.
//
// Disks, WordsLog2 (UpWidth words in a block), SlotBlocks, Pieces (outstanding read pieces, at most)
module raid_read_join
  import block_pkg::*;
  import raid_pkg::*;
#(
  parameter int unsigned UpWidth    = 32,
  parameter int unsigned Disks      = 2,
  parameter int unsigned WordsLog2  = 7,
  parameter int unsigned SlotBlocks = 8,
  parameter int unsigned Pieces     = 8,
  parameter bit          Mirror     = 1'b0,
  localparam int unsigned LaneWidth = (Disks > 1) ? $clog2(Disks) : 1
) (
  input  logic                          clk_i,
  input  logic                          rst_ni,
  input  logic [Disks-1:0]              live_i,

  // A piece has been given to a lane.
  output logic                          free_o,
  input  logic                          take_i,
  input  piece_t                        piece_i,
  input  logic [LaneWidth-1:0]          lane_i,
  input  tag_t                          tag_i,
  input  logic                          last_i,

  // The lanes.
  output logic [Disks-1:0]              select_o,
  output logic                          extra_o,
  input  logic [Disks-1:0]              valid_i,
  output logic [Disks-1:0]              ready_o,
  input  logic [Disks-1:0][UpWidth-1:0] data_i,
  input  logic [Disks-1:0]              bad_i,
  output logic [Disks-1:0]              drop_o,
  input  logic [Disks-1:0]              result_valid_i,
  input  result_t [Disks-1:0]           result_i,
  output logic [Disks-1:0]              retire_o,
  output logic [Disks-1:0]              error_o,     // this lane's disk failed a read now

  // A piece is to be read again, into the extra slot of the lane that select_o names.
  output logic                          again_valid_o,
  input  logic                          again_ready_i,
  output piece_t                        again_o,

  // The array's read data and responses.
  output logic                          read_valid_o,
  input  logic                          read_ready_i,
  output beat_t                         read_o,
  output logic [UpWidth-1:0]            read_data_o,
  output logic                          rsp_valid_o,
  input  logic                          rsp_ready_i,
  output rsp_t                          rsp_o
);
  localparam int unsigned CountBits = $clog2(SlotBlocks + 1);
  localparam int unsigned WordsBits = CountBits + WordsLog2;
  typedef logic [LaneWidth-1:0] lane_t;
  typedef logic [WordsBits-1:0] words_t;

  typedef struct packed {
    lane_t                lane;
    tag_t                 tag;
    logic                 last;
    logic [CountBits-1:0] count;
  } order_t;

  typedef struct packed {
    lane_t   lane;
    tag_t    tag;
    logic    last;
    result_t result;  // a mirror's is known with the last word
  } done_t;

  // --- The order of the pieces ----------------------------------------------------------------
  order_t head;
  lba_t   head_lba;
  logic   head_valid, head_done, lba_free;

  logic order_free;
  assign free_o = order_free & lba_free;

  prim_fifo #(.Width($bits(order_t)), .Depth(Pieces)) u_order (
    .clk_i,
    .rst_ni,
    .valid_i (take_i),
    .ready_o (order_free),
    .data_i  ({lane_i, tag_i, last_i, piece_i.count[CountBits-1:0]}),
    .valid_o (head_valid),
    .ready_i (head_done),
    .data_o  (head)
  );

  // --- Where the head's data come from --------------------------------------------------------
  lane_t   lane;
  logic    source_valid, pad, done_free, word_taken, last_word;
  result_t head_result;
  words_t  index_q;

  if (Mirror) begin : gen_mirror
    typedef enum logic [1:0] {First, Again, Extra, Pad} state_e;
    state_e state_q, state_d;
    logic [Disks-1:0] tried_q, tried_d;
    lane_t   lane_q, lane_d, next_lane;
    logic    next_found;
    result_t result_q, result_d;

    prim_fifo #(.Width(LbaWidth), .Depth(Pieces)) u_lba (
      .clk_i,
      .rst_ni,
      .valid_i (take_i),
      .ready_o (lba_free),
      .data_i  (piece_i.lba),
      .valid_o (),
      .ready_i (head_done),
      .data_o  (head_lba)
    );

    assign lane          = (state_q == First) ? head.lane : lane_q;
    assign extra_o       = (state_q == Again) | (state_q == Extra);
    assign pad           = state_q == Pad;
    assign source_valid  = pad | (valid_i[lane] & (state_q != Again));
    assign again_valid_o = state_q == Again;
    assign again_o       = '{op: OpRead, fua: 1'b0, lba: head_lba, count: count_t'(head.count)};
    assign head_result   = pad ? result_q : ResultOk;

    always_comb begin
      next_lane  = '0;
      next_found = 1'b0;
      for (int unsigned i = 0; i < Disks; i++) begin
        if (!next_found && live_i[i] && !tried_d[i]) begin
          next_lane  = lane_t'(i);
          next_found = 1'b1;
        end
      end
    end

    logic failed;
    assign failed = head_valid & bad_i[lane] & ((state_q == First) | (state_q == Extra));

    assign tried_d = failed ? tried_q | (Disks'(1) << lane) : tried_q;

    always_comb begin
      state_d  = state_q;
      lane_d   = lane_q;
      result_d = result_q;
      unique case (state_q)
        First, Extra: if (failed) begin
          result_d = first_error(result_q, result_i[lane]);
          lane_d   = next_lane;
          state_d  = next_found ? Again : Pad;
        end
        Again: if (again_ready_i) state_d = Extra;
        default: ;
      endcase
      if (head_done) begin
        state_d  = First;
        result_d = ResultOk;
      end
    end

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        state_q  <= First;
        tried_q  <= '0;
        lane_q   <= '0;
        result_q <= ResultOk;
      end else begin
        state_q  <= state_d;
        tried_q  <= head_done ? '0 : tried_d;
        lane_q   <= lane_d;
        result_q <= result_d;
      end
    end

    always_comb begin
      select_o = '0;
      drop_o   = '0;
      retire_o = '0;
      if (head_valid && !pad) begin
        select_o[lane] = 1'b1;
        drop_o[lane]   = failed;
        retire_o[lane] = failed | head_done;
      end
    end
    assign error_o = drop_o;
  end else begin : gen_stripes
    assign lba_free      = 1'b1;
    assign head_lba      = '0;
    assign lane          = head.lane;
    assign select_o      = '1;
    assign extra_o       = 1'b0;
    assign drop_o        = '0;
    assign pad           = 1'b0;
    assign source_valid  = valid_i[lane];
    assign again_valid_o = 1'b0;
    assign again_o       = '{op: OpRead, fua: 1'b0, lba: head_lba, count: '0};
    assign head_result   = ResultOk;
  end

  // --- Data -----------------------------------------------------------------------------------
  assign last_word    = index_q == (words_t'(head.count) << WordsLog2) - words_t'(1);
  assign read_valid_o = head_valid & source_valid & done_free;
  assign read_o       = '{tag: head.tag, last: last_word & head.last};
  assign read_data_o  = pad ? '0 : data_i[lane];
  assign word_taken   = read_valid_o & read_ready_i;
  assign head_done    = word_taken & last_word;

  always_comb begin
    ready_o = '0;
    ready_o[lane] = word_taken & ~pad;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) index_q <= '0;
    else if (word_taken) index_q <= last_word ? '0 : index_q + words_t'(1);
  end

  // --- Results, each after its piece's last word ----------------------------------------------
  done_t   done;
  logic    done_valid, done_taken, result_here;
  result_t worst_q, worst;

  prim_fifo #(.Width($bits(done_t)), .Depth(Pieces)) u_done (
    .clk_i,
    .rst_ni,
    .valid_i (head_done),
    .ready_o (done_free),
    .data_i  ({head.lane, head.tag, head.last, head_result}),
    .valid_o (done_valid),
    .ready_i (done_taken),
    .data_o  (done)
  );

  if (Mirror) begin : gen_result_known
    assign result_here = done_valid;
    assign worst       = first_error(worst_q, done.result);
  end else begin : gen_result_from_lane
    assign result_here = done_valid & result_valid_i[done.lane];
    assign worst       = first_error(worst_q, result_i[done.lane]);
    always_comb begin
      retire_o = '0;
      error_o  = '0;
      retire_o[done.lane] = done_taken;
      error_o[done.lane]  = done_taken & (result_i[done.lane].status != StatusOk);
    end
  end

  assign rsp_valid_o = result_here & done.last;
  assign rsp_o       = '{tag: done.tag, status: worst.status, detail: worst.detail};
  assign done_taken  = result_here & (~done.last | rsp_ready_i);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni)         worst_q <= ResultOk;
    else if (done_taken) worst_q <= done.last ? ResultOk : worst;
  end
endmodule
