; SPDX-License-Identifier: Apache-2.0 OR MIT
; Maps with leaves, or that get their first leaf: growth and release at the map's end (R5). FORMAT.md, "Operations".

; One reserve operation for the file in snode, whose slot is full of extents or whose map has leaves: one
; extent, and the leaf pairs that it needs. V_GOT <- how many units. Clobbers r1 to r8.
reserve_deep:
  ; A leaf may be written with the record, never before the mark that the volume is in use.
  ld [SB + SB_STATE]
  tst mdh, 1
  bz deep_in_use
  mov r1, 1
  st r1, [V_CHANGING]
  call mark_in_use
  call order_wait
  st r0, [V_CHANGING]
deep_in_use:
  ld [snode + S_STATE]
  mov r2, mdh
  shr r1, mdl, 8
  and r1, 255
  st r1, [V_LEVEL]
  bz deep_slot
  call tail
  b deep_near
deep_slot:
  shl r3, r2, 4
  add r3, snode
  ld [r3 + S_ENTRIES - 16]
  mov r5, md
  ld [r3 + S_ENTRIES - 8]
  mov r7, mdl
  st r7, [V_LAST]
deep_near:
  ; Can the last extent be continued?
  add r5, r7
  st r5, [V_NEAR]
  ld [V_GUNITS]
  mov r2, md
  shr r1, r5, r2
  st r1, [V_GROUP]
  shl r2, r1, r2
  sub r5, r2
  st r5, [V_AT]
  st r0, [V_PAIRS]
  st r0, [V_KIND]
  ld [V_GROUPS]
  cmp r1, md
  bnc deep_wrapped
  call load_bitmap
  st r0, [V_ROOM]
  call scan
  bz deep_apart
  ; The units of the longer extent must fit into 32 bits.
  ld [V_LAST]
  mov r1, md
  ld [V_WANT]
  add r1, r1, md
  sub r1, r2
  shr r1, 32
  bnz deep_apart
  ld [V_LEVEL]
  cmp md, 0
  bnz deep_take
  mov r1, 1
  st r1, [V_RUNS]
  b reserve_planned
deep_wrapped:
  st r0, [V_GROUP]
deep_apart:
  ; Another extent: finds which nodes it needs, as the number of a row in deep_kinds.
  ld [V_LEVEL]
  mov r1, md
  mov r3, 1
  mov r4, 1
  cmp r1, 0
  bz deep_chosen            ; 1: the slot's extents move to a first leaf
  call leaf_room
  mov r3, 0
  mov r4, 0
  ld [V_LLIVE]
  cmp r2, md
  bnz deep_chosen           ; 0: in the last leaf
  mov r3, 3
  mov r4, 1
  cmp r1, 1
  bz deep_named_by_slot
  ld [V_NLIVE]
  cmp r2, mdl
  bnz deep_chosen           ; 3: a leaf, named by the last index node
deep_named_by_slot:
  call slot_room
  ld [snode + S_STATE]
  sub r2, r2, mdh
  mov r3, 2
  mov r4, 1
  cmp r1, 1
  bnz deep_second
  cmp r2, 0
  bnz deep_chosen           ; 2: a leaf, named by the slot
  mov r3, 4                 ; the slot's index entries move to a first index node, with a leaf
  mov r4, 2
  b deep_chosen
deep_second:
  cmp r2, 0
  bz fail_map
  mov r3, 5                 ; an index node with a leaf
  mov r4, 2
deep_chosen:
  st r3, [V_KIND]
  st r4, [V_PAIRS]
  ld [V_GROUPS]
  mov r1, md
  st r1, [V_TURN]
  ld [V_GROUP]
  mov r1, md
deep_group:
  st r1, [V_GROUP]
  call load_bitmap
  ld [work + B_FREE]
  cmp mdl, 0
  bz deep_over
  ; The bitmap in memory is ahead of the device until all units are found.
  sub cgroup, r0, 1
  mov r3, 0
