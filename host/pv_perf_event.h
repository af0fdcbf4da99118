/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side: the events of a VM.
 */
#ifndef __KVM_X86_PV_PERF_EVENT_H
#define __KVM_X86_PV_PERF_EVENT_H

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/kernel.h>
#include <linux/kvm_host.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>

#include "kvm_perf.h"
#include "pv_perf_counter.h"

enum pv_perf_logged {
	PV_PERF_LOGGED_LIMIT,
	PV_PERF_LOGGED_FULL,
	PV_PERF_LOGGED_DIRTY_RING,
	PV_PERF_LOGGED_TDX,
};

/**
 * struct pv_perf_freq - how often an event is to overflow
 * @hz: per second; 0: the event has a period, or this host's own hypervisor adapts it
 * @overflow_time: time of the last overflow, by local_clock(); 0: too long ago
 * @overflow_count: its count at @overflow_time
 * @tick: tick of VM entry's last look
 * @time: its time running when VM entry adapted its period; while the event is
 *	PV_PERF_UNUSED, the difference to that
 * @count: the same for its count
 *
 * The overflow callback changes @overflow_time and @overflow_count.  @hz changes with
 * the home's lock held, @tick, @time and @count with its @enter_lock.
 */
struct pv_perf_freq {
	u32 hz;
	u64 overflow_time;
	u64 overflow_count;
	unsigned long tick;
	u64 time;
	u64 count;
};

/**
 * struct pv_perf_pmc_layout - the counters that each CPU of this host has
 * @general: number of general-purpose counters
 * @fixed: number of fixed counters
 * @metrics: the CPU has PERF_METRICS, which RDPMC reads, too
 * @known: each counter is there and perf's alone, so that all can be read and cleared
 * @writable: a counter can be written, all of its 48 bits
 * @watchdog: guests may see the counter of the host's NMI watchdog
 */
struct pv_perf_pmc_layout {
	unsigned int general;
	unsigned int fixed;
	bool metrics;
	bool known;
	bool writable;
	bool watchdog;
};

/* Kinds of cores that a host may have. */
#define PV_PERF_MAX_KINDS	4

/**
 * struct pv_perf_kind - CPUs of this host that have the same counters and events
 * @pmcs: the counters that each of these CPUs has
 * @pmu: perf's PMU of these CPUs; NULL if all CPUs of the host have the same PMU
 * @core: their core type, as CPUID tells it; 0 if all CPUs have the same PMU
 */
struct pv_perf_kind {
	struct pv_perf_pmc_layout pmcs;
	struct pmu *pmu;
	u8 core;
};

/**
 * struct pv_perf_host - capabilities of this host, computed once, as KVM is loaded
 * @wanted: guests may have events
 * @pmu: what guests may count with the PMU of this host's CPUs
 * @own: the host has a PMU that can count guest execution alone.  If not, this host's own
 *	hypervisor may offer what guests may count
 * @writable: a counter of any CPU can be written, all of its 48 bits
 * @rdpmc: does the host let guests read counters: KVM_PERF_RDPMC_*
 */
struct pv_perf_host {
	bool wanted;
	struct guest_perf_query pmu;
	bool own;
	bool writable;
	u32 rdpmc;
};

/**
 * struct pv_perf_vm - the events of a VM
 * @events: by id.  Looked up under RCU; an entry is reserved (NULL) while the
 *	event is being opened.
 * @nr_events: number of events that are open or being opened
 * @logged: messages that are in the log for this VM, bits of enum pv_perf_logged
 * @max_events: open events that the VMM allows, per vCPU
 * @max_rate: overflows per second that the VMM allows, per vCPU
 * @max_counters: general-purpose counters that the VMM allows, per vCPU
 * @rdpmc: the VMM lets the guest read counters by RDPMC, 0 or 1
 * @counts: events of the hypervisor that the VMM lets the guest count, a bit for each
 *	KVM_PERF_COUNT_*
 * @available: the host can serve the VM
 * @pmu: what the VM can count
 * @holds_pmu: the VM is one of pv_perf_holders, see pv_perf_hold_pmu()
 */
