// SPDX-License-Identifier: Apache-2.0 OR MIT
// Takes the place of rtl/sim/ramdisks.sv: a RAM disk that is remote, over links. Its blocks are sectors; the model's delays are not used.
module ramdisks
  import block_pkg::*;
#(
  parameter int unsigned Disks           = 1,
  parameter bit          Mirror          = 1'b0,
  parameter int unsigned UpWidth         = 32,
  parameter int unsigned DiskWidth       = 32,
  parameter int unsigned BlockSizeLog2   = 9,
  parameter int unsigned StripeBlocks    = 8,
  parameter int unsigned SlotBlocks      = StripeBlocks,
  parameter int unsigned Slots           = 4,
  parameter int unsigned WritePlaces     = 4,
  parameter int unsigned WriteSlots      = 2,
  parameter int unsigned DiskBlocks      = 16384,
  parameter int unsigned ReadLatency     = 0,
  parameter int unsigned ReadRateWords   = 1,
  parameter int unsigned ReadRateCycles  = 1,
  parameter int unsigned WriteLatency    = 0,
  parameter int unsigned WriteRateWords  = 1,
  parameter int unsigned WriteRateCycles = 1
) (
  input  logic               clk_i,
  input  logic               rst_ni,
  output geometry_t          geometry_o,
  input  host_t              host_i,
  input  logic [UpWidth-1:0] write_data_i,
  output dev_t               dev_o,
  output logic [UpWidth-1:0] read_data_o,
  input  logic [Disks-1:0]   fault_i,
  input  logic [47:0]        fault_address_i,
  output logic [Disks-1:0]   failed_o
);
  assign failed_o = '0;
  // The line carries nothing while the disk is to fail.
  aoe_remote #(.DiskBlocks(DiskBlocks), .Linked(1)) u_remote (
    .clk_i, .rst_ni, .number_i(8'd0), .cut_i(fault_i[0]), .again_o(), .sent_o(), .geometry_o, .host_i, .write_data_i, .dev_o,
    .read_data_o
  );
endmodule
