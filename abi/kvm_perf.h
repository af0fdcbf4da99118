/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Paravirtual performance events for KVM guests: the contract between the
 * host (inside kvm.ko) and the guest (a struct pmu).
 *
 * A guest that finds KVM_FEATURE_PV_PERF in CPUID makes the hypercall
 * KVM_PERF_OP.  The first argument is an operation, KVM_PERF_OP_*; the other
 * arguments belong to the operation.  The result is 0 or a negative KVM_E*.
 *
 * The guest chooses the id of each event.  If an operation takes the address
 * of a struct, the address is guest-physical and is passed in two halves, bits
 * 31:0 and then bits 63:32, so that a 32-bit guest can pass it.  Bits 63:32 of
 * each argument must be 0.
 *
 * All structs have the same layout for 32 and 64 bits and are little-endian.
 * Structs that a guest writes start with their size, because a later version
 * may be larger.  A host accepts bytes beyond the size that it knows only if
 * they are all 0, or if the host fills the struct.  Reserved fields must be 0.
 *
 * A failed operation changes nothing, unless its description says otherwise.
 *
 * The comments that begin with two asterisks are the reference: the document of
 * the ABI includes them.
 */
#ifndef _UAPI_ASM_X86_KVM_PERF_H
#define _UAPI_ASM_X86_KVM_PERF_H

#include <linux/types.h>

#ifndef KVM_PERF_OP
/*
 * Provisional until upstream assigns them, in headers of its own.  The numbers
 * are far from the next ones that upstream will assign (hypercall 13, bit 18
 * and capability 252 in Linux 7.3).
 */

/* A bit of EAX of the CPUID leaf KVM_CPUID_FEATURES. */
#define KVM_FEATURE_PV_PERF		31

/* A hypercall, made from CPL 0. */
#define KVM_PERF_OP			256

/* Capabilities, for the VMM: see the end of this file. */
#define KVM_CAP_PV_PERF_EVENTS		1024
#define KVM_CAP_PV_PERF_RATE		1025
#define KVM_CAP_PV_PERF_COUNTERS	1026
#define KVM_CAP_PV_PERF_RDPMC		1027
#define KVM_CAP_PV_PERF_COUNTS		1028
#endif

/* The version of this contract: guest_perf_query.version. */
#define KVM_PERF_ABI_VERSION		1

