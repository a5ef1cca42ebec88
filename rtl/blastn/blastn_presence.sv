// SPDX-License-Identifier: Apache-2.0 OR MIT
// The presence table: a bit for each word of eight bases, in two copies with two read ports each. The bits appear one cycle after
// the words and stay until the next request. A write takes the first port of both copies, so no read may come with it.
module blastn_presence
  import blastn_pkg::Lookups;
(
  input  logic               clk_i,
  input  logic               write_i,
  input  logic [10:0]        write_address_i,
  input  logic [31:0]        write_data_i,
  input  logic               read_i,
  input  logic [15:0]        words_i [Lookups],
  output logic [Lookups-1:0] present_o
);
  for (genvar copy = 0; copy < Lookups / 2; copy++) begin : gen_copy
    logic [31:0] bits_q [2048];
    logic [31:0] first_q, second_q;
    logic [4:0]  first_bit_q, second_bit_q;
    logic [10:0] address;
    assign address = write_i ? write_address_i : words_i[2*copy][15:5];

    always_ff @(posedge clk_i) begin
      if (write_i) bits_q[address] <= write_data_i;
      else if (read_i) first_q <= bits_q[address];
    end
    always_ff @(posedge clk_i) if (read_i) second_q <= bits_q[words_i[2*copy+1][15:5]];
    always_ff @(posedge clk_i) if (read_i) begin
      first_bit_q  <= words_i[2*copy][4:0];
      second_bit_q <= words_i[2*copy+1][4:0];
    end
    assign present_o[2*copy]   = first_q[first_bit_q];
    assign present_o[2*copy+1] = second_q[second_bit_q];
  end
endmodule
