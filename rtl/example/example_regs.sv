// SPDX-License-Identifier: Apache-2.0 OR MIT
// The registers of the example: configuration, start and counters of the workload generator. rtl/example/README.md has
// the table.
//
// Holds the configuration. One write and one read at a time, independent of each other. A write to a read-only register,
// a write to the configuration while the generator is busy, and a write of less than a word end with SLVERR and change
// nothing.
//
// NameWords  32-bit words of a name, 1 to 16
// Shape      value of the register SHAPE
module example_regs
  import workload_pkg::*;
#(
  parameter int unsigned NameWords = 4,
  parameter logic [31:0] Shape     = '0
) (
  input  logic                       clk_i,
  input  logic                       rst_ni,
  input  axil_pkg::manager_t         axil_i,
  output axil_pkg::subordinate_t     axil_o,

  output logic                       start_o,
  output config_t                    config_o,
  output logic [NameWords-1:0][31:0] name_o,
  input  logic                       busy_i,
  input  result_t                    result_i,
  input  block_pkg::geometry_t       geometry_i,
  output logic                       irq_o
);
  // What the parameters must be.
  if ((NameWords < 1) || (NameWords > 16)) begin : gen_bad_name_words
    $error("NameWords is %0d: 1 to 16", NameWords);
  end

  typedef enum logic [5:0] {  // byte address divided by 4
    RegId = 6'h00, RegShape = 6'h01, RegControl = 6'h02, RegStatus = 6'h03, RegRun = 6'h04, RegFileLow = 6'h05,
    RegFileHigh = 6'h06, RegBlock = 6'h07, RegCount = 6'h08, RegSeed = 6'h09, RegDiskLow = 6'h0a,
    RegDiskHigh = 6'h0b, RegCyclesLow = 6'h10, RegCyclesHigh = 6'h11, RegBytesLow = 6'h12, RegBytesHigh = 6'h13,
    RegOperations = 6'h14, RegErrors = 6'h15, RegMismatches = 6'h16, RegLatencyMin = 6'h17, RegLatencyMax = 6'h18,
    RegName = 6'h20
  } reg_e;
  localparam logic [31:0] Id = 32'h5346_5753;  // "SWFS", first letter in the lowest bits

  config_t config_q, config_d;
  logic [NameWords-1:0][31:0] name_q, name_d;
  logic start_q, start_d, irq_enable_q, irq_enable_d, done_q, done_d, busy_q;

  assign start_o  = start_q;
  assign config_o = config_q;
  assign name_o   = name_q;
  assign irq_o    = done_q & irq_enable_q;

  logic write, write_error, read_error;
  logic [9:0] write_place, read_place;
  logic [5:0] write_reg, write_name, read_reg, read_name;
  logic [31:0] data, read_data, name_word;
  axil_port u_port (
    .clk_i, .rst_ni, .axil_i, .axil_o, .write_o(write), .write_word_o(write_place), .write_data_o(data),
    .write_error_i(write_error), .read_o(), .read_word_o(read_place), .read_data_i(read_data),
    .read_error_i(read_error)
  );

  // --- Writes ---------------------------------------------------------------------------------------
  logic locked, is_config;
  assign write_reg  = write_place[5:0];
  assign write_name = write_reg - RegName;
  assign locked     = busy_i | start_q;

  always_comb begin
    config_d     = config_q;
    name_d       = name_q;
    start_d      = 1'b0;
    irq_enable_d = irq_enable_q;
    // Done from the end of a run to the start of the next.
    done_d       = (done_q | (busy_q & ~busy_i)) & ~start_q;
    write_error  = 1'b0;
    is_config    = 1'b1;
    if (write) begin
      if (write_place[9:6] != '0) write_error = 1'b1;
      else begin
        unique case (write_reg)
          RegControl: begin
            is_config    = 1'b0;
            irq_enable_d = data[1];
            start_d      = data[0] & ~locked;
            if (start_d) done_d = 1'b0;
            if (data[0] && locked) write_error = 1'b1;
          end
          RegRun: if (!locked) begin
            config_d.run        = run_e'(data[3:0]);
            config_d.file       = data[6:4];
            config_d.name_bytes = data[14:8];
            config_d.align_log2 = data[20:16];
          end
          RegFileLow:  if (!locked) config_d.file_bytes[31:0] = data;
          RegFileHigh: if (!locked) config_d.file_bytes[47:32] = data[15:0];
          RegBlock:    if (!locked) config_d.block_bytes = data;
          RegCount:    if (!locked) config_d.count = data;
          RegSeed:     if (!locked) config_d.seed = data;
          default: begin
            if ((write_reg >= RegName) && (32'(write_name) < NameWords)) begin
              for (int unsigned i = 0; i < NameWords; i++) begin
                if (!locked && (32'(write_name) == i)) name_d[i] = data;
              end
            end else write_error = 1'b1;
          end
        endcase
        if (is_config && locked) write_error = 1'b1;
      end
    end
  end

  // --- Reads ----------------------------------------------------------------------------------------
  assign read_reg  = read_place[5:0];
  assign read_name = read_reg - RegName;

  always_comb begin
    read_data  = '0;
    read_error = 1'b0;
    name_word  = '0;
    for (int unsigned i = 0; i < NameWords; i++) begin
      if (32'(read_name) == i) name_word = name_q[i];
    end
    unique case (read_reg)
      RegId:         read_data = Id;
      RegShape:      read_data = Shape;
      RegControl:    read_data = {30'd0, irq_enable_q, 1'b0};
      RegStatus:     read_data = {18'd0, result_i.status, 5'd0, geometry_i.ready, done_q, locked};
      RegRun: read_data = {11'd0, config_q.align_log2, 1'b0, config_q.name_bytes, 1'b0, config_q.file, config_q.run};
      RegFileLow:    read_data = config_q.file_bytes[31:0];
      RegFileHigh:   read_data = 32'(config_q.file_bytes[47:32]);
      RegBlock:      read_data = config_q.block_bytes;
      RegCount:      read_data = config_q.count;
      RegSeed:       read_data = config_q.seed;
      RegDiskLow:    read_data = geometry_i.block_count[31:0];
      RegDiskHigh:   read_data = 32'(geometry_i.block_count[47:32]);
      RegCyclesLow:  read_data = result_i.cycles[31:0];
      RegCyclesHigh: read_data = result_i.cycles[63:32];
      RegBytesLow:   read_data = result_i.bytes[31:0];
      RegBytesHigh:  read_data = result_i.bytes[63:32];
      RegOperations: read_data = result_i.operations;
      RegErrors:     read_data = result_i.errors;
      RegMismatches: read_data = result_i.mismatches;
      RegLatencyMin: read_data = result_i.latency_min;
      RegLatencyMax: read_data = result_i.latency_max;
      default: begin
        read_data = name_word;
        if ((read_reg < RegName) || (32'(read_name) >= NameWords)) read_error = 1'b1;
      end
    endcase
    if (read_place[9:6] != '0) read_error = 1'b1;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      config_q     <= '0;
      name_q       <= '0;
      start_q      <= 1'b0;
      irq_enable_q <= 1'b0;
      done_q       <= 1'b0;
      busy_q       <= 1'b0;
    end else begin
      config_q     <= config_d;
      name_q       <= name_d;
      start_q      <= start_d;
      irq_enable_q <= irq_enable_d;
      done_q       <= done_d;
      // A refused run ends immediately.
      busy_q       <= busy_i | start_q;
    end
  end
endmodule
