/* SPDX-License-Identifier: GPL-2.0 */
/* What libpfm4's examples include by this name, and Debian does not package. */
#include <err.h>
