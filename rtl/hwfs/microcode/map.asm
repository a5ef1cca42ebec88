; SPDX-License-Identifier: Apache-2.0 OR MIT
; A file's map: the address in the volume of a byte of the file.

; Looks up byte r1 of `file`: r2 <- its address, r4 <- how many bytes are contiguous from there. Keeps r1.
; Clobbers r3 to r8 and, if the extent is not the one in the file's record, V_T1 to V_T5.
map:
  shr r3, r1, unit
  ld [file + F_LOGICAL]
  mov r4, md
  ld [file + F_UNITS]
  add r6, r4, md
  cmp r3, r4
  bc map_find
  cmp r3, r6
  bnc map_find
  shl r6, unit
  shl r4, unit
  sub r2, r1, r4            ; bytes into the extent
  sub r4, r6, r1
  ld [file + F_START]
  mov r5, md
  shl r5, unit
  add r2, r5
  ld [SB + SB_DATA]
  add r2, r2, md
  ret
map_find:
  st r1, [V_T1]
  st r3, [V_T2]
  ld [file + F_SLOT]
  mov slot, mdh
  cmp slot, cslot
  bz map_there
  ; A read can use a slot with the marks of earlier reads, a change cannot.
  add r2, slot, 2
  add r2, cslot
  bnz map_load
  call reading
  bz map_there
map_load:
  call load_slot
map_there:
  call find_extent
  ld [V_T1]
  mov r1, md
  b map

; Zero flag: the command is a read. Clobbers r7.
reading:
  ld [MISC]
  and r7, md, 15
  cmp r7, 4
  bz reading_is
  cmp r7, 13                ; by name
reading_is:
  ret

; Loads the extent with unit V_T2 of the file in snode into its record.
find_extent:
  ld [V_T2]
  mov r3, md
  ld [file + F_ALLOC]
  mov r8, md                ; the limit
  ld [snode + S_STATE]
  mov r2, mdh
  mov r1, mdl
  shr r1, 8
  add r6, snode, S_ENTRIES
  mov r4, 0                 ; first unit in the file
  cmp r2, 0
  bz fail_corrupt
  and r1, 255
  bz find_scan
  ; A read marks what it finds about the pairs that a node in memory names: bit 63, and bit 62 where member B is
  ; the newest. A slot with marks is not `cslot`: a command that changes the file loads it again.
  cmp slot, cslot
  bnz find_level            ; it has them already
  call reading
  bnz find_level
  call unmarked
  sub cslot, r0, slot
  sub cslot, 2
find_level:
  ; The last index entry at or before the unit; the next one is a limit.
  sub r5, r0, 1
find_index:
  ld [r6 + 0]
  mov r7, md
  cmp r3, r7
  bc find_past
  mov r4, r7
  ld [r6 + 8]
  mov r5, md
  add r6, 16
  sub r2, 1
  bnz find_index
  b find_leaf
find_past:
  cmp r7, r8
  bnc find_leaf
  mov r8, r7
find_leaf:
  mov r7, 0
  cmp slot, cslot
  bz find_unmarked
  shr r7, r5, 62            ; the marks
  shl r5, 2
  shr r5, 2
find_unmarked:
  ld [V_PAIRS_END]
  cmp r5, md
  bnc fail_corrupt
  cmp slot, cslot
  bz find_changing
  sub r6, 8                 ; their address
  call load_below
  b find_down
find_changing:
  call load_leaf
find_down:
  sub r1, 1
  bnz find_level
find_scan:
  ld [r6 + 8]
  mov r7, mdl
  add r5, r4, r7
  cmp r3, r5
  bc find_found
  mov r4, r5
  add r6, 16
  sub r2, 1
  bnz find_scan
  b fail_corrupt
find_found:
  cmp r5, r8
  bc find_whole
  mov r5, r8                ; units past the limit do not belong to the file
find_whole:
  cmp r3, r5
  bnc fail_corrupt
  sub r7, r5, r4
  ld [r6 + 0]
  mov r1, md
  ld [SB + SB_UNITS]
  mov r2, md
  cmp r2, r1
  bc fail_corrupt
  sub r2, r1
  cmp r2, r7
  bc fail_corrupt
  st r4, [file + F_LOGICAL]
  st r1, [file + F_START]
  st r7, [file + F_UNITS]
  ret

; Like load_leaf, for a read: r6 is the address of the pair's unit, r7 its marks. An index node is loaded to WORK, and
; stays there while leaves are loaded to SPARE.
load_below:
  cmp r1, 2
  bnz load_marked
  add r2, r5, 2
  add r2, cgroup
  bz below_there
  sub cgroup, r0, 1
  mov nfree, 0
  mov r2, work
  call load_either
  mov r7, work
  call node_there
  sub cgroup, r0, r5
  sub cgroup, 2
