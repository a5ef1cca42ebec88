; SPDX-License-Identifier: Apache-2.0 OR MIT
; Fast paths for the usual cases: a put that fits into units that are known to be free, and a delete of a file of one
; extent. Each writes the same as the general path, in the same order; unusual cases take the general path before anything
; has changed. All nodes are sealed before the first one is stored, because both use the same port of the memory.

; A create with its data (md = MISC).
cmd_put:
  wait command
  ld [LENGTH]
  mov r3, md
  add r2, md, umask
  bc put_long
  shr r31, r2, unit         ; units
  bz put_long
  cmp nfree, r31
  bc put_look
put_data_ahead:
  add r4, r3, bmask
  andn r4, bmask
  ; The data is stored first: its units are free, so this is safe even if the command fails.
  shl r6, nfirst, unit
  add r6, dstart
  do.writeto r0, r3, 0
  do.put r6, r4
  mov dirty, 1
  call name_first
  call search
  bnz fail_exists
  ld [V_T3]
  mov slot, md
  add r1, slot, 1
  bz fail_table
  call slot_begin           ; the free slot: its sequence number is needed
  ; The bitmap and the record, in memory.
  ld [V_GUNITS]
  shl r1, cgroup, md
  sub r1, nfirst, r1
  mov r2, r31
  mov r3, 0
  call bits
  ld [work + B_FREE]
  st r1, [V_CURSOR]
  sub r2, mdl, r31
  stl r2, [work + B_FREE]
  mov r1, 1
  stl r1, [SB + SB_KIND]
  sth slot, [SB + SB_KIND]
  shl r1, 32
  st r1, [SB + SB_SLOT2]
  st nfirst, [SB + SB_RUNS]
  st r31, [SB + SB_RUNS + 8]
  ld [SB + SB_SEQ]
  add r30, md, 1            ; the operation's number
  ld [work + SEQ]
  st r30, [work + LAST_OP]
  add r1, md, 1
  st r1, [work + SEQ]
  ld [V_MSLOT]
  mov r3, md
  call short_super
  wait loaded
  b.error fail_device
  ld [snode + 0]
  bn.good put_other
  cmp r3, mdl
  bnz put_other
put_slot:
  ld [snode + S_STATE]
  sub cslot, r0, 1          ; until it is written
  cmp r0, md
  bnz fail_corrupt          ; the slot is not free
  st r30, [SB + SB_SEQ]
  do.seal r1, r2, SUPER
  mov r2, 1
  st r2, [V_EARLY]
  mov r8, r1                ; address of the superblock
  ; The slot: its name, its state (a live file), one entry.
  ld [MISC]
  shr r7, md, 16
  and r7, 127
  li r1, 1
  shl r1, 32
  shl r2, r7, 16
  or r1, r2
  add r1, 1
  st r1, [snode + S_STATE]
  li r6, NAME
  add r1, r6, r7
  mov r3, snode
  call set_name_next
  call short_bitmap
  ; The rest of it.
  ld [snode + SEQ]
  st r30, [snode + LAST_OP]
  add r2, md, 1
  st r2, [snode + SEQ]
  shl r2, 20
  shr r2, 20
  shl r1, slot, 44
  or r1, r2
  st r1, [snode + FILE_ID]
  ld [LENGTH]
  mov r1, md
  st r1, [snode + S_SIZE]
  st r31, [snode + S_ALLOC]
  st nfirst, [snode + S_ENTRIES]
  st r31, [snode + S_ENTRIES + 8]
  call short_slot
  li r2, SB
  mov r1, 1
  wait sent                 ; all data has been sent
  st r1, [V_CHANGING]
  do.store r8, r2, SUPER
  st r0, [V_EARLY]
  ; The data and the record, before the nodes.
  ld [GEOMETRY]
  tst md, 2
  wait written
  bz put_nodes              ; no cache
  do.flush r0, r0 {ReserveBeforeNodes}
  wait flushed
put_nodes:
  b.error fail_device
  do.store r6, work
  call next_run
  do.store r7, snode
  mov cslot, slot
  call create_tag
  ld [LENGTH]
  mov r8, md
  ld [GEOMETRY]
  tst md, 2
  wait written
  bz put_done
  do.flush r0, r0 {CreateBeforeAnswer}
  wait flushed
put_done:
  b.error fail_device
  do.respond r8, r0
  mov dirty, 0
  st r0, [V_CHANGING]
  b main
; The newest member is not valid any more.
put_other:
  call slot_end
  call short_super
  b put_slot
; No units are known: use those after the last allocation, if the bitmap in memory is that of the hint's group.
put_look:
  cmp nfree, 0
  bnz put_long
  cmp mounted, 1
  bnz put_long
  ld [SB + SB_STATE]
  tst mdh, 1
  bnz put_long
  ld [SB + SB_HINT]
  cmp cgroup, mdl
  bnz put_long
  call order {NodesBeforeReserve}         ; no older request is under way when units are reused or the record is written
  call next_run
  ld [LENGTH]
  mov r3, md
  cmp nfree, r31
  bnc put_data_ahead
put_long:
  ld [MISC]
  b cmd_create

; md = MISC.
cmd_delete:
  shr r7, md, 16
  and r7, 127
  bz delete_long
  cmp r7, 65
  bnc delete_long
  cmp mounted, 1
  bnz delete_long
  cmp dirty, 0
  bnz delete_long
  ld [V_OPEN]
  cmp r0, md                ; this path does not check whether the file is open
  bnz delete_long
  ld [SB + SB_STATE]
  tst mdh, 1
  bnz delete_long
  wait hashed
  ld [HASH]
  shr r2, md, 32
  bnz delete_long
  and r8, mask, md
  tag r3, md
