// SPDX-License-Identifier: Apache-2.0 OR MIT
// The types of the virtio-blk device. "Section" in this core's comments is a section of the virtio specification 1.2.
package virtio_pkg;
  import axi_pkg::address_t;
  localparam int unsigned WordsWidth = 24;
  localparam int unsigned BytesWidth = 27;
  typedef logic [axi_pkg::AddressWidth:0] reach_t;  // top bit: beyond the port's address range
  typedef logic [WordsWidth-1:0] words_t;
  typedef logic [BytesWidth-1:0] bytes_t;           // of a chain; longer ones are refused (2^26 and more)

  // Feature bits (section 6 and 5.2.3).
  localparam int unsigned FeatureSizeMax = 1, FeatureSegMax = 2, FeatureReadOnly = 5, FeatureBlockSize = 6,
                          FeatureFlush = 9, FeatureQueues = 12, FeatureDiscard = 13, FeatureWriteZeroes = 14,
                          FeatureIndirect = 28, FeatureEventIndex = 29, FeatureVersion1 = 32, FeatureAccess = 33,
                          FeatureOrder = 36;

  // Request types and status (section 5.2.6).
  localparam logic [31:0] TypeIn = 32'd0, TypeOut = 32'd1, TypeFlush = 32'd4, TypeGetId = 32'd8,
                          TypeDiscard = 32'd11, TypeWriteZeroes = 32'd13;
  typedef enum logic [7:0] {BlkOk = 8'd0, BlkIoError = 8'd1, BlkUnsupported = 8'd2} blk_status_e;

  // Reads or writes a run of words in the guest's memory: `valid` until `ready`, then the words, then `done`.
  // An idle module drives zeroes, so that requests of modules that never overlap can be merged by OR.
  typedef struct packed {
    logic        valid;
    logic        write;
    reach_t      address;  // of the first word; the two lowest bits are zero
    words_t      words;    // 1 or more
    logic [3:0]  strobe;   // a write's bytes: all, unless it is one word
    logic        w_valid;
    logic [31:0] w_data;
    logic        r_ready;
  } mem_req_t;

  typedef struct packed {
    logic        ready;
    logic        w_ready;
    logic        r_valid;
    logic [31:0] r_data;
    logic        done;
    logic        error;  // with `done`: a word was not read or not written
  } mem_rsp_t;

  // The driver's configuration of a queue.
  typedef struct packed {
    logic [9:0] mask;    // entries, a power of two, minus one
    address_t   desc;    // descriptor table
    address_t   driver;  // available ring
    address_t   device;  // used ring
  } queue_t;

  // Why a parked request is resumed.
  typedef enum logic [1:0] {
    ResumeOffer,    // it can issue its next request to the disk
    ResumeWrite,    // the disk accepted its write and takes the data
    ResumeRead,     // the disk has data for its read
    ResumeResponse  // the disk has responded
  } resume_e;

  // The accepted features that change the device's behaviour.
  typedef struct packed {
    logic flush;
    logic indirect;
    logic event_index;
  } features_t;

  // A descriptor chain after the walk. Its segments are in the segment memory, readable ones first.
  typedef struct packed {
    bytes_t      readable;
    bytes_t      writable;
    logic        too_long;   // one of the two totals does not fit
    logic [15:0] first_writable;  // the first writable segment
    address_t    last_byte;  // of the writable part: the status
  } chain_t;
endpackage
