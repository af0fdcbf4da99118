/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, guest side: definitions that its files share.
 */
#ifndef _KVM_PMU_H
#define _KVM_PMU_H

#include <linux/io.h>
#include <linux/irq_work.h>
#include <linux/kvm_para.h>
#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/sysfs.h>
#include <linux/timer.h>
#include <linux/types.h>

#include "kvm_perf.h"

/* Classes of events: an event can have general-purpose counters, or also a fixed one. */
enum kvm_pmu_class {
	KVM_PMU_FIXED_INSTRUCTIONS,
	KVM_PMU_FIXED_CYCLES,
	KVM_PMU_FIXED_REF_CYCLES,
	KVM_PMU_GENERAL,
};

/**
 * struct kvm_pmu_config - a configuration that perf_events here count
 * @attr: as for OPEN, except for the sample_period
 * @error: the result of event_init: 0 if the host can count it
 * @users: number of perf_events that count it; it is forgotten only if there are none
 * @refused: the host has refused to count it, perhaps a later host than that of @error
 * @retry: when to try again, in jiffies
 * @node: in the list of all configurations
 */
struct kvm_pmu_config {
	struct guest_perf_attr attr;
	int error;
	atomic_t users;
	bool refused;
	unsigned long retry;
	struct list_head node;
};

/*
 * A backing event has two states at a time: its own at the host, and that of the
 * perf_event that has it.
 *
 *	CLOSED -> STOPPED	OPEN
 *	STOPPED -> RUNNING	ENABLE
 *	RUNNING -> STOPPED	DISABLE
 *	any -> CLOSED		CLOSE, or the host does not have it any more
 *
 *	FREE -> HELD		pmu->add
 *	HELD -> STARTING	pmu->start
 *	STARTING -> COUNTING	the flush, once the host's event is RUNNING
 *	STARTING -> HELD	pmu->stop, or the host has no counter for it
 *	COUNTING -> HELD	pmu->stop, or the host has taken its counter away
 *	COUNTING -> STARTING	the host does not have the backing event any more
 *	any -> FREE		pmu->del; from COUNTING, the event is leaving:
 *				the next flush brings its final count
 *
 * If an event is COUNTING, its backing event is RUNNING.  A RUNNING backing event
 * without a COUNTING event is spare, or is about to be taken over.
 *
 * pmu->stop comes from the NMI handler, too, at any time: it takes an event from
 * STARTING or COUNTING to HELD, and the host's event from RUNNING to STOPPED.
 * An NMI makes no other transition.
 */
enum kvm_pmu_host_state {
	KVM_PMU_CLOSED,
	KVM_PMU_STOPPED,
	KVM_PMU_RUNNING,
};

enum kvm_pmu_event_state {
	KVM_PMU_FREE,
	KVM_PMU_HELD,
	KVM_PMU_STARTING,
	KVM_PMU_COUNTING,
};

/**
 * struct kvm_pmu_use - counters of the hardware that some events take
 * @general: number of general-purpose counters
 * @fixed: for each fixed counter, the events that can have it.  One event has it, the
 *	others take general-purpose counters, unless kvm_pmu_use_fits() says no
 */
struct kvm_pmu_use {
	unsigned int general;
	unsigned int fixed[KVM_PMU_GENERAL];
};

/**
 * struct kvm_pmu_backing - a backing event: an event of the host that a CPU keeps open
 * @record: the host writes it from OPEN to CLOSE
 * @attr: what it counts
 * @class: which counters of this host's hardware it can have
 * @param: argument of OPEN; its id never changes
 * @host: state of the host's event
 * @state: of @event
 * @event: the perf_event that has it now, or NULL
 * @leaving: the perf_event that had it, and whose final count is not known yet
 * @sequence: of the record, before the flush
 * @flags: the flags of the record that the driver has seen
 * @pmc: record.pmc, as an NMI or an operation has found it last
 * @lost: the host has taken the hardware's counter away
 * @moved: since the host wrote the record, an operation has moved the event in its period
 * @last_used: when the last perf_event left it, in jiffies
 */
