// SPDX-License-Identifier: Apache-2.0 OR MIT
// An example for a system with AXI, such as a Zynq: the workload generator on the file system core, on one RAM disk or
// an array of them, each a region of memory behind its own AXI4 port. A processor configures runs and reads counters
// through AXI4-Lite registers; it is not on the data path. To build your own system, replace the generator by an
// accelerator. With `Processor`, the processor uses the file system instead: rtl/hwfs_axi with its registers and its own
// port into memory (`b_axi`, in the clock of the registers).
//
// The ports have the names that block design tools expect. With `Async`, the AXI4 ports are in the clock `m_axi_aclk`,
// unrelated to `s_axi_aclk`; otherwise the two must be the same clock.
//
// Disks          1, or 2 to 8 as an array
// Mirror         the array is a mirror, not striped
// DataWidth      bits of the core's data streams: DiskWidth times a power of two, at most times Disks
// DiskWidth      bits of each AXI4 port
// BlockSizeLog2  log2 of a block's bytes
// StripeBlocks   blocks in a stripe
// DiskBlocks     blocks of each disk
// BaseAddress    address of the first disk in memory; the next ones follow at distances of DiskStride bytes
// NodeLog2Max, Files, IndexSlots, Outstanding, TimeoutCycles  as in hwfs
// NameWords      32-bit words of a file's name
// Processor      rtl/hwfs_axi instead of the generator; requires DataWidth 32
module example_top
  import block_pkg::*;
  import hwfs_pkg::*;
  import workload_pkg::*;
