// SPDX-License-Identifier: Apache-2.0 OR MIT
// The file system core on Serial ATA drives, on pins: the bench acts as the application and the drives. Every block
// interface is checked, on both sides of the clock crossings.
module hwfs_sata_sim
  import block_pkg::*;
  import hwfs_pkg::*;
#(
  parameter int unsigned Disks              = 1,
  parameter bit          Mirror             = 1'b0,
  parameter int unsigned Slots              = 0,
  parameter int unsigned SlotBlocks         = 8,
  parameter int unsigned StripeBlocks       = 32768,
  parameter int unsigned WriteSlots         = 2,
  parameter int unsigned WriteWords         = 4096,
  parameter bit          Ncq                = 1'b1,
  parameter int unsigned DriveTimeoutCycles = 20000,
  parameter int unsigned NodeLog2Max        = 9,
  parameter int unsigned TimeoutCycles      = 200000
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic drive_clk_i,
  output logic ready,
  output logic idle,
  input  logic [7:0] enable,
  input  logic resync,
  output logic [7:0] failed,

  `HWFS_APP_PINS(32),

  input  logic        up [Disks],
  output logic        reset [Disks],
  input  logic        rx_bad [Disks],
  input  logic        rx_k [Disks],
  input  logic [31:0] rx_data [Disks],
  output logic        tx_k [Disks],
  output logic [31:0] tx_data [Disks]
);
  geometry_t geometry;
  fs_rsp_t   rsp;
  logic [Disks-1:0] links_up, resets, failed_drives;
  sata_pkg::rx_word_t [Disks-1:0] rx;
  sata_pkg::word_t [Disks-1:0] tx;

  assign ready         = geometry.ready;
  assign failed        = 8'(failed_drives);
  assign answer_status = rsp.status;
  assign answer_value  = rsp.value;

  hwfs_sata #(
    .Disks(Disks), .Mirror(Mirror), .Slots(Slots), .SlotBlocks(SlotBlocks), .StripeBlocks(StripeBlocks),
    .WriteSlots(WriteSlots), .WriteWords(WriteWords), .Ncq(Ncq), .DriveKhz(1),
    .SignatureMs(DriveTimeoutCycles), .FlushMs(DriveTimeoutCycles), .DataMs(DriveTimeoutCycles), .NodeLog2Max(NodeLog2Max),
    .ClockKhz(1), .TimeoutMs(TimeoutCycles)
  ) u_core (
    .clk_i,
    .rst_ni,
    .cmd_valid_i   (cmd_valid),
    .cmd_ready_o   (cmd_ready),
    .cmd_i         (`HWFS_APP_COMMAND),
    .name_valid_i  (name_valid),
    .name_ready_o  (name_ready),
    .name_data_i   (name_data),
    .rsp_valid_o   (answer_valid),
    .rsp_ready_i   (answer_ready),
    .rsp_o         (rsp),
    .write_valid_i (give_valid),
    .write_ready_o (give_ready),
    .write_data_i  (give_data),
    .read_valid_o  (take_valid),
    .read_ready_i  (take_ready),
    .read_data_o   (take_data),
    .read_keep_o   (take_keep),
    .read_last_o   (take_last),
    .geometry_o    (geometry),
    .enable_i      (enable[Disks-1:0]),
    .resync_i      (resync),
    .failed_o      (failed_drives),
    .drive_clk_i   ({Disks{drive_clk_i}}),
    .drive_rst_ni  ({Disks{rst_ni}}),
    .up_i          (links_up),
    .reset_o       (resets),
    .rx_i          (rx),
    .tx_o          (tx)
  );

  block_checker #(.DataWidth(32), .BlockSizeLog2(9), .TimeoutCycles(TimeoutCycles)) u_check (
    .clk_i, .rst_ni, .geometry_i(geometry), .host_i(u_core.host), .write_data_i(u_core.write_data),
    .dev_i(u_core.dev), .read_data_i(u_core.read_data), .idle_o(idle)
  );

  for (genvar i = 0; i < Disks; i++) begin : gen_drive
    assign links_up[i] = up[i];
    assign reset[i]    = resets[i];
    assign rx[i]       = '{bad: rx_bad[i], word: '{k: rx_k[i], data: rx_data[i]}};
    assign {tx_k[i], tx_data[i]} = {tx[i].k, tx[i].data};

    block_checker #(
      .DataWidth(32), .BlockSizeLog2(9), .TimeoutCycles(2 * DriveTimeoutCycles + 5000)
    ) u_check (
      .clk_i(drive_clk_i), .rst_ni, .geometry_i(u_core.drive_geometry[i]), .host_i(u_core.drive_host[i]),
      .write_data_i(u_core.drive_write[i]), .dev_i(u_core.drive_dev[i]), .read_data_i(u_core.drive_read[i]),
      .idle_o()
    );
  end
endmodule
