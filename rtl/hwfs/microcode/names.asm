; SPDX-License-Identifier: Apache-2.0 OR MIT
; Nodes and pairs, slots, the index, and finding a name.

; Loads the node at r1 into memory at r2 if it has magic r3 and is member r4 (0: A, 1: B); r6 <- its
; sequence number. r5 <- 1; or 0 and the zero flag if it is not valid. A leaf is valid only if it
; belongs to file V_FILEID.
load_node:
  wait sent                 ; a store may still read that memory
  do.load r1, r2
  wait loaded
  b.error fail_device
  bn.good load_bad
; The same for the node at r2, whose checksum is correct.
load_right:
  ld [r2 + 0]
  cmp r3, mdl
  bnz load_bad
  ld [r2 + SEQ]
  mov r6, md
  xor r5, r6, r4
  tst r5, 1
  bnz load_bad
  shr r5, r6, 62
  bnz load_bad
  ld [V_MLEAF]
  cmp r3, md
  bnz load_valid
  ld [V_FILEID]
  mov r5, md
  ld [r2 + FILE_ID]
  cmp r5, md
  bnz load_bad
load_valid:
  mov r5, 1
  ret
load_bad:
  mov r5, 0
  ret

; Loads slot `slot` into snode without the index, as the routine below does. Clobbers r1 to r8.
slot_pair:
  call slot_addresses
  mov r2, snode
  ld [V_MSLOT]
  mov r3, md
; Loads the newest valid member of the pair at r1 (A) and r7 (B) into memory at r2; magic r3. r5 <- how
; many members are valid, zero flag: none; r4 <- the newest, r6 <- its sequence number. Clobbers r1, r7, r8.
load_pair:
  mov r4, 0
  call load_node
  bz pair_only_b
  mov r8, r6
  call pair_other
  bz pair_only_a
  cmp r8, r6
  bc pair_both
  call pair_other           ; A is the newer
  bz fail_corrupt
pair_both:
  mov r5, 2
  ret
pair_only_a:
pair_only_b:
; Loads the other member.
pair_other:
  xor r1, r7
  xor r7, r1
  xor r1, r7
  xor r4, 1
  b load_node

; r1 <- address of slot `slot`, member r3.
slot_address:
@grown  ld [V_FORMAT]
@grown  cmp slot, md
@grown  bnc slot_address_far
  shl r1, slot, nlog
  add r1, slota
  cmp r3, 0
  bz slot_address_a
  add r1, delta
slot_address_a:
  ret

; r1, r7 <- addresses of both.
slot_addresses:
@grown  ld [V_FORMAT]
@grown  cmp slot, md
@grown  bnc slot_addresses_far
  shl r1, slot, nlog
  add r1, slota
  add r7, r1, delta
  ret

; A node that is newer than the superblock proves that a superblock was lost (R4): nothing may be
; changed. snode has the node. Clobbers r1, r2.
check_age:
  ld [SB + SB_SEQ]
  mov r1, md
  ld [snode + LAST_OP]
  cmp r1, md
  bnc age_right
  ld [V_T4]
  mov r2, md
  cmp r2, 2
  bnz fail_stale
age_right:
  ret

; Makes snode hold the slot of `file`. slot <- its number. Clobbers r1 to r8.
load_file:
  ld [file + F_SLOT]
  mov slot, mdh
; Makes snode hold slot `slot`. Clobbers r1 to r8.
load_slot:
  cmp slot, cslot
  bz slot_there
  call slot_begin_any
; The second half of that, after slot_begin. Zero flag clear: the other member was the valid one.
slot_end:
  wait loaded
  b.error fail_device
  bn.good slot_other
  ld [V_MSLOT]
  mov r3, md
  ld [snode + 0]
  cmp r3, mdl
  bnz slot_other
  call slot_check
  tst r0, 0
slot_there:
  ret
; The slot's header must be consistent. Its units were compared with the volume's at mount. Clobbers r1 to r3.
slot_check:
  mov cslot, slot
  call slot_head
  bnc fail_corrupt
  ret
; Carry: the header in snode is consistent. r1 <- the map's level, r2 <- its entries. Clobbers r3.
slot_head:
  ld [snode + S_STATE]
  and r3, mdl, 255
  cmp r3, 3
  bnc slot_headed
  shr r1, mdl, 8
  and r1, 255
  cmp r1, 3
  bnc slot_headed
  mov r2, mdh
  mov r3, 1
  shl r3, nlog
  sub r3, S_ENTRIES - 16
  shr r3, 4                 ; one more than the maximum
  cmp r2, r3
slot_headed:
  ret
