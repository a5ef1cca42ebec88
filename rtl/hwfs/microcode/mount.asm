; SPDX-License-Identifier: Apache-2.0 OR MIT
; Mounting: the superblocks, the shape, recovery, the index. Unmounting.

cmd_mount:
  wait command
  st r0, [V_EARLY]
  call quiet
  do.abort r0, r0, DROP + FORGET
  call unmounted_now
  st r0, [V_CHANGING]
  mov dirty, 1              ; the content of the device's cache may not be durable
  call forget
  ; No file is open.
  st r0, [V_OPEN]
  st r0, [V_DAMAGED]
  mov r1, 8
  li r2, FILES
clear_files:
  st r0, [r2 + F_FLAGS]
  add r2, 64
  sub r1, 1
  bnz clear_files
  ; The device.
  ld [GEOMETRY]
  mov r1, md
  tst r1, 1
  bz fail_gone
  shr r2, r1, 4
  and r2, 31
  mov r3, 1
  shl r3, r2
  sub bmask, r3, 1
  shr r5, r1, 11
  and r5, 31
  st r5, [V_NMAX]
  ld [LIMITS]
  shl r4, mdl, r2
  st r4, [V_LIMIT]
  ; The last block of a write has a buffer: a block of 64 bytes before the nodes, a longer one
  ; after the index.
  mov r6, mdh
  li r4, EDGE
  cmp r2, 7
  bc mount_edge
  ld [V_INDEX]
  add r4, md, r6
mount_edge:
  st r4, [V_EDGE]
  ; Is the device long enough for two superblocks?
  shr r4, r1, 16
  shl r4, r2
  st r4, [V_T5]             ; bytes of the device
  li r5, 131072
  cmp r4, r5
  bc fail_novolume

  ; Both superblocks are read; the newest valid one is used.
  st r0, [V_SEEN]
  mov r1, 0
  call super_read
  bz mount_no_a
  ld [spare + SB_SEQ]
  add r1, md, 1
  st r1, [V_SEEN]
mount_no_a:
  li r1, 65536
  call super_read
  bz mount_no_b
  ld [V_SEEN]
  mov r3, md
  ld [spare + SB_SEQ]
  add r4, md, 1
  li r1, 65536
  cmp r3, r4
  bc mount_winner
  mov r1, 0
  b mount_winner
mount_no_b:
  ld [V_SEEN]
  mov r3, md
  mov r1, 0
  cmp r3, 0
  bz fail_novolume
mount_winner:
  li r2, SB
  do.load r1, r2, SUPER
  wait loaded
  b.error fail_device
  bn.good fail_corrupt

  ; The shape.
  ld [SB + SB_LOGS]
  mov r1, mdl
  and unit, r1, 255
  shr nlog, r1, 8
  and nlog, 255
  shr r2, r1, 16
  and r2, 255
  mov r3, 1
  shl r3, r2
  sub r3, 1
  st r3, [V_BUCKETS]
  add r3, 1
  shl r3, 3
  st r3, [V_SLOTS]
  add r3, nlog, 2
  st r3, [V_GUNITS]
  call pair_units
  ld [SB + SB_UNITS]
  add r2, md, 1
  sub r2, r1
  bnc mount_pairs
  mov r2, 0
mount_pairs:
  st r2, [V_PAIRS_END]
  ld [SB + SB_SLOTS_A]
  mov slota, md
  ld [SB + SB_SLOTS_B]
  sub delta, md, slota
  ld [SB + SB_VOLUME]
  mov r1, md
  call groups
  st r2, [V_GROUPS]
  mov r1, 1
  shl r1, nlog
  do.shape r1, r0
  ld [SB + SB_UUID]
  mov r1, md
  do.identity r1, r0, FIRST
  ld [SB + SB_UUID + 8]
  mov r1, md
  do.identity r1, r0

  ; Read-only: on request, because of the device, or because of a feature.
  ld [MISC]
  shr r1, md, 4
  and r1, 1
  ld [GEOMETRY]
  shr r2, md, 3
  and r2, 1
  or r1, r2
  ld [SB + SB_RO]
  mov r2, mdh
  cmp r2, 0
  bz mount_features
  mov r1, 1
mount_features:
  add r1, 1
  st r1, [V_T4]             ; 1 or 2: becomes `mounted`
@grown  call table
@grown  ld [V_T4]
@grown  mov r1, md
  cmp r1, 2
  bz mount_index
  ld [SB + SB_STATE]
  mov r2, mdh
  tst r2, 1
  bnz mount_index
  mov r1, 1
  st r1, [V_CHANGING]
  call recover
  st r0, [V_CHANGING]

  ; The index: one byte per slot.
mount_index:
  mov slot, 0
index_next:
  call slot_pair
  bz index_damaged
  st r4, [V_T1]             ; the newest member
  call check_age
  call slot_root
  bnc index_damaged
  call slot_tag
  ld [V_T1]
  shl r2, md, 6
  or r1, r2
  b index_store
index_damaged:
  mov r1, 1
  st r1, [V_DAMAGED]
  li r1, 0xbf
index_store:
  call index_put
  add slot, 1
  ld [V_SLOTS]
  cmp slot, md
  bc index_next
