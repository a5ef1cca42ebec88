// SPDX-License-Identifier: Apache-2.0 OR MIT
// The receiving half of a link: delivers the words of good frames in order, once, and requests again what is missing.
//
// A frame's words go into the buffer as they come; they count only when the frame's end is good and its first word is the
// next one. A good frame that begins with another word shows that frames were lost: `receipt_o.retry` is inverted,
// unless the frame was sent before the sender has gone back for the last loss.
//
// WindowLog2  log2 of the number of words of the buffer, as in the other side's `link_send`
module link_receive
  import link_pkg::*;
#(
  parameter int unsigned WindowLog2 = 10
) (
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic        up_i,      // in a session; all is dropped when this falls

  input  symbol_t     symbol_i,  // idle while there is no other
  input  logic        good_i,    // with an end

  output logic        peer_valid_o,  // a good frame: its header
  output header_t     peer_o,
  output receipt_t    receipt_o,

  output logic        rx_valid_o,
  input  logic        rx_ready_i,
  output logic [63:0] rx_data_o,
  output logic        rx_last_o   // of a packet
);
  localparam int unsigned Depth = 1 << WindowLog2;
  typedef logic [WindowLog2+1:0] index_t;

  index_t  received_q, fill_q, taken_q;
  header_t header_q;
  logic    retry_q, held_q, overrun_q, in_order, write, fetch;
  logic [63:0] held_word_q;  // written when the next symbol shows whether it ends a packet

  assign peer_valid_o = (symbol_i.kind == SymEnd) & good_i;
  assign peer_o       = header_q;
  assign receipt_o    = '{taken: 16'(taken_q), received: 16'(received_q), retry: retry_q};
  assign in_order     = index_t'(header_q.sequence_) == received_q;
  assign write        = held_q & ((symbol_i.kind == SymData) | (symbol_i.kind == SymEnd)) & ~overrun_q;

  always_ff @(posedge clk_i) begin
    if (symbol_i.kind == SymStart) header_q <= symbol_i.data[55:0];
    if (symbol_i.kind == SymData)  held_word_q <= symbol_i.data;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      received_q <= '0;
      fill_q     <= '0;
      retry_q    <= 1'b0;
      held_q     <= 1'b0;
      overrun_q  <= 1'b0;
    end else if (!up_i) begin
      received_q <= '0;
      fill_q     <= '0;
      retry_q    <= 1'b0;
      held_q     <= 1'b0;
      overrun_q  <= 1'b0;
    end else begin
      if (write) fill_q <= fill_q + index_t'(1);
      unique case (symbol_i.kind)
        SymStart: begin
          fill_q    <= received_q;
          held_q    <= 1'b0;
          overrun_q <= 1'b0;
        end
        SymData: begin
          held_q <= 1'b1;
          // A frame that does not fit is damaged; the words that are not taken yet stay.
          overrun_q <= overrun_q | ((fill_q + index_t'(write) - taken_q) == index_t'(Depth));
        end
        SymEnd: begin
          held_q <= 1'b0;
          if (good_i && in_order && !overrun_q)                        received_q <= fill_q + index_t'(write);
          else if (good_i && (header_q.attempt == retry_q) && header_q.up) retry_q <= ~retry_q;
        end
        default: ;
      endcase
    end
  end

  // The buffer's output register holds the word that is offered.
  logic valid_q;

  assign fetch      = (taken_q != received_q) & (~valid_q | rx_ready_i);
  assign rx_valid_o = valid_q & up_i;

  prim_ram #(.Width(65), .Depth(Depth)) u_buffer (
    .clk_i,
    .write_i         (write),
    .write_address_i (fill_q[WindowLog2-1:0]),
    .write_data_i    ({(symbol_i.kind == SymEnd) & symbol_i.data[0], held_word_q}),
    .read_i          (fetch),
    .read_address_i  (taken_q[WindowLog2-1:0]),
    .read_data_o     ({rx_last_o, rx_data_o})
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      taken_q <= '0;
      valid_q <= 1'b0;
    end else if (!up_i) begin
      taken_q <= '0;
      valid_q <= 1'b0;
    end else begin
      if (fetch)           taken_q <= taken_q + index_t'(1);
      if (fetch)           valid_q <= 1'b1;
      else if (rx_ready_i) valid_q <= 1'b0;
    end
  end
endmodule
