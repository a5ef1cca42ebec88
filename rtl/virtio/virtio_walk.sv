// SPDX-License-Identifier: Apache-2.0 OR MIT
// Reads one descriptor chain into the segment memory and computes its total lengths (sections 2.7.5 to 2.7.7).
//
// A chain has at most `Slots` segments and at most one indirect table, at its end, so the walk terminates whatever
// memory contains. It reads only inside the descriptor table and the indirect table. An invalid chain sets `fail_o`: an
// index outside its table, more than `Slots` segments, a readable segment after a writable one, a nested table, a
// segment beyond the address range, no byte for the status, an AXI error.
//
// The segment memory has four words for each segment, in a descriptor's layout.
//
// Slots  the longest chain, a power of two
module virtio_walk
  import virtio_pkg::*;
#(
  parameter int unsigned Slots = 128,
  localparam int unsigned SlotWidth = $clog2(Slots)
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  input  logic                 abort_i,     // end at once
  input  logic                 start_i,
  input  logic [15:0]          head_i,
  input  queue_t               queue_i,
  input  logic                 indirect_i,  // the driver accepted indirect tables
  output logic                 done_o,
  output logic                 fail_o,      // with done_o
  output chain_t               chain_o,

  output mem_req_t             mem_o,
  input  mem_rsp_t             mem_i,
  output logic                 segment_write_o,
  output logic [SlotWidth+1:0] segment_address_o,
  output logic [31:0]          segment_data_o
);
  import axi_pkg::address_t;
  typedef logic [SlotWidth-1:0] slot_t;
  localparam int unsigned FlagNext = 0, FlagWrite = 1, FlagIndirect = 2;

  typedef enum logic [2:0] {Idle, Ask, Words, Check, Done} state_e;
  state_e      state_q, state_d;
  address_t    table_q, table_d;
  logic [16:0] entries_q, entries_d;  // descriptors in the table
  logic [15:0] index_q, index_d;
  slot_t       slot_q, slot_d;
  logic        nested_q, nested_d, writing_q, writing_d, status_q, status_d, fail_q, fail_d;
  chain_t      chain_q, chain_d;

  // The descriptor that was read last.
  logic [1:0]  word_q;
  reach_t      address_q;
  logic [31:0] length_q;
  logic [2:0]  flags_q;
  logic [15:0] next_q;

  reach_t place, last;
  logic [31:0] behind_q;
  logic   is_table, too_long;
  bytes_t total;
  assign place    = {1'b0, table_q} + reach_t'({index_q, 4'd0});
  assign is_table = flags_q[FlagIndirect];
  // The new total of the segment's direction.
  // The sums are there in Check: the length arrived at least three cycles before, the flags two.
  always_ff @(posedge clk_i) begin
    behind_q <= length_q - 32'd1;
    last     <= address_q + reach_t'(behind_q);
    total    <= (flags_q[FlagWrite] ? chain_q.writable : chain_q.readable) + bytes_t'(length_q[BytesWidth-2:0]);
  end
  assign too_long = (length_q[31:BytesWidth-1] != '0) | total[BytesWidth-1];

  assign chain_o = chain_q;
  assign done_o  = state_q == Done;
  assign fail_o  = fail_q;

  always_comb begin
    mem_o         = '0;
    mem_o.valid   = state_q == Ask;
    mem_o.r_ready = state_q == Words;
    if (state_q == Ask) begin
      mem_o.address = place;
      mem_o.words   = words_t'(4);
    end
  end
  assign segment_write_o   = (state_q == Words) & mem_i.r_valid;
  assign segment_address_o = {slot_q, word_q};
  assign segment_data_o    = mem_i.r_data;

  always_comb begin
    state_d   = state_q;
    table_d   = table_q;
    entries_d = entries_q;
    index_d   = index_q;
    slot_d    = slot_q;
    nested_d  = nested_q;
    writing_d = writing_q;
    status_d  = status_q;
    fail_d    = fail_q;
    chain_d   = chain_q;
    unique case (state_q)
      Idle: if (start_i) begin
        state_d   = Ask;
        table_d   = queue_i.desc;
        entries_d = 17'(queue_i.mask) + 17'd1;
        index_d   = head_i;
        slot_d    = '0;
        nested_d  = 1'b0;
        writing_d = 1'b0;
        status_d  = 1'b0;
        fail_d    = 1'b0;
        chain_d   = '0;
        if ({1'b0, head_i} >= entries_d) {state_d, fail_d} = {Done, 1'b1};
      end
      Ask: if (mem_i.ready) state_d = Words;
      Words: if (mem_i.done) begin
        state_d = mem_i.error ? Done : Check;
        fail_d  = mem_i.error;
      end
      Check: begin
        state_d = Done;
        if (is_table) begin
          // Section 2.7.5.3: not nested, and the last descriptor of its chain.
          fail_d = ~indirect_i | nested_q | flags_q[FlagNext] | (length_q[3:0] != '0) | (length_q == '0) |
                   address_q[axi_pkg::AddressWidth] | last[axi_pkg::AddressWidth] | (address_q[1:0] != '0);
          table_d   = address_t'(address_q);
          entries_d = (length_q[31:20] != '0) ? 17'h1_0000 : {1'b0, length_q[19:4]};
          index_d   = '0;
          nested_d  = 1'b1;
          if (!fail_d) state_d = Ask;
        end else begin
          fail_d = (writing_q & ~flags_q[FlagWrite]) | address_q[axi_pkg::AddressWidth] |
                   ((length_q != '0) & last[axi_pkg::AddressWidth]);
          if (flags_q[FlagWrite] && !writing_q) begin
            writing_d              = 1'b1;
            chain_d.first_writable = 16'(slot_q);
          end
          if (flags_q[FlagWrite]) chain_d.writable = total;
          else                    chain_d.readable = total;
          chain_d.too_long = chain_q.too_long | too_long;
          if (flags_q[FlagWrite] && (length_q != '0)) begin
            status_d          = 1'b1;
            chain_d.last_byte = address_t'(last);
          end
          slot_d  = slot_q + slot_t'(1);
          index_d = next_q;
          if (flags_q[FlagNext]) begin
            if (({1'b0, next_q} >= entries_q) || (slot_q == '1)) fail_d = 1'b1;
            if (!fail_d) state_d = Ask;
          end else if (!status_d) begin
            fail_d = 1'b1;
          end
        end
      end
      default: state_d = Idle;
    endcase
    if (abort_i) state_d = Idle;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) state_q <= Idle;
    else         state_q <= state_d;
  end

  always_ff @(posedge clk_i) begin
    table_q   <= table_d;
    entries_q <= entries_d;
    index_q   <= index_d;
    slot_q    <= slot_d;
    nested_q  <= nested_d;
    writing_q <= writing_d;
    status_q  <= status_d;
    fail_q    <= fail_d;
    chain_q   <= chain_d;
    if (state_q == Ask) word_q <= '0;
    if (segment_write_o) begin
      word_q <= word_q + 2'd1;
      unique case (word_q)
        2'd0: address_q[31:0] <= mem_i.r_data;
        // The top bit replaces all address bits beyond the port's range.
        2'd1: address_q[axi_pkg::AddressWidth:32] <= {mem_i.r_data[31:16] != '0, mem_i.r_data[15:0]};
        2'd2: length_q <= mem_i.r_data;
        default: {next_q, flags_q} <= {mem_i.r_data[31:16], mem_i.r_data[2:0]};
      endcase
    end
  end
endmodule
