// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: the limits of a VM.
 *
 * There are limits for each vCPU of a VM on open events, on their counters, on the rate
 * of overflows, and on the rate of opened and moved events.  Module parameters set the
 * host's limits, and the VMM can set lower ones for its VM, except for the last.  The
 * VM's vCPUs share the number of open events.  The rates are each vCPU's own, so that
 * vCPUs that overflow at the same time do not write to a number of the VM.
 */
#define pr_fmt(fmt) "kvm: pv_perf: " fmt

#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/moduleparam.h>

#include "pv_perf_core.h"
#include "pv_perf_seam.h"
#include "x86.h"
#include "pmu.h"

static unsigned int pv_perf_max_events = 64;
module_param(pv_perf_max_events, uint, 0644);
MODULE_PARM_DESC(pv_perf_max_events,
		 "paravirtual perf events that a VM may have open, per vCPU (default 64)");

static unsigned int pv_perf_max_rate = 100000;
module_param(pv_perf_max_rate, uint, 0644);
MODULE_PARM_DESC(pv_perf_max_rate,
		 "overflows of a vCPU's paravirtual perf events per second, 0: no sampling (default 100000)");

static unsigned int pv_perf_max_counters;
module_param(pv_perf_max_counters, uint, 0644);
MODULE_PARM_DESC(pv_perf_max_counters,
		 "general-purpose counters that a vCPU's paravirtual perf events may have at a time, 0: all but what the host's own perf and NMI watchdog need (default 0)");

static unsigned int pv_perf_max_open_rate = 10000;
module_param(pv_perf_max_open_rate, uint, 0644);
MODULE_PARM_DESC(pv_perf_max_open_rate,
		 "paravirtual perf events that a vCPU may open, move here or change elsewhere per second, more have to wait (default 10000)");

/*
 * Tolerance of a rate: the time whose overflows may come at once.  After a rest that may
 * once be twice as many.
 */
#define PV_PERF_BURST_NS	(10 * NSEC_PER_MSEC)

/* Slack of the wait. */
#define PV_PERF_WAIT_SLACK_NS	(50 * NSEC_PER_USEC)

/* Not guest_pv_has(): a VMM that does not enforce its CPUID has to set the bit, too. */
static bool pv_perf_in_cpuid(struct kvm_vcpu *vcpu)
{
	return vcpu->arch.pv_cpuid.features & (1u << KVM_FEATURE_PV_PERF);
}

/* The TDX module, not KVM, enters a trust domain: the host cannot count it. */
static bool pv_perf_is_tdx(struct kvm *kvm)
{
#ifdef KVM_X86_TDX_VM
	return kvm->arch.vm_type == KVM_X86_TDX_VM;
#else
	return false;
#endif
}

static void pv_perf_log_without(struct kvm *kvm, enum pv_perf_logged why,
				const char *has)
{
	if (!test_and_set_bit(why, &kvm->arch.pv_perf->logged))
		pr_info_ratelimited("VM of pid %d gets no paravirtual events because it uses %s\n",
				    kvm->userspace_pid, has);
}

/*
 * The host can serve the VM, and host or VMM let it have events.  A VM with dirty rings may
 * not, because a hypercall might write more than they keep in reserve, nor may a VM whose
 * execution the host cannot count.
 */
static bool pv_perf_vm_may(struct kvm *kvm)
{
	struct pv_perf_vm *vm = kvm->arch.pv_perf;

	if (!vm->available || !vm->max_events)
		return false;

	if (pv_perf_is_tdx(kvm)) {
		pv_perf_log_without(kvm, PV_PERF_LOGGED_TDX, "TDX");
		return false;
	}
	if (kvm->dirty_ring_size) {
		pv_perf_log_without(kvm, PV_PERF_LOGGED_DIRTY_RING,
				    "dirty rings");
		return false;
	}

	return true;
}

/**
 * pv_perf_is_offered - does the VMM offer the guest the feature, and the host have it?
 * @vcpu: the vCPU
 */
bool pv_perf_is_offered(struct kvm_vcpu *vcpu)
{
	return pv_perf_in_cpuid(vcpu) && pv_perf_vm_may(vcpu->kvm);
}

/**
 * pv_perf_has_vpmu - has the vCPU KVM's virtual PMU, whose counters RDPMC reads?
 * @vcpu: the vCPU
 */
bool pv_perf_has_vpmu(struct kvm_vcpu *vcpu)
{
	return vcpu->kvm->arch.enable_pmu && vcpu_to_pmu(vcpu)->version;
}

/**
 * pv_perf_max_events_per_vcpu - how many events may a VM have open, per vCPU?
 * @kvm: the VM, or NULL for any
 */
