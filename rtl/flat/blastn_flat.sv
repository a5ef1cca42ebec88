// SPDX-License-Identifier: Apache-2.0 OR MIT
// A search for nucleotide sequences in a stream, with plain ports. blastn has the meaning of parameters and ports. Written by
// rtl/flat.py; do not edit.
module blastn_flat #(
  parameter int unsigned EntriesLog2 = 12,
  parameter int unsigned BucketLog2 = 12,
  parameter int unsigned HitsLog2 = 9,
  parameter int unsigned MaskLog2 = 9,
  parameter int unsigned Candidates = 32,
  parameter int unsigned DiagonalsLog2 = 0
) (
  input  logic        aclk,
  input  logic        aresetn,
  input  logic        s_axi_awvalid,
  input  logic [11:0] s_axi_awaddr,
  input  logic        s_axi_wvalid,
  input  logic [31:0] s_axi_wdata,
  input  logic [3:0]  s_axi_wstrb,
  input  logic        s_axi_bready,
  input  logic        s_axi_arvalid,
  input  logic [11:0] s_axi_araddr,
  input  logic        s_axi_rready,
  output logic        s_axi_awready,
  output logic        s_axi_wready,
  output logic        s_axi_bvalid,
  output logic [1:0]  s_axi_bresp,
  output logic        s_axi_arready,
  output logic        s_axi_rvalid,
  output logic [31:0] s_axi_rdata,
  output logic [1:0]  s_axi_rresp,
  input  logic        s_axis_tvalid,
  output logic        s_axis_tready,
  input  logic [31:0] s_axis_tdata,
  input  logic [3:0]  s_axis_tkeep,
  input  logic        s_axis_tlast
);
  blastn #(.EntriesLog2(EntriesLog2), .BucketLog2(BucketLog2), .HitsLog2(HitsLog2), .MaskLog2(MaskLog2), .Candidates(Candidates),
    .DiagonalsLog2(DiagonalsLog2)) u_blastn (
    .clk_i(aclk),
    .rst_ni(aresetn),
    .axil_i({s_axi_awvalid, s_axi_awaddr, s_axi_wvalid, s_axi_wdata, s_axi_wstrb, s_axi_bready, s_axi_arvalid, s_axi_araddr,
      s_axi_rready}),
    .axil_o({s_axi_awready, s_axi_wready, s_axi_bvalid, s_axi_bresp, s_axi_arready, s_axi_rvalid, s_axi_rdata, s_axi_rresp}),
    .valid_i(s_axis_tvalid),
    .ready_o(s_axis_tready),
    .data_i(s_axis_tdata),
    .keep_i(s_axis_tkeep),
    .last_i(s_axis_tlast)
  );
endmodule
