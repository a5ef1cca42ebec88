// SPDX-License-Identifier: Apache-2.0 OR MIT
// link_session, on both sides of a line that takes `Delay` cycles each way and loses any frames, while either side is reset at any time:
// all frames that a side accepts in one session are from one session of the other side, and that one accepts none but this
// side's. So what is numbered from zero in a session is never mixed with another's.
module fv_link_session #(
  parameter int unsigned DeadLog2 = 3,
  parameter int unsigned Delay    = 3
) (
  input logic       clk_i,
  input logic       rst_ni,
  input logic [1:0] reset_i,
  input logic [1:0] good_i   // this cycle's frame arrives
);
  typedef logic [2:0] epoch_t;
  typedef struct packed {
    logic   up;
    logic   heard;
    epoch_t epoch;  // of the sender
  } frame_t;

  logic [1:0] up, heard, up_q, met_q, good;
  epoch_t epoch_q [2];
  epoch_t other_q [2];  // whose frames were accepted in this session
  frame_t line_q [2][Delay];
  frame_t [1:0] arrives;
  logic started_q;
  initial started_q = 1'b0;

  for (genvar side = 0; side < 2; side++) begin : gen_side
    assign arrives[side] = line_q[1 - side][Delay - 1];
    assign good[side]    = good_i[side];

    link_session #(.DeadLog2(DeadLog2)) dut (
      .clk_i, .rst_ni(rst_ni & ~reset_i[side]), .good_i(good[side]), .up_i(arrives[side].up), .heard_i(arrives[side].heard),
      .up_o(up[side]), .heard_o(heard[side])
    );

    always_ff @(posedge clk_i) begin
      if (!rst_ni) begin
        epoch_q[side] <= '0;
        up_q[side]    <= 1'b0;
        met_q[side]   <= 1'b0;
        for (int unsigned i = 0; i < Delay; i++) line_q[side][i] <= '0;
      end else begin
        up_q[side] <= up[side];
        line_q[side][0] <= '{up: up[side], heard: heard[side], epoch: epoch_q[side]};
        for (int unsigned i = 1; i < Delay; i++) line_q[side][i] <= line_q[side][i - 1];
        // An epoch ends with its session.
        if (up_q[side] && !up[side]) begin
          epoch_q[side]   <= epoch_q[side] + epoch_t'(1);
          line_q[side][0] <= '{up: up[side], heard: heard[side], epoch: epoch_q[side] + epoch_t'(1)};
          met_q[side]     <= 1'b0;
        end else if (up[side] && good[side] && arrives[side].up) begin
          met_q[side]   <= 1'b1;
          other_q[side] <= arrives[side].epoch;
          if (met_q[side]) a_one: assert (arrives[side].epoch == other_q[side]);
          if (met_q[1 - side] && (arrives[side].epoch == epoch_q[1 - side]) && up[1 - side] && up_q[1 - side])
            a_mutual: assert (other_q[1 - side] == epoch_q[side]);
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
  end
endmodule
