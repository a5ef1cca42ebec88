/* SPDX-License-Identifier: GPL-2.0-only */
/* What lab/count/marker.h needs of it, in the kernel. */
#include <linux/types.h>
