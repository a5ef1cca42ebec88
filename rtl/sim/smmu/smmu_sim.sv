// SPDX-License-Identifier: Apache-2.0 OR MIT
// The storage memory management unit on plain pins for a bench that plays the masters of the window, the memory behind both
// manager ports, and with `External` the drive. Otherwise a RAM disk, an array of them (`Disks`), or the Serial ATA host
// (`Sata`), whose drive is the bench's too, is behind it. Checks the block interface between them.
//
// The manager ports have one identifier each. It is on pins for benches whose memories need it.
module smmu_sim
  import block_pkg::*;
#(
  parameter int unsigned PageLog2      = 12,
  parameter int unsigned BlockSizeLog2 = 9,
  parameter int unsigned Frames        = 16,
  parameter int unsigned TlbEntries    = 16,
  parameter int unsigned WindowBits    = 32,
  parameter bit          External      = 1'b1,
  parameter bit          Sata          = 1'b0,
  parameter int unsigned Disks         = 1,
  parameter int unsigned DrivePages    = 64
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  output logic        irq,
  input  logic        away,         // the drive is not ready
  input  logic [3:0]  generation,
  input  logic        read_only,
  output logic [15:0] flushes,

  `AXIL_PINS,

  // The window.
  input  logic [47:0] s_awaddr, s_araddr,
  input  logic [7:0]  s_awlen, s_arlen,
  input  logic [2:0]  s_awsize, s_arsize, s_awcontext, s_arcontext,
  input  logic [1:0]  s_awburst, s_arburst,
  input  logic [3:0]  s_awid, s_arid,
  input  logic        s_awvalid, s_wvalid, s_wlast, s_bready, s_arvalid, s_rready,
  input  logic [31:0] s_wdata,
  input  logic [3:0]  s_wstrb,
  output logic        s_awready, s_wready, s_bvalid, s_arready, s_rvalid, s_rlast,
  output logic [3:0]  s_bid, s_rid,
  output logic [1:0]  s_bresp, s_rresp,
  output logic [31:0] s_rdata,

  // The frames.
  `AXI_PINS(d_),
  output logic [1:0]  d_awburst, d_arburst, m_awburst, m_arburst,
  output logic [3:0]  d_awid, d_arid, m_awid, m_arid,
  input  logic [3:0]  d_bid, d_rid, m_bid, m_rid,

  // Pages and tables.
  `AXI_PINS(m_),

  `SATA_WORD_PINS,

  `BLOCK_DEV_PINS(32)
);
  localparam int unsigned Blocks = DrivePages << (PageLog2 - BlockSizeLog2);
  axil_pkg::manager_t     axil_manager;
  axil_pkg::subordinate_t axil;
  `AXIL_JOIN(axil_manager, axil)

  smmu_pkg::master_t master;
  smmu_pkg::window_t window;
  assign master = '{aw_valid: s_awvalid, aw_id: s_awid, aw_context: s_awcontext,
                    aw: '{address: s_awaddr, len: s_awlen, size: s_awsize, burst: s_awburst},
                    w_valid: s_wvalid, w_last: s_wlast, b_ready: s_bready,
                    ar_valid: s_arvalid, ar_id: s_arid, ar_context: s_arcontext,
                    ar: '{address: s_araddr, len: s_arlen, size: s_arsize, burst: s_arburst}, r_ready: s_rready};
  assign {s_awready, s_wready, s_bvalid, s_bid, s_bresp} =
         {window.aw_ready, window.w_ready, window.b_valid, window.b_id, window.b_resp};
  assign {s_arready, s_rvalid, s_rid, s_rresp, s_rlast} =
         {window.ar_ready, window.r_valid, window.r_id, window.r_resp, window.r_last};

  axi_pkg::manager_t data, move;
  axi_pkg::memory_t  data_memory, move_memory;
  `AXI_JOIN(d_, data, data_memory)
  `AXI_JOIN(m_, move, move_memory)

  assign {m_awburst, m_arburst}           = {smmu_pkg::BurstIncr, smmu_pkg::BurstIncr};
  assign {d_awid, d_arid, m_awid, m_arid} = '0;
  always_ff @(posedge clk_i) begin
    if (rst_ni) a_ids: assert ({d_bvalid ? d_bid : 4'd0, d_rvalid ? d_rid : 4'd0, m_bvalid ? m_bid : 4'd0, m_rvalid ? m_rid : 4'd0} == '0);
  end

  geometry_t device, geometry;
  host_t host;
  dev_t  dev;
  logic [31:0] disk_write, disk_read;
  always_comb begin
    geometry            = device;
    if (!Sata) geometry.generation = generation;
    if (read_only) geometry.read_only = 1'b1;
    if (away) geometry.ready = 1'b0;
  end

  smmu #(
    .PageLog2(PageLog2), .BlockSizeLog2(BlockSizeLog2), .Frames(Frames), .TlbEntries(TlbEntries), .WindowBits(WindowBits)
  ) u_smmu (
    .clk_i, .rst_ni, .axil_i(axil_manager), .axil_o(axil), .irq_o(irq),
    .window_i(master), .window_write_data_i(s_wdata), .window_write_strobe_i(s_wstrb), .window_o(window),
    .window_read_data_o(s_rdata), .data_o(data), .data_aw_burst_o(d_awburst), .data_ar_burst_o(d_arburst),
    .data_write_data_o(d_wdata), .data_write_strobe_o(d_wstrb),
    .data_i(data_memory), .data_read_data_i(d_rdata), .move_o(move), .move_write_data_o(m_wdata),
    .move_write_strobe_o(m_wstrb), .move_i(move_memory), .move_read_data_i(m_rdata), .geometry_i(geometry), .host_o(host),
    .write_data_o(disk_write), .dev_i(dev), .read_data_i(disk_read)
  );

  block_checker #(.DataWidth(32), .BlockSizeLog2(BlockSizeLog2), .TimeoutCycles(200000)) u_check (
    .clk_i, .rst_ni, .geometry_i(geometry), .host_i(host), .write_data_i(disk_write), .dev_i(dev),
    .read_data_i(disk_read), .idle_o()
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) flushes <= '0;
    else if (host.req_valid && dev.req_ready && (host.req.op == OpFlush)) flushes <= flushes + 16'd1;
  end

  drive_sim #(
    .External(External), .Sata(Sata), .Disks(Disks), .DiskBlocks(Blocks / Disks), .BlockSizeLog2(BlockSizeLog2), .Cached(1'b1)
  ) u_drive (
    .*, .geometry_o(device), .front_geometry_i(geometry), .host_i(host), .write_data_i(disk_write), .dev_o(dev),
    .read_data_o(disk_read), .fault_i(1'b0), .fault_address_i('0)
  );
endmodule
