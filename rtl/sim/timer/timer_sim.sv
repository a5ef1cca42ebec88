// The profiling timer on plain pins, for cocotb.
module timer_sim #(
  parameter int unsigned Lines     = 4,
  parameter int unsigned DepthLog2 = 4,
  parameter int unsigned Groups    = 4
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic [Lines-1:0] lines,
  input  logic             trigger,
  input  logic [11:0]      awaddr,
  input  logic             awvalid,
  output logic             awready,
  input  logic [31:0]      wdata,
  input  logic [3:0]       wstrb,
  input  logic             wvalid,
  output logic             wready,
  output logic [1:0]       bresp,
  output logic             bvalid,
  input  logic             bready,
  input  logic [11:0]      araddr,
  input  logic             arvalid,
  output logic             arready,
  output logic [31:0]      rdata,
  output logic [1:0]       rresp,
  output logic             rvalid,
  input  logic             rready
);
  axil_pkg::manager_t     to;
  axil_pkg::subordinate_t from;
  assign to = '{aw_valid: awvalid, aw_address: awaddr, w_valid: wvalid, w_data: wdata, w_strobe: wstrb, b_ready: bready,
                ar_valid: arvalid, ar_address: araddr, r_ready: rready};
  assign {awready, wready, bvalid, bresp} = {from.aw_ready, from.w_ready, from.b_valid, from.b_resp};
  assign {arready, rvalid, rdata, rresp}  = {from.ar_ready, from.r_valid, from.r_data, from.r_resp};

  timer #(.Lines(Lines), .DepthLog2(DepthLog2), .Groups(Groups)) u_timer (
    .clk_i, .rst_ni, .axil_i(to), .axil_o(from), .lines_i(lines), .trigger_i(trigger)
  );
endmodule
