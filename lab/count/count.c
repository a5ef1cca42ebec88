// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A QEMU plugin that counts the instructions a guest executes between two markers.
 *
 * A marker is a no-operation with a marked displacement, `nopl DISPLACEMENT(%rax)`, so that a program needs no library to be counted and runs the same without this. marker.h has them.
 * Each pair of markers gives a line, when it ends: LABEL USER KERNEL WAITING CALLS.
 *
 * FILE.profile then has a line for each block of code that ran between markers, ADDRESS INSTRUCTIONS, all
 * labels together: with the guest's /proc/kallsyms it shows which functions the instructions were in.
 *
 * Waiting is the code in address ranges that the program named (the idle loop, a loop that polls
 * a ring): how long those run is the drive's time, not the path's work. A REP string instruction counts
 * once, however often it repeats. An instruction that faults counts again when it is restarted. Calls are those of the `syscall`
 * instruction.
 *
 * It also counts a program in QEMU's user mode, for 64-bit Arm and RISC-V too, whose markers are other no-operations: marker.h
 * has them all.
 *
 * Debian packages no qemu-plugin.h; the declarations below are the few of its version 1 that are used.
 * Counts are of one virtual CPU: with two they would be mixed.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "marker.h"

/* --- QEMU's plugin interface, version 1 -------------------------------------------------------- */

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

typedef struct qemu_info_t {
	const char *target_name;
	struct {
		int min, cur;
	} version;
	bool system_emulation;
	struct {
		int smp_vcpus, max_vcpus;
	} system;
} qemu_info_t;

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };

typedef void (*tb_callback)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*vcpu_callback)(unsigned int vcpu, void *data);
typedef void (*exit_callback)(qemu_plugin_id_t id, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_callback callback);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, enum qemu_plugin_op op,
						void *counter, uint64_t value);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, vcpu_callback callback,
					    enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, exit_callback callback, void *data);

#define EXPORT __attribute__((visibility("default")))

EXPORT int qemu_plugin_version = 1;

/* --- What is counted --------------------------------------------------------------------------- */

enum { USER, KERNEL, WAITING, CALLS, BUCKETS };
#define RANGES_MAX 16
#define LABELS 256

struct counts {
	uint64_t of[BUCKETS];
};

/* Translated code that starts at an address; its bucket may become known after it first ran. */
struct code {
	uint64_t address;
	uint64_t executed;
	uint64_t begun; /* executed at the last begin marker */
	uint64_t marked; /* executed between markers */
	unsigned int bucket;
};

#define CODES_LOG2 20
static struct code codes[1u << CODES_LOG2];
static unsigned int code_places[1u << CODES_LOG2], code_count;

static struct counts begun[LABELS];
static bool is_begun[LABELS];
static struct {
	uint64_t first, last;
} ranges[RANGES_MAX];
static unsigned int range_count;
static FILE *output, *profile;
static bool is_arm, is_riscv;

/* All instructions except repeated ones; the REP instruction that ran last, and this count then. */
static uint64_t executed, rep_address, rep_executed;

/* Calls of the kernel by user space. */
static uint64_t calls;

static unsigned int bucket(uint64_t address)
{
	unsigned int index;

	for (index = 0; index < range_count; index++)
		if (address >= ranges[index].first && address <= ranges[index].last)
			return WAITING;
	return address >> 63 ? KERNEL : USER;
}

/* The entry of code at this address, created if necessary. A full table ends the run. */
static struct code *find_code(uint64_t address)
{
	unsigned int place = address * 0x9e3779b97f4a7c15ull >> (64 - CODES_LOG2);

	for (; codes[place].address; place = (place + 1) & ((1u << CODES_LOG2) - 1))
		if (codes[place].address == address)
			return &codes[place];
	if (code_count == (1u << CODES_LOG2) / 2) {
		fprintf(stderr, "count: too much code\n");
		exit(1);
	}
	codes[place].address = address;
	codes[place].bucket = bucket(address);
	code_places[code_count++] = place;
	return &codes[place];
}

