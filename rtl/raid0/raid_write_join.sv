// SPDX-License-Identifier: Apache-2.0 OR MIT
// Hands the array's write data to the lanes, in the order of the pieces, and joins the results of
// writes, flushes and discards into the responses.
//
// Owns the order of these pieces. A piece may be for several lanes (a flush; a mirror's write). In
// an array without mirrors any error is the request's error. A mirror's request fails only when no disk
// completed it; a disk that failed a request that another completed is stale, and `fail_o` is high in the cycle of the
// result, so the array stops using it before the host learns that its data are safe.
//
// Disks, WordsLog2 (UpWidth words in a block), PieceBlocks (the longest piece), Pieces (outstanding pieces, at most)
module raid_write_join
  import block_pkg::*;
  import raid_pkg::*;
#(
  parameter int unsigned Disks       = 2,
  parameter int unsigned WordsLog2   = 7,
  parameter int unsigned PieceBlocks = 8,
  parameter int unsigned Pieces      = 8,
  parameter bit          Mirror      = 1'b0
) (
  input  logic                clk_i,
  input  logic                rst_ni,

  // A piece has been given to these lanes.
  output logic                free_o,
  input  logic                take_i,
  input  piece_t              piece_i,
  input  logic [Disks-1:0]    lanes_i,
  input  tag_t                tag_i,
  input  logic                last_i,

  // The array's write data; the lanes' see the same words.
  input  logic                write_valid_i,
  output logic                write_ready_o,
  output logic [Disks-1:0]    valid_o,
  input  logic [Disks-1:0]    ready_i,

  // The lanes' results, the array's responses.
  input  logic [Disks-1:0]    result_valid_i,
  input  result_t [Disks-1:0] result_i,
  output logic [Disks-1:0]    retire_o,
  output logic [Disks-1:0]    error_o,  // this lane's disk failed now
  output logic [Disks-1:0]    fail_o,   // and it is stale
  input  logic [Disks-1:0]    failed_i, // stale already: its good results prove nothing
  output logic                rsp_valid_o,
  input  logic                rsp_ready_i,
  output rsp_t                rsp_o
);
  localparam int unsigned CountBits = $clog2(PieceBlocks + 1);
  localparam int unsigned WordsBits = CountBits + WordsLog2;
  typedef logic [WordsBits-1:0] words_t;

  // --- Data -----------------------------------------------------------------------------------
  logic route_free, route_valid, all_ready, word_taken, last_word, result_free;
  logic [Disks-1:0] route_lanes;
  logic [CountBits-1:0] route_count;
  words_t index_q;

  assign free_o = route_free & result_free;

  prim_fifo #(.Width(Disks + CountBits), .Depth(Pieces)) u_route (
    .clk_i,
    .rst_ni,
    .valid_i (take_i & (piece_i.op == OpWrite)),
    .ready_o (route_free),
    .data_i  ({lanes_i, piece_i.count[CountBits-1:0]}),
    .valid_o (route_valid),
    .ready_i (word_taken & last_word),
    .data_o  ({route_lanes, route_count})
  );

  assign all_ready     = &(ready_i | ~route_lanes);
  assign write_ready_o = route_valid & all_ready;
  assign word_taken    = write_valid_i & write_ready_o;
  assign valid_o       = word_taken ? route_lanes : '0;
  assign last_word     = index_q == (words_t'(route_count) << WordsLog2) - words_t'(1);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) index_q <= '0;
    else if (word_taken) index_q <= last_word ? '0 : index_q + words_t'(1);
  end

  // --- Results --------------------------------------------------------------------------------
  logic done_valid, done_taken, done_write, done_last, done_data, here, any_good;
  logic [Disks-1:0] done_lanes, bad;
  tag_t done_tag;
  result_t joined, worst, worst_q;

  prim_fifo #(.Width(1 + Disks + TagWidth + 1), .Depth(Pieces)) u_result (
    .clk_i,
    .rst_ni,
    .valid_i (take_i),
    .ready_o (result_free),
    .data_i  ({piece_i.op == OpWrite, lanes_i, tag_i, last_i}),
    .valid_o (done_valid),
    .ready_i (done_taken),
    .data_o  ({done_write, done_lanes, done_tag, done_last})
  );

  always_comb begin
    joined = ResultOk;
    for (int unsigned i = 0; i < Disks; i++) begin
      bad[i] = done_lanes[i] & (result_i[i].status != StatusOk);
      if (done_lanes[i]) joined = first_error(joined, result_i[i]);
    end
    any_good = |(done_lanes & ~bad & ~failed_i);
    if (Mirror && any_good) joined = ResultOk;
    // All disks left before this piece was given to any.
    if (Mirror && (done_lanes == '0)) joined = '{status: StatusGone, detail: '0};
  end

  // No lane ends a mirror's write that was given to none: its data are taken first (B7).
  if (Mirror) begin : gen_data_taken
    logic [$clog2(Pieces+1)-1:0] taken_q;  // writes whose data were taken and whose result was not
    logic ends, retires;
    assign ends      = word_taken & last_word;
    assign retires   = done_taken & done_write;
    assign done_data = ~done_write | (taken_q != '0);
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) taken_q <= '0;
      else if (ends != retires) taken_q <= ends ? taken_q + 1'b1 : taken_q - 1'b1;
    end
  end else begin : gen_data_taken_by_disk
    logic unused_write;
    assign unused_write = done_write;
    assign done_data    = 1'b1;
  end

  assign here        = done_valid & done_data & (&(result_valid_i | ~done_lanes));
  assign worst       = first_error(worst_q, joined);
  assign rsp_valid_o = here & done_last;
  assign rsp_o       = '{tag: done_tag, status: worst.status, detail: worst.detail};
  assign done_taken  = here & (~done_last | rsp_ready_i);
  assign retire_o    = done_taken ? done_lanes : '0;
  assign error_o     = done_taken ? bad : '0;
  assign fail_o      = (Mirror && any_good) ? error_o : '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni)         worst_q <= ResultOk;
    else if (done_taken) worst_q <= done_last ? ResultOk : worst;
  end
endmodule
