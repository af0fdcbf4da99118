/* SPDX-License-Identifier: GPL-2.0 */
/* host/ needs nothing from this header. */
