/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Paravirtual performance events for KVM guests: the contract between the
 * host (inside kvm.ko) and the guest (a struct pmu).
 *
 * A guest that finds KVM_FEATURE_PV_PERF in CPUID makes the hypercall
 * KVM_PERF_OP.  Its first argument is an operation, KVM_PERF_OP_*; the
 * others are the operation's.  The result is 0 or a negative KVM_E*.
 *
 * An event is known by an id that the guest chose.  Where an operation takes
 * the address of a struct, it is a guest-physical address in two halves, bits
 * 31:0 and then bits 63:32, so that a 32-bit guest can pass it; bits 63:32 of
 * each argument must be 0.
 *
 * All structs have the same layout for 32 and 64 bits and are little-endian.
 * Those that a guest writes start with their size: a later version may be
 * larger, and a host accepts what is beyond the size that it knows only if
 * all of it is 0, or where it is the host that fills it.  Reserved fields must
 * be 0.
 *
 * A failed operation changes nothing, except where it says so.
 */
#ifndef _UAPI_ASM_X86_KVM_PERF_H
#define _UAPI_ASM_X86_KVM_PERF_H

#include <linux/types.h>

#ifndef KVM_PERF_OP
/*
 * Provisional until upstream assigns them, in headers of its own: chosen far
 * from the numbers that it assigns next (hypercall 13, bit 18 and capability
 * 252 as of Linux 7.3).
 */

/* A bit of EAX of the CPUID leaf KVM_CPUID_FEATURES. */
#define KVM_FEATURE_PV_PERF		31

/* A hypercall, made from CPL 0. */
#define KVM_PERF_OP			256

/* For the VMM, see below. */
#define KVM_CAP_PV_PERF_EVENTS		1024
#define KVM_CAP_PV_PERF_RATE		1025
#define KVM_CAP_PV_PERF_COUNTERS	1026
#define KVM_CAP_PV_PERF_RDPMC		1027
#define KVM_CAP_PV_PERF_COUNTS		1028
#endif

/* The version of this contract, which KVM_PERF_OP_QUERY reports. */
#define KVM_PERF_ABI_VERSION		1

/**
 * DOC: Operations of KVM_PERF_OP
 *
 * %KVM_PERF_OP_OPEN (low, high: address of struct guest_perf_event_param):
 * creates the event, disabled, and zeroes its record.
 *
 * %KVM_PERF_OP_CLOSE (id): deletes the event.  Its record is written no more
 * once this returns.
 *
 * %KVM_PERF_OP_ENABLE (id): the event counts on this vCPU from now on, and
 * only while this vCPU executes guest code.  An event that counted on another
 * vCPU moves here, and its count carries on.  An event that counts here
 * already is not changed.  -%KVM_EBUSY where no counter is free, -%KVM_EAGAIN
 * where the vCPU's events overflow too often for one more that does.
 *
 * %KVM_PERF_OP_DISABLE (id): counting stops and the record holds the final
 * count.  With -%KVM_EFAULT counting has stopped, but the record was not
 * written.
 *
 * %KVM_PERF_OP_READ (id, or %KVM_PERF_ID_ALL for every event that was enabled
 * on this vCPU and not disabled since): the record holds the count of now.
 * With -%KVM_EBUSY it holds the count, but the event had lost its counter to
 * the host and has missed some; where it is this vCPU's, it counts again if a
 * counter was free.
 * With %KVM_PERF_ID_ALL the result is that of the first event that failed,
 * and every other event's record was brought up to date all the same;
 * -%KVM_ENOENT where there is no such event.
 *
 * %KVM_PERF_OP_QUERY (low, high: address of struct guest_perf_query): tells
 * what this host offers.
 *
 * %KVM_PERF_OP_SET_PERIOD (id, low, high: the new sample_period): the next
 * overflow comes after this many events, or, for an event with
 * %KVM_PERF_ATTR_FREQ, overflows come at this many per second from now on.
 * -%KVM_EINVAL if it is 0, if the event was opened with a sample_period of 0,
 * or if the host allows no such rate.
 *
 * %KVM_PERF_OP_BATCH (low, high: address of an array of struct guest_perf_op;
 * number of them, 1 to %KVM_PERF_BATCH_MAX): runs them in order.  Each has its
 * own result, one that fails does not keep the next from running, and the
 * hypercall's result is 0 where they were run.  An array that is not writable
 * is not run.
 *
 * %KVM_PERF_OP_RESET: closes every event of the VM.  A kernel that starts
 * calls it before anything else, one that ends calls it last.  Not in a batch.
 *
 * %KVM_PERF_OP_SET_LEFT (id, low, high: number of events, at most 2^63 - 1):
 * the record holds the count and the period_left of now; then, the next
 * overflow comes after this many events, 0 standing for a whole period, and
 * those after it at the event's period again.  So several users of one event
 * can each have a period of their own under way.  An event with a frequency
 * may overflow earlier, as the host adapts its period, unless 2^62 or more are
 * left.  -%KVM_EINVAL if the event was opened with a sample_period of 0.
 *
 * %KVM_PERF_OP_SET_AREA (low, high: address of struct guest_perf_area, or 0): the
 * host keeps this vCPU's area up to date there, and no more where it was before;
 * 0 for nowhere.  A reset of the vCPU and KVM_PERF_OP_RESET have it nowhere, too.
 *
 * %KVM_PERF_OP_SET_COUNTS (low, high: a bit for each KVM_PERF_COUNT_*): of the
 * hypervisor's events of this vCPU, the host counts these in its area from now on, and
 * no others; SET_AREA has it count none.  -%KVM_EINVAL for an unknown bit, or if the
 * vCPU has no area or a smaller one than GUEST_PERF_AREA_SIZE_VER1, -%KVM_EOPNOTSUPP
 * for what guest_perf_query.counts does not have.
 */
