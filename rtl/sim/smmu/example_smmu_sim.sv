// The example of an accelerator on a window, with the pins that the AXI benches use: registers, frames (d_), pages and tables
// (m_). The RAM disk's memory is here, for the bench to fill.
module example_smmu_sim #(
  parameter int unsigned Frames     = 16,
  parameter int unsigned DiskBlocks = 512
) (
  input  logic       clk_i,
  input  logic       rst_ni,
  output logic       irq, scan_irq,
  input  logic       upper,  // the registers are scan's
  `AXIL_PINS,
  `AXI_PINS(d_),
  output logic [1:0] d_awburst, d_arburst,
  `AXI_PINS(m_)
);
  logic [47:0] k_awaddr, k_araddr;
  logic [7:0]  k_awlen, k_arlen;
  logic [2:0]  k_awsize, k_arsize;
  logic [3:0]  k_wstrb;
  logic [31:0] k_wdata, k_rdata;
  logic [3:0]  m_awburst, m_arburst;  // the RAM disk's, and those of pages and tables
  axi_pkg::manager_t disk;
  axi_pkg::memory_t  disk_memory;

  example_smmu #(.Frames(Frames), .TlbEntries(16), .DiskBlocks(block_pkg::lba_t'(DiskBlocks))) u_top (
    .s_axi_aclk(clk_i), .s_axi_aresetn(rst_ni), .s_axi_awaddr({upper, awaddr}), .s_axi_awprot('0), .s_axi_awvalid(awvalid),
    .s_axi_awready(awready), .s_axi_wdata(wdata), .s_axi_wstrb(wstrb), .s_axi_wvalid(wvalid), .s_axi_wready(wready),
    .s_axi_bresp(bresp), .s_axi_bvalid(bvalid), .s_axi_bready(bready), .s_axi_araddr({upper, araddr}), .s_axi_arprot('0),
    .s_axi_arvalid(arvalid), .s_axi_arready(arready), .s_axi_rdata(rdata), .s_axi_rresp(rresp), .s_axi_rvalid(rvalid),
    .s_axi_rready(rready), .irq, .scan_irq,
    .m_axi_awaddr({k_awaddr, m_awaddr, d_awaddr}), .m_axi_awlen({k_awlen, m_awlen, d_awlen}),
    .m_axi_awsize({k_awsize, m_awsize, d_awsize}), .m_axi_awburst({m_awburst, d_awburst}), .m_axi_awcache(),
    .m_axi_awprot(), .m_axi_awvalid({disk.aw_valid, m_awvalid, d_awvalid}),
    .m_axi_awready({disk_memory.aw_ready, m_awready, d_awready}), .m_axi_wdata({k_wdata, m_wdata, d_wdata}),
    .m_axi_wstrb({k_wstrb, m_wstrb, d_wstrb}), .m_axi_wlast({disk.w_last, m_wlast, d_wlast}),
    .m_axi_wvalid({disk.w_valid, m_wvalid, d_wvalid}), .m_axi_wready({disk_memory.w_ready, m_wready, d_wready}),
    .m_axi_bresp({disk_memory.b_resp, m_bresp, d_bresp}), .m_axi_bvalid({disk_memory.b_valid, m_bvalid, d_bvalid}),
    .m_axi_bready({disk.b_ready, m_bready, d_bready}), .m_axi_araddr({k_araddr, m_araddr, d_araddr}),
    .m_axi_arlen({k_arlen, m_arlen, d_arlen}), .m_axi_arsize({k_arsize, m_arsize, d_arsize}),
    .m_axi_arburst({m_arburst, d_arburst}), .m_axi_arcache(), .m_axi_arprot(),
    .m_axi_arvalid({disk.ar_valid, m_arvalid, d_arvalid}), .m_axi_arready({disk_memory.ar_ready, m_arready, d_arready}),
    .m_axi_rdata({k_rdata, m_rdata, d_rdata}), .m_axi_rresp({disk_memory.r_resp, m_rresp, d_rresp}),
    .m_axi_rlast({disk_memory.r_last, m_rlast, d_rlast}), .m_axi_rvalid({disk_memory.r_valid, m_rvalid, d_rvalid}),
    .m_axi_rready({disk.r_ready, m_rready, d_rready})
  );
  assign disk.aw = '{address: k_awaddr, len: k_awlen, size: k_awsize};
  assign disk.ar = '{address: k_araddr, len: k_arlen, size: k_arsize};

  axi_memory #(.SizeBytes(DiskBlocks * 512), .ReadLatency(9), .WriteLatency(5)) u_memory (
    .clk_i, .rst_ni, .axi_i(disk), .write_data_i(k_wdata), .axi_o(disk_memory), .read_data_o(k_rdata), .fault_i(1'b0),
    .fault_address_i('0)
  );

  always_ff @(posedge clk_i) begin
    if (rst_ni) a_incrementing: assert ({m_awburst, m_arburst} == {4{2'b01}});
    if (rst_ni && disk.w_valid) a_words: assert (k_wstrb == '1);
  end

  block_checker #(.DataWidth(32), .TimeoutCycles(200000)) u_check (
    .clk_i, .rst_ni, .geometry_i(u_top.geometry), .host_i(u_top.host), .write_data_i(u_top.disk_write), .dev_i(u_top.dev),
    .read_data_i(u_top.disk_read), .idle_o()
  );
endmodule
