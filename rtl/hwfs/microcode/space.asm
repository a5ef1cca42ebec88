; SPDX-License-Identifier: Apache-2.0 OR MIT
; Space: bitmaps, and the operations that reserve and release units. FORMAT.md, "Operations".

; A barrier: everything written before it is durable before anything after it is written. Clobbers r1.
order:
  cmp dirty, 0
  bz order_wait
  ld [GEOMETRY]
  tst md, 2
  wait written
  bz ordered                ; no cache
  do.flush r0, r0
  wait flushed
ordered:
  b.error fail_device
  mov dirty, 0
  ret
order_wait:
  wait written
  b.error fail_device
  ret

; Clears the record: no operation. Clobbers r1, r2.
no_operation:
  li r1, SB
  mov r2, 10
no_operation_next:
  st r0, [r1 + SB_KIND]
  add r1, 8
  sub r2, 1
  bnz no_operation_next
  ret

; Marks the volume as in use, before anything in it changes. Clobbers r1, r2.
mark_in_use:
  ld [SB + SB_STATE]
  mov r1, mdh
  tst r1, 1
  bz marked
  call order {CacheBeforeInUse}
  call no_operation
  b write_super
marked:
  ret

; Writes the superblock with its record, marked as in use. Clobbers r1, r2.
write_super:
  ld [SB + SB_STATE]
  tst mdh, 1
  bz write_super_again
  ld [SB + SB_MOUNTS]
  add r1, mdh, 1
  sth r1, [SB + SB_MOUNTS]
write_super_again:
  sth r0, [SB + SB_STATE]
; The same without a change of the state.
write_super_as:
  call seal_super
; The second half of that; r1 is from seal_super.
store_super:
  li r2, SB
  do.store r1, r2, SUPER
  st r0, [V_EARLY]
  mov nfree, 0
  mov dirty, 1
  ret

; Numbers and seals the superblock; r1 <- its address. Clobbers r2.
seal_super:
  ld [SB + SB_SEQ]
  add r1, md, 1
  st r1, [SB + SB_SEQ]
  and r1, 1
  shl r1, 16                ; B is at 65536
  li r2, SB
  do.seal r1, r2, SUPER
  ret

; Writes WORK and snode as the next members of their pairs, with the superblock's number. Clobbers r1 to r5, r7.
write_nodes:
  call write_bitmap
; The same for snode alone. Clobbers r1 to r5.
write_numbered:
  ld [SB + SB_SEQ]
  mov r1, md
  st r1, [snode + LAST_OP]
; Writes snode as slot `slot`'s next member. Clobbers r1 to r5.
write_slot:
  call seal_slot
store_slot:
  do.store r1, snode
  mov cslot, slot
  mov nfree, 0
  mov dirty, 1
  ld [snode + SEQ]
  and r3, md, 1
  b index_member

; The first half of that: r1 <- the slot's address. Clobbers r2, r3.
seal_slot:
  ld [snode + SEQ]
  add r1, md, 1
  st r1, [snode + SEQ]
  and r3, r1, 1
  call slot_address
  do.seal r1, snode
  ret

; r1, r7 <- addresses of the bitmap of group r1. Clobbers r2.
bitmap_addresses:
  shl r2, r1, nlog
  ld [SB + SB_BITMAP_A]
  add r1, r2, md
  add r7, r1, delta
  ret

; Makes WORK hold the bitmap of group r1. Both members must be valid (R7). Clobbers r1 to r8.
load_bitmap:
  cmp r1, cgroup
  bz bitmap_there
  call load_bitmap_pair
  cmp r5, 2
  bnz fail_corrupt
bitmap_there:
  ret
; The same, but one valid member is enough; r5 <- the number of valid members.
load_bitmap_pair:
  ld [V_GROUPS]
  cmp r1, md
  bnc fail_corrupt
  st r1, [V_T1]
  sub cgroup, r0, 1
  mov nfree, 0
  call bitmap_addresses
  mov r2, work
  ld [V_MBITMAP]
  mov r3, md
  call load_pair
  bz fail_corrupt
  ld [V_T1]
  mov r1, md
  ld [work + FILE_ID]       ; the group, in a bitmap
  cmp r1, md
  bnz fail_corrupt
  ; All bits past the volume's last unit must be marked as in use.
  ld [SB + SB_UNITS]
  mov r3, md
  ld [V_GUNITS]
  shl r2, r1, md
  sub r2, r3, r2            ; units from the group's first on
  bnc bitmap_inside
  mov r2, 0
