; SPDX-License-Identifier: Apache-2.0 OR MIT
; Format 1.1. Tables that have grown (FORMAT.md, "Grown tables"): where their slots are, and which buckets a name has. Long names. Only in the second
; program (assemble.py).

; The end of a read.
read_drain_any:
  wait taken
  b.error fail_device
  do.respond r1, r0
  b main_any

; --- At mount ---

; Reads the table node, if there is one: the number of slots, and where those are that were added. Their extents are in the
; index's last 256 bytes, which the slots of such a volume cannot use. Clobbers r1 to r8, V_T1.
table:
  ld [V_SLOTS]
  mov r1, md
  st r1, [V_FORMAT]
  ld [SB + SB_INCOMPAT]
  tst mdl, GROWN
  bz table_none
  ld [LIMITS]
  mov r1, mdh
  sub r1, 256
  bc fail_unsuitable
  st r1, [V_T1]             ; slots that the index has room for
  andn r2, r1, 7
  ld [V_INDEX]
  add r2, r2, md
  st r2, [V_TABLE]
  call pair_units
  sub r1, 1
  ld [SB + SB_TABLE]
  mov r5, mdh
  tst r5, r1
  bnz fail_corrupt
  ld [V_PAIRS_END]
  cmp r5, md
  bnc fail_corrupt
  call table_pair
  bz fail_corrupt
  call check_age
  ld [snode + S_STATE]
  cmp mdl, 3                ; a table node, its extents in it, no name
  bnz fail_corrupt
  mov r2, mdh
  cmp r2, 17
  bnc fail_corrupt
  mov r3, 1
  shl r3, nlog
  sub r3, S_ENTRIES - 16
  shr r3, 4                 ; one more than the maximum
  cmp r2, r3
  bnc fail_corrupt
  mov r1, 0
  call slot_map
  bnc fail_corrupt
  ; The extents, the last one first: r3 is the next one's first bucket.
  ld [snode + S_STATE]
  mov r2, mdh
  shl r6, r2, 4
  ld [V_TABLE]
  add r6, r6, md
  mov r5, snode
  add r8, nlog, 4           ; log2 of a bucket
  ld [V_BUCKETS]
  add r3, md, 1
table_extent:
  cmp r2, 0
  bz table_listed
  ld [r5 + S_ENTRIES]
  shr r1, md, 32
  bnz fail_corrupt          ; it begins below unit 2^32
  mov r1, md
  ld [r5 + S_ENTRIES + 8]
  mov r4, mdl
  shl r1, unit
  ld [SB + SB_DATA]
  add r1, r1, md
  shl r7, r3, r8
  sub r1, r7
  sub r6, 16
  st r1, [r6 + 8]
  shl r1, r3, 3
  st r1, [r6 + 0]
  shl r4, unit
  shr r4, r8
  add r3, r4
  add r5, 16
  sub r2, 1
  b table_extent
table_listed:
  ld [snode + S_SIZE]
  shr r4, md, r8
  shl r1, r4, r8
  cmp r1, md
  bnz fail_corrupt          ; whole buckets
  ld [V_BUCKETS]
  add r4, r4, md
  add r4, 1
  cmp r3, r4
  bc fail_corrupt           ; for which the extents have room
  shl r1, r4, 3
  ld [V_T1]
  cmp md, r1
  bc fail_unsuitable
  sub r2, r1, 1
  shr r2, 19
  bnz fail_unsuitable       ; identities of files have another form from there on
  ld [V_BUCKETS]
  add r2, md, 1
  cmp r2, r4
  bz table_none             ; none was added
  st r1, [V_SLOTS]
  st r4, [V_GROWN]
  ; Extents that have no bucket yet are left out.
table_unused:
  ld [r6 + 0]
  cmp md, r1
  bc table_used
  add r6, 16
  b table_unused
table_used:
  st r6, [V_TABLE]
  ld [r6 + 0]
  mov r2, md
  st r2, [V_FAR]
  ld [r6 + 8]
  mov r2, md
  st r2, [V_FAR_AT]
  ; The least power of two that is not below the number of buckets, minus one.
  ld [V_BUCKETS]
  mov r2, md
table_mask:
  add r3, r2, 1
  cmp r3, r4
  bnc table_masked
  shl r2, 1
  add r2, 1
  b table_mask
table_masked:
  st r2, [V_BUCKETS]
table_none:
  ret

; Loads the table node into snode. r4 <- the newest member; zero flag: none is valid. Clobbers r1 to r8.
table_pair:
  ld [SB + SB_TABLE]
  mov r5, mdh
  call leaf_addresses
  mov r2, snode
  ld [V_MSLOT]
  mov r3, md
  b load_pair

