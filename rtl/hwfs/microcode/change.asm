; SPDX-License-Identifier: Apache-2.0 OR MIT
; Commands that change the volume. FORMAT.md, "Operations", specifies the order of their writes.

cmd_create:
  call changeable
  ; The space that the command requests.
  ld [LENGTH]
  add r3, md, umask
  bc fail_space
  shr r3, unit
  ld [SB + SB_UNITS]
  cmp md, r3
  bc fail_space
  st r3, [V_WANT]
  st r0, [V_STORED]
  li file, BRIEF
  tst r1, 16
  bz create_place
  ; A put needs no entry for an open file. Its data is stored first: its units are free, so this is safe even if the
  ; command fails.
  cmp r3, 0
  bz create_search
  call create_plan
  bnz create_search
  call put_data
  b create_search
create_place:
  call place_of
  ld [file + F_FLAGS]
  tst mdl, F_IS_OPEN
  bnz fail_inuse
  tst r1, 32
  bnz create_sums
create_search:
  call name_first
  call search_any
  bnz fail_exists
  ld [V_T3]
  mov slot, md
  add r1, slot, 1
  bz fail_table
  ld [V_WANT]
  cmp r0, md
  bz create_empty
  ld [MISC]
  mov r1, md
  tst r1, 16
  bnz create_take
  call create_plan
create_take:
  call slot_begin_any       ; the free slot: its sequence number is needed
  ld [V_T5]
  mov r2, md
  call take
  st r0, [V_CHANGING]       ; nothing on the device has changed yet
  call slot_end
  ; The bitmap is sealed while the slot is prepared, and so is the superblock if it is already marked as in use.
  ld [SB + SB_SEQ]
  add r1, md, 1
  call seal_bitmap
  st r1, [V_T1]
  call new_slot
  ld [SB + SB_SEQ]
  add r1, md, 1
  st r1, [snode + LAST_OP]
  ld [SB + SB_STATE]
  tst mdh, 1
  bnz create_entries
  call seal_super
  st r1, [V_AT]
  mov r1, 1
  st r1, [V_EARLY]
create_entries:
  call entries
  ld [V_STORED]
  mov r1, md
  st r1, [snode + S_SIZE]
  call seal_slot
  st r1, [V_T2]
  wait sent
  mov r1, 1
  st r1, [V_CHANGING]
  ld [V_EARLY]
  cmp r0, md
  bz create_super
  ld [V_AT]
  mov r1, md
  call store_super
  b create_nodes
create_super:
  call write_super
create_nodes:
  call order {ReserveBeforeNodes}         ; the data and the record, before the nodes
  ld [V_T1]
  mov r1, md
  call store_bitmap
  ld [V_T2]
  mov r1, md
  call store_slot
  call create_tag
  call next_run
  call order {CreateBeforeAnswer}
  b create_made
create_empty:
  mov r1, 1
  st r1, [V_CHANGING]
  call slot_begin_any
  call slot_end
  call new_slot
  call mark_in_use
  call order {FreeBeforeCreate}           ; the slot's other member was last written before this
  call write_slot
  call create_tag
  call order {SlotBeforeAnswer}
create_made:
  st r0, [V_CHANGING]
  add r1, slot, 1
  st r1, [V_UNDO]
  ld [MISC]
  tst md, 16
  bnz create_put
  mov r3, 7                 ; open for writing, and the other member belongs to the free slot
  tst md, 32
  bz create_occupy
  mov r3, 14
  st r0, [file + F_BYTES]
  st r0, [file + F_SUM]
create_occupy:
  call occupy
  ld [V_WANT]
  cmp r0, md
  bz done_zero
  ; The units that the first operation could not allocate.
  ld [LENGTH]
  mov r3, md
  call grow
  ld [file + F_ALLOC]
  shl r1, md, unit
  b done

; A put: the data is stored already, or is stored now that the file exists.
create_put:
  ld [V_STORED]
  mov r1, md
  cmp r1, 0
  bnz done
  ld [V_WANT]
  mov r1, md
  cmp r1, 0
  bz done_zero
  st r0, [file + F_FLAGS]
  call enter
  st r0, [OFFSET]
  call write_body
  call commit_durably
done_length:
  ld [LENGTH]
  mov r1, md
  b done

; Plans V_WANT units for a new file; V_T5 <- those that do not fit into this operation, zero flag: none. Clobbers r1 to
; r8.
create_plan:
  call order {NodesBeforeReserve}         ; no older request is under way when units are reused or the record is written
  mov r2, 0
  call plan
  st r2, [V_T5]
  cmp r2, 0
  ret