#define KVM_PERF_OP_OPEN		1
#define KVM_PERF_OP_CLOSE		2
#define KVM_PERF_OP_ENABLE		3
#define KVM_PERF_OP_DISABLE		4
#define KVM_PERF_OP_READ		5
#define KVM_PERF_OP_QUERY		6
#define KVM_PERF_OP_SET_PERIOD		7
#define KVM_PERF_OP_BATCH		8
#define KVM_PERF_OP_RESET		9
#define KVM_PERF_OP_SET_LEFT		10
#define KVM_PERF_OP_SET_AREA		11
#define KVM_PERF_OP_SET_COUNTS		12

/* No event's id: stands for all events of this vCPU. */
#define KVM_PERF_ID_ALL			0xffffffffU

/**
 * DOC: Errors of KVM_PERF_OP
 *
 * %KVM_EINVAL: malformed: a size, a reserved field or bit, a misaligned
 * record, an unknown type, flag, generic or cache event, an argument with bits
 * 63:32 set.
 *
 * %KVM_EFAULT: an address outside the guest's memory, or read-only memory
 * where the host must write.
 *
 * %KVM_ENOENT: no event has this id.
 *
 * %KVM_EEXIST: an event has this id already.
 *
 * %KVM_EOPNOTSUPP: well-formed, but this host cannot or may not count it: its
 * CPU has not the event, say.
 *
 * %KVM_ENOSPC: the VM's limit on events, one vCPU's share of it, or the memory
 * of its owner's control group, is used up.  The first operation of a vCPU, whichever
 * it is, may need memory.
 *
 * %KVM_EAGAIN: the vCPU's events overflow too often now; later it may do.
 *
 * %KVM_EBUSY: no counter is free now, or somebody else has the host's whole PMU.
 *
 * %KVM_EPERM: not from CPL 0, or from a nested guest.
 *
 * %KVM_ENOSYS: no such operation, or the VM has not the feature.
 */
#ifndef KVM_ENOENT
/* linux/kvm_para.h has the others. */
#define KVM_ENOENT			2
#define KVM_EAGAIN			11
#define KVM_EBUSY			16
#define KVM_EEXIST			17
#define KVM_ENOSPC			28
#endif

/* Values of guest_perf_attr.type: those of perf_event_attr.type. */
#define KVM_PERF_TYPE_HARDWARE		0
#define KVM_PERF_TYPE_HW_CACHE		3
#define KVM_PERF_TYPE_RAW		4

/* Bits of guest_perf_attr.flags. */
#define KVM_PERF_ATTR_EXCLUDE_USER	(1ULL << 0)
#define KVM_PERF_ATTR_EXCLUDE_KERNEL	(1ULL << 1)
#define KVM_PERF_ATTR_FREQ		(1ULL << 2)
#define KVM_PERF_ATTR_EXCLUDE_GUEST	(1ULL << 3)
#define KVM_PERF_ATTR_EXCLUDE_HOST	(1ULL << 4)
#define KVM_PERF_ATTR_NOTIFY		(1ULL << 5)
#define KVM_PERF_ATTR_RDPMC		(1ULL << 6)
#define KVM_PERF_ATTR_RDPMC_USER	(1ULL << 7)

