// SPDX-License-Identifier: Apache-2.0 OR MIT
// Finds an initiator's target, and learns its address, buffers, longest frame, checksum and size.
//
// First it is silent for a frame's lifetime after its last word, and until no request is left: what was sent before, also before a reset,
// has arrived or never will. Then it broadcasts a query for its shelf and slot until a target answers, and sends IDENTIFY to it. It is
// up until the target is lost, and begins again.
//
// Sectors     the longest frame, in sectors
// Slots       the frames that the initiator can have under way
// Tries       attempts to identify before the next query
// RetryTicks  an eighth of the ticks between two attempts
// LifeTicks   a frame and its answer arrive within this time, or never
// Checksums   use frames with a CRC32C if the target has them
module aoe_discover
  import aoe_pkg::*;
#(
  parameter int unsigned SectorsLog2 = 1,
  parameter int unsigned Slots       = 8,
  parameter int unsigned Tries       = 6,
  parameter int unsigned RetryTicks  = 8,
  parameter int unsigned LifeTicks   = 512,
  parameter bit          Checksums   = 1'b1,
  localparam int unsigned SlotLog2 = $clog2(Slots)
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        tick_i,
  input  logic        idle_i,  // no request is left
  input  logic        busy_i,  // a frame is leaving
  input  logic        lost_i,

  output logic        up_o,
  output logic [3:0]  generation_o,  // counts the times that it came up
  output logic [47:0] target_o,
  output logic [SlotLog2:0] limit_o,
  output logic [SectorsLog2:0] sectors_o,
  output logic        checked_o,
  output logic        extended_o,  // 48 bits of address
  output logic        cache_o,     // flushes are needed
  output logic [47:0] block_count_o,

  output logic        send_valid_o,
  input  logic        send_ready_i,
  output logic        send_identify_o,  // or a query
  output logic [31:0] send_tag_o,

  // A good answer with the tag of the last request.
  input  logic        config_i,
  input  logic        identified_i,
  input  header_t     answer_i,
  // The data of an answer that may be that to IDENTIFY.
  input  logic        data_valid_i,
  input  logic [6:0]  data_index_i,
  input  logic [31:0] data_i
);
  typedef enum logic [2:0] {Silent, Query, Queried, Identify, Identifying, Up} state_e;
  localparam int unsigned RepeatTicks = 8 * RetryTicks;
  localparam int unsigned TimeWidth = $clog2(((RepeatTicks > LifeTicks) ? RepeatTicks : LifeTicks) + 2);
  typedef logic [TimeWidth-1:0] ticks_t;

  state_e state_q;
  ticks_t timer_q;
  logic [2:0]  tries_q;
  logic [30:0] number_q;  // of requests
  logic [27:0] short_q;
  logic [47:0] long_q;
  logic        knows_q, uses_q;

  assign up_o            = state_q == Up;
  assign send_valid_o    = (state_q == Query) | (state_q == Identify);
  assign send_identify_o = state_q == Identify;
  assign send_tag_o      = {1'b1, number_q};
  assign extended_o      = knows_q & uses_q;
  assign block_count_o   = extended_o ? long_q : {20'd0, short_q};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q      <= Silent;
      timer_q      <= ticks_t'(LifeTicks + 1);
      tries_q      <= '0;
      number_q     <= '0;
      generation_o <= '0;
    end else begin
      if (tick_i && (timer_q != '0)) timer_q <= timer_q - ticks_t'(1);
      unique case (state_q)
        Silent: begin
          if (busy_i) timer_q <= ticks_t'(LifeTicks + 1);
          if ((timer_q == '0) && idle_i) state_q <= Query;
        end
        Query, Identify: if (send_ready_i) begin
          state_q <= (state_q == Query) ? Queried : Identifying;
          timer_q <= ticks_t'(RepeatTicks + 1);
          tries_q <= (state_q == Query) ? '0 : tries_q + 3'd1;
        end
        Queried: begin
          if (config_i) state_q <= Identify;
          else if (timer_q == '0) state_q <= Query;
          if (config_i || (timer_q == '0)) number_q <= number_q + 31'd1;
        end
        Identifying: begin
          if (identified_i) begin
            state_q      <= Up;
            generation_o <= generation_o + 4'd1;
          end else if (timer_q == '0) begin
            state_q <= (tries_q >= 3'(Tries - 1)) ? Query : Identify;
          end
          if (identified_i || (timer_q == '0)) number_q <= number_q + 31'd1;
        end
        Up: if (lost_i) begin
          state_q <= Silent;
          timer_q <= ticks_t'(LifeTicks + 1);
        end
        default: state_q <= Silent;
      endcase
    end
  end

  config_t found;
  assign found = config_t'(answer_i.argument);

  always_ff @(posedge clk_i) begin
    if (config_i && (state_q == Queried)) begin
      target_o  <= answer_i.from;
      checked_o <= Checksums & (found.length == 16'd4) & (found.text == CheckedText);
      limit_o   <= (found.buffers >= 16'(Slots)) ? (SlotLog2 + 1)'(Slots) :
                   (found.buffers == '0) ? (SlotLog2 + 1)'(1) : (SlotLog2 + 1)'(found.buffers);
      // Old targets have zero here, and take two sectors.
      if ((found.sectors >= 8'(1 << SectorsLog2)) || ((found.sectors == '0) && (SectorsLog2 < 2))) begin
        sectors_o <= (SectorsLog2 + 1)'(1 << SectorsLog2);
      end else begin
        sectors_o <= (found.sectors == '0) ? (SectorsLog2 + 1)'(2) : (SectorsLog2 + 1)'(found.sectors);
      end
    end
    if (data_valid_i && (state_q == Identifying)) begin
      unique case (data_index_i)
        7'd30:   short_q <= data_i[27:0];
        7'd41:   knows_q <= data_i[26];                          // word 83, bit 10
        7'd42:   cache_o <= data_i[21] | ~checked_o;             // word 85, bit 5; others' targets may forget it
        7'd43:   uses_q  <= data_i[10];                          // word 86
        7'd50:   long_q[31:0]  <= data_i;
        7'd51:   long_q[47:32] <= data_i[15:0];
        default: ;
      endcase
    end
  end
endmodule