; Stores the data of a put in the planned units: they are free, so the data is not visible until the slot
; is written. Clobbers r1 to r8.
put_data:
  ld [LENGTH]
  mov r2, md
  st r2, [V_STORED]
  do.writeto r0, r2, 0
  mov nfree, 0
  mov dirty, 1
  add r2, bmask
  andn r2, bmask
  st r2, [V_END]
  li r5, SB
  mov r1, 0
put_run:
  ld [r5 + SB_RUNS]
  shl r6, md, unit
  ld [SB + SB_DATA]
  add r6, r6, md
  ld [r5 + SB_RUNS + 8]
  shl r7, mdl, unit
put_piece:
  mov r4, r7
  call piece                ; r1: bytes put already
  do.put r6, r4
  add r1, r4
  ld [V_END]
  cmp r1, md
  bnc put_given
  add r6, r4
  sub r7, r4
  bnz put_piece
  add r5, 16
  b put_run
put_given:
  ret

; Makes the free slot in snode the slot of a new file with the command's name, in memory. Clobbers
; r1 to r7.
new_slot:
  ld [snode + S_STATE]
  tst mdl, 255
  bnz fail_corrupt
  sub cslot, r0, 1          ; until it is written
  ld [snode + SEQ]
  add r1, md, 1
  shl r1, 20
  shr r1, 20
  shl r2, slot, 44
  or r1, r2
  st r1, [snode + FILE_ID]
  ld [MISC]
  shr r1, md, 5
  and r1, 1
  stl r1, [snode + S_ATTRS]
  shr r7, md, 16
  and r7, 127
  li r6, NAME
  mov r1, 1
  stl r1, [snode + S_STATE]
  b set_name_first

create_tag:
  ld [HASH]
  mov r1, mdl
; Sets the index byte of `slot`, which snode holds: hash r1, and the member that was just written. Clobbers
; r1 to r5.
tag_new:
  ld [snode + SEQ]
  call tag_of
  and r2, md, 1
  shl r2, 6
  or r1, r2
  b index_put

; The same for a free slot.
tag_none:
  ld [snode + SEQ]
  and r1, md, 1
  shl r1, 6
  b index_put

; Sets the name of snode to the r7 bytes at r6; keeps its state and level. Clobbers r1 to r3, r6, r7.
set_name:
  call zero_name
; The same if the name is all zeroes.
set_name_first:
  ld [snode + S_STATE]
  mov r1, mdl
  li r2, 0xffff
  and r1, r2
  shl r2, r7, 16
  or r1, r2
  stl r1, [snode + S_STATE]
  mov r3, snode
  add r1, r6, r7            ; its end
set_name_next:
  ld [r6 + 0]
  add r6, 8
  mov r7, md
  st r7, [r3 + S_NAME]
  add r3, 8
  cmp r6, r1
  bc set_name_next unlikely ; most have at most eight bytes
  ret

cmd_commit:
  call writable
commit_now:
  st r0, [V_DURABLE]
  call commit
  wait written
  b.error fail_device
  b commit_answer
cmd_sync:
  call writable
sync_now:
  call commit_durably
commit_answer:
  ld [file + F_SIZE]
  mov r1, md
  b done

; What was written becomes part of the file. Clobbers r1 to r8.
commit_durably:
  mov r1, 1
  st r1, [V_DURABLE]
; The same, durable if V_DURABLE is set.
commit:
  ld [file + F_SIZE]
  mov r1, md
  ld [file + F_END]
  cmp r1, md
  bz commit_durable
  mov r1, 1
  st r1, [V_CHANGING]
  call mark_in_use
  call load_file
  call order {DataBeforeSize}             ; the data, before the size that covers them
  ld [file + F_END]
  mov r1, md
  st r1, [snode + S_SIZE]
  call write_slot
  ld [file + F_END]
  mov r1, md
  st r1, [file + F_SIZE]
  ld [file + F_FLAGS]
  or r1, mdl, 4
  stl r1, [file + F_FLAGS]
commit_durable:
  ld [V_DURABLE]
  mov r1, md
  cmp r1, 0
  bz committed
  call order {SlotBeforeAnswer}
committed:
  st r0, [V_CHANGING]
  ret

cmd_close:
  call opened
  tst r3, 2
  bz close_place
  call commit_durably
  ; Release the units that were reserved but not used.
  ld [file + F_SIZE]
  add r1, md, umask
  shr r1, unit
close_keep:
  st r1, [V_KEEP]
close_release:
  ld [file + F_ALLOC]
  mov r2, md
  ld [V_KEEP]
  cmp md, r2
  bnc close_released
  call load_file
  call release_once
  ld [snode + S_ALLOC]
  mov r1, md
  st r1, [file + F_ALLOC]
  ld [file + F_FLAGS]
  or r1, mdl, 4
  stl r1, [file + F_FLAGS]
  b close_release
