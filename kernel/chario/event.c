// SPDX-License-Identifier: GPL-2.0-only
/*
 * The rings of swt_event(), and the node that user space maps, reads and controls.
 *
 * The lanes are allocated when the module is loaded, one after the other in the node: a page that
 * describes the lane, then its records. Only this file writes the descriptions. Recording is one
 * static key; synchronize_rcu() waits for every swt_stamp() that saw it on, as each has preemption
 * disabled.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "swt_event.h"

#define CAPACITY_MAX (1u << 20)

DEFINE_PER_CPU(struct swt_cursor, swt_cursors);
DEFINE_STATIC_KEY_FALSE(swt_is_on);
void __iomem *swt_timer;

static DEFINE_MUTEX(lock);
static void *lanes; /* of every possible processor */
static size_t lane_bytes;
static bool is_on;
static bool is_armed;

static size_t all_bytes(void)
{
	return lane_bytes * nr_cpu_ids;
}

static struct swt_header *lane_of(unsigned int cpu)
{
	return lanes + cpu * lane_bytes;
}

static void note(__le64 *counter, __le64 *ns)
{
	unsigned long flags;

	local_irq_save(flags);
	*ns = cpu_to_le64(ktime_get_ns());
	*counter = cpu_to_le64(swt_counter());
	local_irq_restore(flags);
}

static void begin(void)
{
	unsigned int cpu;

	if (is_on)
		return;
	for (cpu = 0; lanes && cpu < nr_cpu_ids; cpu++) {
		struct swt_header *header = lane_of(cpu);

		if (!header->begin_ns)
			note(&header->begin_counter, &header->begin_ns);
	}
	is_on = true;
	is_armed = false;
	static_branch_enable(&swt_is_on);
}

/* Afterwards no processor writes a record, and the headers are final. */
static void pause(void)
{
	unsigned int cpu;

	is_armed = false;
	if (is_on) {
		is_on = false;
		static_branch_disable(&swt_is_on);
		synchronize_rcu();
	}
	for (cpu = 0; lanes && cpu < nr_cpu_ids; cpu++) {
		struct swt_cursor *cursor = per_cpu_ptr(&swt_cursors, cpu);
		struct swt_header *header = lane_of(cpu);
		u64 past = cursor->next > cursor->end ? cursor->next - cursor->end : 0;

		header->lost = cpu_to_le64(past / sizeof(struct swt_record));
		note(&header->end_counter, &header->end_ns);
	}
}

static void clear(void)
{
	bool was_on = is_on, was_armed = is_armed;
	unsigned int cpu;

	pause();
	for (cpu = 0; lanes && cpu < nr_cpu_ids; cpu++) {
		struct swt_cursor *cursor = per_cpu_ptr(&swt_cursors, cpu);
		struct swt_header *header = lane_of(cpu);

		memset((void *)header + SWT_HEADER_BYTES, 0, lane_bytes - SWT_HEADER_BYTES);
		cursor->next = (unsigned long)header + SWT_HEADER_BYTES;
		cursor->end = (unsigned long)header + lane_bytes;
		header->lost = 0;
		header->begin_counter = header->begin_ns = 0;
		header->end_counter = header->end_ns = 0;
	}
	is_armed = was_armed;
	if (was_on)
		begin();
}

static ssize_t events_write(struct file *file, const char __user *from, size_t length, loff_t *at)
{
	char text[16] = {};
	int error = 0;

	if (length >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, length))
		return -EFAULT;
	mutex_lock(&lock);
	if (sysfs_streq(text, "record")) {
		begin();
	} else if (sysfs_streq(text, "pause")) {
		pause();
	} else if (sysfs_streq(text, "clear")) {
		clear();
	} else if (sysfs_streq(text, "arm")) {
		pause();
		is_armed = true;
	} else if (sysfs_streq(text, "trigger")) {
		if (is_armed)
			begin();
	} else {
		error = -EINVAL;
	}
	mutex_unlock(&lock);
	return error ? error : length;
}

static ssize_t events_read(struct file *file, char __user *to, size_t length, loff_t *at)
{
	return simple_read_from_buffer(to, length, at, lanes, all_bytes());
}

static loff_t events_llseek(struct file *file, loff_t offset, int whence)
{
	return fixed_size_llseek(file, offset, whence, all_bytes());
}

/* Read-only: records are the kernel's. */
static int events_mmap(struct file *file, struct vm_area_struct *area)
{
	if (area->vm_flags & VM_WRITE)
		return -EPERM;
	vm_flags_clear(area, VM_MAYWRITE);
	return remap_vmalloc_range(area, lanes, area->vm_pgoff);
}

static const struct file_operations events_fops = {
	.owner = THIS_MODULE,
	.read = events_read,
	.write = events_write,
	.llseek = events_llseek,
	.mmap = events_mmap,
};

static struct miscdevice node = {
	.minor = MISC_DYNAMIC_MINOR,
	.fops = &events_fops,
	.mode = 0600,
};

static int make_lanes(unsigned int capacity)
{
	unsigned int cpu;

	/* Lanes begin at a page, so that each can be mapped. */
	capacity = round_up(min(capacity, CAPACITY_MAX), PAGE_SIZE / sizeof(struct swt_record));
	lane_bytes = SWT_HEADER_BYTES + capacity * sizeof(struct swt_record);
	lanes = vmalloc_user(all_bytes());
	if (!lanes)
		return -ENOMEM;
	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		struct swt_header *header = lane_of(cpu);

		header->magic = cpu_to_le32(SWT_MAGIC);
		header->version = cpu_to_le32(SWT_VERSION);
		header->capacity = cpu_to_le32(capacity);
		header->number = cpu_to_le32(cpu);
		snprintf(header->name, sizeof(header->name), "cpu%u", cpu);
	}
	clear();
	return 0;
}

int swt_events_init(const char *name, unsigned int capacity, phys_addr_t timer)
{
	int error;

	BUILD_BUG_ON(sizeof(struct swt_record) != 16);
	BUILD_BUG_ON(offsetof(struct swt_header, name) != 56);
	/* The first page of a lane is mapped alone on a kernel with larger pages. */
	BUILD_BUG_ON(SWT_HEADER_BYTES % PAGE_SIZE && PAGE_SIZE % SWT_HEADER_BYTES);
	if (!capacity && !timer)
		return 0;
	if (timer) {
		if (timer & (SWT_HEADER_BYTES - 1))
			return -EINVAL;
		swt_timer = ioremap(timer, SWT_HEADER_BYTES);
		if (!swt_timer)
			return -ENOMEM;
		/* The timer itself says when to record. */
		static_branch_enable(&swt_is_on);
		return 0;
	}
	error = make_lanes(capacity);
	if (error)
		return error;
	node.name = name;
	error = misc_register(&node);
	if (error) {
		vfree(lanes);
		lanes = NULL;
	}
	return error;
}

void swt_events_exit(void)
{
	if (lanes)
		misc_deregister(&node);
	static_branch_disable(&swt_is_on);
	synchronize_rcu();
	if (swt_timer)
		iounmap(swt_timer);
	vfree(lanes);
}