/**
 * DOC: Operations of KVM_PERF_OP
 *
 * *low* and *high* are the two halves of one 64-bit argument.  Beside the
 * errors listed here, each operation can fail with the errors of every
 * operation: see `Errors`_.
 *
 * For the guest an operation is one instruction, which it may execute in any
 * context of CPL 0, with interrupts off and in an NMI handler as well.  The host
 * may sleep meanwhile.
 *
 * KVM_PERF_OP_OPEN (low, high)
 *	Creates an event, disabled, and writes zeroes to its record.  The argument
 *	is the address of a struct guest_perf_event_param.  The vCPU that makes
 *	the call is the event's home.
 *
 *	* -KVM_EINVAL: the param or the attr is not 8-byte aligned, or the record
 *	  not 64-byte aligned; guest_perf_event_param.reserved is not 0; the id is
 *	  KVM_PERF_ID_ALL; guest_perf_attr.size is below 56 or above 256; a byte
 *	  beyond the size that the host knows is not 0; the type, or a flag that is
 *	  not optional, is unknown; KVM_PERF_ATTR_FREQ comes with a sample_period
 *	  of 0 or above 2^31 - 1; sample_period is above 2^63 - 1; an event that is
 *	  not raw has a model; guest_perf_attr.reserved is not 0; the config of a raw
 *	  event has a bit that is not in guest_perf_query.raw_event_mask; there is no
 *	  such hardware or cache event, or the host's perf core answers EINVAL for it.
 *	* -KVM_EFAULT: the host cannot read the param or the attr, or cannot write
 *	  the record.
 *	* -KVM_EEXIST: an event has this id already.
 *	* -KVM_EOPNOTSUPP: config1 or config2 is not 0; the host's CPU does not
 *	  have this hardware or cache event, or the host's perf core refuses it for
 *	  a reason other than EINVAL; KVM_SET_PMU_EVENT_FILTER of the VM refuses
 *	  it; sample_period is not 0 and the host does not offer
 *	  KVM_PERF_FEATURE_SAMPLING; it is a raw event of another CPU model; it is raw
 *	  event 0x1b00 on Intel, which perf reserves for the branch records of KVM's
 *	  own virtual PMU.
 *	* -KVM_ENOSPC: the VM's limit on events, the vCPU's share of it, or memory
 *	  is used up.
 *	* -KVM_EBUSY: somebody else has the host's whole PMU.
 *
 * KVM_PERF_OP_CLOSE (id)
 *	Deletes the event, enabled or not.  When this returns, the host writes the
 *	record no more.  CLOSE does not write the final count: a guest that wants
 *	it calls DISABLE first.
 *
 *	* -KVM_ENOENT: no event has this id.
 *
 * KVM_PERF_OP_ENABLE (id)
 *	From now on the event counts on this vCPU, and only while this vCPU
 *	executes guest code.  An event that counted on another vCPU moves here; its
 *	count, its times and the rest of its period carry on.  An event that counts
 *	here already does not change.
 *
 *	* -KVM_ENOENT: no event has this id.
 *	* -KVM_EBUSY: no counter is free now, or this vCPU has as many as it may
 *	  have.
 *	* -KVM_EAGAIN: the event has a sample_period, and this vCPU's events
 *	  overflow too often just now.
 *	* -KVM_EOPNOTSUPP: KVM_SET_PMU_EVENT_FILTER of the VM does not allow the
 *	  event any more.
 *	* -KVM_ENOSPC, -KVM_EINVAL, -KVM_EOPNOTSUPP: the event had to move, and the
 *	  host could not create an event on this vCPU's thread, or this vCPU has as
 *	  many events as it may have.
 *
 * KVM_PERF_OP_DISABLE (id)
 *	The event stops counting, and the record holds the final count.  Any vCPU
 *	may make the call.
 *
 *	* -KVM_ENOENT: no event has this id.
 *	* -KVM_EFAULT: the event has stopped counting, but the record was not
 *	  written.
 *
 * KVM_PERF_OP_READ (id)
 *	The record holds the current count.  Any vCPU may make the call.
 *
 *	With KVM_PERF_ID_ALL, the host does this for every event that was enabled
 *	on this vCPU and not disabled afterwards.  The result is that of the first
 *	event that failed; the host updates the records of the others nevertheless.
 *
 *	* -KVM_ENOENT: no event has this id; with KVM_PERF_ID_ALL, no event is
 *	  enabled on this vCPU.
 *	* -KVM_EFAULT: the record was not written.
 *	* -KVM_EBUSY: the record was written, but the event had lost its counter to
 *	  the host and has missed some events.  If this vCPU is its home, the host
 *	  has tried to give it a counter again.
 *
 * KVM_PERF_OP_QUERY (low, high)
 *	Writes the host's offer.  The argument is the address of a struct
 *	guest_perf_query.  The guest sets its size; the host writes at most that
 *	many bytes.
 *
 *	* -KVM_EINVAL: the address is not 8-byte aligned, or size is below 128.
 *	* -KVM_EFAULT: the host cannot read or write the struct.  If the struct is
 *	  in two pages, the host may have written the part in the first page.
 *
 * KVM_PERF_OP_SET_PERIOD (id, low, high)
 *	The 64-bit argument is the new sample_period.  The next overflow comes
 *	after this many events.  For an event with KVM_PERF_ATTR_FREQ, overflows
 *	come at this many per second from now on.
 *
 *	* -KVM_ENOENT: no event has this id.
 *	* -KVM_EINVAL: the period is 0; the event was opened with a sample_period
 *	  of 0; the host's perf core does not allow the period; the frequency is
 *	  above the rate at which the events of a vCPU may overflow.
 *
 * KVM_PERF_OP_BATCH (low, high, number)
 *	Runs up to KVM_PERF_BATCH_MAX operations in order.  The argument is the
 *	address of an array of struct guest_perf_op and the number of its entries.
 *	Each operation has its own result; the operations behind one that fails run
 *	all the same.  The result of the hypercall is 0 if the operations were run.
 *	The host reads the array before the first operation, writes it back
 *	unchanged to see that it can, and writes it with the results after the
 *	last.
 *
 *	* -KVM_EINVAL: the array is not 8-byte aligned; the number is 0 or above
 *	  KVM_PERF_BATCH_MAX.
 *	* -KVM_EFAULT: the host cannot read or write the array, and has run no
 *	  operation.  (If the VMM removes the memory meanwhile, the operations were
 *	  run and their results are lost.)
 *
 *	Inside the array, BATCH, RESET, and an entry whose reserved field is not 0
 *	have the result -KVM_EINVAL.
 *
 * KVM_PERF_OP_RESET ()
 *	Closes every event of the VM, and removes the areas of all vCPUs after
 *	setting their epoch to 0.  The host closes 64 events at a time, and between
 *	these a signal may end KVM_RUN; the guest goes on when all are closed.
 *	If another vCPU opens an event or sets an area at the same time, these may
 *	stay, and for each such event one that was open before.  A kernel that
 *	starts calls RESET before any other operation but QUERY; a kernel that ends
 *	calls it last.
 *
 * KVM_PERF_OP_SET_LEFT (id, low, high)
 *	The record holds the current count and period_left.  Then the next overflow
 *	comes after the number of events in the 64-bit argument, and those after it
 *	at the event's period again.  0 stands for a whole period.  So several
 *	tasks of a guest can use one event in turn, each with its own rest of a
 *	period.  2^63 - 1 keeps an event that nobody uses from overflowing.  An
 *	event with a frequency may overflow earlier, because the host adapts its
 *	period, unless 2^62 or more are left.
 *
 *	* -KVM_ENOENT: no event has this id.
 *	* -KVM_EINVAL: the event was opened with a sample_period of 0, or the number
 *	  is above 2^63 - 1.
 *	* -KVM_EFAULT: the record was not written; nothing has changed.
 *
 * KVM_PERF_OP_SET_AREA (low, high)
 *	From now on the host keeps the area of this vCPU, a struct guest_perf_area,
 *	up to date at this address, and no more at the address before.  0 removes
 *	the area.  RESET removes the area and sets its epoch to 0.  A reset of the
 *	vCPU removes the area without writing to it.
 *
 *	* -KVM_EINVAL: the address is not a multiple of 4096, or
 *	  guest_perf_area.size is below 1816 or above 4096.
 *	* -KVM_EFAULT: the area is outside the guest's memory or cannot be written.
 *
 * KVM_PERF_OP_SET_COUNTS (low, high)
 *	The 64-bit argument has a bit for each ``KVM_PERF_COUNT_*``.  From now on
 *	the host adds these events of this vCPU to the counts in its area, and no
 *	others.  SET_AREA, RESET and a reset of the vCPU select none.  If the host
 *	cannot write the area, it adds the counts when it can.
 *
 *	* -KVM_EINVAL: a bit is set for which there is no event, or the vCPU has no
 *	  area.
 *	* -KVM_EOPNOTSUPP: a bit is set that guest_perf_query.counts does not have.
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

/* Not the id of an event: stands for all events of this vCPU. */
#define KVM_PERF_ID_ALL			0xffffffffU

