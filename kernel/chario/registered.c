// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registered buffers: a caller's memory, pinned and mapped once, used by many transfers.
 *
 * They belong to an open file and are counted against RLIMIT_MEMLOCK of the process that registers
 * them. The mapping is removed with the controller, the pages are released with the buffer or the
 * file.
 */
#include <linux/fs.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

#include "driver.h"

/* Of one buffer: the array of its bus addresses stays within 2 MiB. */
#define BYTES_MAX (1ull << 30)

struct chario_registered {
	struct list_head list;
	struct chario_ctrl *ctrl;
	struct mm_struct *mm;
	struct page **pages;
	struct sg_table table;
	dma_addr_t *addresses; /* of each of the controller's pages */
	u64 length;
	unsigned int page_count;
	unsigned int first_offset;
	unsigned long address; /* of the caller */
	bool needs_sync; /* the drive does not share the CPU's view of some page */
	bool is_mapped; /* under registered_lock */
};

static int map(struct chario_registered *buffer)
{
	struct chario_ctrl *ctrl = buffer->ctrl;
	u32 page_bytes = ctrl->page_bytes;
	unsigned int index = 0, part;
	struct scatterlist *sg;
	u64 skipped = buffer->first_offset & ~(u64)(page_bytes - 1);
	/* Bounce buffers take runs of memory of a limited length. */
	unsigned int run_max = min_t(size_t, dma_max_mapping_size(ctrl->dev), UINT_MAX) & PAGE_MASK;
	int error;

	error = sg_alloc_table_from_pages_segment(&buffer->table, buffer->pages, buffer->page_count,
						  skipped, buffer->first_offset - skipped + buffer->length,
						  run_max, GFP_KERNEL);
	if (error)
		return error;
	error = dma_map_sgtable(ctrl->dev, &buffer->table, DMA_BIDIRECTIONAL, 0);
	if (error) {
		sg_free_table(&buffer->table);
		return error;
	}
	buffer->is_mapped = true;
	for_each_sgtable_dma_sg(&buffer->table, sg, part) {
		dma_addr_t address = sg_dma_address(sg), end = address + sg_dma_len(sg);

		for (; address < end; address += page_bytes) {
			buffer->addresses[index++] = address;
			buffer->needs_sync |= dma_need_sync(ctrl->dev, address);
		}
	}
	return 0;
}

static void unmap(struct chario_registered *buffer)
{
	if (!buffer->is_mapped)
		return;
	buffer->is_mapped = false;
	/* Each transfer took its range back. What the caller stored since is in the CPU's view only, and stays. */
	dma_unmap_sgtable(buffer->ctrl->dev, &buffer->table, DMA_BIDIRECTIONAL, DMA_ATTR_SKIP_CPU_SYNC);
	sg_free_table(&buffer->table);
}

static void free_registered(struct chario_registered *buffer)
{
	unpin_user_pages_dirty_lock(buffer->pages, buffer->page_count, true);
	account_locked_vm(buffer->mm, buffer->page_count, false);
	mmdrop(buffer->mm);
	kvfree(buffer->addresses);
	kvfree(buffer->pages);
	kfree(buffer);
}

static int pin(struct chario_registered *buffer, unsigned long address)
{
	unsigned int done = 0;

	while (done < buffer->page_count) {
		int pinned = pin_user_pages_fast(address + (unsigned long)done * PAGE_SIZE,
						 buffer->page_count - done,
						 FOLL_WRITE | FOLL_LONGTERM, buffer->pages + done);

		if (pinned <= 0 || fatal_signal_pending(current)) {
			unpin_user_pages(buffer->pages, done + max(pinned, 0));
			return pinned < 0 ? pinned : pinned ? -EINTR : -EFAULT;
		}
		done += pinned;
	}
	return 0;
}

static struct chario_registered *make(struct chario_ctrl *ctrl, u64 address, u64 length)
{
	struct chario_registered *buffer;
	int error = -ENOMEM;

