// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: the kinds of cores of a hybrid host.
 *
 * perf has a PMU for each kind, and an event of a thread counts on CPUs of one kind
 * alone.  So an event of a guest has a backing event for each kind on which its vCPU
 * has run: one is event->backing, and the others are disabled, in event->kept.
 *
 * A host whose CPUs are all of one kind has one struct pv_perf_kind, and does none of
 * this.
 */
#include <linux/bits.h>
#include <linux/cpu.h>
#include <linux/jump_label.h>
#include <linux/percpu.h>
#include <linux/smp.h>

#include <asm/perf_event.h>

#include "compat.h"
#include "compat_cpuid.h"
#include "pv_perf_seam.h"

DEFINE_STATIC_KEY_FALSE(pv_perf_hybrid);
DEFINE_PER_CPU(const struct pv_perf_kind *, pv_perf_cpu_kind);
/* perf has told the CPU's PMU, which is no other until KVM is loaded again. */
static DEFINE_PER_CPU(bool, pv_perf_cpu_asked);

/* For CPUs whose kind is unknown: KVM found no such CPU as it was loaded. */
#define PV_PERF_UNKNOWN_KIND	(&pv_perf_kinds[PV_PERF_MAX_KINDS])

/* Leaf 1AH of CPUID: SDM volume 2A. */
#define PV_PERF_CPUID_CORE_TYPE		0x1a
#define PV_PERF_CORE_TYPE_SHIFT		24

/* Runs on a CPU of the kind. */
static void pv_perf_kind_probe(void *info)
{
	struct pv_perf_kind *kind = info;
	struct x86_pmu_capability cap;

	pv_perf_pmc_ask_cpu(&cap);
	/* A hypervisor may tell of a hybrid CPU, and have no such PMU. */
	if (cap.version < 2 || !cap.num_counters_gp)
		return;

	kind->core = cpuid_eax(PV_PERF_CPUID_CORE_TYPE) >> PV_PERF_CORE_TYPE_SHIFT;
	pv_perf_pmc_probe(&cap, &kind->pmcs);
}

/*
 * perf tells of the PMU of a CPU only by an event of this CPU.  Returns false if there was
 * no memory, or if the CPU is offline; @pmu is NULL if the CPU has no PMU.
 */
static bool pv_perf_ask_pmu(unsigned int cpu, struct pmu **pmu)
{
	struct perf_event *held = pv_perf_backing_create_held(cpu);

	*pmu = NULL;
	if (IS_ERR(held))
		return PTR_ERR(held) != -ENOMEM && PTR_ERR(held) != -ENODEV;

	*pmu = held->pmu;
	perf_event_release_kernel(held);
	return true;
}

static struct pv_perf_kind *pv_perf_kind_of_pmu(const struct pmu *pmu)
{
	unsigned int i;

	for (i = 0; i < pv_perf_nr_kinds; i++) {
		if (pmu && pv_perf_kinds[i].pmu == pmu)
			return &pv_perf_kinds[i];
	}

	return PV_PERF_UNKNOWN_KIND;
}

/* A CPU is of an unknown kind if its kind cannot be probed. */
static struct pv_perf_kind *pv_perf_add_kind(unsigned int cpu, struct pmu *pmu)
{
	struct pv_perf_kind *kind = &pv_perf_kinds[pv_perf_nr_kinds];

	if (!pmu || pv_perf_nr_kinds == PV_PERF_MAX_KINDS)
		return PV_PERF_UNKNOWN_KIND;

	smp_call_function_single(cpu, pv_perf_kind_probe, kind, 1);
	if (!kind->pmcs.general)
		return PV_PERF_UNKNOWN_KIND;

	kind->pmu = pmu;
	pv_perf_nr_kinds++;
	return kind;
}

static void pv_perf_add_cpu(unsigned int cpu)
{
	struct pv_perf_kind *kind;
	struct pmu *pmu;

	per_cpu(pv_perf_cpu_asked, cpu) = pv_perf_ask_pmu(cpu, &pmu);
	kind = pv_perf_kind_of_pmu(pmu);
	if (kind == PV_PERF_UNKNOWN_KIND)
		kind = pv_perf_add_kind(cpu, pmu);
	per_cpu(pv_perf_cpu_kind, cpu) = kind;
}