struct pv_perf_vm {
	struct xarray events;
	atomic_t nr_events;
	unsigned long logged;
	unsigned int max_events;
	unsigned int max_rate;
	unsigned int max_counters;
	unsigned int rdpmc;
	unsigned int counts;
	bool available;
	struct guest_perf_query pmu;
	bool holds_pmu;
};

/**
 * struct pv_perf_area - the area of a vCPU
 * @where: the guest's struct guest_perf_area
 * @epoch: the number that stands for this host's events of the vCPU; 0 if there is no
 *	area
 * @shown: @epoch is in the guest's memory
 * @hidden: the number that the guest's memory had when @epoch was hidden last
 */
struct pv_perf_area {
	struct gfn_to_hva_cache where;
	u32 epoch;
	bool shown;
	u32 hidden;
};

/**
 * struct pv_perf_pmcs - counters of a CPU that events have
 * @used: the counters, by perf's numbers; fixed ones from INTEL_PMC_IDX_FIXED on
 * @nr_events: number of these events
 * @pmu: their PMU
 */
struct pv_perf_pmcs {
	u64 used;
	unsigned int nr_events;
	struct pmu *pmu;
};

/**
 * struct pv_perf_branch_raw - a branch as the MSRs of the CPU have it
 * @from: its address, and flags
 * @to: the address that it went to, and flags
 */
struct pv_perf_branch_raw {
	u64 from;
	u64 to;
};

/**
 * struct pv_perf_branches - branches of the guest up to an NMI of the host
 * @nr: number of records saved at the exit for the NMI; 0 after the next entry
 * @raw: the records, the last branch first
 */
struct pv_perf_branches {
	unsigned int nr;
	struct pv_perf_branch_raw raw[KVM_PERF_MAX_BRANCHES];
};

/* Kinds of instructions that KVM completes for the guest. */
enum pv_perf_retired {
	PV_PERF_INSTRUCTION	= BIT(0),
	PV_PERF_BRANCH		= BIT(1),
};

/* Work of VM entry and exit. */
enum pv_perf_at_entry {
	PV_PERF_AT_ENTRY_EVENTS	= BIT(0),
	PV_PERF_AT_ENTRY_MODES	= BIT(1),
	PV_PERF_AT_ENTRY_NMI	= BIT(2),
	PV_PERF_AT_ENTRY_RDPMC	= BIT(3),
	PV_PERF_AT_ENTRY_COUNTS	= BIT(4),
	PV_PERF_AT_ENTRY_FREQ	= BIT(5),
	PV_PERF_AT_ENTRY_BRANCHES = BIT(6),
	PV_PERF_AT_ENTRY_KIND	= BIT(7),
	/* Work before all other work on events, unless the host has run nothing. */
	PV_PERF_AT_ENTRY_FIRST	= PV_PERF_AT_ENTRY_FREQ | PV_PERF_AT_ENTRY_KIND,
	/* Work also if the host has run nothing since the exit. */
	PV_PERF_AT_REENTRY	= PV_PERF_AT_ENTRY_MODES | PV_PERF_AT_ENTRY_NMI |
				  PV_PERF_AT_ENTRY_RDPMC | PV_PERF_AT_ENTRY_BRANCHES,
};

/**
 * struct pv_perf_host_counts - a vCPU's counts of KVM and the scheduler
 * @halt_ns: ns that it was halted
 * @thread: start time of the thread that runs the vCPU; the next two are this thread's
 * @preemptions: how often the thread lost its CPU
 * @steal_ns: ns that the thread waited for a CPU
 */
struct pv_perf_host_counts {
	u64 halt_ns;
	u64 thread;
	unsigned long preemptions;
	u64 steal_ns;
};