@grown  call leave_out
  call forget
  ; The registers with the shape.
  ld [V_INDEX]
  mov index, md
  ld [V_BUCKETS]
  mov mask, md
  ld [SB + SB_DATA]
  mov dstart, md
  mov bits0, 1
  shl bits0, nlog
  shr bits0, 1
  add bits0, work
  mov umask, 1
  shl umask, unit
  sub umask, 1
  ld [V_T4]
  mov mounted, md
  cmp mounted, 1
  bnz mount_done
  call reap_all
mount_done:
  ld [V_SLOTS]
  mov r1, md                ; the value
  b done

; Marks the contents of the nodes as invalid. Clobbers r3.
forget:
  sub r3, r0, 1
  mov cslot, r3
  mov cgroup, r3
  mov nfree, 0
  st r3, [V_CLEAF]
  ret

; Reads the superblock at r1 into SPARE. Zero flag: it is not a superblock. Clobbers r1 to r8.
super_read:
  do.load r1, spare, SUPER
  wait loaded
  b.error fail_device
  bn.good super_none
  ld [V_MSUPER]
  mov r2, md
  ld [spare + 0]
  cmp r2, md
  bnz super_none
  ; A superblock of another version, or an inconsistent one, is never skipped in favour of the older one.
  ld [spare + SB_VERSION]
  mov r2, mdh
  li r3, 0xffff
  and r2, r3
  cmp r2, 1
  bnz fail_newer
  ld [spare + SB_INCOMPAT]
@plain  shr r2, mdl, 1
@grown  li r2, KNOWN_FEATURES
@grown  andn r2, mdl, r2
  bnz fail_newer
  ld [spare + SB_SEQ]
  shr r2, md, 61
  bnz fail_corrupt
  ld [spare + SB_LOGS]
  mov r1, mdl
  and unit, r1, 255
  cmp unit, 6
  bc fail_corrupt
  cmp unit, 31
  bnc fail_corrupt
  shr nlog, r1, 8
  and nlog, 255
  cmp nlog, 8
  bc fail_corrupt
  cmp nlog, 15
  bnc fail_corrupt
@grown  call features
  ld [V_NMAX]
  cmp md, nlog
  bc fail_unsuitable
  ; The device's blocks are not longer than a node or a unit.
  ld [GEOMETRY]
  shr r2, md, 4
  and r2, 31
  cmp nlog, r2
  bc fail_unsuitable
  cmp unit, r2
  bc fail_unsuitable
  shr r2, r1, 16
  and r2, 255
  cmp r2, 17
  bnc fail_corrupt
  mov r7, 8
  shl r7, r2                ; slots
  ld [LIMITS]
  mov r3, mdh
  cmp r3, r7
  bc fail_unsuitable
  shl r7, nlog              ; bytes of the slots
  ld [spare + SB_VOLUME]
  mov r1, md
  shr r2, r1, 63
  bnz fail_corrupt
  call groups
  shl r2, nlog              ; bytes of the bitmaps
  li r3, 131072
  ld [spare + SB_SLOTS_A]
  cmp r3, md
  bnz fail_corrupt
  add r3, r7
  ld [spare + SB_BITMAP_A]
  cmp r3, md
  bnz fail_corrupt
  add r3, r2
  ld [spare + SB_SLOTS_B]
  cmp r3, md
  bnz fail_corrupt
  add r3, r7
  ld [spare + SB_BITMAP_B]
  cmp r3, md
  bnz fail_corrupt
  add r3, r2
  mov r4, 1
  shl r4, unit
  sub r4, 1
  add r3, r4
  andn r3, r4
  ld [spare + SB_DATA]
  cmp r3, md
  bnz fail_corrupt
  cmp r1, r3
  bc fail_corrupt
  sub r3, r1, r3
  shr r3, unit
  bz fail_corrupt
  ld [spare + SB_UNITS]
  cmp r3, md
  bnz fail_corrupt
  ld [V_T5]
  mov r2, md
  cmp r2, r1
  bc fail_unsuitable        ; the device is shorter than the volume
  cmp r1, 0                 ; not zero: it is a superblock
  ret
super_none:
  tst r0, 0
  ret

; r2 <- groups of a volume of r1 bytes. Clobbers r4.
groups:
  add r4, nlog, 2
  mov r2, 1
  shl r2, r4
  sub r2, 1
  shr r3, r1, unit
  add r2, r3
  shr r2, r4
  ret

cmd_unmount:
  wait command
  mov nfree, 0
  mov r2, mounted
  cmp r2, 0
  bz fail_mount
  ; No file may be open.
  li r3, FILES
  mov r4, 8
unmount_files:
  ld [r3 + F_FLAGS]
  mov r5, mdl
  tst r5, F_IS_OPEN
  bnz fail_inuse
  add r3, 64
  sub r4, 1
  bnz unmount_files
  cmp r2, 2
  bz unmounted
  mov r1, 1
  st r1, [V_CHANGING]
  call order {NodesBeforeClean}
  ld [SB + SB_STATE]
  mov r1, mdh
  tst r1, 1
  bnz unmounted
  ; Both members, one after the other: from then on either may become unreadable.
  call no_operation
  mov r1, 1
  sth r1, [SB + SB_STATE]
  call write_super_as
  call order {CleanBeforeClean}
  call write_super_as
  call order {CleanBeforeAnswer}
unmounted:
  st r0, [V_CHANGING]
  call unmounted_now
  b done_zero
