// SPDX-License-Identifier: Apache-2.0 OR MIT
// block_cdc, with clocks in any relation: the device's side sees `cancel` until no request is outstanding (B13),
// and never with a request that was offered after it ended; requests are taken while the host cancels.
module fv_cdc
  import block_pkg::*;
(
  input logic  host_clk_i,
  input logic  dev_clk_i,
  input logic  rst_ni,
  input host_t host_i,
  input logic  take_i,
  input logic  done_i
);
  host_t host;
  dev_t  dev, up;

  // The device takes one flush at a time and answers it.
  logic busy_q;
  tag_t tag_q;
  always_comb begin
    dev           = '0;
    dev.req_ready = take_i & ~busy_q;
    dev.rsp_valid = done_i & busy_q;
    dev.rsp.tag   = tag_q;
  end

  block_cdc #(.DataWidth(8), .DataDepth(8)) dut (
    .host_clk_i, .host_rst_ni(rst_ni), .host_i, .write_data_i('0), .dev_o(up), .read_data_o(), .geometry_o(),
    .dev_clk_i, .dev_rst_ni(rst_ni), .host_o(host), .write_data_o(), .dev_i(dev), .read_data_i('0), .geometry_i('0)
  );

  // The host: one flush at a time; it cancels until none is outstanding, or while none is.
  logic open_q, cancel_q;
  logic cancelled_q;  // the outstanding request was cancelled
  always_comb begin
    assume (!host_i.write_valid && host_i.rsp_ready && (host_i.req.op == OpFlush) && !(host_i.req_valid && open_q));
    assume (!(cancel_q && open_q) || host_i.cancel);
  end
  always_ff @(posedge host_clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      open_q      <= 1'b0;
      cancel_q    <= 1'b0;
      cancelled_q <= 1'b0;
    end else begin
      cancel_q    <= host_i.cancel;
      cancelled_q <= host_i.cancel | (cancelled_q & ~(host_i.req_valid & up.req_ready));
      if (host_i.req_valid && up.req_ready) open_q <= 1'b1;
      else if (up.rsp_valid)                open_q <= 1'b0;
      a_takes_while_cancelled: assert (!host_i.cancel || up.req_ready);
      a_response_of_a_request: assert (!up.rsp_valid || open_q);
    end
  end

  logic down_q;
  always_ff @(posedge dev_clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q <= 1'b0;
      down_q <= 1'b0;
    end else begin
      down_q <= host.cancel;
      a_not_the_next: assert (!host.cancel || !busy_q || cancelled_q || host_i.cancel);
      a_until_idle: assert (!down_q || !busy_q || host.cancel);
      if (host.req_valid && dev.req_ready) begin
        busy_q <= 1'b1;
        tag_q  <= host.req.tag;
      end else if (dev.rsp_valid && host.rsp_ready) begin
        busy_q <= 1'b0;
      end
    end
  end

  // In reset before the first edge, not after.
  logic started_q;
  initial started_q = 1'b0;
  always_ff @(posedge host_clk_i) started_q <= 1'b1;
  always_comb assume (rst_ni == started_q);
endmodule
