// SPDX-License-Identifier: Apache-2.0 OR MIT
// virtio_ring with `Parallel`: chains stay in flight and are returned later, in any order. Heads are read from the available
// ring in order; each return writes exactly one used entry with the given head and length, then increments the used
// index; a chain is taken only while this is allowed; after a refused chain no memory is accessed.
module fv_virtio_returns
  import virtio_pkg::*;
(
  input logic        clk_i,
  input logic        rst_ni,
  input queue_t      queue_i,
  input features_t   features_i,
  input logic        kick_i,
  input logic        run_i,
  input logic        error_i,
  input logic [31:0] data_i,
  input logic        work_i,
  input logic        hold_i,
  input logic        taken_i,
  input logic        done_i,
  input logic        fail_i,
  input logic [15:0] head_i,
  input logic [31:0] used_len_i
);
  queue_t    queue_q;
  features_t features_q;
  mem_req_t  req;
  mem_rsp_t  rsp;
  logic      start, returned, used, broken, idle, started_q, open_q, write_q, chain_q, work_q, done_q, fail_q, refused_q;
  logic [2:0]  left_q;
  reach_t      address_q;
  logic [15:0] head_q;
  logic [31:0] len_q;

  assign rsp = '{ready: ~open_q, w_ready: open_q & write_q & (left_q != '0),
                 r_valid: open_q & ~write_q & (left_q != '0), r_data: data_i,
                 done: open_q & (left_q == '0), error: error_i};

  // A request is processed: that of the chain that was just handed out, or one that was in flight.
  logic at_work;
  assign at_work = chain_q | work_q;

  virtio_ring #(.Queues(1), .Parallel(1'b1)) dut (
    .clk_i, .rst_ni, .clear_i(1'b0), .run_i(run_i & rst_ni), .features_i(features_q), .ready_i(1'b1),
    .begin_i(1'b0), .kick_i(kick_i), .queue_o(), .queue_i(queue_q), .start_o(start), .head_o(),
    .hold_i(work_q | hold_i), .taken_i(chain_q & taken_i & ~done_q), .done_i(done_q), .fail_i(fail_q),
    .return_queue_i(1'b0), .return_head_i(head_q), .used_len_i(len_q), .returned_o(returned), .used_o(used),
    .broken_o(broken), .idle_o(idle), .mem_o(req), .mem_i(rsp)
  );

  logic [15:0] taken_q, returned_q, entry, mask;
  logic        entry_owed_q, index_owed_q, told_q;
  logic [63:0] driver, device, size, place;
  assign size   = 64'(queue_q.mask) + 64'd1;
  assign mask   = 16'(size - 64'd1);
  assign entry  = returned_q & mask;
  assign driver = 64'(queue_q.driver);
  assign device = 64'(queue_q.device);
  assign place  = 64'(req.address);

  logic in_driver, is_entry, is_index, is_event;
  assign in_driver = (place + 64'd4 > driver) & (place < driver + 64'd6 + 64'd2 * size);
  assign is_entry  = (place == device + 64'd4 + 64'd8 * 64'(entry)) & (req.words == words_t'(2)) & (req.strobe == '1);
  assign is_index  = (place == device) & (req.words == words_t'(1)) & (req.strobe == 4'b1100);
  assign is_event  = (place == device + 64'd4 + 64'd8 * size) & (req.words == words_t'(1)) & (req.strobe == 4'b0011);
  initial started_q = 1'b0;

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      assume ((queue_i.mask <= 10'd1) && (queue_i.driver[46:12] == '0) && (queue_i.device[46:12] == '0) && !queue_i.driver[0] && (queue_i.device[1:0] == '0));
      queue_q      <= queue_i;
      features_q   <= features_i;
      open_q       <= 1'b0;
      chain_q      <= 1'b0;
      work_q       <= 1'b0;
      done_q       <= 1'b0;
      fail_q       <= 1'b0;
      refused_q    <= 1'b0;
      taken_q      <= dut.next_q[0];  // any position in the two rings
      returned_q   <= dut.gen_given.given_q[0];
      entry_owed_q <= 1'b0;
      index_owed_q <= 1'b0;
      told_q       <= 1'b0;
    end else begin
      if (req.valid) begin
        a_not_after_refusal: assert (!refused_q);
        a_not_at_work:       assert (!at_work || done_q);
        if (!req.address[axi_pkg::AddressWidth]) begin
          if (!req.write) a_read: assert (in_driver && (req.words == words_t'(1)));
          else a_write: assert ((is_entry && entry_owed_q) || (is_index && index_owed_q) ||
                                (is_event && !entry_owed_q && !index_owed_q && features_q.event_index));
        end
        if (entry_owed_q) a_entry_first: assert (req.write && is_entry || req.address[axi_pkg::AddressWidth]);
        else if (index_owed_q) a_index_next: assert (req.write && is_index || req.address[axi_pkg::AddressWidth]);
      end
      if (req.valid && rsp.ready) begin
        open_q    <= 1'b1;
        write_q   <= req.write;
        left_q    <= 3'(req.words);
        address_q <= req.address;
      end
      if (open_q && (left_q != '0)) begin
        if (write_q) begin
          a_data_there: assert (req.w_valid);
          if (entry_owed_q) a_entry: assert (req.w_data == ((left_q == 3'd2) ? {16'd0, head_q} : len_q));
          else if (index_owed_q) a_index: assert (req.w_data[31:16] == 16'(returned_q + 16'd1));
          else a_event: assert (req.w_data[15:0] == taken_q);
        end else a_taken: assert (req.r_ready);
        left_q <= left_q - 3'd1;
      end
      if (rsp.done) begin
        open_q <= 1'b0;
        if (error_i) refused_q <= 1'b1;
        else if (write_q && entry_owed_q) begin
          entry_owed_q <= 1'b0;
          index_owed_q <= 1'b1;
        end else if (write_q && index_owed_q) begin
          index_owed_q <= 1'b0;
          returned_q   <= returned_q + 16'd1;
          told_q       <= 1'b1;
        end
      end
      if (start) begin
        a_when_it_may:   assert (!at_work && !entry_owed_q && !index_owed_q && !refused_q);
        a_heads_in_order: assert (64'(address_q) == ((driver + 64'd4 + 64'd2 * 64'(taken_q & mask)) & ~64'd3));
        taken_q <= taken_q + 16'd1;
        chain_q <= 1'b1;
      end
      // The request ends, or stays in flight; the ring is idle while another one is resumed.
      if (chain_q && taken_i && !done_q) chain_q <= 1'b0;
      else if (at_work && !done_q && done_i) begin
        done_q       <= 1'b1;
        fail_q       <= fail_i;
        head_q       <= head_i;
        len_q        <= used_len_i;
        entry_owed_q <= ~fail_i;
        told_q       <= 1'b0;
      end
      if (done_q && fail_q) refused_q <= 1'b1;
      if (!at_work && idle && work_i && hold_i) work_q <= 1'b1;
      if (done_q && returned) begin
        a_returned: assert (broken || (!entry_owed_q && !index_owed_q && told_q));
        done_q       <= 1'b0;
        entry_owed_q <= 1'b0;
        chain_q      <= 1'b0;
        work_q       <= 1'b0;
      end
      if (used) a_told_after: assert (!entry_owed_q && !index_owed_q && told_q);
      if (broken) a_broken: assert (!req.valid);
    end
  end
endmodule
