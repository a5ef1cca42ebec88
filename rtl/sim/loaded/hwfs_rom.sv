// SPDX-License-Identifier: Apache-2.0 OR MIT
// The control store of a simulation that is built once and runs any microprogram. Replaces hwfs_rom.sv and has the same
// ports. `+microcode=FILE` names the image, which `microcode/assemble.py --image FILE` writes.
//
// ProgramLog2  log2 of the instructions
module hwfs_rom #(
  parameter int unsigned ProgramLog2 = 12
) (
  input  logic                   clk_i,
  input  logic                   read_i,
  input  logic [ProgramLog2-1:0] address_i,
  output logic [35:0]            instr_o
);
  logic [35:0] words [1 << ProgramLog2];
  string path;
  initial begin
    if (!$value$plusargs("microcode=%s", path)) $fatal(1, "hwfs_rom: +microcode=FILE names no microprogram");
    $readmemh(path, words);
  end

  always_ff @(posedge clk_i) if (read_i) instr_o <= words[address_i];
endmodule
