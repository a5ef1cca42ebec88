// SPDX-License-Identifier: Apache-2.0 OR MIT
// A file system: named files on a block device, for accelerators without a processor. FORMAT.md describes the volume;
// the device can be any device of the `block` interface (docs/rtl-interfaces.md).
//
// Executes one command at a time: the command is taken on `cmd`, its names on `name`, its data on `write` or `read`, and its
// status is returned on `rsp`. A sequencer runs a microprogram for each command (`microcode/`). Engines load and seal nodes
// (CRC32C), store them, and move data between device and application with byte alignment.
//
// Owns the volume while it is mounted. Every command ends with a status: a wait without progress ends after `TimeoutCycles`.
//
// DataWidth      bits of all data streams: 32, 64, 128 or 256
// BlockSizeLog2  log2 of the device's block, up to a node
// NodeLog2Max    log2 of the longest node that a volume may have, 8 to 12
// Files          files open at once, 1 to 8
// IndexSlots     slots that a volume may have. Each takes one byte of memory; the rest of the memory holds three
//                nodes of the maximum size and 1.5 KiB of variables
// Outstanding    concurrent fetches, 1 to 16; more than 1 only with a device that answers reads in order
// TimeoutCycles  the longest time without progress; a number of 32 bits or more, so it has no type
// DataChecksums  1: files may have data checksums, which are computed and verified in the stream; then at most four files
// ProgramLog2    log2 of the instructions that the control store has room for: 12, or 13 for the program that also knows tables
//                that have grown
module hwfs
  import block_pkg::*;
  import hwfs_pkg::*;
