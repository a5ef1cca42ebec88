// SPDX-License-Identifier: Apache-2.0 OR MIT
// The example of an accelerator on a window, with the pins that the AXI benches use: registers, frames (d_), pages and tables
// (m_). The RAM disks' memory is here, for the bench to fill; the Serial ATA drive is the bench's.
module example_smmu_sim #(
  parameter int unsigned Frames     = 16,
  parameter bit          Sata       = 1'b0,
  parameter int unsigned Disks      = 1,
  parameter int unsigned DrivePages = 64
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  output logic        irq, scan_irq,
  input  logic        upper,  // the registers are scan's
  `AXIL_PINS,
  `AXI_PINS(d_),
  output logic [1:0]  d_awburst, d_arburst,
  `AXI_PINS(m_),
  `SATA_BIT_PINS
);
  localparam int unsigned Ports = Sata ? 2 : 2 + Disks, DiskBlocks = 8 * DrivePages / Disks;
  logic [Ports-1:0][47:0] m_axi_awaddr, m_axi_araddr;
  logic [Ports-1:0][7:0]  m_axi_awlen, m_axi_arlen;
  logic [Ports-1:0][2:0]  m_axi_awsize, m_axi_arsize;
  logic [Ports-1:0][1:0]  m_axi_awburst, m_axi_arburst, m_axi_bresp, m_axi_rresp;
  logic [Ports-1:0]       m_axi_awvalid, m_axi_awready, m_axi_wlast, m_axi_wvalid, m_axi_wready, m_axi_bvalid, m_axi_bready;
  logic [Ports-1:0]       m_axi_arvalid, m_axi_arready, m_axi_rlast, m_axi_rvalid, m_axi_rready;
  logic [Ports-1:0][31:0] m_axi_wdata, m_axi_rdata;
  logic [Ports-1:0][3:0]  m_axi_wstrb;

  example_smmu #(
    .Frames(Frames), .TlbEntries(16), .Sata(Sata), .Disks(Disks), .DiskBlocks(block_pkg::lba_t'(DiskBlocks)), .DiskStride('0),
    .SataKhz(1), .SignatureMs(5000), .FlushMs(5000), .DataMs(5000), .RetryDwords(3000)
  ) u_top (
    .s_axi_aclk(clk_i), .s_axi_aresetn(rst_ni), .s_axi_awaddr({upper, awaddr}), .s_axi_awprot('0), .s_axi_awvalid(awvalid),
    .s_axi_awready(awready), .s_axi_wdata(wdata), .s_axi_wstrb(wstrb), .s_axi_wvalid(wvalid), .s_axi_wready(wready),
    .s_axi_bresp(bresp), .s_axi_bvalid(bvalid), .s_axi_bready(bready), .s_axi_araddr({upper, araddr}), .s_axi_arprot('0),
    .s_axi_arvalid(arvalid), .s_axi_arready(arready), .s_axi_rdata(rdata), .s_axi_rresp(rresp), .s_axi_rvalid(rvalid),
    .s_axi_rready(rready), .irq, .scan_irq, .disk_failed(), .m_axi_awcache(), .m_axi_awprot(), .m_axi_arcache(), .m_axi_arprot(),
    `SATA_BIT_JOIN, .*
  );
  assign {d_awburst, d_arburst} = {m_axi_awburst[0], m_axi_arburst[0]};

  axi_pkg::manager_t [Ports-1:0] manager;
  axi_pkg::memory_t  [Ports-1:0] memory;
  for (genvar i = 0; i < Ports; i++) begin : gen_port
    assign manager[i] = '{aw_valid: m_axi_awvalid[i],
                          aw: '{address: m_axi_awaddr[i], len: m_axi_awlen[i], size: m_axi_awsize[i]},
                          w_valid: m_axi_wvalid[i], w_last: m_axi_wlast[i], b_ready: m_axi_bready[i],
                          ar_valid: m_axi_arvalid[i],
                          ar: '{address: m_axi_araddr[i], len: m_axi_arlen[i], size: m_axi_arsize[i]},
                          r_ready: m_axi_rready[i]};
    assign {m_axi_awready[i], m_axi_wready[i], m_axi_bvalid[i]} = {memory[i].aw_ready, memory[i].w_ready, memory[i].b_valid};
    assign {m_axi_arready[i], m_axi_rvalid[i], m_axi_rlast[i]}  = {memory[i].ar_ready, memory[i].r_valid, memory[i].r_last};
    assign {m_axi_bresp[i], m_axi_rresp[i]} = {memory[i].b_resp, memory[i].r_resp};
    if (i > 0) begin : gen_incrementing
      always_ff @(posedge clk_i) begin
        if (rst_ni) a_incrementing: assert ({m_axi_awburst[i], m_axi_arburst[i]} == {2{2'b01}});
      end
    end
  end
  `AXI_JOIN(d_, manager[0], memory[0])
  `AXI_JOIN(m_, manager[1], memory[1])
  assign {d_wdata, d_wstrb, m_axi_rdata[0]} = {m_axi_wdata[0], m_axi_wstrb[0], d_rdata};
  assign {m_wdata, m_wstrb, m_axi_rdata[1]} = {m_axi_wdata[1], m_axi_wstrb[1], m_rdata};

  for (genvar i = 2; i < Ports; i++) begin : gen_memory
    axi_memory #(.SizeBytes(DiskBlocks * 512), .ReadLatency(9), .WriteLatency(5)) u_memory (
      .clk_i, .rst_ni, .axi_i(manager[i]), .write_data_i(m_axi_wdata[i]), .axi_o(memory[i]), .read_data_o(m_axi_rdata[i]),
      .fault_i(1'b0), .fault_address_i('0)
    );
    always_ff @(posedge clk_i) begin
      if (rst_ni && m_axi_wvalid[i]) a_words: assert (m_axi_wstrb[i] == '1);
    end
  end

  block_checker #(.DataWidth(32), .TimeoutCycles(200000)) u_check (
    .clk_i, .rst_ni, .geometry_i(u_top.geometry), .host_i(u_top.host), .write_data_i(u_top.disk_write), .dev_i(u_top.dev),
    .read_data_i(u_top.disk_read), .idle_o()
  );
endmodule
