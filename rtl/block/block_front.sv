// SPDX-License-Identifier: Apache-2.0 OR MIT
// The gate in front of a device: every request that passes is legal for the device's geometry, so the
// device need not check. An illegal request is answered here: its write data are taken, its read data are
// zeroes, exactly as many words as requested (rule B6), and its status follows.
//
// Owns at most one refused request at a time; a second waits. Adds no latency to legal requests. Limits
// the number of writes whose data are incomplete to `OpenWrites`.
//
// DataWidth      bits of the data streams
// BlockSizeLog2  log2 of a block's bytes
// OpenWrites     writes accepted ahead of their data
module block_front
  import block_pkg::*;
#(
  parameter int unsigned DataWidth     = 32,
  parameter int unsigned BlockSizeLog2 = 9,
  parameter int unsigned OpenWrites    = 8
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  geometry_t            geometry_i,

  input  host_t                host_i,
  input  logic [DataWidth-1:0] write_data_i,
  output dev_t                 dev_o,
  output logic [DataWidth-1:0] read_data_o,

  output host_t                host_o,
  output logic [DataWidth-1:0] write_data_o,
  input  dev_t                 dev_i,
  input  logic [DataWidth-1:0] read_data_i
);
  // What the parameters must be.
  if ((DataWidth < 8) || (DataWidth > 1024) || ((DataWidth & (DataWidth - 1)) != 0)) begin : gen_bad_data_width
    $error("DataWidth is %0d: a power of two from 8 to 1024", DataWidth);
  end
  if ((BlockSizeLog2 < ($clog2(DataWidth / 8))) || (BlockSizeLog2 > 16)) begin : gen_bad_block_size_log2
    $error("BlockSizeLog2 is %0d: at least one word, to 16", BlockSizeLog2);
  end
  if (OpenWrites < 1) begin : gen_bad_open_writes
    $error("OpenWrites is %0d: 1 or more", OpenWrites);
  end

  localparam int unsigned WordsLog2  = BlockSizeLog2 - $clog2(DataWidth / 8);
  localparam int unsigned WordsWidth = CountWidth + WordsLog2;

  typedef enum logic [1:0] {Idle, PadRead, SinkWrite, Respond} state_e;

  state_e state_q, state_d;
  rsp_t   rsp_q, rsp_d;
  logic [WordsWidth-1:0] words_q, words_d;

  // Requests: legal ones pass, others are taken here when no other refused one is in progress.
  status_e status;
  logic legal, is_write, order_ready, accept, refuse;

  assign status   = check(host_i.req, geometry_i);
  assign legal    = status == StatusOk;
  assign is_write = (host_i.req.op == OpWrite) && (host_i.req.count != '0);

  // The order of the writes: a legal one's data pass, a refused one's are taken here.
  logic order_valid, order_refused, write_done;

  prim_fifo #(.Width(1), .Depth(OpenWrites)) u_order (
    .clk_i,
    .rst_ni,
    .valid_i (accept & is_write),
    .ready_o (order_ready),
    .data_i  (~legal),
    .valid_o (order_valid),
    .ready_i (write_done),
    .data_o  (order_refused)
  );

  // Read data: a transfer is not interrupted, and an offer is not taken back.
  logic pad, pad_held_q, read_held_q;
  assign pad = (state_q == PadRead) & (pad_held_q | ~read_held_q);

  // Response: an offer is not taken back, either.
  logic own, own_held_q, rsp_held_q;
  assign own = (state_q == Respond) & (own_held_q | ~rsp_held_q);

  logic room, pass_write, sink_write;
  assign room       = ~is_write | order_ready;
  assign pass_write = order_valid & ~order_refused;
  assign sink_write = order_valid & order_refused & (state_q == SinkWrite);

  always_comb begin
    host_o             = host_i;
    host_o.req_valid   = host_i.req_valid & legal & room;
    host_o.write_valid = host_i.write_valid & pass_write;
    host_o.read_ready  = host_i.read_ready & ~pad;
    host_o.rsp_ready   = host_i.rsp_ready & ~own;

    dev_o             = dev_i;
    dev_o.req_ready   = room & (legal ? dev_i.req_ready : (state_q == Idle));
    dev_o.write_ready = sink_write | (pass_write & dev_i.write_ready);
    if (pad) begin
      dev_o.read_valid = 1'b1;
      dev_o.read       = '{tag: rsp_q.tag, last: words_q == WordsWidth'(1)};
    end
    if (own) begin
      dev_o.rsp_valid = 1'b1;
      dev_o.rsp       = rsp_q;
    end
  end

  assign write_data_o = write_data_i;
  assign read_data_o  = pad ? '0 : read_data_i;
  assign accept       = host_i.req_valid & dev_o.req_ready;
  assign refuse       = accept & ~legal;
  assign write_done   = host_i.write_valid & dev_o.write_ready & host_i.write.last;

  always_comb begin
    state_d = state_q;
    rsp_d   = rsp_q;
    words_d = words_q;
    unique case (state_q)
      Idle: if (refuse) begin
        rsp_d   = '{tag: host_i.req.tag, status: status, detail: '0};
        words_d = WordsWidth'(host_i.req.count) << WordsLog2;
        state_d = Respond;
        if (moves_data(host_i.req)) state_d = is_write ? SinkWrite : PadRead;
      end
      PadRead: if (pad && host_i.read_ready) begin
        words_d = words_q - WordsWidth'(1);
        if (dev_o.read.last) state_d = Respond;
      end
      SinkWrite: if (sink_write && write_done) state_d = Respond;
      Respond: if (own && host_i.rsp_ready) state_d = Idle;
      default: state_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q     <= Idle;
      pad_held_q  <= 1'b0;
      read_held_q <= 1'b0;
      own_held_q  <= 1'b0;
      rsp_held_q  <= 1'b0;
    end else begin
      state_q     <= state_d;
      pad_held_q  <= pad & ~(host_i.read_ready & dev_o.read.last);
      if (!pad && dev_i.read_valid) read_held_q <= ~(host_i.read_ready & dev_i.read.last);
      own_held_q  <= own & ~host_i.rsp_ready;
      rsp_held_q  <= ~own & dev_i.rsp_valid & ~host_i.rsp_ready;
    end
  end

  always_ff @(posedge clk_i) begin
    rsp_q   <= rsp_d;
    words_q <= words_d;
  end
endmodule
