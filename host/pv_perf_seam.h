/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side: backing events, and the counters of CPUs.
 */
#ifndef __KVM_X86_PV_PERF_SEAM_H
#define __KVM_X86_PV_PERF_SEAM_H

#include <linux/jump_label.h>
#include <linux/percpu.h>

#include "pv_perf_counter.h"
#include "pv_perf_event.h"

struct x86_pmu_capability;

/* pv_perf_backing.c */

struct perf_event *pv_perf_backing_create(struct pv_perf_event *event,
					  const struct pv_perf_kind *kind,
					  perf_overflow_handler_t overflow);
struct perf_event *pv_perf_backing_create_held(unsigned int cpu);

/**
 * pv_perf_backing_counters - number of general-purpose counters that an event takes
 * @backing: the backing event
 *
 * From Zen on perf merges two counters for events that may happen more than 15 times in
 * a cycle, floating-point operations (amd_is_pair_event_code(); PPR of family 17h,
 * Large Increment per Cycle Events).
 */
static inline unsigned int
pv_perf_backing_counters(const struct perf_event *backing)
{
	u64 config = backing->hw.config;
	unsigned int event = ((config >> 24) & 0xf00) | (config & 0xff);

	if (boot_cpu_data.x86_vendor == X86_VENDOR_INTEL ||
	    boot_cpu_data.x86 < 0x17)
		return 1;

	return event == 0x003 ? 2 : 1;
}

/**
 * pv_perf_backing_is_fixed - does a backing event have a fixed counter?
 * @backing: the backing event.  If it does not count, its last counter decides
 */
static inline bool pv_perf_backing_is_fixed(const struct perf_event *backing)
{
	return READ_ONCE(backing->hw.idx) >= INTEL_PMC_IDX_FIXED;
}

unsigned long pv_perf_backing_fixed(const struct perf_event *backing);
int pv_perf_backing_only_fixed(u64 select);

/*
 * Does the backing event count this thread?  It holds a reference to its thread: no other
 * has this address.
 */
static inline bool pv_perf_backing_is_mine(const struct perf_event *backing)
{
	return backing->hw.target == current;
}

/* perf may change the event select as it schedules the event: intel_fixup_er(). */
static inline u64 pv_perf_backing_select(const struct perf_event *backing)
{
	return backing->hw.config;
}

/* What perf has added up, without what the counter has counted since. */
static inline u64 pv_perf_backing_sum(const struct perf_event *backing)
{
	return local64_read(&backing->count);
}

/* The length of the period that the event is in. */
static inline u64 pv_perf_backing_this_period(const struct perf_event *backing)
{
	return backing->hw.last_period;
}

u64 pv_perf_backing_left_at(struct perf_event *backing,
			    const struct pv_perf_position *at);
bool pv_perf_backing_read_here(struct pv_perf_event *event, bool overflowed,
			       struct pv_perf_reading *reading);
void pv_perf_backing_read(struct perf_event *backing,
			  struct pv_perf_reading *reading);

/* perf has put a pinned event for which it has no counter in the error state. */
static inline bool pv_perf_backing_has_no_counter(const struct perf_event *backing)
{
	return READ_ONCE(backing->state) == PERF_EVENT_STATE_ERROR;
}

/**
 * pv_perf_is_newly_lost - has an event lost its counter, and is not marked yet?
 * @event: the event.  Without its home's lock the answer may be out of date.
 *
 * A host event with precedence has taken the counter.
 */
static inline bool pv_perf_is_newly_lost(const struct pv_perf_event *event)
{
	return READ_ONCE(event->enabled) && !(pv_perf_why(event) & PV_PERF_LOST) &&
	       pv_perf_backing_has_no_counter(event->backing);
}

static inline enum perf_event_state
pv_perf_backing_state(const struct perf_event *backing)
{
	return READ_ONCE(backing->state);
}

static inline struct pmu *pv_perf_backing_pmu(const struct perf_event *backing)
{
	return backing->pmu;
}

/* Has perf stopped an event that overflowed too often?  It restarts it at a tick. */
static inline bool pv_perf_backing_is_throttled(const struct perf_event *backing)
{
	/* MAX_INTERRUPTS of kernel/events/core.c. */
	return READ_ONCE(backing->hw.interrupts) == ~0ULL;
}

/* pv_perf_pmc.c */

DECLARE_PER_CPU(const struct pv_perf_kind *, pv_perf_cpu_kind);

extern struct pv_perf_kind pv_perf_kinds[PV_PERF_MAX_KINDS + 1];
extern unsigned int pv_perf_nr_kinds;

