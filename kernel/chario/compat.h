/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What differs between the kernels that the module is built for, Linux 6.0 and later. The rest of
 * the source is written for the newest.
 */
#ifndef CHARIO_COMPAT_H
#define CHARIO_COMPAT_H

#include <linux/device.h>
#include <linux/mm.h>
#include <linux/pci.h>
#include <linux/uio.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_clear(struct vm_area_struct *area, vm_flags_t flags)
{
	area->vm_flags &= ~flags;
}
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
#define iter_iov(iter) ((iter)->iov)
#endif

static inline struct class *chario_class(const char *name)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
	return class_create(THIS_MODULE, name);
#else
	return class_create(name);
#endif
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 8, 0)
#define PCI_IRQ_INTX PCI_IRQ_LEGACY
#endif

/* Newer kernels have no name for this status, which older ones' targets return. */
#define CHARIO_SC_ONCS_NOT_SUPPORTED 0x183

#endif
