// SPDX-License-Identifier: Apache-2.0 OR MIT
// The sending half of a link: keeps words until the other side has received them, cuts them into frames, and goes back when the
// other side misses some.
//
// Words are numbered, not frames: a frame names its first word, so that words that are sent again may be in other frames. A frame
// ends with a packet, after `FrameWords` words, or when no word can be sent, so that no word waits for the next. While there are
// no words, empty frames carry the receipts, and show the other side by their `sequence` that a word was lost at the end.
//
// Sends only words for which the receiver has room. Its buffer has as many words as the one here.
//
// WindowLog2  log2 of the number of words that are kept, 1 to 14
// FrameWords  the longest frame, 1 or more
module link_send
  import link_pkg::*;
#(
  parameter int unsigned WindowLog2 = 10,
  parameter int unsigned FrameWords = 128
) (
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic        up_i,     // in a session; all is dropped when this falls
  input  logic        heard_i,  // a greeting was received

  input  logic        tx_valid_i,
  output logic        tx_ready_o,
  input  logic [63:0] tx_data_i,
  input  logic        tx_last_i,  // of a packet

  input  receipt_t    receipt_i,  // what this side has received, for the other
  input  logic        peer_valid_i,
  input  receipt_t    peer_i,     // what the other side has received

  input  logic        slot_i,     // a symbol leaves
  output symbol_t     symbol_o,
  output logic        back_o      // one cycle: goes back to what the other side has received
);
  localparam int unsigned Depth      = 1 << WindowLog2;
  localparam int unsigned CountWidth = $clog2(FrameWords + 1);
  // Numbers are compared for equality and subtracted from one another: two bits more than the window has keep them apart.
  typedef logic [WindowLog2+1:0] index_t;
  typedef logic [CountWidth-1:0] count_t;

  index_t write_q, next_q, acked_q, taken_q, look;
  logic   retry_q, attempt_q, push;

  // --- Words come in, and leave when the other side has received them ----------------------------------------
  assign tx_ready_o = up_i & ((write_q - acked_q) != index_t'(Depth));
  assign push       = tx_valid_i & tx_ready_o;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      write_q <= '0;
      acked_q <= '0;
      taken_q <= '0;
      retry_q <= 1'b0;
    end else if (!up_i) begin
      write_q <= '0;
      acked_q <= '0;
      taken_q <= '0;
      retry_q <= 1'b0;
    end else begin
      if (push) write_q <= write_q + index_t'(1);
      if (peer_valid_i) begin
        acked_q <= index_t'(peer_i.received);
        taken_q <= index_t'(peer_i.taken);
        retry_q <= peer_i.retry;
      end
    end
  end

  logic        last;
  logic [63:0] word;

  prim_ram #(.Width(65), .Depth(Depth)) u_window (
    .clk_i,
    .write_i         (push),
    .write_address_i (write_q[WindowLog2-1:0]),
    .write_data_i    ({tx_last_i, tx_data_i}),
    .read_i          (slot_i),
    .read_address_i  (look[WindowLog2-1:0]),
    .read_data_o     ({last, word})
  );

  // --- Frames ---------------------------------------------------------------------------------------------------
  kind_e  kind_q, kind_d;
  count_t count_q;   // words of the frame so far
  logic   ends_q;    // the word before was the last of a packet
  logic   back, available;

  // `look` is the word of the next slot.
  assign look      = next_q + index_t'(kind_q == SymData);
  assign available = (look != write_q) & ((look - taken_q) != index_t'(Depth)) & up_i;
  assign back      = retry_q != attempt_q;
  assign back_o    = slot_i & (kind_q == SymIdle) & back;

  always_comb begin
    unique case (kind_q)
      SymIdle:  kind_d = SymStart;
      SymStart: kind_d = (available && !back) ? SymData : SymEnd;
      SymData:  kind_d = (available && !back && !last && (count_q != count_t'(FrameWords - 1))) ? SymData : SymEnd;
      default:  kind_d = SymIdle;
    endcase
  end

  header_t header;
  always_comb begin
    header = '{taken: receipt_i.taken, received: receipt_i.received, sequence_: 16'(next_q), zero: '0, up: up_i,
               heard: heard_i, retry: receipt_i.retry, attempt: attempt_q};
    symbol_o = '{kind: kind_q, data: word};
    if (kind_q == SymStart)    symbol_o.data = 64'(header);
    else if (kind_q == SymEnd) symbol_o.data = 64'(ends_q);
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      kind_q    <= SymIdle;
      next_q    <= '0;
      attempt_q <= 1'b0;
    end else begin
      if (slot_i) begin
        kind_q <= kind_d;
        next_q <= look;
        if (back_o) begin
          next_q    <= acked_q;
          attempt_q <= retry_q;
        end
      end
      if (!up_i) begin
        next_q    <= '0;
        attempt_q <= 1'b0;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (slot_i) begin
      count_q <= (kind_q == SymData) ? count_q + count_t'(1) : '0;
      ends_q  <= (kind_q == SymData) & last;
    end
  end
endmodule