static struct counts count_now(void)
{
	struct counts now = { { 0 } };
	unsigned int index;

	now.of[CALLS] = calls;
	for (index = 0; index < code_count; index++)
		now.of[codes[code_places[index]].bucket] += codes[code_places[index]].executed;
	return now;
}

/* Code that ran since the last begin marker is part of the profile. */
static void note_profile(bool is_end)
{
	unsigned int index;

	for (index = 0; index < code_count; index++) {
		struct code *code = &codes[code_places[index]];

		if (is_end)
			code->marked += code->executed - code->begun;
		code->begun = code->executed;
	}
}

static void add_range(uint64_t first, uint64_t last)
{
	unsigned int index;

	for (index = 0; index < range_count; index++)
		if (ranges[index].first == first && ranges[index].last == last)
			return;
	if (range_count < RANGES_MAX && first <= last) {
		ranges[range_count].first = first;
		ranges[range_count++].last = last;
	}
	for (index = 0; index < code_count; index++)
		codes[code_places[index]].bucket = bucket(codes[code_places[index]].address);
}

static void on_rep(unsigned int vcpu, void *data)
{
	struct code *code = data;

	(void)vcpu;
	if (code->address == rep_address && executed == rep_executed)
		return;
	code->executed++;
	rep_address = code->address;
	rep_executed = ++executed;
}

/* A range is sent in eight messages of 16 bits, lowest first: its first address, then its last. */
static void on_message(unsigned int part, uint16_t bits)
{
	static uint64_t words[2];

	words[part / 4 & 1] &= ~(0xffffull << 16 * (part % 4));
	words[part / 4 & 1] |= (uint64_t)bits << 16 * (part % 4);
	if (part == 7)
		add_range(words[0], words[1]);
}

static void on_marker(unsigned int vcpu, void *data)
{
	uint32_t marker = (uint32_t)(uintptr_t)data;
	unsigned int label = marker >> 8 & 0xff, kind;

	(void)vcpu;
	if (marker >> 28 == MARKER_MESSAGE >> 28) {
		on_message(marker >> 16 & 7, marker & 0xffff);
		return;
	}
	kind = marker & 0xff;
	if (kind == MARKER_BEGIN) {
		begun[label] = count_now();
		is_begun[label] = true;
		note_profile(false);
	} else if (kind == MARKER_END && is_begun[label]) {
		struct counts now = count_now();

		is_begun[label] = false;
		note_profile(true);
		fprintf(output, "%u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", label,
			now.of[USER] - begun[label].of[USER], now.of[KERNEL] - begun[label].of[KERNEL],
			now.of[WAITING] - begun[label].of[WAITING], now.of[CALLS] - begun[label].of[CALLS]);
		/* A program in the guest may read it now. */
		fflush(output);
	}
}

/* REP or REPNE before MOVS, CMPS, STOS, LODS, SCAS, INS or OUTS, with other prefixes between. */
static bool is_rep(const uint8_t *bytes, size_t size)
{
	bool has_rep = false;
	size_t at;

	for (at = 0; at < size; at++) {
		uint8_t byte = bytes[at];

		if (byte == 0xf2 || byte == 0xf3)
			has_rep = true;
		else if (byte != 0x66 && byte != 0x67 && (byte & 0xf0) != 0x40 && byte != 0x2e && byte != 0x36 &&
			 byte != 0x3e && byte != 0x26 && byte != 0x64 && byte != 0x65)
			break;
	}
	if (!has_rep || at >= size)
		return false;
	return (bytes[at] >= 0xa4 && bytes[at] <= 0xa7) || (bytes[at] >= 0xaa && bytes[at] <= 0xaf) ||
	       (bytes[at] >= 0x6c && bytes[at] <= 0x6f);
}

