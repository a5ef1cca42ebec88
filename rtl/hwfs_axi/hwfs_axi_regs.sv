// SPDX-License-Identifier: Apache-2.0 OR MIT
// The registers of the processor's interface: a command, its names, its start and its result. README.md has the table.
//
// Owns the command. While one is being executed, a write to its registers or another start is answered with SLVERR and has
// no effect; so is an access to an unassigned address. Each accepted start ends once; ENDED counts these.
//
// Shape  the value of the register SHAPE
module hwfs_axi_regs
  import hwfs_pkg::*;
  import hwfs_axi_pkg::*;
#(
  parameter logic [31:0] Shape = '0
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  axil_pkg::manager_t     axil_i,
  output axil_pkg::subordinate_t axil_o,

  output logic                   start_o,
  output order_t                 order_o,
  input  logic [4:0]             name_word_i,  // 16: the first word of the second name
  output logic [31:0]            name_o,
  input  logic                   end_i,        // high for one cycle, with the result
  input  result_t                result_i,
  input  block_pkg::geometry_t   geometry_i,
  output logic                   irq_o
);
  typedef enum logic [9:0] {  // a register's byte address divided by 4
    RegId = 10'h00, RegShape = 10'h01, RegControl = 10'h02, RegStatus = 10'h03, RegCommand = 10'h04,
    RegOffsetLow = 10'h06, RegOffsetHigh = 10'h07, RegLengthLow = 10'h08, RegLengthHigh = 10'h09,
    RegAddressLow = 10'h0a, RegAddressHigh = 10'h0b, RegValueLow = 10'h0c, RegValueHigh = 10'h0d, RegMoved = 10'h0e,
    RegDiskLow = 10'h10, RegDiskHigh = 10'h11
  } reg_e;
  localparam logic [31:0] Id = 32'h4648_5753;  // "SWHF", the first letter in the lowest bits

  order_t  order_q;
  result_t result_q;
  logic [31:0] names_q [32];
  logic start_q, busy_q, done_q, enable_q;
  logic [7:0] ended_q;

  logic write, write_error, read, read_error, named, known;
  logic [9:0]  write_reg, read_reg;
  logic [31:0] data, read_data;

  axil_port u_port (
    .clk_i, .rst_ni, .axil_i, .axil_o, .write_o(write), .write_word_o(write_reg), .write_data_o(data),
    .write_error_i(write_error), .read_o(read), .read_word_o(read_reg), .read_data_i(read_data),
    .read_error_i(read_error)
  );

  assign start_o = start_q;
  assign order_o = order_q;
  assign irq_o   = done_q & enable_q;
  assign name_o  = names_q[name_word_i];

  assign named = write_reg[9:5] == 5'd1;  // 0x80 to 0xff
  assign known = named | (write_reg == RegCommand) | ((write_reg >= RegOffsetLow) & (write_reg <= RegAddressHigh));
  // CONTROL may be written at any time, except to start a command.
  assign write_error = (write_reg == RegControl) ? (data[0] & busy_q) : (~known | busy_q);

  always_comb begin
    read_error = 1'b0;
    read_data  = '0;
    unique case (read_reg)
      RegId:          read_data = Id;
      RegShape:       read_data = Shape;
      RegStatus:      read_data = {ended_q, 8'b0, 2'b0, result_q.status, 5'b0, geometry_i.ready, done_q, busy_q};
      RegCommand:     read_data = {1'b0, order_q.cmd.name2_bytes, 1'b0, order_q.cmd.name_bytes, 5'b0,
                                   order_q.cmd.file, order_q.cmd.flags, order_q.cmd.op};
      RegOffsetLow:   read_data = order_q.cmd.offset[31:0];
      RegOffsetHigh:  read_data = order_q.cmd.offset[63:32];
      RegLengthLow:   read_data = order_q.cmd.length[31:0];
      RegLengthHigh:  read_data = order_q.cmd.length[63:32];
      RegAddressLow:  read_data = order_q.address[31:0];
      RegAddressHigh: read_data = order_q.address[63:32];
      RegValueLow:    read_data = result_q.value[31:0];
      RegValueHigh:   read_data = result_q.value[63:32];
      RegMoved:       read_data = result_q.moved;
      RegDiskLow:     read_data = geometry_i.block_count[31:0];
      RegDiskHigh:    read_data = 32'(geometry_i.block_count[47:32]);
      default:        read_error = 1'b1;
    endcase
  end

  always_ff @(posedge clk_i) if (write && named && !busy_q) names_q[write_reg[4:0]] <= data;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      order_q  <= '0;
      result_q <= '0;
      start_q  <= 1'b0;
      busy_q   <= 1'b0;
      done_q   <= 1'b0;
      enable_q <= 1'b0;
      ended_q  <= '0;
    end else begin
      start_q <= 1'b0;
      if (write && (write_reg == RegControl) && !write_error) begin
        enable_q <= data[1];
        if (data[2]) done_q <= 1'b0;
        if (data[0]) begin
          {start_q, busy_q} <= '1;
          done_q <= 1'b0;
        end
      end
      if (write && !busy_q) begin
        unique case (write_reg)
          RegCommand: begin
            order_q.cmd.op          <= cmd_op_e'(data[3:0]);
            order_q.cmd.flags       <= data[7:4];
            order_q.cmd.file        <= data[10:8];
            order_q.cmd.name_bytes  <= data[22:16];
            order_q.cmd.name2_bytes <= data[30:24];
          end
          RegOffsetLow:   order_q.cmd.offset[31:0]  <= data;
          RegOffsetHigh:  order_q.cmd.offset[63:32] <= data;
          RegLengthLow:   order_q.cmd.length[31:0]  <= data;
          RegLengthHigh:  order_q.cmd.length[63:32] <= data;
          RegAddressLow:  order_q.address[31:0]     <= data;
          RegAddressHigh: order_q.address[63:32]    <= data;
          default: ;
        endcase
      end
      if (end_i) begin
        result_q <= result_i;
        busy_q   <= 1'b0;
        done_q   <= 1'b1;
        ended_q  <= ended_q + 8'd1;
      end
    end
  end
endmodule
