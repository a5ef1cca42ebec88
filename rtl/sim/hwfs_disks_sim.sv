// SPDX-License-Identifier: Apache-2.0 OR MIT
// The file system core on a RAM disk, or an array of them, each on a memory with the model's delays. The bench is
// the application. While `loading` is high the core is in reset and the bench is the disks' host, to load and save
// volumes through the same interface. The bench's pins are registered here, so that one evaluation per cycle is
// enough, which makes the simulation twice as fast.
module hwfs_disks_sim
  import block_pkg::*;
  import hwfs_pkg::*;
#(
  parameter int unsigned Disks           = 1,
  parameter bit          Mirror          = 1'b0,
  parameter int unsigned DataWidth       = 32,
  parameter int unsigned DiskWidth       = 32,
  parameter int unsigned BlockSizeLog2   = 6,
  parameter int unsigned StripeBlocks    = 8,
  parameter int unsigned SlotBlocks      = StripeBlocks,
  parameter int unsigned Slots           = 4,
  parameter int unsigned WritePlaces     = 4,
  parameter int unsigned WriteSlots      = 2,
  parameter int unsigned DiskBlocks      = 65536,
  parameter bit          Cached          = 1'b1,  // the disks report a volatile cache, so the core flushes
  parameter int unsigned ReadLatency     = 0,
  parameter int unsigned ReadRateWords   = 1,
  parameter int unsigned ReadRateCycles  = 1,
  parameter int unsigned WriteLatency    = 0,
  parameter int unsigned WriteRateWords  = 1,
  parameter int unsigned WriteRateCycles = 1,
  parameter int unsigned NodeLog2Max     = 8,
  parameter int unsigned Files           = 4,
  parameter int unsigned IndexSlots      = 1024,
  parameter int unsigned Outstanding     = 2,
  parameter int unsigned TimeoutCycles   = 1000000,
  parameter int unsigned ProgramLog2     = 12
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic loading,
  output logic [47:0] block_count,
  output logic ready,
  output logic idle,
  input  logic [Disks-1:0] fault,  // this disk's memory fails the bursts that touch `fault_address`
  input  logic [47:0] fault_address,
  output logic [Disks-1:0] failed,
  // Requests of the core that the disks have taken: reads of nodes (by their tags) and of data, writes, flushes.
  output logic [31:0] loads,
  output logic [31:0] fetches,
  output logic [31:0] writes,
  output logic [31:0] flushes,

  `HWFS_APP_PINS(DataWidth),

  // The bench as host.
  `BLOCK_HOST_PINS(DataWidth)
);
  // --- The bench's pins, registered ------------------------------------------------------------------
  typedef struct packed {
    logic                 loading;
    logic [Disks-1:0]     fault;
    logic [47:0]          fault_address;
    logic                 cmd_valid;
    cmd_t                 cmd;
    logic                 name_valid;
    logic [31:0]          name_data;
    logic                 answer_ready;
    logic                 give_valid;
    logic [DataWidth-1:0] give_data;
    logic                 take_ready;
    host_t                host;
    logic [DataWidth-1:0] write_data;
  } driven_t;
  driven_t pins, in;
  host_t host, pins_host, core_host;
  dev_t  dev, core_dev, bench_dev;
  block_pins_host u_pins (.*, .cancel(1'b0), .host_o(pins_host), .dev_i(bench_dev));

  assign pins = '{
    loading: loading, fault: fault, fault_address: fault_address, cmd_valid: cmd_valid,
    cmd: `HWFS_APP_COMMAND,
    name_valid: name_valid, name_data: name_data, answer_ready: answer_ready, give_valid: give_valid,
    give_data: give_data, take_ready: take_ready, host: pins_host, write_data: write_data
  };
  always_ff @(posedge clk_i) in <= pins;

  // --- The disks' host: the core or the bench -----------------------------------------------------
  logic [DataWidth-1:0] host_write, core_write, dev_read;
  geometry_t geometry, disks_geometry;
  logic core_rst_n;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) core_rst_n <= 1'b0;
    else         core_rst_n <= ~loading;
  end

  assign host       = in.loading ? in.host : core_host;
  assign host_write = in.loading ? in.write_data : core_write;
  assign core_dev   = in.loading ? '0 : dev;
  assign bench_dev  = in.loading ? dev : '0;
  assign read_data  = dev_read;
  assign block_count = geometry.block_count;
  assign ready       = geometry.ready;

  always_comb begin
    geometry                      = disks_geometry;
    geometry.volatile_write_cache = Cached;
  end

  block_checker #(.DataWidth(DataWidth), .BlockSizeLog2(BlockSizeLog2), .TimeoutCycles(TimeoutCycles)) u_check (
    .clk_i, .rst_ni, .geometry_i(geometry), .host_i(host), .write_data_i(host_write), .dev_i(dev),
    .read_data_i(dev_read), .idle_o(idle)
  );

  fs_rsp_t rsp;
  assign answer_status = rsp.status;
  assign answer_value  = rsp.value;

  hwfs #(
    .DataWidth(DataWidth), .BlockSizeLog2(BlockSizeLog2), .NodeLog2Max(NodeLog2Max), .Files(Files),
    .IndexSlots(IndexSlots), .Outstanding(Outstanding), .TimeoutCycles(TimeoutCycles),
    .ProgramLog2(ProgramLog2)
  ) u_hwfs (
    .clk_i,
    .rst_ni            (core_rst_n),
    .geometry_i        (geometry),
    .cmd_valid_i       (in.cmd_valid),
    .cmd_ready_o       (cmd_ready),
    .cmd_i             (in.cmd),
    .name_valid_i      (in.name_valid),
    .name_ready_o      (name_ready),
    .name_data_i       (in.name_data),
    .rsp_valid_o       (answer_valid),
    .rsp_ready_i       (in.answer_ready),
    .rsp_o             (rsp),
    .write_valid_i     (in.give_valid),
    .write_ready_o     (give_ready),
    .write_data_i      (in.give_data),
    .read_valid_o      (take_valid),
    .read_ready_i      (in.take_ready),
    .read_data_o       (take_data),
    .read_keep_o       (take_keep),
    .read_last_o       (take_last),
    .host_o            (core_host),
    .host_write_data_o (core_write),
    .dev_i             (core_dev),
    .dev_read_data_i   (dev_read)
  );

  logic core_taken;
  assign core_taken = core_host.req_valid & core_dev.req_ready;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      loads   <= '0;
      fetches <= '0;
      writes  <= '0;
      flushes <= '0;
    end else if (core_taken) begin
      unique case (core_host.req.op)
        OpRead:  if (core_host.req.tag[4]) fetches <= fetches + 32'd1;
                 else                      loads <= loads + 32'd1;
        OpWrite: writes <= writes + 32'd1;
        default: flushes <= flushes + 32'd1;
      endcase
    end
  end

  ramdisks #(
    .Disks(Disks), .Mirror(Mirror), .UpWidth(DataWidth), .DiskWidth(DiskWidth), .BlockSizeLog2(BlockSizeLog2),
    .StripeBlocks(StripeBlocks), .SlotBlocks(SlotBlocks), .Slots(Slots), .WritePlaces(WritePlaces),
    .WriteSlots(WriteSlots), .DiskBlocks(DiskBlocks), .ReadLatency(ReadLatency), .ReadRateWords(ReadRateWords),
    .ReadRateCycles(ReadRateCycles), .WriteLatency(WriteLatency), .WriteRateWords(WriteRateWords),
    .WriteRateCycles(WriteRateCycles)
  ) u_disks (
    .clk_i,
    .rst_ni,
    .geometry_o      (disks_geometry),
    .host_i          (host),
    .write_data_i    (host_write),
    .dev_o           (dev),
    .read_data_o     (dev_read),
    .fault_i         (in.fault),
    .fault_address_i (in.fault_address),
    .failed_o        (failed)
  );
endmodule
