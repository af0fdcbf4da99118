/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /dev/kvm_perf_hypercall: makes a hypercall for a test program, from CPL 0,
 * and gives it memory with a known guest-physical address (mmap).
 */
#ifndef _KVM_PERF_HYPERCALL_H
#define _KVM_PERF_HYPERCALL_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define KVM_PERF_HYPERCALL_MEM	(4 * 4096)

/**
 * struct kvm_perf_hypercall - a hypercall and its result
 * @nr: its number
 * @a: its arguments
 * @ret: the result, when the ioctl has returned 0
 */
struct kvm_perf_hypercall {
	__u64 nr;
	__u64 a[4];
	__s64 ret;
};

/**
 * struct kvm_perf_hypercalls - several hypercalls, one after another
 * @calls: address of an array of struct kvm_perf_hypercall
 * @nr: number of them
 */
struct kvm_perf_hypercalls {
	__u64 calls;
	__u64 nr;
};

/**
 * struct kvm_perf_rdpmc - an RDPMC, at CPL 0
 * @ecx: the counter
 * @failed: RDPMC has faulted
 * @value: the counter's value, if RDPMC has not faulted
 */
struct kvm_perf_rdpmc {
	__u32 ecx;
	__u32 failed;
	__u64 value;
};

/* Make the hypercall on the current CPU. */
#define KVM_PERF_HYPERCALL_CALL	_IOWR('P', 1, struct kvm_perf_hypercall)
/* Get the guest-physical address of the memory that mmap() maps. */
#define KVM_PERF_HYPERCALL_PHYS	_IOR('P', 2, __u64)
/* Make several hypercalls, perhaps on different CPUs. */
#define KVM_PERF_HYPERCALL_CALLS _IOW('P', 3, struct kvm_perf_hypercalls)
/*
 * Start and stop a disabled event of this CPU without a counter, as perf does from
 * Linux 6.16 on when it unthrottles a group.  Fails with ESTALE if that changes the
 * event.
 */
#define KVM_PERF_HYPERCALL_STRAY _IO('P', 4)
/* Execute RDPMC on the current CPU. */
#define KVM_PERF_HYPERCALL_RDPMC _IOWR('P', 5, struct kvm_perf_rdpmc)

#endif