/**
 * struct pv_perf_counts - events of the hypervisor, of a vCPU
 * @wanted: events that the guest wants counted, a bit for each KVM_PERF_COUNT_*
 * @exited: the vCPU has left the guest, and the exit is not counted yet
 * @exit: the reason of the exit, KVM_PERF_COUNT_EXITS_*
 * @irq: the vCPU has entered the guest with an interrupt
 * @nested: the exit was a nested guest's
 * @user: the last exit of the guest itself was at CPL 3
 * @ip: address of the last instruction that exited, in kernel mode and in user mode
 * @overflowed: an event of the guest has overflowed, which is why there was an NMI.
 *	Set in NMI context.
 * @nmi_is_ours: the guest has got an NMI of the pair, and its handler has not ended.
 *	Set in interrupts, too.
 * @nmi_owed: a slot has overflowed, and the guest has not been told
 * @irq_waits: KVM had an interrupt for the guest when an NMI was injected, and the
 *	guest has not got it yet
 * @since: time of the last exit or of the last look, by local_clock()
 * @host: the counts at the last look
 * @pending: counts that are not yet in the area, of kernel mode and of user mode
 * @any: a bit for each KVM_PERF_COUNT_* with @pending counts
 */
struct pv_perf_counts {
	u32 wanted;
	bool exited;
	u8 exit;
	bool irq;
	bool nested;
	bool user;
	u64 ip[2];
	bool overflowed;
	bool nmi_is_ours;
	bool nmi_owed;
	bool irq_waits;
	u64 since;
	struct pv_perf_host_counts host;
	u64 pending[KVM_PERF_NR_COUNTS][2];
	u32 any;
};

/**
 * struct pv_perf_rate - how often a vCPU has done something
 * @time: when the vCPU's work so far is due at the allowed rate, in ns of
 *	CLOCK_MONOTONIC; idle time since @clock is not taken into account yet
 * @clock: last reading of CLOCK_MONOTONIC
 */
struct pv_perf_rate {
	s64 time;
	s64 clock;
};

/**
 * struct pv_perf_vcpu - the events whose home is this vCPU
 * @refs: one for the vCPU, one for a thread that parks its events
 * @thread: the thread on which its events may count, if it has any: the thread that
 *	ran the vCPU last, unless that has run another vCPU since
 * @thread_node: in the table by @thread.  The table's lock protects both
 * @lock: protects @events and the state of each event in it.  Operations may
 *	sleep, so it is a mutex.  Taken outside of any lock of perf or mm.
 * @enter_lock: also held to change @events, or fields of an event that VM entry
 *	changes.  IRQs off; the holder waits for nothing, and only tries @lock
 * @at_entry: the work of VM entry and exit, bits of enum pv_perf_at_entry.
 *	Only the vCPU itself adds to it, and takes off.
 * @events: list of struct pv_perf_event
 * @nr_events: length of @events; only the vCPU itself adds to it
 * @vcpu: the vCPU itself
 * @kind: the kind of the CPU that ran it last, for which its events have their backing
 *	events; changes on the vCPU's own thread with @lock and @enter_lock held
 * @irq_work: has the vCPU deliver overflows that it had while not in the guest
 * @rate_timer: has the vCPU look at its limited events
 * @overflow_rate: rate of its overflows
 * @open_rate: rate of the events that it opens, moves and changes
 * @delivered: number of overflows that the guest has been told of here
 * @limited: how often an event was stopped because of the rate
 * @to_close: how many events of the VM are still to be closed for the vCPU's RESET; for
 *	its own thread
 * @filter_changed: the VM's event filter may deny events that count here
 * @in_nmi: the guest handles an NMI, and exits when the handler ends; changes with
 *	@enter_lock held
 * @any_stopped: some event is PV_PERF_STOPPED, or was at VM entry's last look; perf's
 *	callback sets it, too, in NMI context
 * @pmcs: the counters of its events, and of the host's NMI watchdog, as VM entry has
 *	looked at them last; used if the guest may execute RDPMC
 * @hide_pmc: before the guest runs on, tell it to read no counter; for the vCPU's own
 *	thread, like @pmc_stuck and @pmc_changed
 * @pmc_open: the guest may execute RDPMC, and its records are right, as long as all
 *	events are as they were seen; the vCPU's own thread sets it, others clear it with
 *	@lock held
 * @pmc_stuck: some event's record cannot be written
 * @pmc_changed: a counter is not where the guest was told before, and the guest wants
 *	an NMI for that
 * @counts: for the vCPU's own thread
 * @branches: for the vCPU's own thread
 * @skip_retired: for the vCPU's own thread; the next instruction that KVM completes is
 *	a KVM_PERF_OP
 * @emulated_cpl: for the vCPU's own thread; the CPL before the instruction that KVM's
 *	emulator executes
 * @area: protected by @lock
 * @restored: the guest may have had an area before the VMM set the vCPU's state, and
 *	has not been told that it is gone; for the vCPU's own thread
 * @batch: the operations of a KVM_PERF_OP_BATCH, which only the vCPU's thread
 *	runs
 *
 * Only the thread that is in KVM_RUN of the vCPU writes @overflow_rate to @limited, so
 * they need no lock: debugfs reads the last two at any time.
 */
