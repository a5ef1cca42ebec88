// The Serial ATA host on plain pins: its block interface, checked, and decoded words to and from a drive, or, with
// `Serial`, the parallel side of a transceiver.
module sata_sim
  import block_pkg::*;
#(
  parameter bit          Ncq           = 1'b1,
  parameter int unsigned BlockSizeLog2 = 9,
  parameter int unsigned TimeoutCycles = 20000,
  parameter bit          Serial        = 1'b0,
  parameter int unsigned Fastest       = 2,
  parameter int unsigned RetryDwords   = 3000
) (
  input  logic clk_i,
  input  logic rst_ni,
  output logic idle,
  output logic ready,
  output logic volatile_write_cache, discard, fua,
  output logic [3:0]  generation,
  output logic [47:0] block_count,

  input  logic        up,
  output logic        reset,
  input  logic        rx_bad,
  input  logic        rx_k,
  input  logic [31:0] rx_data,
  output logic        tx_k,
  output logic [31:0] tx_data,

  input  logic        rx_clk_i,
  input  logic [39:0] rx_bits,
  input  logic        rx_idle,
  output logic [39:0] tx_bits,
  output logic        tx_idle,
  output logic [1:0]  rate,
  input  logic [1:0]  rate_now,
  output logic [3:0]  phase,
  output logic        damaged,

  input  logic        cancel,
  input  logic        req_valid,
  input  logic [2:0]  req_op,
  input  logic        req_fua,
  input  logic [4:0]  req_tag,
  input  logic [47:0] req_lba,
  input  logic [23:0] req_count,
  input  logic        write_valid,
  input  logic [4:0]  write_tag,
  input  logic        write_last,
  input  logic        read_ready,
  input  logic        rsp_ready,
  input  logic [31:0] write_data,
  output logic        req_ready,
  output logic        write_ready,
  output logic        read_valid,
  output logic [4:0]  read_tag,
  output logic        read_last,
  output logic        rsp_valid,
  output logic [4:0]  rsp_tag,
  output logic [3:0]  rsp_status,
  output logic [15:0] rsp_detail,
  output logic [31:0] read_data
);
  host_t host;
  dev_t  dev;
  assign host = '{req_valid: req_valid,
                  req: '{op: op_e'(req_op), fua: req_fua, tag: req_tag, lba: req_lba, count: req_count},
                  write_valid: write_valid, write: '{tag: write_tag, last: write_last},
                  read_ready: read_ready, rsp_ready: rsp_ready, cancel: cancel};
  assign req_ready   = dev.req_ready;
  assign write_ready = dev.write_ready;
  assign read_valid  = dev.read_valid;
  assign read_tag    = dev.read.tag;
  assign read_last   = dev.read.last;
  assign rsp_valid   = dev.rsp_valid;
  assign rsp_tag     = dev.rsp.tag;
  assign rsp_status  = dev.rsp.status;
  assign rsp_detail  = dev.rsp.detail;

  geometry_t geometry;
  assign ready                = geometry.ready;
  assign generation           = geometry.generation;
  assign block_count          = geometry.block_count;
  assign discard              = geometry.discard;
  assign fua                  = geometry.fua;
  assign volatile_write_cache = geometry.volatile_write_cache;

  block_checker #(
    .DataWidth(32), .BlockSizeLog2(BlockSizeLog2), .TimeoutCycles(2 * TimeoutCycles + 5000), .CancelCycles(5000)
  ) u_check (
    .clk_i, .rst_ni, .geometry_i(geometry), .host_i(host), .write_data_i(write_data), .dev_i(dev),
    .read_data_i(read_data), .idle_o(idle)
  );

  if (Serial) begin : gen_serial
    sata_pkg::rate_e      wanted;
    sata_pkg::phy_phase_e now;
    sata_host #(
      .Ncq(Ncq), .BlockSizeLog2(BlockSizeLog2), .TimeoutCycles(TimeoutCycles), .Fastest(Fastest),
      .RetryDwords(RetryDwords)
    ) u_host (
      .clk_i, .rst_ni, .geometry_o(geometry), .host_i(host), .write_data_i(write_data), .dev_o(dev),
      .read_data_o(read_data), .phase_o(now), .damaged_o(damaged), .rate_o(wanted),
      .rate_i(sata_pkg::rate_e'(rate_now)), .tx_bits_o(tx_bits), .tx_idle_o(tx_idle), .rx_clk_i, .rx_rst_ni(rst_ni),
      .rx_bits_i(rx_bits), .rx_idle_i(rx_idle)
    );
    assign {rate, phase}          = {wanted, now};
    assign {reset, tx_k, tx_data} = '0;
  end else begin : gen_words
    sata_pkg::rx_word_t rx;
    sata_pkg::word_t    tx;
    assign rx = '{bad: rx_bad, word: '{k: rx_k, data: rx_data}};
    assign {tx_k, tx_data} = {tx.k, tx.data};
    assign {tx_bits, tx_idle, rate, phase, damaged} = '0;

    sata #(.Ncq(Ncq), .BlockSizeLog2(BlockSizeLog2), .TimeoutCycles(TimeoutCycles)) u_sata (
      .clk_i, .rst_ni, .geometry_o(geometry), .host_i(host), .write_data_i(write_data), .dev_o(dev),
      .read_data_o(read_data), .up_i(up), .reset_o(reset), .rx_i(rx), .tx_o(tx)
    );
  end
endmodule
