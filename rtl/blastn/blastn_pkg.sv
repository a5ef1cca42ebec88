// SPDX-License-Identifier: Apache-2.0 OR MIT
// Types of the nucleotide seed scan. README.md has the method and the table.
package blastn_pkg;
  localparam int unsigned Lookups = 4;  // in a word of 32 bits: one at each byte
  localparam int unsigned Window  = 7;  // bytes: the one before the word, the word, two after it

  typedef logic [31:0] byte_t;  // of a file: an index of the first of four bases

  // A word with words of eight bases that the queries have.
  typedef struct packed {
    byte_t               at;     // the word's first byte
    logic [Lookups-1:0]  found;  // the look-ups that are in the presence table
    logic [Window*4-1:0] known;  // bases of the window that a hit may have: in the stream, and not masked
    logic [Window*8-1:0] bytes;  // the first one in the highest bits
    logic                unchecked;  // the mask did not reach all of them in time
  } candidate_t;

  // Eleven equal bases.
  typedef struct packed {
    logic [15:0] entry;   // the index of the query's entry
    logic [1:0]  prior;  // equal bases before the eight: the first base is so many before the entry's
    logic [33:0] base;    // the first one, counted from the start of the stream
    logic        unchecked;
  } hit_t;

  // The bases beside a look-up, and its eight.
  typedef struct packed {
    logic [5:0]  prior;
    logic [15:0] eight;
    logic [5:0]  after;
  } context_t;

  // Equal bases of three, counted from the lowest two bits.
  function automatic logic [1:0] equal_before(logic [5:0] a, logic [5:0] b);
    logic [5:0] different = a ^ b;
    if (different[1:0] != '0) return 2'd0;
    if (different[3:2] != '0) return 2'd1;
    return (different[5:4] != '0) ? 2'd2 : 2'd3;
  endfunction

  // The same from the highest two.
  function automatic logic [1:0] equal_after(logic [5:0] a, logic [5:0] b);
    return equal_before({a[1:0], a[3:2], a[5:4]}, {b[1:0], b[3:2], b[5:4]});
  endfunction

  // Known bases of three, from the lowest bit, and from the highest.
  function automatic logic [1:0] room_before(logic [2:0] known);
    return !known[0] ? 2'd0 : !known[1] ? 2'd1 : !known[2] ? 2'd2 : 2'd3;
  endfunction

  function automatic logic [1:0] room_after(logic [2:0] known);
    return room_before({known[0], known[1], known[2]});
  endfunction

  function automatic logic [1:0] least(logic [1:0] a, logic [1:0] b);
    return (a < b) ? a : b;
  endfunction
endpackage
