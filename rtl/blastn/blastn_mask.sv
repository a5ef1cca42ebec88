// SPDX-License-Identifier: Apache-2.0 OR MIT
// The bases of the stream that no hit may have. The processor writes their list as the stream goes on; README.md has the entries.
//
// The entries are of different words, in order: one a cycle keeps up with any list. A word that the list does not reach in time is
// unchecked, and none of its bases is masked; entries that come too late are passed over, one a cycle.
//
// MaskLog2  entries that may wait
module blastn_mask #(
  parameter int unsigned MaskLog2 = 9
) (
  input  logic              clk_i,
  input  logic              rst_ni,     // low between streams: the list is of one stream

  input  logic              write_i,    // only while there is room
  input  logic [31:0]       write_data_i,
  output logic [MaskLog2:0] room_o,     // entries that may be written

  input  logic              step_i,     // the word is taken
  output logic [15:0]       masked_o,   // its bases, the first one in the highest bit
  output logic              checked_o   // the list has reached it
);
  typedef logic [MaskLog2:0] room_t;
  typedef logic [30:0]       words_t;
  typedef struct packed {
    logic [14:0] distance;  // in words, from the entry before; 0 ends the list
    logic        rest;      // the words from here to the next entry are masked
    logic [15:0] masked;
  } entry_t;

  entry_t head;
  words_t past_q;  // words from the last entry to this one
  room_t  room_q;
  logic   valid, ready, is_end, is_late, is_here, rest_q, pop;

  assign is_end    = head.distance == '0;
  assign is_late   = past_q > words_t'(head.distance);
  assign is_here   = past_q == words_t'(head.distance);
  assign checked_o = valid & (is_end | ~is_late);
  assign masked_o  = !checked_o ? '0 : is_here ? head.masked : {16{rest_q}};
  assign pop       = valid & ~is_end & (is_late | (is_here & step_i));
  assign room_o    = room_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      room_q <= room_t'(1 << MaskLog2);
      past_q <= words_t'(1);
      rest_q <= 1'b0;
    end else begin
      room_q <= room_q - room_t'(write_i) + room_t'(pop);
      past_q <= past_q + words_t'(step_i) - (pop ? words_t'(head.distance) : '0);
      if (pop) rest_q <= head.rest;
    end
  end

  prim_fifo_ram #(.Width($bits(entry_t)), .Depth(1 << MaskLog2)) u_list (
    .clk_i, .rst_ni, .valid_i(write_i), .ready_o(ready), .data_i(write_data_i), .valid_o(valid), .ready_i(pop), .data_o(head)
  );
  `ifndef SYNTHESIS
  always_ff @(posedge clk_i) if (rst_ni) a_room: assert (!write_i || ready);
  `else
  logic unused;
  assign unused = ready;
  `endif
endmodule
