// SPDX-License-Identifier: Apache-2.0 OR MIT
// Carries one block interface from the host's clock domain into the device's.
//
// The geometry crosses too: it is constant while `ready` (B14), so only `ready` needs flip-flops; a
// device keeps `ready` low for at least eight cycles of the slower clock. A response may still be crossing when the device
// is ready again: the host sees `ready` after it, and requests wait until then. `cancel` crosses in the same way;
// requests after it wait until the device's side no longer sees it.
//
// Each of the four channels has its own queue, so one could overtake another; two rules forbid that.
// B4: a write's data are shown to the device only after its request was taken there. B7: a response
// carries the number of read transfers that had ended before it, and waits until as many have ended
// on the host's side. Never reorders within a channel.
//
// DataWidth   bits of the data streams
// DataDepth   words in each data queue, a power of two, 8 or more
module block_cdc
  import block_pkg::*;
#(
  parameter int unsigned DataWidth = 32,
  parameter int unsigned DataDepth = 16
) (
  input  logic                 host_clk_i,
  input  logic                 host_rst_ni,
  input  host_t                host_i,
  input  logic [DataWidth-1:0] write_data_i,
  output dev_t                 dev_o,
  output logic [DataWidth-1:0] read_data_o,
  output geometry_t            geometry_o,

  input  logic                 dev_clk_i,
  input  logic                 dev_rst_ni,
  output host_t                host_o,
  output logic [DataWidth-1:0] write_data_o,
  input  dev_t                 dev_i,
  input  logic [DataWidth-1:0] read_data_i,
  input  geometry_t            geometry_i
);
  // What the parameters must be.
  if ((DataWidth < 8) || (DataWidth > 1024) || ((DataWidth & (DataWidth - 1)) != 0)) begin : gen_bad_data_width
    $error("DataWidth is %0d: a power of two from 8 to 1024", DataWidth);
  end
  if ((DataDepth < 8) || ((DataDepth & (DataDepth - 1)) != 0)) begin : gen_bad_data_depth
    $error("DataDepth is %0d: a power of two from 8 on", DataDepth);
  end

  // Counts more transfers than can be outstanding, so that a wrap of the counter is unambiguous.
  localparam int unsigned EndsWidth = TagWidth + 1;
  typedef logic [EndsWidth-1:0] ends_t;

  // --- The device's side ----------------------------------------------------------------------
  logic  write_valid, write_open;
  ends_t writes_open_q, read_ends_dev_q;
  logic  req_taken, write_ended, read_ended;

  assign write_open         = writes_open_q != '0;
  assign host_o.write_valid = write_valid & write_open;
  assign req_taken = host_o.req_valid & dev_i.req_ready & (host_o.req.op == OpWrite) &
                     (host_o.req.count != '0);
  assign write_ended = host_o.write_valid & dev_i.write_ready & host_o.write.last;
  assign read_ended  = dev_i.read_valid & host_o.read_ready & dev_i.read.last;

  always_ff @(posedge dev_clk_i or negedge dev_rst_ni) begin
    if (!dev_rst_ni) begin
      writes_open_q   <= '0;
      read_ends_dev_q <= '0;
    end else begin
      if (req_taken != write_ended) begin
        writes_open_q <= req_taken ? writes_open_q + ends_t'(1) : writes_open_q - ends_t'(1);
      end
      if (read_ended) read_ends_dev_q <= read_ends_dev_q + ends_t'(1);
    end
  end

  // --- The host's side ------------------------------------------------------------------------
  ends_t read_ends_host_q, rsp_ends;
  logic  rsp_valid, rsp_due;

  // At most NumTags read transfers can have ended on one side only, so the wrapped difference is unambiguous.
  assign rsp_due         = (read_ends_host_q - rsp_ends) < ends_t'(NumTags + 1);
  assign dev_o.rsp_valid = rsp_valid & rsp_due;

  always_ff @(posedge host_clk_i or negedge host_rst_ni) begin
    if (!host_rst_ni) begin
      read_ends_host_q <= '0;
    end else if (dev_o.read_valid && host_i.read_ready && dev_o.read.last) begin
      read_ends_host_q <= read_ends_host_q + ends_t'(1);
    end
  end

  // --- Levels: the host's cancel, the device's geometry ----------------------------------------
  (* ASYNC_REG = "TRUE" *) logic cancel_meta_q, cancel_dev_q;  // the device's clock
  (* ASYNC_REG = "TRUE" *) logic echo_meta_q, echo_q;           // the host's clock: what the device has seen
  (* ASYNC_REG = "TRUE" *) logic ready_meta_q, ready_sync_q;
  logic ready_q, cancel_q, req_open, req_ready, dev_ready, settled;

  assign host_o.cancel   = cancel_dev_q;
  assign req_open        = host_i.cancel | (~cancel_q & ~echo_q);
  // While the device is ready and the host does not see it, the old requests end.
  assign settled         = geometry_o.ready | ~dev_ready;
  assign dev_o.req_ready = req_ready & req_open & settled;

  always_ff @(posedge dev_clk_i or negedge dev_rst_ni) begin
    if (!dev_rst_ni) {cancel_dev_q, cancel_meta_q} <= '0;
    else             {cancel_dev_q, cancel_meta_q} <= {cancel_meta_q, cancel_q};
  end

  always_ff @(posedge host_clk_i or negedge host_rst_ni) begin
    if (!host_rst_ni) begin
      cancel_q                              <= 1'b0;
      {echo_q, echo_meta_q}                 <= '0;
      {ready_q, ready_sync_q, ready_meta_q} <= '0;
    end else begin
      cancel_q                              <= host_i.cancel | (cancel_q & ~echo_q);  // until the device has seen it
      {echo_q, echo_meta_q}                 <= {echo_meta_q, cancel_dev_q};
      {ready_q, ready_sync_q, ready_meta_q} <= {ready_sync_q, ready_meta_q, geometry_i.ready};
    end
  end

  assign dev_ready = ready_q & ready_sync_q;

  logic ready;
  block_ready u_ready (
    .clk_i   (host_clk_i),
    .rst_ni  (host_rst_ni),
    .ready_i (dev_ready),
    .taken_i (host_i.req_valid & dev_o.req_ready),
    .ended_i (dev_o.rsp_valid & host_i.rsp_ready),
    .ready_o (ready),
    .idle_o  ()
  );

  always_comb begin
    geometry_o       = geometry_i;
    geometry_o.ready = ready;
  end

  // --- The queues -----------------------------------------------------------------------------
  prim_fifo_async #(.Width($bits(req_t)), .Depth(8)) u_req (
    .write_clk_i   (host_clk_i),
    .write_rst_ni  (host_rst_ni),
    .write_valid_i (host_i.req_valid & req_open & settled),
    .write_ready_o (req_ready),
    .write_data_i  (host_i.req),
    .read_clk_i    (dev_clk_i),
    .read_rst_ni   (dev_rst_ni),
    .read_valid_o  (host_o.req_valid),
    .read_ready_i  (dev_i.req_ready),
    .read_data_o   (host_o.req)
  );

  prim_fifo_async #(.Width($bits(beat_t) + DataWidth), .Depth(DataDepth)) u_write (
    .write_clk_i   (host_clk_i),
    .write_rst_ni  (host_rst_ni),
    .write_valid_i (host_i.write_valid),
    .write_ready_o (dev_o.write_ready),
    .write_data_i  ({host_i.write, write_data_i}),
    .read_clk_i    (dev_clk_i),
    .read_rst_ni   (dev_rst_ni),
    .read_valid_o  (write_valid),
    .read_ready_i  (dev_i.write_ready & write_open),
    .read_data_o   ({host_o.write, write_data_o})
  );

  prim_fifo_async #(.Width($bits(beat_t) + DataWidth), .Depth(DataDepth)) u_read (
    .write_clk_i   (dev_clk_i),
    .write_rst_ni  (dev_rst_ni),
    .write_valid_i (dev_i.read_valid),
    .write_ready_o (host_o.read_ready),
    .write_data_i  ({dev_i.read, read_data_i}),
    .read_clk_i    (host_clk_i),
    .read_rst_ni   (host_rst_ni),
    .read_valid_o  (dev_o.read_valid),
    .read_ready_i  (host_i.read_ready),
    .read_data_o   ({dev_o.read, read_data_o})
  );

  prim_fifo_async #(.Width($bits(rsp_t) + EndsWidth), .Depth(8)) u_rsp (
    .write_clk_i   (dev_clk_i),
    .write_rst_ni  (dev_rst_ni),
    .write_valid_i (dev_i.rsp_valid),
    .write_ready_o (host_o.rsp_ready),
    .write_data_i  ({dev_i.rsp, read_ends_dev_q}),
    .read_clk_i    (host_clk_i),
    .read_rst_ni   (host_rst_ni),
    .read_valid_o  (rsp_valid),
    .read_ready_i  (host_i.rsp_ready & rsp_due),
    .read_data_o   ({dev_o.rsp, rsp_ends})
  );
endmodule
