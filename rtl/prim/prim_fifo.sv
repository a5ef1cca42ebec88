// SPDX-License-Identifier: Apache-2.0 OR MIT
// A first-in first-out queue in one clock domain. The oldest entry is shown without a request (first
// word falls through), so an entry written in one cycle can leave in the next.
//
// Owns its entries; never drops or repeats one: a write while `ready_o` is low and a read while
// `valid_o` is low have no effect. `ready_o` does not depend on `ready_i`.
//
// Width  bits of an entry
// Depth  number of entries, 1 or more; need not be a power of two
module prim_fifo #(
  parameter int unsigned Width = 8,
  parameter int unsigned Depth = 4
) (
  input  logic             clk_i,
  input  logic             rst_ni,

  input  logic             valid_i,
  output logic             ready_o,
  input  logic [Width-1:0] data_i,

  output logic             valid_o,
  input  logic             ready_i,
  output logic [Width-1:0] data_o
);
  // What the parameters must be.
  if (Width < 1) begin : gen_bad_width
    $error("Width is %0d: 1 or more", Width);
  end
  if (Depth < 1) begin : gen_bad_depth
    $error("Depth is %0d: 1 or more", Depth);
  end

  localparam int unsigned IndexWidth = (Depth > 1) ? $clog2(Depth) : 1;
  localparam int unsigned CountWidth = $clog2(Depth + 1);
  typedef logic [IndexWidth-1:0] index_t;
  typedef logic [CountWidth-1:0] count_t;

  logic [Width-1:0] entries_q [Depth];
  index_t write_q, read_q;
  count_t count_q;
  logic   push, pop;

  function automatic index_t next(index_t index);
    return (index == index_t'(Depth - 1)) ? '0 : index + index_t'(1);
  endfunction

  assign ready_o = count_q != count_t'(Depth);
  assign valid_o = count_q != '0;
  assign data_o  = entries_q[read_q];
  assign push    = valid_i & ready_o;
  assign pop     = valid_o & ready_i;

  always_ff @(posedge clk_i) begin
    if (push) entries_q[write_q] <= data_i;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      write_q <= '0;
      read_q  <= '0;
      count_q <= '0;
    end else begin
      if (push) write_q <= next(write_q);
      if (pop)  read_q  <= next(read_q);
      if (push != pop) count_q <= push ? count_q + count_t'(1) : count_q - count_t'(1);
    end
  end
endmodule
