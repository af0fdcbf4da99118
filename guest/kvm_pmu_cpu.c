// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: CPUs come and go.
 */
#include <linux/cpuhotplug.h>
#include <linux/delay.h>
#include <linux/irq_work.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/syscore_ops.h>
#include <linux/tick.h>
#include <linux/timer.h>

#include "compat.h"
#include "kvm_pmu.h"

DEFINE_PER_CPU(struct kvm_pmu_cpu *, kvm_pmu_cpu);

static struct kmem_cache *kvm_pmu_cache;
static int kvm_pmu_dead_state;
static int kvm_pmu_online_state;

/* On the CPU itself. */
static int kvm_pmu_cpu_online(unsigned int nr)
{
	unsigned long flags;

	local_irq_save(flags);
	this_kvm_pmu_cpu()->offline = false;
	/* perf may have opened some on it already. */
	kvm_pmu_open_anew(this_kvm_pmu_cpu());
	local_irq_restore(flags);
	return 0;
}

/* As above.  Its events may count on for a while. */
static int kvm_pmu_cpu_offline(unsigned int nr)
{
	unsigned long flags;

	local_irq_save(flags);
	this_kvm_pmu_cpu()->offline = true;
	kvm_pmu_area_end(this_kvm_pmu_cpu());
	local_irq_restore(flags);
	return 0;
}

/* Of a CPU that is offline; perf has removed its events. */
static int kvm_pmu_cpu_dead(unsigned int nr)
{
	struct kvm_pmu_cpu *cpu = per_cpu(kvm_pmu_cpu, nr);
	unsigned int i;

	timer_delete_sync(&cpu->watch);
	cpu->watching = false;
	cpu->counts = 0;
	for (i = 0; i < cpu->nr_open; i++) {
		if (cpu->counters[i].host != KVM_PMU_CLOSED)
			kvm_pmu_close(&cpu->counters[i]);
	}

	return 0;
}

/*
 * The last CPU, with interrupts off.  The kernel that goes on may be a copy of this
 * one, whose memory tells of an area that the host does not know any more; and the
 * one that loads it has events of its own.
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

/* Each of the two may start the other, once. */
static void kvm_pmu_cpu_quiesce(struct kvm_pmu_cpu *cpu)
{
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++)
		cpu->counters[i].host = KVM_PMU_CLOSED;
	cpu->counts = 0;

	irq_work_sync(&cpu->work);
	timer_delete_sync(&cpu->watch);
	irq_work_sync(&cpu->work);
	timer_delete_sync(&cpu->watch);
}

static void kvm_pmu_cpu_free(struct kvm_pmu_cpu *cpu)
{
	kfree(cpu->branch_stack);
	kvm_pmu_area_free(cpu);
	kmem_cache_free(kvm_pmu_cache, cpu);
}

static struct kvm_pmu_cpu *kvm_pmu_cpu_create(int nr)
{
	struct kvm_pmu_counter *counter;
	struct kvm_pmu_cpu *cpu;
	unsigned int i;

	cpu = kmem_cache_alloc_node(kvm_pmu_cache, GFP_KERNEL | __GFP_ZERO,
				    cpu_to_node(nr));
	if (!cpu)
		return NULL;

	if (kvm_pmu_area_alloc(cpu) || kvm_pmu_branches_alloc(cpu)) {
		kvm_pmu_cpu_free(cpu);
		return NULL;
	}

	cpu->work = IRQ_WORK_INIT_HARD(kvm_pmu_work);
	INIT_CSD(&cpu->page_call, kvm_pmu_update_pages, cpu);
	/*
	 * A CPU that is idle has nothing to lose.  But one that is busy without a tick runs
	 * no deferrable timer.
	 */
	timer_setup(&cpu->watch, kvm_pmu_watch, TIMER_PINNED |
		    (tick_nohz_full_cpu(nr) ? 0 : TIMER_DEFERRABLE));
	cpu->limit = kvm_pmu_host.nr_counters;
	for (i = 0; i < KVM_PMU_NR_COUNTERS; i++) {
		counter = &cpu->counters[i];
		counter->param.id = nr * KVM_PMU_NR_COUNTERS + i;
		counter->param.attr_addr = virt_to_phys(&counter->attr);
		counter->param.event_addr = virt_to_phys(&counter->record);
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
 * kvm_pmu_counters_create - prepare the counters of all CPUs
 *
 * Return: 0 or -E*.
 */
int kvm_pmu_counters_create(void)
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

/* For those that are due; then for those that run, with interrupts off. */
static void kvm_pmu_wait_for_page_calls(void)
{
	int nr;

	for_each_possible_cpu(nr) {
		while (READ_ONCE(per_cpu(kvm_pmu_cpu, nr)->page_call.node.u_flags) &
		       CSD_FLAG_LOCK)
			msleep(20);
	}
	synchronize_rcu();
}

/**
 * kvm_pmu_counters_destroy - free the counters of all CPUs
 *
 * No perf_event is left, no area, and no NMI looks at the counters.
 */
void kvm_pmu_counters_destroy(void)
{
	kvm_pmu_quiesce();
	kvm_pmu_wait_for_page_calls();
	cpuhp_remove_state_nocalls(kvm_pmu_dead_state);
	/* Of a CPU that went offline meanwhile, the host might still know an area. */
	kvm_perf_op(KVM_PERF_OP_RESET, 0, 0);
	kvm_pmu_free_cpus();
}

/**
 * kvm_pmu_areas_create - have the host keep an area for each CPU that is online
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
 * kvm_pmu_areas_destroy - have it keep none
 *
 * No perf_event is left.
 */
void kvm_pmu_areas_destroy(void)
{
	unregister_syscore(&kvm_pmu_syscore);
	/* First, as what they find may set an area. */
	kvm_pmu_quiesce();
	cpuhp_remove_state(kvm_pmu_online_state);
}
