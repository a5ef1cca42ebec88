// SPDX-License-Identifier: Apache-2.0 OR MIT
// AXI4-Lite with 32-bit data, for registers. ARM IHI 0022, chapter B.
package axil_pkg;
  localparam int unsigned AddressWidth = 12;
  typedef logic [AddressWidth-1:0] address_t;

  typedef struct packed {
    logic        aw_valid;
    address_t    aw_address;
    logic        w_valid;
    logic [31:0] w_data;
    logic [3:0]  w_strobe;
    logic        b_ready;
    logic        ar_valid;
    address_t    ar_address;
    logic        r_ready;
  } manager_t;

  typedef struct packed {
    logic           aw_ready;
    logic           w_ready;
    logic           b_valid;
    axi_pkg::resp_e b_resp;
    logic           ar_ready;
    logic           r_valid;
    logic [31:0]    r_data;
    axi_pkg::resp_e r_resp;
  } subordinate_t;
endpackage
