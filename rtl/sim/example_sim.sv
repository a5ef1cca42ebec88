// SPDX-License-Identifier: Apache-2.0 OR MIT
// The example system with a memory behind each of its AXI4 ports, for a test bench that acts as the processor.
module example_sim #(
  parameter int unsigned Disks     = 2,
  parameter bit          Async     = 1'b1,
  parameter int unsigned DataWidth = 64,
  parameter int unsigned DiskBlocks = 1 << 13,  // of 64 B
  parameter bit          Processor = 1'b0
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        memory_clk_i,
  input  logic        memory_rst_ni,
  input  logic [11:0] awaddr,
  input  logic        awvalid,
  output logic        awready,
  input  logic [31:0] wdata,
  input  logic [3:0]  wstrb,
  input  logic        wvalid,
  output logic        wready,
  output logic [1:0]  bresp,
  output logic        bvalid,
  input  logic        bready,
  input  logic [11:0] araddr,
  input  logic        arvalid,
  output logic        arready,
  output logic [31:0] rdata,
  output logic [1:0]  rresp,
  output logic        rvalid,
  input  logic        rready,
  output logic        irq
);
  localparam int unsigned DiskWidth = 32;
  logic [Disks-1:0][47:0] m_axi_awaddr, m_axi_araddr;
  logic [Disks-1:0][7:0]  m_axi_awlen, m_axi_arlen;
  logic [Disks-1:0][2:0]  m_axi_awsize, m_axi_arsize, m_axi_awprot, m_axi_arprot;
  logic [Disks-1:0][1:0]  m_axi_awburst, m_axi_arburst, m_axi_bresp, m_axi_rresp;
  logic [Disks-1:0][3:0]  m_axi_awcache, m_axi_arcache;
  logic [Disks-1:0]       m_axi_awvalid, m_axi_awready, m_axi_wlast, m_axi_wvalid, m_axi_wready, m_axi_bvalid;
  logic [Disks-1:0]       m_axi_bready, m_axi_arvalid, m_axi_arready, m_axi_rlast, m_axi_rvalid, m_axi_rready;
  logic [Disks-1:0][DiskWidth-1:0]   m_axi_wdata, m_axi_rdata;
  logic [Disks-1:0][DiskWidth/8-1:0] m_axi_wstrb;

  logic [47:0] b_axi_awaddr, b_axi_araddr;
  logic [7:0]  b_axi_awlen, b_axi_arlen;
  logic [2:0]  b_axi_awsize, b_axi_arsize, b_axi_awprot, b_axi_arprot;
  logic [1:0]  b_axi_awburst, b_axi_arburst, b_axi_bresp, b_axi_rresp;
  logic [3:0]  b_axi_awcache, b_axi_arcache, b_axi_wstrb;
  logic        b_axi_awvalid, b_axi_awready, b_axi_wlast, b_axi_wvalid, b_axi_wready, b_axi_bvalid, b_axi_bready;
  logic        b_axi_arvalid, b_axi_arready, b_axi_rlast, b_axi_rvalid, b_axi_rready;
  logic [31:0] b_axi_wdata, b_axi_rdata;

  example_top #(
    .Processor(Processor), .Disks(Disks), .Async(Async), .DataWidth(DataWidth), .DiskWidth(DiskWidth),
    .DiskBlocks(block_pkg::lba_t'(DiskBlocks)), .DiskStride('0), .TimeoutCycles(20000)
  ) u_top (
    .s_axi_aclk    (clk_i),
    .s_axi_aresetn (rst_ni),
    .s_axi_awaddr  (awaddr),
    .s_axi_awprot  ('0),
    .s_axi_awvalid (awvalid),
    .s_axi_awready (awready),
    .s_axi_wdata   (wdata),
    .s_axi_wstrb   (wstrb),
    .s_axi_wvalid  (wvalid),
    .s_axi_wready  (wready),
    .s_axi_bresp   (bresp),
    .s_axi_bvalid  (bvalid),
    .s_axi_bready  (bready),
    .s_axi_araddr  (araddr),
    .s_axi_arprot  ('0),
    .s_axi_arvalid (arvalid),
    .s_axi_arready (arready),
    .s_axi_rdata   (rdata),
    .s_axi_rresp   (rresp),
    .s_axi_rvalid  (rvalid),
    .s_axi_rready  (rready),
    .irq           (irq),
    .disk_failed   (),
    .m_axi_aclk    (memory_clk_i),
    .m_axi_aresetn (memory_rst_ni),
    .*
  );

  // The processor's buffers: whole words, since this memory has no byte strobes.
  axi_pkg::manager_t buffer;
  axi_pkg::memory_t  buffer_memory;
  assign buffer = '{aw_valid: b_axi_awvalid, aw: '{address: b_axi_awaddr, len: b_axi_awlen, size: b_axi_awsize},
                    w_valid: b_axi_wvalid, w_last: b_axi_wlast, b_ready: b_axi_bready, ar_valid: b_axi_arvalid,
                    ar: '{address: b_axi_araddr, len: b_axi_arlen, size: b_axi_arsize}, r_ready: b_axi_rready};
  assign {b_axi_awready, b_axi_wready, b_axi_bvalid} = {buffer_memory.aw_ready, buffer_memory.w_ready, buffer_memory.b_valid};
  assign {b_axi_arready, b_axi_rvalid, b_axi_rlast}  = {buffer_memory.ar_ready, buffer_memory.r_valid, buffer_memory.r_last};
  assign {b_axi_bresp, b_axi_rresp} = {buffer_memory.b_resp, buffer_memory.r_resp};
  axi_memory #(.DataWidth(32), .SizeBytes(1 << 15), .ReadLatency(9), .WriteLatency(5)) u_buffer (
    .clk_i, .rst_ni, .axi_i(buffer), .write_data_i(b_axi_wdata), .axi_o(buffer_memory), .read_data_o(b_axi_rdata),
    .fault_i(1'b0), .fault_address_i('0)
  );
  always_ff @(posedge clk_i) begin
    if (b_axi_wvalid && b_axi_wready) begin
      a_words: assert (b_axi_wstrb == '1);
    end
  end

  for (genvar i = 0; i < Disks; i++) begin : gen_memory
    axi_pkg::manager_t manager;
    axi_pkg::memory_t  memory;
    assign manager = '{aw_valid: m_axi_awvalid[i],
                       aw: '{address: m_axi_awaddr[i], len: m_axi_awlen[i], size: m_axi_awsize[i]},
                       w_valid: m_axi_wvalid[i], w_last: m_axi_wlast[i], b_ready: m_axi_bready[i],
                       ar_valid: m_axi_arvalid[i],
                       ar: '{address: m_axi_araddr[i], len: m_axi_arlen[i], size: m_axi_arsize[i]},
                       r_ready: m_axi_rready[i]};
    assign m_axi_awready[i] = memory.aw_ready;
    assign m_axi_wready[i]  = memory.w_ready;
    assign m_axi_bvalid[i]  = memory.b_valid;
    assign m_axi_bresp[i]   = memory.b_resp;
    assign m_axi_arready[i] = memory.ar_ready;
    assign m_axi_rvalid[i]  = memory.r_valid;
    assign m_axi_rresp[i]   = memory.r_resp;
    assign m_axi_rlast[i]   = memory.r_last;

    axi_memory #(
      .DataWidth(DiskWidth), .SizeBytes(DiskBlocks << 6), .ReadLatency(9), .WriteLatency(5)
    ) u_memory (
      .clk_i           (Async ? memory_clk_i : clk_i),
      .rst_ni          (Async ? memory_rst_ni : rst_ni),
      .axi_i           (manager),
      .write_data_i    (m_axi_wdata[i]),
      .axi_o           (memory),
      .read_data_o     (m_axi_rdata[i]),
      .fault_i         (1'b0),
      .fault_address_i ('0)
    );
  end
endmodule
