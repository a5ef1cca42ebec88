// SPDX-License-Identifier: Apache-2.0 OR MIT
// is_served, for ports of 4 to 32 bytes: exactly the bursts that AXI4 allows are served, and every byte of every beat of one of them is
// in the 4 KiB, so in the page, of its first address.
module fv_smmu_burst
  import smmu_pkg::*;
(
  input logic       clk_i,
  input burst_t     burst_i,
  input logic [2:0] word_log2_i,
  input logic [7:0] beat_i
);
  typedef axi_pkg::address_t address_t;
  address_t bytes, aligned, whole, base, from, last_of_all;
  logic     served;
  assign served  = is_served(burst_i, word_log2_i);
  assign bytes   = address_t'(1) << burst_i.size;
  assign aligned = burst_i.address & ~(bytes - address_t'(1));
  // Of a wrapping burst (A3.4.1): all bytes, a power of two, and the lowest address.
  assign whole   = (address_t'(burst_i.len) + address_t'(1)) << burst_i.size;
  assign base    = burst_i.address & ~(whole - address_t'(1));
  assign last_of_all = aligned + (address_t'(burst_i.len) << burst_i.size) + bytes - address_t'(1);
  always_comb begin
    from = aligned;
    if (burst_i.burst == BurstIncr) from = aligned + (address_t'(beat_i) << burst_i.size);
    if (burst_i.burst == BurstWrap) from = base | ((burst_i.address + (address_t'(beat_i) << burst_i.size)) & (whole - address_t'(1)));
  end

  always_ff @(posedge clk_i) begin
    assume ((word_log2_i >= 3'd2) && (word_log2_i <= 3'd5) && (burst_i.address[47:46] == '0) && (beat_i <= burst_i.len));
    if (served) begin
      a_first: assert (from[47:12] == burst_i.address[47:12]);
      a_last:  assert (((from + bytes - address_t'(1)) >> 12) == (burst_i.address >> 12));
      a_size:  assert (burst_i.size <= word_log2_i);
    end else if (burst_i.size <= word_log2_i) begin
      if (burst_i.burst == BurstIncr)  a_crosses: assert (last_of_all[47:12] != burst_i.address[47:12]);
      if (burst_i.burst == BurstFixed) a_long: assert (burst_i.len > 8'd15);
      if (burst_i.burst == BurstWrap) begin
        a_wraps: assert ((aligned != burst_i.address) ||
                         ((burst_i.len != 8'd1) && (burst_i.len != 8'd3) && (burst_i.len != 8'd7) && (burst_i.len != 8'd15)));
      end
    end
    if (burst_i.burst == 2'd3) a_reserved: assert (!served);
    if (burst_i.burst == BurstFixed) a_fixed: assert (!served || (burst_i.len <= 8'd15));
    if (burst_i.burst == BurstWrap)  a_aligned: assert (!served || (aligned == burst_i.address));
  end
endmodule