; The r2 entries at r6 have no marks: a unit that looks like a mark is replaced by another one outside the volume.
; Clobbers r5, r7.
unmarked:
  ld [SB + SB_UNITS]
  mov r5, md
  shl r7, r2, 4
  add r7, r6
unmarked_next:
  sub r7, 16
  ld [r7 + 8]
  cmp md, r5
  bc unmarked_unit
  st r5, [r7 + 8]
unmarked_unit:
  cmp r6, r7
  bc unmarked_next
  ret
below_there:
  mov r7, work
  b node_there

; Makes SPARE hold the leaf of level r1 whose pair starts at unit r5 and whose first unit is r4. r2 <- the number
; of its entries, r6 <- their address. Keeps r1, r3, r4, r5, r8.
load_leaf:
  li r6, V_NOWHERE
  mov r7, 0
load_marked:
  ld [V_CLEAF]
  cmp r5, md
  bz leaf_there
  sub r2, r0, 1
  st r2, [V_CLEAF]
  mov r2, spare
  call load_either
  st r5, [V_CLEAF]
leaf_there:
  mov r7, spare
; Checks the node at r7 against the entry that names it.
node_there:
  ld [r7 + L_COUNT]
  mov r2, mdl
  cmp r1, mdh
  bnz fail_corrupt
  cmp r2, 0
  bz fail_corrupt
  mov r6, 1
  shl r6, nlog
  sub r6, L_ENTRIES
  shr r6, 4
  cmp r6, r2
  bc fail_corrupt
  ld [r7 + L_FIRST]
  cmp r4, md
  bnz fail_corrupt
  add r6, r7, L_ENTRIES
  ret

; Finds the newest member of each pair that the slot in snode names, so that a read fetches only that one. A pair that
; cannot be read is left unmarked: the read that needs it reports the error. Clobbers r1 to r8, V_T1, V_T3.
learn:
  ld [snode + S_STATE]
  mov r2, mdh
  cmp r2, 0
  bz learnt
  add r6, snode, S_ENTRIES
  call unmarked
  sub cslot, r0, slot
  sub cslot, 2
  sub r1, r0, 1
  st r1, [V_CLEAF]
  ld [snode + FILE_ID]
  mov r1, md
  st r1, [V_FILEID]
  add r8, r6, 8             ; address of a pair's unit
  shl r2, 4
  add r2, r8
  st r2, [V_T3]
learn_next:
  ld [r8]
  mov r5, md
  ld [V_PAIRS_END]
  cmp r5, md
  bnc learn_over
  call leaf_addresses
  mov r2, spare
  ld [V_MLEAF]
  mov r3, md
  mov r4, 0
  st r0, [V_T1]
learn_member:
  wait sent                 ; a store may still read that memory
  do.load r1, r2
  wait loaded
  b.error learn_unread
  bn.good learn_other
  call load_right
  bz learn_other
  ld [V_T1]
  cmp r6, md
  bc learn_other            ; A is the newer
  st r6, [V_T1]
  add r5, r4, 2
  shl r5, 62
  ld [r8]
  shl r6, md, 2
  shr r6, 2
  or r5, r6
  st r5, [r8]
learn_other:
  mov r1, r7
  xor r4, 1
  bnz learn_member
learn_over:
  add r8, 16
  ld [V_T3]
  cmp r8, md
  bc learn_next
learnt:
  ret
learn_unread:
  do.abort r0, r0, FORGET
  ld [r8]
  shl r5, md, 2
  shr r5, 2
  st r5, [r8]
  b learn_over

; Loads the newest member of the pair at unit r5 into memory at r2: one fetch if the marks r7 give it; if
; not, sets the marks in [r6]. Keeps r1, r3 (which is V_T2), r4, r5, r8.
load_either:
  st r1, [V_T3]
  st r4, [V_T4]
  st r8, [V_T5]
  st r5, [V_S8]
  st r2, [V_INTO]
  st r6, [V_MARKS]
  ld [snode + FILE_ID]
  mov r2, md
  st r2, [V_FILEID]
  and r4, r7, 1
  mov r8, r7
  call leaf_addresses
  ld [V_INTO]
  mov r2, md
  ld [V_MLEAF]
  mov r3, md
  cmp r8, 0
  bz either_pair
  cmp r4, 0
  bz either_member
  mov r8, r1
  mov r1, r7
  mov r7, r8
either_member:
  call load_node
  bnz either_loaded
  call pair_other           ; this member is not valid any more
  b either_valid
either_pair:
  call load_pair
either_valid:
  cmp r5, 0
  bz fail_corrupt
either_loaded:
  ld [V_S8]
  mov r5, md
  add r4, 2
  shl r4, 62
  or r4, r5
  ld [V_MARKS]
  mov r1, md
  st r4, [r1]
  ld [V_T2]
  mov r3, md
  ld [V_T3]
  mov r1, md
  ld [V_T4]
  mov r4, md
  ld [V_T5]
  mov r8, md
  ret