struct pv_perf_vcpu {
	refcount_t refs;
	struct task_struct *thread;
	struct hlist_node thread_node;
	struct mutex lock;
	raw_spinlock_t enter_lock;
	unsigned int at_entry;
	struct list_head events;
	unsigned int nr_events;
	struct kvm_vcpu *vcpu;
	const struct pv_perf_kind *kind;
	struct irq_work irq_work;
	struct hrtimer rate_timer;
	struct pv_perf_rate overflow_rate;
	struct pv_perf_rate open_rate;
	u64 delivered;
	u64 limited;
	unsigned int to_close;
	bool filter_changed;
	bool in_nmi;
	bool any_stopped;
	struct pv_perf_pmcs pmcs;
	bool hide_pmc;
	bool pmc_open;
	bool pmc_stuck;
	bool pmc_changed;
	struct pv_perf_counts counts;
	struct pv_perf_branches branches;
	bool skip_retired;
	u8 emulated_cpl;
	struct pv_perf_area area;
	bool restored;
	struct guest_perf_op batch[KVM_PERF_BATCH_MAX];
};

/**
 * struct pv_perf_pmc - how a guest reads an event's count by RDPMC
 * @index: as in guest_perf_event.pmc, without its number of changes; 0: not at all
 * @offset: number to add to the result of RDPMC
 */
struct pv_perf_pmc {
	u32 index;
	u64 offset;
};

/* Not a counter: the event did not count on this CPU, or VM entry has not looked. */
#define PV_PERF_PMC_NONE	(-1)

/**
 * struct pv_perf_pmc_seen - an event's counter at VM entry's last look
 * @idx: perf's number of the counter, or PV_PERF_PMC_NONE
 * @tag: usually differs if perf has assigned the counter anew
 * @delta: perf's count less its prev_count
 */
struct pv_perf_pmc_seen {
	int idx;
	u64 tag;
	u64 delta;
};