bool pv_perf_pmc_has_guest_only(unsigned int general);
void pv_perf_pmc_probe(const struct x86_pmu_capability *cap,
		       struct pv_perf_pmc_layout *layout);
void pv_perf_pmc_ask_cpu(struct x86_pmu_capability *cap);

#ifndef PV_PERF_WITHOUT_VISIBLE
/* pv_perf_visible.c */

bool pv_perf_pmc_exists(const struct pv_perf_pmc_layout *layout, u32 ecx);
bool pv_perf_pmc_add(const struct perf_event *backing,
		     struct pv_perf_pmcs *pmcs);
bool pv_perf_pmc_add_watchdog(const struct pv_perf_pmc_layout *layout,
			      struct pv_perf_pmcs *pmcs);
void pv_perf_pmc_clear_others(const struct pv_perf_pmc_layout *layout,
			      const struct pv_perf_pmcs *pmcs);
void pv_perf_pmc_of(struct pv_perf_event *event, struct pv_perf_pmc *pmc);
void pv_perf_pmc_see(struct pv_perf_event *event);
bool pv_perf_pmc_unchanged(const struct pv_perf_pmc_layout *layout,
			   struct pv_perf_vcpu *here);
#endif

/* pv_perf_kinds.c: without it, a hybrid host offers nothing of its own. */

#ifndef PV_PERF_WITHOUT_HYBRID
DECLARE_STATIC_KEY_FALSE(pv_perf_hybrid);

void pv_perf_kinds_init(void);
const struct pv_perf_kind *pv_perf_kind_of_cpu(unsigned int cpu);
u8 pv_perf_kinds_except(u8 core);
bool pv_perf_kind_lacks(const struct pv_perf_event *event,
			const struct pv_perf_kind *kind);
bool pv_perf_has_core(u8 core);
struct perf_event *pv_perf_backing_get(struct pv_perf_event *event,
				       struct pv_perf_vcpu *here,
				       perf_overflow_handler_t overflow);
void pv_perf_backing_put(struct pv_perf_event *event, struct perf_event *backing,
			 u64 select);
void pv_perf_backing_put_all(struct pv_perf_event *event);
bool __pv_perf_backing_is_away(const struct pv_perf_event *event);

/* Has this host several kinds of cores?  Others pay a NOP for the question. */
static __always_inline bool pv_perf_is_hybrid(void)
{
	return static_branch_unlikely(&pv_perf_hybrid);
}
#else
static inline void pv_perf_kinds_init(void)
{
}

static inline const struct pv_perf_kind *pv_perf_kind_of_cpu(unsigned int cpu)
{
	return &pv_perf_kinds[0];
}

static inline u8 pv_perf_kinds_except(u8 core)
{
	return 0;
}

static inline bool pv_perf_kind_lacks(const struct pv_perf_event *event,
				      const struct pv_perf_kind *kind)
{
	return false;
}

static inline bool pv_perf_has_core(u8 core)
{
	return false;
}

static inline struct perf_event *
pv_perf_backing_get(struct pv_perf_event *event, struct pv_perf_vcpu *here,
		    perf_overflow_handler_t overflow)
{
	return pv_perf_backing_create(event, here->kind, overflow);
}

static inline void pv_perf_backing_put(struct pv_perf_event *event,
				       struct perf_event *backing, u64 select)
{
	perf_event_release_kernel(backing);
}

static inline void pv_perf_backing_put_all(struct pv_perf_event *event)
{
	perf_event_release_kernel(event->backing);
	event->backing = NULL;
}

static inline bool __pv_perf_backing_is_away(const struct pv_perf_event *event)
{
	return false;
}

static __always_inline bool pv_perf_is_hybrid(void)
{
	return false;
}
#endif

/* Is its backing event for this kind of core? */
static inline bool pv_perf_fits_kind(const struct pv_perf_event *event,
				     const struct pv_perf_kind *kind)
{
	return !pv_perf_is_hybrid() ||
	       event->backing->pmu == kind->pmu;
}

/**
 * pv_perf_backing_is_away - would the event count the guest, were this CPU of its kind?
 * @event: an event whose vCPU has left the guest on another CPU; IRQs off
 */
static inline bool pv_perf_backing_is_away(const struct pv_perf_event *event)
{
	return pv_perf_is_hybrid() &&
	       __pv_perf_backing_is_away(event);
}

/* perf lets a pinned event wait only if this CPU is of another kind. */
static inline bool pv_perf_backing_waits(const struct perf_event *backing)
{
	return pv_perf_is_hybrid() &&
	       READ_ONCE(backing->state) == PERF_EVENT_STATE_INACTIVE;
}

#endif /* __KVM_X86_PV_PERF_SEAM_H */
