// SPDX-License-Identifier: Apache-2.0 OR MIT
// Splits one transfer into AXI bursts of at most 256 words that do not cross 4 KiB boundaries (ARM IHI
// 0022, A3.4.1). Takes the next transfer in the cycle in which the last burst of this one leaves.
//
// Owns one transfer at a time.
//
// DataWidth      bits of a word
// BlockSizeLog2  log2 of a block's bytes
module ramdisk_bursts
  import block_pkg::*;
#(
  parameter int unsigned DataWidth     = 32,
  parameter int unsigned BlockSizeLog2 = 9
) (
  input  logic              clk_i,
  input  logic              rst_ni,
  input  axi_pkg::address_t base_i,

  input  logic              valid_i,
  output logic              ready_o,
  input  tag_t              tag_i,
  input  logic              zero_i,  // passed on with the bursts
  input  lba_t              lba_i,
  input  count_t            count_i,

  output logic              valid_o,
  input  logic              ready_i,
  output axi_pkg::burst_t   burst_o,
  output tag_t              tag_o,
  output logic              zero_o,
  output logic              last_o  // the last burst of its transfer
);
  localparam int unsigned WordLog2   = $clog2(DataWidth / 8);
  localparam int unsigned WordsLog2  = BlockSizeLog2 - WordLog2;
  localparam int unsigned WordsWidth = CountWidth + WordsLog2;
  // The smaller of the words in a 4 KiB page and 256.
  localparam int unsigned MostLog2   = (12 - WordLog2 < 8) ? 12 - WordLog2 : 8;
  typedef logic [MostLog2:0] few_t;

  logic                  valid_q;
  tag_t                  tag_q;
  logic                  zero_q;
  axi_pkg::address_t     address_q;
  logic [WordsWidth-1:0] words_q;
  few_t                  to_border, now;

  // Each burst starts where the previous one ended, so a boundary of MostLog2 words enforces both limits.
  assign to_border = few_t'(1 << MostLog2) - few_t'(address_q[WordLog2+:MostLog2]);
  assign last_o    = words_q <= WordsWidth'(to_border);
  assign now       = last_o ? few_t'(words_q) : to_border;

  assign valid_o = valid_q;
  assign tag_o   = tag_q;
  assign zero_o  = zero_q;
  assign burst_o = '{address: address_q, len: 8'(now - few_t'(1)), size: 3'(WordLog2)};
  assign ready_o = ~valid_q | (ready_i & last_o);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni)      valid_q <= 1'b0;
    else if (ready_o) valid_q <= valid_i;
  end

  always_ff @(posedge clk_i) begin
    if (ready_o) begin
      tag_q     <= tag_i;
      zero_q    <= zero_i;
      address_q <= base_i + (axi_pkg::address_t'(lba_i) << BlockSizeLog2);
      words_q   <= WordsWidth'(count_i) << WordsLog2;
    end else if (ready_i) begin
      address_q <= address_q + (axi_pkg::address_t'(now) << WordLog2);
      words_q   <= words_q - WordsWidth'(now);
    end
  end
endmodule
