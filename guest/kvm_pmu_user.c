// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: reading counters in user mode.
 *
 * As with x86's own PMU, perf's page of a mapped event (struct perf_event_mmap_page)
 * tells the program which counter to read by RDPMC, and what to add.  The driver copies
 * these from the event's record to the page.  If the host changes the record, it sends
 * an NMI, so that the driver writes the page before user mode executes anything else.
 *
 * RDPMC has no mask: a program that may execute it reads every counter of its CPU.  So
 * no backing event is spare while such a program runs, and the host keeps counters that
 * do not run at 0 (struct guest_perf_event).  Counters of events that count this task,
 * or its CPU, can be read, as with x86's own PMU.
 *
 * An event may count and yet have no counter that can be read.  Then its page has no
 * cap_user_rdpmc, and the program needs read().  The host does not tell when a counter
 * can be read again; the read() finds out.
 *
 * A context switch begins:
 *
 *	kvm_pmu_user_switch()
 *	    kvm_pmu_task_reads()		of both tasks: user.reads
 *	    kvm_pmu_stop_spare()		if the new task may execute RDPMC
 *	        kvm_pmu_flush()			stops spare backing events
 *	        kvm_pmu_samples_due()		samples that the old task is owed
 *
 * The permission of a program changes:
 *
 *	kvm_pmu_event_mapped()			or kvm_pmu_event_unmapped()
 *	    kvm_pmu_user_permit()		the first event: waits for switches under way
 *	        kvm_pmu_user_changed()		on each CPU of the program
 *	            kvm_pmu_stop_spare()
 *	            kvm_pmu_update_pages()
 *	            cr4_update_pce()
 */
#include <linux/hash.h>
#include <linux/irq_work.h>
#include <linux/jump_label.h>
#include <linux/mmap_lock.h>
#include <linux/mmu_context.h>
#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>

#include <asm/ptrace.h>

#include <trace/events/sched.h>

#include "compat.h"
#include "kvm_pmu.h"
#include "kvm_pmu_rdpmc.h"

/* Of perf_event.hw.flags: user mode may read it. */
#define KVM_PMU_USER_READ	1

/* The opposite of the file rdpmc; the mutex is held to change it. */
static bool kvm_pmu_user_off;
static DEFINE_MUTEX(kvm_pmu_user_mutex);

/* kvm_pmu_user_switch() sees each context switch. */
static bool kvm_pmu_user_guarded;

/**
 * kvm_pmu_user_possible - could user mode read counters?
 */
bool kvm_pmu_user_possible(void)
{
	const u32 needed = KVM_PERF_FEATURE_AREA | KVM_PERF_FEATURE_RDPMC_USER;

	return kvm_pmu_user_guarded &&
	       READ_ONCE(kvm_pmu_host.rdpmc) == KVM_PERF_RDPMC_ALLOWED &&
	       (READ_ONCE(kvm_pmu_host.features) & needed) == needed;
}

/**
 * kvm_pmu_user_allowed - may user mode read counters?
 *
 * As the file rdpmc in sysfs says.
 */
bool kvm_pmu_user_allowed(void)
{
	return kvm_pmu_user_possible() && !READ_ONCE(kvm_pmu_user_off);
}

#define KVM_PMU_MAPPING_BITS	6

/* By the hash of a memory map: how many of them are about to get the permission. */
static atomic_t kvm_pmu_user_mapping[1 << KVM_PMU_MAPPING_BITS];

static atomic_t *kvm_pmu_mapping_of(const struct mm_struct *mm)
{
	return &kvm_pmu_user_mapping[hash_ptr(mm, KVM_PMU_MAPPING_BITS)];
}

/*
 * May the task execute RDPMC in user mode, or may it soon?  A child inherits the
 * permission.  Whatever the file rdpmc says: while it changes, some CPUs may still have
 * CR4.PCE, or have it already.
 */
static bool kvm_pmu_task_reads(const struct task_struct *task)
{
	const struct mm_struct *mm = task->mm;

	/* Acquire: if the permission is not about to be given any more, it is seen. */
	return mm && (atomic_read_acquire(kvm_pmu_mapping_of(mm)) ||
		      atomic_read(&mm->context.perf_rdpmc_allowed));
}

/* Takes samples that are owed. */
static void (*kvm_pmu_samples_due)(struct kvm_pmu_cpu *cpu);

static void kvm_pmu_stop_spare(struct kvm_pmu_cpu *cpu)
{
	if (!kvm_pmu_any(cpu, kvm_pmu_is_spare))
		return;

	cpu->flush.due = true;
	kvm_pmu_flush(cpu);
	/* The samples are the leaving task's.  The work would run in the next task. */
	if (cpu->nmi.owing && !cpu->busy)
		kvm_pmu_samples_due(cpu);
}

