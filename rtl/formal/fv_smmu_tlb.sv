// SPDX-License-Identifier: Apache-2.0 OR MIT
// smmu_tlb, with any operations, one in two cycles, and any lookups between them: a page's translation is the one that was inserted last, a removed page has none, and a page
// that was inserted just now has one.
module fv_smmu_tlb
  import smmu_pkg::*;
(
  input logic   clk_i,
  input logic   rst_ni,
  input table_t in_i,
  input page_t  page_i,
  input logic   clear_i,
  input logic   insert_i,
  input logic   remove_i,
  input logic [1:0] frame_i,
  input logic   writable_i,
  input table_t watched_in_i,
  input page_t  watched_page_i
);
  logic   hit, writable, busy;
  frame_t frame;
  smmu_tlb #(.Entries(8), .Frames(4)) dut (
    .clk_i, .rst_ni, .look_i(1'b1), .look_in_i(in_i), .look_page_i(page_i), .in_i, .page_i, .hit_o(hit), .frame_o(frame), .writable_o(writable), .clear_i, .insert_i, .remove_i,
    .frame_i(frame_t'(frame_i)), .writable_i, .busy_o(busy)
  );

  // The watched page is constant.
  table_t in_q;
  page_t  page_q;
  logic   here, here_q, phase_q, inserted_q, just_q, writable_q, started_q;
  logic [1:0] frame_q, cleared_q;
  initial started_q = 1'b0;
  assign here = (in_i == in_q) & (page_i == page_q);

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      assume (watched_page_i[25:3] == '0);
      in_q       <= watched_in_i;
      page_q     <= watched_page_i;
      inserted_q <= 1'b0;
      just_q     <= 1'b0;
      here_q     <= 1'b0;
      cleared_q  <= '0;
      phase_q    <= 1'b0;
    end else begin
      phase_q <= !phase_q;
    end
    if (rst_ni && (cleared_q < 2'd2)) begin
      assume (clear_i == !phase_q);
      assume (!insert_i && !remove_i && (in_i == '0) && (page_i == page_t'(cleared_q)));
      if (phase_q) cleared_q <= cleared_q + 2'd1;
    end else if (rst_ni) begin
      assume (!clear_i && !(insert_i && remove_i) && (!phase_q || !(insert_i || remove_i)));
      // Few pages, but both ends of the address, keep the proof small.
      assume (page_i[25:3] == '0);
      if (!phase_q) just_q <= insert_i & here;
      here_q <= here;
      a_busy: assert (!busy || phase_q);
      if (here_q && !phase_q) begin
        a_right: assert (!hit || (inserted_q && (frame == frame_t'(frame_q)) && (writable == writable_q)));
        a_kept:  assert (hit || !just_q);
      end
      if (here) begin
        if (insert_i) {inserted_q, frame_q, writable_q} <= {1'b1, frame_i, writable_i};
        if (remove_i) inserted_q <= 1'b0;
      end
    end
  end
endmodule