/**
 * DOC: Errors of KVM_PERF_OP
 *
 * KVM_EPERM
 *	The call comes from a CPL other than 0 (KVM answers this before it looks at
 *	the number of the hypercall), or from a nested guest.
 *
 * KVM_ENOENT
 *	No event has this id.
 *
 * KVM_EAGAIN
 *	The events of this vCPU overflow too often just now.  The same call may
 *	succeed a tick later.
 *
 * KVM_EFAULT
 *	The address is outside the guest's memory, or the host must write to memory
 *	that is read-only.
 *
 * KVM_EBUSY
 *	No counter is free now, or somebody else has the host's whole PMU.  For
 *	READ: the event had lost its counter to the host.  The guest's perf core
 *	then multiplexes its events, as it does when hardware has too few counters.
 *
 * KVM_EEXIST
 *	An event has this id already.
 *
 * KVM_EINVAL
 *	The call is malformed: a size, a reserved field or bit, an alignment, an
 *	unknown type or flag, or bits 63:32 of an argument; or perf knows no such
 *	event.
 *
 * KVM_ENOSPC
 *	The VM's limit on events, one vCPU's share of it, or the memory of the
 *	VMM's control group is used up.  The first operation of a vCPU, whichever
 *	it is, needs memory and can fail with this error.
 *
 * KVM_EOPNOTSUPP
 *	The call is well-formed, but this host cannot or may not count the event.
 *
 * KVM_ENOSYS
 *	There is no such operation, or the VM does not have the feature.
 *
 * The host checks in this order: KVM_EPERM for the CPL; KVM_ENOSYS if the CPUID
 * of the VM lacks KVM_FEATURE_PV_PERF or the host does not offer the feature;
 * KVM_EPERM for a nested guest; KVM_EINVAL for bits 63:32 of the first and second
 * argument of the operation, used or not, and of the third if it is used; then the
 * errors of the operation.
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

/*
 * Optional flags do not change the count.  A host ignores optional flags that it does
 * not know, or whose feature it does not have.
 */
#define KVM_PERF_ATTR_OPTIONAL		0xffffffff00000000ULL
#define KVM_PERF_ATTR_NOTIFY		(1ULL << 48)
#define KVM_PERF_ATTR_RDPMC		(1ULL << 49)
#define KVM_PERF_ATTR_RDPMC_USER	(1ULL << 50)