#(
  parameter int unsigned DataWidth     = 32,
  parameter int unsigned BlockSizeLog2 = 6,
  parameter int unsigned NodeLog2Max   = 9,
  parameter int unsigned Files         = 4,
  parameter int unsigned IndexSlots    = 1024,
  parameter int unsigned Outstanding   = 2,
  parameter              TimeoutCycles = 100_000_000,
  parameter bit          DataChecksums = 0,
  parameter int unsigned ProgramLog2   = 12,
  localparam int unsigned Bytes        = DataWidth / 8
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  geometry_t            geometry_i,

  input  logic                 cmd_valid_i,
  output logic                 cmd_ready_o,
  input  cmd_t                 cmd_i,
  input  logic                 name_valid_i,
  output logic                 name_ready_o,
  input  logic [31:0]          name_data_i,
  output logic                 rsp_valid_o,
  input  logic                 rsp_ready_i,
  output fs_rsp_t              rsp_o,

  input  logic                 write_valid_i,  // bytes for the device, packed from lane 0 upwards
  output logic                 write_ready_o,
  input  logic [DataWidth-1:0] write_data_i,
  output logic                 read_valid_o,   // bytes from the device, packed in the same way
  input  logic                 read_ready_i,
  output logic [DataWidth-1:0] read_data_o,
  output logic [Bytes-1:0]     read_keep_o,
  output logic                 read_last_o,

  output host_t                host_o,
  output logic [DataWidth-1:0] host_write_data_o,
  input  dev_t                 dev_i,
  input  logic [DataWidth-1:0] dev_read_data_i
);
  // What the parameters must be.
  if ((DataWidth < 32) || (DataWidth > 256) || ((DataWidth & (DataWidth - 1)) != 0)) begin : gen_bad_data_width
    $error("DataWidth is %0d: a power of two from 32 to 256", DataWidth);
  end
  if ((BlockSizeLog2 < 6) || (BlockSizeLog2 > NodeLog2Max)) begin : gen_bad_block_size_log2
    $error("BlockSizeLog2 is %0d: 6 to NodeLog2Max", BlockSizeLog2);
  end
  if ((NodeLog2Max < 8) || (NodeLog2Max > 12)) begin : gen_bad_node_log2_max
    $error("NodeLog2Max is %0d: 8 to 12", NodeLog2Max);
  end
  if ((Files < 1) || (Files > 8)) begin : gen_bad_files
    $error("Files is %0d: 1 to 8", Files);
  end
  if (IndexSlots < 1) begin : gen_bad_index_slots
    $error("IndexSlots is %0d: 1 or more", IndexSlots);
  end
  if ((Outstanding < 1) || (Outstanding > 16)) begin : gen_bad_outstanding
    $error("Outstanding is %0d: 1 to 16", Outstanding);
  end
  if (TimeoutCycles < 1) begin : gen_bad_timeout_cycles
    $error("TimeoutCycles is %0d: 1 or more", TimeoutCycles);
  end
  if ((ProgramLog2 < 12) || (ProgramLog2 > 13)) begin : gen_bad_program_log2
    $error("ProgramLog2 is %0d: 12 or 13", ProgramLog2);
  end

  // Variables, three nodes, the index; a block longer than 64 bytes is stored after them.
  localparam int unsigned MemoryBytes = 1536 + 3 * (1 << NodeLog2Max) + IndexSlots +
                                        ((BlockSizeLog2 > 6) ? (1 << BlockSizeLog2) : 0);
  localparam int unsigned AddressBits = $clog2(MemoryBytes);
  localparam int unsigned RowBits     = (DataWidth > 64) ? DataWidth : 64;
  localparam int unsigned RowLog2     = $clog2(RowBits / 8);
  localparam int unsigned Halves      = RowBits / 32;
  localparam int unsigned Lanes       = RowBits / 64;

  if (DataChecksums && (Files > 4)) begin : gen_too_many
    $error("with DataChecksums there are four files at most");
  end

  // --- The sequencer --------------------------------------------------------------------------
  logic [31:0] conditions;
  logic progress, seq_read, seq_store, seq_write_ready, do_valid, do_ready;
  logic [AddressBits-1:3] seq_read_word, seq_write_word;
  logic [63:0] seq_read_data, seq_ram_data, seq_write_data;
  logic [1:0]  seq_write;
  do_t         task_now;

  hwfs_seq #(
    .ProgramLog2(ProgramLog2), .AddressBits(AddressBits), .NodeLog2Max(NodeLog2Max), .TimeoutCycles(TimeoutCycles)
  ) u_seq (
    .clk_i,
    .rst_ni,
    .cond_i        (conditions),
    .progress_i    (progress),
    .read_o        (seq_read),
    .read_word_o   (seq_read_word),
    .read_data_i   (seq_read_data),
    .store_o       (seq_store),
    .write_o       (seq_write),
    .write_word_o  (seq_write_word),
    .write_data_o  (seq_write_data),
    .write_ready_i (seq_write_ready),
    .do_valid_o    (do_valid),
    .do_o          (task_now),
    .do_ready_i    (do_ready)
  );

  // --- Commands and answers -------------------------------------------------------------------
  logic cmd_begun, cmd_here, cmd_hashed, answer, intake_ready;
  logic [1:0] intake_write;
  logic [AddressBits-1:3] intake_word;
  logic [63:0] intake_data;
  logic        rsp_valid_q;
  fs_rsp_t     rsp_q;
  status_e     port_status;
  logic [15:0] port_detail;
  logic error, rotten;  // a request failed; data do not match their checksum
  logic [5:0]  failed_status;
  logic [15:0] failed_detail;

  assign cmd_ready_o = intake_ready & ~rsp_valid_q;

  hwfs_intake #(
    .AddressBits(AddressBits), .BlockSizeLog2(BlockSizeLog2), .NodeLog2Max(NodeLog2Max), .Files(Files),
    .IndexSlots(IndexSlots), .Outstanding(Outstanding), .DataChecksums(DataChecksums)
  ) u_intake (
    .clk_i,
    .rst_ni,
    .geometry_i,
    .cmd_valid_i  (cmd_valid_i & ~rsp_valid_q),
    .cmd_ready_o  (intake_ready),
    .cmd_i,
    .name_valid_i,
    .name_ready_o,
    .name_data_i,
    .begun_o      (cmd_begun),
    .ready_o      (cmd_here),
    .hashed_o     (cmd_hashed),
    .answered_i   (answer),
    .hold_i       (seq_store),
    .write_o      (intake_write),
    .write_word_o (intake_word),
    .write_data_o (intake_data)
  );

  assign answer      = do_valid & (task_now.unit == DoRespond);
  assign rsp_valid_o = rsp_valid_q;
  assign rsp_o       = rsp_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) rsp_valid_q <= 1'b0;
    else         rsp_valid_q <= answer | (rsp_valid_q & ~rsp_ready_i);
  end
  always_ff @(posedge clk_i) begin
    if (answer) begin
      rsp_q.status <= task_now.imm[0] ? fs_status_e'(failed_status) : fs_status_e'(task_now.b[5:0]);
      rsp_q.value  <= task_now.imm[0] ? 64'(failed_detail) : task_now.a;
    end
  end

  // --- The engines ----------------------------------------------------------------------------
  logic do_load, do_store, do_request, load_idle, store_idle, sealing;
  logic load_free, flush_free, write_free, fetch_free, emit_ready, send, verified, good, load_writes, head, part, loaded, flushed, written, fetched, drained, given;
  logic [15:0] node_bytes;
  logic load_ready, fetch_ready, fetch_takes, is_fetch, hold_q, armed_q, let_go, abort, data_abort;
  logic sum_ready, sum_pass, rot, summing, store_valid, store_mine;  // summing: data that are written
  logic [31:0] sum;
  logic [Halves-1:0] load_write;
  logic [AddressBits-1:RowLog2] load_row, load_ram_row, store_ram_row;
  logic [RowBits-1:0] load_data;
  logic load_ram_read, store_ram_read;
  logic [1:0] ram_read;
  logic [1:0][AddressBits-1:RowLog2] ram_row;
  logic [1:0][RowBits-1:0] ram_data;

  // Which engine takes an instruction, and what that waits for.
  do_e  unit;
  logic for_load, for_store, for_flush, for_fetch, for_stream, for_engine, load_now, store_now;
  assign unit       = task_now.unit;
  assign for_load   = unit == DoLoad;
  assign for_store  = unit inside {DoStore, DoPut};
  assign for_flush  = unit == DoFlush;
  assign for_fetch  = unit == DoFetch;
  assign for_engine = unit inside {DoLoad, DoSeal, DoShape, DoIdentity};
  assign for_stream = unit inside {DoStore, DoPut, DoWriteTo, DoEdges};
  // Each engine looks only at what its own instructions wait for.
  assign load_now   = for_engine & load_idle & (~for_load | load_free);
  assign store_now  = for_stream & store_idle & (~for_store | write_free) & ~(sealing & (unit == DoStore));
  assign do_ready   = load_now | store_now | (for_flush & flush_free) | (for_fetch & fetch_free) |
                      ((unit == DoEmit) & emit_ready) | ((unit == DoSum) & sum_ready) | (unit inside {DoRespond, DoReadTo, DoAbort});
  assign do_load    = do_valid & load_now;
  assign do_store   = do_valid & store_now;
  assign do_request = do_valid & ((for_load & load_now) | (for_store & store_now) | (for_flush & flush_free) | (for_fetch & fetch_free));
  assign abort      = do_valid & (task_now.unit == DoAbort);
  assign data_abort = abort & task_now.imm[0];

  // Data are held back from a `DoReadTo` with imm[0] until a `DoAbort` with imm[2]. A `DoAbort` with imm[3] instead
  // releases them as soon as the node that is being loaded is complete and its checksum is correct.
  assign let_go = armed_q & verified;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      hold_q  <= 1'b0;
      armed_q <= 1'b0;
    end else begin
      if (do_valid && (task_now.unit == DoReadTo)) hold_q <= task_now.imm[0];
      else if (let_go || (abort && (task_now.imm[0] || task_now.imm[2]))) hold_q <= 1'b0;
      if (abort && task_now.imm[3]) armed_q <= 1'b1;
      else if (let_go || data_abort || (do_valid && (task_now.unit == DoReadTo))) armed_q <= 1'b0;
    end
  end

  hwfs_ports #(.BlockSizeLog2(BlockSizeLog2), .Outstanding(Outstanding)) u_ports (
    .clk_i,
    .rst_ni,
    .do_valid_i   (do_request),
    .do_i         (task_now),
    .load_free_o  (load_free),
    .flush_free_o (flush_free),
    .write_free_o (write_free),
    .fetch_free_o (fetch_free),
    .node_bytes_i (node_bytes),
    .forget_i     (abort & task_now.imm[1]),
    .req_valid_o  (host_o.req_valid),
    .req_o        (host_o.req),
    .req_ready_i  (dev_i.req_ready),
    .send_o       (send),
    .rsp_valid_i  (dev_i.rsp_valid),
    .rsp_i        (dev_i.rsp),
    .read_end_i   (dev_i.read_valid & is_fetch & fetch_ready & dev_i.read.last),
    .read_i       (dev_i.read),
    .read_valid_i (dev_i.read_valid),
    .loaded_o     (loaded),
    .flushed_o    (flushed),
    .written_o    (written),
    .fetched_o    (fetched),
    .error_o      (error),
    .status_o     (port_status),
    .detail_o     (port_detail)
  );

  assign is_fetch          = dev_i.read.tag[4];
  assign host_o.read_ready = is_fetch ? fetch_ready : load_ready;
  assign host_o.rsp_ready  = 1'b1;
  assign host_o.cancel     = 1'b0;

  hwfs_load #(.DataWidth(DataWidth), .AddressBits(AddressBits), .BlockSizeLog2(BlockSizeLog2)) u_load (
    .clk_i,
    .rst_ni,
    .do_valid_i   (do_load),
    .do_i         (task_now),
    .idle_o       (load_idle),
    .sealing_o    (sealing),
    .verified_o   (verified),
    .good_o       (good),
    .head_o       (head),
    .part_o       (part),
    .node_bytes_o (node_bytes),
    .read_valid_i (dev_i.read_valid & ~is_fetch),
    .read_ready_o (load_ready),
    .read_last_i  (dev_i.read.last),
    .read_data_i  (dev_read_data_i),
    .writes_o     (load_writes),
    .write_o      (load_write),
    .write_row_o  (load_row),
    .write_data_o (load_data),
    .ram_read_o   (load_ram_read),
    .ram_ready_i  (~store_ram_read),
    .ram_row_o    (load_ram_row),
    .ram_data_i   (ram_data[1])
  );

  hwfs_store #(.DataWidth(DataWidth), .AddressBits(AddressBits), .BlockSizeLog2(BlockSizeLog2)) u_store (
    .clk_i,
    .rst_ni,
    .do_valid_i    (do_store),
    .do_i          (task_now),
    .abort_i       (data_abort),
    .send_i        (send),
    .req_i         (host_o.req),
    .idle_o        (store_idle),
    .mine_o        (store_mine),
    .node_bytes_i  (node_bytes),
    .data_valid_i  (write_valid_i),
    .data_ready_o  (write_ready_o),
    .data_i        (write_data_i),
    .ram_read_o    (store_ram_read),
    .ram_row_o     (store_ram_row),
    .ram_data_i    (ram_data[1]),
    .write_valid_o (store_valid),
    .write_o       (host_o.write),
    .write_data_o  (host_write_data_o),
    .write_ready_i (dev_i.write_ready & (sum_pass | ~summing))
  );
  assign host_o.write_valid = store_valid & (sum_pass | ~summing);

  hwfs_fetch #(.DataWidth(DataWidth), .BlockSizeLog2(BlockSizeLog2)) u_fetch (
    .clk_i,
    .rst_ni,
    .start_i      (do_valid & (task_now.unit == DoReadTo)),
    .emit_i       (do_valid & (task_now.unit == DoEmit)),
    .emit_ready_o (emit_ready),
    .do_i         (task_now),
    .abort_i      (data_abort | rot),
    .withdraw_i   (abort & task_now.imm[4]),
    .hold_i       (hold_q & ~let_go),
    .drained_o    (drained),
    .given_o      (given),
    .read_valid_i (dev_i.read_valid & is_fetch & (sum_pass | summing)),
    .read_ready_o (fetch_takes),
    .read_data_i  (dev_read_data_i),
    .data_valid_o (read_valid_o),
    .data_ready_i (read_ready_i),
    .data_o       (read_data_o),
    .data_keep_o  (read_keep_o),
    .data_last_o  (read_last_o)
  );

  assign fetch_ready = fetch_takes & (sum_pass | summing);
  if (DataChecksums) begin : gen_sum
    // A device error takes precedence: it is the more precise reason.
    assign failed_status = (rotten && !error) ? FsCorrupt : 6'(port_status);
    assign failed_detail = (rotten && !error) ? '0 : port_detail;
    hwfs_sum #(.DataWidth(DataWidth)) u_sum (
      .clk_i,
      .rst_ni,
      .read_i       (do_valid & (task_now.unit == DoReadTo)),
      .write_i      (do_store & (task_now.unit == DoWriteTo)),
      .part_i       (do_valid & do_ready & (task_now.unit == DoSum)),
      .ready_o      (sum_ready),
      .do_i         (task_now),
      .abort_i      (data_abort),
      .forget_i     (abort & task_now.imm[1]),
      .writing_o    (summing),
      .word_valid_i (summing ? store_valid : (dev_i.read_valid & is_fetch)),
      .word_i       (summing ? host_write_data_o : dev_read_data_i),
      .taken_i      (summing ? (host_o.write_valid & dev_i.write_ready) : (dev_i.read_valid & is_fetch & fetch_ready)),
      .wanted_i     (summing ? store_mine : ~drained),
      .pass_o       (sum_pass),
      .rot_o        (rot),
      .bad_o        (rotten),
      .sum_o        (sum)
    );
  end else begin : gen_no_sum
    assign {sum_ready, sum_pass, rot, rotten, summing} = 5'b11000;
    assign sum = '0;
    assign failed_status = 6'(port_status);
    assign failed_detail = port_detail;
  end

  // --- The memory -----------------------------------------------------------------------------
  logic [Halves-1:0] ram_write;
  logic [AddressBits-1:RowLog2] ram_write_row;
  logic [RowBits-1:0] ram_write_data;
  logic [AddressBits-1:3] word;
  logic [1:0]  word_write;

  // No node is loaded while the intake writes.
  assign word            = seq_store ? seq_write_word : intake_word;
  assign word_write      = seq_store ? seq_write : intake_write;
  assign seq_write_ready = ~load_writes;

  if (Lanes == 1) begin : gen_one_lane
    assign ram_write      = load_writes ? load_write : word_write;
    assign ram_write_row  = load_writes ? load_row : word;
    assign ram_write_data = load_writes ? load_data : (seq_store ? seq_write_data : intake_data);
    assign ram_row[0]     = seq_read_word;
    assign seq_ram_data   = ram_data[0];
  end else begin : gen_lanes
    logic [RowLog2-1:3] lane_q;
    always_ff @(posedge clk_i) if (seq_read) lane_q <= seq_read_word[RowLog2-1:3];
    assign ram_write      = load_writes ? load_write : Halves'(word_write) << {word[RowLog2-1:3], 1'b0};
    assign ram_write_row  = load_writes ? load_row : word[AddressBits-1:RowLog2];
    assign ram_write_data = load_writes ? load_data :
                            {Lanes{seq_store ? seq_write_data : intake_data}};
    assign ram_row[0]     = seq_read_word[AddressBits-1:RowLog2];
    assign seq_ram_data   = ram_data[0][lane_q*64+:64];
  end

  // One of the words that the sequencer reads comes from hwfs_sum.
  if (DataChecksums) begin : gen_read_sum
    logic read_sum_q;
    always_ff @(posedge clk_i) if (seq_read) read_sum_q <= seq_read_word == (AddressBits - 3)'(31);
    assign seq_read_data = {seq_ram_data[63:32], read_sum_q ? sum : seq_ram_data[31:0]};
  end else begin : gen_read_ram
    assign seq_read_data = seq_ram_data;
  end

  assign ram_read   = {load_ram_read | store_ram_read, seq_read};
  assign ram_row[1] = store_ram_read ? store_ram_row : load_ram_row;

  hwfs_ram #(.RowBits(RowBits), .AddressBits(AddressBits)) u_ram (
    .clk_i,
    .write_i      (ram_write),
    .write_row_i  (ram_write_row),
    .write_data_i (ram_write_data),
    .read_i       (ram_read),
    .read_row_i   (ram_row),
    .read_data_o  (ram_data)
  );

  // --- What the sequencer can wait for ----------------------------------------------------------
  always_comb begin
    conditions               = '0;
    conditions[CondCommand]  = cmd_here;
    conditions[CondLoaded]   = load_idle & loaded;
    conditions[CondGood]     = good;
    conditions[CondPart]     = part;
    conditions[CondHead]     = head;
    conditions[CondSent]     = store_idle;
    conditions[CondWritten]  = store_idle & written;
    conditions[CondFlushed]  = flushed;
    conditions[CondFetched]  = fetched;
    conditions[CondDrained]  = drained;
    conditions[CondSealed]   = ~sealing;
    conditions[CondError]    = error | rotten;
    conditions[CondAnswered] = ~rsp_valid_q;
    conditions[CondReady]    = geometry_i.ready;
    conditions[CondHashed]   = cmd_hashed;
    conditions[CondBegun]    = cmd_begun;
    conditions[CondTaken]    = drained & fetched;
    conditions[CondGiven]    = given;
  end

  assign progress = (host_o.req_valid & dev_i.req_ready) | dev_i.rsp_valid |
                    (dev_i.read_valid & host_o.read_ready) | (host_o.write_valid & dev_i.write_ready) |
                    (read_valid_o & read_ready_i) | (write_valid_i & write_ready_o);
endmodule