/*
 * More of them: which branches to record.  Those that end at CPL 0, and at CPL 1 to 3;
 * of these, conditional ones, near calls (relative, and indirect), near returns, near
 * jumps (indirect, and relative), and all others.  (AMD APM volume 2, 13.1.8,
 * LastBranchStackSelect; Intel SDM volume 3B, MSR_LBR_SELECT)
 */
#define KVM_PERF_ATTR_BRANCH_KERNEL	(1ULL << 32)
#define KVM_PERF_ATTR_BRANCH_USER	(1ULL << 33)
#define KVM_PERF_ATTR_BRANCH_COND	(1ULL << 34)
#define KVM_PERF_ATTR_BRANCH_CALL	(1ULL << 35)
#define KVM_PERF_ATTR_BRANCH_IND_CALL	(1ULL << 36)
#define KVM_PERF_ATTR_BRANCH_RETURN	(1ULL << 37)
#define KVM_PERF_ATTR_BRANCH_IND_JUMP	(1ULL << 38)
#define KVM_PERF_ATTR_BRANCH_JUMP	(1ULL << 39)
#define KVM_PERF_ATTR_BRANCH_FAR	(1ULL << 40)

#define KVM_PERF_ATTR_BRANCHES		(0x1ffULL << 32)
#define KVM_PERF_ATTR_BRANCHES_SHIFT	32

/**
 * struct guest_perf_attr - what to count
 * @size: size of this struct as the guest knows it, in bytes
 * @type: KVM_PERF_TYPE_*
 * @config: which event; its meaning is that of perf_event_attr.config for
 *	@type.  For KVM_PERF_TYPE_RAW only the bits of
 *	guest_perf_query.raw_event_mask may be set.
 * @config1: 0, or the host answers -KVM_EOPNOTSUPP
 * @config2: 0, or the host answers -KVM_EOPNOTSUPP
 * @sample_period: number of events from one overflow to the next, at most
 *	2^63 - 1; 0: no overflows, only counting.  With KVM_PERF_ATTR_FREQ it
 *	is the number of overflows per second to aim at, at most 2^31 - 1.
 * @flags: KVM_PERF_ATTR_*.  EXCLUDE_USER and EXCLUDE_KERNEL: do not count at
 *	CPL 1 to 3, and at CPL 0.  EXCLUDE_GUEST and EXCLUDE_HOST, which need
 *	KVM_PERF_FEATURE_NESTED: do not count while a guest of this guest runs,
 *	and while none does.  NOTIFY, which needs KVM_PERF_FEATURE_NOTIFY: tell
 *	by an NMI when guest_perf_event.flags gets a bit.  RDPMC, which needs
 *	KVM_PERF_FEATURE_RDPMC: tell by guest_perf_event.pmc where the count is, as
 *	long as the guest may read it there.  RDPMC_USER, which needs
 *	KVM_PERF_FEATURE_RDPMC_USER: tell by an NMI when the count is no longer
 *	where that has said.  BRANCH_*, which need KVM_PERF_FEATURE_BRANCHES and a
 *	@sample_period: with each overflow, tell in guest_perf_area.branch what
 *	branches of these kinds, or of those that other events of the vCPU ask for,
 *	have led there.
 *
 * What the host executes is never counted, nor recorded.  But an instruction that the host
 * completes in place of the guest is the guest's: an event of instructions or of branches
 * (%PERF_COUNT_HW_INSTRUCTIONS, %PERF_COUNT_HW_BRANCH_INSTRUCTIONS, or a raw event with
 * the same event select and unit mask) counts it as if it had retired at the CPL at which
 * the guest has executed it.  No event counts KVM_PERF_OP.
 */
struct guest_perf_attr {
	__u32	size;
	__u32	type;
	__aligned_u64	config;
	__aligned_u64	config1;
	__aligned_u64	config2;
	__aligned_u64	sample_period;
	__aligned_u64	flags;
};

#define GUEST_PERF_ATTR_SIZE_VER0	48

/* The largest guest_perf_attr.size that a host accepts. */
#define GUEST_PERF_ATTR_SIZE_MAX	256

