// SPDX-License-Identifier: Apache-2.0 OR MIT
// Puts a frame together: the header, data that are fetched from the owner's memory, a CRC32C if requested, and padding.
//
// Takes a frame when it has sent the one before. The words of a frame follow each other without a pause of its own.
//
// DataWords  the longest data
// LeastWords the shortest frame: PaddedWords for Ethernet; HeaderWords where nothing demands padding
module aoe_send
  import aoe_pkg::*;
#(
  parameter int unsigned DataWords  = 256,
  parameter int unsigned LeastWords = PaddedWords,
  localparam int unsigned CountWidth = $clog2(DataWords + 1)
) (
  input  logic                  clk_i,
  input  logic                  rst_ni,

  input  logic                  valid_i,
  output logic                  ready_o,
  input  header_t               header_i,
  input  logic [CountWidth-1:0] words_i,
  input  logic                  check_i,

  output logic                  fetch_o,   // the word of this index appears on data_i in the next cycle
  output logic [CountWidth-1:0] index_o,
  input  logic [31:0]           data_i,

  output logic                  tx_valid_o,
  input  logic                  tx_ready_i,
  output logic [31:0]           tx_data_o,
  output logic                  tx_last_o
);
  typedef enum logic [2:0] {Idle, Header, Data, Check, Pad} place_e;
  localparam int unsigned PadWidth = $clog2(LeastWords + 1);

  place_e      place_q, next_place;
  words_t      header_q;
  logic [3:0]  number_q;
  logic [CountWidth-1:0] words_q, fetched_q, sent_q;
  logic [PadWidth-1:0]   length_q;  // words sent, up to the shortest frame's
  logic        check_q, fetch_q, data_valid, data_ready, take, is_end, long_enough;
  logic [31:0] data, crc_q, crc_next;

  assign ready_o = place_q == Idle;
  assign index_o = fetched_q;

  prim_ahead #(.Width(32)) u_ahead (
    .clk_i,
    .rst_ni,
    .available_i (fetched_q != words_q),
    .fetch_o,
    .fetched_i   (fetch_q),
    .data_i,
    .valid_o     (data_valid),
    .ready_i     (data_ready),
    .data_o      (data)
  );

  assign tx_valid_o  = (place_q != Idle) & ((place_q != Data) | data_valid);
  assign take        = tx_valid_o & tx_ready_i;
  assign data_ready  = (place_q == Data) & tx_ready_i;
  assign long_enough = length_q >= PadWidth'(LeastWords - 1);

  always_comb begin
    unique case (place_q)
      Header:  tx_data_o = header_q[0];
      Data:    tx_data_o = data;
      Check:   tx_data_o = ~crc_q;
      default: tx_data_o = '0;
    endcase
  end

  // The place after this word.
  always_comb begin
    next_place = place_q;
    is_end     = 1'b0;
    unique case (place_q)
      Header: if (number_q == 4'(HeaderWords - 1)) begin
        if (words_q != '0) next_place = Data;
        else if (check_q)  next_place = Check;
        else               is_end = 1'b1;
      end
      Data: if (sent_q == words_q - CountWidth'(1)) begin
        if (check_q) next_place = Check;
        else         is_end = 1'b1;
      end
      Check, Pad: is_end = 1'b1;
      default: ;
    endcase
    if (is_end) next_place = long_enough ? Idle : Pad;
  end
  assign tx_last_o = is_end & long_enough;

  hwfs_crc #(.Width(32)) u_crc (.data_i(tx_data_o ^ crc_q), .crc_o(crc_next));

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      place_q   <= Idle;
      fetched_q <= '0;
      words_q   <= '0;
      fetch_q   <= 1'b0;
    end else begin
      fetch_q <= fetch_o;
      if (fetch_o) fetched_q <= fetched_q + CountWidth'(1);
      if (valid_i && ready_o) begin
        place_q   <= Header;
        words_q   <= words_i;
        fetched_q <= '0;
      end else if (take) begin
        place_q <= next_place;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (ready_o) begin
      header_q <= to_words(header_i);
      check_q  <= check_i;
      number_q <= '0;
      length_q <= '0;
      sent_q   <= '0;
      crc_q    <= '1;
    end else if (take) begin
      if (!long_enough) length_q <= length_q + PadWidth'(1);
      if (place_q == Header) begin
        header_q <= {32'd0, header_q[HeaderWords-1:1]};
        number_q <= number_q + 4'd1;
      end
      if (place_q == Data) sent_q <= sent_q + CountWidth'(1);
      if ((place_q != Header) || (number_q >= 4'(CheckFrom))) crc_q <= crc_next;
    end
  end
endmodule
