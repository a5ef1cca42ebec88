// SPDX-License-Identifier: Apache-2.0 OR MIT
// block_front: if the host and the device follow their rules, the module follows the rules of a
// device towards the host and those of a host towards the device. The device sees only legal
// requests, and a refused request gets the status that follows from the geometry.
module fv_front
  import block_pkg::*;
#(
  parameter int unsigned DataWidth     = 8,
  parameter int unsigned BlockSizeLog2 = 1,
  parameter int unsigned Tags          = 2
) (
  input logic                 clk_i,
  input logic                 rst_ni,
  input host_t                host_i,
  input logic [DataWidth-1:0] write_data_i,
  input dev_t                 dev_i,
  input logic [DataWidth-1:0] read_data_i
);
  localparam geometry_t Geometry = '{ready: 1'b1, generation: '0, block_size_log2: 5'(BlockSizeLog2), block_count: lba_t'(4),
                                     max_transfer_blocks: count_t'(2), volatile_write_cache: 1'b0, fua: 1'b0,
                                     discard: 1'b1, write_zeroes: 1'b0, read_only: 1'b0};
  host_t down_host;
  dev_t  up_dev;
  logic [DataWidth-1:0] down_data, up_data;

  block_front #(.DataWidth(DataWidth), .BlockSizeLog2(BlockSizeLog2), .OpenWrites(2)) dut (
    .clk_i, .rst_ni, .geometry_i(Geometry),
    .host_i, .write_data_i, .dev_o(up_dev), .read_data_o(up_data),
    .host_o(down_host), .write_data_o(down_data), .dev_i, .read_data_i
  );

  block_checker #(
    .DataWidth(DataWidth), .BlockSizeLog2(BlockSizeLog2), .CountBits(2), .UsedTags(Tags), .AssumeHost(1'b1)
  ) u_up (
    .clk_i, .rst_ni, .geometry_i(Geometry), .host_i, .write_data_i, .dev_i(up_dev), .read_data_i(up_data), .idle_o()
  );

  block_checker #(
    .DataWidth(DataWidth), .BlockSizeLog2(BlockSizeLog2), .CountBits(2), .UsedTags(Tags), .AssumeDevice(1'b1)
  ) u_down (
    .clk_i, .rst_ni, .geometry_i(Geometry), .host_i(down_host), .write_data_i(down_data), .dev_i, .read_data_i, .idle_o()
  );

  logic started_q;
  status_e expected_q [Tags];
  initial started_q = 1'b0;

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    // Short requests keep the bounded proof meaningful.
    assume (host_i.req.count <= count_t'(3));
    assume (host_i.req.lba <= lba_t'(5));
    if (rst_ni) begin
      if (host_i.req_valid && up_dev.req_ready) expected_q[host_i.req.tag[0]] <= check(host_i.req, Geometry);
      if (down_host.req_valid) begin
        a_legal: assert (check(down_host.req, Geometry) == StatusOk);
      end
      if (up_dev.rsp_valid && (expected_q[up_dev.rsp.tag[0]] != StatusOk)) begin
        a_status: assert (up_dev.rsp.status == expected_q[up_dev.rsp.tag[0]]);
      end
    end
  end
endmodule
