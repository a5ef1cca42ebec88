// SPDX-License-Identifier: Apache-2.0 OR MIT
// What a target does with a request, from its header alone: ignore it, answer it at once, or ask the device.
//
// Combinational. An answer has the request's argument, changed as `argument_o` says.
//
// SectorsLog2  log2 of the sectors in the longest frame
// Buffers      the requests that an initiator may have at the target
// Checksums    the target takes and answers frames with a CRC32C
module aoe_judge
  import aoe_pkg::*;
  import block_pkg::*;
#(
  parameter int unsigned SectorsLog2 = 1,
  parameter int unsigned Buffers     = 4,
  parameter bit          Checksums   = 1'b1
) (
  input  header_t     header_i,
  input  logic [47:0] mac_i,
  input  logic [15:0] shelf_i,
  input  logic [7:0]  slot_i,
  input  geometry_t   geometry_i,

  output logic        ignore_o,
  output logic        access_o,    // the device is asked: op_o, lba_o, count_o
  output logic        identify_o,  // the answer has a sector of its own
  output logic        check_o,     // a CRC32C is behind the data
  output op_e         op_o,
  output lba_t        lba_o,
  output logic [SectorsLog2:0] count_o,
  output logic        failed_o,    // of an answer at once
  output logic [7:0]  error_o,
  output logic [95:0] argument_o
);
  localparam logic [7:0]  Sectors = 8'(1 << SectorsLog2);
  localparam logic [31:0] Text    = Checksums ? CheckedText : 32'd0;
  localparam logic [15:0] Length  = Checksums ? 16'd4 : 16'd0;

  ata_t    ata;
  config_t query, reply;
  logic    ours, exact, known, is_ext, is_write, moves, in_size;
  logic [3:0] equal;  // the bytes of the request's string that are as in this target's

  assign ata   = ata_t'(header_i.argument);
  assign query = config_t'(header_i.argument);
  assign exact = (header_i.to == mac_i) & (header_i.shelf == shelf_i) & (header_i.slot == slot_i);
  // Only a query may be broadcast: who asks all targets must not change them.
  assign ours  = (header_i.ether_type == EtherType) & ~header_i.response &
                 (exact | ((header_i.command == CommandConfig) & ((header_i.to == mac_i) | (header_i.to == Broadcast)) &
                           ((header_i.shelf == shelf_i) | (header_i.shelf == AnyShelf)) &
                           ((header_i.slot == slot_i) | (header_i.slot == AnySlot))));

  assign known    = header_i.version == AoeVersion;
  assign check_o  = Checksums & known & (header_i.command == CommandAta) & (ata.check == Checked);
  assign is_ext   = (ata.command == AtaReadExt) | (ata.command == AtaWriteExt);
  assign is_write = (ata.command == AtaWrite) | (ata.command == AtaWriteExt);
  assign moves    = is_write | (ata.command == AtaRead) | (ata.command == AtaReadExt);
  assign in_size  = (ata.count != 8'd0) & (ata.count <= Sectors);

  always_comb begin
    for (int unsigned i = 0; i < 4; i++) equal[i] = query.text[8*(3-i)+:8] == Text[8*(3-i)+:8];
  end

  assign op_o    = is_write ? OpWrite : moves ? OpRead : OpFlush;
  assign count_o = (moves & in_size) ? (SectorsLog2 + 1)'(ata.count) : '0;
  assign lba_o   = !moves ? '0 : is_ext ? reversed(ata.lba) : reversed(ata.lba) & 48'h0fff_ffff;

  always_comb begin
    ignore_o   = ~ours;
    access_o   = 1'b0;
    identify_o = 1'b0;
    failed_o   = 1'b0;
    error_o    = '0;
    argument_o = header_i.argument;
    reply      = '{buffers: 16'(Buffers), firmware: 16'd1, sectors: Sectors, version: AoeVersion, command: query.command,
                   length: Length, text: Text};
    if (!known) begin
      error_o = ErrorVersion;
    end else if (header_i.command == CommandConfig) begin
      argument_o = reply;
      // Without its device the target is not there.
      if (!geometry_i.ready) ignore_o = 1'b1;
      unique case (query.command)
        ConfigRead: ;
        ConfigTest:  if ((query.length != Length) || ((equal != '1) && Checksums)) ignore_o = 1'b1;
        ConfigBegin: begin
          if (query.length > Length) ignore_o = 1'b1;
          for (int unsigned i = 0; i < 4; i++) if ((16'(i) < query.length) && !equal[i]) ignore_o = 1'b1;
        end
        ConfigSet:   error_o = Checksums ? ErrorConfigured : ErrorArgument;
        default:     error_o = ErrorArgument;
      endcase
    end else if (header_i.command == CommandAta) begin
      // A field that is neither is a damaged one.
      if ((ata.check != '0) && !check_o) ignore_o = 1'b1;
      if (!geometry_i.ready) begin
        error_o = ErrorUnavailable;
      end else if (moves) begin
        access_o = (ata.flags.extended == is_ext) & (ata.flags.write == is_write) & in_size;
        if (!access_o) error_o = ErrorArgument;
      end else if (ata.command == AtaIdentify) begin
        identify_o = ~ata.flags.write;
        if (ata.flags.write) error_o = ErrorArgument;
      end else if ((ata.command == AtaFlush) || (ata.command == AtaFlushExt)) begin
        access_o = ~ata.flags.write;
        if (ata.flags.write) error_o = ErrorArgument;
      end else begin
        // The protocol carries it, but the disk does not know the command.
        argument_o = answered(ata, AtaError, AtaAbort);
      end
      if (identify_o) argument_o = answered(ata, AtaReady, 8'd0);
    end else begin
      error_o = ErrorCommand;
    end
    failed_o = error_o != '0;
    if (ignore_o) {access_o, identify_o} = '0;
  end

  function automatic ata_t answered(ata_t request, logic [7:0] status, logic [7:0] error);
    ata_t answer;
    answer         = request;
    answer.command = status;
    answer.feature = error;
    return answer;
  endfunction
endmodule