deep_pair:
  ld [V_PAIRS]
  cmp r3, md
  bnc deep_data
  st r3, [V_RUNS]
  call find_pair
  bnz deep_over
  mov r3, 0
  st r1, [V_FLAG]
  call pair_units
  mov r2, r1
  ld [V_FLAG]
  mov r1, md
  call bits
  call pair_units
  mov r2, r1
  ld [V_RUNS]
  add r3, md, 1
  shl r4, r3, 4
  add r4, SB + SB_RUNS
  ld [V_GROUP]
  mov r5, md
  ld [V_GUNITS]
  shl r5, r5, md
  ld [V_FLAG]
  add r5, r5, md
  st r5, [r4 + 0]
  st r2, [r4 + 8]
  b deep_pair
deep_data:
  mov r1, 1
  st r1, [V_ROOM]
  sub r1, r0, 1
  st r1, [V_NEAR]
  st r0, [V_AT]
  call scan
  bz deep_over
  ld [V_GROUP]
  mov cgroup, md
  b deep_take
deep_over:
  ld [V_TURN]
  sub r2, md, 1
  bz fail_space
  st r2, [V_TURN]
  ld [V_GROUP]
  add r1, md, 1
  ld [V_GROUPS]
  cmp r1, md
  bc deep_group
  mov r1, 0
  b deep_group

; Found: r2 units of V_WANT are still missing.
deep_take:
  ld [V_WANT]
  sub r3, md, r2
  st r3, [V_GOT]
  mov r1, 1
  st r1, [V_CHANGING]
  ld [V_GROUP]
  mov r1, md
  stl r1, [SB + SB_HINT]
  call pair_units
  ld [V_PAIRS]
  mov r2, md
  add r4, r2, 1
  st r4, [V_RUNS]
  ld [work + B_FREE]
  sub r4, mdl, r3
deep_count:
  cmp r2, 0
  bz deep_counted
  sub r4, r1
  sub r2, 1
  b deep_count
deep_counted:
  stl r4, [work + B_FREE]
  mov r3, 0
  call bits_of_runs
  mov r1, 1
  call record
  call order {NodesBeforeReserve}         ; the writes of the last operation, before the pairs written below
  ; The leaves hold nothing that belongs to the file yet, so their order does not matter.
  ld [V_KIND]
  cmp md, 0
  bnz deep_fresh
  call extend_leaf
  ; An entry in the node above that was past the limit would now be within it, and name a leaf that was freed.
  ld [V_LEVEL]
  cmp md, 2
  bnz deep_record
  ld [V_NLIVE]
  mov r1, mdl
  cmp r1, mdh
  bz deep_record
  call last_node
  ld [V_NLIVE]
  mov r3, mdl
  call rewrite_leaf
  b deep_record
deep_fresh:
  call add_leaf
deep_record:
  call write_super
  ld [snode + S_ALLOC]
  mov r1, md
  ld [V_GOT]
  add r1, r1, md
  st r1, [snode + S_ALLOC]
  call order {ReserveBeforeNodes}         ; the record, before the nodes that it governs
  b write_nodes

; Appends the record's first run to the last leaf, which is in SPARE. Clobbers r1 to r8.
extend_leaf:
  wait sent
  ld [V_LLIVE]
  mov r3, md
  shl r4, r3, 4
  add r4, spare             ; L_ENTRIES - 16 from there: the last entry
  ; On the device it may have more entries than belong to the file.
  ld [V_LAST]
  mov r5, md
  stl r5, [r4 + L_ENTRIES - 8]
  ld [SB + SB_RUNS + 8]
  mov r6, mdl
  ld [r4 + L_ENTRIES - 16]
  add r7, r5, md
  ld [SB + SB_RUNS]
  mov r8, md
  cmp r7, r8
  bnz extend_entry
  add r5, r6
  shr r7, r5, 32
  bnz extend_entry
  stl r5, [r4 + L_ENTRIES - 8]
  b extend_cut