bitmap_inside:
  shr r3, r2, md
  bnz bitmap_right
  mov r3, 1
  shl r3, nlog
  add r6, work, r3          ; the end
  shr r3, 1
  shr r4, r2, 6
  shl r4, 3
  add r4, r3
  add r4, work
bitmap_past:
  ld [r4]
  sub r3, r0, 1
  xor r3, r3, md
  shr r3, r2
  bnz fail_corrupt
  mov r2, 0
  add r4, 8
  cmp r4, r6
  bc bitmap_past
bitmap_right:
  mov cgroup, r1
  ret

; Writes WORK as the next member of its bitmap, with the superblock's number. Clobbers r1, r2, r7.
write_bitmap:
  ld [SB + SB_SEQ]
  mov r1, md
  call seal_bitmap
store_bitmap:
  do.store r1, work
stored:
  mov nfree, 0
  mov dirty, 1
  ret

; The first half of that, for operation r1: r1 <- the bitmap's address. Clobbers r2, r7.
seal_bitmap:
  st r1, [work + LAST_OP]
  ld [work + SEQ]
  add r1, md, 1
  st r1, [work + SEQ]
  mov r1, cgroup
  call bitmap_addresses
  ld [work + SEQ]
  mov r2, md
  tst r2, 1
  bz write_bitmap_a
  mov r1, r7
write_bitmap_a:
  do.seal r1, work
  ret

; Sets (r3 = 0) or clears (r3 = 1) r2 bits of WORK, starting at r1. Clobbers r1, r2, r4 to r8.
bits:
  mov nfree, 0
  mov r4, 1
  shl r4, nlog
  shr r4, 1
  add r4, work
bits_word:
  and r5, r1, 63
  mov r6, 64
  sub r6, r5
  cmp r2, r6
  bnc bits_many
  mov r6, r2
bits_many:
  mov r7, 64
  sub r7, r6
  sub r8, r0, 1
  shr r8, r7
  shr r7, r1, 6
  shl r7, 3
  add r7, r4
  ld [r7 + 0]
  shl r8, r5
  or r5, md, r8
  tst r3, 1
  bz bits_store likely
  andn r5, r8
bits_store:
  st r5, [r7 + 0]
  add r1, r6
  sub r2, r6
  bnz bits_word unlikely    ; most are in one word
  ret

; Sets or clears (r3) in WORK the bits of the record's V_RUNS runs that are in its group. Clobbers r1, r2,
; r4 to r8, V_AT.
bits_of_runs:
  st r0, [V_AT]
bits_run:
  ld [V_AT]
  mov r4, md
  ld [V_RUNS]
  cmp r4, md
  bnc bits_done
  shl r5, r4, 4
  add r5, SB + SB_RUNS
  add r4, 1
  st r4, [V_AT]
  ld [r5 + 8]
  mov r2, mdl
  ld [r5 + 0]
  mov r1, md
  ld [V_GUNITS]
  mov r6, md
  shr r5, r1, r6
  cmp r5, cgroup
  bnz bits_run
  shl r5, r6
  sub r1, r5
  call bits
  b bits_run
bits_done:
  ret

; Sets the record: kind r1, slot `slot`, V_RUNS runs, which are in it already; the runs after them are unused. Clobbers
; r1, r2.
record:
  stl r1, [SB + SB_KIND]
  sth slot, [SB + SB_KIND]
  ld [V_RUNS]
  mov r1, md
  shl r2, r1, 32
  st r2, [SB + SB_SLOT2]
  ret

