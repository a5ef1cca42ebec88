// SPDX-License-Identifier: Apache-2.0 OR MIT
// An example for a system with AXI, such as a Zynq: an accelerator reads files by loads, with no processor on the way. `scan`
// is the master of the window of `smmu`; the drive is a RAM disk, an array of them, or a Serial ATA drive. The processor writes
// tables and registers, and starts runs.
//
// AXI4 ports into memory: [0] the accelerator's loads, in the frames; [1] pages and tables; from [2] on the RAM disks.
// One port of registers with 8 KiB: smmu's, and from 0x1000 on scan's. The ports `gt_*` connect to a transceiver
// (rtl/sata/README.md); they and the clock `sata_clk`, which may be unrelated to `s_axi_aclk`, are unused without `Sata`.
//
// Frames, TlbEntries, WindowBits  as in smmu
// Sata         a Serial ATA drive instead of RAM disks
// Disks        1, or 2 to 8 as an array, a stripe of which is a page
// Mirror       the array is a mirror, not striped
// BaseAddress  the address of the first RAM disk, a multiple of 4 KiB; the next ones follow at distances of DiskStride bytes
// DiskBlocks   blocks of 512 bytes of each
// SignatureMs, FlushMs, DataMs, RetryDwords  as in sata_host; SataKhz is its ClockKhz
module example_smmu
  import block_pkg::*;
