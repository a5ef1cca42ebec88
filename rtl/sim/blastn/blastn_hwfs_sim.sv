// SPDX-License-Identifier: Apache-2.0 OR MIT
// The nucleotide seed scan behind the file system core, on a RAM disk: what the core reads goes to the scan, and no processor is in
// between. The bench gives the commands, and is the processor at the scan's registers.
module blastn_hwfs_sim
  import block_pkg::*;
  import hwfs_pkg::*;
#(
  parameter int unsigned EntriesLog2    = 12,
  parameter int unsigned BucketLog2     = 12,
  parameter int unsigned HitsLog2       = 9,
  parameter int unsigned MaskLog2       = 9,
  parameter int unsigned DiskBlocks     = 8192,
  parameter int unsigned ReadLatency    = 24,
  parameter int unsigned ReadRateWords  = 1,
  parameter int unsigned ReadRateCycles = 1
) (
  input  logic clk_i,
  input  logic rst_ni,

  `AXIL_PINS,

  `HWFS_APP_PINS(32)
);
  axil_pkg::manager_t     to;
  axil_pkg::subordinate_t from;
  `AXIL_JOIN(to, from)

  host_t       host;
  dev_t        dev;
  geometry_t   geometry;
  fs_rsp_t     rsp;
  logic [31:0] write_data, read_data;
  logic        take_room;
  assign answer_status = rsp.status;
  assign answer_value  = rsp.value;

  hwfs #(.DataWidth(32), .BlockSizeLog2(6), .TimeoutCycles(1_000_000)) u_hwfs (
    .clk_i, .rst_ni, .geometry_i(geometry), .cmd_valid_i(cmd_valid), .cmd_ready_o(cmd_ready), .cmd_i(`HWFS_APP_COMMAND),
    .name_valid_i(name_valid), .name_ready_o(name_ready), .name_data_i(name_data), .rsp_valid_o(answer_valid),
    .rsp_ready_i(answer_ready), .rsp_o(rsp), .write_valid_i(give_valid), .write_ready_o(give_ready), .write_data_i(give_data),
    .read_valid_o(take_valid), .read_ready_i(take_room), .read_data_o(take_data), .read_keep_o(take_keep),
    .read_last_o(take_last), .host_o(host), .host_write_data_o(write_data), .dev_i(dev), .dev_read_data_i(read_data)
  );
  ramdisks #(
    .DiskBlocks(DiskBlocks), .ReadLatency(ReadLatency), .ReadRateWords(ReadRateWords), .ReadRateCycles(ReadRateCycles)
  ) u_disks (
    .clk_i, .rst_ni, .geometry_o(geometry), .host_i(host), .write_data_i(write_data), .dev_o(dev), .read_data_o(read_data),
    .fault_i('0), .fault_address_i('0), .failed_o()
  );
  blastn #(.EntriesLog2(EntriesLog2), .BucketLog2(BucketLog2), .HitsLog2(HitsLog2), .MaskLog2(MaskLog2)) u_blastn (
    .clk_i, .rst_ni, .axil_i(to), .axil_o(from), .valid_i(take_valid), .ready_o(take_room), .data_i(take_data),
    .keep_i(take_keep), .last_i(take_last)
  );
  logic unused;
  assign unused = take_ready;
endmodule
