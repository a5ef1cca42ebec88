// SPDX-License-Identifier: Apache-2.0 OR MIT
// CRC32C over words of `Width` bits, combinational. The caller has XORed the previous state into the low 32 bits of
// `data_i`; leading zero bytes have no effect. The same logic therefore processes a whole word, an eight-byte address, and
// a word without four of its bytes.
//
// Width  bits of a word, 32 or more
module hwfs_crc #(
  parameter int unsigned Width = 32
) (
  input  logic [Width-1:0] data_i,
  output logic [31:0]      crc_o
);
  // What the parameters must be.
  if (Width < 32) begin : gen_bad_width
    $error("Width is %0d: 32 or more", Width);
  end

  // Castagnoli's polynomial, reflected.
  localparam logic [31:0] Polynomial = 32'h82f63b78;

  // What each bit of the data adds to the result.
  typedef logic [31:0][Width-1:0] masks_t;
  function automatic masks_t masks();
    masks_t result;
    logic [31:0] effect;
    result = '0;
    for (int unsigned bit_index = 0; bit_index < Width; bit_index++) begin
      effect = 32'h1;
      for (int unsigned step = 0; step < Width - bit_index; step++) begin
        effect = (effect >> 1) ^ (effect[0] ? Polynomial : 32'h0);
      end
      for (int unsigned out = 0; out < 32; out++) result[out][bit_index] = effect[out];
    end
    return result;
  endfunction
  localparam masks_t Masks = masks();

  for (genvar out = 0; out < 32; out++) begin : gen_out
    assign crc_o[out] = ^(data_i & Masks[out]);
  end
endmodule