/**
 * struct guest_perf_event - an event's record, which the host writes
 * @count: number of events since OPEN; never decreases
 * @overflows: number of overflows that the guest has not seen yet.  The host
 *	adds to it and the guest exchanges it with 0, both atomically.
 * @sequence: odd while the host is writing any other field but @overflows.
 *	To read more than one of them, or 64 bits with 32-bit instructions,
 *	read @sequence before and after, and again if it was odd or has
 *	changed.
 * @time_enabled: how long the event was enabled, in ns of the vCPU thread's
 *	run time on the host
 * @time_running: how long of this a counter counted it
 * @last_period: number of events in the period that ended with the last
 *	overflow; the average where several are delivered together
 * @period_left: number of events to the next overflow, at least 1; 0 if the
 *	event was opened with a sample_period of 0
 * @flags: KVM_PERF_EVENT_*: why an event that is enabled does not count now
 * @pmc: which counter of the CPU has the count, see KVM_PERF_PMC_*
 * @offset: what to add to that
 *
 * At a 64-byte aligned guest-physical address.  The host writes it on OPEN,
 * READ, DISABLE, SET_LEFT, on an ENABLE that takes a bit from @flags, and before
 * it injects an NMI for it; it reads nothing from it but @overflows, and that
 * only to add to it.
 *
 * @pmc and @offset of an event with KVM_PERF_ATTR_RDPMC are apart from this, and
 * from @sequence: the host writes them before it enters the guest on the vCPU that
 * the event was enabled on, whenever they are not what it wrote last.  On this vCPU,
 * and on the host that wrote @pmc, the event's count is then
 *
 *	@offset + RDPMC, sign-extended from bit 47
 *
 * if @pmc is the same before and after it and @offset are read.
 *
 * With KVM_PERF_FEATURE_RDPMC_USER the guest may set CR4.PCE and let user mode do
 * the same, for events with KVM_PERF_ATTR_RDPMC_USER: it is told by an NMI, before it
 * executes anything else, that @pmc is not what it was, if it had an index, unless a
 * DISABLE on this vCPU, a CLOSE, a RESET or an ENABLE on another vCPU is the reason.
 * And what user mode of a vCPU with an area may not read, also on a host that does not
 * allow RDPMC, is 0, and no exception.  There is no NMI while a nested guest runs.
 */
struct guest_perf_event {
	__aligned_u64	count;
	__u32	overflows;
	__u32	sequence;
	__aligned_u64	time_enabled;
	__aligned_u64	time_running;
	__aligned_u64	last_period;
	__aligned_u64	period_left;
	__u32	flags;
	__u32	pmc;
	__aligned_u64	offset;
};

/*
 * Bits of guest_perf_event.flags.  LOST: a host's event with precedence has taken
 * the counter; an ENABLE may find another.  THROTTLED: it has overflowed too
 * often, for the VM's limit or the host's perf; it goes on by itself.
 */
#define KVM_PERF_EVENT_LOST		(1U << 0)
#define KVM_PERF_EVENT_THROTTLED	(1U << 1)

/*
 * Parts of guest_perf_event.pmc.  INDEX: one more than the low bits of ECX for
 * RDPMC, or 0 where the event has no counter that the guest may read now.  FIXED:
 * bit 30 of ECX is set.  CHANGE: a number that changes with any of these, or with
 * the offset.
 */
#define KVM_PERF_PMC_INDEX		0x000000ffU
#define KVM_PERF_PMC_FIXED		0x00004000U
#define KVM_PERF_PMC_CHANGE		0xffff0000U
#define KVM_PERF_PMC_CHANGE_ONE		0x00010000U

/**
 * struct guest_perf_event_param - argument of KVM_PERF_OP_OPEN
 * @attr_addr: guest-physical address of the struct guest_perf_attr, 8-byte
 *	aligned
 * @event_addr: guest-physical address of the struct guest_perf_event, 64-byte
 *	aligned
 * @id: the event's id from now on, not KVM_PERF_ID_ALL
 * @reserved: 0
 *
 * Is itself 8-byte aligned.
 */
struct guest_perf_event_param {
	__aligned_u64	attr_addr;
	__aligned_u64	event_addr;
	__u32	id;
	__u32	reserved;
};