/*
 * Optional bits of guest_perf_attr.flags that select the branches to record: those that
 * end at CPL 0 (KERNEL) and at CPL 1 to 3 (USER); of these, conditional
 * branches, near calls (relative, and indirect), near returns, near jumps
 * (indirect, and relative), and all others (FAR).  The order is that of AMD's
 * LastBranchStackSelect (APM volume 2, 13.1.8) and of Intel's MSR_LBR_SELECT
 * (SDM volume 3B).
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
 * struct guest_perf_attr - the attributes of an event
 * @size: size of this struct as the guest knows it, in bytes: 56 to 256
 * @type: ``KVM_PERF_TYPE_*``
 * @config: the event; the meaning is that of perf_event_attr.config for
 *	@type.  With KVM_PERF_TYPE_RAW only the bits of
 *	guest_perf_query.raw_event_mask may be set.
 * @config1: 0, or the host answers -KVM_EOPNOTSUPP
 * @config2: 0, or the host answers -KVM_EOPNOTSUPP
 * @sample_period: number of events from one overflow to the next, at most
 *	2^63 - 1; 0: the event only counts.  With KVM_PERF_ATTR_FREQ: the
 *	number of overflows per second to aim at, at most 2^31 - 1.
 * @flags: ``KVM_PERF_ATTR_*``
 * @model: with KVM_PERF_TYPE_RAW the guest_perf_query.model to which @config belongs,
 *	or 0 for the model of this host.  If the host has another model, it answers
 *	-KVM_EOPNOTSUPP, because there the same @config may be another event, or none.
 *	With the other types 0: these events mean the same on every host.
 *	If the host's number has KVM_PERF_MODEL_HYBRID, the guest may put a core type in
 *	place of KVM_PERF_MODEL_KIND: the event has counters on cores of this type alone
 *	(KVM_PERF_EVENT_LOST on others).  Several kinds of cores may have one type: then
 *	the host answers -KVM_EOPNOTSUPP.  Without a core type, the host knows
 *	architectural events alone, and answers -KVM_EINVAL to others.
 * @reserved: 0
 *
 * The 56 bytes are 8-byte aligned.  The flags are:
 *
 * EXCLUDE_USER, EXCLUDE_KERNEL
 *	Do not count at CPL 1 to 3; do not count at CPL 0.
 *
 * EXCLUDE_GUEST, EXCLUDE_HOST
 *	Do not count while a guest of this guest runs; do not count while none runs.
 *	Both need KVM_PERF_FEATURE_NESTED.
 *
 * FREQ
 *	@sample_period is a frequency.
 *
 * NOTIFY
 *	Send an NMI when guest_perf_event.flags gets a bit.  Optional;
 *	KVM_PERF_FEATURE_NOTIFY.
 *
 * RDPMC
 *	Write to guest_perf_event.pmc which counter has the count, for as long as
 *	the guest may read it there.  Optional; KVM_PERF_FEATURE_RDPMC.
 *
 * RDPMC_USER
 *	Send an NMI when guest_perf_event.pmc is not valid any more.  Optional;
 *	KVM_PERF_FEATURE_RDPMC_USER.
 *
 * BRANCH_*
 *	With each overflow, write to guest_perf_area.branch the branches that led
 *	to it: those of these kinds, and of the kinds that other events of the vCPU
 *	ask for.  Optional; KVM_PERF_FEATURE_BRANCHES.
 *
 * The host never counts or records its own execution.  An instruction that
 * the host completes in place of the guest belongs to the guest: an event of
 * instructions or of branches (PERF_COUNT_HW_INSTRUCTIONS,
 * PERF_COUNT_HW_BRANCH_INSTRUCTIONS, or a raw event with the same event select and
 * unit mask) counts it as if it had retired at the CPL at which the guest executed
 * it.  No event counts the hypercall KVM_PERF_OP.
 */
struct guest_perf_attr {
	__u32	size;
	__u32	type;
	__aligned_u64	config;
	__aligned_u64	config1;
	__aligned_u64	config2;
	__aligned_u64	sample_period;
	__aligned_u64	flags;
	__u32	model;
	__u32	reserved;
};

#define GUEST_PERF_ATTR_SIZE_VER0	56

/* The largest guest_perf_attr.size that a host accepts, in bytes. */
#define GUEST_PERF_ATTR_SIZE_MAX	256

