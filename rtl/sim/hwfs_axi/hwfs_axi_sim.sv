// SPDX-License-Identifier: Apache-2.0 OR MIT
// The file system core with its processor interface, on plain pins for a bench that plays the processor with its memory,
// and the block device. Checks the block interface in each cycle, and that each start ends exactly once.
module hwfs_axi_sim
  import block_pkg::*;
  import hwfs_pkg::*;
#(
  parameter int unsigned BlockSizeLog2 = 9,
  parameter int unsigned TimeoutCycles = 20000
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic [47:0] block_count,
  output logic        irq,

  `AXIL_PINS,

  `AXI_PINS(m_),

  `BLOCK_DEV_PINS(32)
);
  axil_pkg::manager_t     axil_manager;
  axil_pkg::subordinate_t axil;
  `AXIL_JOIN(axil_manager, axil)

  axi_pkg::manager_t manager;
  axi_pkg::memory_t  memory;
  `AXI_JOIN(m_, manager, memory)

  geometry_t geometry;
  // The bench loads another image by another size: another medium (B14).
  logic [47:0] block_count_q;
  logic [3:0] generation_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) generation_q <= '0;
    else if (block_count != block_count_q) generation_q <= generation_q + 4'd1;
  end
  always_ff @(posedge clk_i) block_count_q <= block_count;
  assign geometry = '{ready: block_count == block_count_q, generation: generation_q, block_size_log2: 5'(BlockSizeLog2), block_count: block_count,
                      max_transfer_blocks: '1, volatile_write_cache: 1'b1, fua: 1'b0, discard: 1'b0,
                      write_zeroes: 1'b0, read_only: 1'b0};
  host_t host;
  dev_t  dev;
  logic  idle;
  block_pins_dev u_pins (.*, .host_i(host), .dev_o(dev));
  block_checker #(.DataWidth(32), .BlockSizeLog2(BlockSizeLog2)) u_check (
    .clk_i, .rst_ni, .geometry_i(geometry), .host_i(host), .write_data_i(write_data), .dev_i(dev),
    .read_data_i(read_data), .idle_o(idle)
  );

  logic cmd_valid, cmd_ready, name_valid, name_ready, answer_valid, answer_ready;
  logic give_valid, give_ready, take_valid, take_ready;
  cmd_t cmd;
  fs_rsp_t rsp;
  logic [31:0] name_data, give_data, take_data;

  hwfs_axi #(.Shape(hwfs_axi_pkg::shape(4, BlockSizeLog2))) u_front (
    .clk_i, .rst_ni, .axil_i(axil_manager), .axil_o(axil), .irq_o(irq),
    .axi_o(manager), .axi_write_data_o(m_wdata), .axi_write_strobe_o(m_wstrb), .axi_i(memory), .axi_read_data_i(m_rdata),
    .geometry_i(geometry), .cmd_valid_o(cmd_valid), .cmd_ready_i(cmd_ready), .cmd_o(cmd),
    .name_valid_o(name_valid), .name_ready_i(name_ready), .name_data_o(name_data),
    .rsp_valid_i(answer_valid), .rsp_ready_o(answer_ready), .rsp_i(rsp),
    .write_valid_o(give_valid), .write_ready_i(give_ready), .write_data_o(give_data),
    .read_valid_i(take_valid), .read_ready_o(take_ready), .read_data_i(take_data)
  );

  hwfs #(.BlockSizeLog2(BlockSizeLog2), .TimeoutCycles(TimeoutCycles)) u_hwfs (
    .clk_i, .rst_ni, .geometry_i(geometry), .cmd_valid_i(cmd_valid), .cmd_ready_o(cmd_ready), .cmd_i(cmd),
    .name_valid_i(name_valid), .name_ready_o(name_ready), .name_data_i(name_data),
    .rsp_valid_o(answer_valid), .rsp_ready_i(answer_ready), .rsp_o(rsp),
    .write_valid_i(give_valid), .write_ready_o(give_ready), .write_data_i(give_data),
    .read_valid_o(take_valid), .read_ready_i(take_ready), .read_data_o(take_data), .read_keep_o(), .read_last_o(),
    .host_o(host), .host_write_data_o(write_data), .dev_i(dev), .dev_read_data_i(read_data)
  );

  // A command is under way from an accepted start to its end. An end without a start is an error.
  logic under_way_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) under_way_q <= 1'b0;
    else         under_way_q <= (under_way_q | u_front.start) & ~u_front.u_regs.end_i;
  end
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      a_start: assert (!(u_front.start && under_way_q));
      a_end:   assert (!u_front.u_regs.end_i || under_way_q);
      a_idle:  assert (under_way_q || u_front.data_idle);
    end
  end
endmodule
