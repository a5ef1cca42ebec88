// SPDX-License-Identifier: Apache-2.0 OR MIT
// The workload generator: acts as an accelerator that keeps its data in files. Writes and reads one named file
// through the file system core's application interface, in sequence or at random offsets, generates and checks
// the data in hardware, and measures.
//
// Owns one run at a time, from `start_i` to the end of `busy_o`. Keeps the application's rules (rtl/hwfs/README.md):
// an offer stays until it is taken, and data moves without waiting for the response. After an error the run closes
// the file and ends. A wait without progress ends after `TimeoutCycles` with TimedOut.
//
// DataWidth      bits of the data streams, 32 to 256
// NameWords      32-bit words of a name
// TimeoutCycles  more than the TimeoutCycles of the core
module workload
  import hwfs_pkg::*;
  import workload_pkg::*;
#(
  parameter int unsigned DataWidth     = 32,
  parameter int unsigned NameWords     = 4,
  parameter int unsigned TimeoutCycles = 200_000_000,
  localparam int unsigned Bytes        = DataWidth / 8
) (
  input  logic                       clk_i,
  input  logic                       rst_ni,

  input  logic                       start_i,   // taken while not busy
  input  config_t                    config_i,  // both must be stable while busy
  input  logic [NameWords-1:0][31:0] name_i,    // the first byte in the lowest bits of word 0
  output logic                       busy_o,
  output result_t                    result_o,

  output logic                       cmd_valid_o,
  input  logic                       cmd_ready_i,
  output cmd_t                       cmd_o,
  output logic                       name_valid_o,
  input  logic                       name_ready_i,
  output logic [31:0]                name_data_o,
  input  logic                       rsp_valid_i,
  output logic                       rsp_ready_o,
  input  fs_rsp_t                    rsp_i,
  output logic                       write_valid_o,
  input  logic                       write_ready_i,
  output logic [DataWidth-1:0]       write_data_o,
  input  logic                       read_valid_i,
  output logic                       read_ready_o,
  input  logic [DataWidth-1:0]       read_data_i,
  input  logic [Bytes-1:0]           read_keep_i,
  input  logic                       read_last_i
);
  // What the parameters must be.
  if ((DataWidth < 32) || (DataWidth > 256) || ((DataWidth & (DataWidth - 1)) != 0)) begin : gen_bad_data_width
    $error("DataWidth is %0d: a power of two from 32 to 256", DataWidth);
  end
  if ((NameWords < 1) || (NameWords > 16)) begin : gen_bad_name_words
    $error("NameWords is %0d: 1 to 16", NameWords);
  end
  if (TimeoutCycles < 1) begin : gen_bad_timeout_cycles
    $error("TimeoutCycles is %0d: 1 or more", TimeoutCycles);
  end

  localparam int unsigned WordLog2  = $clog2(Bytes);
  localparam int unsigned Lanes     = DataWidth / 32;
  localparam int unsigned NameWidth = (NameWords > 1) ? $clog2(NameWords) : 1;
  localparam int unsigned WaitWidth = $clog2(TimeoutCycles + 1);
  localparam logic [1:0]  QuietCycles = 2'd3;  // cycles after a failed read's response until no more data arrive

  typedef enum logic [2:0] {Idle, Choose, Offer, Answer, Drain, Next} state_e;
  typedef enum logic [1:0] {Open, Body, Sync, Close} step_e;
  typedef logic [47:0] offset_t;
  typedef logic [47:WordLog2] words_t;

  state_e  state_q, state_d;
  step_e   step_q, step_d;
  offset_t offset_q, offset_d;      // of the operation, and after it of the next one in sequence
  offset_t length_q, length_d;
  words_t  give_q, give_d, take_q, take_d;  // words of this command
  logic [31:0] left_q, left_d;      // remaining operations at random offsets
  logic [31:0] place_q, place_d;    // of the next data word, with the seed
  logic [63:0] random_q, random_d;
  logic [NameWidth:0] name_q, name_d, name_words;
  logic answered_q, answered_d, failed_q, failed_d;
  logic [1:0] quiet_q, quiet_d;
  logic [31:0] latency_q, latency_d;
  logic [WaitWidth-1:0] wait_q, wait_d;
  result_t result_q, result_d;

  // --- The kind of run ----------------------------------------------------------------------------
  logic named, has_body, random, writes, whole, good;
  always_comb begin
    named    = 1'b1;
    has_body = 1'b0;
    random   = 1'b0;
    writes   = 1'b0;
    unique case (config_i.run)
      RunMount, RunUnmount: named = 1'b0;
      RunFill:        {has_body, writes} = '1;
      RunRead:        has_body = 1'b1;
      RunRandomRead:  {has_body, random} = '1;
      RunRandomWrite: {has_body, random, writes} = '1;
      default:        ;
    endcase
  end
  assign whole = config_i.run == RunPut;

  // The configuration is valid; otherwise the run ends immediately with BadCommand.
  always_comb begin
    good = config_i.run <= RunDelete;
    if (named) good &= (config_i.name_bytes != '0) && (32'(config_i.name_bytes) <= 4 * NameWords);
    if (has_body) good &= (config_i.block_bytes != '0) && (config_i.block_bytes[WordLog2-1:0] == '0);
    if (random) good &= config_i.file_bytes >= offset_t'(config_i.block_bytes);
  end

  // --- Random offsets ---------------------------------------------------------------------------
  // A random number below the next power of two above the highest offset; a number that is too high is drawn again.
  offset_t highest, mask, drawn, rest;
  logic [31:0] align_mask;
  assign highest = config_i.file_bytes - offset_t'(config_i.block_bytes);
  always_comb begin
    mask = highest;
    for (int unsigned i = 1; i < 48; i *= 2) mask |= mask >> i;
    align_mask = (32'd1 << config_i.align_log2) - 32'd1;
    drawn = random_q[60:13] & mask & ~offset_t'(align_mask);
    drawn[WordLog2-1:0] = '0;
  end
  assign rest = config_i.file_bytes - offset_q;

  function automatic logic [63:0] shuffled(logic [63:0] value);
    logic [63:0] next;
    next = value ^ (value << 13);
    next = next ^ (next >> 7);
    return next ^ (next << 17);
  endfunction

  function automatic words_t words_of(offset_t bytes);
    return words_t'((bytes + offset_t'(Bytes) - offset_t'(1)) >> WordLog2);
  endfunction

  // --- The command, its name and its data ---------------------------------------------------------
  assign name_words = (NameWidth + 1)'((config_i.name_bytes + 7'd3) >> 2);

  always_comb begin
    cmd_o      = '0;
    cmd_o.file = config_i.file;
    unique case (step_q)
      Open: begin
        if (named) cmd_o.name_bytes = config_i.name_bytes;
        unique case (config_i.run)
          RunMount:   cmd_o.op = CmdMount;
          RunUnmount: cmd_o.op = CmdUnmount;
          RunDelete:  cmd_o.op = CmdDelete;
          RunPut, RunFill: begin
            cmd_o.op       = CmdCreate;
            cmd_o.flags[0] = whole;
            cmd_o.length   = 64'(config_i.file_bytes);
          end
          default: begin
            cmd_o.op       = CmdOpen;
            cmd_o.flags[0] = writes;
          end
        endcase
      end
      Body: begin
        cmd_o.op     = writes ? CmdWrite : CmdRead;
        cmd_o.offset = 64'(offset_q);
        cmd_o.length = 64'(length_q);
      end
      Sync:    cmd_o.op = CmdSync;
      default: cmd_o.op = CmdClose;
    endcase
  end
  assign cmd_valid_o   = state_q == Offer;
  assign name_valid_o  = name_q != '0;
  assign name_data_o   = name_i[NameWidth'(name_words - name_q)];
  assign rsp_ready_o   = (state_q == Answer) & ~answered_q;
  assign write_valid_o = (state_q == Answer) & ~answered_q & (name_q == '0) & (give_q != '0);
  assign read_ready_o  = 1'b1;

  logic [DataWidth-1:0] expected;
  logic [Bytes-1:0] keep, wrong;
  logic [WordLog2:0] tail;
  assign tail = {1'b0, length_q[WordLog2-1:0]};
  for (genvar i = 0; i < Lanes; i++) begin : gen_lane
    assign expected[32*i+:32] = pattern(place_q + 32'(i));
  end
  for (genvar i = 0; i < Bytes; i++) begin : gen_byte
    // All bytes of a word; of the last one, those within the length.
    assign keep[i]  = (take_q != words_t'(1)) | (tail == '0) | (tail > (WordLog2 + 1)'(i));
    assign wrong[i] = (read_keep_i[i] != keep[i]) | (keep[i] & (read_data_i[8*i+:8] != expected[8*i+:8]));
  end
  assign write_data_o = expected;

  // --- The run, step by step ------------------------------------------------------------------------
  logic taken, moved, operation, ends;
  assign taken     = rsp_valid_i & rsp_ready_o;
  assign operation = (step_q == Body) | whole;
  assign moved     = (cmd_valid_o & cmd_ready_i) | (name_valid_o & name_ready_i) | taken |
                     (write_valid_o & write_ready_i) | read_valid_i;
  // The command succeeded and all its data has arrived, or no more data will arrive.
  assign ends      = answered_q & (take_q == '0);

  always_comb begin
    state_d    = state_q;
    step_d     = step_q;
    offset_d   = offset_q;
    length_d   = length_q;
    give_d     = give_q;
    take_d     = take_q;
    left_d     = left_q;
    place_d    = place_q;
    random_d   = random_q;
    name_d     = name_q;
    answered_d = answered_q;
    failed_d   = failed_q;
    quiet_d    = quiet_q;
    latency_d  = (state_q == Offer || state_q == Answer) ? latency_q + 32'd1 : '0;
    wait_d     = ((state_q == Idle) || moved) ? '0 : wait_q + WaitWidth'(1);
    result_d   = result_q;
    if (state_q != Idle) result_d.cycles = result_q.cycles + 64'd1;

    if (name_valid_o && name_ready_i) name_d = name_q - (NameWidth + 1)'(1);
    if (write_valid_o && write_ready_i) begin
      give_d  = give_q - words_t'(1);
      place_d = place_q + 32'(Lanes);
    end
    if (read_valid_i && (state_q == Answer)) begin
      if (take_q == '0 || wrong != '0 || (read_last_i != (take_q == words_t'(1)))) begin
        result_d.mismatches = result_q.mismatches + 32'd1;
      end
      if (take_q != '0) take_d = take_q - words_t'(1);
      place_d = place_q + 32'(Lanes);
    end

    unique case (state_q)
      Idle: if (start_i) begin
        result_d             = '0;
        result_d.latency_min = '1;
        step_d   = Open;
        offset_d = '0;
        left_d   = config_i.count;
        random_d = {config_i.seed, ~config_i.seed};
        failed_d = 1'b0;
        state_d  = Choose;
        if (!good) begin
          result_d.errors = 32'd1;
          result_d.status = FsBadCommand;
          state_d         = Idle;
        end
      end

      // The next command of this step, or the next step.
      Choose: begin
        give_d     = '0;
        take_d     = '0;
        answered_d = 1'b0;
        quiet_d    = '0;
        state_d    = Offer;
        unique case (step_q)
          Open: begin
            if (named) name_d = name_words;
            length_d = config_i.file_bytes;
            place_d  = config_i.seed;
            if (whole) give_d = words_of(config_i.file_bytes);
          end
          Body: begin
            random_d = shuffled(random_q);
            if (random) begin
              length_d = offset_t'(config_i.block_bytes);
              offset_d = drawn;
              if (drawn > highest) state_d = Choose;
            end else begin
              length_d = (rest < offset_t'(config_i.block_bytes)) ? rest : offset_t'(config_i.block_bytes);
            end
            place_d = config_i.seed + 32'(offset_d >> 2);
            if (writes) give_d = words_of(length_d);
            else        take_d = words_of(length_d);
            if (random ? (left_q == '0) : (rest == '0)) begin
              give_d   = '0;
              take_d   = '0;
              offset_d = offset_q;
              step_d   = writes ? Sync : Close;
              state_d  = Choose;
            end
          end
          default: ;
        endcase
      end

      Offer: if (cmd_ready_i) state_d = Answer;

      Answer: begin
        if (taken) begin
          answered_d = 1'b1;
          if (rsp_i.status != FsOk) begin
            result_d.errors = result_q.errors + 32'd1;
            if (result_q.status == '0) result_d.status = rsp_i.status;
            failed_d = 1'b1;
            give_d   = '0;
            name_d   = '0;
            state_d  = Drain;
          end else if (operation) begin
            result_d.bytes = result_q.bytes + 64'(length_q);
          end
          if (operation) result_d.operations = result_q.operations + 32'd1;
        end else if (ends) begin
          if (operation) begin
            if (latency_q < result_q.latency_min) result_d.latency_min = latency_q;
            if (latency_q > result_q.latency_max) result_d.latency_max = latency_q;
          end
          state_d = Next;
        end
      end

      Drain: begin
        quiet_d = read_valid_i ? '0 : quiet_q + 2'd1;
        if (quiet_q == QuietCycles) state_d = Next;
      end

      Next: begin
        state_d = Choose;
        unique case (step_q)
          Open: begin
            step_d = Body;
            if (!has_body || failed_q) state_d = Idle;
          end
          Body: begin
            if (!random) offset_d = offset_q + length_q;
            left_d = left_q - 32'd1;
            if (failed_q) step_d = Close;
          end
          Sync:    step_d  = Close;
          default: state_d = Idle;
        endcase
      end

      default: state_d = Idle;
    endcase

    // No response: the run ends.
    if ((state_q != Idle) && (wait_q == WaitWidth'(TimeoutCycles))) begin
      result_d.errors = result_q.errors + 32'd1;
      if (result_q.status == '0) result_d.status = FsTimedOut;
      name_d  = '0;
      state_d = Idle;
    end
  end

  assign busy_o   = state_q != Idle;
  assign result_o = result_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q  <= Idle;
      name_q   <= '0;
      wait_q   <= '0;
      result_q <= '0;
    end else begin
      state_q  <= state_d;
      name_q   <= name_d;
      wait_q   <= wait_d;
      result_q <= result_d;
    end
  end
  always_ff @(posedge clk_i) begin
    step_q     <= step_d;
    offset_q   <= offset_d;
    length_q   <= length_d;
    give_q     <= give_d;
    take_q     <= take_d;
    left_q     <= left_d;
    place_q    <= place_d;
    random_q   <= random_d;
    answered_q <= answered_d;
    failed_q   <= failed_d;
    quiet_q    <= quiet_d;
    latency_q  <= latency_d;
  end
endmodule