; Carry: the header is consistent, and the slot's extents, which have all of the file's units, or its leaf pairs lie within
; the volume. Any other slot is damaged, as in software. Clobbers r1 to r5.
slot_root:
@grown  ld [snode + S_STATE]
@grown  shr r3, mdl, 16
@grown  and r3, 255
@grown  cmp r3, 65
@grown  bnc root_long
  call slot_head
  bnc slot_headed
; The same for a node of r2 entries and level r1.
slot_map:
  shl r2, 4
  add r2, snode             ; S_ENTRIES from there: the end of the entries
  mov r4, snode
; The same for the entries from r4 + S_ENTRIES to r2 + S_ENTRIES.
slot_entries:
  mov r3, 0                 ; units
  cmp r1, 0
  bnz slot_pairs
slot_extent:
  cmp r4, r2
  bnc slot_owned
  ld [r4 + S_ENTRIES + 8]
  mov r1, mdl
  add r3, r1
  add r4, 16
  ld [SB + SB_UNITS]
  sub r5, md, r1            ; the last unit at which the extent can begin
  bc slot_outside
  ld [r4 + S_ENTRIES - 16]
  cmp r5, md
  bnc slot_extent
slot_outside:
  cmp r0, 0                 ; no carry
  ret
slot_owned:
  ld [snode + S_ALLOC]
  xor r3, r3, md
  cmp r3, 1
  ret
slot_pairs:
  cmp r4, r2
  bnc slot_paired
  ld [V_PAIRS_END]
  mov r5, md
  ld [r4 + S_ENTRIES + 8]
  add r4, 16
  cmp md, r5
  bc slot_pairs
  ret
slot_paired:
  cmp r0, 1                 ; carry
  ret
; The newest member is not valid any more: use the other one, or report damage. Keeps r6 to r8.
slot_other:
  st r6, [V_S6]
  st r7, [V_S7]
  st r8, [V_S8]
  call slot_pair
  bz fail_corrupt
  mov r3, r4
  call index_member
  call slot_root            ; this member has not been checked yet
  bnc fail_corrupt
  mov cslot, slot
  ld [V_S6]
  mov r6, md
  ld [V_S7]
  mov r7, md
  ld [V_S8]
  mov r8, md
  cmp snode, 0
  ret

; Starts to load the newest member of slot `slot`. Clobbers r1, r2.
slot_begin_any:
@grown  ld [V_FORMAT]
@grown  cmp slot, md
@grown  bnc slot_begin_far
; The same on a volume whose table has not grown.
slot_begin:
  andn r2, slot, 7
  add r2, index
  ld [r2]
  shl r1, slot, nlog
  add r1, slota
  byte r2, md, slot
  tst r2, 64
  bz slot_begin_a
  add r1, delta
slot_begin_a:
  do.load r1, snode
  sub cslot, r0, 1
  ret

; --- The index: one byte per slot. Bits 0-5: 0 free, 1 to 32 the name's tag, 63 without a name; bit 6: member B
; is the newer; bit 7: damaged.

; Sets byte `slot` to r1. Clobbers r2 to r5.
index_put:
  andn r2, slot, 7
  ld [V_INDEX]
  add r2, r2, md
  and r3, slot, 7
  shl r3, 3
  li r4, 255
  shl r4, r3
  shl r1, r3
  ld [r2]
  andn r5, md, r4
  or r5, r1
  st r5, [r2]
  ret

; Sets bit 6 of byte `slot` to r3. Clobbers r2 to r5.
index_member:
  andn r2, slot, 7
  ld [V_INDEX]
  add r2, r2, md
  and r4, slot, 7
  shl r4, 3
  add r4, 6
  mov r5, 1
  shl r5, r4
  ld [r2]
  shl r3, r4
  andn r4, md, r5
  or r4, r3
  st r4, [r2]
  ret

; r1 <- the tag of the slot in snode. Clobbers r2 to r8.
slot_tag:
  ld [snode + S_STATE]
  mov r1, mdl
  and r2, r1, 255
  bz tag_free
  cmp r2, 1
  bnz tag_nobody
  shr r2, r1, 16
  and r2, 255
  cmp r2, 65
  bnc tag_nobody
  add r1, snode, S_NAME
  call name_hash
; r1 <- the tag of hash r1.
tag_of:
  shr r1, 26
  and r1, 31
  add r1, 1
  ret
tag_free:
  mov r1, 0
  ret
tag_nobody:
  mov r1, 63
  ret

; r1 <- CRC32C of the r2 bytes at r1. At mount only: a name that a command brings is hashed by the
; intake. Clobbers r2 to r8.
name_hash:
  li r3, 0x82f6             ; Castagnoli's polynomial, reflected
  li r4, 0x3b78
  shl r3, 16
  or r3, r4
  sub r4, r0, 1
  shr r4, 32                ; the state
hash_word:
  ld [r1]
  mov r5, md
  mov r6, 8
