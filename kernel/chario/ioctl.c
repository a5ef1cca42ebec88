// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ioctls: arguments are copied once and checked, then passed to the responsible file.
 */
#include <linux/blkdev.h>
#include <linux/capability.h>
#include <linux/compat.h>
#include <linux/iommu.h>
#include <linux/fs.h>
#include <linux/uaccess.h>

#include "driver.h"

static bool is_translated(struct chario_ctrl *ctrl)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(ctrl->dev);

	return domain && domain->type != IOMMU_DOMAIN_IDENTITY;
}

static int info(struct chario_file *file, void __user *to)
{
	struct chario_ns *ns = file->ns;
	struct chario_ctrl *ctrl = ns->ctrl;
	struct chario_info answer = {
		.version = CHARIO_VERSION,
		.nsid = ns->nsid,
		.block_bytes = chario_block_bytes(ns),
		.command_bytes = ctrl->command_bytes,
		.unit_bytes = ctrl->unit_bytes,
		.queue_depth = ctrl->slots,
		.buffer_align_bytes = READ_ONCE(ns->align_bytes),
		.registered_max = CHARIO_REGISTERED_MAX,
		.size_bytes = ns->size_bytes,
	};

	/* The lanes are removed with the hardware. */
	if (chario_enter(ns))
		return -ENODEV;
	answer.lanes = ctrl->lane_count;
	if (ns->is_read_only)
		answer.flags |= CHARIO_INFO_READ_ONLY;
	if (ctrl->id->vwc & NVME_CTRL_VWC_PRESENT)
		answer.flags |= CHARIO_INFO_WRITE_CACHE;
	if (ctrl->queue_count > 1)
		answer.flags |= CHARIO_INFO_POLL_QUEUES;
	if (is_translated(ctrl))
		answer.flags |= CHARIO_INFO_TRANSLATED;
	chario_leave(ns);
	return copy_to_user(to, &answer, sizeof(answer)) ? -EFAULT : 0;
}

static int set_completion(struct chario_file *file, const void __user *from)
{
	u32 mode;

	if (copy_from_user(&mode, from, sizeof(mode)))
		return -EFAULT;
	if (mode != CHARIO_INTERRUPT && mode != CHARIO_POLL)
		return -EINVAL;
	WRITE_ONCE(file->polls, mode == CHARIO_POLL);
	return 0;
}

static int do_register(struct chario_file *file, struct chario_register __user *argument)
{
	struct chario_register args;
	int error;

	if (copy_from_user(&args, argument, sizeof(args)))
		return -EFAULT;
	error = chario_register(file, &args);
	if (error)
		return error;
	if (copy_to_user(argument, &args, sizeof(args))) {
		chario_unregister(file, args.buffer);
		return -EFAULT;
	}
	return 0;
}

static int do_unregister(struct chario_file *file, const void __user *from)
{
	u32 buffer;

	if (copy_from_user(&buffer, from, sizeof(buffer)))
		return -EFAULT;
	return chario_unregister(file, buffer);
}

/* A transfer needs the file open for its direction, as read() and write() do. */
static bool may(const struct file *file, u32 flags)
{
	return file->f_mode & (flags & CHARIO_WRITE ? FMODE_WRITE : FMODE_READ);
}

static long do_transfer(struct file *file, const void __user *from)
{
	struct chario_transfer args;
	long result;

	if (copy_from_user(&args, from, sizeof(args)))
		return -EFAULT;
	if (!may(file, args.flags))
		return -EBADF;
	swt_event(SWT_CHARIO_ENTER);
	result = chario_registered_transfer(file->private_data, &args);
	swt_event(SWT_CHARIO_EXIT);
	return result;
}

static long do_phys(struct file *file, const void __user *from)
{
	struct chario_phys args;
	long result;

	if (copy_from_user(&args, from, sizeof(args)))
		return -EFAULT;
	if (!may(file, args.flags))
		return -EBADF;
	swt_event(SWT_CHARIO_ENTER);
	result = chario_phys_transfer(file->private_data, &args);
	swt_event(SWT_CHARIO_EXIT);
	return result;
}

static int change_window(struct chario_file *file, const void __user *from, bool grants)
{
	struct chario_window args;
	int error;

	if (!capable(CAP_SYS_RAWIO))
		return -EPERM;
	if (copy_from_user(&args, from, sizeof(args)))
		return -EFAULT;
	error = chario_enter(file->ns);
	if (error)
		return error;
	error = grants ? chario_grant(file->ns->ctrl, &args) : chario_revoke(file->ns->ctrl, &args);
	chario_leave(file->ns);
	return error;
}

/* What tools query of a disk. */
static int block_ioctl(struct chario_ns *ns, unsigned int number, void __user *to)
{
	switch (number) {
	case BLKGETSIZE64:
#ifdef CONFIG_COMPAT
	case _IOR(0x12, 114, compat_size_t):
#endif
		return put_user(ns->size_bytes, (u64 __user *)to);
	case BLKSSZGET:
		return put_user((int)chario_block_bytes(ns), (int __user *)to);
	case BLKPBSZGET:
		return put_user(chario_block_bytes(ns), (unsigned int __user *)to);
	case BLKROGET:
		return put_user((int)ns->is_read_only, (int __user *)to);
	default:
		return -ENOTTY;
	}
}

long chario_ioctl(struct file *file, unsigned int number, unsigned long argument)
{
	struct chario_file *private = file->private_data;
	void __user *user = (void __user *)argument;

	switch (number) {
	case CHARIO_IOC_TRANSFER:
		return do_transfer(file, user);
	case CHARIO_IOC_PHYS:
		return do_phys(file, user);
	case CHARIO_IOC_INFO:
		return info(private, user);
	case CHARIO_IOC_COMPLETION:
		return set_completion(private, user);
	case CHARIO_IOC_REGISTER:
		return do_register(private, user);
	case CHARIO_IOC_UNREGISTER:
		return do_unregister(private, user);
	case CHARIO_IOC_GRANT:
		return change_window(private, user, true);
	case CHARIO_IOC_REVOKE:
		return change_window(private, user, false);
	default:
		return block_ioctl(private->ns, number, user);
	}
}