	buffer = kzalloc(sizeof(*buffer), GFP_KERNEL_ACCOUNT);
	if (!buffer)
		return ERR_PTR(-ENOMEM);
	buffer->ctrl = ctrl;
	buffer->length = length;
	buffer->address = address;
	buffer->first_offset = offset_in_page(address);
	buffer->page_count = DIV_ROUND_UP(buffer->first_offset + length, PAGE_SIZE);
	buffer->pages = kvcalloc(buffer->page_count, sizeof(*buffer->pages), GFP_KERNEL_ACCOUNT);
	buffer->addresses = kvcalloc(DIV_ROUND_UP(length, ctrl->page_bytes) + 1,
				     sizeof(*buffer->addresses), GFP_KERNEL_ACCOUNT);
	if (!buffer->pages || !buffer->addresses)
		goto free;
	error = account_locked_vm(current->mm, buffer->page_count, true);
	if (error)
		goto free;
	error = pin(buffer, address & PAGE_MASK);
	if (error) {
		account_locked_vm(current->mm, buffer->page_count, false);
		goto free;
	}
	buffer->mm = current->mm;
	mmgrab(buffer->mm);
	return buffer;
free:
	kvfree(buffer->addresses);
	kvfree(buffer->pages);
	kfree(buffer);
	return ERR_PTR(error);
}

int chario_register(struct chario_file *file, struct chario_register *args)
{
	struct chario_ctrl *ctrl = file->ns->ctrl;
	u32 block = chario_block_bytes(file->ns);
	struct chario_registered *buffer;
	unsigned int number;
	int error;

	if (args->flags & ~CHARIO_BY_ADDRESS || !args->length || args->length > BYTES_MAX ||
	    (args->address | args->length) & (block - 1) ||
	    args->address + args->length < args->address || args->address > ULONG_MAX - args->length)
		return -EINVAL;
	error = chario_enter(file->ns);
	if (error)
		return error;
	down_write(&file->lock);
	for (number = 0; number < CHARIO_REGISTERED_MAX && file->registered[number];)
		number++;
	error = -ENOSPC;
	if (number == CHARIO_REGISTERED_MAX)
		goto unlock;
	buffer = make(ctrl, args->address, args->length);
	error = PTR_ERR_OR_ZERO(buffer);
	if (error)
		goto unlock;
	mutex_lock(&ctrl->registered_lock);
	error = map(buffer);
	if (!error)
		list_add(&buffer->list, &ctrl->registered);
	mutex_unlock(&ctrl->registered_lock);
	if (error) {
		free_registered(buffer);
		goto unlock;
	}
	file->registered[number] = buffer;
	if (args->flags & CHARIO_BY_ADDRESS)
		WRITE_ONCE(file->by_address, buffer);
	args->buffer = number;
unlock:
	up_write(&file->lock);
	chario_leave(file->ns);
	return error;
}

static void forget(struct chario_registered *buffer)
{
	struct chario_ctrl *ctrl = buffer->ctrl;

	mutex_lock(&ctrl->registered_lock);
	list_del(&buffer->list);
	unmap(buffer);
	mutex_unlock(&ctrl->registered_lock);
	free_registered(buffer);
}

/* Waits for the transfers that use the buffer. */
int chario_unregister(struct chario_file *file, u32 number)
{
	struct chario_registered *buffer = NULL;

	if (number >= CHARIO_REGISTERED_MAX)
		return -EINVAL;
	down_write(&file->lock);
	swap(buffer, file->registered[number]);
	if (buffer && file->by_address == buffer)
		WRITE_ONCE(file->by_address, NULL);
	up_write(&file->lock);
	if (!buffer)
		return -ENOENT;
	forget(buffer);
	return 0;
}

/* The file is closed: its buffers are unused. */
void chario_unregister_all(struct chario_file *file)
{
	unsigned int number;

	for (number = 0; number < CHARIO_REGISTERED_MAX; number++)
		if (file->registered[number])
			forget(file->registered[number]);
}

