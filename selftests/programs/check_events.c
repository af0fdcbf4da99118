// SPDX-License-Identifier: GPL-2.0
/* build: -w -Iselftests/programs -lpfm */
/* libpfm4's own example: prints the events of this CPU and their encodings. */
#include "/usr/share/doc/libpfm4-dev/examples/check_events.c"
