/* SPDX-License-Identifier: GPL-2.0 */
/* XA_CHUNK_SHIFT is what <linux/xarray.h> makes it. */
