// SPDX-License-Identifier: Apache-2.0 OR MIT
// Moves bytes between a stream of words and the segments of a chain, in order: with `push_i` from the stream into the
// guest's memory, otherwise from memory into the stream.
//
// Segments may begin and end at any byte. Where memory and stream are both at the start of a word, whole words move in
// one run; other bytes move one by one, which common drivers never cause. A move ends at a whole word of the stream, or
// is the last of its chain; the unused bytes of its last word are undefined. No byte outside the segments is accessed,
// provided that the caller moves no more bytes than the segments have.
//
// `abort_i` ends a move at once, except that a word which the stream was offered stays until it is taken; after it the
// stream's words are zeroes.
//
// Slots  segments of a chain, a power of two
module virtio_move
  import virtio_pkg::*;
#(
  parameter int unsigned Slots = 128,
  localparam int unsigned SlotWidth = $clog2(Slots),
  localparam int unsigned PlaceWidth = SlotWidth + axi_pkg::AddressWidth + BytesWidth + 3
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 abort_i,

  input  logic                 seek_i,      // the next move begins at the start of this segment
  input  logic [SlotWidth-1:0] slot_i,
  input  logic                 load_i,      // the next move continues at this earlier `place_o`
  input  logic [PlaceWidth-1:0] place_i,
  output logic [PlaceWidth-1:0] place_o,
  input  logic                 start_i,
  input  logic                 push_i,
  input  bytes_t               bytes_i,
  output logic                 done_o,
  output logic                 error_o,     // a memory error since `seek_i`

  output logic                 out_valid_o,
  input  logic                 out_ready_i,
  output logic [31:0]          out_data_o,
  input  logic                 in_valid_i,
  output logic                 in_ready_o,
  input  logic [31:0]          in_data_i,

  output logic                 segment_read_o,
  output logic [SlotWidth+1:0] segment_address_o,
  input  logic [31:0]          segment_data_i,  // one cycle later

  output mem_req_t             mem_o,
  input  mem_rsp_t             mem_i
);
  import axi_pkg::address_t;
  typedef logic [SlotWidth-1:0] slot_t;

  typedef enum logic [2:0] {Idle, Load, Pick, Take, Ask, Run, Give} state_e;
  state_e      state_q, state_d;
  slot_t       slot_q, slot_d;        // the next segment
  address_t    address_q, address_d;  // the rest of the current segment
  bytes_t      length_q, length_d;
  bytes_t      left_q, left_d;        // the rest of the move
  logic        push_q, push_d, bytewise_q, bytewise_d, error_q, error_d;
  logic [1:0]  load_q, load_d, position_q, position_d;  // position: the next byte of the stream's word
  logic [31:0] word_q, word_d;        // the stream's word, while bytes are moved
  bytes_t      step_q, step_d;        // bytes of this run
  logic        none_q, none_d;        // `left_q` is 0
  logic        ends_q;                // this run's bytes are the last: known before the run's end

  logic [BytesWidth-3:0] fits;  // words
  logic        in_words;
  logic [7:0]  byte_in, byte_out;
  logic [1:0]  lane;
  assign fits     = (left_q[BytesWidth-1:2] < length_q[BytesWidth-1:2]) ? left_q[BytesWidth-1:2] : length_q[BytesWidth-1:2];
  assign in_words = (address_q[1:0] == '0) & (position_q == '0) & (left_q[BytesWidth-1:2] != '0) & (length_q[BytesWidth-1:2] != '0);
  assign lane     = address_q[1:0];
  assign byte_in  = mem_i.r_data[8*lane+:8];
  assign byte_out = word_q[8*position_q+:8];
  assign done_o   = (state_q == Pick) & none_q;
  assign error_o  = error_q;
  assign place_o  = {slot_q, address_q, length_q, position_q, error_q};

  assign segment_read_o    = state_q == Load;
  assign segment_address_o = {slot_q, load_q};

  always_comb begin
    mem_o         = '0;
    mem_o.valid   = state_q == Ask;
    if ((state_q == Ask) || (state_q == Run)) begin
      mem_o.write   = push_q;
      mem_o.address = {1'b0, address_q[axi_pkg::AddressWidth-1:2], 2'b00};
      mem_o.words   = bytewise_q ? words_t'(1) : step_q[BytesWidth-2:2];
      mem_o.strobe  = bytewise_q ? 4'd1 << lane : '1;
      mem_o.w_valid = (state_q == Run) & push_q & (bytewise_q | in_valid_i);
      mem_o.w_data  = bytewise_q ? {4{byte_out}} : in_data_i;
      mem_o.r_ready = (state_q == Run) & (bytewise_q | out_ready_i);
    end
    in_ready_o  = (state_q == Take) | ((state_q == Run) & push_q & ~bytewise_q & mem_i.w_ready);
    out_valid_o = (state_q == Give) | ((state_q == Run) & ~push_q & ~bytewise_q & mem_i.r_valid);
    out_data_o  = (state_q == Run) ? mem_i.r_data : word_q;
  end

  always_comb begin
    state_d    = state_q;
    slot_d     = slot_q;
    address_d  = address_q;
    length_d   = length_q;
    left_d     = left_q;
    push_d     = push_q;
    bytewise_d = bytewise_q;
    error_d    = error_q;
    load_d     = load_q;
    position_d = position_q;
    word_d     = word_q;
    step_d     = step_q;
    none_d     = none_q;
    unique case (state_q)
      Idle: begin
        if (load_i) {slot_d, address_d, length_d, position_d, error_d} = place_i;
        if (seek_i) begin
          slot_d     = slot_i;
          length_d   = '0;
          position_d = '0;
          error_d    = 1'b0;
        end
        if (start_i) begin
          state_d = Pick;
          push_d  = push_i;
          left_d  = bytes_i;
          none_d  = bytes_i == '0;
        end
      end
      Load: begin
        // The word read in the previous cycle: both halves of the address, then the length.
        load_d = load_q + 2'd1;
        if (load_q == 2'd1) address_d[31:0] = segment_data_i;
        if (load_q == 2'd2) address_d[axi_pkg::AddressWidth-1:32] = segment_data_i[15:0];
        if (load_q == 2'd3) begin
          length_d = bytes_t'(segment_data_i);
          slot_d   = slot_q + slot_t'(1);
          state_d  = Pick;
        end
      end
      Pick: begin
        load_d     = '0;
        bytewise_d = ~in_words;
        step_d     = in_words ? {fits, 2'b00} : bytes_t'(1);
        if (none_q)               state_d = Idle;
        else if (length_q == '0)  state_d = Load;
        else if (in_words)        state_d = Ask;
        else                      state_d = (push_q && (position_q == '0)) ? Take : Ask;
      end
      Take: if (in_valid_i) begin
        word_d  = in_data_i;
        state_d = Ask;
      end
      Ask: if (mem_i.ready) state_d = Run;
      Run: begin
        if (bytewise_q && !push_q && mem_i.r_valid) word_d[8*position_q+:8] = byte_in;
        if (mem_i.done) begin
          state_d   = Pick;
          error_d   = error_q | mem_i.error;
          address_d = address_q + address_t'(step_q);
          length_d  = length_q - step_q;
          left_d    = left_q - step_q;
          none_d    = ends_q;
          if (bytewise_q) position_d = position_q + 2'd1;
          if (bytewise_q && !push_q && ((position_q == '1) || (left_q == bytes_t'(1)))) state_d = Give;
        end
      end
      Give: if (out_ready_i) state_d = Pick;
      default: state_d = Idle;
    endcase
    if (abort_i) begin
      state_d = (out_valid_o && !out_ready_i) ? Give : Idle;
      word_d  = (out_valid_o && !out_ready_i) ? out_data_o : '0;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) state_q <= Idle;
    else         state_q <= state_d;
  end

  always_ff @(posedge clk_i) begin
    slot_q     <= slot_d;
    address_q  <= address_d;
    length_q   <= length_d;
    left_q     <= left_d;
    push_q     <= push_d;
    bytewise_q <= bytewise_d;
    error_q    <= error_d;
    load_q     <= load_d;
    position_q <= position_d;
    word_q     <= word_d;
    step_q     <= step_d;
    none_q     <= none_d;
    ends_q     <= step_q == left_q;
  end
endmodule
