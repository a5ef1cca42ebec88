// SPDX-License-Identifier: Apache-2.0 OR MIT
// A first-in first-out queue between two clock domains. Each side's pointer crosses as a Gray code
// through two flip-flops, so that a pointer that is sampled while it changes is read as its old or its new
// value; both are safe.
//
// Owns its entries; never drops or repeats one. Both resets must be asserted together, and each
// released synchronously to its clock.
//
// Width  bits of an entry
// Depth  number of entries, a power of two, 4 or more; 8 streams without a pause at equal clocks
module prim_fifo_async #(
  parameter int unsigned Width = 8,
  parameter int unsigned Depth = 8
) (
  input  logic             write_clk_i,
  input  logic             write_rst_ni,
  input  logic             write_valid_i,
  output logic             write_ready_o,
  input  logic [Width-1:0] write_data_i,

  input  logic             read_clk_i,
  input  logic             read_rst_ni,
  output logic             read_valid_o,
  input  logic             read_ready_i,
  output logic [Width-1:0] read_data_o
);
  // What the parameters must be.
  if (Width < 1) begin : gen_bad_width
    $error("Width is %0d: 1 or more", Width);
  end
  if ((Depth < 4) || ((Depth & (Depth - 1)) != 0)) begin : gen_bad_depth
    $error("Depth is %0d: a power of two from 4 on", Depth);
  end

  localparam int unsigned IndexWidth = $clog2(Depth);
  typedef logic [IndexWidth:0] pointer_t;

  function automatic pointer_t gray(pointer_t binary);
    return binary ^ (binary >> 1);
  endfunction

  logic [Width-1:0] entries_q [Depth];

  // Write side.
  pointer_t write_q, write_d, write_gray_q;
  (* ASYNC_REG = "TRUE" *) pointer_t read_meta_q, read_sync_q;
  pointer_t read_gray_q;

  // Full: the Gray codes differ in the two highest bits and in no other.
  assign write_ready_o = write_gray_q != {~read_sync_q[IndexWidth-:2], read_sync_q[IndexWidth-2:0]};
  assign write_d       = (write_valid_i && write_ready_o) ? write_q + pointer_t'(1) : write_q;

  always_ff @(posedge write_clk_i) begin
    if (write_valid_i && write_ready_o) entries_q[write_q[IndexWidth-1:0]] <= write_data_i;
  end

  always_ff @(posedge write_clk_i or negedge write_rst_ni) begin
    if (!write_rst_ni) begin
      write_q      <= '0;
      write_gray_q <= '0;
      read_meta_q  <= '0;
      read_sync_q  <= '0;
    end else begin
      write_q      <= write_d;
      write_gray_q <= gray(write_d);
      read_meta_q  <= read_gray_q;
      read_sync_q  <= read_meta_q;
    end
  end

  // Read side.
  pointer_t read_q, read_d;
  (* ASYNC_REG = "TRUE" *) pointer_t write_meta_q, write_sync_q;

  assign read_valid_o = read_gray_q != write_sync_q;
  assign read_d       = (read_valid_o && read_ready_i) ? read_q + pointer_t'(1) : read_q;
  assign read_data_o  = entries_q[read_q[IndexWidth-1:0]];

  always_ff @(posedge read_clk_i or negedge read_rst_ni) begin
    if (!read_rst_ni) begin
      read_q       <= '0;
      read_gray_q  <= '0;
      write_meta_q <= '0;
      write_sync_q <= '0;
    end else begin
      read_q       <= read_d;
      read_gray_q  <= gray(read_d);
      write_meta_q <= write_gray_q;
      write_sync_q <= write_meta_q;
    end
  end
endmodule