; One reserve operation for the file in snode: at most V_WANT units, at least one, all in one group.
; V_GOT <- how many. Changes nothing if there is no space. Clobbers r1 to r8.
reserve_once:
  ld [snode + S_STATE]
  mov r4, mdh
  shr r1, mdl, 8
  tst r1, 255
  bnz reserve_deep
  call slot_room
  cmp r4, r2
  bz reserve_deep
  mov r2, r4
  call plan
reserve_planned:
  call take
  call order {NodesBeforeReserve}         ; the writes of the last operation, before the record of the next
  call write_super
  call entries
  call order {ReserveBeforeNodes}         ; the record, before the nodes that it governs
  b write_nodes

; Chooses units for the file in snode, which has r2 entries, and puts them into the record's runs, in
; memory only. r3 <- runs, r2 <- units that are still missing. Fails if no unit is free.
plan:
  ; The free entries of the slot, at most as many as a record has runs.
  mov r3, 1
  shl r3, nlog
  sub r3, S_ENTRIES
  shr r3, 4
  sub r3, r2
  cmp r3, 4
  bc reserve_room
  mov r3, 4
reserve_room:
  st r3, [V_ROOM]
  ; After the file's last extent, or in the next group of a new file's.
  cmp r2, 0
  bz reserve_new
  shl r3, r2, 4
  add r3, snode
  ld [r3 + S_ENTRIES - 16]
  mov r4, md
  ld [r3 + S_ENTRIES - 8]
  add r4, r4, mdl
  st r4, [V_NEAR]
  ld [V_GUNITS]
  mov r5, md
  shr r1, r4, r5
  shl r2, r1, r5
  sub r4, r2
  b reserve_from
reserve_new:
  sub r4, r0, 1
  st r4, [V_NEAR]
  mov r4, 0
  ld [SB + SB_HINT]
  mov r1, mdl
  cmp r1, cgroup
  bnz reserve_from
  ld [V_CURSOR]
  mov r4, md
reserve_from:
  ld [V_GROUPS]
  mov r2, md
  st r2, [V_TURN]
  cmp r1, r2
  bc reserve_group
  mov r1, 0
  mov r4, 0
reserve_group:
  st r1, [V_GROUP]
  st r4, [V_AT]
  call load_bitmap
  ld [work + B_FREE]
  cmp mdl, 0
  bz reserve_over
  call scan
  bnz reserve_found
  ld [V_AT]
  cmp md, 0
  bz reserve_over
  st r0, [V_AT]
  call scan
  bnz reserve_found
reserve_over:
  ld [V_TURN]
  sub r2, md, 1
  bz fail_space
  st r2, [V_TURN]
  ld [V_GROUP]
  add r1, md, 1
  mov r4, 0
  ld [V_GROUPS]
  cmp r1, md
  bc reserve_group
  mov r1, 0
  b reserve_group

reserve_found:
  st r3, [V_RUNS]
  st r1, [V_CURSOR]
  ld [V_GROUP]
  mov r1, md
  stl r1, [SB + SB_HINT]
  ret

; Allocates the planned units in memory: in the bitmap in WORK and the record. V_GOT <- units. r2 is from `plan`.
; Clobbers r1 to r8.
take:
  ld [V_WANT]
  sub r1, md, r2
  st r1, [V_GOT]
  mov r3, 1
  st r3, [V_CHANGING]
  ; From here on the bitmap in memory is ahead of the device.
  ld [work + B_FREE]
  sub r2, mdl, r1
  stl r2, [work + B_FREE]
  mov r3, 0
  call bits_of_runs
  mov r1, 1
  b record

; Adds the record's runs to the slot's entries. Clobbers r1 to r8.
entries:
  mov r3, 0
reserve_entry:
  shl r4, r3, 4
  add r4, SB + SB_RUNS
  ld [r4 + 0]
  mov r5, md                ; first unit
  ld [r4 + 8]
  mov r6, mdl               ; units
  ld [snode + S_STATE]
  mov r7, mdh
  cmp r7, 0
  bz reserve_append
  ; Does the run continue the last extent?
  shl r8, r7, 4
  add r8, snode
  ld [r8 + S_ENTRIES - 16]
  mov r1, md
  ld [r8 + S_ENTRIES - 8]
  mov r2, mdl
  add r1, r2
  cmp r1, r5
  bnz reserve_append
  add r2, r6
  shr r1, r2, 32
  bnz reserve_append
  stl r2, [r8 + S_ENTRIES - 8]
  b reserve_joined