struct kvm_pmu_backing {
	struct guest_perf_event record __aligned(sizeof(struct guest_perf_event));
	struct guest_perf_attr attr;
	enum kvm_pmu_class class;
	struct guest_perf_event_param param;
	enum kvm_pmu_host_state host;
	enum kvm_pmu_event_state state;
	struct perf_event *event;
	struct perf_event *leaving;
	u32 sequence;
	u32 flags;
	u32 pmc;
	bool lost;
	bool moved;
	unsigned long last_used;
};

/**
 * struct kvm_pmu_slot - an entry of guest_perf_area.slot
 * @event: the event that has it, or NULL
 * @period: length of the current period
 */
struct kvm_pmu_slot {
	struct perf_event *event;
	u64 period;
};

/*
 * How often to read memory that the host may be writing.  The host does not write while
 * this CPU runs, so the first try succeeds; the bound is for a host that misbehaves.
 */
#define KVM_PMU_MAX_TRIES	1000

/* A period so long that its end is never reached. */
#define KVM_PMU_NO_OVERFLOW	S64_MAX

/*
 * Maximum of samples of an event in one NMI.  If more periods have ended, the last
 * sample stands for the rest.
 */
#define KVM_PMU_MAX_SAMPLES	16

/* One for each counter, and some whose configuration may be needed again. */
#define KVM_PMU_NR_BACKING	16

/* An id that no backing event has: a CPU has KVM_PMU_NR_BACKING ids, from 0 on. */
#define KVM_PMU_NO_EVENT	0xfffffffe

/*
 * Work that is found in an NMI or under the lock of the runqueue, and cannot be done
 * there.  The CPU's irq_work does it as soon as interrupts are on.
 */
enum kvm_pmu_pending {
	/* Print a warning, once: see kvm_pmu_warn(). */
	KVM_PMU_WARN_GONE,
	KVM_PMU_WARN_LOST,
	KVM_PMU_WARN_NO_SPACE,
	KVM_PMU_WARN_COUNTS,
	KVM_PMU_WARN_MODEL,
	KVM_PMU_NR_WARNINGS,

	/* Open the backing events again: this CPU's host does not have them any more. */
	KVM_PMU_OPEN_ANEW = KVM_PMU_NR_WARNINGS,
	/* Stop spare backing events that overflow. */
	KVM_PMU_STOP_UNWANTED,
	/* Give up the events whose counter the host has taken away. */
	KVM_PMU_GIVE_UP_LOST,
	/* Have perf schedule the events of this CPU again. */
	KVM_PMU_RESCHED,
	/* The same for the events of the hypervisor. */
	KVM_PMU_RESCHED_HYPERVISOR,
	/* Have perf take the samples that are owed. */
	KVM_PMU_TAKE_OWED,
	/* Write the pages from which user mode reads counters. */
	KVM_PMU_WRITE_PAGES,
	/* Arm the timer of the watch: the caller may hold rq->lock. */
	KVM_PMU_START_WATCH,
};

/**
 * struct kvm_pmu_perf - state of perf's calls on this CPU
 * @disabled: between pmu_disable and pmu_enable
 * @added: a bit for each backing event that perf_events have got in this transaction
 * @adding: in a PERF_PMU_TXN_ADD
 * @reading: in a PERF_PMU_TXN_READ
 * @fresh: all records are up to date for this PERF_PMU_TXN_READ
 */
struct kvm_pmu_perf {
	bool disabled;
	unsigned long added;
	bool adding;
	bool reading;
	bool fresh;
};

/**
 * struct kvm_pmu_flush - the operations of one hypercall
 * @due: there is something to flush
 * @scarce: during a flush: an event has found no counter, so none may be spare
 * @nr: number of operations
 * @ops: the operations, which the host may change
 * @codes: what @ops[].op was
 * @backing: the backing events that the operations are for
 */
