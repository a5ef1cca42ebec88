// SPDX-License-Identifier: Apache-2.0 OR MIT
// The device's registers: virtio over MMIO, version 2 (section 4.2.2), and the block device's configuration
// (section 5.2.4), behind AXI4-Lite.
//
// Holds the status, the accepted features, the queues' configuration and the interrupt. A write that the specification
// does not allow (a queue in use, features after FEATURES_OK, less than a word) is ignored. An invalid ring (a size that
// is not a power of two, an address that is not aligned or beyond the port's range) sets DEVICE_NEEDS_RESET.
//
// A reset is complete when the write of 0 to Status is answered: all registers have their first values from the next cycle
// on, and the answer waits until memory is no longer accessed (`quiet_i`), because drivers that do not read Status until it is 0
// free or reuse their memory then. `reset_o` stays high until the disk's requests have ended, too (`idle_i`). Meanwhile
// registers can be written as at any other time; the queues are served afterwards.
//
// Queues, QueueSize  queues, and the largest size of each, a power of two
// Platform           offer VIRTIO_F_ACCESS_PLATFORM and VIRTIO_F_ORDER_PLATFORM, as a device on a bus should
// BlockSizeLog2      log2 of a block's bytes
module virtio_regs
  import virtio_pkg::*;
  import block_pkg::geometry_t;