extend_entry:
  st r8, [r4 + L_ENTRIES]
  stl r6, [r4 + L_ENTRIES + 8]
  ld [snode + S_ALLOC]
  mov r7, md
  sth r7, [r4 + L_ENTRIES + 8]
  add r3, 1
extend_cut:
  ld [V_LEAF]
  mov r5, md
  b rewrite_leaf

; Adds a leaf for the record's first run, with the slot's extents if V_KIND is 1, at the record's second run, and its
; entry in the node or slot that V_KIND selects. Clobbers r1 to r8.
add_leaf:
  mov r3, 1                 ; level
  ld [V_KIND]
  cmp md, 1
  bz add_moved
  call fresh_leaf
  b add_entry
add_moved:
  call moved_leaf
add_entry:
  ld [SB + SB_RUNS]
  mov r5, md
  ld [SB + SB_RUNS + 8]
  mov r6, mdl
  ld [snode + S_ALLOC]
  shl r7, md, 32
  or r6, r7
  call fresh_entry
  ld [SB + SB_RUNS + 16]
  mov r5, md
  call write_pair
  ; The entry that names the leaf.
  mov r3, 2
  ld [V_KIND]
  mov r1, md
  cmp r1, 3
  bz add_in_node
  cmp r1, 4
  bc add_in_slot
  bz add_moved_node         ; 4 and 5: an index node above it
  call fresh_leaf
  b add_node_entry
add_moved_node:
  call moved_leaf
add_node_entry:
  ld [snode + S_ALLOC]
  mov r5, md
  ld [SB + SB_RUNS + 16]
  mov r6, md
  call fresh_entry
  ld [SB + SB_RUNS + 32]
  mov r5, md
  call write_pair
add_in_slot:
  ; The slot names the node in SPARE.
  wait sent
  ld [spare + L_FIRST]
  mov r3, md
  ld [V_CLEAF]
  mov r5, md
  ld [V_KIND]
  mov r1, md
  cmp r1, 1
  bz add_slot_level
  cmp r1, 4
  bnz add_slot_entry
add_slot_level:
  ; The slot's entries have moved.
  ld [snode + S_STATE]
  mov r1, mdl
  mov r2, mdh
  add r1, 256
  stl r1, [snode + S_STATE]
  sth r0, [snode + S_STATE]
  mov r4, snode
add_slot_zero:
  st r0, [r4 + S_ENTRIES]
  st r0, [r4 + S_ENTRIES + 8]
  add r4, 16
  sub r2, 1
  bnz add_slot_zero
add_slot_entry:
  ld [snode + S_STATE]
  mov r2, mdh
  shl r4, r2, 4
  add r4, snode
  st r3, [r4 + S_ENTRIES]
  st r5, [r4 + S_ENTRIES + 8]
  add r2, 1
  sth r2, [snode + S_STATE]
  ret
; SPARE <- the last index node, r5 <- its unit. Clobbers r1 to r4, r6, r7.
last_node:
  mov r1, 2
  ld [V_NODE]
  mov r5, md
  ld [V_NFIRST]
  mov r4, md
  b load_leaf
add_in_node:
  call last_node
  ld [V_NLIVE]
  mov r3, mdl
  shl r4, r3, 4
  add r4, spare
  ld [snode + S_ALLOC]
  mov r1, md
  st r1, [r4 + L_ENTRIES]
  ld [SB + SB_RUNS + 16]
  mov r1, md
  st r1, [r4 + L_ENTRIES + 8]
  add r3, 1
  b rewrite_leaf

; Like release_once, for the end of a map with leaves: releases part of the last extent, with the leaf and the index node
; if these hold nothing else. Clobbers r1 to r8.
release_deep:
  call tail
  sub r1, r0, 1
  st r1, [V_CLEAF]
  ld [V_GUNITS]
  mov r2, md
  ld [V_KEEP]
  mov r3, md
  mov r1, r5
  cmp r3, r4
  bc release_deep_all
  sub r3, r4
  add r1, r5, r3            ; the end of the units that are kept