struct kvm_pmu_flush {
	bool due;
	bool scarce;
	unsigned int nr;
	struct guest_perf_op ops[KVM_PERF_BATCH_MAX];
	u32 codes[KVM_PERF_BATCH_MAX];
	struct kvm_pmu_backing *backing[KVM_PERF_BATCH_MAX];
};

/**
 * struct kvm_pmu_limit - how many events can count at the same time
 * @general: number of general-purpose counters
 * @no_fixed: fixed counters that are not available, a bit for each enum kvm_pmu_class
 * @until: when to try more, in jiffies_64
 * @proven: the counters of events that counted at the same time since the host last had
 *	too few counters, or since none of the events was in use
 */
struct kvm_pmu_limit {
	unsigned int general;
	unsigned long no_fixed;
	u64 until;
	struct kvm_pmu_use proven;
};

/**
 * struct kvm_pmu_later - work that is done later, or now and then
 * @work: does what @pending says
 * @pending: a bit for each enum kvm_pmu_pending
 * @watch: looks after events that run or are kept open
 */
struct kvm_pmu_later {
	struct irq_work work;
	unsigned long pending;
	struct timer_list watch;
};

/**
 * struct kvm_pmu_nmi - overflows and their samples
 * @due: an NMI is still to come whose findings have been handled already
 * @owing: an event that counts may have overflows without samples, see kvm_pmu_owed()
 * @overflows: number of overflows handled
 * @samples: how many samples the NMI that is handled now has taken
 * @branches: the branches of a sample
 */
struct kvm_pmu_nmi {
	bool due;
	bool owing;
	u64 overflows;
	u32 samples;
	struct perf_branch_stack *branches;
};

/**
 * struct kvm_pmu_host - the host's offer and this CPU's area
 * @query: memory for the host's answer to QUERY
 * @area: the area, a page
 * @epoch: the epoch of @area as long as the host has the backing events; 0 if the host
 *	was not asked for an area, or has none
 * @has_lvtpc: the local APIC tells another host of @area
 * @offline: the CPU goes offline, and needs no area
 */
struct kvm_pmu_host {
	struct guest_perf_query query;
	struct guest_perf_area *area;
	u32 epoch;
	bool has_lvtpc;
	bool offline;
};

/**
 * struct kvm_pmu_counts - the hypervisor's events of this CPU
 * @wanted: a bit for each KVM_PERF_COUNT_* that is needed
 * @counted: the KVM_PERF_COUNT_* that the host counts
 * @waiting: an event could not be added
 * @room: how many slots there were for the group of this event
 * @slots: the area's slots, for events that sample
 */
struct kvm_pmu_counts {
	u32 wanted;
	u32 counted;
	bool waiting;
	unsigned int room;
	struct kvm_pmu_slot slots[KVM_PERF_NR_SLOTS];
};

/**
 * struct kvm_pmu_user - reading counters in user mode
 * @reads: the task that runs here, or the one before it, may execute RDPMC in user mode,
 *	so no backing event may be spare
 * @pages_due: bit 0: another CPU has called this CPU to write its events' pages
 * @page_call: that call, of the CPU that has set @pages_due
 */
struct kvm_pmu_user {
	bool reads;
	unsigned long pages_due;
	call_single_data_t page_call;
};

