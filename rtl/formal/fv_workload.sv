// SPDX-License-Identifier: Apache-2.0 OR MIT
// workload: for any pauses and responses, a command stays until it is taken, and the next one is not offered before
// its response; each command has exactly the words of its name and of its data, in order, and each word is
// the one for its offset in the file; after a failed open the file is not used; and correct data are never counted as a
// mismatch.
module fv_workload
  import hwfs_pkg::*;
  import workload_pkg::*;
(
  input logic        clk_i,
  input logic        rst_ni,
  input logic        start_i,
  input config_t     config_i,
  input logic        cmd_ready_i,
  input logic        name_ready_i,
  input logic        rsp_valid_i,
  input logic        bad_i,
  input logic        write_ready_i,
  input logic        read_valid_i
);
  localparam logic [31:0] Seed = 32'h2545_f491;
  config_t told_q;
  logic [1:0][31:0] name;
  assign name = {32'hbbbb_bbbb, 32'haaaa_aaaa};

  logic busy, cmd_valid, name_valid, rsp_ready, write_valid, read_ready;
  result_t result;
  cmd_t cmd, cmd_q, last_q;
  fs_rsp_t rsp;
  logic [31:0] name_data, write_data, read_data, name_data_q, write_data_q;
  logic started_q, cmd_waits_q, name_waits_q, write_waits_q, open_q, answered, failed_q, is_read, is_write;
  logic [1:0] names_q, names_want;
  logic [3:0] given_q, given_want, taken_q, taken_want;

  // The words that the current command needs.
  assign names_want = 2'((last_q.name_bytes + 7'd3) >> 2);
  assign is_write   = (last_q.op == CmdWrite) | ((last_q.op == CmdCreate) & last_q.flags[0]);
  assign is_read    = last_q.op == CmdRead;
  assign given_want = is_write ? 4'((last_q.length + 64'd3) >> 2) : '0;
  assign taken_want = is_read ? 4'((last_q.length + 64'd3) >> 2) : '0;

  logic read_valid, rsp_valid, read_last;
  logic [3:0] read_keep;
  // The core responds when it has all names, and has taken or delivered all data (or with an error).
  assign rsp_valid  = open_q & rsp_valid_i & (names_q == names_want) &
                      (bad_i | ((given_q == given_want) & (taken_q == taken_want)));
  assign rsp        = '{status: bad_i ? FsDevice : FsOk, value: '0};
  assign read_valid = open_q & is_read & read_valid_i & (names_q == names_want) & (taken_q < taken_want);
  assign read_last  = taken_q + 4'd1 == taken_want;
  assign read_data  = pattern(told_q.seed + 32'(last_q.offset >> 2) + 32'(taken_q));
  for (genvar i = 0; i < 4; i++) begin : gen_keep
    assign read_keep[i] = 64'(taken_q) * 64'd4 + 64'(i) < last_q.length;
  end

  workload #(.DataWidth(32), .NameWords(2), .TimeoutCycles(1000)) dut (
    .clk_i, .rst_ni, .start_i(start_i & rst_ni), .config_i(told_q), .name_i(name), .busy_o(busy), .result_o(result),
    .cmd_valid_o(cmd_valid), .cmd_ready_i(cmd_ready_i & ~open_q), .cmd_o(cmd), .name_valid_o(name_valid),
    .name_ready_i(name_ready_i & open_q), .name_data_o(name_data), .rsp_valid_i(rsp_valid), .rsp_ready_o(rsp_ready),
    .rsp_i(rsp), .write_valid_o(write_valid), .write_ready_i(write_ready_i & open_q), .write_data_o(write_data),
    .read_valid_i(read_valid), .read_ready_o(read_ready), .read_data_i(read_data), .read_keep_i(read_keep),
    .read_last_i(read_last)
  );

  assign answered = rsp_valid & rsp_ready;
  initial started_q = 1'b0;

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      // One configuration for the run: a small file. Random offsets take a solver too long; tests cover them.
      assume ((config_i.file_bytes <= 48'd9) && (config_i.block_bytes <= 32'd8) && (config_i.seed == Seed));
      assume ((config_i.run != RunRandomRead) && (config_i.run != RunRandomWrite));
      told_q        <= config_i;
      cmd_waits_q   <= 1'b0;
      name_waits_q  <= 1'b0;
      write_waits_q <= 1'b0;
      open_q        <= 1'b0;
      failed_q      <= 1'b0;
      names_q       <= '0;
      given_q       <= '0;
      taken_q       <= '0;
    end else begin
      cmd_waits_q <= cmd_valid & ~(cmd_ready_i & ~open_q);
      cmd_q       <= cmd;
      if (cmd_waits_q) a_cmd_stays: assert (cmd_valid && (cmd == cmd_q));
      if (cmd_valid)   a_one_at_a_time: assert (!open_q);
      if (cmd_valid && cmd_ready_i && !open_q) begin
        a_not_after_a_failed_open: assert (!failed_q || (cmd.op == CmdOpen) || (cmd.op == CmdCreate) ||
                                           (told_q.run == RunMount) || (told_q.run == RunUnmount) ||
                                           (told_q.run == RunDelete));
        open_q   <= 1'b1;
        failed_q <= 1'b0;
        last_q   <= cmd;
        names_q  <= '0;
        given_q  <= '0;
        taken_q  <= '0;
      end
      if (answered) begin
        open_q <= 1'b0;
        if (bad_i && ((last_q.op == CmdOpen) || (last_q.op == CmdCreate))) failed_q <= 1'b1;
      end

      name_waits_q <= name_valid & ~(name_ready_i & open_q) & ~answered;
      name_data_q  <= name_data;
      if (name_waits_q) a_name_stays: assert (name_valid && (name_data == name_data_q));
      if (name_valid && open_q) begin
        a_name_wanted: assert (names_q < names_want);
        a_name: assert (name_data == name[names_q[0]]);
        if (name_ready_i) names_q <= names_q + 2'd1;
      end

      write_waits_q <= write_valid & ~(write_ready_i & open_q) & ~answered;
      write_data_q  <= write_data;
      if (write_waits_q) a_write_stays: assert (write_valid && (write_data == write_data_q));
      if (write_valid) begin
        a_write_wanted: assert (open_q && (given_q < given_want));
        a_write: assert (write_data == pattern(told_q.seed + 32'(last_q.offset >> 2) + 32'(given_q)));
        if (write_ready_i) given_q <= given_q + 4'd1;
      end

      a_read_ready: assert (read_ready);
      if (read_valid) taken_q <= taken_q + 4'd1;
      a_no_mismatch: assert (result.mismatches == '0);
      if (open_q) a_in_file: assert (!((last_q.op == CmdRead) || (last_q.op == CmdWrite)) ||
                                     (last_q.offset + last_q.length <= 64'(told_q.file_bytes)));
    end
  end
endmodule
