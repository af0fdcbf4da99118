// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: CPUs come and go; the irq_work and the
 * timer of a CPU.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpuhotplug.h>
#include <linux/delay.h>
#include <linux/gfp.h>
#include <linux/irq_work.h>
#include <linux/jiffies.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/syscore_ops.h>
#include <linux/tick.h>
#include <linux/timer.h>

#include "compat.h"
#include "kvm_pmu.h"
#include "kvm_pmu_hypervisor.h"

/*
 * How often a CPU looks after the events that run.  A spare backing event runs on for
 * one to two times this.
 */
#define KVM_PMU_WATCH		(HZ / 10)

/* How long a backing event that no event uses is kept open. */
#define KVM_PMU_KEEP		HZ

static const char * const kvm_pmu_warnings[KVM_PMU_NR_WARNINGS] = {
	[KVM_PMU_WARN_GONE] =
		"the host has no paravirtual perf events any more: nothing counts",
	[KVM_PMU_WARN_LOST] =
		"the host needed the counter of a running event, which is scaled now",
	[KVM_PMU_WARN_NO_SPACE] = "the host allows no more events",
	[KVM_PMU_WARN_COUNTS] =
		"the host does not count some events of the hypervisor any more",
	[KVM_PMU_WARN_MODEL] =
		"the host's CPU is another model: restart programs that use raw events",
};

/*
 * Stop spare backing events that sample: with a frequency, the host adapts their period.
 */
static void kvm_pmu_stop_unwanted(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_backing *backing;

	for_each_backing(cpu, backing) {
		if (kvm_pmu_is_spare(backing) && kvm_pmu_is_sampling(backing))
			kvm_pmu_disable_host(backing);
	}
}

/*
 * Stop the backing events that have lost their counter, and limit this CPU to those that
 * count.  Returns whether perf has to schedule its events again.
 */
static bool kvm_pmu_give_up_lost(struct kvm_pmu_cpu *cpu)
{
	bool resched = false, of_kind = false;
	struct kvm_pmu_backing *backing;
	unsigned long failed = 0;

	for_each_backing(cpu, backing) {
		if (!backing->lost)
			continue;
		/* The host tells nothing of a backing event that does not run. */
		if (backing->host != KVM_PMU_RUNNING) {
			backing->lost = false;
			continue;
		}
		if (kvm_pmu_is_for_kind(&backing->attr))
			of_kind = true;
		else
			failed |= BIT(backing->class);
		kvm_pmu_disable_host(backing);
		kvm_pmu_settle_count(backing);
		if (backing->state != KVM_PMU_COUNTING)
			continue;
		if (kvm_pmu_is_for_kind(&backing->attr))
			kvm_pmu_note_absent(backing->event);
		kvm_pmu_hold(backing);
		kvm_pmu_page_changed(cpu, backing->event);
		resched = true;
	}

	cpu->limit.proven = kvm_pmu_running(cpu);
	/* An event that the kind of core does not have takes no counter from others. */
	if (failed || !of_kind)
		kvm_pmu_set_limit(cpu, failed);
	return resched;
}

