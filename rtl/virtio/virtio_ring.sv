// SPDX-License-Identifier: Apache-2.0 OR MIT
// Serves the queues: takes chains from the available rings and returns each in the used ring (sections 2.7.6, 2.7.8,
// 2.7.10 and 2.7.13).
//
// A queue is served from a notification until it has no available entry; queues alternate after each chain. Each chain
// that is handed out becomes exactly one used entry, unless the chain or a ring is invalid: then `broken_o` is high until
// reset, and nothing more is accessed. All accesses are inside the two rings.
//
// Without `Parallel` a chain is returned before the next one is taken. With it, `taken_i` allows the next chain, and
// chains are returned in any order: `done_i` with the chain's head and queue stays high until `returned_o`.
//
// Queues    number of queues
// Parallel  several chains can be in flight
module virtio_ring
  import virtio_pkg::*;
#(
  parameter int unsigned Queues   = 1,
  parameter bit          Parallel = 1'b0,
  localparam int unsigned QueueWidth = (Queues > 1) ? $clog2(Queues) : 1
) (
  input  logic                  clk_i,
  input  logic                  rst_ni,
  input  logic                  clear_i,     // device reset: what is under way ends at once

  input  logic                  run_i,       // chains may be taken
  input  features_t             features_i,
  input  logic [Queues-1:0]     ready_i,     // the queue is configured
  input  logic [Queues-1:0]     begin_i,     // start at entry 0
  input  logic [Queues-1:0]     kick_i,
  output logic [QueueWidth-1:0] queue_o,     // selects queue_i
  input  queue_t                queue_i,

  output logic                  start_o,     // a chain
  output logic [15:0]           head_o,
  input  logic                  hold_i,      // no chain may be taken now
  input  logic                  taken_i,     // the chain stays in flight: continue
  input  logic                  done_i,
  input  logic                  fail_i,      // with done_i: the chain cannot be returned
  input  logic [QueueWidth-1:0] return_queue_i,  // the chain to return: from done_i to the next one
  input  logic [15:0]           return_head_i,
  input  logic [31:0]           used_len_i,
  output logic                  returned_o,

  output logic                  used_o,      // the driver wants an interrupt
  output logic                  broken_o,
  output logic                  idle_o,

  output mem_req_t              mem_o,
  input  mem_rsp_t              mem_i
);
  typedef logic [QueueWidth-1:0] queue_index_t;
  typedef enum logic [3:0] {Idle, Index, Judge, Event, Head, Start, Chain, Used, Publish, Wanted, Tell, Broken} state_e;

  state_e       state_q, state_d;
  queue_index_t queue_q, queue_d, turn_q, following;
  logic [Queues-1:0] kicked_q, kicked_d;
  logic [15:0]  next_q [Queues];   // the available ring's next entry
  logic [15:0]  next, given;       // given: of the used ring
  logic         asked_q, asked_d, armed_q, armed_d, second_q, second_d;
  logic [31:0]  word_q;
  logic         advance;

  assign next       = next_q[queue_q];
  assign returned_o = (state_q == Tell) | (state_q == Broken);
  if (Parallel) begin : gen_given
    logic [15:0] given_q [Queues];
    assign given = given_q[queue_q];
    always_ff @(posedge clk_i) begin
      for (int unsigned i = 0; i < Queues; i++) begin
        if (begin_i[i])                                     given_q[i] <= '0;
        else if (advance && (queue_q == queue_index_t'(i))) given_q[i] <= given_q[i] + 16'd1;
      end
    end
  end else begin : gen_equal
    // The two rings always have the same position.
    assign given = next;
  end
  assign queue_o  = queue_q;
  assign idle_o   = (state_q == Idle) | (state_q == Broken);
  assign broken_o = state_q == Broken;
  assign start_o  = state_q == Start;

  always_comb begin
    following = turn_q;
    for (int unsigned i = Queues; i > 0; i--) begin
      // The first one after the queue that was served last.
      if (kicked_q[(32'(turn_q) + i) % Queues] && ready_i[(32'(turn_q) + i) % Queues]) begin
        following = queue_index_t'((32'(turn_q) + i) % Queues);
      end
    end
  end

  // --- Accesses ----------------------------------------------------------------------------------
  logic [15:0] mask, size, entry, value, waiting_q;
  logic [19:0] offset;
  logic        in_device, is_write, memory, upper_q;
  assign mask    = 16'(queue_i.mask);
  assign size    = ~mask & {mask[14:0], 1'b1};  // mask + 1
  assign entry   = ((state_q == Used) ? given : next) & mask;
  // The field that was read last. No other field is read between a chain's head and its walk.
  assign value   = upper_q ? word_q[31:16] : word_q[15:0];
  // Valid in Judge: the field arrived at least two cycles before.
  always_ff @(posedge clk_i) waiting_q <= value - next;
  assign head_o  = value;

  always_comb begin
    offset    = '0;
    in_device = 1'b0;
    is_write  = 1'b0;
    memory    = 1'b1;
    unique case (state_q)
      Index:   offset = 20'd2;                                                       // idx
      Head:    offset = 20'd4 + {3'd0, entry, 1'b0};                                 // ring[next]
      Event:   {in_device, is_write, offset} = {2'b11, 20'd4 + {1'b0, size, 3'd0}};  // avail_event
      Used:    {in_device, is_write, offset} = {2'b11, 20'd4 + {1'b0, entry, 3'd0}};
      Publish: {in_device, is_write} = 2'b11;                                        // used idx, in the same word as the flags
      Wanted:  if (features_i.event_index) offset = 20'd4 + {3'd0, size, 1'b0};      // used_event, or flags
      default: memory = 1'b0;
    endcase
  end

  // The address is computed in the first cycle of a state: the sum is not in the way of the access.
  reach_t place_q;
  logic   placed_q;
  always_ff @(posedge clk_i) place_q <= {1'b0, in_device ? queue_i.device : queue_i.driver} + reach_t'(offset);

  always_comb begin
    mem_o = '0;
    if (memory) begin
      mem_o.valid   = placed_q & ~asked_q;
      mem_o.write   = is_write;
      mem_o.address = {place_q[axi_pkg::AddressWidth:2], 2'b00};
      mem_o.words   = (state_q == Used) ? words_t'(2) : words_t'(1);
      mem_o.r_ready = 1'b1;
      mem_o.w_valid = is_write;
      mem_o.strobe  = 4'b1111;
      unique case (state_q)
        Used:    mem_o.w_data = second_q ? used_len_i : {16'd0, return_head_i};
        Publish: {mem_o.strobe, mem_o.w_data} = {4'b1100, 16'(given + 16'd1), 16'd0};
        Event:   {mem_o.strobe, mem_o.w_data} = {4'b0011, 16'd0, next};
        default: mem_o.w_data = '0;
      endcase
    end
  end

  // --- Steps -------------------------------------------------------------------------------------
  logic finished;
  assign finished = asked_q & mem_i.done;

  always_comb begin
    state_d  = state_q;
    queue_d  = queue_q;
    kicked_d = (kicked_q | kick_i) & ready_i;
    armed_d  = armed_q;
    second_d = second_q ^ (mem_o.w_valid & mem_i.w_ready);
    asked_d  = (asked_q | (mem_o.valid & mem_i.ready)) & ~finished;
    advance  = 1'b0;
    used_o   = 1'b0;
    unique case (state_q)
      Idle: if (Parallel && done_i) begin
        queue_d  = return_queue_i;
        second_d = 1'b0;
        state_d  = fail_i ? Broken : Used;
      end else if (run_i && !hold_i && ((kicked_q & ready_i) != '0)) begin
        queue_d  = following;
        // A notification from now on may be for an entry that this pass does not see.
        kicked_d[following] = kick_i[following];
        armed_d  = 1'b0;
        state_d  = Index;
      end
      Index: if (finished) state_d = Judge;
      Judge: begin
        // Section 2.7.13.3: at most as many entries as the ring has.
        if (waiting_q > size) state_d = Broken;
        else if (waiting_q != '0)        state_d = Head;
        else if (features_i.event_index && !armed_q) begin
          // Requests a notification, then checks again, because an entry may have been added before.
          armed_d = 1'b1;
          state_d = Event;
        end else state_d = Idle;
      end
      Event: if (finished) state_d = Index;
      Head: if (finished) state_d = Start;
      Start: begin
        state_d = Chain;
        // Another chain may be available.
        if (Parallel) kicked_d[queue_q] = 1'b1;
      end
      Chain: begin
        second_d = 1'b0;
        if (done_i) state_d = fail_i ? Broken : Used;
        else if (Parallel && taken_i) state_d = Idle;
      end
      Used:    if (finished) state_d = Publish;
      Publish: if (finished) begin
        state_d = Wanted;
        advance = 1'b1;
      end
      Wanted: if (finished) state_d = Tell;
      Tell: begin
        // One entry was added, so the driver's event is this entry or not reached.
        used_o = features_i.event_index ? (value == 16'(given - 16'd1)) : ~value[0];
        if (!Parallel) kicked_d[queue_q] = 1'b1;
        state_d = Idle;
      end
      default: ;
    endcase
    if (finished && mem_i.error) state_d = Broken;
    // A queue may be made ready and notified while requests from before the reset are still ending.
    if (clear_i) begin
      state_d  = Idle;
      asked_d  = 1'b0;
      advance  = 1'b0;
      used_o   = 1'b0;
      kicked_d = (kicked_q | kick_i) & ready_i;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q  <= Idle;
      queue_q  <= '0;
      kicked_q <= '0;
      asked_q  <= 1'b0;
      placed_q <= 1'b0;
      turn_q   <= '0;
    end else begin
      if (state_q == Start) turn_q <= queue_q;
      state_q  <= state_d;
      queue_q  <= queue_d;
      kicked_q <= kicked_d;
      asked_q  <= asked_d;
      placed_q <= memory & (state_d == state_q);
    end
  end

  always_ff @(posedge clk_i) begin
    armed_q  <= armed_d;
    second_q <= second_d;
    if (memory && !is_write && asked_q && mem_i.r_valid) word_q <= mem_i.r_data;
    if (memory && !is_write) upper_q <= place_q[1];
    for (int unsigned i = 0; i < Queues; i++) begin
      if (begin_i[i])                                  next_q[i] <= '0;
      else if ((Parallel ? state_q == Start : advance) && (queue_q == queue_index_t'(i))) next_q[i] <= next_q[i] + 16'd1;
    end
  end
endmodule
