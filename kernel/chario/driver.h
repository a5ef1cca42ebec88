/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared by the module's files: the controller, its queues, a call's units, the namespaces.
 *
 * Reading order: transfer.c (a call), prp.c (a command), queue.c (the rings), wait.c (the end of a
 * call), recovery.c (when a command does not complete); then the rest.
 *
 * Clauses named in this module are those of the NVM Express base specification, 1.4.
 */
#ifndef CHARIO_DRIVER_H
#define CHARIO_DRIVER_H

#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/dmapool.h>
#include <linux/dma-mapping.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/nvme.h>
#include <linux/pci.h>
#include <linux/percpu-refcount.h>
#include <linux/rwsem.h>
#include <linux/scatterlist.h>
#include <linux/semaphore.h>
#include <linux/spinlock.h>
#include <linux/uio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "chario.h"
#include "compat.h"
#include "swt_event.h"

#define CHARIO_UNIT_BYTES (4u << 20)
/* One page of PRP entries reaches this far. */
#define CHARIO_COMMAND_BYTES (2u << 20)
/* A command identifier is the slot in its low ten bits and a generation in the others. */
#define CHARIO_SLOT_BITS 10
#define CHARIO_SLOTS_MAX (1u << CHARIO_SLOT_BITS)
#define CHARIO_ADMIN_SLOTS 32
#define CHARIO_BUCKETS 32
#define CHARIO_REGISTERED_MAX 64
#define CHARIO_SMALL_PAGES 9
#define CHARIO_LANES_MAX 64
/* How often a unit that another one's recovery cancelled is sent again. */
#define CHARIO_RETRIES 3

enum chario_state {
	CHARIO_LIVE,
	CHARIO_PAUSED, /* calls wait until it is live again */
	CHARIO_DEAD, /* calls fail with ENODEV */
};

/* The end of a unit: who waits for it, for how many commands, and their outcome. */
struct chario_wait {
	struct task_struct *task; /* woken by the last loud command; NULL: no task sleeps */
	atomic_t loud; /* outstanding commands in a queue that interrupts */
	atomic_t quiet; /* outstanding commands in a queue that does not */
	u64 started_ns;
	u64 deadline_ns;
	/* What follows is written under the controller's failure_lock. */
	int error;
	u32 error_offset; /* where in the unit the first failed command begins */
	bool cancelled; /* recovery cancelled a command that had not failed itself */
	u16 status;
	u32 result;
};

/* Walks over the bus addresses of a unit, page by page. */
struct chario_cursor {
	dma_addr_t address;
	size_t left; /* bytes until the next segment */
	struct scatterlist *next; /* the next segment, or */
	const dma_addr_t *pages; /* the bus address of each next page */
};

/* Pages of a caller while the drive may reach them. */
struct chario_memory {
	struct page **pages;
	struct scatterlist *sg;
	unsigned int page_count;
	unsigned int sg_count;
	enum dma_data_direction direction;
	bool is_pooled;
	struct list_head list;
};

/* At most CHARIO_UNIT_BYTES of one call. */
struct chario_unit {
	struct chario_wait wait;
	struct chario_cursor start;
	struct chario_cursor rest; /* of what has not been sent yet */
	u32 sent_bytes;
	unsigned int loud_unsent; /* loud commands that wait for the previous unit */
	struct chario_memory *memory; /* pinned for this unit, or NULL */
	u64 lba;
	u32 bytes; /* 0: a command without data */
	u8 shift; /* log2 of the block size */
	unsigned int commands;
	unsigned int tries;
};

struct chario_command {
	struct chario_wait *wait; /* NULL: the slot is free */
	u32 offset; /* in the unit */
	u8 generation;
	bool is_overdue;
	__le64 *list; /* PRP entries after the first */
	dma_addr_t list_dma;
};