/*
 * IRQs off, rq->lock held; called before perf schedules the events of @prev out.  If
 * @prev or @next reads counters, the flush for @prev's events stops their counters.
 * This function stops backing events that are spare since an earlier switch.
 */
static void kvm_pmu_user_switch(void *data, bool preempt,
				struct task_struct *prev,
				struct task_struct *next,
				unsigned int prev_state)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();
	bool reads = kvm_pmu_task_reads(next);

	cpu->user.reads = reads || kvm_pmu_task_reads(prev);
	if (reads)
		kvm_pmu_stop_spare(cpu);
}

/*
 * Called on each CPU when the permission of its current task has changed.  IRQs off, so
 * perf is not at work on the CPU's events.
 */
static void kvm_pmu_user_changed(void *unused)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();

	cpu->user.reads = kvm_pmu_task_reads(current);
	if (cpu->user.reads)
		kvm_pmu_stop_spare(cpu);
	kvm_pmu_update_pages(cpu);
	/* Uses the permission of the current mm. */
	cr4_update_pce(NULL);
}

static void kvm_pmu_user_set(bool allowed)
{
	mutex_lock(&kvm_pmu_user_mutex);
	if (allowed == kvm_pmu_user_off) {
		WRITE_ONCE(kvm_pmu_user_off, !allowed);
		if (allowed)
			static_branch_dec(&rdpmc_never_available_key);
		else
			static_branch_inc(&rdpmc_never_available_key);
		on_each_cpu(kvm_pmu_user_changed, NULL, 1);
	}
	mutex_unlock(&kvm_pmu_user_mutex);
}

/**
 * kvm_pmu_user_create - if the host allows it, prepare to let user mode read counters
 * @take_owed: takes the samples of overflows while perf was at work
 *
 * Return: 0, or -E* if the host allows it and the preparation failed.
 */
int kvm_pmu_user_create(void (*take_owed)(struct kvm_pmu_cpu *cpu))
{
	int ret;

	if (kvm_pmu_host.rdpmc != KVM_PERF_RDPMC_ALLOWED)
		return 0;

	kvm_pmu_samples_due = take_owed;
	ret = register_trace_sched_switch(kvm_pmu_user_switch, NULL);
	kvm_pmu_user_guarded = !ret;
	return ret;
}

#ifdef MODULE
/**
 * kvm_pmu_user_destroy - undo kvm_pmu_user_create()
 *
 * No event is open.
 */
void kvm_pmu_user_destroy(void)
{
	if (!kvm_pmu_user_guarded)
		return;

	kvm_pmu_user_set(true);
	kvm_pmu_user_guarded = false;
	unregister_trace_sched_switch(kvm_pmu_user_switch, NULL);
	tracepoint_synchronize_unregister();
}
#endif

/**
 * kvm_pmu_user_allow - let user mode read counters, or not, as the file rdpmc says
 * @allowed: whether it may
 *
 * As with x86's own PMU, no program reads a counter by RDPMC once this returns, if it is
 * not allowed.  A program that had mapped an event reads 0, and finds in the event's page
 * that the program has to ask perf.
 *
 * Return: 0, or -EOPNOTSUPP if it cannot be allowed.
 */
int kvm_pmu_user_allow(bool allowed)
{
	if (allowed && !kvm_pmu_user_possible())
		return -EOPNOTSUPP;
	if (!kvm_pmu_user_guarded)
		return 0;

	kvm_pmu_user_set(allowed);
	return 0;
}

/**
 * kvm_pmu_user_attr - flags that let user mode read an event
 *
 * For each event that the kernel reads by RDPMC: mapped and other events share backing
 * events.
 *
 * Return: flags of struct guest_perf_attr.
 */
u64 kvm_pmu_user_attr(void)
{
	return kvm_pmu_user_guarded ? KVM_PERF_ATTR_RDPMC_USER : 0;
}

/**
 * kvm_pmu_user_init_event - see whether user mode may read an event that is opened
 * @event: the event
 */
void kvm_pmu_user_init_event(struct perf_event *event)
{
	if (kvm_pmu_user_allowed() &&
	    (to_kvm_pmu_config(event)->attr.flags & KVM_PERF_ATTR_RDPMC_USER))
		event->hw.flags |= KVM_PMU_USER_READ;
}

/*
 * A context switch to another thread of the program sets CR4.PCE by the permission, after
 * kvm_pmu_user_switch() has looked.  So each switch that begins from now on takes the
 * program for one that reads, and those under way, which have interrupts off, end before
 * the program gets the permission.
 */