unsigned int pv_perf_max_events_per_vcpu(struct kvm *kvm)
{
	unsigned int max = READ_ONCE(pv_perf_max_events);

	return kvm ? min(max, kvm->arch.pv_perf->max_events) : max;
}

/**
 * pv_perf_events_allowed - how many events a VM may have open
 * @kvm: the VM
 */
unsigned int pv_perf_events_allowed(struct kvm *kvm)
{
	u64 vcpus = atomic_read(&kvm->online_vcpus);

	return min_t(u64, vcpus * pv_perf_max_events_per_vcpu(kvm), INT_MAX);
}

/**
 * pv_perf_rate_allowed - how often the events of a vCPU may overflow
 * @kvm: the VM, or NULL for any
 *
 * Return: overflows per second.
 */
unsigned int pv_perf_rate_allowed(struct kvm *kvm)
{
	unsigned int max = READ_ONCE(pv_perf_max_rate);

	return kvm ? min(max, kvm->arch.pv_perf->max_rate) : max;
}

/*
 * Of @nr counters, the host keeps one for its own perf: a guest's events are pinned, and
 * the host's would have none as long as the guest has all.  Without a fixed counter for
 * cycles, the host keeps another one for the NMI watchdog, which is pinned.
 */
static unsigned int pv_perf_default_counters(unsigned int nr)
{
	const struct pv_perf_pmc_layout *pmcs = &pv_perf_kinds[0].pmcs;
	unsigned int kept = pmcs->general && !pmcs->fixed ? 2 : 1;

	return nr > kept ? nr - kept : 1;
}

/**
 * pv_perf_counters_allowed - how many counters may the events of a vCPU have?
 * @kvm: the VM, or NULL for any
 *
 * Return: general-purpose counters.
 */
unsigned int pv_perf_counters_allowed(struct kvm *kvm)
{
	unsigned int max = READ_ONCE(pv_perf_max_counters);
	struct pv_perf_vm *vm = kvm ? kvm->arch.pv_perf : NULL;
	struct guest_perf_query pmu;

	if (vm)
		pmu.nr_counters = vm->pmu.nr_counters;
	else
		pv_perf_query_pmu(&pmu);

	max = max ? min(max, pmu.nr_counters) : pv_perf_default_counters(pmu.nr_counters);
	return vm ? min(vm->max_counters, max) : max;
}

/*
 * The generic cell rate algorithm (ITU-T Recommendation I.371, annex A) with virtual
 * scheduling: each operation moves rate->time on by the time for one at the allowed
 * rate.  If rate->time is too far ahead of the clock, the rate is exceeded.
 *
 * Returns whether the rate is exceeded.
 */
static bool pv_perf_charge(struct pv_perf_rate *rate, s64 ns)
{
	rate->clock = ktime_get_ns();
	rate->time = max(rate->time, rate->clock) + ns;
	return rate->time - rate->clock > PV_PERF_BURST_NS;
}

/* Time for @n at a rate; the module parameter may be 0 by now. */
static s64 pv_perf_rate_ns(u64 n, unsigned int hz)
{
	return div_u64(n * NSEC_PER_SEC, max(hz, 1u));
}

/**
 * pv_perf_charge_open - count an operation against the vCPU's open rate
 * @vcpu: the vCPU, by its own thread: opens an event, moves one here, or changes one of
 *	another thread
 *
 * Does not sleep; home->lock may be held.
 *
 * RCU frees closed and moved events in anybody's time, and a change interrupts another
 * CPU: limit both.  A vCPU that exceeds the rate waits before it enters the guest
 * again.
 */
void pv_perf_charge_open(struct kvm_vcpu *vcpu)
{
	s64 ns = pv_perf_rate_ns(1, READ_ONCE(pv_perf_max_open_rate));

	if (pv_perf_charge(&vcpu->arch.pv_perf->open_rate, ns))
		kvm_make_request(KVM_REQ_PV_PERF, vcpu);
}

/**
 * pv_perf_wait_to_open - have a vCPU wait that has exceeded its open rate
 * @vcpu: the vCPU, about to enter the guest, with kvm->srcu held for reading
 *
 * The operation itself must not wait, because it cannot give back kvm->srcu: a change of
 * the memory slots would wait for the whole batch.  A signal ends the wait early and leaves
 * the request, so the VMM can always stop the vCPU.  The rest of the wait follows when it
 * runs the vCPU again.
 *
 * Return: true if it has waited, and kvm->srcu was given back meanwhile.
 */
