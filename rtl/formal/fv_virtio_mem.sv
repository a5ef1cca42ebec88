// SPDX-License-Identifier: Apache-2.0 OR MIT
// virtio_mem, with any caller, any memory that follows AXI's rules, and an abort at any time: offers stay until they are taken; from
// the second cycle of an abort on no address is offered anew, and a word has a strobe only if it was offered before; when
// `quiet_o` has been high once, nothing is offered, read, written or to be answered any more.
module fv_virtio_mem
  import virtio_pkg::*;
(
  input logic             clk_i,
  input logic             rst_ni,
  input logic             abort_i,
  input mem_req_t         mem_i,
  input axi_pkg::memory_t axi_i,
  input logic [31:0]      read_data_i
);
  mem_rsp_t          rsp;
  axi_pkg::manager_t axi, axi_q;
  logic [31:0]       data, data_q;
  logic [3:0]        strobe, strobe_q;
  logic              started_q, abort_q, quiet, quiet_q, ar_held_q, aw_held_q, w_held_q, mine_q, late_q;
  mem_req_t          mem_q;
  logic [7:0]        reads_q, writes_q;  // words of bursts
  logic [3:0]        lasts_q, answers_q;

  virtio_mem dut (
    .clk_i, .rst_ni, .abort_i(abort_q), .quiet_o(quiet), .mem_i, .mem_o(rsp), .axi_o(axi), .axi_write_data_o(data),
    .axi_write_strobe_o(strobe), .axi_i, .axi_read_data_i(read_data_i)
  );

  logic reads, writes, word_read, word_written;
  assign reads        = axi.ar_valid & axi_i.ar_ready;
  assign writes       = axi.aw_valid & axi_i.aw_ready;
  assign word_read    = axi_i.r_valid & axi.r_ready;
  assign word_written = axi.w_valid & axi_i.w_ready;
  initial started_q = 1'b0;

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    axi_q    <= axi;
    data_q   <= data;
    strobe_q <= strobe;
    mem_q    <= mem_i;
    if (!rst_ni) begin
      {abort_q, quiet_q, ar_held_q, aw_held_q, w_held_q, mine_q, late_q} <= '0;
      {reads_q, writes_q, lasts_q, answers_q} <= '0;
    end else begin
      // A run of one to three words, which does not wrap; a caller keeps what it offers until the abort.
      assume ((mem_i.words != '0) && (mem_i.words <= words_t'(3)) && (mem_i.address[1:0] == '0) && (mem_i.address[47:40] == '0));
      if (mine_q && !abort_q) assume ((mem_i.w_valid == mem_q.w_valid) && (mem_i.w_data == mem_q.w_data));
      mine_q <= mem_i.w_valid & ~rsp.w_ready;
      // The memory answers what it was asked.
      assume (!axi_i.r_valid || (reads_q != '0));
      assume (!axi_i.w_ready || (writes_q != '0));
      assume (!axi_i.b_valid || (answers_q != '0));
      abort_q   <= abort_q | abort_i;
      quiet_q   <= quiet_q | (abort_q & quiet);
      ar_held_q <= axi.ar_valid & ~axi_i.ar_ready;
      aw_held_q <= axi.aw_valid & ~axi_i.aw_ready;
      w_held_q  <= axi.w_valid & ~axi_i.w_ready;
      reads_q   <= reads_q + (reads ? 8'(axi.ar.len) + 8'd1 : 8'd0) - 8'(word_read);
      writes_q  <= writes_q + (writes ? 8'(axi.aw.len) + 8'd1 : 8'd0) - 8'(word_written);
      answers_q <= answers_q + 4'(word_written & axi.w_last) - 4'(axi_i.b_valid & axi.b_ready);
      lasts_q   <= lasts_q + 4'(writes) - 4'(word_written & axi.w_last);

      if (ar_held_q) a_ar_stays: assert (axi.ar_valid && (axi.ar == axi_q.ar));
      if (aw_held_q) a_aw_stays: assert (axi.aw_valid && (axi.aw == axi_q.aw));
      if (w_held_q)  a_w_stays:  assert (axi.w_valid && (data == data_q) && (strobe == strobe_q) && (axi.w_last == axi_q.w_last));
      a_burst_first: assert (!axi.w_valid || (writes_q != '0));
      a_lasts:       assert ((writes_q != '0) == (lasts_q != '0));
      if (abort_q && axi.w_valid && (strobe != '0)) a_no_strobe: assert (w_held_q);
      late_q  <= abort_q;
      if (abort_q && late_q) begin
        a_no_read:  assert (!axi.ar_valid || ar_held_q);
        a_no_write: assert (!axi.aw_valid || aw_held_q);
      end
      if (quiet_q || (abort_q && quiet)) begin
        a_quiet: assert (!axi.ar_valid && !axi.aw_valid && !axi.w_valid && (reads_q == '0) && (writes_q == '0) && (answers_q == '0));
      end
    end
  end
endmodule