/**
 * struct kvm_pmu_cpu - the driver's state of a CPU
 * @backing: the backing events
 * @nr_open: how many backing events, from the first on, have ever been open
 * @used: how many backing events have an event
 * @use: the counters that backing events with an event take
 * @leaving: an event may have left its backing event since the last flush
 * @telling: a bit for each backing event for which the host may have news: set before
 *	ENABLE, and cleared by the NMI handler
 * @busy: in a flush or in kvm_pmu_take_owed(), where BPF may read and change events
 * @perf: state of perf's calls
 * @flush: the operations of one hypercall
 * @limit: how many events can count at the same time
 * @later: work that is done later
 * @nmi: overflows
 * @host: the host's offer and the area
 * @hypervisor: the hypervisor's events
 * @user: reading counters in user mode
 *
 * Only its own CPU changes it, with interrupts off; if its CPU is dead, another CPU.  Other
 * CPUs may read which backing events are open and have an event, the area, and
 * @nmi.overflows.  They set @user.pages_due.
 *
 * The NMI handler looks at @backing and the slots, and changes @telling, @nmi and
 * @later.pending.  It may stop an event, and stop and start an event that has a slot.
 */
struct kvm_pmu_cpu {
	struct kvm_pmu_backing backing[KVM_PMU_NR_BACKING];
	unsigned int nr_open;
	unsigned int used;
	struct kvm_pmu_use use;
	bool leaving;
	unsigned long telling;
	bool busy;
	struct kvm_pmu_perf perf;
	struct kvm_pmu_flush flush;
	struct kvm_pmu_limit limit;
	struct kvm_pmu_later later;
	struct kvm_pmu_nmi nmi;
	struct kvm_pmu_host host;
	struct kvm_pmu_counts hypervisor;
	struct kvm_pmu_user user;
};

/* The backing events that have ever been open. */
#define for_each_backing(cpu, pos)					\
	for ((pos) = (cpu)->backing;					\
	     (pos) < (cpu)->backing + (cpu)->nr_open; (pos)++)

DECLARE_PER_CPU(struct kvm_pmu_cpu *, kvm_pmu_cpu);

static inline struct kvm_pmu_cpu *this_kvm_pmu_cpu(void)
{
	return this_cpu_read(kvm_pmu_cpu);
}

/**
 * kvm_pmu_pend - leave a task to the irq_work of a CPU
 * @cpu: this CPU's
 * @what: the task
 *
 * NMI-safe.
 *
 * Return: false if the task was pending already.
 */
static inline bool kvm_pmu_pend(struct kvm_pmu_cpu *cpu, enum kvm_pmu_pending what)
{
	bool first = !test_and_set_bit(what, &cpu->later.pending);

	irq_work_queue(&cpu->later.work);
	return first;
}

static inline struct kvm_pmu_backing *kvm_pmu_backing_of(struct kvm_pmu_cpu *cpu,
							 const struct perf_event *event)
{
	return &cpu->backing[event->hw.idx];
}

static inline bool kvm_pmu_is_sampling(const struct kvm_pmu_backing *backing)
{
	return backing->attr.sample_period;
}

static inline bool kvm_pmu_runs(const struct kvm_pmu_backing *backing)
{
	return backing->host == KVM_PMU_RUNNING;
}

/* Does it run without an event?  Its event may have left since the last flush. */
static inline bool kvm_pmu_is_spare(const struct kvm_pmu_backing *backing)
{
	return kvm_pmu_runs(backing) && backing->state < KVM_PMU_STARTING;
}

/* Does @test hold for any backing event of a CPU?  Inline: @test is no indirect call. */
static __always_inline bool
kvm_pmu_any(const struct kvm_pmu_cpu *cpu,
	    bool (*test)(const struct kvm_pmu_backing *backing))
{
	const struct kvm_pmu_backing *backing;

	for_each_backing(cpu, backing) {
		if (test(backing))
			return true;
	}

	return false;
}

/*
 * The host has closed, stopped or started a backing event: from now on, all flags of its
 * record are new.  NMI-safe: an NMI that sees the new state may change the rest.
 */
static inline void kvm_pmu_set_host_state(struct kvm_pmu_backing *backing,
					  enum kvm_pmu_host_state host)
{
	backing->flags = 0;
	backing->lost = false;
	backing->moved = false;
	barrier();
	WRITE_ONCE(backing->host, host);
}

