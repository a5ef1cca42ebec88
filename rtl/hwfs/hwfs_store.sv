// SPDX-License-Identifier: Apache-2.0 OR MIT
// Moves data to the device: nodes from memory, and the application's data, shifted to their position in their blocks. The
// bytes of the first and the last block that the application does not write come from memory, where the sequencer has put
// the old blocks, or are zero. Consecutive puts form one stream.
//
// Owns the words of one write at a time. After an abort it sends zeroes in place of the application's missing data, so that
// the device gets all words (rule B6).
//
// DataWidth      bits of the data streams
// AddressBits    log2 of the memory's bytes
// BlockSizeLog2  log2 of the device's block
module hwfs_store
  import block_pkg::*;
  import hwfs_pkg::*;
#(
  parameter int unsigned DataWidth     = 32,
  parameter int unsigned AddressBits   = 12,
  parameter int unsigned BlockSizeLog2 = 6,
  localparam int unsigned Bytes    = DataWidth / 8,
  localparam int unsigned RowBits  = (DataWidth > 64) ? DataWidth : 64,
  localparam int unsigned RowLog2  = $clog2(RowBits / 8)
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  input  logic                 do_valid_i,  // an instruction for this engine, which is taken in this cycle
  input  do_t                  do_i,
  input  logic                 abort_i,
  input  logic                 send_i,      // the request was taken: send its data
  input  req_t                 req_i,
  output logic                 idle_o,      // no word is outstanding
  output logic                 mine_o,      // the word contains application data
  input  logic [15:0]          node_bytes_i,

  input  logic                 data_valid_i,
  output logic                 data_ready_o,
  input  logic [DataWidth-1:0] data_i,

  output logic                 ram_read_o,  // no other reader may read in this cycle
  output logic [AddressBits-1:RowLog2] ram_row_o,
  input  logic [RowBits-1:0]   ram_data_i,

  output logic                 write_valid_o,
  output beat_t                write_o,
  output logic [DataWidth-1:0] write_data_o,
  input  logic                 write_ready_i
);
  localparam int unsigned WordLog2  = $clog2(Bytes);
  localparam int unsigned DropWidth = BlockSizeLog2 - WordLog2;
  localparam int unsigned LeftWidth = CountWidth + DropWidth;
  typedef logic [WordLog2-1:0]  lane_t;
  typedef logic [WordLog2:0]    lanes_t;
  typedef logic [DropWidth-1:0] drop_t;
  typedef logic [AddressBits-1:WordLog2] word_t;

  typedef enum logic [1:0] {Idle, Wait, Prime, Run} state_e;
  state_e state_q, state_d;
  logic   idle_q;

  // State of this write.
  logic                 app_q;    // the application's data, not a node
  tag_t                 tag_q;
  logic [LeftWidth-1:0] words_n_q;  // outstanding, inverted: counting up needs no inverters
  word_t                index_q, index_d, node_words_q, node_q;
  // State of the application's stream.
  lane_t       shift_q;
  drop_t       head_q;            // whole words before the offset
  logic [63:0] left_n_q;          // bytes that the application has not supplied yet, also inverted
  logic        any_q, many_q;     // of these: one or more; two words or more
  logic        begun_q, first_q, first_d, head_ram_q, tail_ram_q;
  logic        abort_q, offered_q, aborted;
  drop_t       block_q, block_d;  // the word's position in its block
  word_t       head_at_q, tail_at_q;

  logic sent;
  assign sent       = write_valid_o & write_ready_i;
  assign idle_o     = idle_q;

  word_t address;  // the word of memory that comes next

  // The lanes of the word that hold application data.
  lanes_t low, few;  // few: the remaining bytes, unless `many_q`
  logic   mine, need, more;
  logic [Bytes-1:0] lanes;
  // At least two words and the bytes that this word takes.
  typedef logic [WordLog2+2:0] four_words_t;
  logic [WordLog2+1:0] rest;
  assign rest = ~left_n_q[WordLog2+1:0];
  assign more = (left_n_q[63:WordLog2+2] != '1) | (four_words_t'(rest) + four_words_t'(low) >= four_words_t'(3 * Bytes));
  assign few  = ~left_n_q[WordLog2:0];
  assign mine = app_q & (head_q == '0) & any_q;
  assign mine_o = mine;
  assign low  = begun_q ? '0 : lanes_t'(shift_q);
  for (genvar i = 0; i < Bytes; i++) begin : gen_lanes
    assign lanes[i] = mine & (lanes_t'(i) >= low) & (many_q | (few > lanes_t'(i) - low));
  end
  // The first `shift` of the remaining bytes are held from the previous word.
  assign need = mine & ~(begun_q & ~many_q & (few <= lanes_t'(shift_q)));

  logic [DataWidth-1:0] rotated, held_q, edge_data;
  assign rotated = DataWidth'(({data_i, data_i} << {shift_q, 3'b000}) >> DataWidth);

  // A row of two words is read once, while the last word of the row before it is taken, and stays in a register, so that a node can be
  // sealed meanwhile.
  logic from_ram, row_ends;
  assign from_ram = app_q ? (first_q ? head_ram_q : tail_ram_q) : (index_q < node_words_q);
  if (DataWidth == 32) begin : gen_narrow
    logic        high_q, shown_q;
    logic [63:0] row, row_q;
    assign row      = shown_q ? ram_data_i : row_q;
    assign row_ends = high_q & write_ready_i;
    always_ff @(posedge clk_i) begin
      shown_q <= ram_read_o;
      row_q   <= row;
      if ((state_q == Prime) || sent) high_q <= address[WordLog2];
    end
    assign edge_data = from_ram ? (high_q ? row[63:32] : row[31:0]) : '0;
  end else begin : gen_wide
    assign row_ends  = 1'b1;  // a row is a word, which memory shows until it is taken
    assign edge_data = from_ram ? ram_data_i[DataWidth-1:0] : '0;
  end

  for (genvar i = 0; i < Bytes; i++) begin : gen_bytes
    logic [7:0] given;
    assign given = (lanes_t'(i) >= lanes_t'(shift_q)) ? rotated[8*i+:8] : held_q[8*i+:8];
    assign write_data_o[8*i+:8] = lanes[i] ? (aborted ? 8'h0 : given) : edge_data[8*i+:8];
  end

  // An offered word must not change: an abort takes effect after it.
  assign aborted       = abort_q & ~offered_q;
  assign write_valid_o = (state_q == Run) & (~need | data_valid_i | aborted);
  assign write_o       = '{tag: tag_q, last: &words_n_q[LeftWidth-1:1] & ~words_n_q[0]};
  assign data_ready_o  = (state_q == Run) & need & write_ready_i & ~aborted;

  // Memory is read one word ahead.
  always_comb begin
    index_d = index_q;
    block_d = block_q;
    first_d = first_q;
    if (sent) begin
      index_d = index_q + word_t'(1);
      if (app_q) begin
        block_d = block_q + drop_t'(1);
        if (block_q == '1) first_d = 1'b0;
      end
    end
    address = app_q ? ((first_d ? head_at_q : tail_at_q) + word_t'(block_d)) : (node_q + index_d);
  end
  assign ram_read_o = (~app_q | head_ram_q | tail_ram_q) & ((state_q == Prime) | ((state_q == Run) & row_ends));
  assign ram_row_o  = address[AddressBits-1:RowLog2];

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      Idle: if (do_valid_i && ((do_i.unit == DoStore) || (do_i.unit == DoPut))) state_d = Wait;
      Wait: if (send_i) state_d = Prime;
      Prime: state_d = Run;
      Run: if (sent && write_o.last) state_d = Idle;
      default: state_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q   <= Idle;
      idle_q    <= 1'b1;
      abort_q   <= 1'b0;
      offered_q <= 1'b0;
    end else begin
      state_q   <= state_d;
      idle_q    <= state_d == Idle;
      offered_q <= write_valid_o & ~write_ready_i & ~aborted;
      if (do_valid_i && (do_i.unit == DoWriteTo)) abort_q <= 1'b0;
      else if (abort_i) abort_q <= 1'b1;
    end
  end

  lanes_t given_bytes;
  assign given_bytes = lanes_t'(Bytes) - low;

  always_ff @(posedge clk_i) begin
    index_q <= index_d;
    block_q <= block_d;
    first_q <= first_d;
    if (sent) begin
      words_n_q <= words_n_q + LeftWidth'(1);
      if (app_q && (head_q != '0)) head_q <= head_q - drop_t'(1);
      if (mine) begin
        begun_q <= 1'b1;
        left_n_q <= left_n_q + 64'(given_bytes);
        many_q <= more;
        if (!many_q && (few <= given_bytes)) {left_n_q, any_q} <= {64'hffff_ffff_ffff_ffff, 1'b0};
      end
      if (need) held_q <= rotated;
    end
    if (send_i) words_n_q <= ~(LeftWidth'(req_i.count) << DropWidth);
    if (send_i) tag_q   <= req_i.tag;
    if (do_valid_i) begin
      unique case (do_i.unit)
        DoStore: begin
          app_q        <= 1'b0;
          index_q      <= '0;
          node_q       <= do_i.b[AddressBits-1:WordLog2];
          node_words_q <= do_i.imm[DoSuper] ? word_t'(256 >> WordLog2) : word_t'(node_bytes_i >> WordLog2);
        end
        DoPut: app_q <= 1'b1;
        DoWriteTo: begin
          shift_q    <= do_i.a[WordLog2-1:0];
          head_q     <= do_i.a[BlockSizeLog2-1:WordLog2];
          left_n_q   <= ~do_i.b;
          any_q      <= do_i.b != '0;
          many_q     <= do_i.b[63:WordLog2+1] != '0;
          block_q    <= '0;
          first_q    <= 1'b1;
          begun_q    <= 1'b0;
          head_ram_q <= do_i.imm[DoHead];
          tail_ram_q <= do_i.imm[DoTail];
        end
        DoEdges: begin
          head_at_q <= do_i.a[AddressBits-1:WordLog2];
          tail_at_q <= do_i.b[AddressBits-1:WordLog2];
        end
        default: ;
      endcase
    end
  end
endmodule