/* Do what is pending; interrupts are on again. */
static void kvm_pmu_work(struct irq_work *work)
{
	struct kvm_pmu_cpu *cpu = container_of(work, struct kvm_pmu_cpu,
					       later.work);
	unsigned int i;

	for (i = 0; i < KVM_PMU_NR_WARNINGS; i++) {
		if (test_and_clear_bit(i, &cpu->later.pending))
			pr_warn("%s\n", kvm_pmu_warnings[i]);
	}

	/* A flush may have opened all events again already. */
	if (test_and_clear_bit(KVM_PMU_OPEN_ANEW, &cpu->later.pending) &&
	    kvm_pmu_area_is_stale(cpu))
		kvm_pmu_open_anew(cpu);

	if (test_and_clear_bit(KVM_PMU_STOP_UNWANTED, &cpu->later.pending))
		kvm_pmu_stop_unwanted(cpu);

	if (test_and_clear_bit(KVM_PMU_GIVE_UP_LOST, &cpu->later.pending) &&
	    kvm_pmu_give_up_lost(cpu))
		set_bit(KVM_PMU_RESCHED, &cpu->later.pending);

	if (test_and_clear_bit(KVM_PMU_RESCHED, &cpu->later.pending))
		perf_pmu_resched(kvm_pmu);

	if (test_and_clear_bit(KVM_PMU_RESCHED_HYPERVISOR, &cpu->later.pending))
		kvm_pmu_hypervisor_resched(cpu);

	if (test_and_clear_bit(KVM_PMU_TAKE_OWED, &cpu->later.pending))
		kvm_pmu_take_owed(cpu);

	if (test_and_clear_bit(KVM_PMU_WRITE_PAGES, &cpu->later.pending))
		kvm_pmu_update_pages(cpu);

	if (test_and_clear_bit(KVM_PMU_START_WATCH, &cpu->later.pending) &&
	    !timer_pending(&cpu->later.watch))
		mod_timer(&cpu->later.watch, jiffies + KVM_PMU_WATCH);
}

/*
 * Stop backing events that were spare for long enough, and close those that are not
 * likely to be used again: each open event of the host is a claim on its PMU.
 */
static void kvm_pmu_reap(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_backing *backing;
	unsigned long unused;

	for_each_backing(cpu, backing) {
		unused = jiffies - backing->last_used;
		if (kvm_pmu_is_spare(backing) && unused >= KVM_PMU_WATCH)
			kvm_pmu_disable_host(backing);
		if (!backing->event && backing->host == KVM_PMU_STOPPED &&
		    unused >= KVM_PMU_KEEP)
			kvm_pmu_close(backing);
	}
}

/* Does the host tell of a change, by the area, and of lost counters, by an NMI? */
static bool kvm_pmu_host_tells(const struct kvm_pmu_cpu *cpu)
{
	return cpu->host.epoch && (READ_ONCE(kvm_pmu_host.features) & KVM_PERF_FEATURE_NOTIFY);
}

/*
 * Events of a CPU may run for ever without any operation: check that they still count.
 */
static void kvm_pmu_check(struct kvm_pmu_cpu *cpu)
{
	if (kvm_pmu_any(cpu, kvm_pmu_runs)) {
		if (kvm_pmu_area_is_stale(cpu) ||
		    (!kvm_pmu_host_tells(cpu) && !kvm_pmu_read_running(cpu)))
			kvm_pmu_open_anew(cpu);
		return;
	}

	/* By the time that an event runs again, the host may have taken counters. */
	cpu->limit.proven = (struct kvm_pmu_use) { };
	/* The host may be another one by now, and offer areas. */
	if (!cpu->host.epoch && !cpu->host.offline)
		kvm_pmu_area_renew(cpu);
	else if (cpu->hypervisor.wanted && kvm_pmu_area_is_stale(cpu))
		kvm_pmu_open_anew(cpu);
}

static void kvm_pmu_watch(struct timer_list *watch)
{
	struct kvm_pmu_cpu *cpu = container_of(watch, struct kvm_pmu_cpu,
					       later.watch);
	unsigned long flags;

	local_irq_save(flags);
	/* If its CPU has gone offline, the timer runs elsewhere. */
	if (cpu == this_cpu_read(kvm_pmu_cpu)) {
		kvm_pmu_reap(cpu);
		kvm_pmu_counts_reap(cpu);
		kvm_pmu_check(cpu);
		if (kvm_pmu_any_to_watch(cpu))
			mod_timer(watch, jiffies + KVM_PMU_WATCH);
	}
	local_irq_restore(flags);
}

static struct kmem_cache *kvm_pmu_cache;
static int kvm_pmu_dead_state;
static int kvm_pmu_online_state;

