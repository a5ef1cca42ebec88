// SPDX-License-Identifier: Apache-2.0 OR MIT
// The five channels of an AXI4 manager, as far as a block device needs them: whole aligned words,
// incrementing bursts, one identifier (so responses come in order). ARM IHI 0022, chapter A.
package axi_pkg;
  localparam int unsigned AddressWidth = 48;
  typedef logic [AddressWidth-1:0] address_t;

  typedef enum logic [1:0] {RespOkay = 2'd0, RespExOkay = 2'd1, RespSlvErr = 2'd2, RespDecErr = 2'd3} resp_e;

  typedef struct packed {
    address_t   address;
    logic [7:0] len;   // words minus one
    logic [2:0] size;  // log2 of a word's bytes
  } burst_t;

  // From the manager. The write data are a separate port; all byte strobes are one.
  typedef struct packed {
    logic   aw_valid;
    burst_t aw;
    logic   w_valid;
    logic   w_last;
    logic   b_ready;
    logic   ar_valid;
    burst_t ar;
    logic   r_ready;
  } manager_t;

  // From the memory. The read data are a separate port.
  typedef struct packed {
    logic  aw_ready;
    logic  w_ready;
    logic  b_valid;
    resp_e b_resp;
    logic  ar_ready;
    logic  r_valid;
    resp_e r_resp;
    logic  r_last;
  } memory_t;
endpackage
