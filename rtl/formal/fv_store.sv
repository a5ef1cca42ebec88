// SPDX-License-Identifier: Apache-2.0 OR MIT
// hwfs_store: for any offset, length and pauses, the device gets whole blocks in which the requested bytes are those of
// the application, in order, and all others those of memory (in the first block) or zero (in later blocks); each word
// once, `last` on the last one, and an offer stays until it is taken.
//
// Byte p of the application's stream is p; byte p of memory is p with bit 7 set. A row of memory is on view for the cycle after it is
// read: then another reader may have the port.
module fv_store
  import block_pkg::*;
  import hwfs_pkg::*;
(
  input logic       clk_i,
  input logic       rst_ni,
  input logic [3:0] offset_i,
  input logic [3:0] length_i,
  input logic       head_i,
  input logic       data_valid_i,
  input logic       write_ready_i,
  input logic [63:0] other_i
);
  localparam int unsigned Bytes = 4;
  logic [2:0] step_q;  // edges, writeto, put, send, then the data
  logic       started_q;
  logic [3:0] offset_q;
  logic [3:0] length_q;
  logic       head_q, blocks;
  logic [4:0] word_q, given_q;  // words sent, words taken from the application
  logic       idle, data_ready, ram_read, write_valid;
  logic [5:3] ram_row;
  logic [63:0] ram_data_q;
  logic        ram_read_q;
  beat_t       write;
  logic [31:0] write_data, data;
  do_t  task_now;
  req_t request;

  assign data   = {1'b0, given_q, 2'd3, 1'b0, given_q, 2'd2, 1'b0, given_q, 2'd1, 1'b0, given_q, 2'd0};
  // Two blocks of 16 bytes if one is not enough.
  assign blocks = 5'(offset_q) + 5'(length_q) > 5'd16;

  always_comb begin
    task_now = '{unit: DoEdges, imm: '0, a: '0, b: '0};
    if (step_q == 3'd1) begin
      task_now = '{unit: DoWriteTo, imm: '0, a: 64'(offset_i), b: 64'(length_i)};
      task_now.imm[DoHead] = head_i;
    end
    if (step_q == 3'd2) task_now.unit = DoPut;
    request       = '0;
    request.op    = OpWrite;
    request.tag   = tag_t'(17);
    request.count = blocks ? count_t'(2) : count_t'(1);
  end

  hwfs_store #(.DataWidth(32), .AddressBits(6), .BlockSizeLog2(4)) dut (
    .clk_i, .rst_ni, .do_valid_i(rst_ni & (step_q < 3'd3)), .do_i(task_now), .abort_i(1'b0),
    .send_i(rst_ni & (step_q == 3'd3)), .req_i(request), .idle_o(idle),
    .node_bytes_i(16'd32), .data_valid_i, .data_ready_o(data_ready), .data_i(data), .ram_read_o(ram_read),
    .ram_row_o(ram_row), .ram_data_i(ram_read_q ? ram_data_q : other_i), .write_valid_o(write_valid), .write_o(write),
    .write_data_o(write_data), .write_ready_i
  );

  logic waits_q;
  logic [31:0] data_q;
  beat_t beat_q;
  initial started_q = 1'b0;

  // For each byte of the word: its source, and whether it differs from that.
  logic [3:0] given, kept, wrong;
  for (genvar i = 0; i < Bytes; i++) begin : gen_right
    logic [7:0] place, right;
    assign place    = 8'(word_q) * 8'(Bytes) + 8'(i);
    assign given[i] = (place >= 8'(offset_q)) & (place < 8'(offset_q) + 8'(length_q));
    assign kept[i]  = ~given[i] & head_q & (word_q < 5'd4);
    assign right    = given[i] ? place - 8'(offset_q) : (kept[i] ? 8'h80 | place : 8'h0);
    assign wrong[i] = write_data[8*i+:8] != right;
  end

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    ram_read_q <= ram_read;
    if (ram_read) begin
      for (int unsigned i = 0; i < 8; i++) ram_data_q[8*i+:8] <= {2'b10, ram_row, 3'(i)};
    end
    if (!rst_ni) begin
      step_q  <= '0;
      word_q  <= '0;
      given_q <= '0;
      waits_q <= 1'b0;
    end else begin
      if (step_q != 3'd4) step_q <= step_q + 3'd1;
      if (step_q == 3'd1) begin
        assume (length_i != '0);
        offset_q <= offset_i;
        length_q <= length_i;
        head_q   <= head_i;
      end
      waits_q <= write_valid & ~write_ready_i;
      data_q  <= write_data;
      beat_q  <= write;
      if (waits_q) begin
        // The application's offers stay until they are taken, so those of the core must, too.
        a_stays: assert (!data_valid_i || (write_valid && (write_data == data_q) && (write == beat_q)));
      end
      if (write_valid && write_ready_i) begin
        a_begun: assert (step_q == 3'd4);
        a_word: assert (word_q < (blocks ? 5'd8 : 5'd4));
        a_last: assert (write.last == (word_q == (blocks ? 5'd7 : 5'd3)));
        a_tag: assert (write.tag == tag_t'(17));
        a_given: assert ((wrong & given) == '0);
        a_kept: assert ((wrong & kept) == '0);
        a_zero: assert ((wrong & ~given & ~kept) == '0);
        word_q <= word_q + 5'd1;
      end
      if (data_valid_i && data_ready) given_q <= given_q + 5'd1;
      // Takes exactly the words of the application that contain the requested bytes.
      a_taken: assert (7'(given_q) * 7'(Bytes) < 7'(length_q) + 7'(Bytes) || (step_q != 3'd4));
      if ((step_q == 3'd4) && idle && (word_q != '0)) begin
        a_whole: assert (word_q == (blocks ? 5'd8 : 5'd4));
      end
    end
  end
endmodule
