; SPDX-License-Identifier: Apache-2.0 OR MIT
; Files with checksums of their data, which hwfs_sum computes in the stream. FORMAT.md, "Checksums of data".
;
; Let q = b / 2^14, and Q = q rounded down to a multiple of the unit: the number of b's span times the unit. Byte b of the
; data is byte b + Q + unit of the file's units. The checksum of the chunk that begins at b is at Q * 2^14 + q.

; Opens such a file, which is in snode, with flags r3.
open_sums:
  call sums_known_here
  add r3, 7                 ; flag 8 instead of 1
  ld [snode + S_SIZE]
  mov r1, md
  st r1, [file + F_BYTES]
  ld [snode + S_ATTRS]
  mov r1, mdh
  st r1, [file + F_SUM]
  b open_occupy

; Creates such a file, with V_WANT units, as `file`.
create_sums:
  call sums_known_here
  ld [SB + SB_INCOMPAT]
  tst mdl, 1
  bz fail_unsupported
  ld [LENGTH]
  mov r1, md
  call sums_units
  st r1, [V_WANT]
  shl r1, unit
  st r1, [LENGTH]
  b create_search

sums_known_here:
  ld [GEOMETRY]
  tst md, KNOWS_SUMS
  bz fail_unsupported
  ret

; r1 <- units of the file for r1 bytes of data. Clobbers r2.
sums_units:
  cmp r1, 0
  bz sums_units_none
  sub r1, 1
  call sums_place
  shr r1, unit
  add r1, 1
sums_units_none:
  ret

; r1 <- the offset of byte r1 of the data in the file's units. Clobbers r2.
sums_place:
  shr r2, r1, 14
  andn r2, umask
  add r1, r2
  add r1, umask
  add r1, 1
  ret

; Loads the checksum of the chunk with byte r30: r4 <- address in memory of a word with two checksums, which is also in md;
; bit 2 of r1 selects one. If the block was not in memory (V_KEEP): r2 <- its address on the device, r3 <- in memory.
; Clobbers r1 to r8.
sums_block:
  shr r1, r30, 16
  shl r1, 2
  andn r2, r1, umask
  shl r2, 14
  add r1, r2
  andn r3, r1, bmask
  ld [V_KEEP]
  cmp r3, md
  bz sums_there
  st r3, [V_KEEP]
  ld [V_EDGE]
  mov r2, md
  call edge
sums_there:
  shr r1, r30, 16
  shl r1, 2
  and r4, r1, bmask
  ld [V_EDGE]
  add r4, r4, md
  ld [r4]
  ret

; A command for an open file with checksums; r3 has the file's flags.
opened_sums:
  tst r3, 8
  bz fail_open
  ld [file + F_BYTES]
  mov r1, md
  ld [MISC]
  jump mdl + sums_commands - 4
sums_commands:
  b sums_read
  b sums_write
  b sums_reserve
  b sums_commit
  b sums_sync
; Close.
  tst r3, 2
  bz close_place
  call sums_ready
  call commit_durably
  ld [file + F_SIZE]
  mov r1, md
  call sums_units
  b close_keep
sums_sync:
  call sums_ready
  b sync_now
sums_commit:
  call sums_ready
  b commit_now

; Before a commit: sets its size, r1, in the record `file`, and its checksum in snode.
sums_ready:
  tst r3, 2
  bz fail_writable
  st r1, [file + F_END]
  call load_slot
  ld [file + F_SUM]
  mov r1, mdl
  sth r1, [snode + S_ATTRS]
  ret

sums_reserve:
  tst r3, 2
  bz fail_writable
  call sums_grow
  b done_length

; Reserves space for LENGTH bytes of data after r1.
sums_grow:
  ld [LENGTH]
  mov r2, md
  cmp r2, 0
  bz done_zero
  add r1, r2
  bc fail_space
  shr r2, r1, 62
  bnz fail_space
  call sums_units
  shl r3, r1, unit
  b grow

