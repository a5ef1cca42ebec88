// SPDX-License-Identifier: Apache-2.0 OR MIT
// Reads and writes runs of consecutive words in the guest's memory: an AXI4 manager for one run at a time.
//
// Splits a run at multiples of 1 KiB, so that no burst is longer than 256 words or crosses 4 KiB, and sends addresses
// ahead of the data. A run whose address the port cannot express is not sent: reads return zeroes, writes are dropped,
// and it ends with `error`. The caller guarantees that a run does not wrap.
//
// While `abort_i` is high no new burst starts, and nobody needs the run any more. A burst that has started is finished, as AXI
// requires, without its caller: words that are read are dropped, and words that are written have no strobe (a word that
// was offered before stays offered). Nothing is accessed any more when `quiet_o` is high as well.
module virtio_mem
  import virtio_pkg::*;
(
  input  logic              clk_i,
  input  logic              rst_ni,
  input  logic              abort_i,
  output logic              quiet_o,

  input  mem_req_t          mem_i,
  output mem_rsp_t          mem_o,

  output axi_pkg::manager_t axi_o,
  output logic [31:0]       axi_write_data_o,
  output logic [3:0]        axi_write_strobe_o,
  input  axi_pkg::memory_t  axi_i,
  input  logic [31:0]       axi_read_data_i
);
  import axi_pkg::address_t;
  localparam int unsigned BurstLog2 = 8;
  typedef logic [BurstLog2:0]   burst_words_t;
  typedef logic [BurstLog2+1:0] ahead_t;

  logic        busy_q, write_q, null_q, error_q;
  logic        held_q;             // a word of the caller was offered and not taken
  logic [31:0] word_q;
  address_t    address_q;          // of the next burst
  words_t      issue_q, left_q;    // words not yet in a burst; not yet moved
  ahead_t      ahead_q;            // words in a burst that were not yet moved
  logic        real_q;             // there is one
  logic [3:0]  bursts_q;           // write bursts without an answer
  logic        more_q, some_q, end_q;  // `issue_q` is not 0; `left_q` is not; it is 1
  logic [BurstLog2-1:0] place_q;   // of the next word to move, between borders
  logic [3:0]  strobe_q;

  // --- Addresses -------------------------------------------------------------------------------
  burst_words_t border_q, now;  // words to the next border; of the next burst
  logic offer, offer_q, room, issued, whole;

  assign whole     = issue_q > words_t'(border_q);
  assign now       = whole ? border_q : burst_words_t'(issue_q);
  // An offered address stays valid: while it is offered, neither limit can be reached.
  assign room      = (ahead_q <= ahead_t'(1 << BurstLog2)) & ((bursts_q[3:2] != '1) | offer_q);
  assign offer     = busy_q & more_q & room & ~null_q;
  assign issued    = offer & (write_q ? axi_i.aw_ready : axi_i.ar_ready);

  // --- Words -----------------------------------------------------------------------------------
  logic moved, moved_real;

  always_comb begin
    axi_o          = '0;
    axi_o.aw_valid = offer & write_q;
    axi_o.ar_valid = offer & ~write_q;
    axi_o.aw       = '{address: address_q, len: 8'(now - burst_words_t'(1)), size: 3'd2};
    axi_o.ar       = axi_o.aw;
    axi_o.w_valid  = busy_q & write_q & real_q & (mem_i.w_valid | abort_i);
    axi_o.w_last   = (place_q == '1) | end_q;
    axi_o.b_ready  = 1'b1;
    axi_o.r_ready  = busy_q & ~write_q & real_q & (mem_i.r_ready | abort_i);
  end
  assign axi_write_data_o   = abort_i ? word_q : mem_i.w_data;
  assign axi_write_strobe_o = (abort_i & ~held_q) ? '0 : strobe_q;
  assign quiet_o            = ~offer & (ahead_q == '0) & (bursts_q == '0);

  always_comb begin
    mem_o.ready   = ~busy_q;
    mem_o.w_ready = busy_q & write_q & some_q & (real_q ? axi_i.w_ready : null_q);
    mem_o.r_valid = busy_q & ~write_q & some_q & (real_q ? axi_i.r_valid : null_q);
    mem_o.r_data  = real_q ? axi_read_data_i : '0;
    mem_o.done    = busy_q & ~some_q & (bursts_q == '0);
    mem_o.error   = error_q;
  end
  assign moved_real = moved & real_q;
  assign moved      = (mem_o.w_ready & (mem_i.w_valid | abort_i)) | (mem_o.r_valid & (mem_i.r_ready | abort_i));

  // --- State -----------------------------------------------------------------------------------
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q   <= 1'b0;
      null_q   <= 1'b0;
      offer_q  <= 1'b0;
      held_q   <= 1'b0;
      ahead_q  <= '0;
      real_q   <= 1'b0;
      bursts_q <= '0;
    end else begin
      if (!busy_q) begin
        busy_q <= mem_i.valid;
        null_q <= abort_i | mem_i.address[axi_pkg::AddressWidth];
      end else begin
        if (mem_o.done || (abort_i && quiet_o)) busy_q <= 1'b0;
        if (abort_i && (!offer || issued)) null_q <= 1'b1;
      end
      offer_q <= offer & ~issued;
      held_q  <= axi_o.w_valid & ~axi_i.w_ready & (~abort_i | held_q);
      ahead_q <= ahead_q + (issued ? ahead_t'(now) : '0) - (moved_real ? ahead_t'(1) : '0);
      if (issued)                                       real_q <= 1'b1;
      else if (moved_real && (ahead_q == ahead_t'(1))) real_q <= 1'b0;
      bursts_q <= bursts_q + 4'(issued & write_q) - 4'(axi_i.b_valid);
    end
  end

  always_ff @(posedge clk_i) begin
    word_q <= axi_write_data_o;
    if (!busy_q) begin
      write_q   <= mem_i.write;
      address_q <= address_t'(mem_i.address);
      border_q  <= burst_words_t'(1 << BurstLog2) - burst_words_t'(mem_i.address[2+:BurstLog2]);
      issue_q   <= mem_i.words;
      left_q    <= mem_i.words;
      more_q    <= mem_i.words != '0;
      some_q    <= mem_i.words != '0;
      end_q     <= mem_i.words == words_t'(1);
      place_q   <= mem_i.address[2+:BurstLog2];
      strobe_q  <= mem_i.strobe;
      error_q   <= mem_i.address[axi_pkg::AddressWidth];
    end else begin
      if (issued) begin
        // Another burst begins at a border.
        address_q <= {address_q[axi_pkg::AddressWidth-1:BurstLog2+2] + (axi_pkg::AddressWidth - BurstLog2 - 2)'(1), (BurstLog2 + 2)'(0)};
        border_q  <= burst_words_t'(1 << BurstLog2);
        more_q    <= whole;
        issue_q   <= whole ? issue_q - words_t'(border_q) : '0;
      end
      if (moved) begin
        left_q  <= left_q - words_t'(1);
        some_q  <= ~end_q;
        end_q   <= left_q == words_t'(2);
        place_q <= place_q + BurstLog2'(1);
      end
      if ((axi_i.b_valid && axi_i.b_resp[1]) || (moved_real && !write_q && axi_i.r_resp[1])) error_q <= 1'b1;
    end
  end
endmodule