#(
  parameter int unsigned Queues        = 1,
  parameter int unsigned QueueSize     = 128,
  parameter bit          Platform      = 1'b1,
  parameter int unsigned BlockSizeLog2 = 9,
  localparam int unsigned QueueWidth   = (Queues > 1) ? $clog2(Queues) : 1
) (
  input  logic                  clk_i,
  input  logic                  rst_ni,
  input  axil_pkg::manager_t    axil_i,
  output axil_pkg::subordinate_t axil_o,
  output logic                  irq_o,
  input  geometry_t             geometry_i,

  output logic                  reset_o,
  input  logic                  quiet_i,     // memory is not accessed
  input  logic                  idle_i,      // nothing is under way
  input  logic [Queues-1:0]     busy_i,      // a chain of this queue is in flight
  output logic                  run_o,
  output features_t             features_o,
  output logic [Queues-1:0]     ready_o,
  output logic [Queues-1:0]     begin_o,
  output logic [Queues-1:0]     kick_o,
  input  logic [QueueWidth-1:0] queue_i,     // the queue that is served
  output queue_t                queue_o,     // its configuration
  input  logic                  used_i,
  input  logic                  broken_i
);
  import axi_pkg::address_t;
  typedef logic [QueueWidth-1:0] queue_index_t;
  typedef enum logic [6:0] {  // byte address divided by 4
    RegMagic = 7'h00, RegVersion = 7'h01, RegDevice = 7'h02, RegVendor = 7'h03, RegDeviceFeatures = 7'h04,
    RegDeviceFeaturesSel = 7'h05, RegDriverFeatures = 7'h08, RegDriverFeaturesSel = 7'h09, RegQueueSel = 7'h0c,
    RegQueueNumMax = 7'h0d, RegQueueNum = 7'h0e, RegQueueReady = 7'h11, RegQueueNotify = 7'h14,
    RegInterruptStatus = 7'h18, RegInterruptAck = 7'h19, RegStatus = 7'h1c, RegDescLow = 7'h20, RegDescHigh = 7'h21,
    RegDriverLow = 7'h24, RegDriverHigh = 7'h25, RegDeviceLow = 7'h28, RegDeviceHigh = 7'h29,
    RegShmLengthLow = 7'h2c, RegShmLengthHigh = 7'h2d, RegGeneration = 7'h3f
  } reg_e;
  localparam int unsigned StatusDriver = 1, StatusDriverOk = 2, StatusFeaturesOk = 3, StatusNeedsReset = 6;
  localparam logic [31:0] Magic = 32'h7472_6976, Vendor = 32'h4157_5453;  // "virt", "STWA"

  // --- Features and configuration ------------------------------------------------------------------
  localparam int unsigned Finer   = (BlockSizeLog2 < 9) ? 9 - BlockSizeLog2 : 0;
  localparam int unsigned Coarser = (BlockSizeLog2 > 9) ? BlockSizeLog2 - 9 : 0;
  // A range's count of blocks has 24 bits; a chain's data are shorter than 2^26 bytes.
  localparam logic [31:0] RangeSectors = 32'((64'((1 << block_pkg::CountWidth) - 1) << Coarser) >> Finer);
  localparam logic [31:0] SegmentMax = 32'(QueueSize - 2), SizeMax = 32'((1 << (BytesWidth - 1)) / QueueSize);
  localparam logic [31:0] RangesMax = 32'd8;

  logic [7:0]   status_q, status_d;

  // What follows the disk is offered as it was when the driver began (section 2.2: features are negotiated once for each
  // reset), because the driver reads the features, and writes those that it accepts, one after the other.
  typedef struct packed {
    logic read_only, flush, discard, write_zeroes;
  } variable_t;
  variable_t variable_now, variable_q, variable;
  // A disk that is not ready yet may have a cache.
  assign variable_now = geometry_i.ready ? '{read_only: geometry_i.read_only, flush: geometry_i.volatile_write_cache,
                                             discard: geometry_i.discard, write_zeroes: geometry_i.write_zeroes}
                                         : '{flush: 1'b1, default: 1'b0};
  assign variable     = (status_q == '0) ? variable_now : variable_q;

  logic [63:0] offered, capacity;
  always_comb begin
    offered                     = '0;
    offered[FeatureSizeMax]     = 1'b1;
    offered[FeatureSegMax]      = 1'b1;
    offered[FeatureReadOnly]    = variable.read_only;
    offered[FeatureBlockSize]   = 1'b1;
    offered[FeatureFlush]       = variable.flush;
    offered[FeatureQueues]      = Queues > 1;
    offered[FeatureDiscard]     = variable.discard;
    offered[FeatureWriteZeroes] = variable.write_zeroes;
    offered[FeatureIndirect]    = 1'b1;
    offered[FeatureEventIndex]  = 1'b1;
    offered[FeatureVersion1]    = 1'b1;
    offered[FeatureAccess]      = Platform;
    offered[FeatureOrder]       = Platform;
  end
  assign capacity = geometry_i.ready ? (64'(geometry_i.block_count) << Coarser) >> Finer : '0;

  // --- State ---------------------------------------------------------------------------------------
  logic         reset_q, reset_d, wait_q, wait_d;  // wait: a reset is not answered yet
  logic [1:0]   features_sel_q, features_sel_d, driver_sel_q, driver_sel_d, irq_q, irq_d;  // *_sel: 2 or 3 beyond word 1
  logic [2:0]   excess_q, excess_d;  // the driver accepted a bit of this word that is not offered
  logic         version_q, version_d;
  features_t    features_q, features_d;
  logic [15:0]  sel_q, sel_d;
  logic [Queues-1:0] ready_q, ready_d, sized_q, sized_d;
  queue_t       queues_q [Queues];
  queue_t       setup_d;
  logic         setup, clear, b_valid_q, b_valid_d, r_valid_q, r_valid_d, broken_q, failed;
  logic [31:0]  r_data_q, r_data_d;
  logic [4:0]   generation_q;

  logic         sel_there, sel_busy, sel_ready;
  queue_index_t sel;
  assign sel       = queue_index_t'(sel_q);
  assign sel_there = 32'(sel_q) < Queues;
  // A queue that was stopped is in use until its chains are returned.
  assign sel_busy  = busy_i[sel] & ~reset_q;
  assign sel_ready = sel_there & (ready_q[sel] | sel_busy);

  assign reset_o    = reset_q;
  assign run_o      = status_q[StatusDriverOk] & ~status_q[StatusNeedsReset] & ~reset_q;
  assign features_o = features_q;
  assign ready_o    = ready_q;
  assign queue_o    = queues_q[queue_i];
  assign irq_o      = irq_q != '0;

  // --- Writes --------------------------------------------------------------------------------------
  // A write is taken in one cycle and has its effect, and its answer, in the next.
  logic write_q, take, strobed_q;
  logic [11:0] address_q;
  logic [31:0] data_q;
  logic        data_is_power;
  assign take            = axil_i.aw_valid & axil_i.w_valid & ~b_valid_q & ~wait_q & ~write_q;
  assign axil_o.aw_ready = take;
  assign axil_o.w_ready  = take;
  assign axil_o.b_valid  = b_valid_q;
  assign axil_o.b_resp   = axi_pkg::RespOkay;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) write_q <= 1'b0;
    else         write_q <= take;
  end
  always_ff @(posedge clk_i) begin
    if (take) begin
      address_q <= axil_i.aw_address;
      data_q    <= axil_i.w_data;
      strobed_q <= axil_i.w_strobe == '1;
    end
  end
  always_comb begin
    data_is_power = 1'b0;
    for (int unsigned i = 0; i <= $clog2(QueueSize); i++) data_is_power |= data_q == 32'(1 << i);
  end

  function automatic logic [31:0] offered_word(logic [1:0] which);
    return which[1] ? '0 : which[0] ? offered[63:32] : offered[31:0];
  endfunction
  logic [31:0] unoffered;
  assign unoffered = data_q & ~offered_word(driver_sel_q);

  always_comb begin
    status_d       = status_q;
    reset_d        = reset_q & ~idle_i;
    wait_d         = wait_q & ~quiet_i;
    features_sel_d = features_sel_q;
    driver_sel_d   = driver_sel_q;
    excess_d       = excess_q;
    version_d      = version_q;
    features_d     = features_q;
    sel_d          = sel_q;
    ready_d        = ready_q;
    sized_d        = sized_q;
    setup_d        = queues_q[sel];
    setup          = 1'b0;
    begin_o        = '0;
    kick_o         = '0;
    irq_d          = irq_q;
    failed         = broken_i & ~broken_q & ~reset_q;
    clear          = 1'b0;

    if (write_q && strobed_q && (address_q[11:8] == '0)) begin
      unique case ({1'b0, address_q[7:2]})
        // Words other than 0 and 1 have no features.
        RegDeviceFeaturesSel: features_sel_d = {data_q[31:1] != '0, data_q[0]};
        RegDriverFeaturesSel: driver_sel_d = {data_q[31:1] != '0, data_q[0]};
        RegDriverFeatures: if (status_q[StatusDriver] && !status_q[StatusFeaturesOk]) begin
          excess_d[driver_sel_q[1] ? 2 : 32'(driver_sel_q[0])] = unoffered != '0;
          if (driver_sel_q == 2'd0) begin
            features_d = '{flush: data_q[FeatureFlush], indirect: data_q[FeatureIndirect],
                           event_index: data_q[FeatureEventIndex]};
          end
          if (driver_sel_q == 2'd1) version_d = data_q[FeatureVersion1-32];
        end
        RegQueueSel: sel_d = (data_q[31:16] != '0) ? '1 : data_q[15:0];
        RegQueueNotify: begin
          for (int unsigned i = 0; i < Queues; i++) kick_o[i] = data_q == 32'(i);
        end
        RegInterruptAck: irq_d = irq_q & ~data_q[1:0];
        RegStatus: begin
          if (data_q[7:0] == '0) clear = 1'b1;
          else begin
            status_d = status_q | (data_q[7:0] & 8'h83);
            if (data_q[StatusFeaturesOk] && status_d[StatusDriver] && version_q && (excess_q == '0)) begin
              status_d[StatusFeaturesOk] = 1'b1;
            end
            if (data_q[StatusDriverOk] && status_d[StatusFeaturesOk]) status_d[StatusDriverOk] = 1'b1;
          end
        end
        RegQueueReady: if (sel_there) begin
          if (!data_q[0]) ready_d[sel] = 1'b0;
          else if (!sel_ready && status_q[StatusFeaturesOk]) begin
            ready_d[sel] = sized_q[sel];
            begin_o[sel] = 1'b1;
            failed      |= ~sized_q[sel];
          end
        end
        default: if (sel_there && !sel_ready && status_q[StatusFeaturesOk]) begin
          setup = 1'b1;
          unique case ({1'b0, address_q[7:2]})
            RegQueueNum: begin
              setup_d.mask  = data_q[9:0] - 10'd1;
              sized_d[sel]  = data_is_power;
              failed       |= ~data_is_power;
            end
            RegDescLow: begin
              setup_d.desc[31:0] = {data_q[31:4], 4'd0};
              failed            |= data_q[3:0] != '0;
            end
            RegDescHigh: begin
              setup_d.desc[axi_pkg::AddressWidth-1:32] = data_q[15:0];
              failed |= data_q[31:16] != '0;
            end
            RegDriverLow: begin
              setup_d.driver[31:0] = {data_q[31:1], 1'b0};
              failed              |= data_q[0];
            end
            RegDriverHigh: begin
              setup_d.driver[axi_pkg::AddressWidth-1:32] = data_q[15:0];
              failed |= data_q[31:16] != '0;
            end
            RegDeviceLow: begin
              setup_d.device[31:0] = {data_q[31:2], 2'd0};
              failed              |= data_q[1:0] != '0;
            end
            RegDeviceHigh: begin
              setup_d.device[axi_pkg::AddressWidth-1:32] = data_q[15:0];
              failed |= data_q[31:16] != '0;
            end
            default: setup = 1'b0;
          endcase
        end
      endcase
    end

    if (used_i && !reset_q) irq_d[0] = 1'b1;
    if (failed) status_d[StatusNeedsReset] = 1'b1;
    if (status_q[StatusDriverOk] && (failed || (generation_q != {geometry_i.generation, geometry_i.ready}))) irq_d[1] = 1'b1;
    if (clear) begin
      status_d       = '0;
      reset_d        = 1'b1;
      wait_d         = 1'b1;
      features_sel_d = '0;
      driver_sel_d   = '0;
      excess_d       = '0;
      version_d      = 1'b0;
      features_d     = '0;
      ready_d        = '0;
      sized_d        = '0;
      irq_d          = '0;
    end
    b_valid_d = (b_valid_q & ~axil_i.b_ready) | (write_q & ~clear) | (wait_q & quiet_i);
  end

  // --- Reads ---------------------------------------------------------------------------------------
  logic read;
  assign read            = axil_i.ar_valid & ~r_valid_q;
  assign axil_o.ar_ready = read;
  assign axil_o.r_valid  = r_valid_q;
  assign axil_o.r_data   = r_data_q;
  assign axil_o.r_resp   = axi_pkg::RespOkay;

  always_comb begin
    r_valid_d = (r_valid_q & ~axil_i.r_ready) | read;
    r_data_d  = '0;
    unique case (axil_i.ar_address[11:8])
      4'h0: unique case ({1'b0, axil_i.ar_address[7:2]})
        RegMagic:           r_data_d = Magic;
        RegVersion:         r_data_d = 32'd2;
        RegDevice:          r_data_d = 32'd2;
        RegVendor:          r_data_d = Vendor;
        RegDeviceFeatures:  r_data_d = offered_word(features_sel_q);
        RegQueueNumMax:     r_data_d = sel_there ? 32'(QueueSize) : '0;
        RegQueueReady:      r_data_d = 32'(sel_ready);
        RegInterruptStatus: r_data_d = 32'(irq_q);
        RegStatus:          r_data_d = 32'(status_q);
        RegShmLengthLow, RegShmLengthHigh: r_data_d = '1;  // no shared memory regions
        RegGeneration:      r_data_d = 32'(generation_q);
        default:            r_data_d = '0;
      endcase
      4'h1: unique case (axil_i.ar_address[7:2])
        6'd0:  r_data_d = capacity[31:0];
        6'd1:  r_data_d = capacity[63:32];
        6'd2:  r_data_d = SizeMax;
        6'd3:  r_data_d = SegmentMax;
        6'd5:  r_data_d = 32'd512 << Coarser;
        6'd8:  r_data_d = 32'(Queues) << 16;
        6'd9:  r_data_d = RangeSectors;
        6'd10: r_data_d = RangesMax;
        6'd11: r_data_d = 32'd1 << Coarser;
        6'd12: r_data_d = RangeSectors;
        6'd13: r_data_d = RangesMax;
        default: r_data_d = '0;
      endcase
      default: r_data_d = '0;
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      status_q       <= '0;
      reset_q        <= 1'b0;
      wait_q         <= 1'b0;
      features_sel_q <= '0;
      driver_sel_q   <= '0;
      excess_q       <= '0;
      version_q      <= 1'b0;
      features_q     <= '0;
      sel_q          <= '0;
      ready_q        <= '0;
      sized_q        <= '0;
      irq_q          <= '0;
      broken_q       <= 1'b0;
      b_valid_q      <= 1'b0;
      r_valid_q      <= 1'b0;
    end else begin
      status_q       <= status_d;
      reset_q        <= reset_d;
      wait_q         <= wait_d;
      features_sel_q <= features_sel_d;
      driver_sel_q   <= driver_sel_d;
      excess_q       <= excess_d;
      version_q      <= version_d;
      features_q     <= features_d;
      sel_q          <= sel_d;
      ready_q        <= ready_d;
      sized_q        <= sized_d;
      irq_q          <= irq_d;
      broken_q       <= broken_i;
      b_valid_q      <= b_valid_d;
      r_valid_q      <= r_valid_d;
    end
  end
  always_ff @(posedge clk_i) begin
    if (read) r_data_q <= r_data_d;
    if (status_q == '0) variable_q <= variable_now;
    generation_q <= {geometry_i.generation, geometry_i.ready};
    if (setup) queues_q[sel] <= setup_d;
  end
endmodule
