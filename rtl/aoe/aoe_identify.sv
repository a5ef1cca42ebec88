// SPDX-License-Identifier: Apache-2.0 OR MIT
// The answer to IDENTIFY DEVICE (ATA8-ACS, 7.16), two of its 16-bit words at a time: a disk with 48 bits of address, and the flushes of
// both kinds.
module aoe_identify
  import block_pkg::*;
(
  input  logic [6:0]  index_i,
  input  geometry_t   geometry_i,
  input  logic [47:0] mac_i,  // becomes the serial number, as hexadecimal digits
  output logic [31:0] data_o
);
  localparam logic [8*24-1:0] Model = "Straightway AoE disk    ";
  localparam logic [8*4-1:0]  Firmware = "1   ";

  logic [15:0] words [2];
  logic [8*12-1:0] serial;
  lba_t count;
  logic [27:0] limited;

  // Text is stored with the first of two characters in the upper byte.
  always_comb begin
    count = geometry_i.block_count;
    limited = (|count[47:28]) ? 28'hfff_ffff : count[27:0];
    for (int unsigned i = 0; i < 12; i++) begin
      logic [3:0] digit;
      digit = mac_i[4*i+:4];
      serial[8*i+:8] = (digit < 4'd10) ? 8'h30 + 8'(digit) : 8'h57 + 8'(digit);
    end
    for (int unsigned half = 0; half < 2; half++) begin
      int unsigned number;
      number = {24'd0, index_i, half[0]};
      words[half] = '0;
      if ((number >= 10) && (number < 16)) words[half] = serial[16*(15-number)+:16];
      else if ((number >= 16) && (number < 20)) words[half] = 16'h2020;
      else if ((number >= 23) && (number < 25)) words[half] = Firmware[16*(24-number)+:16];
      else if ((number >= 25) && (number < 27)) words[half] = 16'h2020;
      else if ((number >= 27) && (number < 39)) words[half] = Model[16*(38-number)+:16];
      else if ((number >= 39) && (number < 47)) words[half] = 16'h2020;
      else begin
        unique case (number)
          0:       words[half] = 16'h0040;
          49:      words[half] = 16'h0200;  // LBA
          60:      words[half] = limited[15:0];
          61:      words[half] = {4'd0, limited[27:16]};
          80:      words[half] = 16'h00f0;  // ATA/ATAPI-4 to 7
          82:      words[half] = {10'd0, geometry_i.volatile_write_cache, 5'd0};
          83:      words[half] = 16'h7400;  // both flushes, 48 bits
          84, 87:  words[half] = 16'h4000;
          85:      words[half] = {10'd0, geometry_i.volatile_write_cache, 5'd0};
          86:      words[half] = 16'h3400;
          100:     words[half] = count[15:0];
          101:     words[half] = count[31:16];
          102:     words[half] = count[47:32];
          default: ;
        endcase
      end
    end
    data_o = {words[1], words[0]};
  end
endmodule
