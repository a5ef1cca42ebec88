// SPDX-License-Identifier: Apache-2.0 OR MIT
// The profiling timer and its stream on plain pins, for cocotb.
module timer_sim #(
  parameter int unsigned Lines     = 4,
  parameter int unsigned DepthLog2 = 4,
  parameter int unsigned Groups    = 4,
  parameter bit          Stream    = 1'b1
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic [Lines-1:0] lines,
  input  logic             trigger,

  `AXIL_PINS,

  `AXI_PINS(m_)
);
  axil_pkg::manager_t     to;
  axil_pkg::subordinate_t from;
  `AXIL_JOIN(to, from)

  axi_pkg::manager_t manager;
  axi_pkg::memory_t  memory;
  `AXI_JOIN(m_, manager, memory)
  assign m_wstrb = '1;
  logic unused;
  assign unused = ^m_rdata;

  timer #(.Lines(Lines), .DepthLog2(DepthLog2), .Groups(Groups), .Stream(Stream), .Width(32)) u_timer (
    .clk_i, .rst_ni, .axil_i(to), .axil_o(from), .lines_i(lines), .trigger_i(trigger),
    .axi_o(manager), .axi_write_data_o(m_wdata), .axi_i(memory)
  );
endmodule
