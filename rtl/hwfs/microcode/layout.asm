; SPDX-License-Identifier: Apache-2.0 OR MIT
; The memory, and the volume's structures in it (FORMAT.md). Addresses and offsets are in bytes.

; --- What the intake writes (hwfs_intake.sv) ---
MISC     = 0x00     ; op 0-3, flags 4-7, file 8-10, file out of range 15, bytes of the names 16-22 and 24-30
OFFSET   = 0x08
LENGTH   = 0x10
GEOMETRY = 0x18     ; ready 0, cache 1, fua 2, read-only 3, log2 block 4-8, reads in order 10, log2 longest
                    ; node 11-15, blocks 16-63; 9: supports checksums of data
HASH     = 0x20     ; hash, and in the high half whether the name is bad
HASH2    = 0x28
LIMITS   = 0x38     ; longest transfer in blocks; high: slots that the index has room for
NAME     = 0x40
NAME2    = 0x80

; --- Variables ---
V_GROWN  = 0xc0     ; buckets of a table that has grown; otherwise 0
V_FORMAT = 0xc8     ; slots of the format's table
V_TABLE  = 0xd0     ; where the extents of the others are, the last one first: the first slot of each, and what to add to a slot's offset
V_FAR    = 0xd8     ; these two of the last one
V_FAR_AT = 0xe0
V_SLOTS  = 0xe8     ; slots of the volume
V_PAIRS_END = 0xf0  ; the first unit at which no leaf pair fits before the volume's end
V_SUM      = 0xf8   ; the last result of hwfs_sum: its own word, not in memory
V_ZERO     = 0x100  ; a word that is zero
V_CHANGING = 0x108  ; a change is under way: an error now leaves the volume to be mounted again
V_INTO     = 0x110  ; address to which a node of a map is loaded
V_MARKS    = 0x118  ; address for the marks of its pair
V_NOWHERE  = 0x120  ; address for marks that are not used
V_CLEAF    = 0x128  ; the leaf that is in node SPARE, or -1
V_INDEX    = 0x130  ; address of the index
V_EDGE     = 0x138  ; address of the buffer for a write's last block
V_MSLOT    = 0x148  ; magic numbers
V_MBITMAP  = 0x150
V_MLEAF    = 0x158
V_MSUPER   = 0x160
V_BUCKETS  = 0x168  ; buckets minus one
V_FILEID   = 0x170  ; of the file whose leaf is to be loaded
V_TIMED    = 0x178  ; a time-out is being cleaned up
V_LIMIT    = 0x180  ; longest transfer in bytes
V_END      = 0x188  ; end of the data of this command
V_WANT     = 0x190  ; units that are still missing
V_GROUPS   = 0x198  ; groups
V_GUNITS   = 0x1a0  ; log2 of a group's units
V_KEEP     = 0x1a8  ; units that a release keeps
V_FROM     = 0x1b0  ; the old slot of a rename
V_TURN     = 0x1b8
V_T1       = 0x1c0  ; variables of the current routine
V_T2       = 0x1c8
V_T3       = 0x1d0
V_T4       = 0x1d8
V_T5       = 0x1e0
V_SEEN     = 0x1e8  ; of the mount: the sequence number of superblock A, plus one
V_DURABLE  = 0x1f0  ; a commit is to be durable
V_EARLY    = 0x1f8  ; 1: the superblock in memory is numbered and sealed, and its store has not started

V_S6       = 0x500
V_S7       = 0x508
V_S8       = 0x510
V_NMAX     = 0x510  ; of the mount: log2 of the longest node
V_GOT      = 0x518
V_RUNS     = 0x520
V_MODE     = 0x528
V_NEAR     = 0x530
V_ROOM     = 0x538
V_GROUP    = 0x540
V_AT       = 0x548
V_FLAG     = 0x550
V_OPEN     = 0x558  ; open files
V_DAMAGED  = 0x560  ; some slot is damaged
V_CURSOR   = 0x568  ; end of the last allocation in the bitmap of WORK
V_UNDO     = 0x578  ; the slot, plus one, of a file that is removed again if there is no space for it
V_STORED   = 0x570  ; the data of the new file is stored already

