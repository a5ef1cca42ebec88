// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * The markers of lab/count: put them around what is to be counted. Without the plugin they do nothing.
 *
 *     COUNT_BEGIN(3); work(); COUNT_END(3);
 *
 * The label is a constant from 0 to 255. count_waits() names an address range whose instructions are
 * counted apart, count_waits_in() a function of the kernel or of a module by its name.
 */
#ifndef COUNT_MARKER_H
#define COUNT_MARKER_H

#include <stdint.h>

#define MARKER_MAGIC 0x53570000u
#define MARKER_BEGIN 1u
#define MARKER_END 2u
#define MARKER_MESSAGE 0x60000000u

/*
 * 64-bit Arm: movz xzr, #0x5000 + label * 16 + kind; RISC-V: lui zero, 0x53000 + label * 16 + kind.
 * crates/figures/examples/support/callgrind.rs has them.
 */
#define MARKER_ARM 0xd28a001fu
#define MARKER_ARM_MASK 0xfffe001fu
#define MARKER_RISCV 0x53000037u
#define MARKER_RISCV_MASK 0xff000fffu

#define COUNT_STRING_(x) #x
#define COUNT_STRING(x) COUNT_STRING_(x)
/* The label in bits 15:8, the kind in 7:0; 1398210560 is MARKER_MAGIC. */
#define COUNT_BEGIN(label) __asm__ volatile("nopl 1398210560+" COUNT_STRING(label) "*256+1(%%rax)" ::: "memory")
#define COUNT_END(label) __asm__ volatile("nopl 1398210560+" COUNT_STRING(label) "*256+2(%%rax)" ::: "memory")

#if defined(COUNT_MESSAGES)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Writes eight no-operations that carry both addresses, and runs them. Returns 0, or -1 without memory. */
static int count_waits(uint64_t first, uint64_t last)
{
	uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t words[2] = { first, last };
	uint32_t part, marker;

	if (code == MAP_FAILED)
		return -1;
	for (part = 0; part < 8; part++) {
		marker = MARKER_MESSAGE | part << 16 | (uint32_t)(words[part / 4] >> 16 * (part % 4) & 0xffff);
		memcpy(code + part * 7, "\x0f\x1f\x80", 3);
		memcpy(code + part * 7 + 3, &marker, 4);
	}
	code[8 * 7] = 0xc3;
	((void (*)(void))(uintptr_t)code)();
	munmap(code, 4096);
	return 0;
}

/* "ADDRESS TYPE NAME" or "ADDRESS TYPE NAME [MODULE]". Compilers add a suffix to a NAME after a dot. */
static int count_is_symbol(const char *line, const char *function, const char *module)
{
	const char *name = line + 19, *end = name + strcspn(name, " .\t\n"), *of = strchr(name, '[');

	if (strlen(line) < 20 || (size_t)(end - name) != strlen(function) || strncmp(name, function, end - name))
		return 0;
	return *module ? of && !strncmp(of + 1, module, strlen(module)) && of[1 + strlen(module)] == ']' : !of;
}

/* From the function's symbol to the next one. Returns 1 if /proc/kallsyms has no such function. */
static int count_waits_in(const char *function, const char *module)
{
	uint64_t address, first = 0, last = UINT64_MAX;
	char line[512];
	FILE *symbols = fopen("/proc/kallsyms", "r");

	if (!symbols)
		return -1;
	while (!first && fgets(line, sizeof(line), symbols))
		if (count_is_symbol(line, function, module))
			first = strtoull(line, NULL, 16);
	rewind(symbols);
	while (first && fgets(line, sizeof(line), symbols)) {
		/* A module's symbols are unsorted, after all others. */
		if (*module && !strchr(line, '['))
			continue;
		address = strtoull(line, NULL, 16);
		if (address > first && address < last)
			last = address;
	}
	fclose(symbols);
	return first ? count_waits(first, last - 1) : 1;
}
#endif

#endif
