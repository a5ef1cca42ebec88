// SPDX-License-Identifier: Apache-2.0 OR MIT
// The example of a Serial ATA drive as a virtio disk, with the pins that the AXI benches use.
module example_virtio_sim #(
  parameter int unsigned Requests      = 8,
  parameter int unsigned TimeoutCycles = 20000
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  output logic        irq,

  `AXIL_PINS,

  `AXI_PINS(m_),

  `SATA_BIT_PINS
);
  // SataKhz is at 1.5 Gb/s: at 6 Gb/s the deadlines are TimeoutCycles.
  example_virtio #(
    .Requests(Requests), .SataKhz(1), .SignatureMs(TimeoutCycles / 4), .FlushMs(TimeoutCycles / 4), .DataMs(TimeoutCycles / 4),
    .RetryDwords(3000)
  ) u_top (
    .s_axi_aclk(clk_i), .s_axi_aresetn(rst_ni), .s_axi_awaddr(awaddr), .s_axi_awprot('0), .s_axi_awvalid(awvalid),
    .s_axi_awready(awready), .s_axi_wdata(wdata), .s_axi_wstrb(wstrb), .s_axi_wvalid(wvalid), .s_axi_wready(wready),
    .s_axi_bresp(bresp), .s_axi_bvalid(bvalid), .s_axi_bready(bready), .s_axi_araddr(araddr), .s_axi_arprot('0),
    .s_axi_arvalid(arvalid), .s_axi_arready(arready), .s_axi_rdata(rdata), .s_axi_rresp(rresp), .s_axi_rvalid(rvalid),
    .s_axi_rready(rready), .irq,
    .m_axi_awaddr(m_awaddr), .m_axi_awlen(m_awlen), .m_axi_awsize(m_awsize), .m_axi_awburst(), .m_axi_awcache(),
    .m_axi_awprot(), .m_axi_awvalid(m_awvalid), .m_axi_awready(m_awready), .m_axi_wdata(m_wdata),
    .m_axi_wstrb(m_wstrb), .m_axi_wlast(m_wlast), .m_axi_wvalid(m_wvalid), .m_axi_wready(m_wready),
    .m_axi_bresp(m_bresp), .m_axi_bvalid(m_bvalid), .m_axi_bready(m_bready), .m_axi_araddr(m_araddr),
    .m_axi_arlen(m_arlen), .m_axi_arsize(m_arsize), .m_axi_arburst(), .m_axi_arcache(), .m_axi_arprot(),
    .m_axi_arvalid(m_arvalid), .m_axi_arready(m_arready), .m_axi_rdata(m_rdata), .m_axi_rresp(m_rresp),
    .m_axi_rlast(m_rlast), .m_axi_rvalid(m_rvalid), .m_axi_rready(m_rready),
    `SATA_BIT_JOIN
  );

  block_checker #(.DataWidth(32), .TimeoutCycles(4 * TimeoutCycles + 100000)) u_check (
    .clk_i, .rst_ni, .geometry_i(u_top.geometry), .host_i(u_top.host), .write_data_i(u_top.write_data),
    .dev_i(u_top.dev), .read_data_i(u_top.read_data), .idle_o()
  );
endmodule