#(
  parameter int unsigned       Frames        = 1024,
  parameter int unsigned       TlbEntries    = 64,
  parameter int unsigned       WindowBits    = 32,
  parameter bit                Sata          = 1'b0,
  parameter int unsigned       Disks         = 1,
  parameter bit                Mirror        = 1'b0,
  parameter axi_pkg::address_t BaseAddress   = '0,
  parameter axi_pkg::address_t DiskStride    = axi_pkg::address_t'(1 << 25),
  parameter lba_t              DiskBlocks    = lba_t'(1 << 16),
  parameter int unsigned       SataKhz       = 37_500,
  parameter int unsigned       SignatureMs   = 31_000,
  parameter int unsigned       FlushMs       = 30_000,
  parameter int unsigned       DataMs        = 10_000,
  parameter int unsigned       RetryDwords   = 375_000,
  localparam int unsigned      Ports         = Sata ? 2 : 2 + Disks
) (
  input  logic             s_axi_aclk,
  input  logic             s_axi_aresetn,
  input  logic [12:0]      s_axi_awaddr,
  input  logic [2:0]       s_axi_awprot,
  input  logic             s_axi_awvalid,
  output logic             s_axi_awready,
  input  logic [31:0]      s_axi_wdata,
  input  logic [3:0]       s_axi_wstrb,
  input  logic             s_axi_wvalid,
  output logic             s_axi_wready,
  output logic [1:0]       s_axi_bresp,
  output logic             s_axi_bvalid,
  input  logic             s_axi_bready,
  input  logic [12:0]      s_axi_araddr,
  input  logic [2:0]       s_axi_arprot,
  input  logic             s_axi_arvalid,
  output logic             s_axi_arready,
  output logic [31:0]      s_axi_rdata,
  output logic [1:0]       s_axi_rresp,
  output logic             s_axi_rvalid,
  input  logic             s_axi_rready,
  output logic             irq,       // smmu: an error, or a command has ended
  output logic             scan_irq,  // a run has ended
  output logic [Disks-1:0] disk_failed,  // mirrors: these disks are stale until reset

  output logic [Ports-1:0][47:0]      m_axi_awaddr,
  output logic [Ports-1:0][7:0]       m_axi_awlen,
  output logic [Ports-1:0][2:0]       m_axi_awsize,
  output logic [Ports-1:0][1:0]       m_axi_awburst,
  output logic [Ports-1:0][3:0]       m_axi_awcache,
  output logic [Ports-1:0][2:0]       m_axi_awprot,
  output logic [Ports-1:0]            m_axi_awvalid,
  input  logic [Ports-1:0]            m_axi_awready,
  output logic [Ports-1:0][31:0]      m_axi_wdata,
  output logic [Ports-1:0][3:0]       m_axi_wstrb,
  output logic [Ports-1:0]            m_axi_wlast,
  output logic [Ports-1:0]            m_axi_wvalid,
  input  logic [Ports-1:0]            m_axi_wready,
  input  logic [Ports-1:0][1:0]       m_axi_bresp,
  input  logic [Ports-1:0]            m_axi_bvalid,
  output logic [Ports-1:0]            m_axi_bready,
  output logic [Ports-1:0][47:0]      m_axi_araddr,
  output logic [Ports-1:0][7:0]       m_axi_arlen,
  output logic [Ports-1:0][2:0]       m_axi_arsize,
  output logic [Ports-1:0][1:0]       m_axi_arburst,
  output logic [Ports-1:0][3:0]       m_axi_arcache,
  output logic [Ports-1:0][2:0]       m_axi_arprot,
  output logic [Ports-1:0]            m_axi_arvalid,
  input  logic [Ports-1:0]            m_axi_arready,
  input  logic [Ports-1:0][31:0]      m_axi_rdata,
  input  logic [Ports-1:0][1:0]       m_axi_rresp,
  input  logic [Ports-1:0]            m_axi_rlast,
  input  logic [Ports-1:0]            m_axi_rvalid,
  output logic [Ports-1:0]            m_axi_rready,

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
  logic clk, rst_n;
  assign {clk, rst_n} = {s_axi_aclk, s_axi_aresetn};

  // --- Registers: one write and one read at a time, so that answers come in order ----------------------
  axil_pkg::manager_t     [1:0] axil_manager;
  axil_pkg::subordinate_t [1:0] axil;
  logic writing_q, reading_q, write_now, read_now;
  assign write_now = s_axi_awvalid & s_axi_wvalid & ~writing_q;
  assign read_now  = s_axi_arvalid & ~reading_q;
  for (genvar i = 0; i < 2; i++) begin : gen_registers
    assign axil_manager[i] = '{aw_valid: write_now & (s_axi_awaddr[12] == 1'(i)), aw_address: s_axi_awaddr[11:0],
                               w_valid: write_now & (s_axi_awaddr[12] == 1'(i)), w_data: s_axi_wdata, w_strobe: s_axi_wstrb,
                               b_ready: s_axi_bready, ar_valid: read_now & (s_axi_araddr[12] == 1'(i)),
                               ar_address: s_axi_araddr[11:0], r_ready: s_axi_rready};
  end
  assign s_axi_awready = axil[0].aw_ready | axil[1].aw_ready;
  assign s_axi_wready  = axil[0].w_ready | axil[1].w_ready;
  assign s_axi_bvalid  = axil[0].b_valid | axil[1].b_valid;
  assign s_axi_bresp   = axil[0].b_valid ? axil[0].b_resp : axil[1].b_resp;
  assign s_axi_arready = axil[0].ar_ready | axil[1].ar_ready;
  assign s_axi_rvalid  = axil[0].r_valid | axil[1].r_valid;
  assign {s_axi_rresp, s_axi_rdata} = axil[0].r_valid ? {axil[0].r_resp, axil[0].r_data} : {axil[1].r_resp, axil[1].r_data};

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      {writing_q, reading_q} <= '0;
    end else begin
      writing_q <= s_axi_awready | (writing_q & ~(s_axi_bvalid & s_axi_bready));
      reading_q <= s_axi_arready | (reading_q & ~(s_axi_rvalid & s_axi_rready));
    end
  end

  // --- Memory ----------------------------------------------------------------------------------------
  axi_pkg::manager_t [Ports-1:0] manager;
  axi_pkg::memory_t  [Ports-1:0] memory;
  logic [1:0] data_aw_burst, data_ar_burst;
  for (genvar i = 0; i < Ports; i++) begin : gen_ports
    assign {m_axi_awvalid[i], m_axi_awaddr[i], m_axi_awlen[i], m_axi_awsize[i]} = {manager[i].aw_valid, manager[i].aw};
    assign {m_axi_arvalid[i], m_axi_araddr[i], m_axi_arlen[i], m_axi_arsize[i]} = {manager[i].ar_valid, manager[i].ar};
    assign m_axi_awburst[i] = (i == 0) ? data_aw_burst : 2'b01;  // the others: incrementing
    assign m_axi_arburst[i] = (i == 0) ? data_ar_burst : 2'b01;
    assign {m_axi_awcache[i], m_axi_arcache[i]} = {2{4'b0011}};  // bufferable, not cached
    assign {m_axi_awprot[i], m_axi_arprot[i]}   = '0;
    assign {m_axi_wvalid[i], m_axi_wlast[i], m_axi_bready[i], m_axi_rready[i]} =
           {manager[i].w_valid, manager[i].w_last, manager[i].b_ready, manager[i].r_ready};
    assign memory[i] = '{aw_ready: m_axi_awready[i], w_ready: m_axi_wready[i], b_valid: m_axi_bvalid[i],
                         b_resp: axi_pkg::resp_e'(m_axi_bresp[i]), ar_ready: m_axi_arready[i], r_valid: m_axi_rvalid[i],
                         r_resp: axi_pkg::resp_e'(m_axi_rresp[i]), r_last: m_axi_rlast[i]};
  end

  // --- The accelerator, its window, the drive ----------------------------------------------------------
  smmu_pkg::master_t master;
  smmu_pkg::window_t window;
  geometry_t   geometry;
  host_t       host;
  dev_t        dev;
  logic [31:0] window_read, disk_write, disk_read;

  scan u_scan (
    .clk_i(clk), .rst_ni(rst_n), .axil_i(axil_manager[1]), .axil_o(axil[1]), .irq_o(scan_irq), .window_o(master),
    .window_i(window), .read_data_i(window_read)
  );

  smmu #(.Frames(Frames), .TlbEntries(TlbEntries), .WindowBits(WindowBits)) u_smmu (
    .clk_i(clk), .rst_ni(rst_n), .axil_i(axil_manager[0]), .axil_o(axil[0]), .irq_o(irq), .window_i(master),
    .window_write_data_i('0), .window_write_strobe_i('0), .window_o(window), .window_read_data_o(window_read),
    .data_o(manager[0]), .data_aw_burst_o(data_aw_burst), .data_ar_burst_o(data_ar_burst),
    .data_write_data_o(m_axi_wdata[0]), .data_write_strobe_o(m_axi_wstrb[0]), .data_i(memory[0]),
    .data_read_data_i(m_axi_rdata[0]), .move_o(manager[1]), .move_write_data_o(m_axi_wdata[1]),
    .move_write_strobe_o(m_axi_wstrb[1]), .move_i(memory[1]), .move_read_data_i(m_axi_rdata[1]), .geometry_i(geometry),
    .host_o(host), .write_data_o(disk_write), .dev_i(dev), .read_data_i(disk_read)
  );

  if (Sata) begin : gen_sata
    assign disk_failed = '0;
    example_sata #(
      .ClockKhz(SataKhz), .SignatureMs(SignatureMs), .FlushMs(FlushMs), .DataMs(DataMs), .RetryDwords(RetryDwords)
    ) u_disk (
      .clk_i(clk), .rst_ni(rst_n), .geometry_o(geometry), .host_i(host), .write_data_i(disk_write), .dev_o(dev),
      .read_data_o(disk_read), .sata_clk_i(sata_clk), .sata_rst_ni(sata_resetn), .phase_o(sata_phase),
      .damaged_o(sata_damaged), .rate_o(gt_rate), .rate_i(gt_rate_now), .tx_bits_o(gt_tx_bits), .tx_idle_o(gt_tx_idle),
      .rx_clk_i(gt_rx_clk), .rx_rst_ni(gt_rx_resetn), .rx_bits_i(gt_rx_bits), .rx_idle_i(gt_rx_idle)
    );
  end else begin : gen_ram
    example_disks #(
      .Disks(Disks), .Mirror(Mirror), .DiskBlocks(DiskBlocks), .BaseAddress(BaseAddress), .DiskStride(DiskStride)
    ) u_disks (
      .clk_i(clk), .rst_ni(rst_n), .geometry_o(geometry), .host_i(host), .write_data_i(disk_write), .dev_o(dev),
      .read_data_o(disk_read), .failed_o(disk_failed), .disk_clk_i(clk), .disk_rst_ni(rst_n), .axi_o(manager[Ports-1:2]),
      .axi_write_data_o(m_axi_wdata[Ports-1:2]), .axi_i(memory[Ports-1:2]), .axi_read_data_i(m_axi_rdata[Ports-1:2])
    );
    assign m_axi_wstrb[Ports-1:2] = '1;
    assign {sata_phase, sata_damaged, gt_rate, gt_tx_bits, gt_tx_idle} = {47'd0, 1'b1};
    logic unused_sata;
    assign unused_sata = ^{sata_clk, sata_resetn, gt_rate_now, gt_rx_clk, gt_rx_resetn, gt_rx_bits, gt_rx_idle};
  end
endmodule