#(
  parameter int unsigned       Disks         = 1,
  parameter bit                Mirror        = 1'b0,
  parameter bit                Async         = 1'b0,
  parameter int unsigned       DataWidth     = 32,
  parameter int unsigned       DiskWidth     = 32,
  parameter int unsigned       BlockSizeLog2 = 6,
  parameter int unsigned       StripeBlocks  = 8,
  parameter lba_t              DiskBlocks    = lba_t'(1 << 20),
  parameter axi_pkg::address_t BaseAddress   = '0,
  parameter axi_pkg::address_t DiskStride    = axi_pkg::address_t'(1 << 26),
  parameter int unsigned       NodeLog2Max   = 9,
  parameter int unsigned       Files         = 1,
  parameter int unsigned       IndexSlots    = 1024,
  parameter int unsigned       Outstanding   = 2,
  parameter int unsigned       TimeoutCycles = 100_000_000,
  parameter int unsigned       NameWords     = 4,
  parameter bit                Processor     = 1'b0
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
  output logic [Disks-1:0] disk_failed,  // mirrors: these disks are stale until reset

  // The processor's data; unused without `Processor`.
  output logic [47:0] b_axi_awaddr,
  output logic [7:0]  b_axi_awlen,
  output logic [2:0]  b_axi_awsize,
  output logic [1:0]  b_axi_awburst,
  output logic [3:0]  b_axi_awcache,
  output logic [2:0]  b_axi_awprot,
  output logic        b_axi_awvalid,
  input  logic        b_axi_awready,
  output logic [31:0] b_axi_wdata,
  output logic [3:0]  b_axi_wstrb,
  output logic        b_axi_wlast,
  output logic        b_axi_wvalid,
  input  logic        b_axi_wready,
  input  logic [1:0]  b_axi_bresp,
  input  logic        b_axi_bvalid,
  output logic        b_axi_bready,
  output logic [47:0] b_axi_araddr,
  output logic [7:0]  b_axi_arlen,
  output logic [2:0]  b_axi_arsize,
  output logic [1:0]  b_axi_arburst,
  output logic [3:0]  b_axi_arcache,
  output logic [2:0]  b_axi_arprot,
  output logic        b_axi_arvalid,
  input  logic        b_axi_arready,
  input  logic [31:0] b_axi_rdata,
  input  logic [1:0]  b_axi_rresp,
  input  logic        b_axi_rlast,
  input  logic        b_axi_rvalid,
  output logic        b_axi_rready,

  input  logic        m_axi_aclk,
  input  logic        m_axi_aresetn,
  output logic [Disks-1:0][47:0]            m_axi_awaddr,
  output logic [Disks-1:0][7:0]             m_axi_awlen,
  output logic [Disks-1:0][2:0]             m_axi_awsize,
  output logic [Disks-1:0][1:0]             m_axi_awburst,
  output logic [Disks-1:0][3:0]             m_axi_awcache,
  output logic [Disks-1:0][2:0]             m_axi_awprot,
  output logic [Disks-1:0]                  m_axi_awvalid,
  input  logic [Disks-1:0]                  m_axi_awready,
  output logic [Disks-1:0][DiskWidth-1:0]   m_axi_wdata,
  output logic [Disks-1:0][DiskWidth/8-1:0] m_axi_wstrb,
  output logic [Disks-1:0]                  m_axi_wlast,
  output logic [Disks-1:0]                  m_axi_wvalid,
  input  logic [Disks-1:0]                  m_axi_wready,
  input  logic [Disks-1:0][1:0]             m_axi_bresp,
  input  logic [Disks-1:0]                  m_axi_bvalid,
  output logic [Disks-1:0]                  m_axi_bready,
  output logic [Disks-1:0][47:0]            m_axi_araddr,
  output logic [Disks-1:0][7:0]             m_axi_arlen,
  output logic [Disks-1:0][2:0]             m_axi_arsize,
  output logic [Disks-1:0][1:0]             m_axi_arburst,
  output logic [Disks-1:0][3:0]             m_axi_arcache,
  output logic [Disks-1:0][2:0]             m_axi_arprot,
  output logic [Disks-1:0]                  m_axi_arvalid,
  input  logic [Disks-1:0]                  m_axi_arready,
  input  logic [Disks-1:0][DiskWidth-1:0]   m_axi_rdata,
  input  logic [Disks-1:0][1:0]             m_axi_rresp,
  input  logic [Disks-1:0]                  m_axi_rlast,
  input  logic [Disks-1:0]                  m_axi_rvalid,
  output logic [Disks-1:0]                  m_axi_rready
);
  localparam int unsigned Bytes = DataWidth / 8;
  localparam logic [31:0] Shape = {8'(NameWords * 4), 8'(BlockSizeLog2), 8'(Bytes), 7'(Disks), Mirror};

  logic clk, rst_n, disk_clk, disk_rst_n;
  assign clk        = s_axi_aclk;
  assign rst_n      = s_axi_aresetn;
  assign disk_clk   = Async ? m_axi_aclk : s_axi_aclk;
  assign disk_rst_n = Async ? m_axi_aresetn : s_axi_aresetn;

  // --- Registers and the generator ------------------------------------------------------------------
  axil_pkg::manager_t axil_manager;
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

  geometry_t geometry;
  logic cmd_valid, cmd_ready, name_valid, name_ready, rsp_valid, rsp_ready, write_valid, write_ready;
  logic read_valid, read_ready, read_last;
  cmd_t cmd;
  fs_rsp_t rsp;
  logic [31:0] name_data;
  logic [DataWidth-1:0] write_data, read_data;
  logic [Bytes-1:0] read_keep;

  axi_pkg::manager_t buffer;
  axi_pkg::memory_t  buffer_memory;
  if (Processor) begin : gen_processor
    if (DataWidth != 32) begin : gen_wide
      $error("Processor requires DataWidth 32");
    end
    hwfs_axi #(.Shape(hwfs_axi_pkg::shape(Files, BlockSizeLog2))) u_front (
      .clk_i              (clk),
      .rst_ni             (rst_n),
      .axil_i             (axil_manager),
      .axil_o             (axil),
      .irq_o              (irq),
      .axi_o              (buffer),
      .axi_write_data_o   (b_axi_wdata),
      .axi_write_strobe_o (b_axi_wstrb),
      .axi_i              (buffer_memory),
      .axi_read_data_i    (b_axi_rdata),
      .geometry_i         (geometry),
      .cmd_valid_o        (cmd_valid),
      .cmd_ready_i        (cmd_ready),
      .cmd_o              (cmd),
      .name_valid_o       (name_valid),
      .name_ready_i       (name_ready),
      .name_data_o        (name_data),
      .rsp_valid_i        (rsp_valid),
      .rsp_ready_o        (rsp_ready),
      .rsp_i              (rsp),
      .write_valid_o      (write_valid),
      .write_ready_i      (write_ready),
      .write_data_o       (write_data[31:0]),
      .read_valid_i       (read_valid),
      .read_ready_o       (read_ready),
      .read_data_i        (read_data[31:0])
    );
  end else begin : gen_generator
    assign buffer      = '0;
    assign b_axi_wdata = '0;
    assign b_axi_wstrb = '0;

    logic start, busy;
    config_t run;
    result_t result;
    logic [NameWords-1:0][31:0] name;

    example_regs #(.NameWords(NameWords), .Shape(Shape)) u_regs (
      .clk_i(clk), .rst_ni(rst_n), .axil_i(axil_manager), .axil_o(axil), .start_o(start), .config_o(run),
      .name_o(name), .busy_i(busy), .result_i(result), .geometry_i(geometry), .irq_o(irq)
    );

    workload #(.DataWidth(DataWidth), .NameWords(NameWords), .TimeoutCycles(2 * TimeoutCycles)) u_workload (
      .clk_i         (clk),
      .rst_ni        (rst_n),
      .start_i       (start),
      .config_i      (run),
      .name_i        (name),
      .busy_o        (busy),
      .result_o      (result),
      .cmd_valid_o   (cmd_valid),
      .cmd_ready_i   (cmd_ready),
      .cmd_o         (cmd),
      .name_valid_o  (name_valid),
      .name_ready_i  (name_ready),
      .name_data_o   (name_data),
      .rsp_valid_i   (rsp_valid),
      .rsp_ready_o   (rsp_ready),
      .rsp_i         (rsp),
      .write_valid_o (write_valid),
      .write_ready_i (write_ready),
      .write_data_o  (write_data),
      .read_valid_i  (read_valid),
      .read_ready_o  (read_ready),
      .read_data_i   (read_data),
      .read_keep_i   (read_keep),
      .read_last_i   (read_last)
    );
  end

  assign b_axi_awaddr  = buffer.aw.address;
  assign b_axi_awlen   = buffer.aw.len;
  assign b_axi_awsize  = buffer.aw.size;
  assign b_axi_awburst = 2'b01;    // incrementing
  assign b_axi_awcache = 4'b0011;  // bufferable, not cached
  assign b_axi_awprot  = 3'b000;
  assign b_axi_awvalid = buffer.aw_valid;
  assign b_axi_wlast   = buffer.w_last;
  assign b_axi_wvalid  = buffer.w_valid;
  assign b_axi_bready  = buffer.b_ready;
  assign b_axi_araddr  = buffer.ar.address;
  assign b_axi_arlen   = buffer.ar.len;
  assign b_axi_arsize  = buffer.ar.size;
  assign b_axi_arburst = 2'b01;
  assign b_axi_arcache = 4'b0011;
  assign b_axi_arprot  = 3'b000;
  assign b_axi_arvalid = buffer.ar_valid;
  assign b_axi_rready  = buffer.r_ready;
  assign buffer_memory = '{aw_ready: b_axi_awready, w_ready: b_axi_wready, b_valid: b_axi_bvalid,
                           b_resp: axi_pkg::resp_e'(b_axi_bresp), ar_ready: b_axi_arready, r_valid: b_axi_rvalid,
                           r_resp: axi_pkg::resp_e'(b_axi_rresp), r_last: b_axi_rlast};

  // --- The file system ------------------------------------------------------------------------------
  host_t host;
  dev_t  dev;
  logic [DataWidth-1:0] host_write, dev_read;

  hwfs #(
    .DataWidth(DataWidth), .BlockSizeLog2(BlockSizeLog2), .NodeLog2Max(NodeLog2Max), .Files(Files),
    .IndexSlots(IndexSlots), .Outstanding(Outstanding), .TimeoutCycles(TimeoutCycles)
  ) u_hwfs (
    .clk_i             (clk),
    .rst_ni            (rst_n),
    .geometry_i        (geometry),
    .cmd_valid_i       (cmd_valid),
    .cmd_ready_o       (cmd_ready),
    .cmd_i             (cmd),
    .name_valid_i      (name_valid),
    .name_ready_o      (name_ready),
    .name_data_i       (name_data),
    .rsp_valid_o       (rsp_valid),
    .rsp_ready_i       (rsp_ready),
    .rsp_o             (rsp),
    .write_valid_i     (write_valid),
    .write_ready_o     (write_ready),
    .write_data_i      (write_data),
    .read_valid_o      (read_valid),
    .read_ready_i      (read_ready),
    .read_data_o       (read_data),
    .read_keep_o       (read_keep),
    .read_last_o       (read_last),
    .host_o            (host),
    .host_write_data_o (host_write),
    .dev_i             (dev),
    .dev_read_data_i   (dev_read)
  );

  // --- The disks ------------------------------------------------------------------------------------
  axi_pkg::manager_t [Disks-1:0] manager;
  axi_pkg::memory_t [Disks-1:0]  memory;
  for (genvar i = 0; i < Disks; i++) begin : gen_port
    assign m_axi_awaddr[i]  = manager[i].aw.address;
    assign m_axi_awlen[i]   = manager[i].aw.len;
    assign m_axi_awsize[i]  = manager[i].aw.size;
    assign m_axi_awburst[i] = 2'b01;    // incrementing
    assign m_axi_awcache[i] = 4'b0011;  // bufferable, not cached
    assign m_axi_awprot[i]  = 3'b000;
    assign m_axi_awvalid[i] = manager[i].aw_valid;
    assign m_axi_wstrb[i]   = '1;
    assign m_axi_wlast[i]   = manager[i].w_last;
    assign m_axi_wvalid[i]  = manager[i].w_valid;
    assign m_axi_bready[i]  = manager[i].b_ready;
    assign m_axi_araddr[i]  = manager[i].ar.address;
    assign m_axi_arlen[i]   = manager[i].ar.len;
    assign m_axi_arsize[i]  = manager[i].ar.size;
    assign m_axi_arburst[i] = 2'b01;
    assign m_axi_arcache[i] = 4'b0011;
    assign m_axi_arprot[i]  = 3'b000;
    assign m_axi_arvalid[i] = manager[i].ar_valid;
    assign m_axi_rready[i]  = manager[i].r_ready;
    assign memory[i] = '{aw_ready: m_axi_awready[i], w_ready: m_axi_wready[i], b_valid: m_axi_bvalid[i],
                         b_resp: axi_pkg::resp_e'(m_axi_bresp[i]), ar_ready: m_axi_arready[i],
                         r_valid: m_axi_rvalid[i], r_resp: axi_pkg::resp_e'(m_axi_rresp[i]), r_last: m_axi_rlast[i]};
  end

  example_disks #(
    .Disks(Disks), .Mirror(Mirror), .Async(Async), .DataWidth(DataWidth), .DiskWidth(DiskWidth), .BlockSizeLog2(BlockSizeLog2),
    .StripeBlocks(StripeBlocks), .DiskBlocks(DiskBlocks), .BaseAddress(BaseAddress), .DiskStride(DiskStride)
  ) u_disks (
    .clk_i            (clk),
    .rst_ni           (rst_n),
    .geometry_o       (geometry),
    .host_i           (host),
    .write_data_i     (host_write),
    .dev_o            (dev),
    .read_data_o      (dev_read),
    .failed_o         (disk_failed),
    .disk_clk_i       (disk_clk),
    .disk_rst_ni      (disk_rst_n),
    .axi_o            (manager),
    .axi_write_data_o (m_axi_wdata),
    .axi_i            (memory),
    .axi_read_data_i  (m_axi_rdata)
  );
endmodule
