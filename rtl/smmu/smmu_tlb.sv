// SPDX-License-Identifier: Apache-2.0 OR MIT
// The frames of the pages that were translated last: sets of four ways, in LUT RAM. One operation in each cycle.
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

  input  table_t  in_i,       // the page
  input  page_t   page_i,
  output logic    hit_o,
  output frame_t  frame_o,
  output logic    writable_o,

  input  logic    clear_i,    // all ways of the page's set
  input  logic    insert_i,
  input  logic    remove_i,
  input  frame_t  frame_i,    // insert_i
  input  logic    writable_i
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

  set_t set;
  logic [KeyWidth-1:0] key;
  logic [Ways-1:0] match, chosen;
  logic [1:0] victim_q;
  line_t line, lines [Ways];

  // Tables share the sets, and their first pages are not in the same ones.
  assign set = page_i[SetWidth-1:0] ^ (set_t'(in_i) << (SetWidth > 2 ? 1 : 0));
  assign key = {in_i, page_i[$bits(page_t)-1:SetWidth]};

  assign line = '{valid: insert_i, key: key, frame: frame_i[$clog2(Frames)-1:0], writable: writable_i};

  for (genvar way = 0; way < Ways; way++) begin : gen_ways
    line_t lines_q [Sets];
    assign lines[way]  = lines_q[set];
    assign match[way]  = lines[way].valid & (lines[way].key == key);
    assign chosen[way] = clear_i | ((match != '0) ? match[way] : (insert_i & (victim_q == 2'(way))));
    always_ff @(posedge clk_i) begin
      if ((insert_i || remove_i || clear_i) && chosen[way]) lines_q[set] <= line;
    end
  end

  always_comb begin
    hit_o      = match != '0;
    frame_o    = '0;
    writable_o = 1'b0;
    for (int unsigned way = 0; way < Ways; way++) begin
      if (match[way]) {frame_o, writable_o} = {frame_t'(lines[way].frame), lines[way].writable};
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni)       victim_q <= '0;
    else if (insert_i) victim_q <= victim_q + 2'd1;
  end
endmodule
