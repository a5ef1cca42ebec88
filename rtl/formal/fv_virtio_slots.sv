// SPDX-License-Identifier: Apache-2.0 OR MIT
// virtio_slots, with any device that follows the rules and requests that arrive, wait and end in any order: the rules for
// a host hold; a chain gets a free slot; each request is resumed with its saved state, and sees each response once, after
// the device has given it; no write is offered while a read has data outstanding, and no read during a write's data.
module fv_virtio_slots
  import virtio_pkg::*;
  import block_pkg::*;
(
  input logic        clk_i,
  input logic        rst_ni,
  input logic        abort_i,
  input logic        begin_i,
  input logic [15:0] head_i,
  input logic [1:0]  what_i,
  input logic        go_i,
  input op_e         op_i,
  input logic [1:0]  count_i,
  input logic [3:0]  kept_i,
  input dev_t        dev_i,
  input geometry_t   geometry_i
);
  localparam int unsigned Requests = 2;
  typedef enum logic [2:0] {Rest, Walk, Begun, Work, Offer, Reading, Writing, End} at_e;
  at_e   at_q;
  host_t engine, host;
  chain_t chain;
  logic  idle, hold, slot, start, resume, park_q, again_q, chain_q, abort_q, started_q;
  logic [1:0] left_q;
  logic [3:0] kept_q, context_now, place_now;
  logic [15:0] head;
  resume_e why;
  status_e status;

  always_comb begin
    engine             = '0;
    engine.req_valid   = at_q == Offer;
    engine.req         = '{op: op_i, fua: 1'b0, tag: '0, lba: '0, count: (op_i == OpFlush) ? '0 : count_t'(count_i)};
    engine.read_ready  = (at_q == Reading) & go_i;
    engine.write_valid = at_q == Writing;
    engine.write.last  = left_q == 2'd1;
  end

  virtio_slots #(.Requests(Requests), .SlotWidth(1), .ContextWidth(4), .PlaceWidth(4)) dut (
    .clk_i, .rst_ni, .abort_i(abort_q), .idle_o(idle), .begin_i((at_q == Rest) & begin_i & ~hold & ~chain_q), .head_i,
    .queue_i(1'b0), .walked_i((at_q == Walk) & go_i), .walked_chain_i('0), .rest_i(~chain_q & (at_q != Walk)),
    .hold_o(hold), .busy_o(), .slot_o(slot), .head_o(head), .queue_o(), .chain_o(chain), .start_o(start),
    .resume_o(resume), .why_o(why), .context_o(context_now), .place_o(place_now), .status_o(status),
    .idle_i(((at_q == Rest) | (at_q == Walk) | (at_q == Begun)) & ~park_q), .park_i(park_q), .again_i(again_q),
    .context_i(kept_q), .place_i(~kept_q), .end_i((at_q == End) & go_i), .host_i(engine), .host_o(host), .dev_i
  );

  host_t watched;
  always_comb begin
    watched        = host;
    watched.cancel = abort_q;
  end
  block_checker #(
    .DataWidth(32), .BlockSizeLog2(2), .UsedTags(Requests), .CountBits(2), .AssumeDevice(1'b1)
  ) u_check (
    .clk_i, .rst_ni, .geometry_i, .host_i(watched), .write_data_i('0), .dev_i, .read_data_i('0), .idle_o()
  );

  // The expected state of each slot.
  logic [Requests-1:0]       used_q, asked_q, waits_q, answered_q, aborted_q;
  logic [Requests-1:0][3:0]  kept_of_q;
  logic [Requests-1:0][15:0] head_of_q;
  status_e status_of_q [Requests];
  logic [2:0] reads_q;
  logic       write_open_q;
  initial started_q = 1'b0;

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      at_q         <= Rest;
      park_q       <= 1'b0;
      chain_q      <= 1'b0;
      abort_q      <= 1'b0;
      used_q       <= '0;
      asked_q      <= '0;
      waits_q      <= '0;
      answered_q   <= '0;
      aborted_q    <= '0;
      reads_q      <= '0;
      write_open_q <= 1'b0;
    end else begin
      assume ((op_i <= OpFlush) && ((op_i == OpFlush) || (count_i == 2'd1) || (count_i == 2'd2)));
      abort_q <= abort_q | abort_i;
      park_q  <= 1'b0;
      if (park_q) begin
        kept_of_q[slot] <= kept_q;
        asked_q[slot]   <= again_q;
        chain_q         <= 1'b0;
      end
      unique case (at_q)
        Rest: begin
          if (begin_i && !hold && !chain_q) begin
            at_q    <= Walk;
            chain_q <= 1'b1;
            head_of_q[dut.free] <= head_i;
            a_free: assert (!used_q[dut.free]);
          end
          if (resume) begin
            a_one_at_a_time: assert (!park_q && !chain_q);
            a_in_use:  assert (used_q[slot]);
            a_kept:    assert ((context_now == kept_of_q[slot]) && (place_now == ~kept_of_q[slot]));
            unique case (why)
              ResumeOffer: begin
                a_asked: assert (asked_q[slot]);
                asked_q[slot] <= 1'b0;
                at_q <= abort_q ? End : Offer;
              end
              ResumeRead:  at_q <= Reading;
              ResumeWrite: begin
                at_q   <= Writing;
                left_q <= 2'(host.req.count);
              end
              default: begin
                a_answered: assert (answered_q[slot] || aborted_q[slot]);
                a_status:   assert (status == (answered_q[slot] ? status_of_q[slot] : StatusAborted));
                answered_q[slot] <= 1'b0;
                aborted_q[slot]  <= 1'b0;
                waits_q[slot]    <= 1'b0;
                at_q <= Work;
              end
            endcase
          end
        end
        Walk: if (go_i) begin
          at_q <= Begun;
          used_q[slot] <= 1'b1;
        end
        Begun: begin
          a_starts: assert (start);
          at_q <= Work;
        end
        Work: begin
          a_head: assert (head == head_of_q[slot]);
          if (what_i == 2'd0) at_q <= End;
          if (what_i == 2'd1) begin
            {at_q, park_q, again_q} <= {Rest, 2'b11};
            kept_q <= kept_i;
          end
        end
        Offer: begin
          waits_q[slot] <= 1'b1;
          {at_q, park_q, again_q} <= {Rest, 2'b10};
          kept_q <= kept_i;
          if (op_i == OpRead) reads_q <= reads_q + 3'd1;
        end
        Reading: if (go_i && dev_i.read_valid && dev_i.read.last) begin
          {at_q, park_q, again_q} <= {Rest, 2'b10};
          kept_q  <= kept_i;
          reads_q <= reads_q - 3'd1;
        end
        Writing: if (dev_i.write_ready) begin
          left_q <= left_q - 2'd1;
          if (left_q == 2'd1) begin
            {at_q, park_q, again_q} <= {Rest, 2'b10};
            kept_q <= kept_i;
          end
        end
        default: if (go_i) begin
          a_nothing_waits: assert (!waits_q[slot] && !asked_q[slot]);
          used_q[slot] <= 1'b0;
          chain_q      <= 1'b0;
          at_q         <= Rest;
        end
      endcase
      if (dev_i.rsp_valid) begin
        a_taken: assert (host.rsp_ready);
        answered_q[dev_i.rsp.tag[0]]  <= 1'b1;
        status_of_q[dev_i.rsp.tag[0]] <= dev_i.rsp.status;
      end
      if (dut.dropped) aborted_q[dut.req_q.tag[0]] <= 1'b1;
      if (host.req_valid) begin
        a_no_write_in_reads: assert ((host.req.op != OpWrite) || (reads_q == '0));
        a_no_read_in_write:  assert ((host.req.op != OpRead) || !write_open_q);
        if (dev_i.req_ready && (host.req.op == OpWrite)) write_open_q <= 1'b1;
      end
      if (host.write_valid && dev_i.write_ready && host.write.last) write_open_q <= 1'b0;
      if (at_q == Reading) a_the_reads: assert (!dev_i.read_valid || (dev_i.read.tag[0] == slot));
      a_idle: assert (!idle || (used_q == '0));
    end
  end
endmodule
