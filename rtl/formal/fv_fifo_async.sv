// SPDX-License-Identifier: Apache-2.0 OR MIT
// prim_fifo_async with two unrelated clocks: each word that is written leaves once, in order and
// unchanged.
module fv_fifo_async #(
  parameter int unsigned Width = 2,
  parameter int unsigned Depth = 4
) (
  input logic             write_clk_i,
  input logic             read_clk_i,
  input logic             rst_ni,
  input logic             write_valid_i,
  input logic [Width-1:0] write_data_i,
  input logic             read_ready_i,
  input logic             mark_i
);
  logic write_ready_o, read_valid_o;
  logic [Width-1:0] read_data_o;

  prim_fifo_async #(.Width(Width), .Depth(Depth)) dut (
    .write_rst_ni (rst_ni),
    .read_rst_ni  (rst_ni),
    .*
  );

  // Numbers of the words written and read so far; the marked word's number and value.
  logic [4:0] written_q, read_q, number_q;
  logic marked_q;
  logic [Width-1:0] word_q;

  always_ff @(posedge write_clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      written_q <= '0;
      marked_q  <= 1'b0;
    end else begin
      if (write_valid_i && write_ready_o) begin
        written_q <= written_q + 5'd1;
        if (mark_i && !marked_q) begin
          marked_q <= 1'b1;
          number_q <= written_q;
          word_q   <= write_data_i;
        end
      end
      a_full: assert (!write_ready_o || (5'(written_q - read_q) < 5'(Depth)));
    end
  end

  always_ff @(posedge read_clk_i or negedge rst_ni) begin
    if (!rst_ni) read_q <= '0;
    else begin
      if (read_valid_o && read_ready_i) read_q <= read_q + 5'd1;
      a_empty: assert (!read_valid_o || (written_q != read_q));
      if (read_valid_o && marked_q && (number_q == read_q)) a_word: assert (read_data_o == word_q);
    end
  end

  // In reset before the first edge, not after.
  logic started_q;
  initial started_q = 1'b0;
  always_ff @(posedge write_clk_i) started_q <= 1'b1;
  always_comb assume (rst_ni == started_q);
endmodule
