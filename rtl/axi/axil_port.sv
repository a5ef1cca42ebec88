// SPDX-License-Identifier: Apache-2.0 OR MIT
// The handshakes of an AXI4-Lite subordinate, for a block of registers: one write and one read at a time,
// independent of each other. A write of less than a word is answered with SLVERR and never reaches the registers.
//
// The registers answer in the cycle of the access: `write_error_i` and `read_error_i` become SLVERR.
module axil_port (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  axil_pkg::manager_t     axil_i,
  output axil_pkg::subordinate_t axil_o,

  output logic                               write_o,
  output logic [axil_pkg::AddressWidth-1:2]  write_word_o,
  output logic [31:0]                        write_data_o,
  input  logic                               write_error_i,
  output logic                               read_o,
  output logic [axil_pkg::AddressWidth-1:2]  read_word_o,
  input  logic [31:0]                        read_data_i,
  input  logic                               read_error_i
);
  logic take, whole, b_valid_q, r_valid_q, b_error_q, r_error_q;
  logic [31:0] r_data_q;

  assign take         = axil_i.aw_valid & axil_i.w_valid & ~b_valid_q;
  assign whole        = axil_i.w_strobe == '1;
  assign write_o      = take & whole;
  assign write_word_o = axil_i.aw_address[axil_pkg::AddressWidth-1:2];
  assign write_data_o = axil_i.w_data;
  assign read_o       = axil_i.ar_valid & ~r_valid_q;
  assign read_word_o  = axil_i.ar_address[axil_pkg::AddressWidth-1:2];

  assign axil_o = '{aw_ready: take, w_ready: take, b_valid: b_valid_q,
                    b_resp: b_error_q ? axi_pkg::RespSlvErr : axi_pkg::RespOkay, ar_ready: read_o, r_valid: r_valid_q,
                    r_data: r_data_q, r_resp: r_error_q ? axi_pkg::RespSlvErr : axi_pkg::RespOkay};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      b_valid_q <= 1'b0;
      r_valid_q <= 1'b0;
    end else begin
      b_valid_q <= take | (b_valid_q & ~axil_i.b_ready);
      r_valid_q <= read_o | (r_valid_q & ~axil_i.r_ready);
    end
  end
  always_ff @(posedge clk_i) begin
    if (take) b_error_q <= ~whole | write_error_i;
    if (read_o) begin
      r_error_q <= read_error_i;
      r_data_q  <= read_error_i ? '0 : read_data_i;
    end
  end
endmodule