/**
 * struct guest_perf_event - the record of an event, which the host writes
 * @count: number of events since OPEN; never decreases
 * @overflows: number of overflows that the guest has not handled yet.  The host
 *	adds to it and the guest exchanges it with 0, both atomically.
 * @sequence: odd while the host writes any field but @overflows, @pmc and @offset
 * @time_enabled: how long the event was enabled, in ns of the vCPU thread's run
 *	time on the host
 * @time_running: how much of @time_enabled the event had a counter, in ns
 * @last_period: number of events in the period that ended with the last
 *	overflow; the average if several overflows are delivered together
 * @period_left: number of events until the next overflow, at least 1; 0 if the
 *	event was opened with a sample_period of 0
 * @flags: ``KVM_PERF_EVENT_*``: why an event that is enabled does not count now
 * @pmc: which counter of the CPU has the count: ``KVM_PERF_PMC_*``
 * @offset: number to add to the counter that @pmc names
 *
 * The 64 bytes are 64-byte aligned in guest-physical memory, and belong to the event
 * until CLOSE.  The host writes them on OPEN, READ, DISABLE and SET_LEFT, on an
 * ENABLE that clears a bit of @flags or changes it, before it injects an NMI for the
 * event, and when KVM_RUN ends so that the VMM may save the vCPU.  The host reads
 * nothing from the record but @overflows, and that only to add to it.
 *
 * @flags has these bits:
 *
 * KVM_PERF_EVENT_LOST
 *	An event of the host with precedence has taken the counter, or the VM's event
 *	filter denies the event now.  An ENABLE may find a counter again.
 *
 * KVM_PERF_EVENT_THROTTLED
 *	The event has overflowed too often, for the VM's limit or for the host's perf
 *	core.  The host restarts it without a call of the guest.
 *
 * @pmc has these parts:
 *
 * KVM_PERF_PMC_INDEX
 *	One more than the low bits of ECX for RDPMC; 0 if the guest may not read the
 *	counter of this event now.
 *
 * KVM_PERF_PMC_FIXED
 *	Bit 30 of ECX is set: the counter is one of Intel's fixed counters.
 *
 * KVM_PERF_PMC_CHANGE
 *	A number that changes with the index, with FIXED and with @offset.
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

/* Bits of guest_perf_event.flags. */
#define KVM_PERF_EVENT_LOST		(1U << 0)
#define KVM_PERF_EVENT_THROTTLED	(1U << 1)

/* Parts of guest_perf_event.pmc. */
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
 * @id: the id of the event from now on, any number but KVM_PERF_ID_ALL
 * @reserved: 0
 *
 * The 24 bytes are 8-byte aligned.
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
 * Only the hypervisor can count these events of a vCPU.  The first twelve are its
 * exits: the host counts each exit as exactly one of them.  In brackets are the exit
 * codes of SVM; and the exit reasons of VMX.
 *
 * KVM_PERF_COUNT_EXITS_OTHER
 *	An exit that is none of the following.
 *
 * KVM_PERF_COUNT_EXITS_IO
 *	IN, OUT, INS or OUTS.  (IOIO; I/O instruction)
 *
 * KVM_PERF_COUNT_EXITS_MMIO
 *	An access to an address that is not in a memory slot of the VMM, or to the
 *	APIC.  (NPF, AVIC's exits; EPT violation, EPT misconfiguration, APIC access,
 *	APIC write)
 *
 * KVM_PERF_COUNT_EXITS_MSR
 *	RDMSR or WRMSR.  (MSR; RDMSR, WRMSR, also with an immediate)
 *
 * KVM_PERF_COUNT_EXITS_CPUID
 *	CPUID.
 *
 * KVM_PERF_COUNT_EXITS_HLT
 *	HLT.
 *
 * KVM_PERF_COUNT_EXITS_NPF
 *	An access to memory in a memory slot that the host has to provide or to see.
 *	(NPF; EPT violation)
 *
 * KVM_PERF_COUNT_EXITS_INTERRUPT
 *	An interrupt or a timer of the host; or the guest can take an interrupt now.
 *	(INTR, VINTR; external interrupt, interrupt window, preemption timer)
 *
 * KVM_PERF_COUNT_EXITS_NMI
 *	An NMI of the host; or the guest can take an NMI now.  (NMI, IRET; NMI, NMI
 *	window)
 *
 * KVM_PERF_COUNT_EXITS_HYPERCALL
 *	A hypercall.  (VMMCALL; VMCALL)
 *
 * KVM_PERF_COUNT_EXITS_NESTED
 *	Any exit of a nested guest, except for an overflow.
 *
 * KVM_PERF_COUNT_EXITS_PV_PERF
 *	An interrupt, NMI or hypercall exit that this contract causes: KVM_PERF_OP of
 *	kernel mode; the overflow of an event; the end of the guest's handler of an NMI
 *	that the host has injected for an event, with the step over its IRET (#DB of
 *	SVM); an interrupt that waits behind the NMI of a slot.
 *
 * KVM_PERF_COUNT_INJECTED_IRQS
 *	An interrupt that the guest has taken and that KVM has injected in software, not
 *	AVIC or posted interrupts.
 *
 * KVM_PERF_COUNT_PREEMPTIONS
 *	An involuntary context switch of the vCPU's thread.
 *
 * KVM_PERF_COUNT_STEAL_NS
 *	Nanoseconds that the vCPU's thread waited for a CPU, as for the steal time.
 *
 * KVM_PERF_COUNT_HALT_NS
 *	Nanoseconds that KVM had the vCPU halted, or polled for it, until it was woken.
 *	0 if the VMM handles HLT.
 *
 * KVM_PERF_COUNT_HOST_NS
 *	Nanoseconds from an exit to the next entry, in KVM or in the VMM, except STEAL_NS,
 *	HALT_NS and the time of EXITS_PV_PERF.
 *
 * PREEMPTIONS, STEAL_NS and HOST_NS tell how busy the host is.  The host offers them
 * only if the CPUID of the vCPU has KVM_FEATURE_STEAL_TIME (QEMU: kvm-steal-time), so a
 * VMM that withholds the steal time withholds these as well.
 *
 * The sum of the first twelve is all exits of a vCPU.  The sum of the first ten is all
 * exits that neither a nested guest nor this contract causes.
 *
 * The host counts an exit for user mode if the CPU was at CPL 3 at the exit, else for
 * kernel mode.  The other five belong to the mode of the exit before them.  Events that a
 * nested guest causes belong to the mode of the guest's own last exit, with which the
 * guest started the nested guest.
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

