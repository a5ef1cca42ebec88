// SPDX-License-Identifier: Apache-2.0 OR MIT
// The virtio-blk device on plain pins for a bench that plays the driver and its memory. Behind it: a RAM disk or an
// array of them (`Disks`), the Serial ATA host (`Sata`), whose drive is the bench's too, or a block device that the bench
// plays (`External`). Checks the block interface between them.
module virtio_sim
  import block_pkg::*;
#(
  parameter int unsigned Requests      = 1,
  parameter int unsigned Queues        = 1,
  parameter int unsigned QueueSize     = 128,
  parameter int unsigned BlockSizeLog2 = 9,
  parameter int unsigned Disks         = 1,
  parameter int unsigned DiskBlocks    = 1024,
  parameter bit          Sata          = 1'b0,
  parameter bit          External      = 1'b0,
  parameter int unsigned MaxTransfer   = 0,    // blocks; 0: the device's own
  parameter bit          Cached        = 1'b0, // the device reports a volatile cache
  parameter int unsigned TimeoutCycles = 20000
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  output logic        irq,
  output logic        idle,         // no chain is under way, nor one from before a reset, and no notification waits
  output logic [15:0] flushes,      // flushes that the backing device has taken
  // Where the core stands, for who looks at one that is stuck.
  output logic        resetting,
  output logic        ready,        // the backing device is
  output logic [5:0]  under_way,    // requests at the backing device
  output logic [3:0]  ring_state,
  output logic [7:0]  notified,     // queues whose notification waits
  input  logic        fault,        // the RAM disks' memory fails bursts that touch `fault_address`
  input  logic [47:0] fault_address,
  input  logic        away,         // the backing device reports that it is not ready
  input  logic [3:0]  generation,

  `AXIL_PINS,

  `AXI_PINS(m_),

  `SATA_WORD_PINS,

  `BLOCK_DEV_PINS(32)
);
  axil_pkg::manager_t     axil_manager;
  axil_pkg::subordinate_t axil;
  `AXIL_JOIN(axil_manager, axil)

  axi_pkg::manager_t manager;
  axi_pkg::memory_t  memory;
  `AXI_JOIN(m_, manager, memory)

  geometry_t device, geometry;
  host_t host;
  dev_t  dev;
  logic [31:0] disk_write, disk_read;
  logic disk_idle;

  always_comb begin
    geometry = device;
    if (MaxTransfer != 0) geometry.max_transfer_blocks = count_t'(MaxTransfer);
    if (Cached) geometry.volatile_write_cache = 1'b1;
    if (away) geometry.ready = 1'b0;
    if (!Sata) geometry.generation = generation;
  end

  virtio_blk #(
    .Requests(Requests), .Queues(Queues), .QueueSize(QueueSize), .BlockSizeLog2(BlockSizeLog2)
  ) u_virtio (
    .clk_i, .rst_ni, .axil_i(axil_manager), .axil_o(axil), .irq_o(irq),
    .axi_o(manager), .axi_write_data_o(m_wdata), .axi_write_strobe_o(m_wstrb), .axi_i(memory), .axi_read_data_i(m_rdata),
    .geometry_i(geometry), .host_o(host), .write_data_o(disk_write), .dev_i(dev), .read_data_i(disk_read)
  );
  assign idle = u_virtio.idle & ~u_virtio.reset & ((u_virtio.u_ring.kicked_q == '0) | ~u_virtio.run);

  block_checker #(
    .DataWidth(32), .BlockSizeLog2(BlockSizeLog2), .TimeoutCycles(4 * TimeoutCycles + 100000)
  ) u_check (
    .clk_i, .rst_ni, .geometry_i(geometry), .host_i(host), .write_data_i(disk_write), .dev_i(dev),
    .read_data_i(disk_read), .idle_o(disk_idle)
  );

  assign resetting  = u_virtio.reset;
  assign ready      = geometry.ready;
  assign ring_state = u_virtio.u_ring.state_q;
  assign notified   = 8'(u_virtio.u_ring.kicked_q);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      flushes   <= '0;
      under_way <= '0;
    end else begin
      if (host.req_valid && dev.req_ready && (host.req.op == OpFlush)) flushes <= flushes + 16'd1;
      under_way <= under_way + 6'(host.req_valid & dev.req_ready) - 6'(dev.rsp_valid & host.rsp_ready);
    end
  end

  drive_sim #(
    .External(External), .Sata(Sata), .Disks(Disks), .DiskBlocks(DiskBlocks), .BlockSizeLog2(BlockSizeLog2), .Cached(Cached),
    .WriteZeroes(1'b1), .TimeoutCycles(TimeoutCycles)
  ) u_drive (
    .*, .geometry_o(device), .front_geometry_i(device), .host_i(host), .write_data_i(disk_write), .dev_o(dev),
    .read_data_o(disk_read), .fault_i(fault), .fault_address_i(fault_address)
  );
endmodule
