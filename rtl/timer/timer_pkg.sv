// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the profiling timer records.
package timer_pkg;
  typedef logic [63:0] time_t;

  typedef struct packed {
    logic        is_line;  // `tag` is the number of a line
    logic [31:0] tag;
    time_t       at;
  } event_t;
endpackage
