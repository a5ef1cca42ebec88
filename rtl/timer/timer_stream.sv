// SPDX-License-Identifier: Apache-2.0 OR MIT
// Writes events to memory as an AXI4 manager: one record of 16 bytes per event, one after the other from `base_i` on, until
// `limit_i` of them. A record is the registers AT, TAG and SOURCE in their order.
//
// Owns the order of the records and their count: `written_o` counts only records that are in memory, all of which precede the
// others. An event is taken from the queue when both of the bus's channels have room for it. What the limit stops stays in
// the queue. After a response other than OKAY nothing more is taken, and the records from that one on are lost and counted.
//
// A burst is one record, so it never crosses 4 KiB, and a slow memory delays no other one's address. With `Outstanding` bursts in
// flight a record takes 16 / (Width / 8) cycles on a bus without waits.
//
// Width        bits of a word on the bus, 32, 64 or 128
// Outstanding  bursts without a response
module timer_stream
  import timer_pkg::*;
#(
  parameter int unsigned Width       = 32,
  parameter int unsigned Outstanding = 8
) (
  input  logic                clk_i,
  input  logic                rst_ni,
  input  logic                clear_i,   // counts begin again, once no burst is in flight
  input  logic                enable_i,  // takes events
  input  axi_pkg::address_t   base_i,    // a multiple of 16; constant while busy_o
  input  logic [31:0]         limit_i,   // records; constant while busy_o

  input  logic                valid_i,
  output logic                ready_o,
  input  event_t              event_i,

  output logic                busy_o,    // a burst is in flight
  output logic                failed_o,  // the memory refused one; until the clear
  output logic [31:0]         written_o,
  output logic                lost_o,    // a record is lost in this cycle

  output axi_pkg::manager_t   axi_o,
  output logic [Width-1:0]    axi_write_data_o,
  input  axi_pkg::memory_t    axi_i
);
  localparam int unsigned Words      = 128 / Width;
  localparam int unsigned IndexWidth = (Words > 1) ? $clog2(Words) : 1;
  localparam int unsigned CountWidth = $clog2(Outstanding + 1);
  typedef logic [IndexWidth-1:0] index_t;
  typedef logic [CountWidth-1:0] count_t;

  logic                        aw_valid_q, w_valid_q, failed_q, clears_q, take, w_ends, answered;
  axi_pkg::address_t           address_q;
  logic [Words-1:0][Width-1:0] record_q;
  index_t                      index_q;
  count_t                      flight_q;
  logic [31:0]                 taken_q, written_q;

  assign w_ends   = w_valid_q & axi_i.w_ready & (index_q == index_t'(Words - 1));
  assign answered = axi_i.b_valid;
  assign busy_o   = flight_q != '0;
  assign failed_o = failed_q;
  assign written_o = written_q;
  assign ready_o  = enable_i & ~failed_q & ~clears_q & ~clear_i & (taken_q != limit_i) & (flight_q != count_t'(Outstanding))
                    & (~aw_valid_q | axi_i.aw_ready) & (~w_valid_q | w_ends);
  assign take     = valid_i & ready_o;
  assign lost_o   = answered & ~clears_q & ~clear_i & (failed_q | (axi_i.b_resp != axi_pkg::RespOkay));

  assign axi_o = '{aw_valid: aw_valid_q,
                   aw: '{address: address_q, len: 8'(Words - 1), size: 3'($clog2(Width / 8))},
                   w_valid: w_valid_q, w_last: index_q == index_t'(Words - 1), b_ready: 1'b1,
                   ar_valid: 1'b0, ar: '0, r_ready: 1'b0};
  assign axi_write_data_o = record_q[index_q];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      aw_valid_q <= 1'b0;
      w_valid_q  <= 1'b0;
      failed_q   <= 1'b0;
      clears_q   <= 1'b0;
      flight_q   <= '0;
      taken_q    <= '0;
      written_q  <= '0;
      index_q    <= '0;
    end else begin
      aw_valid_q <= take | (aw_valid_q & ~axi_i.aw_ready);
      w_valid_q  <= take | (w_valid_q & ~w_ends);
      if (w_valid_q & axi_i.w_ready) index_q <= w_ends ? '0 : index_q + index_t'(1);
      if (take != answered) flight_q <= take ? flight_q + count_t'(1) : flight_q - count_t'(1);
      // What is in flight at a clear belongs to the time before it.
      clears_q <= (clears_q | clear_i) & (flight_q != '0);
      if (clear_i | clears_q) begin
        taken_q   <= '0;
        written_q <= '0;
        failed_q  <= 1'b0;
      end else begin
        if (take) taken_q <= taken_q + 32'd1;
        if (answered) begin
          failed_q <= failed_q | (axi_i.b_resp != axi_pkg::RespOkay);
          if (!lost_o) written_q <= written_q + 32'd1;
        end
      end
    end
  end
  always_ff @(posedge clk_i) begin
    if (take) begin
      address_q <= base_i + axi_pkg::address_t'({taken_q, 4'd0});
      record_q  <= {30'd0, 1'b1, event_i.is_line, event_i.tag, event_i.at};
    end
  end
endmodule
