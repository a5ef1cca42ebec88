// SPDX-License-Identifier: Apache-2.0 OR MIT
// The seed scan of BLASTN: finds words of eleven bases of several queries in a stream of packed bases, 16 bases a cycle. README.md
// has the method, the registers and the table.
//
// The stream is what `hwfs` delivers for a read of a `.nsq` file: words of 32 bits with `keep` and `last`. A word waits only when
// candidates or hits fill their queues; STALLS counts.
//
// EntriesLog2  entries of the table: positions of the queries, of both strands
// BucketLog2   buckets of the table
// HitsLog2     hits that may wait to be read
// MaskLog2     entries of the list of masked bases that may wait for their words
// Candidates   words that may wait to be compared
// DiagonalsLog2  slots of the two-hit filter; 0 leaves it out
module blastn
  import blastn_pkg::*;
#(
  parameter int unsigned EntriesLog2 = 12,
  parameter int unsigned BucketLog2  = 12,
  parameter int unsigned HitsLog2    = 9,
  parameter int unsigned MaskLog2    = 9,
  parameter int unsigned Candidates  = 32,
  parameter int unsigned DiagonalsLog2 = 0
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  axil_pkg::manager_t     axil_i,
  output axil_pkg::subordinate_t axil_o,

  input  logic                   valid_i,
  output logic                   ready_o,
  input  logic [31:0]            data_i,
  input  logic [3:0]             keep_i,
  input  logic                   last_i
);
  // What the parameters must be.
  if ((EntriesLog2 < 2) || (EntriesLog2 > 16)) begin : gen_bad_entries_log2
    $error("EntriesLog2 is %0d: 2 to 16", EntriesLog2);
  end
  if ((BucketLog2 < 1) || (BucketLog2 > 15)) begin : gen_bad_bucket_log2
    $error("BucketLog2 is %0d: 1 to 15", BucketLog2);
  end
  if ((HitsLog2 < 1) || (HitsLog2 > 16)) begin : gen_bad_hits_log2
    $error("HitsLog2 is %0d: 1 to 16", HitsLog2);
  end
  if ((MaskLog2 < 1) || (MaskLog2 > 16)) begin : gen_bad_mask_log2
    $error("MaskLog2 is %0d: 1 to 16", MaskLog2);
  end
  if ((Candidates < 4) || (Candidates > 1024)) begin : gen_bad_candidates
    $error("Candidates is %0d: 4 to 1024", Candidates);
  end
  if (DiagonalsLog2 > 16) begin : gen_bad_diagonals_log2
    $error("DiagonalsLog2 is %0d: 0 to 16", DiagonalsLog2);
  end

  localparam logic [31:0] Id    = 32'h5453_4c42;  // "BLST", the first letter in the lowest bits
  localparam logic [31:0] Shape = {8'(HitsLog2), 8'(BucketLog2), 8'(EntriesLog2), 8'd2};
  typedef enum logic [9:0] {  // byte address divided by 4
    RegId = 10'h000, RegShape = 10'h001, RegControl = 10'h002, RegStatus = 10'h003, RegAddress = 10'h004, RegPresent = 10'h005,
    RegDirectory = 10'h006, RegEntry = 10'h007, RegHitBase = 10'h008, RegHitEntry = 10'h009, RegNext = 10'h00a,
    RegWords = 10'h00b, RegHits = 10'h00c, RegStalls = 10'h00d, RegCompares = 10'h00e,
    RegMask = 10'h00f, RegPosition = 10'h010, RegWindow = 10'h011
  } reg_e;

  logic        write, write_error, accept, read_error;
  logic [9:0]  write_word, read_word;
  logic [31:0] data, value;
  axil_port u_port (
    .clk_i, .rst_ni, .axil_i, .axil_o, .write_o(write), .write_word_o(write_word), .write_data_o(data),
    .write_error_i(write_error), .read_o(), .read_word_o(read_word), .read_data_i(value), .read_error_i(read_error)
  );

  logic [MaskLog2:0] mask_room;
  logic        busy_q, lookup_busy, verify_busy, takes, start, clear, clear_q, run_n, mask_n, loads, hit_waits;
  logic [15:0] address_q;
  logic [31:0] words_q, hits_q, stalls_q, compares_q;

  assign loads = (write_word == RegPresent) | (write_word == RegDirectory) | (write_word == RegEntry) | (write_word == RegPosition);
  always_comb begin
    unique case (write_word)
      RegControl: write_error = data[0] & (busy_q | data[1]);
      RegAddress, RegPresent, RegDirectory, RegEntry: write_error = busy_q;
      RegPosition, RegWindow: write_error = busy_q | (DiagonalsLog2 == 0);
      RegNext: write_error = ~hit_waits;
      RegMask: write_error = ~busy_q | (mask_room == '0);
      default: write_error = 1'b1;
    endcase
  end
  assign accept = write & ~write_error;
  assign start  = accept & (write_word == RegControl) & data[0];
  assign clear  = accept & (write_word == RegControl) & data[1];

  assign run_n  = rst_ni & ~clear_q;  // a stop also drops the hits that wait
  assign mask_n = rst_ni & busy_q;    // the end of a stream drops its list

  // --- The scan --------------------------------------------------------------------------------------
  logic               read, candidate_valid, candidate_ready, seed_valid, seed_ready, found, room, compares, pairs_busy;
  logic [15:0]        words [Lookups];
  logic [Lookups-1:0] present;
  logic [15:0]        masked;
  logic               checked;
  candidate_t         candidate;
  hit_t               seed, hit, head;
  logic [9:0]         window;

  blastn_presence u_presence (
    .clk_i, .write_i(accept & (write_word == RegPresent)), .write_address_i(address_q[10:0]), .write_data_i(data),
    .read_i(read), .words_i(words), .present_o(present)
  );
  blastn_mask #(.MaskLog2(MaskLog2)) u_mask (
    .clk_i, .rst_ni(mask_n), .write_i(accept & (write_word == RegMask)), .write_data_i(data), .room_o(mask_room),
    .step_i(valid_i & ready_o), .masked_o(masked), .checked_o(checked)
  );
  blastn_lookup #(.Depth(Candidates)) u_lookup (
    .clk_i, .rst_ni(run_n), .start_i(start), .valid_i, .ready_o, .data_i, .keep_i, .last_i,
    .masked_i(masked), .checked_i(checked), .read_o(read), .words_o(words),
    .present_i(present), .valid_o(candidate_valid), .ready_i(candidate_ready), .candidate_o(candidate),
    .busy_o(lookup_busy), .takes_o(takes)
  );
  blastn_verify #(.EntriesLog2(EntriesLog2), .BucketLog2(BucketLog2)) u_verify (
    .clk_i, .rst_ni(run_n), .write_directory_i(accept & (write_word == RegDirectory)),
    .write_entry_i(accept & (write_word == RegEntry)), .write_address_i(address_q), .write_data_i(data),
    .valid_i(candidate_valid), .ready_o(candidate_ready), .candidate_i(candidate),
    .valid_o(seed_valid), .ready_i(seed_ready), .hit_o(seed), .busy_o(verify_busy), .compares_o(compares)
  );
  if (DiagonalsLog2 > 0) begin : gen_pairs
    logic [9:0] window_q;
    assign window = window_q;
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) window_q <= '0;
      else if (accept && (write_word == RegWindow)) window_q <= data[9:0];
    end
    blastn_pairs #(.EntriesLog2(EntriesLog2), .DiagonalsLog2(DiagonalsLog2)) u_pairs (
      .clk_i, .rst_ni, .run_ni(run_n), .stream_i(busy_q), .window_i(window), .write_i(accept & (write_word == RegPosition)),
      .write_address_i(address_q), .write_data_i(data), .valid_i(seed_valid), .ready_o(seed_ready), .hit_i(seed),
      .valid_o(found), .ready_i(room), .hit_o(hit), .busy_o(pairs_busy)
    );
  end else begin : gen_no_pairs
    assign {found, hit, seed_ready, pairs_busy, window} = {seed_valid, seed, room, 1'b0, 10'd0};
  end
  prim_fifo_ram #(.Width($bits(hit_t)), .Depth(1 << HitsLog2)) u_hits (
    .clk_i, .rst_ni(run_n), .valid_i(found), .ready_o(room), .data_i(hit),
    .valid_o(hit_waits), .ready_i(accept & (write_word == RegNext)), .data_o(head)
  );

  // A hit shows three cycles after it came into its queue. Until then the core is busy: between the two, whoever reads the
  // status would take the scan for ended, and leave the last hit there.
  logic [1:0] shown_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q  <= 1'b0;
      clear_q <= 1'b1;
      shown_q <= '0;
    end else begin
      busy_q  <= start | (busy_q & (lookup_busy | verify_busy | pairs_busy | (shown_q != '0)) & ~clear_q);
      clear_q <= clear;
      shown_q <= {shown_q[0], found & room};
    end
  end
  always_ff @(posedge clk_i) begin
    if (accept && loads) address_q <= address_q + 16'd1;
    if (accept && (write_word == RegAddress)) address_q <= data[15:0];
    if (valid_i && ready_o) words_q <= words_q + 32'd1;
    if (valid_i && takes && !ready_o) stalls_q <= stalls_q + 32'd1;
    if (found && room) hits_q <= hits_q + 32'd1;
    if (compares) compares_q <= compares_q + 32'd1;
    if (start) {words_q, hits_q, stalls_q, compares_q} <= '0;
  end

  // --- Reads of registers ----------------------------------------------------------------------------
  always_comb begin
    read_error = 1'b0;
    unique case (read_word)
      RegId:       value = Id;
      RegShape:    value = Shape;
      RegStatus:   value = 32'({hit_waits, busy_q});
      RegAddress:  value = 32'(address_q);
      RegHitBase:  value = hit_waits ? head.base[31:0] : '0;
      RegHitEntry: value = hit_waits ? 32'({head.unchecked, head.base[33:32], head.prior, head.entry}) : '0;
      RegWords:    value = words_q;
      RegHits:     value = hits_q;
      RegStalls:   value = stalls_q;
      RegCompares: value = compares_q;
      RegMask:     value = 32'(mask_room);
      RegWindow:   value = 32'(window);
      default:     {read_error, value} = {1'b1, 32'd0};
    endcase
  end
endmodule
