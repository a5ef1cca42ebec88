// SPDX-License-Identifier: Apache-2.0 OR MIT
// route_switch: upwards every child's words leave once, in order, with the child's digit, and a word waits for at most one word of each
// other child in front of it and of the one before it; downwards each word leaves once, in order, at its child alone, from the next cycle on.
//
// A word's content is its number among its child's.
module fv_switch #(
  parameter int unsigned Ways = 4
) (
  input logic            clk_i,
  input logic            rst_ni,
  input logic [Ways-1:0] valid_i,
  input logic            ready_i,
  input logic            down_valid_i,
  input logic [1:0]      down_to_i,
  input logic [Ways-1:0] down_ready_i
);
  logic       up_valid [Ways], up_ready [Ways], down_valid [Ways], down_ready [Ways];
  logic [1:0] up_from [Ways], up_data [Ways], sent_q [Ways], taken_q [Ways];
  logic [1:0] down_data [Ways], down_sent_q [Ways], down_taken_q [Ways];
  logic [4:0] waits_q [Ways];
  logic       valid, started_q, ready;
  logic [1:0] from, data;
  initial started_q = 1'b0;

  route_switch #(.Width(2), .Ways(Ways), .Digits(1), .Level(0)) dut (
    .clk_i, .rst_ni, .up_valid_i(up_valid), .up_ready_o(up_ready), .up_from_i(up_from), .up_data_i(up_data),
    .up_valid_o(valid), .up_ready_i(ready_i), .up_from_o(from), .up_data_o(data), .down_valid_i,
    .down_ready_o(ready), .down_to_i, .down_data_i(down_sent_q[down_to_i]), .down_valid_o(down_valid),
    .down_ready_i(down_ready), .down_to_o(), .down_data_o(down_data)
  );

  for (genvar way = 0; way < Ways; way++) begin : gen_way
    assign up_valid[way] = valid_i[way];
    assign up_from[way]  = '0;
    assign up_data[way]  = sent_q[way];
    assign down_ready[way] = down_ready_i[way];

    always_ff @(posedge clk_i) begin
      if (!rst_ni) begin
        sent_q[way]  <= '0;
        taken_q[way] <= '0;
        waits_q[way] <= '0;
        down_sent_q[way]  <= '0;
        down_taken_q[way] <= '0;
      end else begin
        if (valid_i[way] && up_ready[way]) sent_q[way] <= sent_q[way] + 2'd1;
        if (valid && (from == 2'(way))) begin
          a_word: assert ((data == taken_q[way]) && (sent_q[way] != taken_q[way]));
          if (ready_i) taken_q[way] <= taken_q[way] + 2'd1;
        end
        // Words that leave while this child's oldest waits.
        if ((sent_q[way] == taken_q[way]) || (valid && ready_i && (from == 2'(way)))) waits_q[way] <= '0;
        else if (ready_i)                                                             waits_q[way] <= waits_q[way] + 5'd1;
        a_fair: assert (waits_q[way] <= 5'(Ways - 1));
        if (down_valid_i && ready && (down_to_i == 2'(way))) down_sent_q[way] <= down_sent_q[way] + 2'd1;
        if (down_valid[way] && down_ready[way])              down_taken_q[way] <= down_taken_q[way] + 2'd1;
        a_down: assert (down_valid[way] == (down_sent_q[way] != down_taken_q[way]));
        if (down_valid[way]) a_down_word: assert (down_data[way] == down_taken_q[way]);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
  end
endmodule
