; SPDX-License-Identifier: Apache-2.0 OR MIT
; The fast path of a read by name.

; Reads the file with the command's name, which need not be open. If the index gives a single slot, the data is requested
; while the slot is still being read, and held back until the slot is verified; unusual cases take the general path.
cmd_get:
  wait hashed
  ld [HASH]
  and r8, mask, md
  tag r3, md
@any  ld [V_GROWN]
@any  cmp r8, md
@any  bc get_bucket likely
@any  shr r2, mask, 1
@any  and r8, r2
get_bucket:
  shl r8, 3
  add r2, index, r8
  ld [r2]
  match r4, md, r3
  bz read_plain
  ctz r4, r4
  add slot, r8, r4
@any  byte r2, md, r4
@any  ld [V_FAR]
@any  cmp slot, md
@any  bc get_other            ; it is not in the table's last extent
@any  add r3, slot, r8
@any  shl r3, nlog
@any  ld [V_FAR_AT]
@any  add r3, r3, md
@any  tst r2, 64
@any  bz get_member likely
@any  mov r2, 8
@any  shl r2, nlog
@any  add r3, r2
@any get_member:
@any  do.load r3, snode
@any  sub cslot, r0, 1
@any get_loading:
@near  byte r2, md, r4
@near  shl r3, slot, nlog
@near  tst r2, 64
@near  bz read_member likely
@near  add r3, delta
read_member:
@near  add r3, slota
@near  do.load r3, snode
  ; The slot is being loaded.
@near  sub cslot, r0, 1
  ld [GEOMETRY]
  tst md, IN_ORDER          ; a device that answers in another order would wait for data that is held back
  bz read_waits
  ld [MISC]
  shr r7, md, 16
  and r7, 127
  shl r5, r7, 16
  add r5, 1                 ; a live file, its extents in the slot, a name of this length
  ld [HASH]
  add r5, r5, mdh           ; plus the flag of a bad name, with which no slot matches
  ld [OFFSET]
  mov r1, md
  ld [LENGTH]
  mov r2, md
  bz read_waits
  add r8, r1, r2            ; the end
  bc read_waits
  do.readto r1, r2, HOLD
  andn r1, bmask
  add r2, r8, bmask         ; an overflow does not matter: the end is compared below
  andn r31, r2, bmask
  sub r6, r31, r1           ; bytes of whole blocks
  ld [V_LIMIT]
  cmp r6, md
  bc read_head likely
  mov r6, md
read_head:
  ld [V_MSLOT]
  mov r3, md
  ld [NAME]
  mov r4, md
  ; Compare with the slot's first 96 bytes. Each word is loaded before the branch on the one before it.
  wait head
  ld [snode + S_SIZE]
  cmp md, r8
  ld [snode + S_STATE]
  bc read_held
  cmp r5, mdl
  ld [snode + S_ATTRS]
  bnz read_held
  cmp r0, mdl
  ld [snode + 0]
  bnz read_held
  cmp r3, mdl
  ld [snode + S_NAME]
  bnz read_held
  cmp r4, md
  bnz read_held
  ld [SB + SB_UNITS]
  mov r4, md
  wait part
  ld [snode + S_ENTRIES + 8]
  add r8, dstart, r1
  mov r3, mdl
  ld [snode + S_ENTRIES]
  sub r4, r3                ; the last unit at which the extent can begin
  bc read_held
  cmp r4, md
  bc read_held
  shl r3, unit
  sub r3, r1
  bc read_held
  bz read_held              ; the first byte is in a later extent
  cmp r6, r3
  bc read_request
  mov r6, r3
read_request:
  shl r3, md, unit
  add r3, r8
  do.fetch r3, r6
  cmp r7, 9
  bc read_named likely      ; the name has at most eight bytes
  li r5, NAME + 8
  add r7, r5
  sub r7, 8                 ; its end
  mov r2, snode
read_name:
  ld [r5]
  mov r3, md
  ld [r2 + S_NAME + 8]
  cmp r3, md
  bnz read_held
  add r2, 8
  add r5, 8
  cmp r5, r7
  bc read_name
; The slot is the expected one. If its checksum is correct, the data is released.
read_named:
  do.abort r0, r0, ARM
  add r6, r1                ; the end of the bytes requested already
  wait loaded
  bn.good read_held
  call slot_check
  cmp r6, r31
  bnc read_drain likely
  st r31, [V_END]
  li file, BRIEF
  call enter
  mov r1, r6
  b read_next
; The prediction was wrong: the requested data is dropped; the slot, if it is valid, is in memory.
read_held:
  do.abort r0, r0, DROP
  wait fetched
  b.error read_forget
read_waits:
  call slot_end
  b read_plain
; The fetch may have failed only because of the prediction: the general path decides.
read_forget:
  wait loaded
  do.abort r0, r0, FORGET
read_plain:
  cmp mounted, 0
  bz fail_mount
  call find
  li file, BRIEF
  call enter
  ld [snode + S_ATTRS]
  cmp r0, mdl
  bz read_opened likely
  b sums_get
@any get_other:
@any  call slot_begin
@any  b get_loading