/**
 * kvm_pmu_area_is_stale - has the host that this CPU had an area with gone?
 * @cpu: this CPU's
 *
 * If so, no backing event counts.  NMI-safe.
 */
static inline bool kvm_pmu_area_is_stale(const struct kvm_pmu_cpu *cpu)
{
	return READ_ONCE(cpu->host.area->epoch) != READ_ONCE(cpu->host.epoch);
}

/**
 * kvm_pmu_area_read - read a field that the host may change at any exit of this CPU
 * @field: a field of its area
 *
 * NMI-safe.
 */
static inline u64 kvm_pmu_area_read(const u64 *field)
{
	unsigned int tries = KVM_PMU_MAX_TRIES;
	u64 value;

	/* On 32 bits, two loads may be of different values. */
	do {
		value = READ_ONCE(*field);
	} while (!IS_ENABLED(CONFIG_64BIT) && value != READ_ONCE(*field) &&
		 --tries);

	return value;
}

static inline void kvm_pmu_add_use(struct kvm_pmu_use *use,
				   enum kvm_pmu_class class)
{
	if (class == KVM_PMU_GENERAL || use->fixed[class]++)
		use->general++;
}

static inline void kvm_pmu_sub_use(struct kvm_pmu_use *use,
				   enum kvm_pmu_class class)
{
	if (class == KVM_PMU_GENERAL || --use->fixed[class])
		use->general--;
}

static inline void kvm_pmu_set_stopped(struct perf_event *event)
{
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
}

/*
 * Number of overflows of an event without a sample.  The event takes the number along
 * to other CPUs.  x86's own PMU uses the field otherwise.  The NMI handler adds to it.
 */
static inline unsigned long *kvm_pmu_owed(struct perf_event *event)
{
	return &event->hw.event_base;
}

/*
 * When the host's kind of core last did not have the event, in jiffies_64.  x86's own
 * PMU uses the field otherwise.
 */
static inline u64 *kvm_pmu_absent_at(struct perf_event *event)
{
	return &event->hw.last_tag;
}

/* If a pinned group gets no counters, perf puts it into the error state. */
static inline bool kvm_pmu_is_pinned(const struct perf_event *event)
{
	return event->group_leader->attr.pinned;
}

static inline struct kvm_pmu_config *to_kvm_pmu_config(struct perf_event *event)
{
	return event->pmu_private;
}

/*
 * Functions of each file, from the bottom to the top: see guest/layers.
 * The series for mainline brings each feature in patches of its own: until then, the
 * driver is built without.
 */

/* kvm_pmu_perf.c */
extern struct pmu *kvm_pmu;

int kvm_pmu_register_copy(struct pmu **pmu, const struct pmu *template,
			  bool samples, const char *name, int type);
bool kvm_pmu_is_ours(const struct perf_event *event);
void kvm_pmu_count(struct perf_event *event, u64 count);
void kvm_pmu_hide_freq(struct perf_event *event);
void kvm_pmu_throttle_event(struct perf_event *event);

/* Does the event have a buffer, with a page that user mode may read? */
static inline bool kvm_pmu_has_page(const struct perf_event *event)
{
	return READ_ONCE(event->rb);
}

/* The CPU on which perf has the event now, or -1. */
static inline int kvm_pmu_on_cpu(const struct perf_event *event)
{
	return READ_ONCE(event->oncpu);
}

static inline bool kvm_pmu_is_enabled(const struct perf_event *event)
{
	return event->state > PERF_EVENT_STATE_OFF;
}

/*
 * The count of an event and of its children.  @prev: set to the count of the backing event
 * up to which that is.
 */
static inline u64 kvm_pmu_total(struct perf_event *event, u64 *prev)
{
	u64 count;

	do {
		*prev = local64_read(&event->hw.prev_count);
		count = local64_read(&event->count);
		/* An NMI may bring the event up to date in between. */
	} while (*prev != local64_read(&event->hw.prev_count));

	return count + atomic64_read(&event->child_count);
}

