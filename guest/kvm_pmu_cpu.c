// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: CPUs come and go.
 */
#include <linux/cpuhotplug.h>
#include <linux/irq_work.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/timer.h>

#include "kvm_pmu.h"

DEFINE_PER_CPU(struct kvm_pmu_cpu *, kvm_pmu_cpu);

static struct kmem_cache *kvm_pmu_cache;
static int kvm_pmu_cpuhp_state;

/* Of a CPU that is offline; perf has removed its events. */
static int kvm_pmu_cpu_dead(unsigned int nr)
{
	struct kvm_pmu_cpu *cpu = per_cpu(kvm_pmu_cpu, nr);
	unsigned int i;

	timer_delete_sync(&cpu->watch);
	cpu->watching = false;
	for (i = 0; i < cpu->nr_open; i++) {
		if (cpu->counters[i].host != KVM_PMU_CLOSED)
			kvm_pmu_close(&cpu->counters[i]);
	}

	return 0;
}

/* Each of the two may start the other, once. */
static void kvm_pmu_cpu_quiesce(struct kvm_pmu_cpu *cpu)
{
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++)
		cpu->counters[i].host = KVM_PMU_CLOSED;

	irq_work_sync(&cpu->work);
	timer_delete_sync(&cpu->watch);
	irq_work_sync(&cpu->work);
	timer_delete_sync(&cpu->watch);
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

	cpu->work = IRQ_WORK_INIT_HARD(kvm_pmu_work);
	/* Deferrable: a CPU that is idle has nothing to lose. */
	timer_setup(&cpu->watch, kvm_pmu_watch, TIMER_PINNED | TIMER_DEFERRABLE);
	cpu->limit = kvm_pmu_host->nr_counters;
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
			kmem_cache_free(kvm_pmu_cache, per_cpu(kvm_pmu_cpu, nr));
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

	kvm_pmu_cpuhp_state = ret;
	return 0;

free_cpus:
	kvm_pmu_free_cpus();
	return ret;
}

/**
 * kvm_pmu_counters_destroy - free the counters of all CPUs
 *
 * No perf_event is left, nothing is open at the host, and no NMI looks at the
 * counters.
 */
void kvm_pmu_counters_destroy(void)
{
	int nr;

	cpuhp_remove_state_nocalls(kvm_pmu_cpuhp_state);
	for_each_possible_cpu(nr)
		kvm_pmu_cpu_quiesce(per_cpu(kvm_pmu_cpu, nr));
	kvm_pmu_free_cpus();
}
