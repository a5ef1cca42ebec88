// SPDX-License-Identifier: Apache-2.0 OR MIT
// Frames of ATA over Ethernet (AoE, version 1): the header that requests and answers share, and its arguments.
//
// A frame is a stream of 32-bit words, the byte that is first on the line in the lowest bits. Ethernet, AoE and ATA headers are 36
// bytes, so the data begin with a word. The structures have the first byte in their highest bits, as the fields are big-endian.
package aoe_pkg;
  localparam int unsigned HeaderWords = 9;
  localparam int unsigned PaddedWords = 15;  // Ethernet's shortest frame, without its check sequence
  localparam int unsigned SectorWords = 128;
  localparam int unsigned CheckFrom   = 3;   // the first word under the checksum: from the EtherType on

  localparam logic [15:0] EtherType = 16'h88a2;
  localparam logic [3:0]  AoeVersion = 4'd1;
  localparam logic [47:0] Broadcast = '1;
  localparam logic [15:0] AnyShelf  = '1;
  localparam logic [7:0]  AnySlot   = '1;

  localparam logic [7:0] CommandAta    = 8'd0;
  localparam logic [7:0] CommandConfig = 8'd1;

  // Error, with the flag `failed`.
  localparam logic [7:0] ErrorCommand     = 8'd1;  // unknown command
  localparam logic [7:0] ErrorArgument    = 8'd2;  // bad argument
  localparam logic [7:0] ErrorUnavailable = 8'd3;  // the device cannot take ATA commands
  localparam logic [7:0] ErrorConfigured  = 8'd4;  // there is a configuration string already
  localparam logic [7:0] ErrorVersion     = 8'd5;  // unsupported version

  // The reserved field of an ATA argument, if a CRC32C follows the data; zero in frames of and to others.
  localparam logic [15:0] Checked = 16'hc32c;
  // The configuration string of a target that answers such frames: "SWC1".
  localparam logic [31:0] CheckedText = 32'h5357_4331;

  localparam logic [7:0] AtaRead     = 8'h20;
  localparam logic [7:0] AtaReadExt  = 8'h24;
  localparam logic [7:0] AtaWrite    = 8'h30;
  localparam logic [7:0] AtaWriteExt = 8'h34;
  localparam logic [7:0] AtaFlush    = 8'he7;
  localparam logic [7:0] AtaFlushExt = 8'hea;
  localparam logic [7:0] AtaIdentify = 8'hec;

  // Status and error of ATA.
  localparam logic [7:0] AtaReady  = 8'h40;  // DRDY
  localparam logic [7:0] AtaError  = 8'h41;  // DRDY, ERR
  localparam logic [7:0] AtaFault  = 8'h61;  // DRDY, DF, ERR
  localparam logic [7:0] AtaFailed = 8'h21;  // either of them
  localparam logic [7:0] AtaAbort  = 8'h04;  // ABRT
  localparam logic [7:0] AtaNoId   = 8'h10;  // IDNF
  localparam logic [7:0] AtaUnread = 8'h40;  // UNC

  typedef struct packed {
    logic       zero7;
    logic       extended;  // 48 bits of address
    logic       zero5;
    logic       head;      // the device/head register's bit; ignored
    logic [1:0] zero32;
    logic       async;     // the write may be acknowledged early; ignored
    logic       write;
  } ata_flags_t;

  typedef struct packed {
    ata_flags_t  flags;
    logic [7:0]  feature;  // error, in an answer
    logic [7:0]  count;
    logic [7:0]  command;  // status, in an answer
    logic [47:0] lba;      // the lowest byte first
    logic [15:0] check;    // `Checked` or zero
  } ata_t;

  typedef struct packed {
    logic [15:0] buffers;
    logic [15:0] firmware;
    logic [7:0]  sectors;
    logic [3:0]  version;
    logic [3:0]  command;
    logic [15:0] length;
    logic [31:0] text;  // the first four bytes of the string
  } config_t;

  localparam logic [3:0] ConfigRead  = 4'd0;
  localparam logic [3:0] ConfigTest  = 4'd1;  // answered if the string is the same
  localparam logic [3:0] ConfigBegin = 4'd2;  // answered if the string begins so
  localparam logic [3:0] ConfigSet   = 4'd3;

  typedef struct packed {
    logic [47:0] to;
    logic [47:0] from;
    logic [15:0] ether_type;
    logic [3:0]  version;
    logic        response;
    logic        failed;
    logic [1:0]  zero;
    logic [7:0]  error;
    logic [15:0] shelf;
    logic [7:0]  slot;
    logic [7:0]  command;
    logic [31:0] tag;
    logic [95:0] argument;  // ata_t or config_t
  } header_t;

  typedef logic [HeaderWords-1:0][31:0] words_t;

  function automatic words_t to_words(header_t header);
    logic [287:0] bits;
    words_t words;
    bits = header;
    for (int unsigned i = 0; i < 36; i++) words[i/4][8*(i%4)+:8] = bits[8*(35-i)+:8];
    return words;
  endfunction

  function automatic header_t from_words(words_t words);
    logic [287:0] bits;
    for (int unsigned i = 0; i < 36; i++) bits[8*(35-i)+:8] = words[i/4][8*(i%4)+:8];
    return header_t'(bits);
  endfunction

  // An address of blocks and its six bytes in a frame; its own inverse.
  function automatic logic [47:0] reversed(logic [47:0] lba);
    logic [47:0] bytes;
    for (int unsigned i = 0; i < 6; i++) bytes[8*i+:8] = lba[8*(5-i)+:8];
    return bytes;
  endfunction
endpackage
