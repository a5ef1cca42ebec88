// raid0, two disks: whatever order the disks answer in, and whatever the pauses, the array keeps
// the interface's rules to its host and to each disk, and its data are in order.
//
// A disk's word is made to be a function of the disk, the block and the place in it; so the host's
// word must be that function of the array's block. The same for writes, the other way round. One
// block may fail its reads: exactly the requests that touch it report an error.
module fv_raid0
  import block_pkg::*;
#(
  parameter int unsigned Tags = 2
) (
  input logic            clk_i,
  input logic            rst_ni,
  input host_t           host_i,
  input logic [7:0]      write_data_i,
  input dev_t [1:0]      disk_dev_i,
  input logic [1:0][7:0] disk_read_data_i,
  input logic [2:0]      bad_lba_i  // bit 0: the disk; the others: its block
);
  localparam int unsigned DiskTags = 18;
  localparam lba_t DiskBlocks = lba_t'(4);

  dev_t dev;
  geometry_t array_geometry;
  host_t [1:0] disk_host;
  logic [7:0] read_data;
  logic [1:0][7:0] disk_write_data;
  geometry_t [1:0] geometry;
  for (genvar i = 0; i < 2; i++) begin : gen_geometry
    assign geometry[i] = '{ready: 1'b1, block_count: DiskBlocks, max_transfer_blocks: '1,
                           volatile_write_cache: 1'b1, fua: 1'b1, discard: 1'b1, read_only: 1'b0};
  end

  raid0 #(
    .Disks(2), .UpWidth(8), .DiskWidth(8), .BlockSizeLog2(1), .StripeBlocks(1), .SlotBlocks(1), .Slots(2),
    .WritePlaces(2), .WriteSlots(1), .LbaBits(4)
  ) dut (
    .clk_i, .rst_ni, .geometry_o(array_geometry), .host_i, .write_data_i, .dev_o(dev), .read_data_o(read_data),
    .enable_i('1), .failed_o(), .error_o(), .disk_clk_i('0), .disk_rst_ni('0),
    .disk_geometry_i(geometry), .disk_host_o(disk_host), .disk_write_data_o(disk_write_data),
    .disk_dev_i, .disk_read_data_i
  );

  block_checker #(.DataWidth(8), .BlockSizeLog2(1), .CountBits(2), .UsedTags(Tags), .AssumeHost(1'b1)) u_up (
    .clk_i, .rst_ni, .host_i, .write_data_i, .dev_i(dev), .read_data_i(read_data), .idle_o()
  );

  // The word at a place: three bits of the array's block, one of the word in it.
  function automatic logic [7:0] word_at(logic [2:0] lba, logic word);
    return {lba, word, ~lba, 1'b0};
  endfunction

  logic started_q;
  logic [2:0] bad_q;
  initial started_q = 1'b0;
  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    assume (rst_ni == started_q);
    if (!started_q) bad_q <= bad_lba_i;
  end

  // --- The host: what it asked, and where its data stand --------------------------------------
  req_t req_q [Tags];
  logic [3:0] read_word_q, write_word_q;  // in the transfer now
  logic [2:0] read_lba, write_lba;
  assign read_lba  = 3'(req_q[dev.read.tag[0]].lba) + read_word_q[3:1];
  assign write_lba = 3'(req_q[host_i.write.tag[0]].lba) + write_word_q[3:1];

  logic [2:0] bad_distance;
  req_t answered;
  assign answered     = req_q[dev.rsp.tag[0]];
  assign bad_distance = bad_q - 3'(answered.lba);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      read_word_q  <= '0;
      write_word_q <= '0;
    end else begin
      if (host_i.req_valid) begin
        assume (host_i.req.op inside {OpRead, OpWrite, OpFlush});
        assume (host_i.req.count <= count_t'(3));
        assume ((host_i.req.op == OpFlush) || (check(host_i.req, array_geometry) == StatusOk));
        if (dev.req_ready) req_q[host_i.req.tag[0]] <= host_i.req;
      end
      if (dev.read_valid && host_i.read_ready) read_word_q <= dev.read.last ? '0 : read_word_q + 4'd1;
      if (host_i.write_valid && dev.write_ready) write_word_q <= host_i.write.last ? '0 : write_word_q + 4'd1;
      if (host_i.write_valid) assume (write_data_i == word_at(write_lba, write_word_q[0]));
      if (dev.read_valid) begin
        a_read_order: assert (read_data == word_at(read_lba, read_word_q[0]));
      end
      if (dev.rsp_valid) begin
        a_error: assert ((dev.rsp.status == StatusDevice) ==
                         ((answered.op == OpRead) && (count_t'(bad_distance) < answered.count)));
      end
    end
  end

  // --- The disks ------------------------------------------------------------------------------
  for (genvar i = 0; i < 2; i++) begin : gen_disk
    block_checker #(.DataWidth(8), .BlockSizeLog2(1), .CountBits(2), .UsedTags(DiskTags), .AssumeDevice(1'b1)) u_down (
      .clk_i, .rst_ni, .host_i(disk_host[i]), .write_data_i(disk_write_data[i]), .dev_i(disk_dev_i[i]),
      .read_data_i(disk_read_data_i[i]), .idle_o()
    );

    // Two read tags (0, 1) and two others (16, 17) are all that a lane of this size uses.
    req_t asked_q [4];
    logic read_word_q, write_word_q;
    function automatic logic [1:0] index(tag_t tag);
      return {tag[4], tag[0]};
    endfunction
    req_t read_req, write_req, rsp_req;
    assign read_req  = asked_q[index(disk_dev_i[i].read.tag)];
    assign write_req = asked_q[index(disk_host[i].write.tag)];
    assign rsp_req   = asked_q[index(disk_dev_i[i].rsp.tag)];

    always_ff @(posedge clk_i) begin
      if (!rst_ni) begin
        read_word_q  <= 1'b0;
        write_word_q <= 1'b0;
      end else begin
        if (disk_host[i].req_valid) begin
          a_tags:  assert (disk_host[i].req.tag[3:1] == '0);
          a_piece: assert (check(disk_host[i].req, geometry[i]) == StatusOk);
          if (disk_dev_i[i].req_ready) asked_q[index(disk_host[i].req.tag)] <= disk_host[i].req;
        end
        if (disk_dev_i[i].read_valid) begin
          assume (disk_read_data_i[i] == word_at({2'(read_req.lba), 1'(i)}, read_word_q));
          if (disk_host[i].read_ready) read_word_q <= ~read_word_q;
        end
        if (disk_host[i].write_valid) begin
          a_write_order: assert (disk_write_data[i] == word_at({2'(write_req.lba), 1'(i)}, write_word_q));
          if (disk_dev_i[i].write_ready) write_word_q <= ~write_word_q;
        end
        if (disk_dev_i[i].rsp_valid) begin
          assume (disk_dev_i[i].rsp.status ==
                  (((rsp_req.op == OpRead) && ({2'(rsp_req.lba), 1'(i)} == bad_q)) ? StatusDevice : StatusOk));
        end
      end
    end
  end
endmodule
