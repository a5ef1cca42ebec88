// SPDX-License-Identifier: Apache-2.0 OR MIT
// hwfs_fetch: for any offset, length and pauses, the application gets exactly the requested bytes, in order, with
// `last` on the last word and on no other; an offer stays until it is taken; and the module waits only for words
// that contain these bytes.
//
// Byte p of the device's stream, counted from the start of the first block, is p.
module fv_fetch
  import hwfs_pkg::*;
(
  input logic       clk_i,
  input logic       rst_ni,
  input logic [2:0] offset_i,
  input logic [3:0] length_i,
  input logic       hold_i,
  input logic       read_valid_i,
  input logic       data_ready_i
);
  localparam int unsigned Bytes = 4;
  logic       started_q, running_q, start;
  logic [2:0] offset_q;
  logic [3:0] length_q;
  logic [5:0] word_q;   // words taken from the device
  logic [5:0] given_q;  // bytes that the application has taken
  logic       read_ready, data_valid, data_last, drained;
  logic [31:0] read_data, data;
  logic [3:0]  keep;
  do_t task_now;

  assign read_data = {word_q, 2'd3, word_q, 2'd2, word_q, 2'd1, word_q, 2'd0};
  assign start     = rst_ni & ~running_q;
  assign task_now  = '{unit: DoReadTo, imm: '0, a: 64'(offset_i), b: 64'(length_i)};

  hwfs_fetch #(.DataWidth(32), .BlockSizeLog2(4)) dut (
    .clk_i, .rst_ni, .start_i(start), .emit_i(1'b0), .emit_ready_o(), .do_i(task_now), .abort_i(1'b0),
    .withdraw_i(1'b0), .hold_i, .drained_o(drained), .given_o(), .read_valid_i(read_valid_i & running_q), .read_ready_o(read_ready), .read_data_i(read_data),
    .data_valid_o(data_valid), .data_ready_i, .data_o(data), .data_keep_o(keep), .data_last_o(data_last)
  );

  logic waits_q, last_q, enough;
  logic [1:0] stuck_q;
  assign enough = running_q & (8'(word_q) * 8'(Bytes) >= 8'(offset_q) + 8'(length_q));
  logic [31:0] data_q;
  logic [3:0]  keep_q;
  initial started_q = 1'b0;

  logic [3:0] keep_right, byte_right;
  for (genvar i = 0; i < Bytes; i++) begin : gen_right
    assign keep_right[i] = given_q + 6'(i) < 6'(length_q);
    assign byte_right[i] = ~keep[i] | (data[8*i+:8] == 8'(given_q) + 8'(i) + 8'(offset_q));
  end

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      running_q <= 1'b0;
      word_q    <= '0;
      given_q   <= '0;
      waits_q   <= 1'b0;
      stuck_q   <= '0;
    end else begin
      running_q <= 1'b1;
      if (start) begin
        assume (length_i != '0);
        offset_q <= offset_i;
        length_q <= length_i;
      end
      if (running_q && read_valid_i && read_ready) word_q <= word_q + 6'd1;
      waits_q <= data_valid & ~data_ready_i;
      data_q  <= data;
      keep_q  <= keep;
      last_q  <= data_last;
      if (waits_q) begin
        a_stays: assert (data_valid && (data == data_q) && (keep == keep_q) && (data_last == last_q));
      end
      if (data_valid) begin
        a_wanted: assert (running_q && (given_q < 6'(length_q)));
        a_last: assert (data_last == (given_q + 6'(Bytes) >= 6'(length_q)));
        a_keep: assert (keep == keep_right);
        a_bytes: assert (byte_right == '1);
        if (data_ready_i) given_q <= given_q + 6'(Bytes);
      end
      // No words follow that are not needed, and the module does not wait for them.
      if (enough) begin
        assume (!read_valid_i);
        stuck_q <= (drained || !data_ready_i || hold_i) ? '0 : stuck_q + 2'd1;
        a_goes_on: assert (stuck_q != '1);
      end
      // `drained_o` is high only after all words with requested bytes have been taken.
      if (running_q && drained) begin
        a_drained: assert (8'(word_q) * 8'(Bytes) >= 8'(offset_q) + 8'(length_q));
      end
    end
  end
endmodule
