// SPDX-License-Identifier: Apache-2.0 OR MIT
// A queue for many words: the entries are in block RAM, and a short queue of those read ahead hides
// its cycle of delay, so that a word can leave in each cycle.
//
// Owns its entries and their order; never drops or repeats one. An entry leaves at least three cycles after
// it was written.
//
// Width  bits of an entry
// Depth  entries in the block RAM, a power of two
module prim_fifo_ram #(
  parameter int unsigned Width = 32,
  parameter int unsigned Depth = 512
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
  if ((Depth < 2) || ((Depth & (Depth - 1)) != 0)) begin : gen_bad_depth
    $error("Depth is %0d: a power of two from 2 on", Depth);
  end

  localparam int unsigned AddressWidth = (Depth > 1) ? $clog2(Depth) : 1;
  typedef logic [AddressWidth:0] pointer_t;

  pointer_t write_q, read_q;
  logic push, fetch, fetched_q;

  assign ready_o = (write_q - read_q) != pointer_t'(Depth);
  assign push    = valid_i & ready_o;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      write_q <= '0;
      read_q  <= '0;
    end else begin
      if (push)  write_q <= write_q + pointer_t'(1);
      if (fetch) read_q  <= read_q + pointer_t'(1);
    end
  end

  logic [Width-1:0] word;

  prim_ram #(.Width(Width), .Depth(Depth)) u_ram (
    .clk_i,
    .write_i         (push),
    .write_address_i (write_q[AddressWidth-1:0]),
    .write_data_i    (data_i),
    .read_i          (fetch),
    .read_address_i  (read_q[AddressWidth-1:0]),
    .read_data_o     (word)
  );

  prim_ahead #(.Width(Width)) u_ahead (
    .clk_i,
    .rst_ni,
    .available_i (write_q != read_q),
    .fetch_o     (fetch),
    .fetched_i   (fetched_q),
    .data_i      (word),
    .valid_o,
    .ready_i,
    .data_o
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) fetched_q <= 1'b0;
    else         fetched_q <= fetch;
  end
endmodule
