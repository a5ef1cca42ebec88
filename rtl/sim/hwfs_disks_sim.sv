// The file system core on real storage: one RAM disk, or an array of them, each on a memory with the model's
// delays. The application is a bench. While `loading`, the core is in reset and the bench is the host instead:
// so a volume comes onto the disks and leaves them through the same interface. The bench's pins are registered
// here: one evaluation a cycle then settles everything, which makes the simulation twice as fast.
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
  parameter bit          Cached          = 1'b1,  // the disks say that they have a volatile cache: flushes count
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
  parameter int unsigned TimeoutCycles   = 1000000
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic loading,
  output logic [47:0] block_count,
  output logic idle,
  input  logic [Disks-1:0] fault,  // this disk's memory fails the bursts that touch `fault_address`
  input  logic [47:0] fault_address,
  output logic [Disks-1:0] failed,
  // Requests of the core that the disks took: reads of nodes (by their tags) and of data, writes, flushes.
  output logic [31:0] loads,
  output logic [31:0] fetches,
  output logic [31:0] writes,
  output logic [31:0] flushes,

  input  logic        cmd_valid,
  output logic        cmd_ready,
  input  logic [3:0]  cmd_op,
  input  logic [3:0]  cmd_flags,
  input  logic [2:0]  cmd_file,
  input  logic [6:0]  cmd_name_bytes,
  input  logic [6:0]  cmd_name2_bytes,
  input  logic [63:0] cmd_offset,
  input  logic [63:0] cmd_length,
  input  logic        name_valid,
  output logic        name_ready,
  input  logic [31:0] name_data,
  output logic        answer_valid,
  input  logic        answer_ready,
  output logic [5:0]  answer_status,
  output logic [63:0] answer_value,
  input  logic        give_valid,
  output logic        give_ready,
  input  logic [DataWidth-1:0] give_data,
  output logic        take_valid,
  input  logic        take_ready,
  output logic [DataWidth-1:0] take_data,
  output logic [DataWidth/8-1:0] take_keep,
  output logic        take_last,

  // The bench as host.
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
  input  logic [DataWidth-1:0] write_data,
  output logic        req_ready,
  output logic        write_ready,
  output logic        read_valid,
  output logic [4:0]  read_tag,
  output logic        read_last,
  output logic        rsp_valid,
  output logic [4:0]  rsp_tag,
  output logic [3:0]  rsp_status,
  output logic [15:0] rsp_detail,
  output logic [DataWidth-1:0] read_data
);
  // --- The bench's pins, a cycle later ---------------------------------------------------------------
  logic loading_q;
  logic [Disks-1:0] fault_q;
  logic [47:0] fault_address_q;
  logic cmd_valid_q;
  logic [3:0] cmd_op_q;
  logic [3:0] cmd_flags_q;
  logic [2:0] cmd_file_q;
  logic [6:0] cmd_name_bytes_q;
  logic [6:0] cmd_name2_bytes_q;
  logic [63:0] cmd_offset_q;
  logic [63:0] cmd_length_q;
  logic name_valid_q;
  logic [31:0] name_data_q;
  logic answer_ready_q;
  logic give_valid_q;
  logic [DataWidth-1:0] give_data_q;
  logic take_ready_q;
  logic req_valid_q;
  logic [1:0] req_op_q;
  logic req_fua_q;
  logic [4:0] req_tag_q;
  logic [47:0] req_lba_q;
  logic [23:0] req_count_q;
  logic write_valid_q;
  logic [4:0] write_tag_q;
  logic write_last_q;
  logic read_ready_q;
  logic rsp_ready_q;
  logic [DataWidth-1:0] write_data_q;
  always_ff @(posedge clk_i) begin
    loading_q <= loading;
    fault_q <= fault;
    fault_address_q <= fault_address;
    cmd_valid_q <= cmd_valid;
    cmd_op_q <= cmd_op;
    cmd_flags_q <= cmd_flags;
    cmd_file_q <= cmd_file;
    cmd_name_bytes_q <= cmd_name_bytes;
    cmd_name2_bytes_q <= cmd_name2_bytes;
    cmd_offset_q <= cmd_offset;
    cmd_length_q <= cmd_length;
    name_valid_q <= name_valid;
    name_data_q <= name_data;
    answer_ready_q <= answer_ready;
    give_valid_q <= give_valid;
    give_data_q <= give_data;
    take_ready_q <= take_ready;
    req_valid_q <= req_valid;
    req_op_q <= req_op;
    req_fua_q <= req_fua;
    req_tag_q <= req_tag;
    req_lba_q <= req_lba;
    req_count_q <= req_count;
    write_valid_q <= write_valid;
    write_tag_q <= write_tag;
    write_last_q <= write_last;
    read_ready_q <= read_ready;
    rsp_ready_q <= rsp_ready;
    write_data_q <= write_data;
  end

  // --- The core, or the bench, before the disks ---------------------------------------------------
  host_t host, core_host, bench_host;
  dev_t  dev, core_dev, bench_dev;
  logic [DataWidth-1:0] host_write, core_write, dev_read;
  geometry_t geometry, disks_geometry;
  logic core_rst_n;

  block_pins_host u_pins (
    .req_valid(req_valid_q), .req_fua(req_fua_q), .write_valid(write_valid_q), .write_last(write_last_q),
    .read_ready(read_ready_q), .rsp_ready(rsp_ready_q), .req_op(req_op_q), .req_tag(req_tag_q),
    .write_tag(write_tag_q), .req_lba(req_lba_q), .req_count(req_count_q), .req_ready, .write_ready, .read_valid,
    .read_last, .rsp_valid, .read_tag, .rsp_tag, .rsp_status, .rsp_detail, .host_o(bench_host), .dev_i(bench_dev)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) core_rst_n <= 1'b0;
    else         core_rst_n <= ~loading;
  end

  assign host       = loading_q ? bench_host : core_host;
  assign host_write = loading_q ? write_data_q : core_write;
  assign core_dev   = loading_q ? '0 : dev;
  assign bench_dev  = loading_q ? dev : '0;
  assign read_data  = dev_read;
  assign block_count = geometry.block_count;

  always_comb begin
    geometry                      = disks_geometry;
    geometry.volatile_write_cache = Cached;
  end

  block_checker #(.DataWidth(DataWidth), .BlockSizeLog2(BlockSizeLog2), .TimeoutCycles(TimeoutCycles)) u_check (
    .clk_i, .rst_ni, .host_i(host), .write_data_i(host_write), .dev_i(dev), .read_data_i(dev_read), .idle_o(idle)
  );

  cmd_t cmd;
  assign cmd = '{op: cmd_op_e'(cmd_op_q), flags: cmd_flags_q, file: cmd_file_q, name_bytes: cmd_name_bytes_q,
                 name2_bytes: cmd_name2_bytes_q, offset: cmd_offset_q, length: cmd_length_q};
  fs_rsp_t rsp;
  assign answer_status = rsp.status;
  assign answer_value  = rsp.value;

  hwfs #(
    .DataWidth(DataWidth), .BlockSizeLog2(BlockSizeLog2), .NodeLog2Max(NodeLog2Max), .Files(Files),
    .IndexSlots(IndexSlots), .Outstanding(Outstanding), .TimeoutCycles(TimeoutCycles)
  ) u_hwfs (
    .clk_i,
    .rst_ni            (core_rst_n),
    .geometry_i        (geometry),
    .cmd_valid_i       (cmd_valid_q),
    .cmd_ready_o       (cmd_ready),
    .cmd_i             (cmd),
    .name_valid_i      (name_valid_q),
    .name_ready_o      (name_ready),
    .name_data_i       (name_data_q),
    .rsp_valid_o       (answer_valid),
    .rsp_ready_i       (answer_ready_q),
    .rsp_o             (rsp),
    .write_valid_i     (give_valid_q),
    .write_ready_o     (give_ready),
    .write_data_i      (give_data_q),
    .read_valid_o      (take_valid),
    .read_ready_i      (take_ready_q),
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

  // --- The disks ----------------------------------------------------------------------------------
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
      .fault_i         (fault_q[i]),
      .fault_address_i (fault_address_q)
    );
  end

  if (Disks == 1) begin : gen_one
    assign disks_geometry = disk_geometry[0];
    assign disk_host[0]   = host;
    assign disk_writes    = host_write;
    assign dev            = disk_dev[0];
    assign dev_read       = disk_reads;
    assign failed         = '0;
  end else begin : gen_array
    raid0 #(
      .Disks(Disks), .Mirror(Mirror), .UpWidth(DataWidth), .DiskWidth(DiskWidth), .BlockSizeLog2(BlockSizeLog2),
      .StripeBlocks(StripeBlocks), .SlotBlocks(SlotBlocks), .Slots(Slots), .WritePlaces(WritePlaces),
      .WriteSlots(WriteSlots)
    ) u_raid0 (
      .clk_i,
      .rst_ni,
      .geometry_o        (disks_geometry),
      .host_i            (host),
      .write_data_i      (host_write),
      .dev_o             (dev),
      .read_data_o       (dev_read),
      .enable_i          ('1),
      .failed_o          (failed),
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
