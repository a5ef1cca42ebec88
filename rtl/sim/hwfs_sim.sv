// SPDX-License-Identifier: Apache-2.0 OR MIT
// The file system core on pins, for a test bench that drives the application's and the device's side. Checks the
// block interface in each cycle, and that the core does not withdraw what it offers to the application.
//
// With `Registered` the bench's pins take effect one cycle later. One evaluation per cycle is then enough, which
// makes the simulation faster: such a bench samples the outputs after the clock's edge and then drives the inputs.
module hwfs_sim
  import block_pkg::*;
  import hwfs_pkg::*;
#(
  parameter int unsigned DataWidth     = 32,
  parameter int unsigned BlockSizeLog2 = 6,
  parameter int unsigned NodeLog2Max   = 9,
  parameter int unsigned Files         = 4,
  parameter int unsigned IndexSlots    = 1024,
  parameter int unsigned Outstanding   = 2,
  parameter int unsigned TimeoutCycles = 20000,
  parameter bit          DataChecksums = 0,
  parameter int unsigned ProgramLog2   = 12,
  parameter bit          Registered    = 0
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic        ready,
  input  logic        cached,
  input  logic        read_only,
  input  logic [47:0] block_count,
  input  logic [23:0] max_transfer_blocks,
  output logic        idle,

  `HWFS_APP_PINS(DataWidth),

  `BLOCK_DEV_PINS(DataWidth)
);
  typedef struct packed {
    geometry_t             geometry;
    dev_t                  dev;
    logic [DataWidth-1:0]  read_data;
    logic                  cmd_valid;
    cmd_t                  cmd;
    logic                  name_valid;
    logic [31:0]           name_data;
    logic                  answer_ready;
    logic                  give_valid;
    logic [DataWidth-1:0]  give_data;
    logic                  take_ready;
  } driven_t;
  driven_t pins, in;
  host_t host;
  dev_t  dev;
  block_pins_dev u_pins (.*, .host_i(host), .dev_o(dev));

  assign pins = '{
    geometry: '{ready: ready, generation: '0, block_size_log2: 5'(BlockSizeLog2), block_count: block_count, max_transfer_blocks: max_transfer_blocks,
                volatile_write_cache: cached, fua: 1'b0, discard: 1'b0, write_zeroes: 1'b0, read_only: read_only},
    dev: dev, read_data: read_data, cmd_valid: cmd_valid,
    cmd: `HWFS_APP_COMMAND,
    name_valid: name_valid, name_data: name_data, answer_ready: answer_ready,
    give_valid: give_valid, give_data: give_data, take_ready: take_ready
  };
  if (Registered) begin : gen_registered
    always_ff @(posedge clk_i) in <= pins;
  end else begin : gen_direct
    assign in = pins;
  end

  block_checker #(.DataWidth(DataWidth), .BlockSizeLog2(BlockSizeLog2)) u_check (
    .clk_i, .rst_ni, .geometry_i('0), .host_i(host), .write_data_i(write_data), .dev_i(in.dev),
    .read_data_i(in.read_data), .idle_o(idle)
  );

  fs_rsp_t rsp;
  assign answer_status = rsp.status;
  assign answer_value  = rsp.value;

  hwfs #(
    .DataWidth(DataWidth), .BlockSizeLog2(BlockSizeLog2), .NodeLog2Max(NodeLog2Max), .Files(Files),
    .IndexSlots(IndexSlots), .Outstanding(Outstanding), .TimeoutCycles(TimeoutCycles), .DataChecksums(DataChecksums),
    .ProgramLog2(ProgramLog2)
  ) u_hwfs (
    .clk_i,
    .rst_ni,
    .geometry_i        (in.geometry),
    .cmd_valid_i       (in.cmd_valid),
    .cmd_ready_o       (cmd_ready),
    .cmd_i             (in.cmd),
    .name_valid_i      (in.name_valid),
    .name_ready_o      (name_ready),
    .name_data_i       (in.name_data),
    .rsp_valid_o       (answer_valid),
    .rsp_ready_i       (in.answer_ready),
    .rsp_o             (rsp),
    .write_valid_i     (in.give_valid),
    .write_ready_o     (give_ready),
    .write_data_i      (in.give_data),
    .read_valid_o      (take_valid),
    .read_ready_i      (in.take_ready),
    .read_data_o       (take_data),
    .read_keep_o       (take_keep),
    .read_last_o       (take_last),
    .host_o            (host),
    .host_write_data_o (write_data),
    .dev_i             (in.dev),
    .dev_read_data_i   (in.read_data)
  );

  // An offer of the core stays, unless the application has stopped taking data: then the core withdraws it.
  logic seen_q, take_waits_q, answer_waits_q, take_last_q;
  logic [DataWidth-1:0] take_data_q;
  logic [DataWidth/8-1:0] take_keep_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      seen_q         <= 1'b0;
      take_waits_q   <= 1'b0;
      answer_waits_q <= 1'b0;
    end else begin
      seen_q         <= 1'b1;
      take_waits_q   <= take_valid & ~in.take_ready;
      answer_waits_q <= answer_valid & ~in.answer_ready;
    end
  end
  always_ff @(posedge clk_i) begin
    take_data_q <= take_data;
    take_keep_q <= take_keep;
    take_last_q <= take_last;
    if (rst_ni && seen_q) begin
      if (take_waits_q && !u_hwfs.u_fetch.withdrawn_q) begin
        a_take: assert (take_valid && (take_data == take_data_q) && (take_keep == take_keep_q) &&
                        (take_last == take_last_q));
      end
      if (answer_waits_q) begin
        a_answer: assert (answer_valid);
      end
    end
  end
endmodule
