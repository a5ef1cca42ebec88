// SPDX-License-Identifier: Apache-2.0 OR MIT
// The transport layer of a Serial ATA host (clause "Transport layer"): turns commands and data into frame
// information structures (FIS), and back.
//
// Owns the current FIS and at most one command and one data FIS that wait; data has priority. A command FIS that
// ended in R_ERR or was cut is sent again until it arrives or the command layer gives up. A data FIS is sent
// once: its words are not kept. A received FIS is handled by its type; an unknown one, and data that no command
// requested, get R_ERR; one longer than any FIS (its end was lost) is ended by SYNC. A received FIS is reported only when its
// CRC is correct; its data is passed on as it arrives.
module sata_transport
  import sata_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        up_i,

  // A command: five dwords of a register FIS, until `cmd_sent_o`.
  input  logic        cmd_valid_i,
  input  logic [4:0][31:0] cmd_i,
  output logic        cmd_sent_o,

  // Data out: `data_start_i` for one cycle, then words up to the one marked last.
  input  logic        data_start_i,
  input  logic        data_valid_i,
  output logic        data_ready_o,
  input  logic [31:0] data_i,
  input  logic        data_last_i,
  output logic        data_sent_o,   // the frame ended ...
  output logic        data_failed_o, // ... and not by R_OK

  // Received FIS.
  output logic        fis_valid_o,
  output logic [7:0]  fis_type_o,
  output logic [31:0] fis_first_o,   // the first two dwords
  output logic [31:0] fis_second_o,
  output logic        word_valid_o,  // a word of a data FIS
  output logic [31:0] word_o,
  input  logic        word_wanted_i,
  output logic        data_bad_o,    // a data FIS has ended that was damaged or too long
  output logic        receiving_o,

  // The link.
  output logic        tx_frame_o,
  output logic        tx_valid_o,
  input  logic        tx_ready_i,
  output logic [31:0] tx_data_o,
  output logic        tx_last_o,
  input  logic        tx_end_i,
  input  sent_e       tx_sent_i,
  input  logic        rx_start_i,
  input  logic        rx_valid_i,
  input  logic [31:0] rx_data_i,
  input  logic        rx_end_i,
  input  logic        rx_good_i,
  output logic        rx_refuse_o,
  output logic        rx_escape_o
);
  // --- Sent ----------------------------------------------------------------------------------------------------
  logic       data_q;      // a data FIS waits or is under way
  logic       is_data_q;   // the frame under way is a data FIS
  logic       begun_q;     // its first word was sent
  logic [2:0] index_q;     // of the command's dword
  logic       taken;

  // A cycle late, but never for a frame that has ended, or while one is received: what it asks for may change then.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) tx_frame_o <= 1'b0;
    else         tx_frame_o <= (data_q | cmd_valid_i) & ~tx_end_i & ~cmd_sent_o & ~receiving_o;
  end
  assign taken         = tx_valid_o & tx_ready_i;
  assign data_ready_o  = is_data_q & begun_q & tx_ready_i;
  // The end of a frame is told a cycle later.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      data_sent_o <= 1'b0;
      cmd_sent_o  <= 1'b0;
    end else begin
      data_sent_o <= tx_end_i & is_data_q;
      cmd_sent_o  <= tx_end_i & ~is_data_q & (tx_sent_i == SentOk);
    end
  end
  always_ff @(posedge clk_i) data_failed_o <= tx_sent_i != SentOk;

  always_comb begin
    tx_valid_o = 1'b1;
    tx_data_o  = cmd_i[index_q];
    tx_last_o  = index_q == 3'd4;
    if (is_data_q) begin
      tx_valid_o = ~begun_q | data_valid_i;
      tx_data_o  = begun_q ? data_i : 32'(FisData);
      tx_last_o  = begun_q & data_last_i;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      data_q    <= 1'b0;
      is_data_q <= 1'b0;
      begun_q   <= 1'b0;
      index_q   <= '0;
    end else begin
      if (data_start_i)                             data_q <= 1'b1;
      else if ((tx_end_i && is_data_q) || !up_i)    data_q <= 1'b0;
      // The kind of frame can change until its first word was sent.
      if (tx_end_i || !up_i) begin
        begun_q   <= 1'b0;
        index_q   <= '0;
        is_data_q <= 1'b0;
      end else begin
        if (!begun_q && !taken) is_data_q <= data_q | data_start_i;
        if (taken) begin
          begun_q <= 1'b1;
          if (!is_data_q) index_q <= index_q + 3'd1;
        end
      end
    end
  end

  // --- Received ------------------------------------------------------------------------------------------------
  logic [7:0]  type_q;
  logic [1:0]  at_q;      // words so far, at most two
  logic [11:0] more_q;    // words after those: at most 2,047 in a data FIS
  logic        is_known, refuse_q, receiving_q, ended_q;

  assign is_known = (rx_data_i[7:0] == FisRegD2H) | (rx_data_i[7:0] == FisActivate) | (rx_data_i[7:0] == FisSetup) |
                    (rx_data_i[7:0] == FisData) | (rx_data_i[7:0] == FisPioSetup) | (rx_data_i[7:0] == FisSetBits);

  assign type_q       = fis_first_o[7:0];
  assign fis_type_o   = type_q;
  assign rx_refuse_o  = refuse_q;
  assign word_valid_o = rx_valid_i & (at_q != '0) & (type_q == FisData);
  assign word_o       = rx_data_i;
  // The end of a FIS is told a cycle later, when its words are in registers; until then it is being received.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      fis_valid_o <= 1'b0;
      data_bad_o  <= 1'b0;
      ended_q     <= 1'b0;
    end else begin
      fis_valid_o <= rx_end_i & rx_good_i;
      data_bad_o  <= rx_end_i & ~rx_good_i & (at_q != '0) & (type_q == FisData);
      ended_q     <= rx_end_i;
    end
  end
  assign receiving_o  = receiving_q | ended_q;
  assign rx_escape_o  = receiving_q & more_q[11];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      at_q        <= '0;
      more_q      <= '0;
      refuse_q    <= 1'b1;
      receiving_q <= 1'b0;
    end else if (rx_start_i) begin
      at_q        <= '0;
      more_q      <= '0;
      refuse_q    <= 1'b1;
      receiving_q <= 1'b1;
    end else begin
      if (rx_end_i || !up_i) receiving_q <= 1'b0;
      if (rx_valid_i) begin
        if (!at_q[1]) at_q <= at_q + 2'd1;
        else          more_q <= more_q + 12'd1;
        if (at_q == '0) refuse_q <= ~is_known;
        else if (word_valid_o && !word_wanted_i) refuse_q <= 1'b1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (rx_valid_i && (at_q == 2'd0)) fis_first_o  <= rx_data_i;
    if (rx_valid_i && (at_q == 2'd1)) fis_second_o <= rx_data_i;
  end
endmodule