/**
 * enum pv_perf_why - why an event does not count, though it is enabled
 * @PV_PERF_LOST: perf has no counter for it, or the VM's event filter denies it
 * @PV_PERF_LIMITED: its vCPU has overflowed too often
 * @PV_PERF_PARKED: its thread runs another vCPU
 * @PV_PERF_STOPPED: pv_perf_event.stopped_at is its count and position
 * @PV_PERF_UNUSED: the guest keeps it for later: its count says nothing of a frequency
 *
 * An event counts if it is enabled and none of the first four is set::
 *
 *	  OPEN                  ENABLE
 *	------> disabled  ------------------>  enabled, no why:   <----+
 *	<------           <------------------  counts                  | the last why
 *	  CLOSE      ^          DISABLE          |                     | is cleared
 *	             |                           v                     |
 *	             +-------------------------  enabled, why:   ------+
 *	                        DISABLE          does not count
 *
 *	why       set by                            cleared by
 *	LOST      delivery, READ, ENABLE: perf has  ENABLE; READ on the home's
 *	          put the backing event in error;   thread
 *	          delivery, KVM_RUN: no counter
 *	          after LIMITED, PARKED; filter
 *	LIMITED   delivery: rate exceeded           delivery, for the rate timer;
 *	                                            filter
 *	PARKED    KVM_RUN of another vCPU           KVM_RUN of the home
 *	STOPPED   entry: what runs next is not      entry: what runs next is
 *	          to be counted; perf's callback:   counted, and perf does not
 *	          perf has throttled it             throttle the event; delivery
 *	                                            of LOST
 *	UNUSED    SET_LEFT of 2^62 or more          SET_LEFT of less
 *
 * If VM entry finds an event in error, it only requests the delivery.
 *
 * DISABLE, and a move to another vCPU, clear all but UNUSED.  The first two are also
 * flags of the record; pv_perf_event.told has those that were written last.  If perf
 * throttles an event, the flag for that is read from the backing event.
 *
 * The home's lock is held to change LOST, LIMITED, PARKED and UNUSED; its enter_lock to
 * change STOPPED and UNUSED, while the event is in the home's list.  perf's callback sets
 * STOPPED without a lock, in NMI context, after stopped_at.  So all changes are atomic.
 */
enum pv_perf_why {
	PV_PERF_LOST	= KVM_PERF_EVENT_LOST,
	PV_PERF_LIMITED	= KVM_PERF_EVENT_THROTTLED,
	PV_PERF_PARKED	= BIT(2),
	PV_PERF_STOPPED	= BIT(3),
	PV_PERF_UNUSED	= BIT(4),
};

/**
 * struct pv_perf_event - an event that a guest has opened
 * @id: the guest's name for it
 * @refs: one for being open, one for each operation under way that may sleep and so
 *	cannot stay in the RCU section in which it found the event
 * @rcu: defers freeing until look-ups that have seen it are over
 * @overflows: number of overflows that the guest has not been told of; the
 *	overflow callback adds to it, in NMI context
 * @passed: sum of their periods
 * @home: the vCPU it was opened or last enabled on.  Changes only with the
 *	locks of both the old and the new home held.
 * @attr: attributes for creating a backing event
 * @select: the event select of its backing event at creation, for the VM's event
 *	filter.  The host's perf chooses the event select of a generic event, and later
 *	another of the same kind if a register is taken (intel_fixup_er())
 * @retired: instructions that it counts if KVM completes them: enum pv_perf_retired
 * @flags: the guest's KVM_PERF_ATTR_*, without those that it may not have
 * @enabled: between an ENABLE that succeeded and DISABLE
 * @why: why it does not count, though it is enabled: bits of enum pv_perf_why
 * @told: the flags that the record has
 * @owed: flags of @told that another thread has written, and for which the vCPU is
 *	still to get an NMI: see pv_perf_note_told()
 * @stopped_at: position at which @backing was PV_PERF_STOPPED, and goes on
 * @node: in the home's list
 * @freq: how often it is to overflow
 * @backing: the host's event, on the home's thread; NULL once closed
 * @pmc: the record's pmc and offset; changes with the home's lock held
 * @pmc_seen: the counter as VM entry of the home saw it while @pmc was right
 * @pmc_stuck: the record may say something else than @pmc, and could not be written
 * @pmc_changes: how often @pmc has changed
 * @record: place of the guest's struct guest_perf_event
 * @sequence: last value of the record's sequence
 * @last_period: last value of the record's last_period
 * @past_count: count of earlier backing events
 * @past_enabled: their time enabled
 * @past_running: their time running
 * @kept: on a hybrid host, disabled backing events for other kinds of cores, on the
 *	thread of @backing
 * @absent: kinds of cores that do not have the event, a bit each
 *
 * @charge: unused memory.  perf allocates its events without charging them to a memory
 *	control group (perf_event_alloc(): its cache is no SLAB_ACCOUNT, and is used
 *	with GFP_KERNEL).  A confined VMM could get around its limit by events of
 *	vCPUs, which are cheap to make.  This is as large as perf's events, of each
 *	kind of core, and is charged in their place.
 *
 * The home's lock protects the fields from @home on, but for @stopped_at, @pmc_seen and a
 * part of @freq, which its enter_lock protects.  VM entry looks at @enabled and @why
 * without the home's lock: pv_perf_is_newly_lost().
 */
