; SPDX-License-Identifier: Apache-2.0 OR MIT
; Leaves: finding the end of a map with leaves, allocating and writing them. FORMAT.md, "File map".

; Finds the end of the map in snode, which has leaves. V_LEAF, V_LFIRST <- its last leaf, which SPARE
; holds afterwards, V_LLIVE <- its entries that belong to the file. Of the index node above it, if there is one: V_NODE,
; V_NFIRST, V_NLIVE (high: all its entries). r4, r5, r7 <- the last extent: its first unit in the file, in the volume, its
; units. Clobbers r1 to r8.
tail:
  ld [snode + S_ALLOC]
  mov r8, md                ; the limit
  ld [snode + S_STATE]
  mov r2, mdh
  shr r1, mdl, 8
  and r1, 255
  add r6, snode, S_ENTRIES
tail_level:
  mov r3, 0
tail_index:
  cmp r3, r2
  bnc tail_named
  ld [r6 + 0]
  mov r7, md
  cmp r7, r8
  bnc tail_named
  mov r4, r7
  ld [r6 + 8]
  mov r5, md
  add r6, 16
  add r3, 1
  b tail_index
tail_named:
  cmp r3, 0
  bz fail_corrupt
  ld [V_PAIRS_END]
  cmp r5, md
  bnc fail_corrupt
  cmp r1, 2
  bz tail_node
  shl r2, 32
  or r3, r2
  st r3, [V_NLIVE]
  st r5, [V_LEAF]
  st r4, [V_LFIRST]
  call load_leaf
  call leaf_age
  mov r3, 0
tail_extent:
  ld [r6 + 8]
  mov r7, mdl
  ld [r6 + 0]
  mov r5, md
  add r3, 1
  add r1, r4, r7
  cmp r1, r8
  bnc tail_end
  mov r4, r1
  add r6, 16
  cmp r3, r2
  bc tail_extent
  b fail_corrupt            ; the map ends too early: the newest member was lost
tail_end:
  sub r7, r8, r4            ; units past the limit do not belong to the file
  st r3, [V_LLIVE]
  st r7, [V_LAST]
  add r1, r5, r7
  bc fail_corrupt
  ld [SB + SB_UNITS]
  cmp md, r1
  bc fail_corrupt
  ret
tail_node:
  st r5, [V_NODE]
  st r4, [V_NFIRST]
  call load_leaf
  call leaf_age
  mov r1, 1
  b tail_level

; Like check_age, for the leaf in SPARE, before a change. Clobbers r5.
leaf_age:
  ld [SB + SB_SEQ]
  mov r5, md
  ld [spare + LAST_OP]
  cmp r5, md
  bc fail_stale
  ret

; r1 <- units of a leaf pair. Clobbers r2.
pair_units:
  mov r1, 1
  add r2, nlog, 1
  cmp r2, unit
  bc pair_is_one
  sub r2, unit
  shl r1, r2
pair_is_one:
  ret

; r2 <- maximum number of entries in a slot.
slot_room:
  mov r2, 1
  shl r2, nlog
  sub r2, S_ENTRIES
  shr r2, 4
  ret

; r2 <- maximum number of entries in a leaf.
leaf_room:
  mov r2, 1
  shl r2, nlog
  sub r2, L_ENTRIES
  shr r2, 4
  ret

; Finds free units for a leaf pair in WORK, aligned to their number. Zero flag: r1 <- the first. Clobbers r2 to
; r8.
find_pair:
  call pair_units
  mov r3, r1                ; units of a pair
  mov r8, 1
  shl r8, nlog
  shr r8, 1
  add r8, work
  ld [V_GUNITS]
  mov r4, md
  mov r5, 1
  shl r4, r5, r4            ; units of a group
  ; A pair's bits in one word; all bits of the word if a pair has more.
  sub r5, r0, 1
  mov r2, 64
  sub r2, r3
  bz find_from
  bc find_from
  shr r5, r2
find_from:
  mov r1, 0
find_next:
  mov r2, r1
find_word:
  shr r6, r2, 6
  shl r6, 3
  add r6, r8
  ld [r6 + 0]
  mov r6, md
  and r7, r2, 63
  shr r6, r7
  tst r6, r5
  bnz find_used
  add r2, 64
  sub r6, r2, r1
  cmp r6, r3
  bc find_word
  tst r0, 0
  ret
