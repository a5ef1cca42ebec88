// SPDX-License-Identifier: Apache-2.0 OR MIT
// The types of the processor's interface to the file system core.
package hwfs_axi_pkg;
  // The interface's own statuses; smaller ones come from the core (hwfs_pkg::fs_status_e).
  localparam logic [5:0] StatusSlaveError  = 6'd48;  // memory answered with SLVERR
  localparam logic [5:0] StatusDecodeError = 6'd49;  // no memory at this address: DECERR
  localparam logic [5:0] StatusBadTransfer = 6'd50;  // the data would lie outside the range that the port reaches

  // The contents of the command registers.
  typedef struct packed {
    hwfs_pkg::cmd_t cmd;
    logic [63:0]    address;  // of the first byte in memory
  } order_t;

  // The contents of the result registers, for the last command.
  typedef struct packed {
    logic [5:0]  status;
    logic [63:0] value;
    logic [31:0] moved;  // bytes of data that were moved to or from memory
  } result_t;

  // The value of the register SHAPE for a core with this number of open files and this block size.
  function automatic logic [31:0] shape(int unsigned files, int unsigned block_size_log2);
    return {8'd64, 8'(block_size_log2), 8'(files), 8'd1};
  endfunction
endpackage
