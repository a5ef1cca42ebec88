// One RAM disk, or an array of them, each on its own memory with the model's delays, on pins for a
// test bench that plays the host. Every interface is checked.
module ramdisk_sim
  import block_pkg::*;
#(
  parameter int unsigned Disks           = 1,
  parameter int unsigned UpWidth         = 32,
  parameter int unsigned DiskWidth       = 32,
  parameter int unsigned BlockSizeLog2   = 6,
  parameter int unsigned StripeBlocks    = 8,
  parameter int unsigned DiskBlocks      = 16384,
  parameter int unsigned ReadLatency     = 0,
  parameter int unsigned ReadRateWords   = 1,
  parameter int unsigned ReadRateCycles  = 1,
  parameter int unsigned WriteLatency    = 0,
  parameter int unsigned WriteRateWords  = 1,
  parameter int unsigned WriteRateCycles = 1,
  parameter int unsigned TimeoutCycles   = 20000
) (
  input  logic clk_i,
  input  logic rst_ni,
  output logic [47:0] block_count,
  output logic idle,
  input  logic [Disks-1:0] fault,
  input  logic [47:0] fault_address,

  input  logic        req_valid,
  input  logic [1:0]  req_op,
  input  logic        req_fua,
  input  logic [4:0]  req_tag,
  input  logic [47:0] req_lba,
  input  logic [23:0] req_count,
  input  logic        write_valid,
  input  logic [4:0]  write_tag,
  input  logic        write_last,
  input  logic        read_ready,
  input  logic        rsp_ready,
  input  logic [UpWidth-1:0] write_data,
  output logic        req_ready,
  output logic        write_ready,
  output logic        read_valid,
  output logic [4:0]  read_tag,
  output logic        read_last,
  output logic        rsp_valid,
  output logic [4:0]  rsp_tag,
  output logic [3:0]  rsp_status,
  output logic [15:0] rsp_detail,
  output logic [UpWidth-1:0] read_data
);
  host_t host;
  dev_t  dev;
  block_pins_host u_pins (.*, .host_o(host), .dev_i(dev));

  block_checker #(.DataWidth(UpWidth), .BlockSizeLog2(BlockSizeLog2), .TimeoutCycles(TimeoutCycles)) u_check (
    .clk_i,
    .rst_ni,
    .host_i       (host),
    .write_data_i (write_data),
    .dev_i        (dev),
    .read_data_i  (read_data),
    .idle_o       (idle)
  );

  geometry_t [Disks-1:0] disk_geometry;
  host_t [Disks-1:0] disk_host;
  dev_t [Disks-1:0] disk_dev;
  logic [Disks-1:0][DiskWidth-1:0] disk_writes, disk_reads;

  for (genvar i = 0; i < Disks; i++) begin : gen_disk
    axi_pkg::manager_t manager;
    axi_pkg::memory_t memory;
    logic [DiskWidth-1:0] axi_write, axi_read;

    ramdisk #(.DataWidth(DiskWidth), .BlockSizeLog2(BlockSizeLog2), .BlockCount(lba_t'(DiskBlocks))) u_ramdisk (
      .clk_i,
      .rst_ni,
      .geometry_o       (disk_geometry[i]),
      .host_i           (disk_host[i]),
      .write_data_i     (disk_writes[i]),
      .dev_o            (disk_dev[i]),
      .read_data_o      (disk_reads[i]),
      .axi_o            (manager),
      .axi_write_data_o (axi_write),
      .axi_i            (memory),
      .axi_read_data_i  (axi_read)
    );

    axi_memory #(
      .DataWidth(DiskWidth), .SizeBytes(DiskBlocks << BlockSizeLog2), .ReadLatency(ReadLatency),
      .ReadRateWords(ReadRateWords), .ReadRateCycles(ReadRateCycles), .WriteLatency(WriteLatency),
      .WriteRateWords(WriteRateWords), .WriteRateCycles(WriteRateCycles)
    ) u_memory (
      .clk_i,
      .rst_ni,
      .axi_i           (manager),
      .write_data_i    (axi_write),
      .axi_o           (memory),
      .read_data_o     (axi_read),
      .fault_i         (fault[i]),
      .fault_address_i (fault_address)
    );
  end

  if (Disks == 1) begin : gen_one
    assign block_count  = disk_geometry[0].block_count;
    assign disk_host[0] = host;
    assign disk_writes  = write_data;
    assign dev          = disk_dev[0];
    assign read_data    = disk_reads;
  end else begin : gen_array
    geometry_t geometry;
    assign block_count = geometry.block_count;
    raid0 #(
      .Disks(Disks), .UpWidth(UpWidth), .DiskWidth(DiskWidth), .BlockSizeLog2(BlockSizeLog2),
      .StripeBlocks(StripeBlocks), .SlotBlocks(StripeBlocks)
    ) u_raid0 (
      .clk_i,
      .rst_ni,
      .geometry_o        (geometry),
      .host_i            (host),
      .write_data_i      (write_data),
      .dev_o             (dev),
      .read_data_o       (read_data),
      .enable_i          ('1),
      .failed_o          (),
      .error_o           (),
      .disk_clk_i        ('0),
      .disk_rst_ni       ('0),
      .disk_geometry_i   (disk_geometry),
      .disk_host_o       (disk_host),
      .disk_write_data_o (disk_writes),
      .disk_dev_i        (disk_dev),
      .disk_read_data_i  (disk_reads)
    );
  end
endmodule
