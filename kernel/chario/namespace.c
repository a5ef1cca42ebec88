// SPDX-License-Identifier: GPL-2.0-only
/*
 * Namespaces and their device nodes: /dev/chardiskXnY, X the controller, Y the namespace.
 *
 * A namespace lives until its node is removed and its last file is closed; it keeps the
 * controller's structure, but not its hardware, alive.
 */
#include <linux/idr.h>
#include <linux/module.h>

#include "driver.h"

#define MINORS 4096
/* 5.15, the type of descriptor that names the command set; a kernel before 5.9 has no name for it. */
#define NIDT_COMMAND_SET 4

static dev_t first_number;
static struct class *class;
static DEFINE_IDA(minors);

static void release(struct device *dev)
{
	struct chario_ns *ns = container_of(dev, struct chario_ns, dev);

	ida_free(&minors, MINOR(dev->devt) - MINOR(first_number));
	free_percpu(ns->counters);
	kfree(ns->id);
	chario_ctrl_put(ns->ctrl);
	kfree(ns);
}

static bool is_usable(struct chario_ctrl *ctrl, u32 nsid, const struct nvme_id_ns *id)
{
	/* FLBAS: bits 3:0 and, with more than 16 formats, bits 6:5. */
	unsigned int format = (id->flbas & 0xf) | (id->flbas & 0x60) >> 1;
	const struct nvme_lbaf *lbaf = &id->lbaf[format];

	if (le16_to_cpu(lbaf->ms)) {
		dev_warn(ctrl->dev, "namespace %u: its blocks carry %u bytes of metadata; left alone\n",
			 nsid, le16_to_cpu(lbaf->ms));
		return false;
	}
	if (lbaf->ds < 9 || lbaf->ds > 16 || !id->nsze ||
	    le64_to_cpu(id->nsze) > (u64)LLONG_MAX >> lbaf->ds ||
	    1u << lbaf->ds > ctrl->command_bytes) {
		dev_warn(ctrl->dev, "namespace %u: %llu blocks of 2^%u bytes; left alone\n", nsid,
			 le64_to_cpu(id->nsze), lbaf->ds);
		return false;
	}
	return true;
}

/*
 * 5.15, "Namespace Identification Descriptor list" (from NVMe 1.3 on): the command set of a namespace
 * that is not read and written by blocks, or 0. Into ctrl->page.
 */
static int command_set(struct chario_ctrl *ctrl, u32 nsid)
{
	const u8 *list = ctrl->page;
	size_t at = 0;
	int error;

	if (readl(ctrl->bar + NVME_REG_VS) < NVME_VS(1, 3, 0))
		return 0;
	error = chario_identify(ctrl, NVME_ID_CNS_NS_DESC_LIST, nsid);
	if (error)
		/* A controller that has no such list has no other command set. */
		return error == -ETIMEDOUT ? error : 0;
	while (at + 5 <= NVME_IDENTIFY_DATA_SIZE && list[at] && list[at + 1]) {
		if (list[at] == NIDT_COMMAND_SET)
			return list[at + 4];
		at += 4 + list[at + 1];
	}
	return 0;
}