static inline void kvm_pmu_lose_samples(struct perf_event *event, unsigned long n)
{
	atomic64_add(n, &event->lost_samples);
}

/* Have perf call pmu->sched_task while the event counts. */
static inline void kvm_pmu_want_sched_task(struct perf_event *event)
{
	event->attach_state |= PERF_ATTACH_SCHED_CB;
}

/* kvm_pmu_call.c */
enum kvm_pmu_result {
	KVM_PMU_DONE,
	KVM_PMU_UNKNOWN,
	KVM_PMU_NO_COUNTER,
	KVM_PMU_TOO_OFTEN,
	KVM_PMU_NO_SPACE,
	KVM_PMU_EXISTS,
	KVM_PMU_NOT_WRITTEN,
	KVM_PMU_REFUSED,
};

/* This kernel ends: the driver asks the host for nothing more. */
extern bool kvm_pmu_ended;

static inline long kvm_perf_op(unsigned int op, u32 id, u64 arg)
{
	if (READ_ONCE(kvm_pmu_ended))
		return -KVM_ENOSYS;

	return kvm_hypercall4(KVM_PERF_OP, op, id, lower_32_bits(arg),
			      upper_32_bits(arg));
}

/* @p: in the linear mapping, not on the stack; @nr: number of a batch's operations. */
static inline long kvm_perf_op_addr(unsigned int op, void *p, unsigned int nr)
{
	u64 addr = virt_to_phys(p);

	if (READ_ONCE(kvm_pmu_ended))
		return -KVM_ENOSYS;

	return kvm_hypercall4(KVM_PERF_OP, op, lower_32_bits(addr),
			      upper_32_bits(addr), nr);
}

/* Changes with the host: use READ_ONCE() for a field of 32 bits. */
extern struct guest_perf_query kvm_pmu_host;
/* The host's answers on configurations may be out of date. */
extern bool kvm_pmu_answers_old;

/* Does the host let this VM sample? */
static inline bool kvm_pmu_may_sample(void)
{
	return READ_ONCE(kvm_pmu_host.features) & KVM_PERF_FEATURE_SAMPLING;
}

void kvm_pmu_warn(enum kvm_pmu_pending warning);
enum kvm_pmu_result kvm_pmu_result(u32 op, long ret);
bool kvm_pmu_host_is_gone(bool ask);
long kvm_pmu_query_host(struct guest_perf_query *query);
void kvm_pmu_get_host(struct guest_perf_query *host);
u64 kvm_pmu_hw_select(u64 event);
u64 kvm_pmu_event_select(const struct guest_perf_attr *attr);
enum kvm_pmu_class kvm_pmu_class(const struct guest_perf_attr *attr);
bool kvm_pmu_is_foreign(const struct guest_perf_attr *attr);
bool kvm_pmu_is_hybrid(u32 model);
bool kvm_pmu_is_for_kind(const struct guest_perf_attr *attr);
u32 kvm_pmu_raw_model(const struct guest_perf_query *host);
extern u8 kvm_pmu_core_type;
const char *kvm_pmu_why_no_rdpmc(void);

/* kvm_pmu_area.c */
void kvm_pmu_area_set(struct kvm_pmu_cpu *cpu);
void kvm_pmu_area_end(struct kvm_pmu_cpu *cpu);
bool kvm_pmu_area_tells(const struct kvm_pmu_cpu *cpu);

/* kvm_pmu_backing.c */

/* Called for a new area.  kvm_pmu_init() sets it to a feature's function. */
extern void (*kvm_pmu_new_area)(struct kvm_pmu_cpu *cpu);

static inline void kvm_pmu_note_pmc(struct kvm_pmu_backing *backing)
{
	backing->pmc = READ_ONCE(backing->record.pmc);
}

