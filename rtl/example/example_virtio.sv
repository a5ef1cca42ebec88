// SPDX-License-Identifier: Apache-2.0 OR MIT
// An example for a system with AXI, such as a Zynq: a Serial ATA drive as a disk for the processor's stock virtio-blk
// driver: `virtio_blk`, a clock crossing, `sata_host`. The processor accesses the registers over AXI4-Lite; rings and
// data move over one AXI4 port into memory. The ports `gt_*` connect to a transceiver (rtl/sata/README.md).
//
// The AXI ports have the names that block design tools expect. `sata_clk` and `gt_rx_clk` may be unrelated to
// `s_axi_aclk`, which is also the clock of `m_axi`.
//
// Requests, Queues, QueueSize, Platform, Serial  as in virtio_blk
// BlockSizeLog2   log2 of the drive's logical block in bytes: 9 or 12
// WriteWords, SignatureMs, FlushMs, DataMs, Fastest, Slowest, RetryDwords  as in sata_host; SataKhz is its ClockKhz
module example_virtio
  import block_pkg::*;
#(
  parameter int unsigned  Requests      = 8,
  parameter int unsigned  Queues        = 1,
  parameter int unsigned  QueueSize     = 128,
  parameter bit           Platform      = 1'b1,
  parameter logic [159:0] Serial        = "straightway-virtio-0",
  parameter int unsigned  BlockSizeLog2 = 9,
  parameter int unsigned  WriteWords    = 4096,
  parameter int unsigned  SataKhz       = 37_500,
  parameter int unsigned  SignatureMs   = 31_000,
  parameter int unsigned  FlushMs       = 30_000,
  parameter int unsigned  DataMs        = 10_000,
  parameter int unsigned  Fastest       = 2,
  parameter int unsigned  Slowest       = 0,
  parameter int unsigned  RetryDwords   = 375_000
) (
  input  logic        s_axi_aclk,
  input  logic        s_axi_aresetn,
  input  logic [11:0] s_axi_awaddr,
  input  logic [2:0]  s_axi_awprot,
  input  logic        s_axi_awvalid,
  output logic        s_axi_awready,
  input  logic [31:0] s_axi_wdata,
  input  logic [3:0]  s_axi_wstrb,
  input  logic        s_axi_wvalid,
  output logic        s_axi_wready,
  output logic [1:0]  s_axi_bresp,
  output logic        s_axi_bvalid,
  input  logic        s_axi_bready,
  input  logic [11:0] s_axi_araddr,
  input  logic [2:0]  s_axi_arprot,
  input  logic        s_axi_arvalid,
  output logic        s_axi_arready,
  output logic [31:0] s_axi_rdata,
  output logic [1:0]  s_axi_rresp,
  output logic        s_axi_rvalid,
  input  logic        s_axi_rready,
  output logic        irq,

  output logic [47:0] m_axi_awaddr,
  output logic [7:0]  m_axi_awlen,
  output logic [2:0]  m_axi_awsize,
  output logic [1:0]  m_axi_awburst,
  output logic [3:0]  m_axi_awcache,
  output logic [2:0]  m_axi_awprot,
  output logic        m_axi_awvalid,
  input  logic        m_axi_awready,
  output logic [31:0] m_axi_wdata,
  output logic [3:0]  m_axi_wstrb,
  output logic        m_axi_wlast,
  output logic        m_axi_wvalid,
  input  logic        m_axi_wready,
  input  logic [1:0]  m_axi_bresp,
  input  logic        m_axi_bvalid,
  output logic        m_axi_bready,
  output logic [47:0] m_axi_araddr,
  output logic [7:0]  m_axi_arlen,
  output logic [2:0]  m_axi_arsize,
  output logic [1:0]  m_axi_arburst,
  output logic [3:0]  m_axi_arcache,
  output logic [2:0]  m_axi_arprot,
  output logic        m_axi_arvalid,
  input  logic        m_axi_arready,
  input  logic [31:0] m_axi_rdata,
  input  logic [1:0]  m_axi_rresp,
  input  logic        m_axi_rlast,
  input  logic        m_axi_rvalid,
  output logic        m_axi_rready,

  // One dword per cycle: 37.5, 75 or 150 MHz at 1.5, 3 or 6 Gb/s.
  input  logic        sata_clk,
  input  logic        sata_resetn,
  output logic [3:0]  sata_phase,    // what the link waits for: phy_phase_e
  output logic        sata_damaged,  // a word with a wrong code or disparity
  output logic [1:0]  gt_rate,       // the requested rate: rate_e
  input  logic [1:0]  gt_rate_now,
  output logic [39:0] gt_tx_bits,
  output logic        gt_tx_idle,
  input  logic        gt_rx_clk,
  input  logic        gt_rx_resetn,
  input  logic [39:0] gt_rx_bits,
  input  logic        gt_rx_idle
);
  axil_pkg::manager_t     axil_manager;
  axil_pkg::subordinate_t axil;
  assign axil_manager = '{aw_valid: s_axi_awvalid, aw_address: s_axi_awaddr, w_valid: s_axi_wvalid,
                          w_data: s_axi_wdata, w_strobe: s_axi_wstrb, b_ready: s_axi_bready,
                          ar_valid: s_axi_arvalid, ar_address: s_axi_araddr, r_ready: s_axi_rready};
  assign s_axi_awready = axil.aw_ready;
  assign s_axi_wready  = axil.w_ready;
  assign s_axi_bvalid  = axil.b_valid;
  assign s_axi_bresp   = axil.b_resp;
  assign s_axi_arready = axil.ar_ready;
  assign s_axi_rvalid  = axil.r_valid;
  assign s_axi_rdata   = axil.r_data;
  assign s_axi_rresp   = axil.r_resp;

  axi_pkg::manager_t manager;
  axi_pkg::memory_t  memory;
  assign m_axi_awaddr  = manager.aw.address;
  assign m_axi_awlen   = manager.aw.len;
  assign m_axi_awsize  = manager.aw.size;
  assign m_axi_awburst = 2'b01;    // incrementing
  assign m_axi_awcache = 4'b0011;  // bufferable, not cached
  assign m_axi_awprot  = 3'b000;
  assign m_axi_awvalid = manager.aw_valid;
  assign m_axi_wlast   = manager.w_last;
  assign m_axi_wvalid  = manager.w_valid;
  assign m_axi_bready  = manager.b_ready;
  assign m_axi_araddr  = manager.ar.address;
  assign m_axi_arlen   = manager.ar.len;
  assign m_axi_arsize  = manager.ar.size;
  assign m_axi_arburst = 2'b01;
  assign m_axi_arcache = 4'b0011;
  assign m_axi_arprot  = 3'b000;
  assign m_axi_arvalid = manager.ar_valid;
  assign m_axi_rready  = manager.r_ready;
  assign memory = '{aw_ready: m_axi_awready, w_ready: m_axi_wready, b_valid: m_axi_bvalid,
                    b_resp: axi_pkg::resp_e'(m_axi_bresp), ar_ready: m_axi_arready, r_valid: m_axi_rvalid,
                    r_resp: axi_pkg::resp_e'(m_axi_rresp), r_last: m_axi_rlast};

  geometry_t   geometry;
  host_t       host;
  dev_t        dev;
  logic [31:0] write_data, read_data;

  virtio_blk #(
    .Requests(Requests), .Queues(Queues), .QueueSize(QueueSize), .Platform(Platform), .BlockSizeLog2(BlockSizeLog2),
    .Serial(Serial)
  ) u_virtio (
    .clk_i              (s_axi_aclk),
    .rst_ni             (s_axi_aresetn),
    .axil_i             (axil_manager),
    .axil_o             (axil),
    .irq_o              (irq),
    .axi_o              (manager),
    .axi_write_data_o   (m_axi_wdata),
    .axi_write_strobe_o (m_axi_wstrb),
    .axi_i              (memory),
    .axi_read_data_i    (m_axi_rdata),
    .geometry_i         (geometry),
    .host_o             (host),
    .write_data_o       (write_data),
    .dev_i              (dev),
    .read_data_i        (read_data)
  );

  example_sata #(
    .BlockSizeLog2(BlockSizeLog2), .WriteWords(WriteWords), .ClockKhz(SataKhz), .SignatureMs(SignatureMs), .FlushMs(FlushMs),
    .DataMs(DataMs), .Fastest(Fastest), .Slowest(Slowest), .RetryDwords(RetryDwords)
  ) u_disk (
    .clk_i        (s_axi_aclk),
    .rst_ni       (s_axi_aresetn),
    .geometry_o   (geometry),
    .host_i       (host),
    .write_data_i (write_data),
    .dev_o        (dev),
    .read_data_o  (read_data),
    .sata_clk_i   (sata_clk),
    .sata_rst_ni  (sata_resetn),
    .phase_o      (sata_phase),
    .damaged_o    (sata_damaged),
    .rate_o       (gt_rate),
    .rate_i       (gt_rate_now),
    .tx_bits_o    (gt_tx_bits),
    .tx_idle_o    (gt_tx_idle),
    .rx_clk_i     (gt_rx_clk),
    .rx_rst_ni    (gt_rx_resetn),
    .rx_bits_i    (gt_rx_bits),
    .rx_idle_i    (gt_rx_idle)
  );
endmodule
