// RAM disks, each on a memory with the model's delays, as one block device: a single disk, or an array of several.
module ramdisks
  import block_pkg::*;
#(
  parameter int unsigned Disks           = 1,
  parameter bit          Mirror          = 1'b0,
  parameter int unsigned UpWidth         = 32,
  parameter int unsigned DiskWidth       = 32,
  parameter int unsigned BlockSizeLog2   = 6,
  parameter int unsigned StripeBlocks    = 8,
  parameter int unsigned SlotBlocks      = StripeBlocks,
  parameter int unsigned Slots           = 4,
  parameter int unsigned WritePlaces     = 4,
  parameter int unsigned WriteSlots      = 2,
  parameter int unsigned DiskBlocks      = 16384,
  parameter int unsigned ReadLatency     = 0,
  parameter int unsigned ReadRateWords   = 1,
  parameter int unsigned ReadRateCycles  = 1,
  parameter int unsigned WriteLatency    = 0,
  parameter int unsigned WriteRateWords  = 1,
  parameter int unsigned WriteRateCycles = 1
) (
  input  logic               clk_i,
  input  logic               rst_ni,
  output geometry_t          geometry_o,
  input  host_t              host_i,
  input  logic [UpWidth-1:0] write_data_i,
  output dev_t               dev_o,
  output logic [UpWidth-1:0] read_data_o,
  input  logic [Disks-1:0]   fault_i,  // this disk's memory fails the bursts that touch `fault_address_i`
  input  logic [47:0]        fault_address_i,
  output logic [Disks-1:0]   failed_o
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
      .DataWidth(DiskWidth), .MemoryWidth(DiskWidth), .SizeBytes(DiskBlocks << BlockSizeLog2),
      .ReadLatency(ReadLatency), .ReadRateWords(ReadRateWords), .ReadRateCycles(ReadRateCycles),
      .WriteLatency(WriteLatency), .WriteRateWords(WriteRateWords), .WriteRateCycles(WriteRateCycles)
    ) u_memory (
      .clk_i,
      .rst_ni,
      .axi_i           (manager),
      .write_data_i    (axi_write),
      .axi_o           (memory),
      .read_data_o     (axi_read),
      .fault_i         (fault_i[i]),
      .fault_address_i (fault_address_i)
    );
  end

  if (Disks == 1) begin : gen_one
    assign geometry_o   = disk_geometry[0];
    assign disk_host[0] = host_i;
    assign disk_writes  = write_data_i;
    assign dev_o        = disk_dev[0];
    assign read_data_o  = disk_reads;
    assign failed_o     = '0;
  end else begin : gen_array
    raid0 #(
      .Disks(Disks), .Mirror(Mirror), .UpWidth(UpWidth), .DiskWidth(DiskWidth), .BlockSizeLog2(BlockSizeLog2),
      .StripeBlocks(StripeBlocks), .SlotBlocks(SlotBlocks), .Slots(Slots), .WritePlaces(WritePlaces),
      .WriteSlots(WriteSlots)
    ) u_raid0 (
      .clk_i,
      .rst_ni,
      .geometry_o,
      .host_i,
      .write_data_i,
      .dev_o,
      .read_data_o,
      .enable_i          ('1),
      .resync_i          (1'b0),
      .failed_o,
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