struct chario_queue {
	struct chario_ctrl *ctrl;
	spinlock_t lock;
	bool is_live; /* takes commands */
	bool interrupts;
	u8 phase;
	u16 id;
	u16 vector;
	u16 entries; /* of each ring; one more than slots */
	u16 sq_tail;
	u16 cq_head;
	u16 free_count;
	u16 *free;
	struct nvme_command *sq;
	struct nvme_completion *cq;
	u32 __iomem *sq_doorbell;
	u32 __iomem *cq_doorbell;
	struct chario_command *commands;
	dma_addr_t sq_dma;
	dma_addr_t cq_dma;
	/* Counted under the lock. */
	u64 interrupt_count;
	u64 spurious_count; /* interrupts that found nothing */
	u64 stray_count; /* completions that name no command of ours */
	u64 late_count; /* completions that the watchdog found */
	u64 latency[CHARIO_BUCKETS]; /* bucket n: below 2^n us */
};

/* A pair of queues. The last command of a unit goes to the loud one, the others to the quiet one. */
struct chario_lane {
	struct chario_queue *loud;
	struct chario_queue *quiet; /* the loud one where the controller has too few */
};

struct chario_ctrl {
	struct kref kref;
	struct pci_dev *pdev;
	struct device *dev;
	void __iomem *bar;
	resource_size_t bar_bytes;
	int instance;
	enum chario_state state; /* written under recovery_lock */
	u64 cap;
	u32 page_bytes; /* of the controller: CC.MPS */
	u32 command_bytes;
	u32 unit_bytes;
	u32 slots; /* of each I/O queue */
	u32 queue_count; /* I/O queues */
	u32 lane_count;
	unsigned int vector_count;
	bool one_vector; /* shared by the admin queue and one I/O queue */
	struct chario_queue *admin;
	struct chario_queue *queues; /* I/O queues */
	struct chario_lane *lanes;
	u8 *lane_of_cpu;
	struct dma_pool *lists;
	struct nvme_id_ctrl *id;
	void *page; /* for identify data and logs; under recovery_lock after probe */
	dma_addr_t page_dma;
	struct list_head namespaces;

	struct percpu_ref users; /* calls inside */
	struct completion users_gone;
	wait_queue_head_t changed; /* a queue went live, or the state changed */
	spinlock_t failure_lock;
	struct chario_wait abandoned; /* admin commands whose caller no longer waits */

	struct mutex recovery_lock; /* one recovery, reset or removal at a time */
	struct delayed_work watchdog;
	bool is_watched;
	atomic64_t timeouts;
	atomic64_t aborts;
	atomic64_t queue_resets;
	atomic64_t resets;
	atomic64_t cancelled;

	/* Memory for units that are not small: preallocated, used by one unit at a time. */
	struct semaphore memory_free;
	spinlock_t memory_lock;
	struct list_head memories;

	struct rw_semaphore windows_lock; /* read: a transfer uses one */
	struct list_head windows;
	struct mutex registered_lock;
	struct list_head registered;
};

struct chario_counters {
	u64 commands[2]; /* read, write */
	u64 bytes[2];
	u64 flushes;
	u64 errors;
};

struct chario_ns {
	struct device dev;
	struct cdev cdev;
	struct list_head list;
	struct chario_ctrl *ctrl;
	struct nvme_id_ns *id;
	u64 size_bytes;
	u32 nsid;
	u32 align_bytes; /* of buffers */
	u8 shift; /* log2 of the block size */
	bool is_read_only;
	atomic_t open_files;
	struct chario_file *exclusive; /* the file that was opened with O_EXCL */
	struct chario_counters __percpu *counters;
};

struct chario_file {
	struct chario_ns *ns;
	bool polls;
	struct rw_semaphore lock; /* read: a transfer uses a registered buffer */
	struct chario_registered *registered[CHARIO_REGISTERED_MAX];
	/* The one that was registered last with CHARIO_BY_ADDRESS. */
	struct chario_registered *by_address;
};

