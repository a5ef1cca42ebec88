; SPDX-License-Identifier: Apache-2.0 OR MIT
; Start, the loop over commands, and the failure paths.

  b start
  b timeout

start:
  li r0, 0
  st r0, [V_EARLY]
  st r0, [V_ZERO]
  st r0, [V_CHANGING]
  st r0, [V_TIMED]
  call unmounted_now
  li r1, NODES
  lin r2, 256
  add snode, r1, 0
  add work, snode, r2
  add spare, work, r2
  add r3, spare, r2
  st r3, [V_INDEX]
  ; "SWsl", "SWbm", "SWlf", "STRTWAY1"
  li r5, 0x5753
  li r1, 0x6c73
  shl r1, 16
  or r1, r5
  st r1, [V_MSLOT]
  li r1, 0x6d62
  shl r1, 16
  or r1, r5
  st r1, [V_MBITMAP]
  li r1, 0x666c
  shl r1, 16
  or r1, r5
  st r1, [V_MLEAF]
  li r1, 0x3159
  shl r1, 16
  li r2, 0x4157
  or r1, r2
  shl r1, 16
  li r2, 0x5452
  or r1, r2
  shl r1, 16
  li r2, 0x5453
  or r1, r2
  st r1, [V_MSUPER]

@grown  b main
; The command is done; r1 is its value.
@grown done:
@grown  do.respond r1, r0
; The fast paths go on at `main` or at `main_any`, whichever they began at; the others find out which.
main_check:
@grown  ld [V_GROWN]
@grown  cmp r0, md
@grown  bnz main_any
main:
  st r0, [V_UNDO]
  wait! begun
  ld [MISC]
  jump mdl + commands

; Each command begins with md = MISC. Its other fields are valid when `command` is set.
commands:
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
  b cmd_delete
  b cmd_rename
  b cmd_list
  b cmd_get                 ; numbered by the intake: a read by name
  b cmd_put                 ; and a create with its data
  b bad_command

; The command is done; r1 is its value.
@plain done:
@plain  do.respond r1, r0
@plain  b main_check
done_zero:
  do.respond r0, r0
  b main_check

bad_command:
  wait command
  b fail_command

; Marks the volume as not mounted, and the index as empty. Clobbers nothing else.
unmounted_now:
@grown  st r0, [V_GROWN]
  mov mounted, 0
  mov nfree, 0
  mov mask, 0
  li index, V_ZERO
  ret

; file <- the record of the file that MISC names; MISC is in md, and afterwards in r1. Clobbers r2.
place:
  wait command
  mov r1, md
place_of:
  cmp mounted, 0
  bz fail_mount
  shr r2, r1, 8
  tst r2, 128
  bnz fail_command
  and r2, 7
  shl r2, 6
  add file, r2, FILES
  ret

; The same for an open file, or fails. slot <- its slot; r3 <- its flags.
opened:
  call place
  ld [file + F_FLAGS]
  mov r3, mdl
  mov slot, mdh
  tst r3, 1
  bz opened_sums            ; or no file is open
  ret

; The same for a file that is open for writing. A volume that is mounted read-only has no such files.
writable:
  call opened
  tst r3, 2
  bz fail_writable
  ret

; A command that changes names. r1 <- MISC, from md.
changeable:
  wait command
  mov r1, md
  cmp mounted, 0
  bz fail_mount
  cmp mounted, 1
  bnz fail_readonly
  ret

; --- Failing ---
fail_gone:
  li r2, 9
  b fail
fail_command:
  li r2, 16
  b fail
fail_mount:
  li r2, 17
  b fail
fail_novolume:
  li r2, 18
  b fail
fail_newer:
  li r2, 19
  b fail
fail_unsuitable:
  li r2, 20
  b fail
fail_corrupt:
  li r2, 21
  b fail
fail_stale:
  li r2, 22
  b fail
fail_readonly:
  li r2, 23
  b fail
fail_name:
  li r2, 24
  b fail
fail_notfound:
  li r2, 25
  b fail
fail_exists:
  li r2, 26
  b fail
fail_table:
  li r2, 27
  b fail
fail_space:
  li r2, 28
  b undo
fail_map:
  li r2, 29
; Removes a file that this command created; then continues as for any failure.
undo:
  ld [V_UNDO]
  mov r1, md
  cmp r1, 0
  bz fail
  st r0, [V_UNDO]
  st r2, [V_MODE]
  sub slot, r1, 1
  call load_slot
  call remove
  ld [MISC]
  mov r1, md
  tst r1, 16
  bnz undone                ; a put has no record of an open file
  call leave
undone:
  ld [V_MODE]
  mov r2, md
  b fail
fail_inuse:
  li r2, 30
  b fail
fail_open:
  li r2, 31
  b fail
fail_writable:
  li r2, 32
  b fail
fail_past:
  li r2, 33
  b fail
fail_unsupported:
  li r2, 34
  b fail

; r2 is the status. Requests under way end first.
fail:
  do.abort r0, r0, DROP
  call quiet
fail_quiet:
  call settle
fail_settled:
  do.respond r0, r2
  b main_check

; A request failed: the ports have its status and its code.
fail_device:
  do.abort r0, r0, DROP
  call quiet
  call settle_kept
  do.respond r0, r0, PORT
  do.abort r0, r0, FORGET
  b main_check

; Waits until nothing is under way, neither to the device nor to the application.
quiet:
  wait given
  wait sent
  wait written
  wait fetched
  wait loaded
  wait flushed
  ret

; After an error: the nodes in memory are not trusted, and a volume whose change was interrupted must
; be mounted again. Clobbers r1.
settle:
  do.abort r0, r0, FORGET
settle_kept:
  ld [SB + SB_SEQ]
  mov r1, md
  ld [V_EARLY]
  sub r1, r1, md
  st r1, [SB + SB_SEQ]
  st r0, [V_EARLY]
  ld [V_CHANGING]
  mov r1, md
  call forget
  cmp mounted, 0
  bz unmounted_now          ; a mount that failed
  cmp r1, 0
  bz settled
  st r0, [V_CHANGING]
  b unmounted_now
settled:
  ret

; No progress for too long. If the application is the cause, the command ends once its data is dropped; if the
; device is, there is no progress this time, either.
timeout:
  ld [V_TIMED]
  mov r1, md
  cmp r1, 0
  bnz timeout_again
  mov r1, 1
  st r1, [V_TIMED]
  do.abort r0, r0, DROP + WITHDRAW
  call quiet
  st r0, [V_TIMED]
  li r2, 7
  b fail_quiet
timeout_again:
  st r0, [V_TIMED]
  call unmounted_now
  st r0, [V_CHANGING]
  li r2, 7
  b fail_settled