close_released:
  ld [file + F_FLAGS]
  tst mdl, 4
  bz close_place
  ; Both members are equal from now on: either may become unreadable without loss.
  mov r1, 1
  st r1, [V_CHANGING]
  call load_file
  call order {CommitBeforeCopy}
  call write_slot
  call order_wait
close_place:
  call leave
  st r0, [V_CHANGING]
  b done_zero

; Marks the record `file` as free. Clobbers r1.
leave:
  ld [V_OPEN]
  sub r1, md, 1
  st r1, [V_OPEN]
  st r0, [file + F_FLAGS]
  ret

; Deletes any file; `short.asm` has the fast path for the usual case.
delete_long:
  ld [MISC]
  call changeable
  call find
  mov r3, 2
  call users
  bnz fail_inuse
  call remove
  b done_zero

; Removes the file in snode, slot `slot`. Clobbers r1 to r8.
remove:
  mov r1, 1
  st r1, [V_CHANGING]
  ld [snode + S_ALLOC]
  cmp md, 0
  bz delete_empty
  ld [snode + S_STATE]
  mov r1, mdl
  shr r2, r1, 8
  and r2, 255
  bnz delete_deep
  add r1, 1                 ; live to reap
  sub cslot, r0, 1          ; until it is written
  stl r1, [snode + S_STATE]
  st r0, [snode + S_SIZE]
  st r0, [V_KEEP]
delete_more:
  call release_once
  call order {RemoveBeforeAnswer}
  ld [snode + S_ALLOC]
  cmp md, 0
  bnz delete_more
  b deleted
delete_empty:
  call mark_in_use
  call order {CommitBeforeRemove}         ; the slot's last commit, before its removal in the other member
  sub cslot, r0, 1
  call zero_slot
  call write_slot
  call order {SlotBeforeAnswer}
  call write_slot           ; its other member (R9)
deleted:
  call tag_none
  call order_wait
  st r0, [V_CHANGING]
  ret
; Removes the name first, then the units, starting at the map's end.
delete_deep:
  call mark_in_use
  call order {CommitBeforeRemove}         ; the slot's last commit, before its removal in the other member
  sub cslot, r0, 1          ; until it is written
  ld [snode + S_STATE]
  add r1, mdl, 1            ; live to reap
  stl r1, [snode + S_STATE]
  st r0, [snode + S_SIZE]
  st r0, [V_KEEP]
  call write_slot           ; (durable before the first release's record is written)
  b delete_more

cmd_rename:
  call changeable
  call find
  mov r3, 2
  call users
  bnz fail_inuse
  st slot, [V_FROM]
  ld [MISC]
  shr r7, md, 24
  and r7, 127
  ld [HASH2]
  mov r1, md
  li r6, NAME2
  call search_any
  bz rename_free
  ld [V_FROM]
  cmp slot, md
  bnz fail_exists
  b done_zero               ; the file has that name already
rename_free:
  ld [V_T3]
  mov slot, md
  add r1, slot, 1
  bz fail_table
  st slot, [V_TURN]
  call load_slot
  ld [snode + S_STATE]
  mov r1, mdl
  tst r1, 255
  bnz fail_corrupt
  ld [snode + SEQ]
  mov r1, md
  st r1, [V_NEAR]
  ld [V_FROM]
  mov slot, md
  call load_slot
  mov r1, 1
  st r1, [V_CHANGING]
  call no_operation
  mov r1, 3
  stl r1, [SB + SB_KIND]
  sth slot, [SB + SB_KIND]
  ld [V_TURN]
  mov r1, md
  stl r1, [SB + SB_SLOT2]
  call order {NodesBeforeRename}
  call write_super
  call order {RenameBeforeName}           ; the record, before the new name: else both names could stay
  ld [V_NEAR]
  mov r1, md
  st r1, [snode + SEQ]
  ld [MISC]
  shr r7, md, 24
  and r7, 127
  li r6, NAME2
  call set_name
  ld [V_TURN]
  mov slot, md
  call write_numbered
  ld [HASH2]
  mov r1, mdl
  call tag_new
  ld [V_FROM]
  mov slot, md
  wait sent                 ; the store still reads that memory
  call load_slot
  call zero_slot
  call write_older
  call order {NameBeforeOld}              ; the new name, before the end of the old one: else both could be lost
  call write_numbered
  call tag_none
  ; The new slot's other member, as by close.
  ld [V_TURN]
  mov slot, md
  wait sent
  call load_slot
  call write_slot
  call order_wait
  st r0, [V_CHANGING]
  b done_zero