/* How many events of the hypervisor there are; for how many the area has room. */
#define KVM_PERF_NR_COUNTS		17
#define KVM_PERF_MAX_COUNTS		32

/* Number of entries of guest_perf_area.slot, and of guest_perf_area.branch. */
#define KVM_PERF_NR_SLOTS		16
#define KVM_PERF_MAX_BRANCHES		32

/**
 * struct guest_perf_slot - a sampling event of the hypervisor
 * @counts: in: which events it counts, a bit for each ``KVM_PERF_COUNT_*``
 * @left: in, out: number of events until the overflow, as a signed number; goes on
 *	below 0
 * @ip: out: the address of the instruction with which the guest, not a nested guest,
 *	exited last when the slot overflowed.  If the exit comes after the instruction
 *	(VMX: APIC write; SVM: AVIC's incomplete IPI), it is the address of the next.
 * @exclude: in: KVM_PERF_ATTR_EXCLUDE_USER and KVM_PERF_ATTR_EXCLUDE_KERNEL; the host
 *	ignores the other bits
 * @user: out: 1 if that exit was at CPL 3, else 0
 *
 * The 32 bytes are part of struct guest_perf_area.
 *
 * The host decrements @left for each event that @counts selects.  The slot overflows when
 * @left becomes 0 or less.  The host then writes @ip and @user, goes on counting @left
 * down, and injects an NMI before the guest executes anything else, ahead of any
 * interrupt.  The guest sets @left anew; until then the slot does not overflow again.
 * Several overflows before the NMI are one.
 *
 * The NMI is late
 *
 * * if the vCPU's overflows come more often than the host allows,
 * * if the guest handles an NMI: until its IRET,
 * * if the exit was a HLT: until something else wakes the vCPU,
 * * if the vCPU enters a nested guest: until that exits to the guest.
 *
 * A late NMI comes only if @left of a slot in use is still 0 or less.  SET_COUNTS does not
 * change a slot.  SET_AREA, and SET_COUNTS of 0, discard an NMI that is due.
 */
struct guest_perf_slot {
	__aligned_u64	counts;
	__aligned_u64	left;
	__aligned_u64	ip;
	__u32	exclude;
	__u32	user;
};

/**
 * struct guest_perf_branch - a branch that the guest has taken
 * @from: the address of the branch instruction.  If the CPU executes two instructions as
 *	one, it may be the address of the first.
 * @to: the address of the branch target
 * @info: ``KVM_PERF_BRANCH_*``: MISPREDICTED, and in SPEC the CPU's speculation,
 *	``PERF_BR_SPEC_*`` of linux/perf_event.h
 *
 * The 24 bytes are part of struct guest_perf_area.
 */
struct guest_perf_branch {
	__aligned_u64	from;
	__aligned_u64	to;
	__aligned_u64	info;
};

/* Parts of guest_perf_branch.info. */
#define KVM_PERF_BRANCH_MISPREDICTED	0x0000000000000001ULL
#define KVM_PERF_BRANCH_SPEC		0x0000000000000006ULL
#define KVM_PERF_BRANCH_SPEC_SHIFT	1

