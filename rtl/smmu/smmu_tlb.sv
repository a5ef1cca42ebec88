// SPDX-License-Identifier: Apache-2.0 OR MIT
// The frames of the pages that were translated last: sets of four ways, in LUT RAM. An operation takes effect one cycle later: in
// that cycle, when `busy_o`, no other begins and no lookup counts.
//
// Never has two entries for one page: an insertion replaces the page's own entry. An entry leaves when its page leaves its
// frame (`remove_i`), so a hit needs no other check than the frame's state.
//
// Holds nothing right before each set was cleared (`clear_i`).
//
// Entries  number of entries, a power of two, 8 or more
// Frames   number of frames, a power of two
module smmu_tlb
  import smmu_pkg::*;
#(
  parameter int unsigned Entries = 64,
  parameter int unsigned Frames  = 1024
) (
  input  logic    clk_i,
  input  logic    rst_ni,

  // The lookup.
  input  logic    look_i,     // from the next cycle on, of this page
  input  table_t  look_in_i,
  input  page_t   look_page_i,
  output logic    hit_o,
  output frame_t  frame_o,
  output logic    writable_o,

  // The operation: not while `busy_o`.
  input  table_t  in_i,       // the page
  input  page_t   page_i,
  input  logic    clear_i,    // all ways of the page's set
  input  logic    insert_i,
  input  logic    remove_i,
  input  frame_t  frame_i,    // insert_i
  input  logic    writable_i,
  output logic    busy_o
);
  localparam int unsigned Ways = 4;
  localparam int unsigned Sets = Entries / Ways;
  localparam int unsigned SetWidth = $clog2(Sets);
  localparam int unsigned KeyWidth = $bits(table_t) + $bits(page_t) - SetWidth;
  typedef logic [SetWidth-1:0] set_t;
  typedef struct packed {
    logic                      valid;
    logic [KeyWidth-1:0]       key;
    logic [$clog2(Frames)-1:0] frame;
    logic                      writable;
  } line_t;

  typedef logic [KeyWidth-1:0] key_t;

  // Tables share the sets, and their first pages are not in the same ones.
  function automatic set_t set_of(table_t in, page_t page);
    return page[SetWidth-1:0] ^ (set_t'(in) << (SetWidth > 2 ? 1 : 0));
  endfunction
  function automatic key_t key_of(table_t in, page_t page);
    return {in, page[$bits(page_t)-1:SetWidth]};
  endfunction

  set_t set, set_q, look_set_q;
  key_t key, look_key_q;
  logic [Ways-1:0] match, chosen_q, found;
  logic [1:0] victim_q;
  line_t line_q, lines [Ways], looked [Ways];
  assign set = set_of(in_i, page_i);
  assign key = key_of(in_i, page_i);
  always_ff @(posedge clk_i) begin
    if (look_i) {look_set_q, look_key_q} <= {set_of(look_in_i, look_page_i), key_of(look_in_i, look_page_i)};
  end

  always_ff @(posedge clk_i) begin
    set_q  <= set;
    line_q <= '{valid: insert_i, key: key, frame: frame_i[$clog2(Frames)-1:0], writable: writable_i};
  end

  for (genvar way = 0; way < Ways; way++) begin : gen_ways
    line_t lines_q [Sets];
    assign lines[way]  = lines_q[set];
    assign match[way]  = lines[way].valid & (lines[way].key == key);
    assign looked[way] = lines_q[look_set_q];
    assign found[way]  = looked[way].valid & (looked[way].key == look_key_q);
    always_ff @(posedge clk_i) begin
      chosen_q[way] <= clear_i | ((match != '0) ? match[way] : (insert_i & (victim_q == 2'(way))));
      if (busy_o && chosen_q[way]) lines_q[set_q] <= line_q;
    end
  end

  always_comb begin
    hit_o      = found != '0;
    frame_o    = '0;
    writable_o = 1'b0;
    for (int unsigned way = 0; way < Ways; way++) begin
      if (found[way]) {frame_o, writable_o} |= {frame_t'(looked[way].frame), looked[way].writable};
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) {victim_q, busy_o} <= '0;
    else begin
      busy_o <= insert_i | remove_i | clear_i;
      if (insert_i) victim_q <= victim_q + 2'd1;
    end
  end
endmodule
