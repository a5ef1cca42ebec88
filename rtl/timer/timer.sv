// SPDX-License-Identifier: Apache-2.0 OR MIT
// The profiling timer `timer_native` behind AXI4-Lite. An access to an unassigned address is answered with SLVERR.
module timer #(
  parameter int unsigned Lines     = 4,
  parameter int unsigned DepthLog2 = 16,
  parameter int unsigned Groups    = 8,
  parameter bit          Stream    = 1'b0,
  parameter int unsigned Width     = 32
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  axil_pkg::manager_t     axil_i,
  output axil_pkg::subordinate_t axil_o,
  input  logic [Lines-1:0]       lines_i,
  input  logic                   trigger_i,
  output axi_pkg::manager_t      axi_o,
  output logic [Width-1:0]       axi_write_data_o,
  input  axi_pkg::memory_t       axi_i
);
  logic        write, write_error, read, read_error;
  logic [9:0]  write_word, read_word;
  logic [31:0] write_data, read_data;

  axil_port u_port (
    .clk_i, .rst_ni, .axil_i, .axil_o, .write_o(write), .write_word_o(write_word), .write_data_o(write_data),
    .write_error_i(write_error), .read_o(read), .read_word_o(read_word), .read_data_i(read_data), .read_error_i(read_error)
  );
  timer_native #(.Lines(Lines), .DepthLog2(DepthLog2), .Groups(Groups), .Stream(Stream), .Width(Width)) u_timer (
    .clk_i, .rst_ni, .write_i(write), .write_word_i(write_word), .write_data_i(write_data), .write_error_o(write_error),
    .read_i(read), .read_word_i(read_word), .read_data_o(read_data), .read_error_o(read_error), .lines_i, .trigger_i, .axi_o,
    .axi_write_data_o, .axi_i
  );
endmodule