static void pv_perf_find_kinds(void)
{
	struct perf_event *held;
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		per_cpu(pv_perf_cpu_kind, cpu) = PV_PERF_UNKNOWN_KIND;
		per_cpu(pv_perf_cpu_asked, cpu) = false;
	}

	/* Hold one event, so that perf sets up the CPUs' debug stores only once. */
	held = pv_perf_backing_create_held(raw_smp_processor_id());
	cpus_read_lock();
	for_each_online_cpu(cpu)
		pv_perf_add_cpu(cpu);
	cpus_read_unlock();
	if (!IS_ERR(held))
		perf_event_release_kernel(held);
}

/**
 * pv_perf_kinds_init - find out which kinds of cores a hybrid host has
 *
 * Runs when KVM is loaded.  If no kind is found, the host has one without counters.  May
 * sleep.
 */
void pv_perf_kinds_init(void)
{
	pv_perf_nr_kinds = 0;
	pv_perf_find_kinds();
	if (pv_perf_nr_kinds)
		static_branch_enable(&pv_perf_hybrid);
	else
		pv_perf_nr_kinds = 1;
}

/**
 * pv_perf_kind_of_cpu - the kind of a CPU of a hybrid host
 * @cpu: the CPU
 *
 * Asks perf again until it has answered: the CPU may have been offline when KVM was
 * loaded, or there was no memory.  Not more often, because guests can cause it by each
 * hypercall: perf may set up all CPUs for an event.  May sleep.
 */
const struct pv_perf_kind *pv_perf_kind_of_cpu(unsigned int cpu)
{
	bool *asked = &per_cpu(pv_perf_cpu_asked, cpu);
	struct pmu *pmu;

	/* Acquire: who sees that perf was asked sees the answer. */
	if (!smp_load_acquire(asked) && pv_perf_ask_pmu(cpu, &pmu)) {
		per_cpu(pv_perf_cpu_kind, cpu) = pv_perf_kind_of_pmu(pmu);
		/* Pairs with the acquire above. */
		smp_store_release(asked, true);
	}

	return per_cpu(pv_perf_cpu_kind, cpu);
}

static u8 pv_perf_kind_bit(const struct pv_perf_kind *kind)
{
	return BIT(kind - pv_perf_kinds);
}

/**
 * pv_perf_kinds_except - the kinds of cores that do not have a raw event
 * @core: the core type for which the event is, or 0
 *
 * Return: for pv_perf_event.absent.
 */
u8 pv_perf_kinds_except(u8 core)
{
	u8 absent = pv_perf_kind_bit(PV_PERF_UNKNOWN_KIND);
	unsigned int i;

	for (i = 0; i < pv_perf_nr_kinds; i++) {
		if (core && pv_perf_kinds[i].core != core)
			absent |= BIT(i);
	}

	return absent;
}

/**
 * pv_perf_kind_lacks - is it known that a kind of core does not have an event?
 * @event: the event, its home locked
 * @kind: the kind
 */
bool pv_perf_kind_lacks(const struct pv_perf_event *event,
			const struct pv_perf_kind *kind)
{
	return pv_perf_is_hybrid() && event->absent & pv_perf_kind_bit(kind);
}

/**
 * pv_perf_has_core - does exactly one kind of this host's cores have a core type?
 * @core: the core type
 *
 * Several kinds may have one type: Arrow Lake-H has two kinds of efficiency cores.
 */
bool pv_perf_has_core(u8 core)
{
	unsigned int i, n = 0;

	for (i = 0; i < pv_perf_nr_kinds; i++)
		n += pv_perf_kinds[i].core == core;

	return core && n == 1;
}

/* The kept backing event for this kind, or NULL if this thread has none. */
static struct perf_event *pv_perf_take_kept(struct pv_perf_event *event,
					    const struct pv_perf_kind *kind)
{
	struct perf_event **kept = &event->kept[kind - pv_perf_kinds];
	struct perf_event *backing = *kept;

	if (!backing || backing->hw.target != current)
		return NULL;

	*kept = NULL;
	return backing;
}

/* Kept or new; if this kind of core does not have the event, it is marked absent. */
static struct perf_event *pv_perf_backing_for(struct pv_perf_event *event,
					      const struct pv_perf_kind *kind,
					      perf_overflow_handler_t overflow)
{
	struct perf_event *backing;

	if (event->absent & pv_perf_kind_bit(kind))
		return ERR_PTR(-EINVAL);

	backing = pv_perf_take_kept(event, kind);
	if (backing)
		return backing;

	backing = pv_perf_backing_create(event, kind, overflow);
	if (backing == ERR_PTR(-EINVAL) || backing == ERR_PTR(-EOPNOTSUPP))
		event->absent |= pv_perf_kind_bit(kind);

	return backing;
}