static void kvm_pmu_user_permit(struct mm_struct *mm)
{
	atomic_t *mapping = kvm_pmu_mapping_of(mm);

	atomic_inc(mapping);
	synchronize_rcu();
	atomic_inc(&mm->context.perf_rdpmc_allowed);
	on_each_cpu_mask(mm_cpumask(mm), kvm_pmu_user_changed, NULL, 1);
	/* Release: pairs with the acquire of kvm_pmu_task_reads(). */
	atomic_dec_return_release(mapping);
}

/**
 * kvm_pmu_event_mapped - let a program execute RDPMC in user mode
 * @event: an event that it has mapped
 * @mm: its memory map, locked for writing, so that no other call for it returns before
 *	all CPUs let the program read
 *
 * The first mapping of a program waits for a grace period of RCU.
 */
void kvm_pmu_event_mapped(struct perf_event *event, struct mm_struct *mm)
{
	if (!(event->hw.flags & KVM_PMU_USER_READ))
		return;

	mmap_assert_write_locked(mm);
	if (atomic_read(&mm->context.perf_rdpmc_allowed))
		atomic_inc(&mm->context.perf_rdpmc_allowed);
	else
		kvm_pmu_user_permit(mm);
}

/**
 * kvm_pmu_event_unmapped - undo kvm_pmu_event_mapped()
 * @event: an event that it has unmapped; others may be mapped
 * @mm: its memory map
 */
void kvm_pmu_event_unmapped(struct perf_event *event, struct mm_struct *mm)
{
	if (!(event->hw.flags & KVM_PMU_USER_READ))
		return;

	if (atomic_dec_and_test(&mm->context.perf_rdpmc_allowed))
		on_each_cpu_mask(mm_cpumask(mm), kvm_pmu_user_changed, NULL, 1);
}

/*
 * Find the counter of a backing event.  Returns false if it cannot be read, or if no
 * NMI would tell when that ends.  If the host could not write the record, RDPMC faults.
 */
static bool kvm_pmu_find_pmc(const struct kvm_pmu_cpu *cpu,
			     const struct kvm_pmu_backing *backing, u32 *pmc)
{
	u64 value;

	*pmc = READ_ONCE(backing->record.pmc);
	return (*pmc & KVM_PERF_PMC_INDEX) && kvm_pmu_user_possible() &&
	       kvm_pmu_area_tells(cpu) &&
	       kvm_pmu_rdpmc_safe(kvm_pmu_ecx(*pmc), &value);
}

/* An interrupt may have changed the count since perf wrote it to the page. */
static void kvm_pmu_set_page(struct perf_event *event,
			     struct perf_event_mmap_page *page)
{
	u64 prev;

	page->index = 0;
	page->offset = kvm_pmu_total(event, &prev);
}

/*
 * For an event that counts here.  At its last update, the count of the backing event was
 * prev_count.  The backing event has counted the rest since.  Returns whether user mode
 * can read the count.
 */
static bool kvm_pmu_set_page_pmc(const struct kvm_pmu_cpu *cpu,
				 const struct kvm_pmu_backing *backing,
				 struct perf_event *event,
				 struct perf_event_mmap_page *page)
{
	u64 prev, total;
	u32 pmc;

	if (!kvm_pmu_find_pmc(cpu, backing, &pmc))
		return false;

	total = kvm_pmu_total(event, &prev);
	page->index = kvm_pmu_ecx(pmc) + 1;
	page->offset = total - prev + READ_ONCE(backing->record.offset);
	page->pmc_width = KVM_PMU_PMC_WIDTH;
	return true;
}

/*
 * Only the event's own CPU knows where the event can be read.  If both CPUs write the
 * page at the same time, that CPU writes last, because this CPU calls it when it has
 * written.  If that CPU is called already, it has yet to look at the page.
 *
 * Two CPUs must not make the call at the same time: that would corrupt the list of calls.
 */
static void kvm_pmu_have_page_written(int nr)
{
	struct kvm_pmu_user *user = &per_cpu(kvm_pmu_cpu, nr)->user;

	if (test_and_set_bit(0, &user->pages_due))
		return;

	/* If that CPU is offline, the CPU on which the event counts next writes the page. */
	if (smp_call_function_single_async(nr, &user->page_call))
		clear_bit(0, &user->pages_due);
}

/* For any event.  Returns whether user mode can read its count.  IRQs off. */
static bool kvm_pmu_fill_page(const struct kvm_pmu_cpu *cpu,
			      struct perf_event *event,
			      struct perf_event_mmap_page *page)
{
	const struct kvm_pmu_backing *backing;
	int on = kvm_pmu_on_cpu(event);

	if (on >= 0 && on != smp_processor_id()) {
		kvm_pmu_have_page_written(on);
		return false;
	}

	if (on >= 0 && event->hw.idx >= 0) {
		backing = &cpu->backing[event->hw.idx];
		/* The flush will tell the final count. */
		if (backing->leaving == event)
			return false;
		if (READ_ONCE(backing->state) == KVM_PMU_COUNTING)
			return kvm_pmu_set_page_pmc(cpu, backing, event, page);
	}

