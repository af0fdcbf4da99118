/* SPDX-License-Identifier: GPL-2.0 */
/* Nothing: stand_in.h makes each TRACE_EVENT a function. */
