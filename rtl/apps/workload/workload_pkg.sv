// SPDX-License-Identifier: Apache-2.0 OR MIT
// The workload generator's configuration and results. rtl/apps/README.md has a table of both.
package workload_pkg;
  typedef enum logic [3:0] {
    RunMount       = 4'd0,
    RunUnmount     = 4'd1,
    RunPut         = 4'd2,  // a whole file in one command
    RunFill        = 4'd3,  // create, write block by block, sync, close
    RunRead        = 4'd4,  // open, read block by block, close
    RunRandomRead  = 4'd5,  // open, `count` reads of a block at random offsets, close
    RunRandomWrite = 4'd6,  // open, `count` writes of a block at random offsets, sync, close
    RunDelete      = 4'd7
  } run_e;

  typedef struct packed {
    run_e        run;
    logic [2:0]  file;         // the core's number for the open file
    logic [6:0]  name_bytes;
    logic [47:0] file_bytes;
    logic [31:0] block_bytes;  // of each operation: a multiple of a data word
    logic [31:0] count;        // number of operations at random offsets
    logic [4:0]  align_log2;   // random offsets are multiples of this, and of a data word
    logic [31:0] seed;         // of the data and of the offsets
  } config_t;

  typedef struct packed {
    logic [63:0] cycles;       // from the start to the end
    logic [63:0] bytes;        // moved by successful operations
    logic [31:0] operations;   // completed reads, writes and puts
    logic [31:0] errors;       // commands that failed
    logic [31:0] mismatches;   // words that differ from those of the seed
    logic [31:0] latency_min;  // cycles of one operation, from its offer to its end
    logic [31:0] latency_max;
    logic [5:0]  status;       // of the first error; 0 if there is none
  } result_t;

  // The data: each 32-bit word is computed from its offset in the file, so a misplaced word is detected.
  function automatic logic [31:0] pattern(logic [31:0] place);
    logic [31:0] value;
    value = place ^ (place << 13);
    value = value ^ (value >> 17);
    return value ^ (value << 5);
  endfunction
endpackage