; Who may not write takes the old slot of a rename that happened, and of a move, for free, as recovery would make it. Clobbers
; r1 to r8.
leave_out:
  ld [V_T4]
  cmp md, 2
  bnz left_in
  ld [SB + SB_STATE]
  tst mdh, 1
  bnz left_in
  ld [SB + SB_KIND]
  cmp mdl, 3
  bnz left_in
  mov slot, mdh
  st slot, [V_FROM]
  ld [V_SLOTS]
  cmp slot, md
  bnc left_in
  ld [SB + SB_SLOT2]
  mov slot, mdl
  ld [V_SLOTS]
  cmp slot, md
  bnc left_in
  call slot_pair
  bz left_in                ; unreadable: whoever needs it is told
  call is_older
  bc left_in
  ld [V_FROM]
  mov slot, md
  call slot_pair
  bz left_in
  call is_older
  bnc left_in
  mov r1, 0
  b index_put
left_in:
  ret
; Carry: the slot in snode does not have the number of the superblock's operation, nor a higher one. Clobbers r1.
is_older:
  ld [SB + SB_SEQ]
  mov r1, md
  ld [snode + LAST_OP]
  cmp md, r1
  ret

; --- Recovery ---

; The slot of the record, of kind r1, may also be the table node; or one that a rename freed, whose bucket was taken away since.
record_bound:
  ld [V_SLOTS]
  cmp slot, md
  bc record_bounded
  ld [SB + SB_INCOMPAT]
  tst mdl, GROWN
  bz fail_corrupt
  cmp r1, 3
  bz record_bounded
  li r2, 1
  shl r2, 30
  sub r2, 1
  cmp slot, r2
  bnz fail_corrupt
record_bounded:
  ret

; Writes the table node's other member like the newest one: an older size would hide a bucket. Neither was written since the
; flush with which recovery began (R3). Clobbers r1 to r8.
settle_table:
  ld [SB + SB_INCOMPAT]
  tst mdl, GROWN
  bz table_settled
  call table_pair
  bz fail_corrupt
  ld [snode + SEQ]
  add r6, md, 1
  st r6, [snode + SEQ]
  ld [SB + SB_TABLE]
  mov r5, mdh
  call leaf_addresses
  tst r6, 1
  bz settle_member
  mov r1, r7
settle_member:
  do.seal r1, snode
  do.store r1, snode
  mov dirty, 1
table_settled:
  ret

; --- Names of more than 64 bytes: their files stay as they are, and are not found ---

; The superblock in SPARE: with this feature, nodes have at least 512 bytes.
features:
  ld [spare + SB_INCOMPAT]
  tst mdl, LONG_NAMES
  bz featured
  cmp nlog, 9
  bc fail_corrupt
featured:
  ret

; The same as slot_root for a name of r3 bytes: the entries begin behind it.
root_long:
  ld [SB + SB_INCOMPAT]
  tst mdl, LONG_NAMES
  bz slot_outside
  add r3, 15
  andn r3, 15
  sub r3, 64                ; how much later
  ld [snode + S_STATE]
  and r1, mdl, 255
  cmp r1, 3
  bnc slot_outside
  mov r2, mdh
  shr r4, r2, 9             ; (no overflow below)
  bnz slot_outside
  shr r1, mdl, 8
  and r1, 255
  cmp r1, 3
  bnc slot_outside
  add r4, snode, r3
  shl r2, 4
  add r3, r2
  add r3, S_ENTRIES - 1
  shr r3, nlog
  bnz slot_outside          ; more entries than there is room for
  add r2, r4
  cmp r1, 0
  b slot_entries

; Makes snode a free slot, whatever it had; SEQ and LAST_OP stay. Clobbers r1 to r3.
zero_node:
  mov r1, 1
  shl r1, nlog
  add r1, snode
  mov r2, snode
zero_word:
  st r0, [r2 + 24]
  add r2, 8
  add r3, r2, 24
  cmp r3, r1
  bc zero_word
  ret

; --- The addresses of slots that were added ---

; The same as slot_address. Clobbers r2.
slot_address_far:
  ld [V_TABLE]
  mov r2, md
address_extent:
  ld [r2 + 0]
  cmp slot, md
  bnc address_there likely
  add r2, 16
  b address_extent
address_there:
  ld [r2 + 8]
  andn r1, slot, 7          ; both members of the buckets before are in front of it
  add r1, slot
  shl r1, nlog
  add r1, r1, md
  cmp r3, 0
  bz address_a
  mov r2, 8
  shl r2, nlog
  add r1, r2
address_a:
  ret

; The same as slot_addresses. Of a slot that does not exist, it is the table node's. Clobbers r2, r3, r5.
slot_addresses_far:
  ld [V_SLOTS]
  cmp slot, md
  bnc addresses_table
  mov r3, 0
  call slot_address_far
  mov r2, 8
  shl r2, nlog
  add r7, r1, r2
  ret
addresses_table:
  ld [SB + SB_TABLE]
  mov r5, mdh
  b leaf_addresses

; The same as slot_begin.
slot_begin_far:
  andn r1, slot, 7          ; as above
  ld [V_FAR]
  cmp slot, md
  bc begin_before
  add r2, r1, slot
  shl r2, nlog
  ld [V_FAR_AT]