hash_byte:
  cmp r2, 0
  bz hash_done
  and r7, r5, 255
  xor r4, r7
  mov r7, 8
hash_bit:
  and r8, r4, 1
  shr r4, 1
  cmp r8, 0
  bz hash_even
  xor r4, r3
hash_even:
  sub r7, 1
  bnz hash_bit
  shr r5, 8
  sub r2, 1
  sub r6, 1
  bnz hash_byte
  add r1, 8
  b hash_word
hash_done:
  sub r1, r0, 1
  shr r1, 32
  xor r1, r4
  ret

; Looks up the command's name: r6 is its address (NAME or NAME2), r1 its hash word, r7 its bytes.
; Zero flag clear: the file is in `slot`, and snode has it. Set: it does not exist, and V_T3 is the slot
; for it, or -1. Clobbers r1 to r8, V_T1 to V_T3.
search_any:
@grown  ld [V_GROWN]
@grown  cmp r0, md
@grown  bnz search_grown
; The same on a volume whose table has not grown.
search:
  cmp r7, 0
  bz fail_name
  cmp r7, 65
  bnc fail_name
  shr r2, r1, 32
  bnz fail_name
  st r1, [V_T1]
  ; If neither bucket has the tag, nothing is read.
  and r8, r1, mask
  shl r8, 3
  add r4, index, r8
  ld [r4]
  shr r3, r1, 16
  and r3, mask
  shl r3, 3
  tag r5, r1
  mov r4, md
  add r2, index, r3
  ld [r2]
  match r1, r4, r5
  bnz search_nodes
  mov r2, md
  match r1, md, r5
  bnz search_nodes
  ld [V_DAMAGED]
  cmp r0, md
  bnz search_nodes
  ; The emptier bucket's first free slot, the first bucket if they are equal: r8 and r3 are eight times their numbers,
  ; r4 and r2 their index bytes.
search_choose:
  match r4, 0
  match r2, 0
  ones r1, r4
  ones r5, r2
  cmp r1, r5
  bnc search_emptier likely
  mov r8, r3
  mov r4, r2
search_emptier:
  ctz r4, r4
  add r8, r4
  cmp r4, 8
  bc search_room likely
  sub r8, r0, 1
search_room:
  st r8, [V_T3]
  tst r0, 0
  ret
search_nodes:
  ld [V_T1]
  and r8, md, mask
  call search_bucket
  bnz search_found
  ld [V_T1]
  shr r2, md, 16
  and r2, mask
  and r1, md, mask
  cmp r1, r2
  bz search_free
  mov r8, r2
  call search_bucket
  bnz search_found
; The name is in neither. A damaged slot may be the one searched for.
search_free:
  ld [V_T1]
  and r8, md, mask
  shl r8, 3
  shr r3, md, 16
  and r3, mask
  shl r3, 3
  add r2, index, r3
  ld [r2]
  mov r2, md
  add r4, index, r8
  ld [r4]
  mov r4, md
  ld [V_DAMAGED]
  cmp r0, md
  bz search_choose
  mov r1, r4
  call bucket_damage
  mov r1, r2
  call bucket_damage
  b search_choose

; Fails if one of the eight slots whose index bytes are in r1 is damaged. Clobbers r1.
bucket_damage:
  tst r1, 128
  bnz fail_corrupt
  shr r1, 8
  bnz bucket_damage
search_found:
  ret

; Searches bucket r8 for the name at r6 of r7 bytes and hash V_T1. Zero flag clear: found.
search_bucket:
  shl r2, r8, 3
  add r2, index
  ld [V_T1]
  shr r1, md, 26
  and r1, 31
  add r1, 1
  ld [r2]
  match r2, md, r1
bucket_candidate:
  st r2, [V_T2]
  ctz r1, r2
  cmp r1, 8
  bnc bucket_none
  shl slot, r8, 3
  add slot, r1
  cmp slot, cslot
  bz bucket_compare
  call slot_begin_any
  wait part
bucket_compare:
  ; The name's bytes are in memory before the rest of the node is. Both are padded with zeroes.
  ld [snode + S_STATE]
  shr r1, mdl, 16
  and r1, 255
  cmp r1, r7
  bnz bucket_differs
  mov r1, r6
  add r2, snode, S_NAME
  add r3, r6, r7
bucket_word:
  ld [r1]
  add r1, 8
  mov r4, md
  ld [r2]
  add r2, 8
  cmp r4, md
  bnz bucket_differs
  cmp r1, r3
  bc bucket_word unlikely   ; most names have at most eight bytes
  cmp slot, cslot
  bz bucket_cached
  call slot_end
  bnz bucket_compare        ; the slot's other member was loaded