/*
 * For the first kind of core that has the event.  Returns NULL if none has it.  A lack of
 * memory says nothing about the kind, so it is the answer.
 */
static struct perf_event *pv_perf_backing_elsewhere(struct pv_perf_event *event,
						    perf_overflow_handler_t overflow)
{
	struct perf_event *backing;
	unsigned int i;

	for (i = 0; i < pv_perf_nr_kinds; i++) {
		backing = pv_perf_backing_for(event, &pv_perf_kinds[i], overflow);
		if (!(event->absent & BIT(i)))
			return backing;
	}

	return NULL;
}

static struct perf_event *pv_perf_backing_get_hybrid(struct pv_perf_event *event,
						     const struct pv_perf_kind *kind,
						     perf_overflow_handler_t overflow)
{
	struct perf_event *backing;

	backing = pv_perf_backing_for(event, kind, overflow);
	if (!(event->absent & pv_perf_kind_bit(kind)))
		return backing;

	if (event->backing)
		return ERR_PTR(-EBUSY);

	return pv_perf_backing_elsewhere(event, overflow) ? : backing;
}

/**
 * pv_perf_backing_get - a backing event for a vCPU's thread and kind of core, disabled
 * @event: the event, its home locked, or being opened
 * @here: the vCPU, by its own thread
 * @overflow: to be called in NMI context, with @event as the context
 *
 * An event that is being opened gets a backing event for another kind of core if this
 * kind does not have the event.  May sleep.
 *
 * Return: the backing event, whose count and times are 0; or -ENOSPC, -EINVAL,
 * -EOPNOTSUPP, or -EBUSY, also if this kind does not have the event.
 */
struct perf_event *pv_perf_backing_get(struct pv_perf_event *event,
				       struct pv_perf_vcpu *here,
				       perf_overflow_handler_t overflow)
{
	if (pv_perf_is_hybrid())
		return pv_perf_backing_get_hybrid(event, here->kind, overflow);

	return pv_perf_backing_create(event, here->kind, overflow);
}

static void pv_perf_release_kept(struct pv_perf_event *event,
				 const struct task_struct *but)
{
	struct perf_event *kept;
	unsigned int i;

	for (i = 0; i < PV_PERF_MAX_KINDS; i++) {
		kept = event->kept[i];
		if (!kept || kept->hw.target == but)
			continue;
		event->kept[i] = NULL;
		perf_event_release_kernel(kept);
	}
}

/*
 * The kept backing events are on the thread of the event's own backing event, and for
 * other kinds.  An event that comes to another vCPU of the same thread has two backing
 * events for one kind, and the old one is released.  So is one whose event select perf
 * has changed: for the VM's event filter, it has to be the one at creation.
 */
static void pv_perf_backing_keep(struct pv_perf_event *event,
				 struct perf_event *backing, u64 select)
{
	struct task_struct *thread = event->backing->hw.target;
	struct perf_event **kept =
		&event->kept[pv_perf_kind_of_pmu(backing->pmu) - pv_perf_kinds];

	pv_perf_release_kept(event, thread);
	if (backing->hw.target != thread || backing->pmu == event->backing->pmu || *kept ||
	    pv_perf_backing_select(backing) != select) {
		perf_event_release_kernel(backing);
		return;
	}

	pv_perf_counter_reset(backing);
	*kept = backing;
}

/**
 * pv_perf_backing_put - keep or release a backing event that its event does not use
 * @event: the event, its home locked
 * @backing: the backing event, disabled
 * @select: its event select at creation
 *
 * On a hybrid host, a backing event on the thread of the event's own is kept.  May sleep.
 */
void pv_perf_backing_put(struct pv_perf_event *event, struct perf_event *backing,
			 u64 select)
{
	if (pv_perf_is_hybrid())
		pv_perf_backing_keep(event, backing, select);
	else
		perf_event_release_kernel(backing);
}

/**
 * pv_perf_backing_put_all - release all backing events of an event that is closed
 * @event: the event, its home locked
 *
 * May sleep.
 */
void pv_perf_backing_put_all(struct pv_perf_event *event)
{
	perf_event_release_kernel(event->backing);
	event->backing = NULL;
	if (pv_perf_is_hybrid())
		pv_perf_release_kept(event, NULL);
}

bool __pv_perf_backing_is_away(const struct pv_perf_event *event)
{
	const struct pv_perf_kind *left = event->home->kind;

	return left != this_cpu_read(pv_perf_cpu_kind) &&
	       event->backing->pmu == left->pmu &&
	       READ_ONCE(event->backing->state) == PERF_EVENT_STATE_INACTIVE;
}