/* The controller is being removed: no call is inside, and none will be. */
void chario_registered_unmap_all(struct chario_ctrl *ctrl)
{
	struct chario_registered *buffer;

	mutex_lock(&ctrl->registered_lock);
	list_for_each_entry(buffer, &ctrl->registered, list)
		unmap(buffer);
	mutex_unlock(&ctrl->registered_lock);
}

/*
 * Gives a range to the drive, or takes it back, where the drive does not share the CPU's view of memory. Nothing but the range: the
 * caller may be using the rest of the buffer, and what it stores there would be lost.
 */
static void sync_range(struct chario_registered *buffer, u64 at, u64 length, bool is_for_drive)
{
	struct device *dev = buffer->ctrl->dev;
	u32 page_bytes = buffer->ctrl->page_bytes;
	u64 end = at + length;

	while (at < end) {
		u32 in_page = at & (page_bytes - 1);
		u32 part = min_t(u64, end - at, page_bytes - in_page);
		dma_addr_t address = buffer->addresses[at >> __ffs(page_bytes)] + in_page;

		if (is_for_drive)
			dma_sync_single_for_device(dev, address, part, DMA_BIDIRECTIONAL);
		else
			dma_sync_single_for_cpu(dev, address, part, DMA_BIDIRECTIONAL);
		at += part;
	}
}

/* Before a read too: a dirty line of its memory would be evicted over what the drive writes. */
static ssize_t move(struct chario_registered *buffer, struct chario_call *call, u64 offset)
{
	u64 at = (buffer->first_offset & (buffer->ctrl->page_bytes - 1)) + offset;
	u64 length = call->length;
	ssize_t result;

	call->pages = buffer->addresses;
	call->address = at;
	if (unlikely(buffer->needs_sync))
		sync_range(buffer, at, length, true);
	result = chario_transfer(call);
	if (unlikely(buffer->needs_sync && !call->writes))
		sync_range(buffer, at, length, false);
	return result;
}

/*
 * For read() and write() of a file that asked for it: -ENOENT if the memory is not in the buffer.
 * The caller is inside chario_enter(), and call->length is in range.
 */
ssize_t chario_registered_move(struct chario_file *file, struct chario_call *call,
			       unsigned long address)
{
	struct chario_registered *buffer;
	ssize_t result = -ENOENT;

	down_read(&file->lock);
	buffer = file->by_address;
	if (buffer && address >= buffer->address && address - buffer->address <= buffer->length &&
	    call->length <= buffer->length - (address - buffer->address))
		result = move(buffer, call, address - buffer->address);
	up_read(&file->lock);
	return result;
}

/*
 * The range is checked in full before anything moves.
 */
ssize_t chario_registered_transfer(struct chario_file *file, const struct chario_transfer *args)
{
	struct chario_ns *ns = file->ns;
	struct chario_registered *buffer;
	struct chario_call call = {
		.ns = ns,
		.position = args->position,
		.length = args->length,
		.writes = args->flags & CHARIO_WRITE,
		.fua = (args->flags & (CHARIO_WRITE | CHARIO_FUA)) == (CHARIO_WRITE | CHARIO_FUA),
		.polls = READ_ONCE(file->polls),
	};
	ssize_t result;

	if (unlikely(args->flags & ~(CHARIO_WRITE | CHARIO_FUA) ||
		     args->buffer >= CHARIO_REGISTERED_MAX || args->length > BYTES_MAX ||
		     args->offset & (chario_block_bytes(ns) - 1)))
		return -EINVAL;
	result = chario_enter(ns);
	if (unlikely(result))
		return result;
	down_read(&file->lock);
	buffer = file->registered[args->buffer];
	result = -ENOENT;
	if (unlikely(!buffer))
		goto unlock;
	result = -EINVAL;
	if (unlikely(args->offset > buffer->length || args->length > buffer->length - args->offset))
		goto unlock;
	result = chario_check_range(ns, call.position, &call.length, call.writes);
	if (unlikely(result || !call.length))
		goto unlock;
	result = move(buffer, &call, args->offset);
unlock:
	up_read(&file->lock);
	chario_leave(ns);
	return result;
}