release_deep_all:
  add r6, r5, r7            ; the end
  sub r3, r6, 1
  shr r3, r2
  shl r3, r2                ; the first unit of the group
  cmp r3, r1
  bc release_deep_group
  mov r1, r3
release_deep_group:
  sub r6, r1
  st r1, [SB + SB_RUNS]
  st r6, [SB + SB_RUNS + 8]
  mov r8, 1                 ; runs
  ld [snode + S_ALLOC]
  sub r3, md, r6
  st r3, [snode + S_ALLOC]
  call pair_units
  ld [snode + S_STATE]
  mov r4, mdl
  mov r5, mdh
  ld [V_LFIRST]
  cmp r3, md
  bnz release_deep_runs     ; the leaf stays, so the node above it does too
  ld [V_LEAF]
  mov r6, md
  st r6, [SB + SB_RUNS + 16]
  st r1, [SB + SB_RUNS + 24]
  mov r8, 2
  tst r4, 512
  bz release_deep_entry
  ld [V_NFIRST]
  cmp r3, md
  bnz release_deep_runs
  ld [V_NODE]
  mov r6, md
  st r6, [SB + SB_RUNS + 32]
  st r1, [SB + SB_RUNS + 40]
  mov r8, 3
release_deep_entry:
  ; The slot's last entry is not needed any more.
  sub r5, 1
  sth r5, [snode + S_STATE]
  shl r6, r5, 4
  add r6, snode
  st r0, [r6 + S_ENTRIES]
  st r0, [r6 + S_ENTRIES + 8]
release_deep_runs:
  st r8, [V_RUNS]
  cmp r3, 0
  bnz release_deep_check
  li r6, 0x300
  andn r4, r6               ; level 0
  stl r4, [snode + S_STATE]
release_deep_check:
  ; A damaged bitmap is found before the record is written.
  st r0, [V_TURN]
release_deep_look:
  call release_group
  call load_bitmap
  call release_next
  bc release_deep_look
  call release_record
  st r0, [V_TURN]
release_deep_bitmap:
  call release_group
  ; Each group once.
  ld [V_TURN]
  mov r4, md
  li r5, SB
release_deep_before:
  cmp r4, 0
  bz release_deep_bits
  ld [r5 + SB_RUNS]
  shr r3, md, r2
  cmp r3, r1
  bz release_deep_done
  add r5, 16
  sub r4, 1
  b release_deep_before
release_deep_bits:
  call load_bitmap
  call runs_here
  wait sent
  ld [work + B_FREE]
  add r1, r1, mdl
  stl r1, [work + B_FREE]
  mov r3, 1
  call bits_of_runs
  call write_bitmap
release_deep_done:
  call release_next
  bc release_deep_bitmap
  b write_numbered

; r1 <- the group of the record's run V_TURN; r2 <- log2 of a group's units. Clobbers r3.
release_group:
  ld [V_TURN]
  shl r3, md, 4
  ld [V_GUNITS]
  mov r2, md
  add r3, SB + SB_RUNS
  ld [r3 + 0]
  shr r1, md, r2
  ret
; Advances V_TURN; carry: this run exists. Clobbers r1, r2.
release_next:
  ld [V_TURN]
  add r1, md, 1
  st r1, [V_TURN]
  ld [V_RUNS]
  cmp r1, md
  ret

; r1 <- units of the record's runs in the group of WORK. Clobbers r2 to r6.
runs_here:
  mov r1, 0
  ld [V_RUNS]
  mov r2, md
  li r3, SB
  ld [V_GUNITS]
  mov r4, md
  mov r5, cgroup
runs_next:
  ld [r3 + SB_RUNS]
  shr r6, md, r4
  cmp r6, r5
  bnz runs_other
  ld [r3 + SB_RUNS + 8]
  add r1, r1, mdl
runs_other:
  add r3, 16
  sub r2, 1
  bnz runs_next
  ret
