// What the workload generator is told, and what it counted. rtl/apps/README.md has a table of both.
package workload_pkg;
  typedef enum logic [3:0] {
    RunMount       = 4'd0,
    RunUnmount     = 4'd1,
    RunPut         = 4'd2,  // a whole file in one command
    RunFill        = 4'd3,  // create, write block by block, sync, close
    RunRead        = 4'd4,  // open, read block by block, close
    RunRandomRead  = 4'd5,  // open, `count` reads of a block anywhere, close
    RunRandomWrite = 4'd6,  // open, `count` writes of a block anywhere, sync, close
    RunDelete      = 4'd7
  } run_e;

  typedef struct packed {
    run_e        run;
    logic [2:0]  file;         // where the file is opened
    logic [6:0]  name_bytes;
    logic [47:0] file_bytes;
    logic [31:0] block_bytes;  // of each operation: a multiple of a data word
    logic [31:0] count;        // operations, where places are random
    logic [4:0]  align_log2;   // random places are multiples of this, and of a data word
    logic [31:0] seed;         // of the data; of the places too
  } config_t;

  typedef struct packed {
    logic [63:0] cycles;       // from the start to the end
    logic [63:0] bytes;        // moved by operations that ended well
    logic [31:0] operations;   // reads, writes and puts that were answered
    logic [31:0] errors;       // commands that did not end well
    logic [31:0] mismatches;   // words that are not those which the seed gives
    logic [31:0] latency_min;  // cycles of one operation, from its offer to its end
    logic [31:0] latency_max;
    logic [5:0]  status;       // the first error's; 0 where there is none
  } result_t;

  // The data: each 32-bit word by its place in the file, so that a word in a wrong place shows.
  function automatic logic [31:0] pattern(logic [31:0] place);
    logic [31:0] value;
    value = place ^ (place << 13);
    value = value ^ (value >> 17);
    return value ^ (value << 5);
  endfunction
endpackage
