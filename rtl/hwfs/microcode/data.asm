; SPDX-License-Identifier: Apache-2.0 OR MIT
; Moving data. While one extent streams, the next one's request is made.

cmd_read:
  call opened
read_opened:
  ld [OFFSET]
  mov r1, md
  ld [LENGTH]
  mov r2, md
  add r3, r1, r2
  bc fail_past
  ld [file + F_END]
  mov r4, md
  cmp r4, r3
  bc fail_past
  cmp r2, 0
  bz done_zero
  do.readto r1, r2
  andn r1, bmask
  add r3, bmask
  andn r3, bmask
  st r3, [V_END]
read_next:
  call map
  call piece
  do.fetch r2, r4
  add r1, r4
  ld [V_END]
  cmp r1, md
  bc read_next
read_drain:
  ld [LENGTH]
  mov r1, md
@grown  ld [V_GROWN]
@grown  cmp r0, md
@grown  bnz read_drain_any
  wait taken
  b.error fail_device
  do.respond r1, r0
  b main

; r4 <- bytes of the next request, from r1 on: as many as are contiguous, requested, and fit.
piece:
  ld [V_END]
  mov r3, md
  sub r3, r1
  cmp r4, r3
  bc piece_wanted
  mov r4, r3
piece_wanted:
  ld [V_LIMIT]
  mov r3, md
  cmp r4, r3
  bc piece_fits
  mov r4, r3
piece_fits:
  ret

cmd_write:
  call writable
  call write_body
  b done

; Writes LENGTH bytes at OFFSET of `file`; r1 <- LENGTH. For a file with checksums it only prepares this: r1 <- the first
; byte of the first block. (A separate routine for the preparation would exceed the depth of the return stack.)
write_body:
  ld [OFFSET]
  mov r1, md
  ld [LENGTH]
  mov r2, md
  add r3, r1, r2
  bc fail_past
  ld [file + F_END]
  mov r4, md
  cmp r4, r1
  bc fail_past
  cmp r2, 0
  bz done_zero              ; (an empty put does not get here)
  call grow
  ; Read the bytes of the first and the last block that are kept: by R6 at the end of the file, and in
  ; blocks that are partly overwritten.
  ld [OFFSET]
  mov r1, md
  ld [LENGTH]
  add r3, r1, md
  st r3, [V_END]
  st r0, [V_MODE]
  tst r1, bmask
  bz write_tail
  mov r2, work
  call edge
  mov r1, 1
  st r1, [V_MODE]
write_tail:
  ld [V_END]
  mov r3, md
  tst r3, bmask
  bz write_start
  ld [file + F_END]
  cmp r3, md
  bnc write_start           ; it reaches the end of the file
  ld [OFFSET]
  andn r1, md, bmask
  andn r2, r3, bmask
  cmp r1, r2
  bnz write_last
  ; The whole write is in one block.
  ld [V_MODE]
  mov r4, md
  cmp r4, 1
  bz write_start
  mov r2, work
  call edge
  mov r1, 1
  st r1, [V_MODE]
  b write_start
write_last:
  mov r1, r3
  ld [V_EDGE]
  mov r2, md
  call edge
  ld [V_MODE]
  mov r1, md
  or r1, 2
  st r1, [V_MODE]
write_start:
  ld [V_EDGE]
  mov r1, md
  do.edges work, r1
  ld [OFFSET]
  mov r1, md
  ld [LENGTH]
  mov r2, md
  ld [V_MODE]
  mov r4, md
  jump r4 + write_modes
write_modes:
  b write_plain
  b write_head
  b write_last_only
  do.writeto r1, r2, 3
  b write_begin
write_plain:
  do.writeto r1, r2, 0
  b write_begin
write_head:
  do.writeto r1, r2, 1
  b write_begin
write_last_only:
  do.writeto r1, r2, 2
write_begin:
  ld [V_END]
  add r3, md, bmask
  andn r3, bmask
  st r3, [V_END]
  andn r1, bmask
  mov nfree, 0
  mov dirty, 1
  ld [file + F_FLAGS]
  tst mdl, 8
  bnz grown                 ; (it returns)
; Writes from r1 to V_END.
write_next:
  call map
  call piece
  do.put r2, r4
  add r1, r4
  ld [V_END]
  cmp r1, md
  bc write_next
  wait sent
  wait written
  b.error fail_device
  ; The file is at least this long now.
  ld [OFFSET]
  mov r1, md
  ld [LENGTH]
  mov r2, md
  add r1, r2
  ld [file + F_END]
  mov r3, md
  cmp r1, r3
  bc write_done
  st r1, [file + F_END]
write_done:
  mov r1, r2
  ret

; Loads the block with byte r1 of the file into memory at r2.
edge:
  st r2, [V_FLAG]
  andn r1, bmask
  sub r3, r0, 1
  cmp r2, work
  bnz edge_map
  mov cgroup, r3
  mov nfree, 0
edge_map:
  call map
  ld [V_FLAG]
  mov r3, md
  wait sent
  do.load r2, r3, RAW
  wait loaded
  b.error fail_device
  ret

; Reserves space for the file up to byte r3.
grow:
  add r3, umask
  bc fail_space
  shr r3, unit
  ld [SB + SB_UNITS]
  cmp md, r3
  bc fail_space
  ld [file + F_ALLOC]
  mov r2, md
  cmp r2, r3
  bnc grown
  sub r3, r2
  st r3, [V_WANT]
  call load_file
grow_more:
  call reserve_once
  ; This operation is complete: an error of the next one does not affect it.
  wait written
  b.error fail_device
  st r0, [V_CHANGING]
  ld [snode + S_ALLOC]
  mov r2, md
  st r2, [file + F_ALLOC]
  ld [file + F_FLAGS]
  mov r2, mdl
  or r2, 4
  stl r2, [file + F_FLAGS]
  ld [V_WANT]
  mov r2, md
  ld [V_GOT]
  sub r2, r2, md
  st r2, [V_WANT]
  bnz grow_more
grown:
  ret

; Reserves space for LENGTH bytes after the written data. The value is the number of bytes that fit.
cmd_reserve:
  call writable
  ld [file + F_END]
  mov r1, md
  ld [LENGTH]
  add r3, r1, md
  bc fail_space
  call grow
  ld [file + F_ALLOC]
  mov r1, md
  shl r1, unit
  ld [file + F_END]
  sub r1, r1, md
  b done