; Writes at r1, the end: no byte is overwritten. One stream, in parts that end with a chunk of 64 KiB or with the command.
sums_write:
  tst r3, 2
  bz fail_writable
  ld [OFFSET]
  cmp md, r1
  bc fail_unsupported
  bnz fail_past
  mov r30, r1               ; the beginning of the part
  call sums_grow
  mov r1, r30
  call sums_place
  st r1, [OFFSET]
  st r1, [file + F_END]
  call write_body
  ld [LENGTH]
  add r31, r30, md          ; the end
sums_write_part:
  li r4, 0xffff
  or r3, r30, r4
  add r3, 1
  cmp r31, r3
  bnc sums_write_cut
  mov r3, r31
sums_write_cut:
  sub r3, r30
  ld [file + F_SUM]
  mov r1, mdl
  do.sum r1, r3, WRITING
  mov r1, r30
  add r30, r3
  call sums_place
  add r3, r1
  add r3, bmask
  andn r3, bmask
  st r3, [V_END]
  andn r1, bmask
  call write_next
  st r30, [file + F_BYTES]
  ld [V_SUM]
  mov r5, mdl
  st r5, [file + F_SUM]
  shl r2, r30, 48
  bnz sums_write_more
  ; The chunk is complete. Its checksum is valid once a commit, which flushes first, covers the data. R6 holds for its
  ; neighbours.
  mov r1, 1
  st r1, [V_CHANGING]
  call mark_in_use
  sub r4, r0, 1
  st r4, [V_KEEP]
  sub r30, 1
  call sums_block
  add r30, 1
  ld [V_SUM]
  mov r5, mdl
  tst r1, 4
  bz sums_low
  sth r5, [r4]
  b sums_store
sums_low:
  stl r5, [r4]
sums_store:
  do.store r2, r3, RAW
  mov dirty, 1
  wait written
  b.error fail_device
  st r0, [V_CHANGING]
  st r0, [file + F_SUM]
sums_write_more:
  cmp r30, r31
  bc sums_write_part
  b done_length

; A read by name.
sums_get:
  call sums_known_here
; Reads in parts as well, so that none crosses a span. A part that is not a whole chunk is compared only if it is the
; last one before the committed end.
sums_read:
  ld [OFFSET]
  mov r30, md               ; the beginning of the part
  ld [LENGTH]
  mov r2, md
  add r3, r30, r2
  bc fail_past
  ld [file + F_SIZE]
  cmp md, r3
  bc fail_past
  cmp r2, 0
  bz done_zero
  do.readto r30, r2, SUMS
  st r3, [V_WANT]           ; the end of the read
  sub r4, r0, 1
  st r4, [V_KEEP]           ; no checksums are in memory
sums_part:
  li r4, 0xffff
  or r31, r30, r4
  add r31, 1                ; the end of the part
  ld [V_WANT]
  cmp md, r31
  bnc sums_whole
  mov r31, md
  ld [file + F_SIZE]
  cmp r31, md
  bnz sums_unknown
  tst r30, r4
  bnz sums_unknown
  ; The checksum of the last part is in the slot.
  call load_file
  ld [snode + S_ATTRS]
  mov r5, mdh
  b sums_known
sums_whole:
  tst r30, r4
  bnz sums_unknown
  call sums_block
  byte r5, md, r1
sums_known:
  li r6, 0x20000            ; compare it
  b sums_told
sums_unknown:
  mov r6, 0
sums_told:
  andn r1, r30, bmask
  sub r3, r31, r1
  add r6, r3
  do.sum r5, r6
  b.error fail_device
  ; The part's offsets in the file's units.
  mov r4, r1
  call sums_place
  sub r4, r1, r4
  add r3, r31, bmask
  andn r3, bmask
  add r3, r4
  st r3, [V_END]
sums_next:
  call map
  call piece
  do.fetch r2, r4
  add r1, r4
  ld [V_END]
  cmp r1, md
  bc sums_next
  mov r30, r31
  ld [V_WANT]
  cmp r30, md
  bc sums_part
  b read_drain