/* A call: what chario_transfer() needs to know. */
struct chario_call {
	struct chario_ns *ns;
	struct iov_iter *iter; /* the caller's memory, or */
	const dma_addr_t *pages; /* a registered buffer's pages, or neither: */
	dma_addr_t address; /* a bus address, or the offset in the registered buffer */
	u64 position;
	u64 length;
	bool writes;
	bool fua;
	bool polls;
};

static inline bool chario_is_done(const struct chario_wait *wait)
{
	return !atomic_read(&wait->loud) && !atomic_read(&wait->quiet);
}

static inline u32 chario_block_bytes(const struct chario_ns *ns)
{
	return 1u << ns->shift;
}

/* Lets a call reach the controller, which then stays until chario_leave(). */
static inline int chario_enter(struct chario_ns *ns)
{
	struct chario_ctrl *ctrl = ns->ctrl;

	if (unlikely(READ_ONCE(ctrl->state) == CHARIO_DEAD))
		return -ENODEV;
	return percpu_ref_tryget_live(&ctrl->users) ? 0 : -ENODEV;
}

static inline void chario_leave(struct chario_ns *ns)
{
	percpu_ref_put(&ns->ctrl->users);
}

/* Cuts *@length at the end of the drive. 0 bytes left: nothing to read, or no space. */
static inline int chario_check_range(struct chario_ns *ns, u64 position, u64 *length, bool writes)
{
	if (unlikely((position | *length) & (chario_block_bytes(ns) - 1)))
		return -EINVAL;
	if (unlikely(writes && ns->is_read_only))
		return -EPERM;
	if (unlikely(position >= ns->size_bytes)) {
		int past = writes && *length ? -ENOSPC : 0;

		*length = 0;
		return past;
	}
	*length = min(*length, ns->size_bytes - position);
	return 0;
}

/* main.c */
extern unsigned int chario_timeout_ms;

static inline u64 chario_deadline_ns(void)
{
	return ktime_get_ns() + (u64)chario_timeout_ms * NSEC_PER_MSEC;
}

extern unsigned int chario_queue_depth;
extern unsigned int chario_lane_limit;
extern char *chario_windows;
extern char *chario_irq;
void chario_ctrl_get(struct chario_ctrl *ctrl);
void chario_ctrl_put(struct chario_ctrl *ctrl);

/* controller.c */
int chario_start(struct chario_ctrl *ctrl);
int chario_disable(struct chario_ctrl *ctrl);
void chario_shutdown(struct chario_ctrl *ctrl);
int chario_restart(struct chario_ctrl *ctrl);
int chario_set_up(struct chario_ctrl *ctrl);
void chario_tear_down(struct chario_ctrl *ctrl);
bool chario_is_present(struct chario_ctrl *ctrl);

/* admin.c */
int chario_admin(struct chario_ctrl *ctrl, struct nvme_command *command, u32 *result);
int chario_identify(struct chario_ctrl *ctrl, u8 cns, u32 nsid);
int chario_health(struct chario_ctrl *ctrl);
int chario_set_queue_count(struct chario_ctrl *ctrl, u32 *count);
int chario_create_pair(struct chario_queue *queue);
int chario_delete_pair(struct chario_queue *queue);
int chario_abort(struct chario_queue *queue, u16 id);

/* queue.c */
int chario_queue_init(struct chario_ctrl *ctrl, struct chario_queue *queue, u16 id, u32 slots);
void chario_queue_free(struct chario_queue *queue);
void chario_queue_clear(struct chario_queue *queue);
void chario_queue_live(struct chario_queue *queue, bool is_live);
unsigned int chario_reap(struct chario_queue *queue);
void chario_cancel(struct chario_queue *queue, int error);
u16 chario_take_slot(struct chario_queue *queue, struct chario_wait *wait, u32 offset);
irqreturn_t chario_on_interrupt(int irq, void *data);
irqreturn_t chario_on_shared_interrupt(int irq, void *data);

