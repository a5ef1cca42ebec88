// SPDX-License-Identifier: Apache-2.0 OR MIT
// The processor's interface to the file system core: commands through AXI4-Lite registers, and their data by DMA through a
// 32-bit AXI4 manager. README.md documents the registers.
//
// Owns one command at a time and ends it exactly once. Passes the command and its names to the core, moves its data until
// the core has answered and no more data come, and then reports the result in the registers and by the interrupt. A command
// whose data would lie outside the range that the port reaches is refused without asking the core. The core answers within
// its `TimeoutCycles`, since a processor never blocks its data streams. AXI has no time-out, so memory that never answers
// blocks the command indefinitely.
//
// Shape  the value of the register SHAPE
module hwfs_axi
  import hwfs_pkg::*;
  import hwfs_axi_pkg::*;
#(
  parameter logic [31:0] Shape = '0
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  axil_pkg::manager_t     axil_i,
  output axil_pkg::subordinate_t axil_o,
  output logic                   irq_o,

  output axi_pkg::manager_t      axi_o,
  output logic [31:0]            axi_write_data_o,
  output logic [3:0]             axi_write_strobe_o,
  input  axi_pkg::memory_t       axi_i,
  input  logic [31:0]            axi_read_data_i,

  // The core, with data streams of 32 bits.
  input  block_pkg::geometry_t   geometry_i,
  output logic                   cmd_valid_o,
  input  logic                   cmd_ready_i,
  output cmd_t                   cmd_o,
  output logic                   name_valid_o,
  input  logic                   name_ready_i,
  output logic [31:0]            name_data_o,
  input  logic                   rsp_valid_i,
  output logic                   rsp_ready_o,
  input  fs_rsp_t                rsp_i,
  output logic                   write_valid_o,
  input  logic                   write_ready_i,
  output logic [31:0]            write_data_o,
  input  logic                   read_valid_i,
  output logic                   read_ready_o,
  input  logic [31:0]            read_data_i
);
  localparam logic [1:0]  QuietCycles = 2'd3;  // wait after an answer: then no more data come
  localparam logic [31:0] ListBytes   = 32'd80;

  typedef enum logic [1:0] {Idle, Offer, Run, Tell} state_e;
  state_e  state_q, state_d;
  logic    start, answered_q, second_q, bad_q;
  logic [1:0] quiet_q;
  logic [5:0] name_q;  // words of this name that the core has taken
  fs_rsp_t rsp_q;
  order_t  order;
  result_t result;

  // --- Data range -----------------------------------------------------------------------------------
  logic takes, gives, moves, fits;
  logic [63:0] bytes;
  logic [64:0] stop;
  assign takes = (order.cmd.op == CmdRead) | (order.cmd.op == CmdList);
  assign gives = (order.cmd.op == CmdWrite) | ((order.cmd.op == CmdCreate) & order.cmd.flags[0]);
  assign moves = takes | gives;
  assign bytes = (order.cmd.op == CmdList) ? 64'(ListBytes) : order.cmd.length;
  assign stop  = {1'b0, order.address} + {1'b0, bytes};
  assign fits  = (bytes[63:32] == '0) & (stop <= 65'(1) << axi_pkg::AddressWidth);

  // --- Names -----------------------------------------------------------------------------------------
  logic [5:0] name_words;
  logic       names_given;
  assign name_words   = 6'(({1'b0, second_q ? order.cmd.name2_bytes : order.cmd.name_bytes} + 8'd3) >> 2);
  assign names_given  = second_q & (name_q == name_words);
  assign name_valid_o = (state_q == Run) & (name_q != name_words);

  // --- The command -----------------------------------------------------------------------------------
  logic data_idle, over;
  logic [31:0] moved;
  axi_pkg::resp_e resp;
  assign cmd_valid_o = state_q == Offer;
  assign cmd_o       = order.cmd;
  assign rsp_ready_o = (state_q == Run) & ~answered_q;
  assign over        = answered_q & (quiet_q == QuietCycles);

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      Idle:    if (start) state_d = (moves && !fits) ? Tell : Offer;
      Offer:   if (cmd_ready_i) state_d = Run;
      Run:     if (over && names_given && data_idle) state_d = Tell;
      default: state_d = Idle;
    endcase
  end

  always_comb begin
    result = '{status: rsp_q.status, value: rsp_q.value, moved: moved};
    if (bad_q) result = '{status: StatusBadTransfer, default: '0};
    else begin
      if (!moves) result.moved = '0;
      if (moves && (rsp_q.status == FsOk) && resp[1]) begin
        result.status = (resp == axi_pkg::RespDecErr) ? StatusDecodeError : StatusSlaveError;
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) state_q <= Idle;
    else         state_q <= state_d;
  end
  always_ff @(posedge clk_i) begin
    if (state_q == Idle) begin
      bad_q      <= moves & ~fits;
      answered_q <= 1'b0;
      quiet_q    <= '0;
      name_q     <= '0;
      second_q   <= 1'b0;
    end
    if (rsp_valid_i && rsp_ready_o) begin
      answered_q <= 1'b1;
      rsp_q      <= rsp_i;
    end
    if (answered_q && !over) quiet_q <= read_valid_i ? '0 : quiet_q + 2'd1;
    if (name_valid_o && name_ready_i) name_q <= name_q + 6'd1;
    if ((state_q == Run) && !second_q && (name_q == name_words)) begin
      second_q <= 1'b1;
      name_q   <= '0;
    end
  end

  hwfs_axi_regs #(.Shape(Shape)) u_regs (
    .clk_i, .rst_ni, .axil_i, .axil_o, .start_o(start), .order_o(order), .name_word_i({second_q, name_q[3:0]}),
    .name_o(name_data_o), .end_i(state_q == Tell), .result_i(result), .geometry_i, .irq_o
  );

  hwfs_axi_data u_data (
    .clk_i,
    .rst_ni,
    .start_i     (cmd_valid_o & cmd_ready_i & moves),
    .to_memory_i (takes),
    .address_i   (axi_pkg::address_t'(order.address)),
    .bytes_i     (bytes[31:0]),
    .over_i      (over),
    .idle_o      (data_idle),
    .moved_o     (moved),
    .resp_o      (resp),
    .write_valid_o, .write_ready_i, .write_data_o, .read_valid_i, .read_ready_o, .read_data_i,
    .axi_o, .axi_write_data_o, .axi_write_strobe_o, .axi_i, .axi_read_data_i
  );
endmodule
