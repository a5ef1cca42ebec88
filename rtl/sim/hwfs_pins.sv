// SPDX-License-Identifier: Apache-2.0 OR MIT
// The application's side of the file system core as plain pins, for the tops of test benches.
`define HWFS_APP_PINS(WIDTH) \
  input  logic        cmd_valid, name_valid, answer_ready, give_valid, take_ready, \
  input  logic [3:0]  cmd_op, cmd_flags, \
  input  logic [2:0]  cmd_file, \
  input  logic [6:0]  cmd_name_bytes, cmd_name2_bytes, \
  input  logic [63:0] cmd_offset, cmd_length, \
  input  logic [31:0] name_data, \
  input  logic [(WIDTH)-1:0] give_data, \
  output logic        cmd_ready, name_ready, answer_valid, give_ready, take_valid, take_last, \
  output logic [5:0]  answer_status, \
  output logic [63:0] answer_value, \
  output logic [(WIDTH)-1:0] take_data, \
  output logic [(WIDTH)/8-1:0] take_keep

// The command on these pins.
`define HWFS_APP_COMMAND \
  '{op: cmd_op_e'(cmd_op), flags: cmd_flags, file: cmd_file, name_bytes: cmd_name_bytes, \
    name2_bytes: cmd_name2_bytes, offset: cmd_offset, length: cmd_length}
