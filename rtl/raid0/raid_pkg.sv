// SPDX-License-Identifier: Apache-2.0 OR MIT
// Types of the signals between the array's modules.
package raid_pkg;
  import block_pkg::*;

  // One piece of a request: it lies on one disk, within one slot.
  typedef struct packed {
    op_e    op;
    logic   fua;
    lba_t   lba;    // on the disk
    count_t count;
  } piece_t;

  typedef struct packed {
    status_e     status;
    logic [15:0] detail;
  } result_t;

  localparam result_t ResultOk = '{status: StatusOk, detail: '0};

  // The first error counts.
  function automatic result_t first_error(result_t so_far, result_t now);
    return (so_far.status != StatusOk) ? so_far : now;
  endfunction
endpackage
