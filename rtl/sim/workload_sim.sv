// SPDX-License-Identifier: Apache-2.0 OR MIT
// The workload generator on pins, for a test bench that acts as the file system core.
module workload_sim
  import hwfs_pkg::*;
  import workload_pkg::*;
#(
  parameter int unsigned DataWidth     = 32,
  parameter int unsigned NameWords     = 4,
  parameter int unsigned TimeoutCycles = 500
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        start,
  input  logic [3:0]  run,
  input  logic [2:0]  file,
  input  logic [6:0]  name_bytes,
  input  logic [47:0] file_bytes,
  input  logic [31:0] block_bytes,
  input  logic [31:0] count,
  input  logic [4:0]  align_log2,
  input  logic [31:0] seed,
  input  logic [NameWords*32-1:0] file_name,
  output logic        busy,
  output logic [63:0] cycles,
  output logic [63:0] bytes_moved,
  output logic [31:0] operations,
  output logic [31:0] errors,
  output logic [31:0] mismatches,
  output logic [31:0] latency_min,
  output logic [31:0] latency_max,
  output logic [5:0]  status,

  output logic        cmd_valid,
  input  logic        cmd_ready,
  output logic [3:0]  cmd_op,
  output logic [3:0]  cmd_flags,
  output logic [2:0]  cmd_file,
  output logic [6:0]  cmd_name_bytes,
  output logic [63:0] cmd_offset,
  output logic [63:0] cmd_length,
  output logic        name_valid,
  input  logic        name_ready,
  output logic [31:0] name_data,
  input  logic        answer_valid,
  output logic        answer_ready,
  input  logic [5:0]  answer_status,
  input  logic [63:0] answer_value,
  output logic        give_valid,
  input  logic        give_ready,
  output logic [DataWidth-1:0] give_data,
  input  logic        take_valid,
  output logic        take_ready,
  input  logic [DataWidth-1:0] take_data,
  input  logic [DataWidth/8-1:0] take_keep,
  input  logic        take_last
);
  config_t told;
  result_t result;
  cmd_t cmd;
  fs_rsp_t rsp;
  assign told = '{run: run_e'(run), file: file, name_bytes: name_bytes, file_bytes: file_bytes,
                  block_bytes: block_bytes, count: count, align_log2: align_log2, seed: seed};
  assign rsp  = '{status: fs_status_e'(answer_status), value: answer_value};
  assign {cycles, bytes_moved, operations, errors, mismatches, latency_min, latency_max, status} = result;
  assign cmd_op         = cmd.op;
  assign cmd_flags      = cmd.flags;
  assign cmd_file       = cmd.file;
  assign cmd_name_bytes = cmd.name_bytes;
  assign cmd_offset     = cmd.offset;
  assign cmd_length     = cmd.length;

  workload #(.DataWidth(DataWidth), .NameWords(NameWords), .TimeoutCycles(TimeoutCycles)) u_workload (
    .clk_i,
    .rst_ni,
    .start_i       (start),
    .config_i      (told),
    .name_i        (file_name),
    .busy_o        (busy),
    .result_o      (result),
    .cmd_valid_o   (cmd_valid),
    .cmd_ready_i   (cmd_ready),
    .cmd_o         (cmd),
    .name_valid_o  (name_valid),
    .name_ready_i  (name_ready),
    .name_data_o   (name_data),
    .rsp_valid_i   (answer_valid),
    .rsp_ready_o   (answer_ready),
    .rsp_i         (rsp),
    .write_valid_o (give_valid),
    .write_ready_i (give_ready),
    .write_data_o  (give_data),
    .read_valid_i  (take_valid),
    .read_ready_o  (take_ready),
    .read_data_i   (take_data),
    .read_keep_i   (take_keep),
    .read_last_i   (take_last)
  );
endmodule
