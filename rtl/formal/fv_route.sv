// SPDX-License-Identifier: Apache-2.0 OR MIT
// route_torus of two by two nodes, at the shortest interval of its bounds: whatever the sources send, no word is deflected, a word with a
// token enters within the bound, and every word leaves where it was sent to, once, within the bound, before its source's
// next one enters.
//
// A word's content is its source.
module fv_route #(
  parameter int unsigned Columns  = 2,
  parameter int unsigned Rows     = 2,
  parameter int unsigned Interval = 8
) (
  input logic       clk_i,
  input logic       rst_ni,
  input logic [3:0] valid_i,
  input logic [1:0] to_i [4]
);
  localparam int unsigned Nodes = Columns * Rows;

  logic       in_valid [Nodes], in_ready [Nodes], out_valid [Nodes];
  logic [1:0] data [Nodes], out_data [Nodes];
  logic [3:0] deflected, token, arrives;
  logic       started_q;
  initial started_q = 1'b0;

  route_torus #(.Width(2), .Columns(Columns), .Rows(Rows), .Interval(Interval)) dut (
    .clk_i, .rst_ni, .in_valid_i(in_valid), .in_ready_o(in_ready), .in_to_i(to_i), .in_data_i(data),
    .out_valid_o(out_valid), .out_data_o(out_data), .deflected_o(deflected)
  );

  // The word of each source that is under way: since when, and where to.
  logic [3:0] under_way_q, held_q, age [Nodes];
  logic [1:0] target_q [Nodes], to_q [Nodes], wait_q [Nodes];

  always_comb begin
    arrives = '0;
    for (int unsigned node = 0; node < Nodes; node++) if (out_valid[node]) arrives[out_data[node]] = 1'b1;
  end

  for (genvar node = 0; node < Nodes; node++) begin : gen_node
    logic [3:0] bound;

    assign in_valid[node] = valid_i[node];
    assign data[node]     = 2'(node);
    assign token[node]    = dut.gen_row[node / Columns].gen_column[node % Columns].valid;
    assign age[node]      = 4'(Interval) - 4'(dut.gen_row[node / Columns].gen_column[node % Columns].u_source.wait_q);
    assign bound          = 4'(target_q[node][0] != 1'(node % Columns)) + 4'(target_q[node][1] != 1'(node / Columns)) +
                            4'(Nodes - 1) + 4'd2;

    always_ff @(posedge clk_i) begin
      if (!rst_ni) begin
        held_q[node]      <= 1'b0;
        wait_q[node]      <= '0;
        under_way_q[node] <= 1'b0;
      end else begin
        // An offer stays.
        held_q[node] <= valid_i[node] & ~in_ready[node];
        to_q[node]   <= to_i[node];
        if (held_q[node]) assume (valid_i[node] && (to_i[node] == to_q[node]));
        wait_q[node] <= (token[node] && !in_ready[node]) ? wait_q[node] + 2'd1 : '0;
        a_enters: assert (wait_q[node] <= 2'(Columns - 1));

        if (arrives[node]) under_way_q[node] <= 1'b0;
        if (valid_i[node] && in_ready[node]) begin
          a_order: assert (!under_way_q[node]);
          under_way_q[node] <= 1'b1;
          target_q[node]    <= to_i[node];
        end
        if (under_way_q[node]) a_bound: assert (age[node] <= bound);
        if (out_valid[node])
          a_where: assert (under_way_q[out_data[node]] && (target_q[out_data[node]] == 2'(node)));
      end
    end
  end

  // What the induction needs: a word under way is in one place, on its way, with what it was sent with. A place is a ring's
  // register, an entry of a turn's queue, or an output.
  logic [3:0] in_east [Nodes], in_head [Nodes], in_second [Nodes], in_south [Nodes], in_out [Nodes];

  for (genvar node = 0; node < Nodes; node++) begin : gen_place
    logic [1:0] count, east, south;
    logic [2:0] head, second, places;  // row and source
    logic       read;

    assign east   = dut.east_data[node];
    assign south  = dut.south_data[node];
    assign count  = dut.gen_row[node / Columns].gen_column[node % Columns].u_router.u_turn.count_q;
    assign read   = dut.gen_row[node / Columns].gen_column[node % Columns].u_router.u_turn.read_q;
    assign head   = dut.gen_row[node / Columns].gen_column[node % Columns].u_router.u_turn.entries_q[read];
    assign second = dut.gen_row[node / Columns].gen_column[node % Columns].u_router.u_turn.entries_q[~read];

    always_comb begin
      in_east[node]   = dut.east_valid[node] ? 4'd1 << east : '0;
      in_head[node]   = (count != 2'd0) ? 4'd1 << head[1:0] : '0;
      in_second[node] = (count == 2'd2) ? 4'd1 << second[1:0] : '0;
      in_south[node]  = dut.south_valid[node] ? 4'd1 << south : '0;
      in_out[node]    = out_valid[node] ? 4'd1 << out_data[node] : '0;
      places = '0;
      for (int unsigned other = 0; other < Nodes; other++)
        places = places + 3'(in_east[other][node]) + 3'(in_head[other][node]) + 3'(in_second[other][node]) +
                 3'(in_south[other][node]) + 3'(in_out[other][node]);
    end

    always_ff @(posedge clk_i) begin
      if (rst_ni) begin
        a_one_place: assert (places == 3'(under_way_q[node]));
        a_count:     assert (count != 2'd3);
        if (dut.east_valid[node])
          a_east: assert ((east == 2'(node)) && (age[east] == 4'd1) &&
                          (target_q[east] == {dut.east_row[node], dut.east_column[node]}));
        if (count != 2'd0)
          a_head: assert ((head[1] == 1'(node / Columns)) && (target_q[head[1:0]] == {head[2], 1'(node % Columns)}));
        if (count == 2'd2)
          a_second: assert ((second[1] == 1'(node / Columns)) && (target_q[second[1:0]] == {second[2], 1'(node % Columns)}));
        if (dut.south_valid[node])
          a_south: assert ((south[1] == 1'(node / Columns)) && (target_q[south] == {dut.south_row[node], 1'(node % Columns)}));
      end
    end
  end

  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (rst_ni) a_straight: assert (deflected == '0);
  end
endmodule
