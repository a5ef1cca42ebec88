// SPDX-License-Identifier: Apache-2.0 OR MIT
// The nucleotide seed scan on plain pins, for cocotb.
module blastn_sim #(
  parameter int unsigned EntriesLog2 = 12,
  parameter int unsigned BucketLog2  = 12,
  parameter int unsigned HitsLog2    = 9,
  parameter int unsigned MaskLog2    = 9,
  parameter int unsigned DiagonalsLog2 = 0
) (
  input  logic        clk_i,
  input  logic        rst_ni,

  `AXIL_PINS,

  input  logic        valid,
  output logic        ready,
  input  logic [31:0] data,
  input  logic [3:0]  keep,
  input  logic        last
);
  axil_pkg::manager_t     to;
  axil_pkg::subordinate_t from;
  `AXIL_JOIN(to, from)

  blastn #(.EntriesLog2(EntriesLog2), .BucketLog2(BucketLog2), .HitsLog2(HitsLog2), .MaskLog2(MaskLog2),
    .DiagonalsLog2(DiagonalsLog2)) u_blastn (
    .clk_i, .rst_ni, .axil_i(to), .axil_o(from), .valid_i(valid), .ready_o(ready), .data_i(data), .keep_i(keep), .last_i(last)
  );
endmodule