	kvm_pmu_set_page(event, page);
	return true;
}

/**
 * kvm_pmu_user_page - write to an event's page how user mode reads the event
 * @event: any event
 * @page: its page, whose lock has been incremented, with the event's count in it and
 *	no index
 *
 * Called by perf, also in an interrupt during another call: both write the page from
 * the current record.  Not in an NMI, which leaves it to the irq_work.
 */
void kvm_pmu_user_page(struct perf_event *event,
		       struct perf_event_mmap_page *page)
{
	unsigned long flags;

	if (!kvm_pmu_is_ours(event) || !(event->hw.flags & KVM_PMU_USER_READ))
		return;

	/* Before another CPU is called, which may write 1. */
	page->cap_user_rdpmc = 0;
	/* Reads may have been allowed only when the event was opened. */
	if (!kvm_pmu_user_allowed())
		return;

	local_irq_save(flags);
	if (kvm_pmu_fill_page(this_kvm_pmu_cpu(), event, page))
		page->cap_user_rdpmc = 1;
	local_irq_restore(flags);
}

/**
 * kvm_pmu_update_pages - write the pages of all events of a CPU
 * @cpu: this CPU's
 *
 * Interrupts are off; not in NMI context.
 */
void kvm_pmu_update_pages(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_backing *backing;

	for_each_backing(cpu, backing) {
		if (backing->event)
			kvm_pmu_page_changed(cpu, backing->event);
	}
}

/**
 * kvm_pmu_pages_due - the call of another CPU to write the pages of this CPU's events
 * @info: this CPU's struct kvm_pmu_cpu
 *
 * Interrupts are off.  The call can be made again from here on: the kernel has unlocked it.
 */
void kvm_pmu_pages_due(void *info)
{
	struct kvm_pmu_cpu *cpu = info;

	clear_bit(0, &cpu->user.pages_due);
	/* Before it looks: a CPU that changes a page later calls again. */
	smp_mb__after_atomic();
	kvm_pmu_update_pages(cpu);
}

/**
 * kvm_pmu_look_at_pmc - see whether an event can still be read at the same counter
 * @cpu: this CPU's
 * @backing: its backing event, with KVM_PERF_ATTR_RDPMC_USER
 *
 * In NMI context.
 *
 * Return: the maximum of NMIs that the host has sent for that.
 */
unsigned int kvm_pmu_look_at_pmc(struct kvm_pmu_cpu *cpu,
				 struct kvm_pmu_backing *backing)
{
	u32 old = backing->pmc;
	u16 changes;

	kvm_pmu_note_pmc(backing);
	changes = backing->pmc / KVM_PERF_PMC_CHANGE_ONE -
		  old / KVM_PERF_PMC_CHANGE_ONE;
	/* The host sends no NMI for the first counter after none. */
	if (changes && !(old & KVM_PERF_PMC_INDEX))
		changes--;

	if (changes && READ_ONCE(backing->state) != KVM_PMU_FREE)
		kvm_pmu_page_changed(cpu, backing->event);
	return changes;
}

static bool kvm_pmu_is_rdpmc(unsigned long ip)
{
	static const u8 rdpmc[] = { 0x0f, 0x33 };
	u8 insn[sizeof(rdpmc)];

	return !copy_from_user_nofault(insn, (void __user *)ip, sizeof(insn)) &&
	       !memcmp(insn, rdpmc, sizeof(insn));
}

/**
 * kvm_pmu_user_fixup - let an allowed RDPMC of user mode read 0 instead of faulting
 * @regs: of user mode, which has got #GP
 *
 * After the program has read the index from the page, the CPU may have come to a host
 * that does not allow RDPMC.  The page has changed or will change, so the program does
 * not use what it has read.
 *
 * Return: false if the exception is for something else.
 */
bool kvm_pmu_user_fixup(struct pt_regs *regs)
{
	unsigned long flags;

	if (!user_mode(regs) || !this_kvm_pmu_cpu() ||
	    !atomic_read(&current->mm->context.perf_rdpmc_allowed) ||
	    !kvm_pmu_is_rdpmc(regs->ip))
		return false;

	regs->ip += 2;
	regs->ax = 0;
	regs->dx = 0;

	local_irq_save(flags);
	if (kvm_pmu_area_is_stale(this_kvm_pmu_cpu()))
		kvm_pmu_pend(this_kvm_pmu_cpu(), KVM_PMU_OPEN_ANEW);
	kvm_pmu_pend(this_kvm_pmu_cpu(), KVM_PMU_WRITE_PAGES);
	local_irq_restore(flags);
	return true;
}