/**
 * struct guest_perf_area - the area of a vCPU, which the host keeps up to date
 * @size: in: size of this struct as the guest knows it, in bytes, at least
 *	GUEST_PERF_AREA_SIZE_VER0; out: how many of them the host fills
 * @epoch: an odd number for as long as this host has the events that were opened on this
 *	vCPU since SET_AREA.  Another number otherwise: the guest runs on another host,
 *	was restored from a snapshot, or has called RESET.  A reset of the vCPU does not
 *	write the epoch.
 * @slots: in: which entries of @slot are in use, a bit each
 * @reserved: 0
 * @count: in, out: the events of SET_COUNTS, by ``KVM_PERF_COUNT_*``: [0] of kernel mode,
 *	[1] of user mode.  The host only adds to them.
 * @slot: sampling events of the hypervisor
 * @nr_branches: out: how many branches led to the overflow that the host has delivered
 *	last for an event with KVM_PERF_ATTR_BRANCHES; the guest sets it to 0 when it has
 *	read them
 * @reserved2: 0
 * @branch: out: these branches, the last one first: branches of this vCPU, and of no
 *	nested guest, since its last entry
 *
 * At a 4096-byte aligned guest-physical address, not 0.  The host writes the area on
 * SET_AREA, before it enters the guest if something is new, and before the VMM can save the
 * vCPU.  Memory that the VMM saves has an even @epoch, another number each time.  If the
 * host finds another number when the VMM runs the vCPU again, the VMM has restored the
 * guest: the host closes the events of the vCPU and ends its area.  @slots to @slot need
 * KVM_PERF_FEATURE_COUNTS, @nr_branches and @branch need KVM_PERF_FEATURE_BRANCHES.  The
 * host reads and writes the area only while this vCPU is not in the guest.
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

#define GUEST_PERF_AREA_SIZE_VER0	1816
#define GUEST_PERF_AREA_ALIGN		4096

/*
 * A vCPU with an area sets the LVTPC register of its local APIC to this value: an
 * NMI, whose vector the APIC ignores.  VMMs save and restore that register.  If a vCPU
 * has this value and no area when it first runs on a host, another host has given it
 * the value.  The host injects an NMI, so that the guest sees that its events are gone
 * before it executes anything else.
 */
#define KVM_PERF_LVTPC			0x4a5

/**
 * struct guest_perf_op - an operation of a KVM_PERF_OP_BATCH
 * @op: ``KVM_PERF_OP_*``, except KVM_PERF_OP_BATCH and KVM_PERF_OP_RESET
 * @result: out: the result that the operation would have as a hypercall
 * @id: the id of the operation; 0 if it takes none
 * @reserved: 0
 * @arg: the address of the operation, or its other 64-bit argument; 0 if it takes
 *	neither.  Out: the count of the event, if READ of one event, DISABLE or SET_LEFT
 *	has brought its record up to date; unchanged otherwise.
 *
 * The 24 bytes are 8-byte aligned.
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

/* Values of guest_perf_query.rdpmc. */
#define KVM_PERF_RDPMC_UNKNOWN		0
#define KVM_PERF_RDPMC_ALLOWED		1
#define KVM_PERF_RDPMC_HOST		2
#define KVM_PERF_RDPMC_SHARED		3
#define KVM_PERF_RDPMC_NESTED		4
#define KVM_PERF_RDPMC_VMM		5
#define KVM_PERF_RDPMC_PMU		6

/*
 * Parts of guest_perf_query.model: model and family as CPUID tells them, with their
 * extensions, the vendor, and whether the host's CPUs are of several kinds.
 */
#define KVM_PERF_MODEL_MODEL		0x000000ffU
#define KVM_PERF_MODEL_FAMILY		0x0000ff00U
#define KVM_PERF_MODEL_FAMILY_SHIFT	8
#define KVM_PERF_MODEL_VENDOR		0x00ff0000U
#define KVM_PERF_MODEL_INTEL		0x00010000U
#define KVM_PERF_MODEL_AMD		0x00020000U
#define KVM_PERF_MODEL_HYGON		0x00030000U
#define KVM_PERF_MODEL_HYBRID		0x01000000U

/*
 * The part of guest_perf_attr.model that names a kind of core: its core type (Intel SDM
 * volume 2A, CPUID, leaf 1AH, EAX bits 31-24).
 */
#define KVM_PERF_MODEL_KIND		0xff000000U
#define KVM_PERF_MODEL_KIND_SHIFT	24

/* Number of entries of guest_perf_query.hw_config. */
#define KVM_PERF_NR_HW_EVENTS		10

/* Number of bits of guest_perf_query.fixed_counters. */
#define KVM_PERF_NR_FIXED_COUNTERS	3

