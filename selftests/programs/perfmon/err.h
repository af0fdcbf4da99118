/* SPDX-License-Identifier: GPL-2.0 */
/* libpfm4's examples include <perfmon/err.h>, which Debian does not package. */
#include <err.h>
