// SPDX-License-Identifier: GPL-2.0-only
/*
 * Physical windows: memory outside the kernel's own that transfers and mmap() may name by address.
 *
 * Denied by default. A window is granted by the administrator (module parameter, or ioctl with
 * CAP_SYS_RAWIO), holds no System RAM and no interrupt doorbell, and is mapped for the drive when
 * it is granted: only then can the drive reach it behind an IOMMU, and nothing else of that memory.
 */
#include <linux/fs.h>
#include <linux/ioport.h>
#include <linux/of.h>
#include <linux/of_address.h>

#include "driver.h"

struct window {
	struct list_head list;
	phys_addr_t start;
	u64 length;
	dma_addr_t address; /* for the drive */
	bool is_resource; /* memory without a struct page */
	atomic_t mappings; /* by mmap() */
	struct kref kref;
};

/*
 * A write to a doorbell is an interrupt. x86 has them all in one place (Intel SDM 3A, "Message
 * Address Register Format"); a device tree names the controllers that have them.
 */
static bool has_doorbell(u64 start, u64 last)
{
	struct device_node *node;
	struct resource registers;
	int index;

	if (IS_ENABLED(CONFIG_X86) && start <= 0xfeefffff && last >= 0xfee00000)
		return true;
	for_each_node_with_property(node, "msi-controller") {
		for (index = 0; !of_address_to_resource(node, index, &registers); index++) {
			if (start <= registers.end && last >= registers.start) {
				of_node_put(node);
				return true;
			}
		}
	}
	return false;
}

static void free_window(struct kref *kref)
{
	kfree(container_of(kref, struct window, kref));
}

static bool contains(const struct window *window, u64 start, u64 length)
{
	return start >= window->start && start - window->start <= window->length &&
	       length <= window->length - (start - window->start);
}

static struct window *find(struct chario_ctrl *ctrl, u64 start, u64 length)
{
	struct window *window;

	list_for_each_entry(window, &ctrl->windows, list)
		if (contains(window, start, length))
			return window;
	return NULL;
}

static int check(struct chario_ctrl *ctrl, u64 start, u64 length)
{
	struct window *window;
	u64 last = start + length - 1;

	if (!length || last < start || (start | length) & ~PAGE_MASK)
		return -EINVAL;
	if (last > (u64)(phys_addr_t)-1 || length > SIZE_MAX || length > LONG_MAX)
		return -EINVAL;
	/* What the kernel can describe and this processor can address: more would be a corrupt page table. */
#ifdef MAX_PHYSMEM_BITS
	if (MAX_PHYSMEM_BITS < 64 && last >> (MAX_PHYSMEM_BITS & 63))
		return -EINVAL;
#endif
	if (last > iomem_resource.end)
		return -EINVAL;
	if (region_intersects(start, length, IORESOURCE_SYSTEM_RAM, IORES_DESC_NONE) !=
	    REGION_DISJOINT)
		return -EPERM;
	if (has_doorbell(start, last))
		return -EPERM;
	list_for_each_entry(window, &ctrl->windows, list)
		if (start < window->start + window->length && window->start <= last)
			return -EEXIST;
	return 0;
}

static int map(struct chario_ctrl *ctrl, struct window *window)
{
	unsigned long attributes = DMA_ATTR_SKIP_CPU_SYNC;

	window->is_resource = !pfn_valid(PHYS_PFN(window->start)) &&
			      !pfn_valid(PHYS_PFN(window->start + window->length - 1));
	if (window->is_resource)
		window->address = dma_map_resource(ctrl->dev, window->start, window->length,
						   DMA_BIDIRECTIONAL, 0);
	else if (pfn_valid(PHYS_PFN(window->start)))
		window->address = dma_map_page_attrs(ctrl->dev,
						     pfn_to_page(PHYS_PFN(window->start)), 0,
						     window->length, DMA_BIDIRECTIONAL, attributes);
	else
		return -EINVAL;
	return dma_mapping_error(ctrl->dev, window->address) ? -ENOMEM : 0;
}

static void unmap(struct chario_ctrl *ctrl, struct window *window)
{
	if (window->is_resource)
		dma_unmap_resource(ctrl->dev, window->address, window->length, DMA_BIDIRECTIONAL, 0);
	else
		dma_unmap_page_attrs(ctrl->dev, window->address, window->length, DMA_BIDIRECTIONAL,
				     DMA_ATTR_SKIP_CPU_SYNC);
}

int chario_grant(struct chario_ctrl *ctrl, const struct chario_window *args)
{
	struct window *window;
	int error;

	down_write(&ctrl->windows_lock);
	error = check(ctrl, args->address, args->length);
	if (error)
		goto unlock;
	window = kzalloc(sizeof(*window), GFP_KERNEL);
	error = -ENOMEM;
	if (!window)
		goto unlock;
	kref_init(&window->kref);
	window->start = args->address;
	window->length = args->length;
	error = map(ctrl, window);
	if (error) {
		kfree(window);
		goto unlock;
	}
	list_add_tail(&window->list, &ctrl->windows);
	dev_info(ctrl->dev, "window %#llx-%#llx granted\n", args->address,
		 args->address + args->length - 1);
unlock:
	up_write(&ctrl->windows_lock);
	return error;
}

