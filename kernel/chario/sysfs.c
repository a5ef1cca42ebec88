// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/class/chario/chardiskXnY: the drive's properties, counters, and two switches.
 *
 * counters/ of commands and bytes are the namespace's; those of interrupts, recovery and latency are
 * the controller's, because its namespaces share the queues. None is ever reset.
 */
#include <linux/dma-map-ops.h>
#include <linux/sysfs.h>

#include "driver.h"

static struct chario_ns *ns_of(struct device *dev)
{
	return dev_get_drvdata(dev);
}

#define SHOW(name, format, value)							\
static ssize_t name##_show(struct device *dev, struct device_attribute *attribute, char *text) \
{											\
	struct chario_ns *ns = ns_of(dev);						\
											\
	return sysfs_emit(text, format "\n", value);					\
}											\
static DEVICE_ATTR_RO(name)

static const char *state_name(struct chario_ctrl *ctrl)
{
	switch (READ_ONCE(ctrl->state)) {
	case CHARIO_LIVE:
		return "live";
	case CHARIO_PAUSED:
		return "paused";
	default:
		return "dead";
	}
}

SHOW(size_bytes, "%llu", ns->size_bytes);
SHOW(block_bytes, "%u", chario_block_bytes(ns));
SHOW(command_bytes, "%u", ns->ctrl->command_bytes);
SHOW(unit_bytes, "%u", ns->ctrl->unit_bytes);
SHOW(queue_depth, "%u", ns->ctrl->slots);
SHOW(lanes, "%u", ns->ctrl->lane_count);
SHOW(queues, "%u", ns->ctrl->queue_count);
SHOW(nsid, "%u", ns->nsid);
SHOW(read_only, "%d", ns->is_read_only);
SHOW(state, "%s", state_name(ns->ctrl));
SHOW(open_files, "%d", atomic_read(&ns->open_files));
SHOW(pci_address, "%s", dev_name(ns->ctrl->dev));

static ssize_t show_text(char *text, const char *from, size_t length)
{
	while (length && (from[length - 1] == ' ' || !from[length - 1]))
		length--;
	return sysfs_emit(text, "%.*s\n", (int)length, from);
}

#define SHOW_TEXT(name, field)								\
static ssize_t name##_show(struct device *dev, struct device_attribute *attribute, char *text) \
{											\
	const struct nvme_id_ctrl *id = ns_of(dev)->ctrl->id;				\
											\
	return show_text(text, id->field, sizeof(id->field));				\
}											\
static DEVICE_ATTR_RO(name)

SHOW_TEXT(serial, sn);
SHOW_TEXT(model, mn);
SHOW_TEXT(firmware, fr);

static ssize_t windows_show(struct device *dev, struct device_attribute *attribute, char *text)
{
	return chario_windows_show(ns_of(dev)->ctrl, text);
}
static DEVICE_ATTR_RO(windows);

static ssize_t buffer_align_bytes_show(struct device *dev, struct device_attribute *attribute,
				       char *text)
{
	return sysfs_emit(text, "%u\n", ns_of(dev)->align_bytes);
}

/*
 * PRP entries need dwords, and a drive that does not snoop the caches needs whole lines; a larger
 * alignment is the administrator's choice.
 */
static ssize_t buffer_align_bytes_store(struct device *dev, struct device_attribute *attribute,
					const char *text, size_t length)
{
	struct chario_ns *ns = ns_of(dev);
	unsigned int bytes, least = 4;
	int error = kstrtouint(text, 0, &bytes);

	if (error)
		return error;
	if (!dev_is_dma_coherent(ns->ctrl->dev))
		least = max_t(unsigned int, least, dma_get_cache_alignment());
	if (!is_power_of_2(bytes) || bytes < least || bytes > PAGE_SIZE)
		return -EINVAL;
	WRITE_ONCE(ns->align_bytes, bytes);
	return length;
}
static DEVICE_ATTR_RW(buffer_align_bytes);

static ssize_t reset_store(struct device *dev, struct device_attribute *attribute,
			   const char *text, size_t length)
{
	struct chario_ns *ns = ns_of(dev);
	bool resets;
	int error = kstrtobool(text, &resets);

	if (error || !resets)
		return -EINVAL;
	error = chario_enter(ns);
	if (error)
		return error;
	mutex_lock(&ns->ctrl->recovery_lock);
	error = ns->ctrl->state == CHARIO_LIVE ? chario_reset(ns->ctrl) : -EBUSY;
	mutex_unlock(&ns->ctrl->recovery_lock);
	chario_leave(ns);
	return error ? error : length;
}
static DEVICE_ATTR_WO(reset);

static struct attribute *plain[] = {
	&dev_attr_size_bytes.attr, &dev_attr_block_bytes.attr, &dev_attr_command_bytes.attr,
	&dev_attr_unit_bytes.attr, &dev_attr_queue_depth.attr, &dev_attr_lanes.attr,
	&dev_attr_queues.attr, &dev_attr_nsid.attr, &dev_attr_read_only.attr,
	&dev_attr_state.attr, &dev_attr_pci_address.attr, &dev_attr_serial.attr,
	&dev_attr_model.attr, &dev_attr_firmware.attr, &dev_attr_windows.attr,
	&dev_attr_buffer_align_bytes.attr, &dev_attr_reset.attr,
	&dev_attr_open_files.attr, NULL
};

/* --- Identify data ---------------------------------------------------------------------------- */