find_used:
  add r1, r3
  cmp r1, r4
  bc find_next
  cmp r8, 0
  ret

; Makes SPARE, with r3 entries, the next member of the pair at unit r5, and writes it. Clobbers r1 to r7.
rewrite_leaf:
  stl r3, [spare + L_COUNT]
  call leaf_room
rewrite_zero:
  cmp r3, r2
  bnc rewrite_zeroed
  shl r4, r3, 4
  add r4, spare
  st r0, [r4 + L_ENTRIES]
  st r0, [r4 + L_ENTRIES + 8]
  add r3, 1
  b rewrite_zero
rewrite_zeroed:
  ld [SB + SB_SEQ]
  add r1, md, 1
  st r1, [spare + LAST_OP]
  st r5, [V_CLEAF]
  ld [spare + SEQ]
  add r1, md, 1
  st r1, [spare + SEQ]
; Writes SPARE to the pair at unit r5, as the member that its sequence number selects. Clobbers r1, r2, r7.
write_leaf:
  call leaf_addresses
  ld [spare + SEQ]
  mov r2, md
  tst r2, 1
  bz write_leaf_a
  mov r1, r7
write_leaf_a:
  do.seal r1, spare
  do.store r1, spare
  b stored

; r1, r7 <- addresses of the leaf pair at unit r5. B follows A at half the pair's length: half a unit, or a
; node. Clobbers r2.
leaf_addresses:
  shl r1, r5, unit
  ld [SB + SB_DATA]
  add r1, r1, md
  mov r7, 1
  shl r7, nlog
  mov r2, 1
  shl r2, unit
  shr r2, 1
  cmp r7, r2
  bnc leaf_apart
  mov r7, r2
leaf_apart:
  add r7, r1
  ret

; Makes SPARE an empty leaf of level r3, for the units after the file's last one. Its number is higher than that of any
; leaf that this file can have left there. Clobbers r1, r2, r4.
fresh_leaf:
  wait sent
  sub r1, r0, 1
  st r1, [V_CLEAF]
  mov r4, spare
  mov r1, 1
  shl r1, nlog
  add r1, r4
fresh_zero:
  st r0, [r4 + 0]
  add r4, 8
  cmp r4, r1
  bc fresh_zero
  ld [V_MLEAF]
  mov r1, md
  st r1, [spare + 0]
  ld [SB + SB_SEQ]
  add r1, md, 1
  st r1, [spare + LAST_OP]
  shl r1, 1
  st r1, [spare + SEQ]
  ld [snode + FILE_ID]
  mov r1, md
  st r1, [spare + FILE_ID]
  ld [snode + S_ALLOC]
  mov r1, md
  st r1, [spare + L_FIRST]
  sth r3, [spare + L_COUNT]
  ret

; The same, with the slot's entries, which are all entries of the file. Clobbers r1, r2, r4 to r7.
moved_leaf:
  call fresh_leaf
  st r0, [spare + L_FIRST]
  ld [snode + S_STATE]
  mov r2, mdh
  stl r2, [spare + L_COUNT]
  mov r4, snode
  mov r5, spare
moved_entry:
  ld [r4 + S_ENTRIES]
  mov r6, md
  st r6, [r5 + L_ENTRIES]
  ld [r4 + S_ENTRIES + 8]
  mov r6, md
  st r6, [r5 + L_ENTRIES + 8]
  add r4, 16
  add r5, 16
  sub r2, 1
  bnz moved_entry
  ret

; Appends the entry r5, r6 to SPARE. Clobbers r1, r2.
fresh_entry:
  ld [spare + L_COUNT]
  mov r1, mdl
  shl r2, r1, 4
  add r2, spare
  st r5, [r2 + L_ENTRIES]
  st r6, [r2 + L_ENTRIES + 8]
  add r1, 1
  stl r1, [spare + L_COUNT]
  ret

; Writes SPARE as both members of the new pair at unit r5, so that a remainder of an earlier use is not taken for the newest
; member. Clobbers r1, r2, r7.
write_pair:
  call write_leaf
  wait sent
  ld [spare + SEQ]
  add r1, md, 1
  st r1, [spare + SEQ]
  st r5, [V_CLEAF]
  b write_leaf