static int add(struct chario_ctrl *ctrl, u32 nsid)
{
	struct chario_ns *ns;
	unsigned int format;
	int error, minor, set;

	set = command_set(ctrl, nsid);
	if (set < 0)
		return set;
	if (set) {
		dev_warn(ctrl->dev, "namespace %u: %s (command set %d), not read and written by blocks; left alone\n",
			 nsid, set == 1 ? "key-value" : set == 2 ? "zoned" : "unknown", set);
		return 0;
	}
	error = chario_identify(ctrl, NVME_ID_CNS_NS, nsid);
	if (error)
		return error;
	if (!is_usable(ctrl, nsid, ctrl->page))
		return 0;
	minor = ida_alloc_max(&minors, MINORS - 1, GFP_KERNEL);
	if (minor < 0)
		return minor;
	ns = kzalloc(sizeof(*ns), GFP_KERNEL);
	if (!ns) {
		ida_free(&minors, minor);
		return -ENOMEM;
	}
	device_initialize(&ns->dev);
	ns->dev.devt = first_number + minor;
	ns->dev.class = class;
	ns->dev.parent = ctrl->dev;
	ns->dev.groups = chario_groups;
	ns->dev.release = release;
	dev_set_drvdata(&ns->dev, ns);
	ns->ctrl = ctrl;
	chario_ctrl_get(ctrl);
	ns->nsid = nsid;
	error = -ENOMEM;
	ns->counters = alloc_percpu(struct chario_counters);
	ns->id = kmemdup(ctrl->page, sizeof(*ns->id), GFP_KERNEL);
	if (!ns->counters || !ns->id)
		goto put;
	format = (ns->id->flbas & 0xf) | (ns->id->flbas & 0x60) >> 1;
	ns->shift = ns->id->lbaf[format].ds;
	ns->size_bytes = le64_to_cpu(ns->id->nsze) << ns->shift;
	ns->align_bytes = 1u << ns->shift;
	ns->is_read_only = ns->id->nsattr & NVME_NS_ATTR_RO;
	error = dev_set_name(&ns->dev, "chardisk%dn%u", ctrl->instance, nsid);
	if (error)
		goto put;
	cdev_init(&ns->cdev, &chario_fops);
	/* An open file holds the module. */
	ns->cdev.owner = THIS_MODULE;
	error = cdev_device_add(&ns->cdev, &ns->dev);
	if (error)
		goto put;
	list_add_tail(&ns->list, &ctrl->namespaces);
	return 0;
put:
	put_device(&ns->dev);
	return error;
}

/* 5.15.2.3, "Active Namespace ID list"; a controller older than 1.1 numbers them from 1 on. */
int chario_add_namespaces(struct chario_ctrl *ctrl)
{
	u32 nn = le32_to_cpu(ctrl->id->nn), nsid = 0, index, count = NVME_IDENTIFY_DATA_SIZE / 4;
	u32 *list;
	int error = 0;

	list = kmalloc(NVME_IDENTIFY_DATA_SIZE, GFP_KERNEL);
	if (!list)
		return -ENOMEM;
	do {
		error = chario_identify(ctrl, NVME_ID_CNS_NS_ACTIVE_LIST, nsid);
		if (error)
			break;
		for (index = 0; index < count; index++)
			list[index] = le32_to_cpu(((__le32 *)ctrl->page)[index]);
		for (index = 0; index < count && list[index] > nsid && !error; index++) {
			nsid = list[index];
			error = add(ctrl, nsid);
		}
	} while (!error && index == count && nsid < nn);
	if (error && list_empty(&ctrl->namespaces) && chario_is_present(ctrl))
		for (nsid = 1, error = 0; nsid <= min(nn, 16u) && !error; nsid++)
			error = add(ctrl, nsid);
	kfree(list);
	if (error)
		chario_remove_namespaces(ctrl);
	return error;
}

void chario_remove_namespaces(struct chario_ctrl *ctrl)
{
	struct chario_ns *ns, *next;

	list_for_each_entry_safe(ns, next, &ctrl->namespaces, list) {
		list_del(&ns->list);
		cdev_device_del(&ns->cdev, &ns->dev);
		put_device(&ns->dev);
	}
}

int chario_namespaces_init(void)
{
	int error = alloc_chrdev_region(&first_number, 0, MINORS, "chario");

	if (error)
		return error;
	class = chario_class("chario");
	if (IS_ERR(class)) {
		unregister_chrdev_region(first_number, MINORS);
		return PTR_ERR(class);
	}
	return 0;
}

void chario_namespaces_exit(void)
{
	class_destroy(class);
	unregister_chrdev_region(first_number, MINORS);
	ida_destroy(&minors);
}