bucket_cached:
  ld [snode + S_STATE]
  and r1, mdl, 255
  cmp r1, 1
  bnz bucket_next
  cmp r1, 0                 ; found
  ret
bucket_differs:
  cmp slot, cslot
  bz bucket_next
  call slot_end
  bnz bucket_compare
bucket_next:
  ld [V_T2]
  mov r2, md
  sub r1, r2, 1
  and r2, r1
  b bucket_candidate
bucket_none:
  tst r0, 0
  ret

; The command's first name: sets r6, r1, r7 for `search`.
name_first:
  wait hashed
  ld [MISC]
  shr r7, md, 16
  and r7, 127
  ld [HASH]
  mov r1, md
  li r6, NAME
  ret

; slot <- the file of the command's name, in snode; fails if there is none.
find:
  call name_first
  call search_any
  bz fail_notfound
  ret

; --- Commands ---

cmd_open:
  call place
  ld [file + F_FLAGS]
  mov r3, mdl
  tst r3, F_IS_OPEN
  bnz fail_inuse
  shr r3, r1, 4
  and r3, 1
  cmp r3, mounted              ; 1 - 2: to write, on a volume that is mounted read-only
  bz open_allowed
  cmp r3, 1
  bz fail_readonly
open_allowed:
  shl r3, 1
  or r3, 1
  st r3, [V_T4]             ; flags of the open file
  call find
  ; A file that is open for writing is open only once.
  ld [V_T4]
  mov r3, md
  call users
  bnz fail_inuse
  ld [snode + S_ATTRS]
  cmp r0, mdl
  bnz open_sums
open_occupy:
  call occupy
  cmp r1, 0                 ; the map's level
  bz opened_now
  tst r3, 2
  bnz opened_now            ; a change loads the slot again
  call learn
opened_now:
  ld [snode + S_SIZE]
  mov r1, md
  b done

; Zero flag clear: `slot` is open already, and this or the other opening is for writing; r3 has this one's flags.
; Clobbers r1, r2, r4, r5.
users:
  ld [V_OPEN]
  mov r1, md
  cmp r1, 0
  bz users_found
  li r1, FILES
  mov r2, 8
users_next:
  ld [r1 + F_FLAGS]
  mov r4, mdl
  mov r5, mdh
  tst r4, F_IS_OPEN
  bz users_free
  cmp r5, slot
  bnz users_free
  or r4, r3
  tst r4, 2
  bnz users_found
users_free:
  add r1, 64
  sub r2, 1
  bnz users_next
users_found:
  ret

; Opens the file in snode as `file`, with flags r3. r1 <- the map's level. Clobbers r2.
occupy:
  stl r3, [file + F_FLAGS]
  ld [V_OPEN]
  add r1, md, 1
  st r1, [V_OPEN]
; The same without flags: for the file of a single command.
enter:
  sth slot, [file + F_SLOT]
  ld [snode + S_SIZE]
  mov r1, md
  st r1, [file + F_SIZE]
  st r1, [file + F_END]
  ld [snode + S_ALLOC]
  mov r1, md
  st r1, [file + F_ALLOC]
  st r0, [file + F_UNITS]
  ; The first extent, if it is in the slot.
  ld [snode + S_STATE]
  shr r1, mdl, 8
  and r1, 255
  bnz occupied
  ld [snode + S_ENTRIES]
  mov r2, md
  st r2, [file + F_START]
  ld [snode + S_ENTRIES + 8]
  mov r2, mdl
  st r2, [file + F_UNITS]
  st r0, [file + F_LOGICAL]
occupied:
  ret

; Emits the first file in slot OFFSET or after it, as 80 bytes: its size, its slot (and in the high half its
; name's bytes), its name. The value is the slot after it.
cmd_list:
  wait command
  cmp mounted, 0
  bz fail_mount
  ld [OFFSET]
  mov slot, md
list_next:
  ld [V_SLOTS]
  cmp slot, md
  bnc fail_notfound
  andn r2, slot, 7
  add r2, index
  and r3, slot, 7
  shl r3, 3
  ld [r2]
  shr r4, md, r3
  and r4, 63
  bz list_skip
  cmp r4, 63
  bnz list_found
list_skip:
  add slot, 1
  b list_next
list_found:
  call load_slot
  ld [snode + S_SIZE]
  mov r1, md
  do.emit r1, r0
  ld [snode + S_STATE]
  shr r1, mdl, 16
  shl r1, 32
  or r1, slot
  do.emit r1, r0
  mov r3, snode
  mov r4, 7
list_name:
  ld [r3 + S_NAME]
  mov r1, md
  do.emit r1, r0
  add r3, 8
  sub r4, 1
  bnz list_name
  ld [r3 + S_NAME]
  mov r1, md
  do.emit r1, r0, LAST
  add r1, slot, 1
  b done
