// SPDX-License-Identifier: Apache-2.0 OR MIT
// A head node's port to a network: the initiators of several remote disks, each a block device. Their flits leave in turns, and what
// arrives goes to the initiator of its source.
//
// The disks are `FirstNumber` and the next ones: an AoE slot each, on shelf 0.
//
// Disks        remote disks at this port, a power of two, 2 or more
// Lanes        words in a flit
// The others   as in aoe_initiator
module system_head_port
  import block_pkg::*;
#(
  parameter int unsigned Disks       = 4,
  parameter int unsigned FirstNumber = 0,
  parameter int unsigned Lanes       = 8,
  parameter int unsigned Slots       = 8,
  parameter int unsigned SectorsLog2 = 1,
  parameter int unsigned Tries       = 6,
  parameter int unsigned TickLog2    = 12,
  parameter int unsigned RetryTicks  = 8,
  parameter int unsigned LifeTicks   = 512,
  localparam int unsigned NumberWidth = $clog2(Disks),
  localparam int unsigned FlitWidth   = 32 * Lanes + $clog2(Lanes) + 2
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,

  output geometry_t [Disks-1:0]  geometry_o,
  input  host_t [Disks-1:0]      host_i,
  input  logic [Disks-1:0][31:0] write_data_i,
  output dev_t [Disks-1:0]       dev_o,
  output logic [Disks-1:0][31:0] read_data_o,

  // The network. A disk's number is that at this port.
  output logic                   tx_valid_o,
  input  logic                   tx_ready_i,
  output logic [NumberWidth-1:0] tx_to_o,
  output logic [FlitWidth-1:0]   tx_flit_o,
  input  logic                   rx_valid_i,
  output logic                   rx_ready_o,   // a flit that comes without it is dropped
  input  logic [NumberWidth-1:0] rx_from_i,
  input  logic [FlitWidth-1:0]   rx_flit_i,

  // For counters, each one cycle long.
  output logic [Disks-1:0]       sent_o,       // a frame has left
  output logic [Disks-1:0]       again_o,      // a frame is sent again
  output logic [Disks-1:0]       dropped_o     // a flit was dropped
);
  // What the parameters must be.
  if ((Disks < 2) || ((Disks & (Disks - 1)) != 0)) begin : gen_bad_disks
    $error("Disks is %0d: a power of two from 2 on", Disks);
  end

  logic pack_valid [Disks], pack_ready [Disks];
  logic [NumberWidth-1:0] no_from [Disks];
  logic [FlitWidth-1:0]   pack_flit [Disks];
  logic [Disks-1:0]       unpack_ready;

  for (genvar disk = 0; disk < Disks; disk++) begin : gen_disk
    logic tx_valid, tx_ready, tx_last, rx_valid, rx_last, rx_bad;
    logic [31:0] tx_data, rx_data;

    aoe_initiator #(
      .Slots(Slots), .SectorsLog2(SectorsLog2), .Tries(Tries), .TickLog2(TickLog2), .RetryTicks(RetryTicks),
      .LifeTicks(LifeTicks), .LeastWords(aoe_pkg::HeaderWords)
    ) u_initiator (
      .clk_i, .rst_ni, .mac_i({40'h02_53_57_00_00, 8'(FirstNumber + disk)}), .shelf_i(16'd0), .slot_i(8'(FirstNumber + disk)),
      .geometry_o(geometry_o[disk]), .host_i(host_i[disk]), .write_data_i(write_data_i[disk]), .dev_o(dev_o[disk]),
      .read_data_o(read_data_o[disk]), .rx_valid_i(rx_valid), .rx_data_i(rx_data), .rx_last_i(rx_last), .rx_bad_i(rx_bad),
      .tx_valid_o(tx_valid), .tx_ready_i(tx_ready), .tx_data_o(tx_data), .tx_last_o(tx_last), .again_o(again_o[disk]),
      .damaged_o(), .lost_o()
    );
    assign sent_o[disk]  = tx_valid & tx_ready & tx_last;
    assign no_from[disk] = '0;

    system_pack #(.Lanes(Lanes)) u_pack (
      .clk_i, .rst_ni, .valid_i(tx_valid), .ready_o(tx_ready), .data_i(tx_data), .last_i(tx_last), .valid_o(pack_valid[disk]),
      .ready_i(pack_ready[disk]), .flit_o(pack_flit[disk])
    );
    system_unpack #(.Lanes(Lanes)) u_unpack (
      .clk_i, .rst_ni, .valid_i(rx_valid_i & (rx_from_i == NumberWidth'(disk))), .ready_o(unpack_ready[disk]), .flit_i(rx_flit_i),
      .valid_o(rx_valid), .data_o(rx_data), .last_o(rx_last), .bad_o(rx_bad), .dropped_o(dropped_o[disk])
    );
  end
  assign rx_ready_o = unpack_ready[rx_from_i];

  // A switch's way up; what comes down needs no queue of its own.
  logic [FlitWidth-1:0] no_flit;
  logic no_ready [Disks];
  assign no_flit  = '0;
  for (genvar disk = 0; disk < Disks; disk++) begin : gen_unused
    assign no_ready[disk] = 1'b0;
  end
  route_switch #(.Width(FlitWidth), .Ways(Disks), .Digits(1), .Level(0)) u_merge (
    .clk_i, .rst_ni, .up_valid_i(pack_valid), .up_ready_o(pack_ready), .up_from_i(no_from), .up_data_i(pack_flit),
    .up_valid_o(tx_valid_o), .up_ready_i(tx_ready_i), .up_from_o(tx_to_o), .up_data_o(tx_flit_o), .down_valid_i(1'b0),
    .down_ready_o(), .down_to_i('0), .down_data_i(no_flit), .down_valid_o(), .down_ready_i(no_ready), .down_to_o(), .down_data_o()
  );
endmodule
