// SPDX-License-Identifier: Apache-2.0 OR MIT
// A disk node of the simulated system: a RAM disk behind a target. Its memory moves a word in `word_cycles_i` cycles. The bench finds the
// memory by its scope and loads it while the node has no power. With `local_i` the host uses the RAM disk without a network.
module system_node
  import block_pkg::*;
#(
  parameter int unsigned Lanes      = 8,
  parameter int unsigned DiskBlocks = 2048,
  localparam int unsigned FlitWidth = 32 * Lanes + $clog2(Lanes) + 2
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic [7:0]           number_i,
  input  logic [7:0]           word_cycles_i,

  output logic                 tx_valid_o,
  input  logic                 tx_ready_i,
  output logic [FlitWidth-1:0] tx_flit_o,
  input  logic                 rx_valid_i,
  output logic                 rx_ready_o,
  input  logic [FlitWidth-1:0] rx_flit_i,
  output logic                 dropped_o,

  input  logic                 local_i,
  output geometry_t            geometry_o,
  input  host_t                host_i,
  input  logic [31:0]          write_data_i,
  output dev_t                 dev_o,
  output logic [31:0]          read_data_o
);
  host_t host, node_host;
  dev_t  dev;
  logic [31:0] write_data, node_write_data, axi_writes, axi_reads;
  axi_pkg::manager_t manager, throttled;
  axi_pkg::memory_t  memory, slowed;

  system_disk_node #(.Lanes(Lanes)) u_node (
    .clk_i, .rst_ni, .number_i, .tx_valid_o, .tx_ready_i, .tx_flit_o, .rx_valid_i, .rx_ready_o, .rx_flit_i, .dropped_o,
    .geometry_i(geometry_o), .host_o(node_host), .write_data_o(node_write_data), .dev_i(local_i ? '0 : dev),
    .read_data_i(read_data_o)
  );
  assign host       = local_i ? host_i : node_host;
  assign write_data = local_i ? write_data_i : node_write_data;
  assign dev_o      = local_i ? dev : '0;

  ramdisk #(.BlockCount(lba_t'(DiskBlocks))) u_ramdisk (
    .clk_i, .rst_ni, .geometry_o, .host_i(host), .write_data_i(write_data), .dev_o(dev), .read_data_o,
    .axi_o(manager), .axi_write_data_o(axi_writes), .axi_i(slowed), .axi_read_data_i(axi_reads)
  );
  axi_memory #(.DataWidth(32), .MemoryWidth(32), .SizeBytes(DiskBlocks << 9)) u_memory (
    .clk_i, .rst_ni, .axi_i(throttled), .write_data_i(axi_writes), .axi_o(memory), .read_data_o(axi_reads), .fault_i(1'b0),
    .fault_address_i('0)
  );

  // An offered word stays: the wait begins when one was taken.
  logic [7:0] read_wait_q, write_wait_q;
  logic       read_open, write_open;
  assign read_open  = read_wait_q == '0;
  assign write_open = write_wait_q == '0;

  always_comb begin
    throttled         = manager;
    throttled.r_ready = manager.r_ready & read_open;
    throttled.w_valid = manager.w_valid & write_open;
    slowed            = memory;
    slowed.r_valid    = memory.r_valid & read_open;
    slowed.w_ready    = memory.w_ready & write_open;
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      read_wait_q  <= '0;
      write_wait_q <= '0;
    end else begin
      if (slowed.r_valid && manager.r_ready) read_wait_q <= word_cycles_i - 8'd1;
      else if (!read_open)                     read_wait_q <= read_wait_q - 8'd1;
      if (manager.w_valid && slowed.w_ready) write_wait_q <= word_cycles_i - 8'd1;
      else if (!write_open)                    write_wait_q <= write_wait_q - 8'd1;
    end
  end
endmodule
