// SPDX-License-Identifier: GPL-2.0-only
/*
 * The file operations of /dev/chardiskXnY.
 *
 * Every call that reaches the controller is between chario_enter() and chario_leave(): removal
 * waits for those that are inside and admits no others.
 */
#include <linux/fs.h>
#include <linux/poll.h>

#include "driver.h"

/* Each range of the caller's memory: its address aligned as the node requires, its length in blocks. */
static bool is_aligned(const struct chario_ns *ns, const struct iov_iter *iter)
{
	unsigned long lengths = chario_block_bytes(ns) - 1, addresses = ns->align_bytes - 1;
	struct iov_iter copy;

	if (iter_is_ubuf(iter))
		return !(((unsigned long)iter->ubuf + iter->iov_offset) & addresses);
	if (!(iov_iter_alignment(iter) & lengths))
		return true;
	if (lengths == addresses)
		return false;
	/* Addresses may be less aligned than lengths: one range after the other. */
	for (copy = *iter; iov_iter_count(&copy); ) {
		const struct iovec *entry = iter_iov(&copy);
		size_t length = min(entry->iov_len - copy.iov_offset, iov_iter_count(&copy));

		if (((unsigned long)entry->iov_base + copy.iov_offset) & addresses || length & lengths)
			return false;
		iov_iter_advance(&copy, length);
	}
	return true;
}

static ssize_t move(struct kiocb *kiocb, struct iov_iter *iter, bool writes)
{
	struct chario_file *file = kiocb->ki_filp->private_data;
	struct chario_call call = {
		.ns = file->ns,
		.iter = iter,
		.position = kiocb->ki_pos,
		.length = iov_iter_count(iter),
		.writes = writes,
		.fua = writes && kiocb->ki_flags & IOCB_DSYNC,
		.polls = file->polls || kiocb->ki_flags & IOCB_HIPRI,
	};
	u64 asked = call.length;
	ssize_t result;

	if (unlikely(kiocb->ki_flags & IOCB_NOWAIT))
		return -EAGAIN;
	/* Kernel memory (splice, in older kernels) cannot be pinned. */
	if (unlikely(!user_backed_iter(iter)))
		return -EINVAL;
	result = chario_check_range(call.ns, call.position, &call.length, writes);
	if (unlikely(result))
		return result;
	if (unlikely(!is_aligned(call.ns, iter)))
		return -EINVAL;
	if (unlikely(!call.length))
		return 0;
	if (unlikely(call.length < asked))
		iov_iter_truncate(iter, call.length);
	result = chario_enter(call.ns);
	if (unlikely(result))
		return result;
	result = -ENOENT;
	if (READ_ONCE(file->by_address) && iter_is_ubuf(iter)) {
		call.iter = NULL;
		result = chario_registered_move(file, &call, (unsigned long)iter->ubuf + iter->iov_offset);
		call.iter = iter;
		call.pages = NULL;
	}
	if (result == -ENOENT)
		result = chario_transfer(&call);
	chario_leave(call.ns);
	if (likely(result > 0))
		kiocb->ki_pos += result;
	return result;
}

static ssize_t chario_read_iter(struct kiocb *kiocb, struct iov_iter *iter)
{
	ssize_t result;

	swt_event(SWT_CHARIO_ENTER);
	result = move(kiocb, iter, false);
	swt_event(SWT_CHARIO_EXIT);
	return result;
}

static ssize_t chario_write_iter(struct kiocb *kiocb, struct iov_iter *iter)
{
	ssize_t result;

	swt_event(SWT_CHARIO_ENTER);
	result = move(kiocb, iter, true);
	swt_event(SWT_CHARIO_EXIT);
	return result;
}

static loff_t chario_llseek(struct file *file, loff_t offset, int whence)
{
	struct chario_file *private = file->private_data;
	struct chario_ns *ns = private->ns;

	/* The position itself is always aligned, and so is the size. */
	if (offset & (chario_block_bytes(ns) - 1))
		return -EINVAL;
	return generic_file_llseek_size(file, offset, whence, MAX_LFS_FILESIZE, ns->size_bytes);
}

static int chario_fsync(struct file *file, loff_t start, loff_t end, int datasync)
{
	struct chario_file *private = file->private_data;
	struct chario_ns *ns = private->ns;
	int error = chario_enter(ns);

	if (error)
		return error;
	swt_event(SWT_CHARIO_ENTER);
	/* Without a volatile cache what was written is durable (5.15.2.2, VWC). */
	if (ns->ctrl->id->vwc & NVME_CTRL_VWC_PRESENT)
		error = chario_flush(ns, private->polls);
	swt_event(SWT_CHARIO_EXIT);
	chario_leave(ns);
	return error;
}

/* A synchronous device is always ready; a removed one reports that. */
static __poll_t chario_poll(struct file *file, poll_table *table)
{
	struct chario_file *private = file->private_data;
	__poll_t ready = EPOLLIN | EPOLLRDNORM | EPOLLOUT | EPOLLWRNORM;

	poll_wait(file, &private->ns->ctrl->changed, table);
	if (READ_ONCE(private->ns->ctrl->state) == CHARIO_DEAD)
		ready |= EPOLLHUP | EPOLLERR;
	return ready;
}

static int chario_open(struct inode *inode, struct file *file)
{
	struct chario_ns *ns = container_of(inode->i_cdev, struct chario_ns, cdev);
	struct chario_file *private;

	/* A drive has no end to append to. */
	if (file->f_flags & O_APPEND)
		return -EINVAL;
	if (READ_ONCE(ns->ctrl->state) == CHARIO_DEAD)
		return -ENODEV;
	if (file->f_mode & FMODE_WRITE && ns->is_read_only)
		return -EPERM;
	private = kzalloc(sizeof(*private), GFP_KERNEL);
	if (!private)
		return -ENOMEM;
	/* As with a block device: one file at a time is the exclusive one. */
	if (file->f_flags & O_EXCL && cmpxchg(&ns->exclusive, NULL, private)) {
		kfree(private);
		return -EBUSY;
	}
	atomic_inc(&ns->open_files);
	private->ns = ns;
	init_rwsem(&private->lock);
	file->private_data = private;
	/* read() and write() of threads that share the position are serialised. */
	file->f_mode |= FMODE_ATOMIC_POS;
	/* Every transfer is direct: O_DIRECT is accepted and changes nothing. */
	file->f_mode |= FMODE_CAN_ODIRECT;
	get_device(&ns->dev);
	return 0;
}

static int chario_release(struct inode *inode, struct file *file)
{
	struct chario_file *private = file->private_data;

	chario_unregister_all(private);
	cmpxchg(&private->ns->exclusive, private, NULL);
	atomic_dec(&private->ns->open_files);
	put_device(&private->ns->dev);
	kfree(private);
	return 0;
}

/* O_APPEND cannot be set afterwards either. */
static int chario_check_flags(int flags)
{
	return flags & O_APPEND ? -EINVAL : 0;
}

const struct file_operations chario_fops = {
	.owner = THIS_MODULE,
	.open = chario_open,
	.release = chario_release,
	.read_iter = chario_read_iter,
	.write_iter = chario_write_iter,
	.llseek = chario_llseek,
	.fsync = chario_fsync,
	.poll = chario_poll,
	.unlocked_ioctl = chario_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = chario_mmap,
	.check_flags = chario_check_flags,
};