void kvm_pmu_close(struct kvm_pmu_backing *backing);
void kvm_pmu_disable_host(struct kvm_pmu_backing *backing);
void kvm_pmu_take_left(const struct kvm_pmu_backing *backing,
		       struct perf_event *event);
void kvm_pmu_backing_update(struct kvm_pmu_backing *backing,
			    struct perf_event *event);
enum kvm_pmu_event_state kvm_pmu_hold(struct kvm_pmu_backing *backing);
void kvm_pmu_settle_leaving(struct kvm_pmu_backing *backing);
void kvm_pmu_settle_count(struct kvm_pmu_backing *backing);
void kvm_pmu_page_changed(struct kvm_pmu_cpu *cpu, struct perf_event *event);
void kvm_pmu_area_renew(struct kvm_pmu_cpu *cpu);
void kvm_pmu_forget_all(struct kvm_pmu_cpu *cpu);
struct kvm_pmu_use kvm_pmu_running(struct kvm_pmu_cpu *cpu);
bool kvm_pmu_any_to_watch(const struct kvm_pmu_cpu *cpu);
void kvm_pmu_start_watch(struct kvm_pmu_cpu *cpu);
bool kvm_pmu_keeps_unused(int nr, void *info);
void kvm_pmu_close_unused(void *info);
void kvm_pmu_note_lost(struct kvm_pmu_cpu *cpu,
		       struct kvm_pmu_backing *backing);
void kvm_pmu_set_counting(struct kvm_pmu_cpu *cpu,
			  struct kvm_pmu_backing *backing);
void kvm_pmu_backing_stop(struct kvm_pmu_cpu *cpu, struct perf_event *event);
void kvm_pmu_throttle(struct kvm_pmu_cpu *cpu,
		      struct kvm_pmu_backing *backing);
bool kvm_pmu_look_at_flags(struct kvm_pmu_cpu *cpu,
			   struct kvm_pmu_backing *backing);
bool kvm_pmu_backing_read(struct kvm_pmu_cpu *cpu, struct perf_event *event);

/* kvm_pmu_assign.c */
bool kvm_pmu_use_is_within(const struct kvm_pmu_use *use, unsigned long no_fixed,
			   unsigned int general);
bool kvm_pmu_use_fits(struct kvm_pmu_cpu *cpu, const struct kvm_pmu_use *use);
void kvm_pmu_set_limit(struct kvm_pmu_cpu *cpu, unsigned long failed);
void kvm_pmu_refuse(struct perf_event *event);
void kvm_pmu_note_absent(struct perf_event *event);
int kvm_pmu_backing_get(struct kvm_pmu_cpu *cpu, struct perf_event *event);
void kvm_pmu_backing_start(struct kvm_pmu_cpu *cpu, struct perf_event *event);
void kvm_pmu_backing_put(struct kvm_pmu_cpu *cpu, struct perf_event *event);

/* kvm_pmu_flush.c */
void kvm_pmu_flush(struct kvm_pmu_cpu *cpu);
void kvm_pmu_flush_leaving(struct kvm_pmu_cpu *cpu);
bool kvm_pmu_flush_added(struct kvm_pmu_cpu *cpu);
void kvm_pmu_open_anew(struct kvm_pmu_cpu *cpu);
bool kvm_pmu_read_running(struct kvm_pmu_cpu *cpu);

/* kvm_pmu_branches.c */
#ifndef KVM_PMU_WITHOUT_BRANCHES
unsigned int kvm_pmu_branches_possible(void);
bool kvm_pmu_wants_branches(const struct perf_event *event);
int kvm_pmu_branches_init_event(struct perf_event *event);
void kvm_pmu_branches_add(struct perf_event *event);
void kvm_pmu_branches_del(struct perf_event *event);
void kvm_pmu_branches_forget(void);
void kvm_pmu_branches_save(struct kvm_pmu_cpu *cpu, struct perf_event *event,
			   struct perf_sample_data *data);
