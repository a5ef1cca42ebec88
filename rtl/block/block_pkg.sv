// SPDX-License-Identifier: Apache-2.0 OR MIT
// The storage interface between all hardware modules: its types, and the check that a request is legal.
// docs/rtl-interfaces.md has the rules (named B1 to B14 there and in block_checker).
//
// An interface consists of four ports: `host_t` and the write data go from the host to the device,
// `dev_t` and the read data from the device to the host. The data's width is each module's parameter.
package block_pkg;
  // Of the interface: docs/rtl-interfaces.md, "Versions", says what each one changed. A host or a device that is not changed with it may compare.
  localparam int unsigned Version    = 1;

  localparam int unsigned TagWidth   = 5;
  localparam int unsigned LbaWidth   = 48;
  localparam int unsigned CountWidth = 24;
  localparam int unsigned NumTags    = 1 << TagWidth;

  typedef logic [TagWidth-1:0]   tag_t;
  typedef logic [LbaWidth-1:0]   lba_t;    // a logical block address
  typedef logic [CountWidth-1:0] count_t;  // a number of blocks

  typedef enum logic [2:0] {
    OpRead        = 3'd0,
    OpWrite       = 3'd1,
    OpFlush       = 3'd2,  // make each write that had completed before this request durable
    OpDiscard     = 3'd3,  // the blocks' contents are no longer needed
    OpWriteZeroes = 3'd4   // the blocks read as zeroes from now on; moves no data
  } op_e;

  typedef enum logic [3:0] {
    StatusOk          = 4'd0,
    StatusEmpty       = 4'd1,  // the count was zero
    StatusTooLarge    = 4'd2,  // longer than the device's largest transfer: split it
    StatusOutOfRange  = 4'd3,  // the range ends past the last block
    StatusUnsupported = 4'd4,  // the device cannot do this
    StatusReadOnly    = 4'd5,  // the device cannot be changed
    StatusDevice      = 4'd6,  // the device failed the request: `detail` is its own code
    StatusTimedOut    = 4'd7,  // ended by a deadline: whether it took effect is not known
    StatusAborted     = 4'd8,  // ended by another request's recovery: whether it took effect is not known
    StatusGone        = 4'd9   // the device no longer answers
  } status_e;

  typedef struct packed {
    op_e    op;
    logic   fua;    // force unit access: complete only when durable; writes only
    tag_t   tag;    // identifies the request; the host chooses it and must not reuse it before the response
    lba_t   lba;
    count_t count;  // in blocks; zero for a flush
  } req_t;

  // The tag and the end mark of each word of data.
  typedef struct packed {
    tag_t tag;
    logic last;  // the last word of this request
  } beat_t;

  typedef struct packed {
    tag_t        tag;
    status_e     status;
    logic [15:0] detail;  // the device's own error code; zero where status is StatusOk
  } rsp_t;

  typedef struct packed {
    logic  req_valid;
    req_t  req;
    logic  write_valid;
    beat_t write;
    logic  read_ready;
    logic  rsp_ready;
    logic  cancel;  // end all outstanding requests soon (B13)
  } host_t;

  typedef struct packed {
    logic  req_ready;
    logic  write_ready;
    logic  read_valid;
    beat_t read;
    logic  rsp_valid;
    rsp_t  rsp;
  } dev_t;

  // The device's properties: constant while `ready` (B14).
  typedef struct packed {
    logic   ready;                 // the other fields are valid
    logic [3:0] generation;        // changes each time that `ready` rises: the medium may be another one
    logic [4:0] block_size_log2;   // of a block's bytes
    lba_t   block_count;
    count_t max_transfer_blocks;   // the longest read or write
    logic   volatile_write_cache;  // completed writes need a flush to be durable
    logic   fua;
    logic   discard;
    logic   write_zeroes;
    logic   read_only;
  } geometry_t;

  // The status that follows from the request's range and operation alone; StatusOk if the request is legal.
  function automatic status_e check(req_t req, geometry_t geometry);
    logic ranged, changes;
    ranged  = req.op != OpFlush;
    changes = (req.op != OpRead) & (req.op != OpFlush);
    if (!geometry.ready) return StatusGone;
    if (changes && geometry.read_only) return StatusReadOnly;
    if ((req.fua && !geometry.fua) || ((req.op == OpDiscard) && !geometry.discard) ||
        ((req.op == OpWriteZeroes) && !geometry.write_zeroes) || (req.op > OpWriteZeroes)) begin
      return StatusUnsupported;
    end
    if (ranged && (req.count == '0)) return StatusEmpty;
    if (moves_data(req) && (req.count > geometry.max_transfer_blocks)) return StatusTooLarge;
    if (ranged && (({1'b0, req.lba} + (LbaWidth + 1)'(req.count)) > {1'b0, geometry.block_count})) begin
      return StatusOutOfRange;
    end
    return StatusOk;
  endfunction

  // Whether the request moves data.
  function automatic logic moves_data(req_t req);
    return ((req.op == OpRead) || (req.op == OpWrite)) && (req.count != '0);
  endfunction
endpackage
