// SPDX-License-Identifier: Apache-2.0 OR MIT
// virtio_ring: every access is one field of one of the queue's rings, a write only in the used ring; each chain that is handed
// out and not refused becomes exactly one used entry with its head and length, in the order of the rings, and the used index
// never passes it; after a refused chain or a failed access no memory is accessed.
module fv_virtio_ring
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
  input logic        done_i,
  input logic        fail_i,
  input logic [31:0] used_len_i
);
  queue_t    queue_q;
  features_t features_q;
  mem_req_t  req;
  mem_rsp_t  rsp;
  logic      start, used, broken, idle, started_q, open_q, write_q, chain_q, answered, refused_q;
  logic [15:0] head;
  logic [2:0]  left_q;
  reach_t      address_q;
  logic [31:0] len_q;

  assign answered = chain_q & done_i;
  assign rsp = '{ready: ~open_q, w_ready: open_q & write_q & (left_q != '0),
                 r_valid: open_q & ~write_q & (left_q != '0), r_data: data_i,
                 done: open_q & (left_q == '0), error: error_i};

  virtio_ring #(.Queues(1)) dut (
    .clk_i, .rst_ni, .clear_i(1'b0), .run_i(run_i & rst_ni), .features_i(features_q), .ready_i(1'b1),
    .begin_i(1'b0), .kick_i(kick_i), .queue_o(), .queue_i(queue_q), .start_o(start), .head_o(head),
    .hold_i(1'b0),
    .taken_i(1'b0), .done_i(answered), .fail_i, .return_queue_i(1'b0), .return_head_i(head), .used_len_i(len_q),
    .returned_o(), .used_o(used), .broken_o(broken), .idle_o(idle), .mem_o(req),
    .mem_i(rsp)
  );

  // The writes due to the driver: a chain's used entry, then the used index.
  logic [15:0] returned_q, head_q, entry;
  logic        entry_owed_q, index_owed_q, told_q;
  logic [63:0] driver, device, size, place;
  assign size   = 64'(queue_q.mask) + 64'd1;
  assign entry  = returned_q & 16'(size - 64'd1);
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
      refused_q    <= 1'b0;
      returned_q   <= dut.next_q[0];  // any position in the ring
      entry_owed_q <= 1'b0;
      index_owed_q <= 1'b0;
      told_q       <= 1'b0;
    end else begin
      if (req.valid) begin
        a_not_after_refusal: assert (!refused_q);
        a_not_in_chain:      assert (!chain_q);
        // Nothing is accessed beyond the port's address range.
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
          else a_event: assert (req.w_data[15:0] == returned_q);
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
        a_one_at_a_time: assert (!chain_q && !entry_owed_q && !index_owed_q && !refused_q);
        chain_q <= 1'b1;
        head_q  <= head;
        len_q   <= used_len_i;
      end
      if (answered) begin
        chain_q      <= 1'b0;
        refused_q    <= fail_i;
        entry_owed_q <= ~fail_i;
      end
      if (used) a_told_after: assert (!entry_owed_q && !index_owed_q && told_q);
      if (broken) a_broken: assert (!req.valid);
    end
  end
endmodule