/**
 * DOC: Events of the hypervisor
 *
 * What only the hypervisor knows of a vCPU.  Each exit of the vCPU is one of the first
 * twelve: what it was for.  A guest whose CPUID does not have KVM_FEATURE_STEAL_TIME
 * has no PREEMPTIONS, STEAL_NS and HOST_NS.
 *
 * %KVM_PERF_COUNT_EXITS_OTHER: none of the following.
 *
 * %KVM_PERF_COUNT_EXITS_IO: IN, OUT, INS or OUTS.
 *
 * %KVM_PERF_COUNT_EXITS_MMIO: an access to what is not memory.
 *
 * %KVM_PERF_COUNT_EXITS_MSR: RDMSR or WRMSR.
 *
 * %KVM_PERF_COUNT_EXITS_CPUID: CPUID.
 *
 * %KVM_PERF_COUNT_EXITS_HLT: HLT.
 *
 * %KVM_PERF_COUNT_EXITS_NPF: an access to memory that the host had to provide, or to
 * see: a nested page fault (AMD), an EPT violation (Intel).
 *
 * %KVM_PERF_COUNT_EXITS_INTERRUPT: an interrupt of the host's, or its timer; the guest
 * can take an interrupt now.
 *
 * %KVM_PERF_COUNT_EXITS_NMI: an NMI of the host's; the guest can take an NMI now.
 *
 * %KVM_PERF_COUNT_EXITS_HYPERCALL: VMMCALL or VMCALL.
 *
 * %KVM_PERF_COUNT_EXITS_NESTED: a nested guest has left, for whatever reason.
 *
 * %KVM_PERF_COUNT_EXITS_PV_PERF: for the sake of this contract: KVM_PERF_OP of kernel
 * mode, an overflow, the end of the guest's handler of an NMI that told of something.
 *
 * %KVM_PERF_COUNT_INJECTED_IRQS: the guest has taken an interrupt that the host injected.
 *
 * %KVM_PERF_COUNT_PREEMPTIONS: the vCPU's thread lost its CPU, though it would have run.
 *
 * %KVM_PERF_COUNT_STEAL_NS: ns that the vCPU's thread waited for a CPU.
 *
 * %KVM_PERF_COUNT_HALT_NS: ns that the vCPU was halted, as far as the host, and not the
 * VMM, handles that; until it is woken, not until it has a CPU.
 *
 * %KVM_PERF_COUNT_HOST_NS: ns that the vCPU was out of the guest, but for those two, and
 * for exits that are for the sake of this contract.
 *
 * What an exit brings is of user mode if that was at CPL 3; of a nested guest, if the
 * guest's last own exit was.
 */
#define KVM_PERF_COUNT_EXITS_OTHER	0
#define KVM_PERF_COUNT_EXITS_IO		1
#define KVM_PERF_COUNT_EXITS_MMIO	2
#define KVM_PERF_COUNT_EXITS_MSR	3
#define KVM_PERF_COUNT_EXITS_CPUID	4
#define KVM_PERF_COUNT_EXITS_HLT	5
#define KVM_PERF_COUNT_EXITS_NPF	6
#define KVM_PERF_COUNT_EXITS_INTERRUPT	7
#define KVM_PERF_COUNT_EXITS_NMI	8
#define KVM_PERF_COUNT_EXITS_HYPERCALL	9
#define KVM_PERF_COUNT_EXITS_NESTED	10
#define KVM_PERF_COUNT_EXITS_PV_PERF	11
#define KVM_PERF_COUNT_INJECTED_IRQS	12
#define KVM_PERF_COUNT_PREEMPTIONS	13
#define KVM_PERF_COUNT_STEAL_NS		14
#define KVM_PERF_COUNT_HALT_NS		15
#define KVM_PERF_COUNT_HOST_NS		16

/* How many there are, and for how many the area has room. */
#define KVM_PERF_NR_COUNTS		17
#define KVM_PERF_MAX_COUNTS		32

/* Number of entries of guest_perf_area.slot, and of guest_perf_area.branch. */
#define KVM_PERF_NR_SLOTS		16
#define KVM_PERF_MAX_BRANCHES		32

/**
 * struct guest_perf_slot - a sampling event of the hypervisor's
 * @counts: in: what it counts, a bit for each KVM_PERF_COUNT_*
 * @left: in, out: how many to its overflow, as a signed number; goes on below 0
 * @ip: out: the address of the instruction with which the guest, not a nested one, had
 *	exited last as the slot overflowed
 * @exclude: in: KVM_PERF_ATTR_EXCLUDE_USER and KVM_PERF_ATTR_EXCLUDE_KERNEL; no other bit
 *	has a meaning
 * @user: out: 1 if that was at CPL 3, else 0
 *
 * The slot overflows where @left becomes 0 or less.  The guest gets an NMI for that
 * before it executes anything else; later where its overflows come more often than the
 * host allows it, or it is in the handler of one, or runs a nested guest, or was halted
 * and still is: it is not woken.  A slot whose @left is not positive overflows no more
 * until the guest has set it.
 */