bool pv_perf_wait_to_open(struct kvm_vcpu *vcpu)
{
	s64 until = vcpu->arch.pv_perf->open_rate.time - PV_PERF_BURST_NS;
	ktime_t expires = ns_to_ktime(until);

	if (until <= (s64)ktime_get_ns())
		return false;

	kvm_vcpu_srcu_read_unlock(vcpu);
	set_current_state(TASK_INTERRUPTIBLE);
	schedule_hrtimeout_range(&expires, PV_PERF_WAIT_SLACK_NS,
				 HRTIMER_MODE_ABS);
	kvm_vcpu_srcu_read_lock(vcpu);

	/* Check again: a signal may have ended the wait early. */
	kvm_make_request(KVM_REQ_PV_PERF, vcpu);
	return true;
}

/**
 * pv_perf_charge_event - count one more event against the VM's limit
 * @vcpu: the vCPU that opens it, by its own thread
 *
 * Once the event is closed, nr_events goes down again.
 *
 * Return: 0, or -ENOSPC if the VM has reached its limit.
 */
int pv_perf_charge_event(struct kvm_vcpu *vcpu)
{
	struct kvm *kvm = vcpu->kvm;
	struct pv_perf_vm *vm = kvm->arch.pv_perf;
	int max = pv_perf_events_allowed(kvm);
	int nr = atomic_read(&vm->nr_events);

	do {
		if (nr >= max)
			goto limit;
	} while (!atomic_try_cmpxchg(&vm->nr_events, &nr, nr + 1));

	pv_perf_charge_open(vcpu);
	return 0;

limit:
	if (!test_and_set_bit(PV_PERF_LOGGED_LIMIT, &vm->logged))
		pr_info_ratelimited("VM of pid %d has reached its limit of %d events (kvm.pv_perf_max_events per vCPU)\n",
				    kvm->userspace_pid, max);
	return -ENOSPC;
}

/*
 * A vCPU may have at least this many of the VM's events: as many as a guest's kernel
 * needs on one CPU.
 */
#define PV_PERF_MIN_PER_HOME	32u

/**
 * pv_perf_check_room - may one more of the VM's events be at a vCPU?
 * @vcpu: the vCPU, by its own thread
 *
 * Bounds the work for all events of a vCPU with interrupts off, here and in perf.
 *
 * Return: 0, or -ENOSPC.
 */
int pv_perf_check_room(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vm *vm = vcpu->kvm->arch.pv_perf;
	unsigned int limit = max(pv_perf_max_events_per_vcpu(vcpu->kvm),
				 PV_PERF_MIN_PER_HOME);

	if (READ_ONCE(vcpu->arch.pv_perf->nr_events) < limit)
		return 0;

	if (!test_and_set_bit(PV_PERF_LOGGED_FULL, &vm->logged))
		pr_info_ratelimited("a vCPU of the VM of pid %d has reached its limit of %u events (kvm.pv_perf_max_events)\n",
				    vcpu->kvm->userspace_pid, limit);
	return -ENOSPC;
}

/**
 * pv_perf_charge_overflows - count overflows against the vCPU's rate
 * @vcpu: the vCPU, by its own thread
 * @n: how many
 *
 * Not in NMI context.
 *
 * Return: true if the event that had them is to be limited.
 */
bool pv_perf_charge_overflows(struct kvm_vcpu *vcpu, u64 n)
{
	struct pv_perf_rate *rate = &vcpu->arch.pv_perf->overflow_rate;
	s64 ns = pv_perf_rate_ns(n, pv_perf_rate_allowed(vcpu->kvm));

	/* Read the clock only if the old reading would exceed the rate. */
	if (rate->time + ns - rate->clock <= PV_PERF_BURST_NS) {
		rate->time += ns;
		return false;
	}

	return pv_perf_charge(rate, ns);
}

/**
 * pv_perf_rate_exceeded - has the vCPU had too many overflows?
 * @vcpu: the vCPU, by its own thread
 */
bool pv_perf_rate_exceeded(struct kvm_vcpu *vcpu)
{
	s64 ahead = vcpu->arch.pv_perf->overflow_rate.time - (s64)ktime_get_ns();

	return ahead > PV_PERF_BURST_NS;
}

/**
 * pv_perf_rate_time - when limited events may go on
 * @vcpu: the vCPU, by its own thread
 *
 * They go on when the vCPU has its whole tolerance again.  Otherwise the host would soon limit
 * them again.
 *
 * Return: time of CLOCK_MONOTONIC in ns, or 0 if they may go on now.
 */
s64 pv_perf_rate_time(struct kvm_vcpu *vcpu)
{
	s64 time = vcpu->arch.pv_perf->overflow_rate.time;

	return time > (s64)ktime_get_ns() ? time : 0;
}
