// hwfs_sim with its bench's pins in registers: one evaluation a cycle then settles everything, which makes the
// simulation faster. A bench samples after the clock's edge, drives, and so on.
module hwfs_twin_sim
#(
  parameter int unsigned DataWidth     = 32,
  parameter int unsigned BlockSizeLog2 = 6,
  parameter int unsigned NodeLog2Max   = 9,
  parameter int unsigned Files         = 4,
  parameter int unsigned IndexSlots    = 1024,
  parameter int unsigned Outstanding   = 2,
  parameter int unsigned TimeoutCycles = 20000,
  parameter bit          DataChecksums = 1
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic        ready,
  input  logic        cached,
  input  logic        read_only,
  input  logic [47:0] block_count,
  input  logic [23:0] max_transfer_blocks,
  output logic        idle,

  input  logic        cmd_valid,
  output logic        cmd_ready,
  input  logic [3:0]  cmd_op,
  input  logic [3:0]  cmd_flags,
  input  logic [2:0]  cmd_file,
  input  logic [6:0]  cmd_name_bytes,
  input  logic [6:0]  cmd_name2_bytes,
  input  logic [63:0] cmd_offset,
  input  logic [63:0] cmd_length,
  input  logic        name_valid,
  output logic        name_ready,
  input  logic [31:0] name_data,
  output logic        answer_valid,
  input  logic        answer_ready,
  output logic [5:0]  answer_status,
  output logic [63:0] answer_value,
  input  logic        give_valid,
  output logic        give_ready,
  input  logic [DataWidth-1:0] give_data,
  output logic        take_valid,
  input  logic        take_ready,
  output logic [DataWidth-1:0] take_data,
  output logic [DataWidth/8-1:0] take_keep,
  output logic        take_last,

  output logic        req_valid,
  output logic [1:0]  req_op,
  output logic        req_fua,
  output logic [4:0]  req_tag,
  output logic [47:0] req_lba,
  output logic [23:0] req_count,
  output logic        write_valid,
  output logic [4:0]  write_tag,
  output logic        write_last,
  output logic        read_ready,
  output logic        rsp_ready,
  output logic [DataWidth-1:0] write_data,
  input  logic        req_ready,
  input  logic        write_ready,
  input  logic        read_valid,
  input  logic [4:0]  read_tag,
  input  logic        read_last,
  input  logic        rsp_valid,
  input  logic [4:0]  rsp_tag,
  input  logic [3:0]  rsp_status,
  input  logic [15:0] rsp_detail,
  input  logic [DataWidth-1:0] read_data
);
  logic ready_q;
  logic cached_q;
  logic read_only_q;
  logic [47:0] block_count_q;
  logic [23:0] max_transfer_blocks_q;
  logic cmd_valid_q;
  logic [3:0] cmd_op_q;
  logic [3:0] cmd_flags_q;
  logic [2:0] cmd_file_q;
  logic [6:0] cmd_name_bytes_q;
  logic [6:0] cmd_name2_bytes_q;
  logic [63:0] cmd_offset_q;
  logic [63:0] cmd_length_q;
  logic name_valid_q;
  logic [31:0] name_data_q;
  logic answer_ready_q;
  logic give_valid_q;
  logic [DataWidth-1:0] give_data_q;
  logic take_ready_q;
  logic req_ready_q;
  logic write_ready_q;
  logic read_valid_q;
  logic [4:0] read_tag_q;
  logic read_last_q;
  logic rsp_valid_q;
  logic [4:0] rsp_tag_q;
  logic [3:0] rsp_status_q;
  logic [15:0] rsp_detail_q;
  logic [DataWidth-1:0] read_data_q;
  always_ff @(posedge clk_i) begin
    ready_q <= ready;
    cached_q <= cached;
    read_only_q <= read_only;
    block_count_q <= block_count;
    max_transfer_blocks_q <= max_transfer_blocks;
    cmd_valid_q <= cmd_valid;
    cmd_op_q <= cmd_op;
    cmd_flags_q <= cmd_flags;
    cmd_file_q <= cmd_file;
    cmd_name_bytes_q <= cmd_name_bytes;
    cmd_name2_bytes_q <= cmd_name2_bytes;
    cmd_offset_q <= cmd_offset;
    cmd_length_q <= cmd_length;
    name_valid_q <= name_valid;
    name_data_q <= name_data;
    answer_ready_q <= answer_ready;
    give_valid_q <= give_valid;
    give_data_q <= give_data;
    take_ready_q <= take_ready;
    req_ready_q <= req_ready;
    write_ready_q <= write_ready;
    read_valid_q <= read_valid;
    read_tag_q <= read_tag;
    read_last_q <= read_last;
    rsp_valid_q <= rsp_valid;
    rsp_tag_q <= rsp_tag;
    rsp_status_q <= rsp_status;
    rsp_detail_q <= rsp_detail;
    read_data_q <= read_data;
  end

  hwfs_sim #(
    .DataWidth(DataWidth), .BlockSizeLog2(BlockSizeLog2), .NodeLog2Max(NodeLog2Max), .Files(Files),
    .IndexSlots(IndexSlots), .Outstanding(Outstanding), .TimeoutCycles(TimeoutCycles), .DataChecksums(DataChecksums)
  ) u_sim (
    .clk_i,
    .rst_ni,
    .ready (ready_q),
    .cached (cached_q),
    .read_only (read_only_q),
    .block_count (block_count_q),
    .max_transfer_blocks (max_transfer_blocks_q),
    .cmd_valid (cmd_valid_q),
    .cmd_op (cmd_op_q),
    .cmd_flags (cmd_flags_q),
    .cmd_file (cmd_file_q),
    .cmd_name_bytes (cmd_name_bytes_q),
    .cmd_name2_bytes (cmd_name2_bytes_q),
    .cmd_offset (cmd_offset_q),
    .cmd_length (cmd_length_q),
    .name_valid (name_valid_q),
    .name_data (name_data_q),
    .answer_ready (answer_ready_q),
    .give_valid (give_valid_q),
    .give_data (give_data_q),
    .take_ready (take_ready_q),
    .req_ready (req_ready_q),
    .write_ready (write_ready_q),
    .read_valid (read_valid_q),
    .read_tag (read_tag_q),
    .read_last (read_last_q),
    .rsp_valid (rsp_valid_q),
    .rsp_tag (rsp_tag_q),
    .rsp_status (rsp_status_q),
    .rsp_detail (rsp_detail_q),
    .read_data (read_data_q),
    .idle,
    .cmd_ready,
    .name_ready,
    .answer_valid,
    .answer_status,
    .answer_value,
    .give_ready,
    .take_valid,
    .take_data,
    .take_keep,
    .take_last,
    .req_valid,
    .req_op,
    .req_fua,
    .req_tag,
    .req_lba,
    .req_count,
    .write_valid,
    .write_tag,
    .write_last,
    .read_ready,
    .rsp_ready,
    .write_data
  );
endmodule