struct guest_perf_slot {
	__aligned_u64	counts;
	__aligned_u64	left;
	__aligned_u64	ip;
	__u32	exclude;
	__u32	user;
};

/**
 * struct guest_perf_branch - a branch that was taken
 * @from: the address of the instruction; where the CPU executes two as one, it may be
 *	that of the one before
 * @to: the address that it went to
 * @info: KVM_PERF_BRANCH_*
 */
struct guest_perf_branch {
	__aligned_u64	from;
	__aligned_u64	to;
	__aligned_u64	info;
};

/*
 * Parts of guest_perf_branch.info.  MISPREDICTED: it was.  SPEC: what is known of its
 * speculation, PERF_BR_SPEC_* of perf_event.h.
 */
#define KVM_PERF_BRANCH_MISPREDICTED	0x0000000000000001ULL
#define KVM_PERF_BRANCH_SPEC		0x0000000000000006ULL
#define KVM_PERF_BRANCH_SPEC_SHIFT	1

/**
 * struct guest_perf_area - what a vCPU can know without asking
 * @size: in: size of this struct as the guest knows it, in bytes, at least
 *	GUEST_PERF_AREA_SIZE_VER0; out: how many of them the host fills
 * @epoch: an odd number as long as this host has what was opened on this vCPU
 *	since SET_AREA.  Another, or 0, where it does not: the guest runs on another
 *	host or was restored from a snapshot, or RESET was called.  Not written by a
 *	reset of the vCPU.
 * @slots: in: which of @slot are in use, a bit each
 * @reserved: 0
 * @count: in, out: the hypervisor's events of SET_COUNTS, by KVM_PERF_COUNT_*, of kernel
 *	mode and of user mode.  The host adds to them.
 * @slot: its sampling events
 * @nr_branches: out: how many branches led to the overflow that the host has told of
 *	last, of an event with KVM_PERF_ATTR_BRANCHES; the guest sets it to 0 when it has
 *	seen them
 * @reserved2: 0
 * @branch: out: those, the last one first: what this vCPU, and no nested guest, has
 *	executed since it entered the guest last
 *
 * At a 4096-byte aligned guest-physical address, not 0.  The host writes it on
 * SET_AREA, before it enters the guest with something new, and before the VMM can
 * save the vCPU: what is saved has an @epoch of 0.  @slots to @slot need
 * KVM_PERF_FEATURE_COUNTS, what follows them KVM_PERF_FEATURE_BRANCHES; the host reads
 * and writes all of it only while this vCPU is out of the guest.
 */
struct guest_perf_area {
	__u32	size;
	__u32	epoch;
	__u32	slots;
	__u32	reserved;
	__aligned_u64	count[KVM_PERF_MAX_COUNTS][2];
	struct guest_perf_slot	slot[KVM_PERF_NR_SLOTS];
	__u32	nr_branches;
	__u32	reserved2;
	struct guest_perf_branch	branch[KVM_PERF_MAX_BRANCHES];
};

#define GUEST_PERF_AREA_SIZE_VER0	8
#define GUEST_PERF_AREA_SIZE_VER1	1040
#define GUEST_PERF_AREA_SIZE_VER2	1816
#define GUEST_PERF_AREA_ALIGN		4096

/*
 * A vCPU with an area sets the LVTPC register of its local APIC to this: an NMI,
 * whose vector the APIC ignores.  VMMs save that register.  A host on which such a
 * vCPU first runs, without having set an area there, has been given it by another:
 * it injects an NMI, so that the guest sees that its events are gone before it
 * executes anything else.
 */
#define KVM_PERF_LVTPC			0x4a5

/**
 * struct guest_perf_op - an operation of a KVM_PERF_OP_BATCH
 * @op: KVM_PERF_OP_*, but not KVM_PERF_OP_BATCH and KVM_PERF_OP_RESET: these have the
 *	result -KVM_EINVAL
 * @result: out: what the operation would have returned as a hypercall
 * @id: the operation's id; 0 where it takes none
 * @reserved: 0
 * @arg: the operation's address, or its other 64-bit argument; 0 where it
 *	takes neither.  Out: the event's count where READ of one event, DISABLE
 *	or SET_LEFT have brought its record up to date; unchanged otherwise.
 *
 * The array is 8-byte aligned.
 */