static inline bool chario_has_completion(struct chario_queue *queue)
{
	const struct nvme_completion *entry = &queue->cq[READ_ONCE(queue->cq_head)];

	return (le16_to_cpu(READ_ONCE(entry->status)) & 1) == READ_ONCE(queue->phase);
}

/* prp.c */
int chario_submit(struct chario_queue *queue, struct chario_unit *unit, struct chario_cursor *cursor,
		  const struct nvme_command *like, u32 *offset, unsigned int count);
int chario_submit_page(struct chario_queue *queue, struct chario_unit *unit,
		       const struct chario_call *call, dma_addr_t address);

/* transfer.c */
ssize_t chario_transfer(struct chario_call *call);
int chario_flush(struct chario_ns *ns, bool polls);

/* wait.c */
void chario_wait_init(struct chario_wait *wait);
void chario_wait(struct chario_lane *lane, struct chario_wait *wait, bool polls);
int chario_wait_room(struct chario_queue *queue);
int chario_wait_live(struct chario_queue *queue);
void chario_fail(struct chario_ctrl *ctrl, struct chario_wait *wait, u32 offset, int error);

/* memory.c */
int chario_memory_init(struct chario_ctrl *ctrl);
void chario_memory_free(struct chario_ctrl *ctrl);
struct chario_memory *chario_memory_take(struct chario_ctrl *ctrl, bool may_wait);
void chario_memory_give(struct chario_ctrl *ctrl, struct chario_memory *memory);
int chario_memory_map(struct chario_ctrl *ctrl, struct chario_memory *memory, unsigned long address,
		      size_t bytes, bool writes);
void chario_memory_unmap(struct chario_ctrl *ctrl, struct chario_memory *memory);
unsigned int chario_sg_fill(struct scatterlist *sg, struct page **pages, unsigned int page_count,
			    unsigned int first_offset, size_t bytes);

/* namespace.c */
int chario_namespaces_init(void);
void chario_namespaces_exit(void);
int chario_add_namespaces(struct chario_ctrl *ctrl);
void chario_remove_namespaces(struct chario_ctrl *ctrl);

/* file.c */
extern const struct file_operations chario_fops;

/* ioctl.c */
long chario_ioctl(struct file *file, unsigned int number, unsigned long argument);

/* registered.c */
int chario_register(struct chario_file *file, struct chario_register *args);
int chario_unregister(struct chario_file *file, u32 buffer);
void chario_unregister_all(struct chario_file *file);
void chario_registered_unmap_all(struct chario_ctrl *ctrl);
ssize_t chario_registered_transfer(struct chario_file *file, const struct chario_transfer *args);
ssize_t chario_registered_move(struct chario_file *file, struct chario_call *call,
			       unsigned long address);

/* window.c */
void chario_windows_init(struct chario_ctrl *ctrl);
void chario_windows_free(struct chario_ctrl *ctrl);
int chario_grant(struct chario_ctrl *ctrl, const struct chario_window *args);
int chario_revoke(struct chario_ctrl *ctrl, const struct chario_window *args);
ssize_t chario_phys_transfer(struct chario_file *file, const struct chario_phys *args);
int chario_mmap(struct file *file, struct vm_area_struct *vma);
int chario_windows_show(struct chario_ctrl *ctrl, char *text);

/* recovery.c */
void chario_watchdog(struct work_struct *work);
void chario_watch(struct chario_ctrl *ctrl);
void chario_hurry(struct chario_ctrl *ctrl, struct chario_wait *wait);
void chario_freeze(struct chario_ctrl *ctrl);
void chario_pause(struct chario_ctrl *ctrl);
int chario_resume(struct chario_ctrl *ctrl);
int chario_reset(struct chario_ctrl *ctrl);
void chario_gone(struct chario_ctrl *ctrl);

/* sysfs.c */
extern const struct attribute_group *chario_groups[];

/* status.c */
int chario_errno(u16 status);

#endif