begin_there:
  add r2, r2, md
  add r1, index
  ld [r1]
  byte r1, md, slot
  tst r1, 64
  bz begin_far_a
  mov r1, 8
  shl r1, nlog
  add r2, r1
begin_far_a:
  do.load r2, snode
  sub cslot, r0, 1
  ret
begin_before:
  ld [V_TABLE]
  mov r2, md
begin_extent:
  add r2, 16
  ld [r2 + 0]
  cmp slot, md
  bc begin_extent unlikely
  ld [r2 + 8]
  add r2, r1, slot
  shl r2, nlog
  b begin_there

; The same as short_slot. Clobbers r1, r2.
short_slot_far:
  andn r1, slot, 7
  add r1, slot
  shl r1, nlog
  ld [V_FAR]
  cmp slot, md
  bc short_before
  ld [V_FAR_AT]
short_there:
  add r7, r1, md
  ld [snode + SEQ]
  tst md, 1
  bz short_far_a
  mov r2, 8
  shl r2, nlog
  add r7, r2
short_far_a:
  do.seal r7, snode
  ret
short_before:
  ld [V_TABLE]
  mov r2, md
short_extent:
  add r2, 16
  ld [r2 + 0]
  cmp slot, md
  bc short_extent unlikely
  ld [r2 + 8]
  b short_there

; --- Finding a name ---

; The same as search.
search_grown:
  cmp r7, 0
  bz fail_name
  cmp r7, 65
  bnc fail_name
  shr r2, r1, 32
  bnz fail_name
  st r1, [V_T1]
  ; If no bucket has the tag, nothing is read.
  tag r5, r1
  call buckets
  add r4, index, r8
  ld [r4]
  mov r4, md
  add r2, index, r3
  ld [r2]
  mov r2, md
  match r1, r4, r5
  bnz grown_nodes
  match r1, r2, r5
  bnz grown_nodes
  ld [V_DAMAGED]
  cmp r0, md
  bnz grown_nodes
  call parent
  bz search_choose
  add r1, index
  ld [r1]
  match r1, md, r5
  bz search_choose
grown_nodes:
  call buckets
  shr r8, 3
  call search_bucket
  bnz search_found
  call buckets
  cmp r8, r3
  bz grown_parent
  shr r8, r3, 3
  call search_bucket
  bnz search_found
grown_parent:
  call buckets
  call parent
  bz grown_free
  shr r8, r1, 3
  call search_bucket
  bnz search_found
; The name is in none of them. A damaged slot may be the one searched for.
grown_free:
  call buckets
  ld [V_DAMAGED]
  cmp r0, md
  bz grown_sound
  call parent
  bz grown_two
  add r1, index
  ld [r1]
  mov r1, md
  call bucket_damage
grown_two:
  add r1, index, r8
  ld [r1]
  mov r1, md
  call bucket_damage
  add r1, index, r3
  ld [r1]
  mov r1, md
  call bucket_damage
grown_sound:
  add r4, index, r8
  ld [r4]
  mov r4, md
  add r2, index, r3
  ld [r2]
  mov r2, md
  b search_choose

; r8, r3 <- eight times the numbers of the buckets of the hash V_T1. Clobbers r1.
buckets:
  shr r1, mask, 1
  ld [V_T1]
  and r8, mask, md
  shr r3, md, 16
  and r3, mask
  ld [V_GROWN]
  cmp r8, md
  bc bucket_first
  and r8, r1
bucket_first:
  cmp r3, md
  bc bucket_second
  and r3, r1
bucket_second:
  shl r8, 3
  shl r3, 3
  ret

; If one of the buckets r8 and r3 is the last one, its split may not be complete: r1 <- eight times the number of its parent,
; zero flag clear. Otherwise the zero flag is set. Clobbers nothing else.
parent:
  ld [V_GROWN]
  sub r1, md, 1
  shl r1, 3
  cmp r1, r8
  bz parent_of_last
  cmp r1, r3
  bz parent_of_last
  tst r0, 0
  ret
parent_of_last:
  sub r1, mask              ; its highest bit, times eight, is four times the mask plus one
  sub r1, mask
  sub r1, mask
  sub r1, mask
  sub r1, 4
  cmp r0, 1
  ret

; Commands on such a volume: those with a fast path have another one.
main_any:
  st r0, [V_UNDO]
  wait! begun
  ld [MISC]
  jump mdl + commands_any
; (What follows the table is a command, too: depth.py takes it for its last entry.)
commands_any:
  b cmd_mount
  b cmd_unmount
  b cmd_open
  b cmd_create
  b cmd_read
  b cmd_write
  b cmd_reserve
  b cmd_commit
  b cmd_sync
  b cmd_close
  b cmd_delete_any
  b cmd_rename
  b cmd_list
  b cmd_get_any
  b cmd_put_any
  b bad_command
