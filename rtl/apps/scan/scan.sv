// SPDX-License-Identifier: Apache-2.0 OR MIT
// An accelerator that reads storage as memory: loads a range of the window of `smmu`, counts the words that equal a key, keeps
// the place of the first one, and sums all words. ../README.md has the registers.
//
// Loads are bursts of 16 words, as many under way as the window takes. A load that is refused does not end the run: its words
// are counted as errors, and are in no other result.
//
// Context  whose pages it reads: wired, so that no software of the accelerator can choose another
module scan
  import smmu_pkg::*;
#(
  parameter context_t Context = '0
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  axil_pkg::manager_t     axil_i,
  output axil_pkg::subordinate_t axil_o,
  output logic                   irq_o,

  output master_t                window_o,
  input  window_t                window_i,
  input  logic [31:0]            read_data_i
);
  import axi_pkg::address_t;
  localparam int unsigned BurstLog2 = 4;
  localparam logic [31:0] Id = 32'h5343_414e;  // "SCAN"
  typedef enum logic [9:0] {  // byte address divided by 4
    RegId = 10'h000, RegControl = 10'h001, RegStatus = 10'h002, RegKey = 10'h003, RegLow = 10'h004, RegHigh = 10'h005,
    RegWords = 10'h006, RegMatches = 10'h008, RegFirst = 10'h009, RegSum = 10'h00a, RegErrors = 10'h00b, RegCycles = 10'h00c
  } reg_e;

  logic        write, write_error, read_error;
  logic [9:0]  write_word, read_word;
  logic [31:0] data, value;
  axil_port u_port (
    .clk_i, .rst_ni, .axil_i, .axil_o, .write_o(write), .write_word_o(write_word), .write_data_o(data),
    .write_error_i(write_error), .read_o(), .read_word_o(read_word), .read_data_i(value), .read_error_i(read_error)
  );

  logic        busy_q, done_q, irq_enable_q, accept, start, asked, word, last, good;
  address_t    from_q, next_q;
  logic [31:0] words_q, left_q, index_q, key_q, matches_q, first_q, sum_q, errors_q, cycles_q;

  always_comb begin
    unique case (write_word)
      RegControl: write_error = data[0] & (busy_q | (words_q == '0));
      RegKey:     write_error = busy_q;
      RegLow:     write_error = busy_q | (data[BurstLog2+1:0] != '0);
      RegHigh:    write_error = busy_q | (data[31:16] != '0);
      RegWords:   write_error = busy_q | (data[BurstLog2-1:0] != '0);
      default:    write_error = 1'b1;
    endcase
  end
  assign accept = write & ~write_error;
  assign start  = accept & (write_word == RegControl) & data[0];
  assign irq_o  = irq_enable_q & done_q;

  // --- Loads -----------------------------------------------------------------------------------------
  always_comb begin
    window_o            = '0;
    window_o.b_ready    = 1'b1;
    window_o.ar_valid   = left_q != '0;
    window_o.ar_context = Context;
    window_o.ar         = '{address: next_q, len: 8'((1 << BurstLog2) - 1), size: 3'd2, burst: BurstIncr};
    window_o.r_ready    = 1'b1;
  end
  assign asked = window_o.ar_valid & window_i.ar_ready;
  assign word  = window_i.r_valid;
  assign good  = ~window_i.r_resp[1];
  assign last  = index_q == (words_q - 32'd1);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {busy_q, done_q, irq_enable_q, words_q, left_q} <= '0;
    end else begin
      if (accept && (write_word == RegControl)) irq_enable_q <= data[1];
      if (accept && (write_word == RegWords)) words_q <= data;
      if (asked) left_q <= left_q - 32'd1;
      if (word && last) {busy_q, done_q} <= 2'b01;
      if (start) {busy_q, done_q, left_q} <= {2'b10, words_q >> BurstLog2};
    end
  end
  always_ff @(posedge clk_i) begin
    if (accept && (write_word == RegKey))  key_q         <= data;
    if (accept && (write_word == RegLow))  from_q[31:0]  <= data;
    if (accept && (write_word == RegHigh)) from_q[47:32] <= data[15:0];
    if (asked) next_q <= next_q + address_t'(4 << BurstLog2);
    if (busy_q) cycles_q <= cycles_q + 32'd1;
    if (word) begin
      index_q <= index_q + 32'd1;
      if (!good) errors_q <= errors_q + 32'd1;
      if (good) sum_q <= sum_q + read_data_i;
      if (good && (read_data_i == key_q)) begin
        matches_q <= matches_q + 32'd1;
        if (matches_q == '0) first_q <= index_q;
      end
    end
    if (start) begin
      next_q  <= from_q;
      first_q <= '1;
      {index_q, matches_q, sum_q, errors_q, cycles_q} <= '0;
    end
  end

  // --- Reads of registers ----------------------------------------------------------------------------
  always_comb begin
    read_error = 1'b0;
    unique case (read_word)
      RegId:      value = Id;
      RegControl: value = 32'({irq_enable_q, 1'b0});
      RegStatus:  value = 32'({done_q, busy_q});
      RegKey:     value = key_q;
      RegLow:     value = from_q[31:0];
      RegHigh:    value = 32'(from_q[47:32]);
      RegWords:   value = words_q;
      RegMatches: value = matches_q;
      RegFirst:   value = first_q;
      RegSum:     value = sum_q;
      RegErrors:  value = errors_q;
      RegCycles:  value = cycles_q;
      default:    {read_error, value} = {1'b1, 32'd0};
    endcase
  end
endmodule