/**
 * struct guest_perf_query - the result of KVM_PERF_OP_QUERY
 * @size: in: size of this struct as the guest knows it, in bytes, at least
 *	GUEST_PERF_QUERY_SIZE_VER0; out: how many of them the host has filled
 * @version: KVM_PERF_ABI_VERSION of the host
 * @features: ``KVM_PERF_FEATURE_*``
 * @max_events: number of events that this VM may have open; grows with the number of
 *	vCPUs.  One vCPU may have 32 of these, or its share if that is more.
 * @nr_counters: number of general-purpose counters that the events of a vCPU may have at
 *	a time.  Other users on the host may take some of them.
 * @fixed_counters: which of Intel's fixed counters there are beside these, a bit each:
 *	instructions (raw config 0xc0), cycles (0x3c), reference cycles (0x300).  (Intel
 *	SDM volume 3B, 20.2.2)
 * @raw_event_mask: the bits that guest_perf_attr.config may have with
 *	KVM_PERF_TYPE_RAW
 * @hw_config: the raw config of each ``PERF_COUNT_HW_*`` event; 0 if the host does not
 *	have the event
 * @rdpmc: ``KVM_PERF_RDPMC_*``: whether the guest may read counters by RDPMC
 * @counts: which events of the hypervisor the VM may count, a bit for each
 *	``KVM_PERF_COUNT_*``
 * @branches: how many branches the CPU records, at most KVM_PERF_MAX_BRANCHES; 0 without
 *	KVM_PERF_FEATURE_BRANCHES
 * @model: the CPU model of raw events: ``KVM_PERF_MODEL_*``.  Hosts with the same number
 *	have the same raw events.  With KVM_PERF_MODEL_HYBRID the host has several kinds
 *	of cores, and @nr_counters and @fixed_counters are of the kind with the fewest.
 *
 * The struct is 8-byte aligned.  Everything but @size is output.  A guest asks again
 * whenever it has set an area, because another host may offer something else.
 *
 * @rdpmc is one of these:
 *
 * KVM_PERF_RDPMC_UNKNOWN
 *	The host does not say.
 *
 * KVM_PERF_RDPMC_ALLOWED
 *	The guest may read counters by RDPMC.
 *
 * KVM_PERF_RDPMC_HOST
 *	The host does not allow it.
 *
 * KVM_PERF_RDPMC_SHARED
 *	The host allows it only if RDPMC shows no counters but those of the CPU, and on
 *	this host it shows others.
 *
 * KVM_PERF_RDPMC_NESTED
 *	The host is a guest itself and counts by this contract.
 *
 * KVM_PERF_RDPMC_VMM
 *	The VMM has not asked for it.
 *
 * KVM_PERF_RDPMC_PMU
 *	RDPMC belongs to the virtual PMU of the VM.
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
	__u32	model;
};

#define GUEST_PERF_QUERY_SIZE_VER0	128

/**
 * DOC: For the VMM
 *
 * KVM_CAP_PV_PERF_EVENTS
 *	How many events may be open per vCPU.  The VM may have that number times its vCPUs;
 *	one vCPU may have this number or 32, whichever is more.  0 refuses the feature to the
 *	VM: every operation answers -KVM_ENOSYS.  If KVM_GET_SUPPORTED_CPUID does not have
 *	KVM_FEATURE_PV_PERF, the default is 0.  The VMM may set more, and then sets the bit
 *	in its vCPUs' CPUID itself.
 *
 * KVM_CAP_PV_PERF_RATE
 *	How often the events may overflow, per second and vCPU.  With 0 the VM can count, but
 *	not sample.
 *
 * KVM_CAP_PV_PERF_COUNTERS
 *	How many general-purpose counters the events of a vCPU may have at a time.
 *
 * KVM_CAP_PV_PERF_RDPMC
 *	1: the guest may read counters by RDPMC without an exit; 0: it may not.  If the VMM
 *	says neither, the host decides.
 *
 * KVM_CAP_PV_PERF_COUNTS
 *	Which events of the hypervisor the guest may count, a bit for each
 *	``KVM_PERF_COUNT_*``.
 *
 * KVM_CHECK_EXTENSION of /dev/kvm returns the host's limits, its module parameters, and
 * 0 if the host does not have the feature.  KVM_CHECK_EXTENSION of a VM returns the VM's
 * limits.  KVM_ENABLE_CAP of a VM sets the limit to args[0].  It fails with EINVAL if
 * args[0] is more than the host allows or has a bit that the host does not have, if another
 * argument is not 0, or if the VM has a vCPU already.
 */

/* Both sides compile this, so no struct can change its layout unnoticed. */
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
KVM_PERF_ASSERT(sizeof(struct guest_perf_area) == GUEST_PERF_AREA_SIZE_VER0);
KVM_PERF_ASSERT(__builtin_offsetof(struct guest_perf_area, slots) == 8);
KVM_PERF_ASSERT(__builtin_offsetof(struct guest_perf_area, nr_branches) == 1040);
KVM_PERF_ASSERT(__builtin_offsetof(struct guest_perf_event, offset) == 56);
KVM_PERF_ASSERT(sizeof(struct guest_perf_query) == GUEST_PERF_QUERY_SIZE_VER0);
KVM_PERF_ASSERT(__builtin_offsetof(struct guest_perf_query, hw_config) == 32);
KVM_PERF_ASSERT(__builtin_offsetof(struct guest_perf_query, rdpmc) == 112);

#undef KVM_PERF_ASSERT

#endif /* _UAPI_ASM_X86_KVM_PERF_H */
