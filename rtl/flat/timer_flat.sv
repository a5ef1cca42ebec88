// SPDX-License-Identifier: Apache-2.0 OR MIT
// A profiling timer, with plain ports. timer has the meaning of parameters and ports. Written by rtl/flat.py; do not edit.
module timer_flat #(
  parameter int unsigned Lines = 4,
  parameter int unsigned DepthLog2 = 16,
  parameter int unsigned Groups = 8,
  parameter bit          Stream = 1'b0,
  parameter int unsigned Width = 32
) (
  input  logic               aclk,
  input  logic               aresetn,
  input  logic               s_axi_awvalid,
  input  logic [11:0]        s_axi_awaddr,
  input  logic               s_axi_wvalid,
  input  logic [31:0]        s_axi_wdata,
  input  logic [3:0]         s_axi_wstrb,
  input  logic               s_axi_bready,
  input  logic               s_axi_arvalid,
  input  logic [11:0]        s_axi_araddr,
  input  logic               s_axi_rready,
  output logic               s_axi_awready,
  output logic               s_axi_wready,
  output logic               s_axi_bvalid,
  output logic [1:0]         s_axi_bresp,
  output logic               s_axi_arready,
  output logic               s_axi_rvalid,
  output logic [31:0]        s_axi_rdata,
  output logic [1:0]         s_axi_rresp,
  input  logic [Lines-1:0]   lines,
  input  logic               trigger,
  output logic               m_axi_awvalid,
  output logic [47:0]        m_axi_awaddr,
  output logic [7:0]         m_axi_awlen,
  output logic [2:0]         m_axi_awsize,
  output logic               m_axi_wvalid,
  output logic               m_axi_wlast,
  output logic               m_axi_bready,
  output logic               m_axi_arvalid,
  output logic [47:0]        m_axi_araddr,
  output logic [7:0]         m_axi_arlen,
  output logic [2:0]         m_axi_arsize,
  output logic               m_axi_rready,
  output logic [Width-1:0]   m_axi_wdata,
  input  logic               m_axi_awready,
  input  logic               m_axi_wready,
  input  logic               m_axi_bvalid,
  input  logic [1:0]         m_axi_bresp,
  input  logic               m_axi_arready,
  input  logic               m_axi_rvalid,
  input  logic [1:0]         m_axi_rresp,
  input  logic               m_axi_rlast,
  output logic [1:0]         m_axi_awburst,
  output logic [3:0]         m_axi_awcache,
  output logic [2:0]         m_axi_awprot,
  output logic [1:0]         m_axi_arburst,
  output logic [3:0]         m_axi_arcache,
  output logic [2:0]         m_axi_arprot,
  input  logic [Width-1:0]   m_axi_rdata,
  output logic [Width/8-1:0] m_axi_wstrb
);
  assign m_axi_awburst = 2'b01;
  assign m_axi_awcache = 4'b0011;
  assign m_axi_awprot = 3'b000;
  assign m_axi_arburst = 2'b01;
  assign m_axi_arcache = 4'b0011;
  assign m_axi_arprot = 3'b000;
  assign m_axi_wstrb = '1;
  timer #(.Lines(Lines), .DepthLog2(DepthLog2), .Groups(Groups), .Stream(Stream), .Width(Width)) u_timer (
    .clk_i(aclk),
    .rst_ni(aresetn),
    .axil_i({s_axi_awvalid, s_axi_awaddr, s_axi_wvalid, s_axi_wdata, s_axi_wstrb, s_axi_bready, s_axi_arvalid, s_axi_araddr,
      s_axi_rready}),
    .axil_o({s_axi_awready, s_axi_wready, s_axi_bvalid, s_axi_bresp, s_axi_arready, s_axi_rvalid, s_axi_rdata, s_axi_rresp}),
    .lines_i(lines),
    .trigger_i(trigger),
    .axi_o({m_axi_awvalid, m_axi_awaddr, m_axi_awlen, m_axi_awsize, m_axi_wvalid, m_axi_wlast, m_axi_bready, m_axi_arvalid,
      m_axi_araddr, m_axi_arlen, m_axi_arsize, m_axi_rready}),
    .axi_write_data_o(m_axi_wdata),
    .axi_i({m_axi_awready, m_axi_wready, m_axi_bvalid, m_axi_bresp, m_axi_arready, m_axi_rvalid, m_axi_rresp, m_axi_rlast})
  );
endmodule