/* On the CPU itself. */
static int kvm_pmu_cpu_online(unsigned int nr)
{
	unsigned long flags;

	local_irq_save(flags);
	this_kvm_pmu_cpu()->host.offline = false;
	/* perf may have added events to this CPU already. */
	kvm_pmu_open_anew(this_kvm_pmu_cpu());
	local_irq_restore(flags);
	return 0;
}

/* On the CPU itself.  Its events may count on for a while. */
static int kvm_pmu_cpu_offline(unsigned int nr)
{
	unsigned long flags;

	local_irq_save(flags);
	this_kvm_pmu_cpu()->host.offline = true;
	kvm_pmu_area_end(this_kvm_pmu_cpu());
	local_irq_restore(flags);
	return 0;
}

/* The CPU is offline, and perf has removed its events. */
static int kvm_pmu_cpu_dead(unsigned int nr)
{
	struct kvm_pmu_cpu *cpu = per_cpu(kvm_pmu_cpu, nr);
	struct kvm_pmu_backing *backing;

	timer_delete_sync(&cpu->later.watch);
	cpu->hypervisor.wanted = 0;
	for_each_backing(cpu, backing) {
		if (backing->host != KVM_PMU_CLOSED)
			kvm_pmu_close(backing);
	}

	return 0;
}

/*
 * IRQs off, on the last CPU.  A copy of this kernel may resume, with an area in its
 * memory that the host does not know any more.  The kernel that loads the copy has
 * events of its own.
 */
static int kvm_pmu_suspend(void *data)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();

	kvm_pmu_forget_all(cpu);
	kvm_perf_op(KVM_PERF_OP_RESET, 0, 0);
	kvm_pmu_area_end(cpu);
	return 0;
}

static void kvm_pmu_resume(void *data)
{
	kvm_pmu_open_anew(this_kvm_pmu_cpu());
}

static const struct syscore_ops kvm_pmu_syscore_ops = {
	.suspend	= kvm_pmu_suspend,
	.resume		= kvm_pmu_resume,
};

static struct syscore kvm_pmu_syscore = {
	.ops = &kvm_pmu_syscore_ops,
};

/* The irq_work may start the timer, and the timer the irq_work: wait for each twice. */
static void kvm_pmu_cpu_quiesce(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_backing *backing;

	for_each_backing(cpu, backing)
		backing->host = KVM_PMU_CLOSED;
	cpu->hypervisor.wanted = 0;

	irq_work_sync(&cpu->later.work);
	timer_delete_sync(&cpu->later.watch);
	irq_work_sync(&cpu->later.work);
	timer_delete_sync(&cpu->later.watch);
}

static void kvm_pmu_cpu_free(struct kvm_pmu_cpu *cpu)
{
	kfree(cpu->nmi.branches);
	free_page((unsigned long)cpu->host.area);
	kmem_cache_free(kvm_pmu_cache, cpu);
}

static struct kvm_pmu_cpu *kvm_pmu_cpu_create(int nr)
{
	struct kvm_pmu_backing *backing;
	struct kvm_pmu_cpu *cpu;
	unsigned int i;

	cpu = kmem_cache_alloc_node(kvm_pmu_cache, GFP_KERNEL | __GFP_ZERO,
				    cpu_to_node(nr));
	if (!cpu)
		return NULL;

	cpu->host.area = (void *)get_zeroed_page(GFP_KERNEL);
	if (!cpu->host.area || kvm_pmu_branches_alloc(cpu)) {
		kvm_pmu_cpu_free(cpu);
		return NULL;
	}