int kvm_pmu_branches_alloc(struct kvm_pmu_cpu *cpu);
#else
static inline unsigned int kvm_pmu_branches_possible(void)
{
	return 0;
}

static inline bool kvm_pmu_wants_branches(const struct perf_event *event)
{
	return false;
}

static inline int kvm_pmu_branches_init_event(struct perf_event *event)
{
	return -EOPNOTSUPP;
}

static inline void kvm_pmu_branches_add(struct perf_event *event)
{
}

static inline void kvm_pmu_branches_del(struct perf_event *event)
{
}

static inline void kvm_pmu_branches_forget(void)
{
}

static inline void kvm_pmu_branches_save(struct kvm_pmu_cpu *cpu,
					 struct perf_event *event,
					 struct perf_sample_data *data)
{
}

static inline int kvm_pmu_branches_alloc(struct kvm_pmu_cpu *cpu)
{
	return 0;
}
#endif

/* kvm_pmu_user.c */
#ifndef KVM_PMU_WITHOUT_RDPMC
int kvm_pmu_user_create(void (*take_owed)(struct kvm_pmu_cpu *cpu));
bool kvm_pmu_user_possible(void);
bool kvm_pmu_user_allowed(void);
int kvm_pmu_user_allow(bool allowed);
u64 kvm_pmu_user_attr(void);
void kvm_pmu_user_init_event(struct perf_event *event);
void kvm_pmu_event_mapped(struct perf_event *event, struct mm_struct *mm);
void kvm_pmu_event_unmapped(struct perf_event *event, struct mm_struct *mm);
void kvm_pmu_update_pages(struct kvm_pmu_cpu *cpu);
void kvm_pmu_pages_due(void *info);
unsigned int kvm_pmu_look_at_pmc(struct kvm_pmu_cpu *cpu,
				 struct kvm_pmu_backing *backing);
#else
#define kvm_pmu_event_mapped	NULL
#define kvm_pmu_event_unmapped	NULL

static inline int kvm_pmu_user_create(void (*take_owed)(struct kvm_pmu_cpu *cpu))
{
	return 0;
}

static inline bool kvm_pmu_user_possible(void)
{
	return false;
}

static inline bool kvm_pmu_user_allowed(void)
{
	return false;
}

static inline int kvm_pmu_user_allow(bool allowed)
{
	return allowed ? -EOPNOTSUPP : 0;
}

static inline u64 kvm_pmu_user_attr(void)
{
	return 0;
}

static inline void kvm_pmu_user_init_event(struct perf_event *event)
{
}

static inline void kvm_pmu_update_pages(struct kvm_pmu_cpu *cpu)
{
}

static inline void kvm_pmu_pages_due(void *info)
{
}

static inline unsigned int kvm_pmu_look_at_pmc(struct kvm_pmu_cpu *cpu,
					       struct kvm_pmu_backing *backing)
{
	return 0;
}
#endif

/* kvm_pmu_sysfs.c */
extern const struct attribute_group *kvm_pmu_attr_groups[];

/* kvm_pmu_open.c */
int kvm_pmu_event_init(struct perf_event *event);
int kvm_pmu_check_period(struct perf_event *event, u64 period);

/* kvm_pmu_nmi.c */
void kvm_pmu_take_owed(struct kvm_pmu_cpu *cpu);
int kvm_pmu_handle_nmi(unsigned int cmd, struct pt_regs *regs);

/* kvm_pmu_event.c */
int kvm_pmu_register(void);

/* kvm_pmu_cpu.c */
int kvm_pmu_cpus_create(void);
void kvm_pmu_cpus_destroy(void);
int kvm_pmu_areas_create(void);
void kvm_pmu_areas_destroy(void);

/* compat_reboot.c; if the driver is built in, kvm_pmu_reboot.c */
void kvm_pmu_reset_at_end(void);

#endif /* _KVM_PMU_H */