reserve_append:
  shl r8, r7, 4
  add r8, snode
  st r5, [r8 + S_ENTRIES]
  ld [snode + S_ALLOC]
  mov r1, md
  stl r6, [r8 + S_ENTRIES + 8]
  sth r1, [r8 + S_ENTRIES + 8]
  add r7, 1
  sth r7, [snode + S_STATE]
reserve_joined:
  ld [snode + S_ALLOC]
  add r1, r6, md
  st r1, [snode + S_ALLOC]
  add r3, 1
  ld [V_RUNS]
  cmp r3, md
  bc reserve_entry
  ret

; Puts runs of free units in WORK, starting at bit V_AT, into the record, up to V_WANT units. r3 <- runs (zero flag: none),
; r2 <- units that are still missing.
scan:
  ld [V_AT]
  mov r1, md
  ld [V_WANT]
  mov r2, md
  mov r3, 0
  mov r4, 1
  shl r4, nlog
  shr r4, 1
  add r4, work
scan_run:
  ld [V_GUNITS]
  mov r8, md
  shr r6, r1, r8
  bnz scan_end
  shr r6, r1, 6
  shl r6, 3
  add r6, r4
  ld [r6 + 0]
  sub r5, r0, 1
  xor r5, r5, md
  and r6, r1, 63
  shr r5, r6                ; free units are ones, the first in bit 0
  bnz scan_free
  or r1, 63
  add r1, 1
  b scan_run
scan_free:
  ctz r6, r5
  add r1, r6
  shr r5, r6
  mov r7, r1
  ; A first run that continues the file's last extent needs no entry.
  cmp r3, 0
  bnz scan_apart
  ld [V_GROUP]
  shl r6, md, r8
  add r6, r7
  ld [V_NEAR]
  cmp r6, md
  bnz scan_apart
  ld [V_ROOM]
  add r6, md, 1
  st r6, [V_ROOM]
scan_apart:
  ld [V_ROOM]
  cmp r3, md
  bnc scan_end
scan_extend:
  sub r6, r0, 1
  xor r6, r5
  ctz r6, r6
  cmp r6, r2
  bc scan_most
  mov r6, r2
scan_most:
  add r1, r6
  sub r2, r6
  bz scan_close
  tst r1, 63
  bnz scan_close
  shr r6, r1, r8
  bnz scan_close
  shr r6, r1, 6
  shl r6, 3
  add r6, r4
  ld [r6 + 0]
  sub r5, r0, 1
  xor r5, r5, md
  tst r5, 1
  bnz scan_extend
scan_close:
  shl r6, r3, 4
  add r6, SB + SB_RUNS
  ld [V_GROUP]
  shl r5, md, r8
  add r5, r7
  st r5, [r6 + 0]
  sub r5, r1, r7
  st r5, [r6 + 8]
  add r3, 1
  cmp r2, 0
  bz scan_end
  cmp r3, 4
  bc scan_run
scan_end:
  cmp r3, 0
  ret

; One release operation for the file in snode: releases units from its end, until V_KEEP are left, the record is
; full, or a group ends. A slot in the state `reap` becomes free with its last unit. V_CHANGING stays set until
; the caller knows that everything is written. Clobbers r1 to r8.
release_once:
  wait sent                 ; the previous release may still be storing the slot
  mov r1, 1
  st r1, [V_CHANGING]
  st r0, [V_GOT]
  mov r3, 0
release_run:
  ld [snode + S_STATE]
  mov r2, mdh
  shr r1, mdl, 8
  tst r1, 255
  bnz release_deep
  cmp r2, 0
  bz release_counted
  ld [snode + S_ALLOC]
  mov r6, md
  ld [V_KEEP]
  mov r1, md
  cmp r1, r6
  bnc release_counted
  shl r8, r2, 4
  add r8, snode
  ld [r8 + S_ENTRIES - 16]
  mov r4, md                ; first unit
  ld [r8 + S_ENTRIES - 8]
  mov r5, mdl               ; units
  ; The end of the kept units in this extent.
  sub r7, r6, r5            ; its first unit in the file
  cmp r7, r1
  bc release_part
  mov r1, r7
