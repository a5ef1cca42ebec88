// SPDX-License-Identifier: Apache-2.0 OR MIT
// Parses IDENTIFY DEVICE and the queued error log (ACS-3, 7.12 and 9.13) as their dwords pass.
//
// Owns the geometry. `usable_o`: the drive has 48-bit addresses and blocks of the size that the core was built for.
module sata_identify
  import block_pkg::*;
#(
  parameter int unsigned BlockSizeLog2 = 9
) (
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic        start_i,     // the next word is the first
  input  logic        is_log_i,    // the words are the log's
  input  logic        valid_i,
  input  logic [31:0] word_i,
  output logic        complete_o,  // all 128 dwords were received

  output logic        usable_o,
  output lba_t        block_count_o,
  output logic        cache_o,     // the volatile write cache is enabled
  output logic        fua_o,
  output logic        trim_o,
  output logic        queue_o,     // the queue has 32 entries
  output logic        activate_o,  // the drive supports DMA Setup Auto-Activate
  output logic        log_named_o, // the log names a queued command: its tag, status and error
  output tag_t        log_tag_o,
  output logic [15:0] log_detail_o
);
  logic [7:0] at_q;
  logic has_48_q, size_right_q, big_q, ncq_q;

  assign complete_o = at_q[7];
  assign usable_o   = has_48_q & size_right_q & (block_count_o != '0);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni)       at_q <= '0;
    else if (start_i)  at_q <= '0;
    else if (valid_i && !at_q[7]) at_q <= at_q + 8'd1;
  end

  always_ff @(posedge clk_i) begin
    if (valid_i && is_log_i && (at_q == '0)) begin
      log_named_o  <= ~word_i[7];
      log_tag_o    <= word_i[4:0];
      log_detail_o <= {word_i[31:24], word_i[23:16]};
    end
    if (valid_i && !is_log_i) begin
      unique case (at_q)
        8'd37: queue_o <= word_i[20:16] == 5'd31;                                   // word 75
        8'd38: ncq_q <= word_i[8];                                                  // 76
        8'd39: activate_o <= word_i[2];                                             // 78
        8'd41: has_48_q <= word_i[26];                                              // 83
        8'd42: cache_o <= word_i[21];                                               // 85
        8'd43: fua_o <= word_i[22];                                                 // 87
        8'd50: block_count_o[31:0] <= word_i;                                       // 100, 101
        8'd51: block_count_o[47:32] <= word_i[15:0];
        8'd53: begin                                                                // 106
          big_q        <= (word_i[15:14] == 2'b01) & word_i[12];
          size_right_q <= ((word_i[15:14] == 2'b01) & word_i[12]) ? BlockSizeLog2 != 9 : BlockSizeLog2 == 9;
        end
        8'd58: if (big_q) size_right_q <= word_i[31:16] == 16'(1 << (BlockSizeLog2 - 1));  // 117: in words
        8'd84: trim_o <= word_i[16];                                                // 169
        default: ;
      endcase
      if (at_q == 8'd39) queue_o <= queue_o & ncq_q;
    end
  end
endmodule