struct pv_perf_event {
	u32 id;
	refcount_t refs;
	struct rcu_head rcu;
	atomic_t overflows;
	atomic64_t passed;
	struct pv_perf_vcpu *home;
	struct perf_event_attr attr;
	u64 select;
	u8 retired;
	bool enabled;
	atomic_t why;
	u32 told;
	u32 owed;
	u64 flags;
	struct pv_perf_position stopped_at;
	struct list_head node;
	struct pv_perf_freq freq;
	struct perf_event *backing;
	struct pv_perf_pmc pmc;
	struct pv_perf_pmc_seen pmc_seen;
	bool pmc_stuck;
	u16 pmc_changes;
	struct gfn_to_hva_cache record;
	u32 sequence;
	u64 last_period;
	u64 past_count;
	u64 past_enabled;
	u64 past_running;
	struct perf_event *kept[PV_PERF_MAX_KINDS];
	u8 absent;
	u8 charge[];
};

/**
 * struct pv_perf_reading - count and times of an event
 * @count: events
 * @enabled: ns that it was enabled
 * @running: ns of these that a counter counted it
 * @period_left: events to the next overflow, 0 without a period
 * @flags: KVM_PERF_EVENT_*: why it does not count, though enabled
 */
struct pv_perf_reading {
	u64 count;
	u64 enabled;
	u64 running;
	u64 period_left;
	u32 flags;
};

/**
 * struct pv_perf_features - the features' functions for the core's events
 * @open: the event is being opened, and has no backing event yet: add those of the
 *	guest's @flags, and a frequency, that it may have
 * @end_rdpmc: the guest can read the event's counter nowhere any more; it gets an NMI
 *	for that if @nmi.  May sleep
 * @set_freq: let the event overflow @hz times per second.  May sleep; 0 or -EINVAL
 * @set_left: the guest sets the rest of the period of an event with a frequency
 * @overflow: an event with a frequency overflows; in NMI context
 *
 * pv_perf_init() sets them.  The core works without any.  The event's home is locked
 * for all but @open and @overflow.
 */
struct pv_perf_features {
	void (*open)(struct pv_perf_event *event, u64 flags);
	void (*end_rdpmc)(struct pv_perf_event *event, bool nmi);
	int (*set_freq)(struct pv_perf_event *event, u64 hz);
	void (*set_left)(struct pv_perf_event *event,
			 const struct pv_perf_reading *reading, u64 left);
	void (*overflow)(struct pv_perf_event *event, struct perf_event *backing);
};

extern struct pv_perf_features pv_perf_features;

static inline u32 pv_perf_why(const struct pv_perf_event *event)
{
	return atomic_read(&event->why);
}

static inline void pv_perf_set_why(struct pv_perf_event *event, u32 why)
{
	atomic_or(why, &event->why);
}

static inline void pv_perf_clear_why(struct pv_perf_event *event, u32 why)
{
	atomic_andnot(why, &event->why);
}

static inline bool pv_perf_is_stopped(const struct pv_perf_event *event)
{
	return pv_perf_why(event) & PV_PERF_STOPPED;
}

static inline bool pv_perf_has_rdpmc(const struct pv_perf_event *event)
{
	return event->flags & KVM_PERF_ATTR_RDPMC;
}

static inline bool pv_perf_has_branches(const struct pv_perf_event *event)
{
	return event->flags & KVM_PERF_ATTR_BRANCHES;
}

#endif /* __KVM_X86_PV_PERF_EVENT_H */
