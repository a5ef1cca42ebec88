// SPDX-License-Identifier: Apache-2.0 OR MIT
// hwfs_sum, reading: the last word of a part is passed on only if the part matches the given checksum; `rot` is raised
// only if it does not; and each word is passed on or raises `rot` within a bounded time.
//
// Two parts, the first of whole words; any checksums, any pauses on either side. The data are fixed, to keep the problem
// small for the solver: tests compare the CRC of hwfs_crc with that of the software.
module fv_sum
  import hwfs_pkg::*;
(
  input logic        clk_i,
  input logic        rst_ni,
  input logic [1:0][3:0]  bytes_i,
  input logic [1:0][31:0] stored_i,
  input logic        word_valid_i,
  input logic        ready_i
);
  localparam int unsigned Bytes = 4;
  logic started_q, begun_q, over_q, second_q, waits_q;
  logic [1:0] told_q;           // parts
  logic [1:0][3:0]  bytes_q;
  logic [1:0][31:0] stored_q;
  logic [3:0]  left_q;          // bytes of this part
  logic [1:0]  word_q;          // words taken
  logic [31:0] word, crc_q, crc_d;
  logic [3:0]  stuck_q;
  logic start, tell, ready, pass, rot, bad, valid, taken, ends;
  do_t  task_now;

  assign word = {4{word_q, 6'h15}} ^ 32'hc3a50f12;

  // The checksum so far with this word's bytes, one after another.
  always_comb begin
    crc_d = crc_q;
    for (int unsigned i = 0; i < Bytes; i++) begin
      if (left_q > 4'(i)) begin
        for (int unsigned b = 0; b < 8; b++) begin
          crc_d = {1'b0, crc_d[31:1]} ^ ((crc_d[0] ^ word[8*i+b]) ? 32'h82f63b78 : 32'h0);
        end
      end
    end
  end

  assign start    = rst_ni & ~begun_q;
  assign tell     = begun_q & ~told_q[1] & ready;
  assign task_now = start ? '{unit: DoReadTo, imm: 12'(1 << DoSums), a: '0, b: '0}
                          : '{unit: DoSum, imm: '0, a: 64'(stored_q[told_q[0]]),
                              b: {46'b0, 1'b1, 13'b0, bytes_q[told_q[0]]}};
  assign valid = begun_q & ~over_q & word_valid_i;
  assign taken = valid & pass & ready_i;
  assign ends  = left_q <= 4'(Bytes);

  hwfs_sum #(.DataWidth(32)) dut (
    .clk_i, .rst_ni, .read_i(start), .write_i(1'b0), .part_i(tell), .ready_o(ready), .do_i(task_now), .abort_i(1'b0),
    .forget_i(1'b0), .writing_o(), .word_valid_i(valid), .word_i(word), .taken_i(taken), .wanted_i(begun_q & ~over_q),
    .pass_o(pass), .rot_o(rot), .bad_o(bad), .sum_o()
  );

  initial started_q = 1'b0;

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!rst_ni) begin
      begun_q  <= 1'b0;
      over_q   <= 1'b0;
      second_q <= 1'b0;
      waits_q  <= 1'b0;
      told_q   <= '0;
      word_q   <= '0;
      stuck_q  <= '0;
    end else begin
      begun_q <= 1'b1;
      if (start) begin
        assume ((bytes_i[0] inside {4'd4, 4'd8}) && (bytes_i[1] inside {[4'd1 : 4'd8]}));
        bytes_q  <= bytes_i;
        stored_q <= stored_i;
        left_q   <= bytes_i[0];
        crc_q    <= '1;
      end
      if (tell) told_q <= {told_q[0], 1'b1};

      // An offered word stays until it is taken.
      waits_q <= valid & ~taken & ~rot;
      if (waits_q) assume (word_valid_i);

      if (valid && pass && ends) begin
        a_compared: assert (~crc_d == stored_q[second_q]);
      end
      if (rot) begin
        a_rot: assert (valid && ends && (~crc_d != stored_q[second_q]));
        over_q <= 1'b1;
      end
      if (over_q && (left_q != '0)) begin
        a_known: assert (bad);
      end
      if (taken) begin
        word_q <= word_q + 2'd1;
        crc_q  <= ends ? '1 : crc_d;
        left_q <= ends ? (second_q ? '0 : bytes_q[1]) : left_q - 4'(Bytes);
        if (ends) begin
          second_q <= 1'b1;
          if (second_q) over_q <= 1'b1;
        end
      end
      stuck_q <= (valid & ready_i & ~taken & ~rot) ? stuck_q + 4'd1 : '0;
      a_goes_on: assert (stuck_q < 4'd7);
    end
  end
endmodule
