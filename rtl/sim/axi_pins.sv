// SPDX-License-Identifier: Apache-2.0 OR MIT
// AXI ports as plain pins, for tops whose test bench plays the processor and the memory, and cannot access packed structures.

// The ports of registers over AXI4-Lite, and what joins them to the structures.
`define AXIL_PINS \
  input  logic [11:0] awaddr, araddr, \
  input  logic        awvalid, wvalid, bready, arvalid, rready, \
  input  logic [31:0] wdata, \
  input  logic [3:0]  wstrb, \
  output logic        awready, wready, bvalid, arready, rvalid, \
  output logic [31:0] rdata, \
  output logic [1:0]  bresp, rresp

`define AXIL_JOIN(MANAGER, SUBORDINATE) \
  assign MANAGER = '{aw_valid: awvalid, aw_address: awaddr, w_valid: wvalid, w_data: wdata, w_strobe: wstrb, \
                     b_ready: bready, ar_valid: arvalid, ar_address: araddr, r_ready: rready}; \
  assign {awready, wready, bvalid, bresp} = {SUBORDINATE.aw_ready, SUBORDINATE.w_ready, SUBORDINATE.b_valid, SUBORDINATE.b_resp}; \
  assign {arready, rvalid, rdata, rresp}  = {SUBORDINATE.ar_ready, SUBORDINATE.r_valid, SUBORDINATE.r_data, SUBORDINATE.r_resp};

// The ports of an AXI4 manager with 32 bits of data, whose names begin with P.
`define AXI_PINS(P) \
  output logic [47:0] P``awaddr, P``araddr, \
  output logic [7:0]  P``awlen, P``arlen, \
  output logic [2:0]  P``awsize, P``arsize, \
  output logic        P``awvalid, P``wvalid, P``wlast, P``bready, P``arvalid, P``rready, \
  output logic [31:0] P``wdata, \
  output logic [3:0]  P``wstrb, \
  input  logic        P``awready, P``wready, P``bvalid, P``arready, P``rvalid, P``rlast, \
  input  logic [1:0]  P``bresp, P``rresp, \
  input  logic [31:0] P``rdata

`define AXI_JOIN(P, MANAGER, MEMORY) \
  assign {P``awvalid, P``awaddr, P``awlen, P``awsize} = {MANAGER.aw_valid, MANAGER.aw}; \
  assign {P``arvalid, P``araddr, P``arlen, P``arsize} = {MANAGER.ar_valid, MANAGER.ar}; \
  assign {P``wvalid, P``wlast, P``bready, P``rready}  = {MANAGER.w_valid, MANAGER.w_last, MANAGER.b_ready, MANAGER.r_ready}; \
  assign MEMORY = '{aw_ready: P``awready, w_ready: P``wready, b_valid: P``bvalid, b_resp: axi_pkg::resp_e'(P``bresp), \
                    ar_ready: P``arready, r_valid: P``rvalid, r_resp: axi_pkg::resp_e'(P``rresp), r_last: P``rlast};