@any  ld [V_GROWN]
@any  cmp r8, md
@any  bc delete_bucket likely
@any  shr r2, mask, 1
@any  and r8, r2
delete_bucket:
  shl r8, 3
  add r2, index, r8
  ld [r2]
  match r4, md, r3
  bz delete_long
  ctz r4, r4
  add slot, r8, r4
  cmp slot, cslot
  bz delete_here likely
  call slot_begin
  call slot_end
delete_here:
  ld [snode + S_STATE]
  shl r5, r7, 16
  add r5, 1                 ; a live file, its extents in the slot, a name of this length
  cmp r5, mdl
  bnz delete_long
  sub r2, mdh, 1
  bnz delete_long           ; one extent
  li r5, NAME
  add r7, r5
  mov r2, snode
delete_name:
  ld [r5]
  add r5, 8
  mov r3, md
  ld [r2 + S_NAME]
  add r2, 8
  cmp r3, md
  bnz delete_long
  cmp r5, r7
  bc delete_name unlikely   ; most names have at most eight bytes
  ld [snode + S_ENTRIES]
  mov r4, md
  ld [snode + S_ENTRIES + 8]
  mov r5, mdl
  ld [snode + S_ALLOC]
  bz delete_long
  cmp r5, md
  bnz delete_long
  ; The slot becomes free in memory, with the number before its own: its older member is written first (R9). Its only entry has two
  ; words.
  sub cslot, r0, 1          ; until it is written
  st r0, [snode + S_ENTRIES]
  st r0, [snode + S_ENTRIES + 8]
  call zero_header
  ld [snode + SEQ]
  sub r2, md, 1
  st r2, [snode + SEQ]
  call short_slot
  ; Its units are in the group of WORK.
  ld [V_GUNITS]
  mov r8, md
  shr r2, r4, r8
  cmp r2, cgroup
  bnz delete_long
  add r3, r4, r5
  sub r3, 1
  shr r2, r3, r8
  cmp r2, cgroup
  bnz delete_long
  ; The record. From here on the volume must be mounted again after an error.
  mov r1, 1
  st r1, [V_CHANGING]
  shl r1, 32
  st r1, [SB + SB_SLOT2]
  mov r1, 2
  stl r1, [SB + SB_KIND]
  sth slot, [SB + SB_KIND]
  st r4, [SB + SB_RUNS]
  st r5, [SB + SB_RUNS + 8]
  ld [SB + SB_SEQ]
  add r30, md, 1            ; the operation's number
  st r30, [SB + SB_SEQ]
  do.store r7, snode
  call short_super
  do.seal r1, r2, SUPER
  ; The bitmap, and the slot's newest member once the older one has been sent.
  ld [work + B_FREE]
  st r30, [work + LAST_OP]
  add r6, mdl, r5
  ld [work + SEQ]
  stl r6, [work + B_FREE]
  add r6, md, 1
  st r6, [work + SEQ]
  ld [V_GUNITS]
  shl r2, cgroup, md
  sub r1, r4, r2
  mov r2, r5
  mov r3, 1
  st nfree, [V_T1]
  call bits
  ld [V_T1]
  mov nfree, md             ; these units are still free
  call short_super
  do.store r1, r2, SUPER
  ld [snode + SEQ]
  st r30, [snode + LAST_OP]
  add r1, md, 1
  st r1, [snode + SEQ]
  call short_slot
  call short_bitmap
  mov dirty, 1
  call order {ReleaseBeforeNodes}         ; the record and the older member, before the nodes
  do.store r6, work
  mov dirty, 1
  do.store r7, snode
  mov cslot, slot
  call tag_none
  call order {RemoveBeforeAnswer}
  do.respond r0, r0
  st r0, [V_CHANGING]
  b main

; r1 <- address of the superblock with number r30 on the device, r2 <- in memory.
short_super:
  and r1, r30, 1
  shl r1, 16                ; B is at 65536
  li r2, SB
  ret

; Seals WORK, which has its sequence number: r6 <- its address. Clobbers nothing else.
short_bitmap:
  ld [SB + SB_BITMAP_A]
  shl r6, cgroup, nlog
  add r6, r6, md
  ld [work + SEQ]
  tst md, 1
  bz short_bitmap_a
  add r6, delta
short_bitmap_a:
  do.seal r6, work
  ret

; The same for snode and r7.
; In the copy for grown tables it clobbers r1 and r2, too.
short_slot:
@any  ld [V_FORMAT]
@any  cmp slot, md
@any  bnc short_slot_far likely
  shl r7, slot, nlog
  ld [snode + SEQ]
  add r7, slota
  tst md, 1
  bz short_slot_a
  add r7, delta
short_slot_a:
  do.seal r7, snode
  ret

; Sets nfirst and nfree for the next put, starting at the end of the last allocation in WORK: at least 64 units, or all up
; to the next unit in use. Clobbers r1 to r5, r8.
next_run:
  mov nfree, 0
  ld [V_CURSOR]
  mov r1, md
  ld [V_GUNITS]
  mov r8, md
  shl r2, cgroup, r8
  add nfirst, r2, r1
next_word:
  shr r2, r1, r8
  bnz next_limit
  shr r2, r1, 6
  shl r2, 3
  add r2, bits0
  ld [r2]
  and r3, r1, 63
  shr r4, md, r3
  ctz r4, r4
  mov r5, 64
  sub r5, r3
  cmp r4, r5
  bc next_used
  add nfree, r5
  add r1, r5
  cmp nfree, 64
  bc next_word
next_limit:
  ; One request must be able to write them.
  ld [V_LIMIT]
  shr r1, md, unit
  cmp nfree, r1
  bc next_ends likely
  mov nfree, r1
next_ends:
  ret
next_used:
  add nfree, r4
  b next_limit
