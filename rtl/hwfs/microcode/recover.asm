; SPDX-License-Identifier: Apache-2.0 OR MIT
; After a power cut: completes or undoes the one operation that was under way (FORMAT.md, "Recovery"), and
; frees what is left of removed files.

recover:
  call order {CacheBeforeRecovery}        ; a program that died may have left writes in the device's cache
  ld [SB + SB_KIND]
  mov r1, mdl
  mov slot, mdh
  cmp r1, 0
  bz recovered
  cmp r1, 4
  bnc fail_corrupt
@plain  call slot_bound
@grown  call record_bound
  cmp r1, 3
  bz recover_rename
  ; Reserve (1) or release (2).
  ld [SB + SB_SLOT2]
  mov r2, mdh
  cmp r2, 5
  bnc fail_corrupt
  st r2, [V_RUNS]
  call recover_slot
  ; r1: 1 if the operation did not reach the slot: then the bits of a reserve are cleared, otherwise those of a release.
  ld [SB + SB_KIND]
  mov r2, mdl
  cmp r2, 1
  bz recover_clears
  ; A free slot is the older member of a release whose newest member was torn (R9).
  xor r1, 1
  ld [snode + S_STATE]
  tst mdl, 255
  bnz recover_clears
  mov r1, 1
recover_clears:
  st r1, [V_MODE]
  st r0, [V_TURN]
recover_run:
  ld [V_TURN]
  mov r4, md
  ld [V_RUNS]
  cmp r4, md
  bnc recover_copy
  add r2, r4, 1
  st r2, [V_TURN]
  shl r5, r4, 4
  add r5, SB + SB_RUNS
  ld [V_GUNITS]
  mov r6, md
  ; The run is within the volume.
  ld [r5 + 8]
  mov r3, mdl
  cmp r3, 0
  bz fail_corrupt
  ld [r5 + 0]
  mov r2, md
  add r3, r2
  ld [SB + SB_UNITS]
  mov r7, md
  cmp r7, r3
  bc fail_corrupt
  shr r1, r2, r6
  sub r3, 1
  shr r3, r6
  cmp r3, r1
  bnz fail_corrupt          ; and within a group
  ; Each group once.
  li r7, SB
recover_before:
  cmp r4, 0
  bz recover_group
  ld [r7 + SB_RUNS]
  shr r2, md, r6
  cmp r2, r1
  bz recover_run
  add r7, 16
  sub r4, 1
  b recover_before
recover_group:
  call load_bitmap_pair
  st r5, [V_FLAG]
  ld [V_MODE]
  mov r3, md
  call bits_of_runs
  call count_free
  ld [V_FLAG]
  mov r5, md
  ld [work + B_FREE]
  cmp r1, mdl
  bnz recover_write
  cmp r5, 2
  bz recover_run
recover_write:
  stl r1, [work + B_FREE]
  call write_bitmap
  wait sent
  b recover_run

recover_rename:
  ld [SB + SB_SLOT2]
  mov r1, mdl
  st slot, [V_FROM]
  mov slot, r1
  call slot_bound
  call recover_slot
  ld [V_FROM]
  mov slot, md
  cmp r1, 0
  bz recover_old
@grown  call slot_bound
  call slot_pair
  bnz recover_copied
  b recovered
recover_old:
@grown  ld [V_SLOTS]
@grown  cmp slot, md
@grown  bnc recovered             ; its bucket was taken away since
  call recover_slot
  ; A file created in the old slot after the rename was complete has its operation number or a higher one.
  cmp r1, 0
  bz recovered
  call slot_root
  bnc fail_corrupt
@plain  call zero_slot
@grown  call zero_node
  call write_numbered
  call order {SlotBeforeAnswer}           ; R3
  call write_slot
  b recovered

; A release or a rename that did not happen may have freed the slot's older member, and the newest one of a release that did may
; be torn: makes both equal, but not if the file has more units than its data, which might be a reservation (R9).
recover_copy:
  ld [SB + SB_KIND]
  cmp mdl, 1
  bz recovered
@grown  ld [V_SLOTS]
@grown  cmp slot, md
@grown  bnc recovered             ; the table node: below
recover_copied:
  mov r1, 1
  shl r1, unit
  ld [snode + S_SIZE]
  add r1, r1, md
  sub r1, 1
  shr r1, unit
  ld [snode + S_ALLOC]
  cmp md, r1
  bnz recovered
  call write_slot

recovered:
@grown  call settle_table
  call order {RecoveryBeforeClear}        ; the results of recovery, before the record is cleared
  call no_operation
  ld [SB + SB_MOUNTS]
  add r1, mdh, 1
  sth r1, [SB + SB_MOUNTS]
  b write_super

; Fails unless slot `slot` exists.
slot_bound:
  ld [V_SLOTS]
  cmp slot, md
  bnc fail_corrupt
  ret

; Loads slot `slot` without the index. r1 <- 0 if it has the operation's number, otherwise 1.
recover_slot:
  call slot_pair
  bz fail_corrupt
  ld [SB + SB_SEQ]
  mov r2, md
  ld [snode + LAST_OP]
  mov r3, md
  mov r1, 0
  cmp r3, r2
  bnc recover_happened
  mov r1, 1
recover_happened:
  ret

; r1 <- clear bits in WORK. Clobbers r2 to r5.
count_free:
  mov r2, 1
  shl r2, nlog
  add r3, work, r2          ; the end
  shr r2, 1
  add r2, work
  mov r1, 0
count_word:
  ld [r2 + 0]
  sub r4, r0, 1
  xor r4, r4, md
count_byte:
  ones r5, r4
  add r1, r5
  shr r4, 8
  bnz count_byte
  add r2, 8
  cmp r2, r3
  bc count_word
  ret

; Releases the units of files that were removed. Clobbers everything.
reap_all:
  mov slot, 0
reap_next:
  andn r2, slot, 7
  ld [V_INDEX]
  add r2, r2, md
  and r3, slot, 7
  shl r3, 3
  ld [r2]
  shr r4, md, r3
  and r4, 191               ; the tag, and whether it is damaged
  cmp r4, 63
  bnz reap_skip
  call load_slot
  ld [snode + S_STATE]
@grown  shr r2, mdl, 16
@grown  and r2, 255
@grown  cmp r2, 65
@grown  bnc reap_skip             ; software frees the units of a file with a long name
  and r2, mdl, 255
  cmp r2, 2
  bnz reap_skip
  st r0, [V_KEEP]
reap_more:
  call release_once
  call order_wait           ; wait without a flush: the next operation flushes before it writes
  ld [snode + S_ALLOC]
  cmp md, 0
  bnz reap_more
  st r0, [V_CHANGING]
  call tag_none
reap_skip:
  add slot, 1
  ld [V_SLOTS]
  cmp slot, md
  bc reap_next
  ret