struct guest_perf_op {
	__u32	op;
	__s32	result;
	__u32	id;
	__u32	reserved;
	__aligned_u64	arg;
};

/* How many operations a batch may have. */
#define KVM_PERF_BATCH_MAX		64

/* Bits of guest_perf_query.features. */
#define KVM_PERF_FEATURE_SAMPLING	(1U << 0)
#define KVM_PERF_FEATURE_BATCH		(1U << 1)
#define KVM_PERF_FEATURE_NESTED		(1U << 2)
#define KVM_PERF_FEATURE_NOTIFY		(1U << 3)
#define KVM_PERF_FEATURE_AREA		(1U << 4)
#define KVM_PERF_FEATURE_RDPMC		(1U << 5)
#define KVM_PERF_FEATURE_RDPMC_USER	(1U << 6)
#define KVM_PERF_FEATURE_COUNTS		(1U << 7)
#define KVM_PERF_FEATURE_BRANCHES	(1U << 8)

/*
 * Values of guest_perf_query.rdpmc: may the guest read counters by RDPMC, and why
 * not?  UNKNOWN: the host does not say.  HOST: it does not allow that.  SHARED: it
 * allows it only where RDPMC shows no counters but those of the CPU.  NESTED: it is
 * a guest itself and counts by this interface.  VMM: that has not asked for it.
 * PMU: RDPMC is for the VM's virtual PMU.
 */
#define KVM_PERF_RDPMC_UNKNOWN		0
#define KVM_PERF_RDPMC_ALLOWED		1
#define KVM_PERF_RDPMC_HOST		2
#define KVM_PERF_RDPMC_SHARED		3
#define KVM_PERF_RDPMC_NESTED		4
#define KVM_PERF_RDPMC_VMM		5
#define KVM_PERF_RDPMC_PMU		6

/* Number of entries of guest_perf_query.hw_config. */
#define KVM_PERF_NR_HW_EVENTS		10

/* Number of bits of guest_perf_query.fixed_counters. */
#define KVM_PERF_NR_FIXED_COUNTERS	3

/**
 * struct guest_perf_query - what KVM_PERF_OP_QUERY fills
 * @size: in: size of this struct as the guest knows it, in bytes, at least
 *	GUEST_PERF_QUERY_SIZE_VER0; out: how many of them the host has filled
 * @version: KVM_PERF_ABI_VERSION of the host
 * @features: KVM_PERF_FEATURE_*
 * @max_events: number of events that this VM may have open at a time; of
 *	these, one vCPU may have 32, or its share if that is more
 * @nr_counters: number of general-purpose counters that the events of a vCPU
 *	may have at a time.  What else runs on the host may use some of them.
 * @fixed_counters: Intel's fixed counters, which there are besides, a bit each: of
 *	instructions (raw config 0xc0), cycles (0x3c), reference cycles (0x300).
 *	0 before this field was added.  (Intel SDM volume 3B, 20.2.2)
 * @raw_event_mask: the bits that guest_perf_attr.config may have for
 *	KVM_PERF_TYPE_RAW
 * @hw_config: the raw config of each PERF_COUNT_HW_* event, 0 if the host has
 *	not this event
 * @rdpmc: KVM_PERF_RDPMC_*
 * @counts: which of the hypervisor's events it may count, a bit for each
 *	KVM_PERF_COUNT_*.  0 before this field was added.
 * @branches: how many branches the CPU records, at most KVM_PERF_MAX_BRANCHES; 0 where
 *	KVM_PERF_FEATURE_BRANCHES is not there
 * @reserved: 0
 *
 * 8-byte aligned.  Everything but @size is output.
 */
struct guest_perf_query {
	__u32	size;
	__u32	version;
	__u32	features;
	__u32	max_events;
	__u32	nr_counters;
	__u32	fixed_counters;
	__aligned_u64	raw_event_mask;
	__aligned_u64	hw_config[KVM_PERF_NR_HW_EVENTS];
	__u32	rdpmc;
	__u32	counts;
	__u32	branches;
	__u32	reserved;
};