	cpu->later.work = IRQ_WORK_INIT_HARD(kvm_pmu_work);
	INIT_CSD(&cpu->user.page_call, kvm_pmu_pages_due, cpu);
	/*
	 * An idle CPU needs no watch, so the timer is deferrable.  A busy CPU without a
	 * tick would not run a deferrable timer.
	 */
	timer_setup(&cpu->later.watch, kvm_pmu_watch, TIMER_PINNED |
		    (tick_nohz_full_cpu(nr) ? 0 : TIMER_DEFERRABLE));
	for (i = 0; i < KVM_PMU_NR_BACKING; i++) {
		backing = &cpu->backing[i];
		backing->param.id = nr * KVM_PMU_NR_BACKING + i;
		backing->param.attr_addr = virt_to_phys(&backing->attr);
		backing->param.event_addr = virt_to_phys(&backing->record);
	}

	return cpu;
}

static void kvm_pmu_free_cpus(void)
{
	int nr;

	for_each_possible_cpu(nr) {
		if (per_cpu(kvm_pmu_cpu, nr))
			kvm_pmu_cpu_free(per_cpu(kvm_pmu_cpu, nr));
		per_cpu(kvm_pmu_cpu, nr) = NULL;
	}
	kmem_cache_destroy(kvm_pmu_cache);
}

/**
 * kvm_pmu_cpus_create - prepare all CPUs
 *
 * Return: 0 or -E*.
 */
int kvm_pmu_cpus_create(void)
{
	int nr, ret;

	kvm_pmu_cache = KMEM_CACHE(kvm_pmu_cpu, 0);
	if (!kvm_pmu_cache)
		return -ENOMEM;

	ret = -ENOMEM;
	for_each_possible_cpu(nr) {
		per_cpu(kvm_pmu_cpu, nr) = kvm_pmu_cpu_create(nr);
		if (!per_cpu(kvm_pmu_cpu, nr))
			goto free_cpus;
	}

	ret = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "perf/kvm_pmu:dead",
					NULL, kvm_pmu_cpu_dead);
	if (ret < 0)
		goto free_cpus;

	kvm_pmu_dead_state = ret;
	return 0;

free_cpus:
	kvm_pmu_free_cpus();
	return ret;
}

static void kvm_pmu_quiesce(void)
{
	int nr;

	for_each_possible_cpu(nr)
		kvm_pmu_cpu_quiesce(per_cpu(kvm_pmu_cpu, nr));
}

/* Wait for calls that are due, then for calls that run, with interrupts off. */
static void kvm_pmu_wait_for_page_calls(void)
{
	int nr;

	for_each_possible_cpu(nr) {
		while (READ_ONCE(per_cpu(kvm_pmu_cpu, nr)->user.pages_due))
			msleep(20);
	}
	synchronize_rcu();
}

/**
 * kvm_pmu_cpus_destroy - free the state of all CPUs
 *
 * No perf_event and no area is left, and no NMI looks at the state of a CPU.
 */
void kvm_pmu_cpus_destroy(void)
{
	kvm_pmu_quiesce();
	kvm_pmu_wait_for_page_calls();
	cpuhp_remove_state_nocalls(kvm_pmu_dead_state);
	/* The host might still know the area of a CPU that went offline meanwhile. */
	kvm_perf_op(KVM_PERF_OP_RESET, 0, 0);
	kvm_pmu_free_cpus();
}

/**
 * kvm_pmu_areas_create - set an area for each CPU that is online
 *
 * NMIs are handled already.
 *
 * Return: 0 or -E*.
 */
int kvm_pmu_areas_create(void)
{
	int ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "perf/kvm_pmu:online",
				    kvm_pmu_cpu_online, kvm_pmu_cpu_offline);

	if (ret < 0)
		return ret;

	kvm_pmu_online_state = ret;
	register_syscore(&kvm_pmu_syscore);
	return 0;
}

/**
 * kvm_pmu_areas_destroy - end all areas
 *
 * No perf_event is left.
 */
void kvm_pmu_areas_destroy(void)
{
	unregister_syscore(&kvm_pmu_syscore);
	/* First: a timer or an irq_work may set an area. */
	kvm_pmu_quiesce();
	cpuhp_remove_state(kvm_pmu_online_state);
}