; --- Open files, 64 bytes each ---
FILES      = 0x200
F_FLAGS    = 0      ; 1 open, 2 to write, 4 the slot's two members differ, 8 open and with checksums; high: slot
F_IS_OPEN  = 9      ; flags: one of them
F_SLOT     = 0
F_SIZE     = 8      ; committed
F_ALLOC    = 16
F_END      = 24     ; written
F_LOGICAL  = 32     ; an extent: its first unit in the file, in the volume, its units
F_START    = 40
F_UNITS    = 48
; Only with checksums of data, where there are at most four files: in the space of the entries after the fourth.
F_BYTES    = 0x108  ; bytes of data written; F_END counts the units' bytes during a write
F_SUM      = 0x110  ; CRC32C of the last part of these, from a multiple of 64 KiB on

; --- Variables of a map with leaves, in the unused space of the records above ---
V_LEVEL    = 0x30
V_LEAF     = 0x238  ; see `tail`
V_LFIRST   = 0x278
V_LLIVE    = 0x2b8
V_NODE     = 0x2f8
V_NFIRST   = 0x338
V_NLIVE    = 0x378  ; high: all entries
V_PAIRS    = 0x3b8  ; leaf pairs that a growth allocates
V_KIND     = 0x3f8  ; how it changes the map
V_LAST     = 0x5f8  ; units of the last extent that belong to the file

; --- The superblock in force ---
SB         = 0x400
SB_VERSION = 8      ; high half
SB_SEQ     = 16
SB_UUID    = 24
SB_VOLUME  = 40
SB_LOGS    = 48     ; unit, node, buckets, block: a byte each
SB_STATE   = 48     ; high half
SB_INCOMPAT = 56
SB_RO      = 56     ; high half
SB_MOUNTS  = 64     ; high half
SB_SLOTS_A = 72
SB_SLOTS_B = 80
SB_BITMAP_A = 88
SB_BITMAP_B = 96
SB_DATA    = 104
SB_UNITS   = 112
SB_HINT    = 120
SB_KIND    = 128    ; high: slot
SB_SLOT2   = 136    ; high: runs
SB_RUNS    = 144
SB_TABLE   = 248    ; high: unit of the table node

; --- Nodes. Three nodes of the maximum size start at NODES, followed by the index ---
EDGE       = 0x580
BRIEF      = 0x5c0  ; the record of a file that one command opens and closes; layout as in FILES
NODES      = 0x600
SEQ        = 8
LAST_OP    = 16
FILE_ID    = 24
S_SIZE     = 32
S_ALLOC    = 40
S_STATE    = 56     ; state, level, name bytes: a byte each; high: entries
S_ATTRS    = 64
S_NAME     = 80
S_ENTRIES  = 144
L_FIRST    = 32
L_COUNT    = 40     ; high: level
L_ENTRIES  = 64
B_FREE     = 32

; --- Registers. r0 is zero, r1 to r8 are scratch ---
nlog  = r9          ; log2 of a node
unit  = r10         ; log2 of an allocation unit
slot  = r11         ; the slot's number
file  = r12         ; the open file
spare = r13         ; nodes
work  = r14
snode = r15
; The contents of the nodes, and the state of the volume.
cslot  = r16        ; the slot s that is in node SLOT, or -1; with marks, which only reads use (map.asm): -2 - s
cgroup = r17        ; the group whose bitmap is in node WORK, or -1; -2 - u: the index node of the pair at unit u
mounted = r18       ; 0, 1: may be changed, 2: read-only
dirty  = r19        ; something was written since the last flush
; The shape, while mounted; otherwise no look-up in the index finds anything.
index  = r20        ; address of the index
mask   = r21        ; buckets minus one
slota  = r22        ; address of member A of the first slot
delta  = r23        ; distance from a node's member A to its member B
dstart = r24        ; address of the first data unit
bits0  = r25        ; the bits of the bitmap in WORK
bmask  = r26        ; the device's block minus one
umask  = r27        ; an allocation unit minus one
; The units for the next put: nfree free units, the first is nfirst, in the group of WORK. nfree is 0 if none are known,
; if the volume is read-only or not yet marked as in use, or if a change is not durable.
nfirst = r28
nfree  = r29
; Scratch: r30, r31

; --- Immediates of `do` ---
SUPER   = 1
RAW     = 2
FUA     = 4
FIRST   = 1
HOLD    = 1
SUMS    = 2
WRITING = 1
DROP    = 1
FORGET  = 2
RELEASE = 4
ARM     = 8
WITHDRAW = 16
PORT    = 1
LAST    = 1

LONG_NAMES = 16     ; bits of INCOMPAT: a slot may have a name of more than 64 bytes
GROWN = 32          ; the table has grown
KNOWN_FEATURES = 49

IN_ORDER = 1024     ; bits of GEOMETRY
KNOWS_SUMS = 512