#define GUEST_PERF_QUERY_SIZE_VER0	112
#define GUEST_PERF_QUERY_SIZE_VER1	120
#define GUEST_PERF_QUERY_SIZE_VER2	128

/**
 * DOC: For the VMM
 *
 * %KVM_CAP_PV_PERF_EVENTS: how many events may be open per vCPU of the VM: the
 * VM may have so many for all of its vCPUs, of which one vCPU may have this
 * number or 32, whichever is more.  0 refuses it the feature: every operation
 * answers -%KVM_ENOSYS.  A host that does not have KVM_FEATURE_PV_PERF in
 * KVM_GET_SUPPORTED_CPUID has 0 where the VMM says nothing, and may allow more:
 * a VMM that asks for more sets the bit in its vCPUs' CPUID itself.
 *
 * %KVM_CAP_PV_PERF_RATE: how often a second they may overflow, per vCPU.  With
 * 0 the VM can count, but not sample.
 *
 * %KVM_CAP_PV_PERF_COUNTERS: how many general-purpose counters the events of a
 * vCPU may have at a time.
 *
 * %KVM_CAP_PV_PERF_RDPMC: 1 to let the guest read counters by RDPMC without an
 * exit, 0 not to.  Where the VMM says neither, the host decides.
 *
 * %KVM_CAP_PV_PERF_COUNTS: which of the hypervisor's events it may count, a bit for
 * each KVM_PERF_COUNT_*.
 *
 * KVM_CHECK_EXTENSION of /dev/kvm returns what the host allows, its module
 * parameters, and 0 where the host has not the feature; of a VM, what this VM
 * may have.  KVM_ENABLE_CAP of a VM sets it to args[0], which is no more than
 * the host allows, or no bit that it does not, before the VM has a vCPU; else
 * -EINVAL.
 */

/* Both sides build with this: no struct may change its layout unnoticed. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define KVM_PERF_ASSERT(cond)	static_assert(cond, #cond)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define KVM_PERF_ASSERT(cond)	_Static_assert(cond, #cond)
#else
#define KVM_PERF_ASSERT(cond)	struct kvm_perf_no_assert
#endif

KVM_PERF_ASSERT(sizeof(struct guest_perf_attr) == GUEST_PERF_ATTR_SIZE_VER0);
KVM_PERF_ASSERT(sizeof(struct guest_perf_event) == 64);
KVM_PERF_ASSERT(__builtin_offsetof(struct guest_perf_event, overflows) == 8);
KVM_PERF_ASSERT(__builtin_offsetof(struct guest_perf_event, sequence) == 12);
KVM_PERF_ASSERT(__builtin_offsetof(struct guest_perf_event, last_period) == 32);
KVM_PERF_ASSERT(__builtin_offsetof(struct guest_perf_event, period_left) == 40);
KVM_PERF_ASSERT(__builtin_offsetof(struct guest_perf_event, flags) == 48);
KVM_PERF_ASSERT(sizeof(struct guest_perf_event_param) == 24);
KVM_PERF_ASSERT(sizeof(struct guest_perf_op) == 24);
KVM_PERF_ASSERT(sizeof(struct guest_perf_slot) == 32);
KVM_PERF_ASSERT(sizeof(struct guest_perf_area) == GUEST_PERF_AREA_SIZE_VER2);
KVM_PERF_ASSERT(__builtin_offsetof(struct guest_perf_area, nr_branches) ==
		GUEST_PERF_AREA_SIZE_VER1);
KVM_PERF_ASSERT(__builtin_offsetof(struct guest_perf_area, slots) ==
		GUEST_PERF_AREA_SIZE_VER0);
KVM_PERF_ASSERT(__builtin_offsetof(struct guest_perf_event, offset) == 56);
KVM_PERF_ASSERT(sizeof(struct guest_perf_query) == GUEST_PERF_QUERY_SIZE_VER2);
KVM_PERF_ASSERT(__builtin_offsetof(struct guest_perf_query, branches) ==
		GUEST_PERF_QUERY_SIZE_VER1);
KVM_PERF_ASSERT(__builtin_offsetof(struct guest_perf_query, hw_config) == 32);
KVM_PERF_ASSERT(__builtin_offsetof(struct guest_perf_query, rdpmc) ==
		GUEST_PERF_QUERY_SIZE_VER0);

#undef KVM_PERF_ASSERT

#endif /* _UAPI_ASM_X86_KVM_PERF_H */