/* nopl DISPLACEMENT(%rax): 0f 1f 80 and the displacement. */
static bool is_x86_marker(const uint8_t *bytes, size_t size, uint32_t *marker)
{
	if (size != 7 || bytes[0] != 0x0f || bytes[1] != 0x1f || bytes[2] != 0x80)
		return false;
	memcpy(marker, bytes + 3, sizeof(*marker));
	return (*marker & 0xffff0000) == MARKER_MAGIC || *marker >> 28 == MARKER_MESSAGE >> 28;
}

/* movz xzr, #IMMEDIATE or lui zero, IMMEDIATE, with the magic of marker.h. */
static bool is_word_marker(const uint8_t *bytes, size_t size, uint32_t *marker)
{
	uint32_t word, mask = is_arm ? MARKER_ARM_MASK : MARKER_RISCV_MASK;

	if (size != sizeof(word))
		return false;
	memcpy(&word, bytes, sizeof(word));
	if ((word & mask) != (is_arm ? MARKER_ARM : MARKER_RISCV))
		return false;
	word = word >> (is_arm ? 5 : 12) & 0xfff;
	*marker = MARKER_MAGIC | (word >> 4) << 8 | (word & 0xf);
	return true;
}

static bool is_marker(const uint8_t *bytes, size_t size, uint32_t *marker)
{
	return is_arm || is_riscv ? is_word_marker(bytes, size, marker) : is_x86_marker(bytes, size, marker);
}

/* syscall, by which 64-bit programs call the kernel. */
static bool is_x86_call(const uint8_t *bytes, size_t size)
{
	return size == 2 && bytes[0] == 0x0f && bytes[1] == 0x05;
}

static void add_one(struct qemu_plugin_insn *insn, struct code *code)
{
	qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64, &code->executed, 1);
	qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64, &executed, 1);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t index, count = qemu_plugin_tb_n_insns(tb);
	struct code *code = find_code(qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0)));

	(void)id;
	for (index = 0; index < count; index++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, index);
		const uint8_t *bytes = qemu_plugin_insn_data(insn);
		size_t size = qemu_plugin_insn_size(insn);
		uint32_t marker;

		if (is_marker(bytes, size, &marker))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_marker, QEMU_PLUGIN_CB_NO_REGS,
							       (void *)(uintptr_t)marker);
		else if (!is_arm && !is_riscv && is_rep(bytes, size))
			qemu_plugin_register_vcpu_insn_exec_cb(
				insn, on_rep, QEMU_PLUGIN_CB_NO_REGS,
				find_code(qemu_plugin_insn_vaddr(insn)));
		else
			add_one(insn, code);
		if (!is_arm && !is_riscv && is_x86_call(bytes, size))
			qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64, &calls, 1);
	}
}

static void on_end(qemu_plugin_id_t id, void *data)
{
	unsigned int index;

	(void)id;
	(void)data;
	for (index = 0; profile && index < code_count; index++) {
		const struct code *code = &codes[code_places[index]];

		if (code->marked)
			fprintf(profile, "%" PRIx64 " %" PRIu64 "\n", code->address, code->marked);
	}
	if (profile)
		fclose(profile);
	if (output)
		fclose(output);
	output = profile = NULL;
}

/* out=FILE. */
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	int index;

	if (info->system_emulation && info->system.smp_vcpus != 1) {
		fprintf(stderr, "count: it counts one CPU of a whole machine\n");
		return 1;
	}
	is_arm = !strcmp(info->target_name, "aarch64");
	is_riscv = !strcmp(info->target_name, "riscv64");
	for (index = 0; index < argc; index++) {
		if (!strncmp(argv[index], "out=", 4)) {
			char name[4096];

			output = fopen(argv[index] + 4, "w");
			snprintf(name, sizeof(name), "%s.profile", argv[index] + 4);
			profile = fopen(name, "w");
		} else {
			fprintf(stderr, "count: unknown argument %s\n", argv[index]);
			return 1;
		}
	}
	if (!output || !profile) {
		fprintf(stderr, "count: out=FILE is missing, or cannot be written\n");
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, on_end, NULL);
	return 0;
}
