// SPDX-License-Identifier: Apache-2.0 OR MIT
// A RAM disk behind an initiator, a line of its own and a target. The line is a wire with a delay, or two links.
module aoe_remote
  import block_pkg::*;
#(
  parameter int unsigned SectorsLog2   = 1,
  parameter int unsigned DiskBlocks    = 2048,
  parameter int unsigned Delay         = 50,
  parameter int unsigned Linked        = 0
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic [7:0]  number_i,  // constant
  input  logic        cut_i,
  output logic        again_o,
  output logic        sent_o,
  output geometry_t   geometry_o,
  input  host_t       host_i,
  input  logic [31:0] write_data_i,
  output dev_t        dev_o,
  output logic [31:0] read_data_o
);
  // Compiled once for all disks.
  /* verilator no_inline_module */
  logic [47:0] near, far;
  assign near = {40'h02_00_00_00_01, number_i};
  assign far  = {40'h02_00_00_00_02, number_i};
  // Words from the initiator [0] and from the target [1]; to the target [0] and to the initiator [1].
  logic [1:0] tx_valid, tx_ready, tx_last, rx_valid, rx_last, rx_bad;
  logic [1:0][31:0] tx_data, rx_data;

  aoe_initiator #(.SectorsLog2(SectorsLog2), .Tries(4), .TickLog2(8), .RetryTicks(16), .LifeTicks(32)) u_initiator (
    .clk_i, .rst_ni, .mac_i(near), .shelf_i(16'd0), .slot_i(number_i), .geometry_o(geometry_o), .host_i(host_i),
    .write_data_i(write_data_i), .dev_o(dev_o), .read_data_o(read_data_o), .rx_valid_i(rx_valid[1]),
    .rx_data_i(rx_data[1]), .rx_last_i(rx_last[1]), .rx_bad_i(rx_bad[1]), .tx_valid_o(tx_valid[0]), .tx_ready_i(tx_ready[0]),
    .tx_data_o(tx_data[0]), .tx_last_o(tx_last[0]), .again_o(again_o), .damaged_o(), .lost_o()
  );
  assign sent_o = tx_valid[0] & tx_ready[0] & tx_last[0];

  if (Linked != 0) begin : gen_link
    aoe_line_linked u_line (
      .clk_i, .rst_ni, .cut_i(cut_i), .valid_i(tx_valid), .ready_o(tx_ready), .data_i(tx_data), .last_i(tx_last),
      .valid_o(rx_valid), .data_o(rx_data), .last_o(rx_last), .bad_o(rx_bad)
    );
  end else begin : gen_wire
    for (genvar way = 0; way < 2; way++) begin : gen_way
      logic [33:0] words_q [Delay];
      int unsigned at_q;
      always_ff @(posedge clk_i or negedge rst_ni) begin
        if (!rst_ni) begin
          for (int unsigned i = 0; i < Delay; i++) words_q[i] <= '0;
          at_q <= 0;
        end else begin
          words_q[at_q] <= {tx_valid[way] & ~cut_i, tx_last[way], tx_data[way]};
          at_q          <= (at_q == Delay - 1) ? 0 : at_q + 1;
        end
      end
      assign tx_ready[way] = 1'b1;
      assign {rx_valid[way], rx_last[way], rx_data[way]} = words_q[at_q];
      assign rx_bad[way] = 1'b0;
    end
  end

  geometry_t far_geometry;
  host_t far_host;
  dev_t  far_dev;
  logic [31:0] far_writes, far_reads, axi_writes, axi_reads;
  axi_pkg::manager_t manager;
  axi_pkg::memory_t  memory;

  aoe_target #(.Buffers(8), .SectorsLog2(SectorsLog2)) u_target (
    .clk_i, .rst_ni, .mac_i(far), .shelf_i(16'd0), .slot_i(number_i), .rx_valid_i(rx_valid[0]), .rx_data_i(rx_data[0]),
    .rx_last_i(rx_last[0]), .rx_bad_i(rx_bad[0]), .tx_valid_o(tx_valid[1]), .tx_ready_i(tx_ready[1]), .tx_data_o(tx_data[1]),
    .tx_last_o(tx_last[1]), .geometry_i(far_geometry), .host_o(far_host), .write_data_o(far_writes), .dev_i(far_dev),
    .read_data_i(far_reads), .damaged_o(), .full_o()
  );
  ramdisk #(.BlockCount(lba_t'(DiskBlocks))) u_ramdisk (
    .clk_i, .rst_ni, .geometry_o(far_geometry), .host_i(far_host), .write_data_i(far_writes), .dev_o(far_dev),
    .read_data_o(far_reads), .axi_o(manager), .axi_write_data_o(axi_writes), .axi_i(memory), .axi_read_data_i(axi_reads)
  );
  axi_memory #(.DataWidth(32), .MemoryWidth(32), .SizeBytes(DiskBlocks << 9)) u_memory (
    .clk_i, .rst_ni, .axi_i(manager), .write_data_i(axi_writes), .axi_o(memory), .read_data_o(axi_reads), .fault_i(1'b0),
    .fault_address_i('0)
  );
endmodule
