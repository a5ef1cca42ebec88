// SPDX-License-Identifier: Apache-2.0 OR MIT
// The whole system: a head node (the file system core, an array, the initiators, and with a width of 32 bits the seed scan) and eight disk
// nodes, of which one, four or eight are the array, on the network that the bench chooses. The bench gives commands, and is the
// application and the processor at the scan's registers. Its pins are registered here: one evaluation per cycle is enough.
module system_sim
  import block_pkg::*;
  import hwfs_pkg::*;
#(
  parameter int unsigned DataWidth     = 32,
  parameter int unsigned Lanes         = 8,
  parameter int unsigned DiskBlocks    = 2048,
  parameter int unsigned StripeBlocks  = 8,
  parameter int unsigned RetryTicks    = 40,  // of 256 cycles: longer than four frames of a disk that takes nine cycles for a word
  parameter int unsigned TimeoutCycles = 1_000_000
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  // Constant while `rst_ni` is high, but for `power`.
  input  logic [1:0]  network,      // 0 none (local RAM disks), 1 a line to the first disk, 2 torus, 3 tree
  input  logic [3:0]  disks,        // 1, 4, 8
  input  logic [7:0]  word_cycles,  // of the disks' memories
  input  logic [7:0]  power,        // of each disk node
  input  logic        scan,         // what the file system core reads goes to the seed scan
  output logic        ready,
  output logic        idle,
  output logic        deflected,
  output logic [7:0]  sent, again, head_dropped, disk_dropped,

  `AXIL_PINS,

  `HWFS_APP_PINS(DataWidth)
);
  localparam int unsigned Ways = 4, Ports = 2, Disks = Ways * Ports;
  localparam int unsigned FlitWidth = 32 * Lanes + $clog2(Lanes) + 2;

  // --- The bench's pins, registered ------------------------------------------------------------------
  typedef struct packed {
    logic [7:0]           power;
    logic                 scan;
    axil_pkg::manager_t   axil;
    logic                 cmd_valid;
    cmd_t                 cmd;
    logic                 name_valid;
    logic [31:0]          name_data;
    logic                 answer_ready;
    logic                 give_valid;
    logic [DataWidth-1:0] give_data;
    logic                 take_ready;
  } driven_t;
  driven_t in;
  axil_pkg::manager_t     to_scan;
  axil_pkg::subordinate_t from_scan;
  `AXIL_JOIN(to_scan, from_scan)

  always_ff @(posedge clk_i) begin
    in <= '{power: power, scan: scan, axil: to_scan, cmd_valid: cmd_valid, cmd: `HWFS_APP_COMMAND, name_valid: name_valid,
            name_data: name_data, answer_ready: answer_ready, give_valid: give_valid, give_data: give_data, take_ready: take_ready};
  end

  // --- The head: file system and scan ---------------------------------------------------------------
  geometry_t geometry;
  host_t     host;
  dev_t      dev;
  fs_rsp_t   rsp;
  logic [DataWidth-1:0] write_data, read_data;
  logic read_valid, scan_ready;
  assign answer_status = rsp.status;
  assign answer_value  = rsp.value;
  assign ready         = geometry.ready;
  assign take_valid    = read_valid & ~in.scan;

  hwfs #(
    .DataWidth(DataWidth), .BlockSizeLog2(9), .Outstanding(8), .TimeoutCycles(TimeoutCycles)
  ) u_hwfs (
    .clk_i, .rst_ni, .geometry_i(geometry), .cmd_valid_i(in.cmd_valid), .cmd_ready_o(cmd_ready), .cmd_i(in.cmd),
    .name_valid_i(in.name_valid), .name_ready_o(name_ready), .name_data_i(in.name_data), .rsp_valid_o(answer_valid),
    .rsp_ready_i(in.answer_ready), .rsp_o(rsp), .write_valid_i(in.give_valid), .write_ready_o(give_ready),
    .write_data_i(in.give_data), .read_valid_o(read_valid), .read_ready_i(in.scan ? scan_ready : in.take_ready),
    .read_data_o(take_data), .read_keep_o(take_keep), .read_last_o(take_last), .host_o(host), .host_write_data_o(write_data),
    .dev_i(dev), .dev_read_data_i(read_data)
  );
  block_checker #(.DataWidth(DataWidth), .TimeoutCycles(TimeoutCycles)) u_check (
    .clk_i, .rst_ni, .geometry_i(geometry), .host_i(host), .write_data_i(write_data), .dev_i(dev), .read_data_i(read_data),
    .idle_o(idle)
  );

  if (DataWidth == 32) begin : gen_scan
    blastn u_blastn (
      .clk_i, .rst_ni, .axil_i(in.axil), .axil_o(from_scan), .valid_i(read_valid & in.scan), .ready_o(scan_ready),
      .data_i(take_data), .keep_i(take_keep), .last_i(take_last)
    );
  end else begin : gen_no_scan
    logic unused;
    assign from_scan  = '0;
    assign scan_ready = 1'b1;
    assign unused     = ^in.axil;
  end

  // --- The head: an array of one, four or eight disks -----------------------------------------------
  geometry_t [Disks-1:0] disk_geometry;
  host_t [Disks-1:0]     disk_host;
  dev_t [Disks-1:0]      disk_dev;
  logic [Disks-1:0][31:0] disk_writes, disk_reads;
  // By the logarithm of their number of disks. Selected by constants, so that Verilator orders the fields separately.
  geometry_t            array_geometry [4];
  dev_t                 array_dev      [4];
  logic [DataWidth-1:0] array_reads    [4];
  host_t [Disks-1:0]    array_host     [4];
  logic [Disks-1:0][31:0] array_writes [4];
  logic [3:0] chosen;
  assign chosen      = {disks[3], disks[2], 1'b0, disks[0]};
  assign geometry    = chosen[3] ? array_geometry[3] : chosen[2] ? array_geometry[2] : array_geometry[0];
  assign dev         = chosen[3] ? array_dev[3] : chosen[2] ? array_dev[2] : array_dev[0];
  assign read_data   = chosen[3] ? array_reads[3] : chosen[2] ? array_reads[2] : array_reads[0];
  assign disk_host   = chosen[3] ? array_host[3] : chosen[2] ? array_host[2] : array_host[0];
  assign disk_writes = chosen[3] ? array_writes[3] : chosen[2] ? array_writes[2] : array_writes[0];

  for (genvar log2 = 0; log2 < 4; log2++) begin : gen_array
    localparam int unsigned Number = 1 << log2;
    if (log2 != 1) begin : gen_raid0
      raid0 #(
        .Disks(Number), .UpWidth(DataWidth), .DiskWidth(32), .StripeBlocks(StripeBlocks), .SlotBlocks(StripeBlocks), .Slots(8)
      ) u_raid0 (
        .clk_i, .rst_ni(rst_ni & chosen[log2]), .geometry_o(array_geometry[log2]), .host_i(host),
        .write_data_i(write_data), .dev_o(array_dev[log2]), .read_data_o(array_reads[log2]), .enable_i('1), .resync_i(1'b0),
        .failed_o(), .error_o(), .disk_clk_i('0), .disk_rst_ni('0), .disk_geometry_i(disk_geometry[Number-1:0]),
        .disk_host_o(array_host[log2][Number-1:0]), .disk_write_data_o(array_writes[log2][Number-1:0]),
        .disk_dev_i(disk_dev[Number-1:0]), .disk_read_data_i(disk_reads[Number-1:0])
      );
      if (Number < Disks) begin : gen_rest
        assign array_host[log2][Disks-1:Number]   = '0;
        assign array_writes[log2][Disks-1:Number] = '0;
      end
    end
  end

  // --- Ports, network, disk nodes -------------------------------------------------------------------
  logic is_local;
  logic head_tx_valid [Ports], head_tx_ready [Ports], head_rx_valid [Ports], head_rx_ready [Ports];
  logic [1:0]           head_tx_to [Ports], head_rx_from [Ports];
  logic [FlitWidth-1:0] head_tx_flit [Ports], head_rx_flit [Ports], disk_tx_flit [Disks], disk_rx_flit [Disks];
  logic disk_tx_valid [Disks], disk_tx_ready [Disks], disk_rx_valid [Disks], disk_rx_ready [Disks];
  geometry_t [Disks-1:0]  port_geometry, node_geometry;
  host_t [Disks-1:0]      port_host, node_host;
  dev_t [Disks-1:0]       port_dev, node_dev;
  logic [Disks-1:0][31:0] port_reads, node_reads;
  assign is_local = network == 2'd0;

  for (genvar port = 0; port < Ports; port++) begin : gen_port
    system_head_port #(
      .Disks(Ways), .FirstNumber(port * Ways), .Lanes(Lanes), .Slots(4), .Tries(2), .TickLog2(8), .RetryTicks(RetryTicks), .LifeTicks(RetryTicks)
    ) u_port (
      .clk_i, .rst_ni, .geometry_o(port_geometry[port*Ways +: Ways]), .host_i(port_host[port*Ways +: Ways]),
      .write_data_i(disk_writes[port*Ways +: Ways]), .dev_o(port_dev[port*Ways +: Ways]), .read_data_o(port_reads[port*Ways +: Ways]),
      .tx_valid_o(head_tx_valid[port]), .tx_ready_i(head_tx_ready[port]), .tx_to_o(head_tx_to[port]),
      .tx_flit_o(head_tx_flit[port]), .rx_valid_i(head_rx_valid[port]), .rx_ready_o(head_rx_ready[port]),
      .rx_from_i(head_rx_from[port]), .rx_flit_i(head_rx_flit[port]), .sent_o(sent[port*Ways +: Ways]),
      .again_o(again[port*Ways +: Ways]), .dropped_o(head_dropped[port*Ways +: Ways])
    );
  end

  system_network #(.Ways(Ways), .Ports(Ports), .Width(FlitWidth)) u_network (
    .clk_i, .rst_ni, .network_i(network), .deflected_o(deflected), .head_valid_i(head_tx_valid), .head_ready_o(head_tx_ready),
    .head_to_i(head_tx_to), .head_flit_i(head_tx_flit), .head_valid_o(head_rx_valid), .head_ready_i(head_rx_ready),
    .head_from_o(head_rx_from), .head_flit_o(head_rx_flit), .disk_valid_i(disk_tx_valid), .disk_ready_o(disk_tx_ready),
    .disk_flit_i(disk_tx_flit), .disk_valid_o(disk_rx_valid), .disk_ready_i(disk_rx_ready), .disk_flit_o(disk_rx_flit)
  );

  for (genvar disk = 0; disk < Disks; disk++) begin : gen_disk
    assign port_host[disk]     = is_local ? '0 : disk_host[disk];
    assign node_host[disk]     = is_local ? disk_host[disk] : '0;
    assign disk_geometry[disk] = is_local ? node_geometry[disk] : port_geometry[disk];
    assign disk_dev[disk]      = is_local ? node_dev[disk] : port_dev[disk];
    assign disk_reads[disk]    = is_local ? node_reads[disk] : port_reads[disk];
    logic node_rst_n;
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) node_rst_n <= 1'b0;
      else         node_rst_n <= in.power[disk];
    end

    system_node #(.Lanes(Lanes), .DiskBlocks(DiskBlocks)) u_node (
      .clk_i, .rst_ni(node_rst_n), .number_i(8'(disk)), .word_cycles_i(word_cycles), .tx_valid_o(disk_tx_valid[disk]),
      .tx_ready_i(disk_tx_ready[disk]), .tx_flit_o(disk_tx_flit[disk]), .rx_valid_i(disk_rx_valid[disk]),
      .rx_ready_o(disk_rx_ready[disk]), .rx_flit_i(disk_rx_flit[disk]), .dropped_o(disk_dropped[disk]), .local_i(is_local),
      .geometry_o(node_geometry[disk]), .host_i(node_host[disk]), .write_data_i(disk_writes[disk]), .dev_o(node_dev[disk]),
      .read_data_o(node_reads[disk])
    );
  end
endmodule
