// SPDX-License-Identifier: Apache-2.0 OR MIT
// One block interface as plain pins, for test benches that cannot access packed structures.
// The host's pins are inputs and the device's are outputs, or vice versa.

// The ports of a top whose test bench plays the host.
`define BLOCK_HOST_PINS(WIDTH) \
  input  logic        req_valid, req_fua, write_valid, write_last, read_ready, rsp_ready, \
  input  logic [2:0]  req_op, \
  input  logic [4:0]  req_tag, write_tag, \
  input  logic [47:0] req_lba, \
  input  logic [23:0] req_count, \
  input  logic [(WIDTH)-1:0] write_data, \
  output logic        req_ready, write_ready, read_valid, read_last, rsp_valid, \
  output logic [4:0]  read_tag, rsp_tag, \
  output logic [3:0]  rsp_status, \
  output logic [15:0] rsp_detail, \
  output logic [(WIDTH)-1:0] read_data

// The ports of a top whose test bench plays the device.
`define BLOCK_DEV_PINS(WIDTH) \
  output logic        req_valid, req_fua, write_valid, write_last, read_ready, rsp_ready, \
  output logic [2:0]  req_op, \
  output logic [4:0]  req_tag, write_tag, \
  output logic [47:0] req_lba, \
  output logic [23:0] req_count, \
  output logic [(WIDTH)-1:0] write_data, \
  input  logic        req_ready, write_ready, read_valid, read_last, rsp_valid, \
  input  logic [4:0]  read_tag, rsp_tag, \
  input  logic [3:0]  rsp_status, \
  input  logic [15:0] rsp_detail, \
  input  logic [(WIDTH)-1:0] read_data

module block_pins_host
  import block_pkg::*;
(
  input  logic        cancel, req_valid, req_fua, write_valid, write_last, read_ready, rsp_ready,
  input  logic [2:0]  req_op,
  input  logic [4:0]  req_tag, write_tag,
  input  logic [47:0] req_lba,
  input  logic [23:0] req_count,
  output logic        req_ready, write_ready, read_valid, read_last, rsp_valid,
  output logic [4:0]  read_tag, rsp_tag,
  output logic [3:0]  rsp_status,
  output logic [15:0] rsp_detail,

  output host_t       host_o,
  input  dev_t        dev_i
);
  assign host_o = '{req_valid: req_valid,
                    req: '{op: op_e'(req_op), fua: req_fua, tag: req_tag, lba: req_lba, count: req_count},
                    write_valid: write_valid, write: '{tag: write_tag, last: write_last},
                    read_ready: read_ready, rsp_ready: rsp_ready, cancel: cancel};
  assign req_ready   = dev_i.req_ready;
  assign write_ready = dev_i.write_ready;
  assign read_valid  = dev_i.read_valid;
  assign read_tag    = dev_i.read.tag;
  assign read_last   = dev_i.read.last;
  assign rsp_valid   = dev_i.rsp_valid;
  assign rsp_tag     = dev_i.rsp.tag;
  assign rsp_status  = dev_i.rsp.status;
  assign rsp_detail  = dev_i.rsp.detail;
endmodule

module block_pins_dev
  import block_pkg::*;
(
  output logic        req_valid, req_fua, write_valid, write_last, read_ready, rsp_ready,
  output logic [2:0]  req_op,
  output logic [4:0]  req_tag, write_tag,
  output logic [47:0] req_lba,
  output logic [23:0] req_count,
  input  logic        req_ready, write_ready, read_valid, read_last, rsp_valid,
  input  logic [4:0]  read_tag, rsp_tag,
  input  logic [3:0]  rsp_status,
  input  logic [15:0] rsp_detail,

  input  host_t       host_i,
  output dev_t        dev_o
);
  assign dev_o = '{req_ready: req_ready, write_ready: write_ready,
                   read_valid: read_valid, read: '{tag: read_tag, last: read_last},
                   rsp_valid: rsp_valid,
                   rsp: '{tag: rsp_tag, status: status_e'(rsp_status), detail: rsp_detail}};
  assign req_valid   = host_i.req_valid;
  assign req_op      = host_i.req.op;
  assign req_fua     = host_i.req.fua;
  assign req_tag     = host_i.req.tag;
  assign req_lba     = host_i.req.lba;
  assign req_count   = host_i.req.count;
  assign write_valid = host_i.write_valid;
  assign write_tag   = host_i.write.tag;
  assign write_last  = host_i.write.last;
  assign read_ready  = host_i.read_ready;
  assign rsp_ready   = host_i.rsp_ready;
endmodule