/* Waits for the transfers that use it. Refused while a process has it mapped. */
int chario_revoke(struct chario_ctrl *ctrl, const struct chario_window *args)
{
	struct window *window;
	int error = -ENOENT;

	if (down_write_killable(&ctrl->windows_lock))
		return -EINTR;
	window = find(ctrl, args->address, args->length);
	if (window && window->start == args->address && window->length == args->length) {
		error = -EBUSY;
		if (!atomic_read(&window->mappings)) {
			list_del(&window->list);
			unmap(ctrl, window);
			kref_put(&window->kref, free_window);
			error = 0;
		}
	}
	up_write(&ctrl->windows_lock);
	return error;
}

/* windows=ADDRESS:LENGTH[,...]; what cannot be granted is logged and skipped. */
void chario_windows_init(struct chario_ctrl *ctrl)
{
	char *text, *rest, *word;

	if (!*chario_windows)
		return;
	text = kstrdup(chario_windows, GFP_KERNEL);
	for (rest = text; rest && (word = strsep(&rest, ",")); ) {
		char *length = strchr(word, ':');
		struct chario_window args = {};
		char *end = NULL;
		int error = -EINVAL;

		if (length) {
			*length++ = 0;
			args.address = memparse(word, &end);
			if (end != word && !*end) {
				args.length = memparse(length, &end);
				if (end != length && !*end)
					error = chario_grant(ctrl, &args);
			}
		}
		if (error)
			dev_err(ctrl->dev, "windows=%s: not granted: %d\n", word, error);
	}
	kfree(text);
}

/* On removal of the controller: no call is inside. Mappings by mmap() are of memory, and stay. */
void chario_windows_free(struct chario_ctrl *ctrl)
{
	struct window *window, *next;

	down_write(&ctrl->windows_lock);
	list_for_each_entry_safe(window, next, &ctrl->windows, list) {
		list_del(&window->list);
		unmap(ctrl, window);
		kref_put(&window->kref, free_window);
	}
	up_write(&ctrl->windows_lock);
}

ssize_t chario_phys_transfer(struct chario_file *file, const struct chario_phys *args)
{
	struct chario_ns *ns = file->ns;
	struct chario_ctrl *ctrl = ns->ctrl;
	struct chario_call call = {
		.ns = ns,
		.position = args->position,
		.length = args->length,
		.writes = args->flags & CHARIO_WRITE,
		.fua = (args->flags & (CHARIO_WRITE | CHARIO_FUA)) == (CHARIO_WRITE | CHARIO_FUA),
		.polls = READ_ONCE(file->polls),
	};
	struct window *window;
	ssize_t result;

	if (unlikely(args->reserved || args->flags & ~(CHARIO_WRITE | CHARIO_FUA) ||
		     args->address & (chario_block_bytes(ns) - 1) || args->length > 1ull << 30))
		return -EINVAL;
	result = chario_enter(ns);
	if (unlikely(result))
		return result;
	result = -EINTR;
	if (unlikely(down_read_killable(&ctrl->windows_lock)))
		goto leave;
	window = find(ctrl, args->address, args->length);
	result = -EPERM;
	if (unlikely(!window))
		goto unlock;
	result = chario_check_range(ns, call.position, &call.length, call.writes);
	if (unlikely(result || !call.length))
		goto unlock;
	call.address = window->address + (args->address - window->start);
	result = chario_transfer(&call);
unlock:
	up_read(&ctrl->windows_lock);
leave:
	chario_leave(ns);
	return result;
}

static void on_map(struct vm_area_struct *vma)
{
	struct window *window = vma->vm_private_data;

	kref_get(&window->kref);
	atomic_inc(&window->mappings);
}

static void on_unmap(struct vm_area_struct *vma)
{
	struct window *window = vma->vm_private_data;

	atomic_dec(&window->mappings);
	kref_put(&window->kref, free_window);
}

static const struct vm_operations_struct window_ops = {
	.open = on_map,
	.close = on_unmap,
};

/* The offset is the physical address. The mapping must be within one window. */
int chario_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct chario_file *private = file->private_data;
	struct chario_ctrl *ctrl = private->ns->ctrl;
	u64 length = vma->vm_end - vma->vm_start, start = (u64)vma->vm_pgoff << PAGE_SHIFT;
	struct window *window;
	int error = -EPERM;

	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (start >> PAGE_SHIFT != vma->vm_pgoff)
		return -EINVAL;
	if (down_read_killable(&ctrl->windows_lock))
		return -EINTR;
	window = find(ctrl, start, length);
	if (window) {
		vma->vm_private_data = window;
		vma->vm_ops = &window_ops;
		error = remap_pfn_range(vma, vma->vm_start, vma->vm_pgoff, length, vma->vm_page_prot);
		if (!error)
			on_map(vma);
	}
	up_read(&ctrl->windows_lock);
	return error;
}

int chario_windows_show(struct chario_ctrl *ctrl, char *text)
{
	struct window *window;
	int length = 0;

	down_read(&ctrl->windows_lock);
	list_for_each_entry(window, &ctrl->windows, list)
		length += sysfs_emit_at(text, length, "%#llx:%llu\n", (u64)window->start,
					window->length);
	up_read(&ctrl->windows_lock);
	return length;
}