static ssize_t identify_controller_read(struct file *file, struct kobject *kobj,
					struct bin_attribute *attribute, char *to, loff_t at,
					size_t length)
{
	struct chario_ns *ns = ns_of(kobj_to_dev(kobj));

	return memory_read_from_buffer(to, length, &at, ns->ctrl->id, sizeof(*ns->ctrl->id));
}
static BIN_ATTR_RO(identify_controller, NVME_IDENTIFY_DATA_SIZE);

static ssize_t identify_namespace_read(struct file *file, struct kobject *kobj,
				       struct bin_attribute *attribute, char *to, loff_t at,
				       size_t length)
{
	struct chario_ns *ns = ns_of(kobj_to_dev(kobj));

	return memory_read_from_buffer(to, length, &at, ns->id, sizeof(*ns->id));
}
static BIN_ATTR_RO(identify_namespace, NVME_IDENTIFY_DATA_SIZE);

/* Queries the drive each time: the log includes its own count of commands. */
static ssize_t health_log_read(struct file *file, struct kobject *kobj,
			       struct bin_attribute *attribute, char *to, loff_t at, size_t length)
{
	struct chario_ns *ns = ns_of(kobj_to_dev(kobj));
	struct chario_ctrl *ctrl = ns->ctrl;
	ssize_t result = chario_enter(ns);

	if (result)
		return result;
	mutex_lock(&ctrl->recovery_lock);
	result = ctrl->state == CHARIO_LIVE ? chario_health(ctrl) : -EBUSY;
	if (!result)
		result = memory_read_from_buffer(to, length, &at, ctrl->page,
						 sizeof(struct nvme_smart_log));
	mutex_unlock(&ctrl->recovery_lock);
	chario_leave(ns);
	return result;
}
static BIN_ATTR(health_log, 0400, health_log_read, NULL, sizeof(struct nvme_smart_log));

static struct bin_attribute *identify[] = {
	&bin_attr_identify_controller, &bin_attr_identify_namespace, &bin_attr_health_log, NULL
};

static const struct attribute_group plain_group = {
	.attrs = plain,
	.bin_attrs = identify,
};

/* --- Counters --------------------------------------------------------------------------------- */

static u64 sum_of_cpus(struct chario_ns *ns, size_t offset)
{
	unsigned int cpu;
	u64 sum = 0;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*(u64 *)((char *)per_cpu_ptr(ns->counters, cpu) + offset));
	return sum;
}

/* The queues are removed with the hardware, and their counters with them. */
static u64 sum_of_queues(struct chario_ns *ns, size_t offset)
{
	struct chario_ctrl *ctrl = ns->ctrl;
	u64 sum = 0;
	u32 index;

	if (chario_enter(ns))
		return 0;
	for (index = 0; index < ctrl->queue_count; index++)
		sum += READ_ONCE(*(u64 *)((char *)&ctrl->queues[index] + offset));
	chario_leave(ns);
	return sum;
}

#define OF_CPUS(name, field)	\
	SHOW(name, "%llu", sum_of_cpus(ns, offsetof(struct chario_counters, field)))
#define OF_QUEUES(name, field)	\
	SHOW(name, "%llu", sum_of_queues(ns, offsetof(struct chario_queue, field)))
#define OF_CTRL(name)		\
	SHOW(name, "%lld", (long long)atomic64_read(&ns->ctrl->name))

OF_CPUS(read_commands, commands[0]);
OF_CPUS(write_commands, commands[1]);
OF_CPUS(read_bytes, bytes[0]);
OF_CPUS(write_bytes, bytes[1]);
OF_CPUS(flushes, flushes);
OF_CPUS(errors, errors);
OF_QUEUES(interrupts, interrupt_count);
OF_QUEUES(spurious_interrupts, spurious_count);
OF_QUEUES(stray_completions, stray_count);
OF_QUEUES(lost_interrupts, late_count);
OF_CTRL(timeouts);
OF_CTRL(aborts);
OF_CTRL(queue_resets);
OF_CTRL(resets);
OF_CTRL(cancelled);

/* A line for each non-empty bucket: commands that took less than that many us (of 1.024). */
static ssize_t latency_us_show(struct device *dev, struct device_attribute *attribute, char *text)
{
	struct chario_ns *ns = ns_of(dev);
	unsigned int bucket;
	int length = 0;

	for (bucket = 0; bucket < CHARIO_BUCKETS; bucket++) {
		u64 count = sum_of_queues(ns, offsetof(struct chario_queue, latency[0]) +
					  bucket * sizeof(u64));

		if (count)
			length += sysfs_emit_at(text, length, "%llu %llu\n", 1ull << bucket, count);
	}
	return length;
}
static DEVICE_ATTR_RO(latency_us);

static struct attribute *counters[] = {
	&dev_attr_read_commands.attr, &dev_attr_write_commands.attr, &dev_attr_read_bytes.attr,
	&dev_attr_write_bytes.attr, &dev_attr_flushes.attr, &dev_attr_errors.attr,
	&dev_attr_interrupts.attr, &dev_attr_spurious_interrupts.attr,
	&dev_attr_stray_completions.attr, &dev_attr_lost_interrupts.attr,
	&dev_attr_timeouts.attr, &dev_attr_aborts.attr, &dev_attr_queue_resets.attr,
	&dev_attr_resets.attr, &dev_attr_cancelled.attr, &dev_attr_latency_us.attr, NULL
};

static const struct attribute_group counters_group = {
	.name = "counters",
	.attrs = counters,
};

const struct attribute_group *chario_groups[] = { &plain_group, &counters_group, NULL };
