// SPDX-License-Identifier: Apache-2.0 OR MIT
// A streaming port for designs that use one transfer at a time: a command, its words as a stream, a status. A thin
// wrapper over the block interface: it is the host of `sata` or `sata_host` (or of any device of this width).
//
// Each command is one request with tag 0, so the drive's queue is not used. The write stream is framed: `last` marks
// the command's last word.
//   `last` too early   the command is cancelled, its other words are zeroes: Aborted, or the drive's own status
//   `last` too late    the extra words are dropped up to `last`; the status follows
// Both raise `status_framing_o`. Words are taken whatever the status (rule B6), so the user never has to drain a stream.
//
// DataWidth      bits of a word
// BlockSizeLog2  log2 of a block's bytes; must be that of the device
module sata_stream
  import block_pkg::*;
#(
  parameter int unsigned DataWidth     = 32,
  parameter int unsigned BlockSizeLog2 = 9
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  input  logic                 cmd_valid_i,
  output logic                 cmd_ready_o,
  input  op_e                  cmd_op_i,
  input  lba_t                 cmd_lba_i,
  input  count_t               cmd_count_i,  // in blocks; zero for a flush

  input  logic                 write_valid_i,
  output logic                 write_ready_o,
  input  logic                 write_last_i,
  input  logic [DataWidth-1:0] write_data_i,

  output logic                 read_valid_o,
  input  logic                 read_ready_i,
  output logic                 read_last_o,
  output logic [DataWidth-1:0] read_data_o,

  output logic                 status_valid_o,  // once per command, after its last word
  input  logic                 status_ready_i,
  output status_e              status_o,
  output logic [15:0]          status_detail_o,
  output logic                 status_framing_o,  // the write stream's `last` was not with the command's last word

  output host_t                host_o,
  output logic [DataWidth-1:0] write_data_o,
  input  dev_t                 dev_i,
  input  logic [DataWidth-1:0] read_data_i
);
  // What the parameters must be.
  if ((DataWidth < 32) || (DataWidth > 256) || ((DataWidth & (DataWidth - 1)) != 0)) begin : gen_bad_data_width
    $error("DataWidth is %0d: a power of two from 32 to 256", DataWidth);
  end
  if ((BlockSizeLog2 < 6) || (BlockSizeLog2 > 16)) begin : gen_bad_block_size_log2
    $error("BlockSizeLog2 is %0d: 6 to 16", BlockSizeLog2);
  end

  localparam int unsigned WordsLog2  = BlockSizeLog2 - $clog2(DataWidth / 8);
  localparam int unsigned WordsWidth = CountWidth + WordsLog2;
  typedef logic [WordsWidth-1:0] words_t;

  // Pad: the write stream ended early. Drop: it continues after the command's last word.
  typedef enum logic [2:0] {Idle, Write, Pad, Drop, Wait} state_e;

  state_e state_q, state_d;
  words_t words_q, words_d;  // words of the write that the device has not taken
  logic   short_q, short_d, long_q, long_d;
  req_t   req;
  logic   give, last;

  assign req  = '{op: cmd_op_i, fua: 1'b0, tag: '0, lba: cmd_lba_i, count: cmd_count_i};
  assign last = words_q == words_t'(1);
  assign give = ((state_q == Write) & write_valid_i) | (state_q == Pad);

  assign host_o = '{
    req_valid:   (state_q == Idle) & cmd_valid_i,
    req:         req,
    write_valid: give,
    write:       '{tag: '0, last: last},
    read_ready:  read_ready_i,
    rsp_ready:   (state_q == Wait) & status_ready_i,
    cancel:      short_q
  };
  assign write_data_o  = (state_q == Pad) ? '0 : write_data_i;
  assign cmd_ready_o   = (state_q == Idle) & dev_i.req_ready;
  assign write_ready_o = (state_q == Drop) | ((state_q == Write) & dev_i.write_ready);

  assign read_valid_o = dev_i.read_valid;
  assign read_last_o  = dev_i.read.last;
  assign read_data_o  = read_data_i;

  assign status_valid_o   = (state_q == Wait) & dev_i.rsp_valid;
  assign status_o         = dev_i.rsp.status;
  assign status_detail_o  = dev_i.rsp.detail;
  assign status_framing_o = short_q | long_q;

  always_comb begin
    state_d = state_q;
    words_d = words_q;
    short_d = short_q;
    long_d  = long_q;
    if (give && dev_i.write_ready) words_d = words_q - words_t'(1);
    unique case (state_q)
      Idle: if (cmd_valid_i && dev_i.req_ready) begin
        words_d = words_t'(cmd_count_i) << WordsLog2;
        state_d = ((cmd_op_i == OpWrite) && moves_data(req)) ? Write : Wait;
      end
      Write: if (write_valid_i && dev_i.write_ready) begin
        short_d = write_last_i & ~last;
        long_d  = ~write_last_i & last;
        if (last) state_d = write_last_i ? Wait : Drop;
        else if (write_last_i) state_d = Pad;
      end
      Pad: if (dev_i.write_ready && last) state_d = Wait;
      Drop: if (write_valid_i && write_last_i) state_d = Wait;
      Wait: if (status_valid_o && status_ready_i) begin
        short_d = 1'b0;
        long_d  = 1'b0;
        state_d = Idle;
      end
      default: state_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      short_q <= 1'b0;
      long_q  <= 1'b0;
    end else begin
      state_q <= state_d;
      short_q <= short_d;
      long_q  <= long_d;
    end
  end

  always_ff @(posedge clk_i) words_q <= words_d;

  // The tag is always 0.
  logic unused;
  assign unused = ^{dev_i.read.tag, dev_i.rsp.tag};
endmodule
