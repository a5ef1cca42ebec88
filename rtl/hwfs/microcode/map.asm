; A file's map: where in the volume a byte of the file is.

; Byte r1 of `file`: r2 <- its address, r4 <- how many bytes follow one another from there on. Keeps r1.
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
  call load_slot
  call find_extent
  ld [V_T1]
  mov r1, md
  b map

; The extent with unit V_T2 of the file in snode becomes that of its record.
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
  ld [SB + SB_UNITS]
  cmp r5, md
  bnc fail_corrupt
  call load_leaf
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
  mov r5, r8                ; what lies past the limit is not the file's
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

; Makes SPARE hold the leaf of level r1 whose pair starts at unit r5 and whose first unit is r4. r2 <- its
; entries, r6 <- where they are. Keeps r1, r3, r4, r8.
load_leaf:
  ld [V_CLEAF]
  cmp r5, md
  bz leaf_there
  st r1, [V_T3]
  st r4, [V_T4]
  st r8, [V_T5]
  st r5, [V_S8]
  sub r2, r0, 1
  st r2, [V_CLEAF]
  ld [snode + FILE_ID]
  mov r2, md
  st r2, [V_FILEID]
  call leaf_addresses
  mov r2, spare
  ld [V_MLEAF]
  mov r3, md
  call load_pair
  cmp r5, 0
  bz fail_corrupt
  ld [V_S8]
  mov r5, md
  st r5, [V_CLEAF]
  ld [V_T2]
  mov r3, md
  ld [V_T3]
  mov r1, md
  ld [V_T4]
  mov r4, md
  ld [V_T5]
  mov r8, md
leaf_there:
  ld [spare + L_COUNT]
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
  ld [spare + L_FIRST]
  cmp r4, md
  bnz fail_corrupt
  add r6, spare, L_ENTRIES
  ret