release_part:
  sub r1, r7
  add r1, r4                ; the first unit to release
  add r7, r4, r5            ; the end
  sub r6, r7, 1
  ld [V_GUNITS]
  mov r2, md
  shr r6, r2                ; the group
  cmp r3, 0
  bz release_first
  ld [V_GROUP]
  cmp r6, md
  bnz release_counted
release_first:
  st r6, [V_GROUP]
  shl r6, r2
  cmp r6, r1
  bc release_inside
  mov r1, r6
release_inside:
  sub r7, r1                ; units to release
  shl r6, r3, 4
  add r6, SB + SB_RUNS
  st r1, [r6 + 0]
  st r7, [r6 + 8]
  add r3, 1
  ld [V_GOT]
  add r1, r7, md
  st r1, [V_GOT]
  ld [snode + S_ALLOC]
  sub r6, md, r7
  st r6, [snode + S_ALLOC]
  sub r5, r7
  bz release_entry
  stl r5, [r8 + S_ENTRIES - 8]
  b release_more
release_entry:
  st r0, [r8 + S_ENTRIES - 16]
  st r0, [r8 + S_ENTRIES - 8]
  ld [snode + S_STATE]
  sub r2, mdh, 1
  sth r2, [snode + S_STATE]
release_more:
  cmp r3, 4
  bc release_run
release_counted:
  st r3, [V_RUNS]
  ; A damaged bitmap is found before the record is written.
  ld [V_GROUP]
  mov r1, md
  call load_bitmap
  call release_record
  ld [work + B_FREE]
  mov r1, mdl
  ld [V_GOT]
  add r1, r1, md
  stl r1, [work + B_FREE]
  mov r3, 1
  call bits_of_runs
  b write_nodes

; Writes the record of a release, whose runs are in it, and makes it durable. A slot in the state `reap` that has no unit
; any more becomes free: its older member with the record, its newest one later, in place (R9). Clobbers r1 to r5.
release_record:
  mov r1, 2
  call record
  call order {NodesBeforeRelease}         ; the writes of the last operation, before the record
  ld [snode + S_ALLOC]
  cmp md, 0
  bnz release_super
  ld [snode + S_STATE]
  and r1, mdl, 255
  cmp r1, 2
  bnz release_super
  call zero_slot
  call write_older
release_super:
  call write_super
  b order {ReleaseBeforeNodes}            ; the record and the older member, before the nodes that the record governs

; Writes snode as slot `slot`'s older member, with the number before the newest one's: the next write is that of the newest
; one, in place, with its own number. Clobbers r1 to r5.
write_older:
  ld [snode + SEQ]
  sub r1, md, 2
  st r1, [snode + SEQ]
  b write_slot

; Makes snode a free slot; SEQ and LAST_OP stay. The bytes after its entries are zero already. Clobbers r1, r2.
zero_slot:
  ld [snode + S_STATE]
  mov r1, mdh
  cmp r1, 0
  bz zero_header
  mov r2, snode
zero_entry:
  st r0, [r2 + S_ENTRIES]
  st r0, [r2 + S_ENTRIES + 8]
  add r2, 16
  sub r1, 1
  bnz zero_entry
zero_header:
  st r0, [snode + 24]
  st r0, [snode + 32]
  st r0, [snode + 40]
  st r0, [snode + 48]
  st r0, [snode + 56]
  st r0, [snode + 64]
  st r0, [snode + 72]
; The name's eight words.
zero_name:
  st r0, [snode + S_NAME + 0]
  st r0, [snode + S_NAME + 8]
  st r0, [snode + S_NAME + 16]
  st r0, [snode + S_NAME + 24]
  st r0, [snode + S_NAME + 32]
  st r0, [snode + S_NAME + 40]
  st r0, [snode + S_NAME + 48]
  st r0, [snode + S_NAME + 56]
  ret
