// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's memory, locks, RCU, interrupts and files, as stand_in.h
 * declares them.
 */
#include <sched.h>
#include <stdarg.h>

#include "stand_in.h"

#include <linux/xarray.h>

char log_line[256];
int log_lines;
__thread bool trace_on;
__thread char trace_line[256];

struct faults alloc_faults, guest_faults;
void (*sleep_hook)(const char *where);

struct cpu cpus[NR_CPUS];
__thread struct task_struct *current;
/* The CPU in whose name this thread acts, + 1; 0: its task's CPU. */
static __thread int acting_cpu;
static __thread bool irqs_off;

struct cpuinfo_x86 boot_cpu_data = { 0x17, X86_VENDOR_AMD, 48, 0x31, 0x8301055 };
u32 cpu_signature = 0x830f10;
bool cpu_has_perfctr_core = true, cpu_has_perfctr_nb, cpu_has_hybrid;
bool cpu_has_pdcm, cpu_has_tsx_force_abort, cpu_has_lbr_v2;
unsigned int cpu_branches = NR_BRANCHES;
bool enable_vmware_backdoor;
bool enable_pmu = true;
u32 cpuid_fixed;
u64 perf_capabilities, perf_metrics;
bool cpu_has_metrics;
bool cpu_has_hypervisor;
u64 selects[NR_CPUS][NR_COUNTERS], select_drops;
struct x86_pmu_capability pmu_capability = {
	.version = 2, .num_counters_gp = NR_COUNTERS, .bit_width_gp = 48,
};

static u64 *select_of(u32 msr)
{
	unsigned int i = (msr - MSR_F15H_PERF_CTL) / 2;

	return msr >= MSR_F15H_PERF_CTL && i < NR_COUNTERS ?
	       &selects[smp_processor_id()][i] : NULL;
}

/* The counters of the kinds; all have three fixed ones. */
static bool has_counter(u32 msr)
{
	if (msr >= MSR_CORE_PERF_FIXED_CTR0 && msr < MSR_CORE_PERF_FIXED_CTR0 + 16)
		return msr < MSR_CORE_PERF_FIXED_CTR0 + 3;
	if (msr >= MSR_ARCH_PERFMON_PERFCTR0 && msr < MSR_ARCH_PERFMON_PERFCTR0 + 16)
		return (int)(msr - MSR_ARCH_PERFMON_PERFCTR0) <
		       nr_counters(smp_processor_id());

	return true;
}

u32 cpuid_eax(u32 leaf)
{
	if (leaf == 0xa)
		return pmu_capability.bit_width_gp << 16 | pmu_capability.version;

	if (leaf == 1)
		return cpu_signature;

	CHECK(leaf == 0x1a);
	return (u32)kind_cores[kind_of(smp_processor_id())] << 24 | 1;
}

int rdmsrl_safe(u32 msr, u64 *p)
{
	if ((msr == MSR_PERF_METRICS && !cpu_has_metrics) || !has_counter(msr))
		return -EIO;

	*p = select_of(msr) ? *select_of(msr) :
	     msr == MSR_PERF_METRICS ? perf_metrics : perf_capabilities;
	return 0;
}

int wrmsrl_safe(u32 msr, u64 value)
{
	CHECK(irqs_are_off() && select_of(msr));
	/* While the counter counts, it belongs to perf. */
	CHECK(!(*select_of(msr) & ARCH_PERFMON_EVENTSEL_ENABLE));
	*select_of(msr) = value & ~select_drops;
	return 0;
}

void fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: CHECK failed: %s\n", file, line, what);
	abort();
}

bool fault(struct faults *faults)
{
	/* Threads share the faults, but only while fail_at is 0. */
	if (!faults->fail_at)
		return false;

	return ++faults->seen == faults->fail_at;
}

void might_sleep_at(const char *where)
{
	CHECK(!irqs_off);
	CHECK(!rcu_read_ongoing());
	if (sleep_hook)
		sleep_hook(where);
}

const char *trace_symbol_name(unsigned long value,
			      const struct trace_symbol *symbols)
{
	static __thread char number[20];

	for (; symbols->name; symbols++)
		if (symbols->value == value)
			return symbols->name;

	snprintf(number, sizeof(number), "0x%lx", value);
	return number;
}

/* Memory */

struct kmem_cache *radix_tree_node_cachep;

u64 charged;

void *kmalloc(size_t size, gfp_t gfp)
{
	if (gfp & __GFP_ACCOUNT)
		__sync_fetch_and_add(&charged, size);
	if (gfp & __GFP_DIRECT_RECLAIM)
		might_sleep_at("kmalloc");
	if (fault(&alloc_faults) ||
	    (alloc_faults.fail_at && alloc_faults.seen > alloc_faults.fail_at))
		return NULL;

	return gfp & __GFP_ZERO ? calloc(1, size) : malloc(size);
}

void kfree(void *p)
{
	free(p);
}

/* The only cache has the xarray's nodes. */
void *kmem_cache_alloc_lru(struct kmem_cache *cachep, struct list_lru *lru,
			   int gfp)
{
	struct xa_node *node = kmalloc(sizeof(*node), gfp | __GFP_ZERO);

	/* The cache's constructor. */
	if (node)
		INIT_LIST_HEAD(&node->private_list);
	return node;
}

void kmem_cache_free(struct kmem_cache *cachep, void *node)
{
	free(node);
}

void radix_tree_node_rcu_free(struct rcu_head *head)
{
	free(container_of(head, struct xa_node, rcu_head));
}

int lockdep_is_held(const void *lock)
{
	return 1;
}

/* RCU */

struct rcu_callback {
	struct rcu_callback *next;
	struct rcu_head *head;
	void (*func)(struct rcu_head *head);
	struct rcu_head by_liburcu;
};

bool rcu_by_hand;
static struct rcu_callback *rcu_pending;

static void rcu_callback_run(struct rcu_callback *callback)
{
	callback->func(callback->head);
	free(callback);
}

static void rcu_grace_period_over(struct rcu_head *head)
{
	rcu_acquire();
	rcu_callback_run(container_of(head, struct rcu_callback, by_liburcu));
}

#undef call_rcu
#define call_rcu urcu_memb_call_rcu

void rcu_call(struct rcu_head *head, void (*func)(struct rcu_head *head))
{
	struct rcu_callback *callback = malloc(sizeof(*callback));

	callback->head = head;
	callback->func = func;
	if (!rcu_by_hand) {
		rcu_release();
		call_rcu(&callback->by_liburcu, rcu_grace_period_over);
		return;
	}
	callback->next = rcu_pending;
	rcu_pending = callback;
}

static void rcu_free(struct rcu_head *p)
{
	free(p);
}

/* @p is not an rcu_head, but rcu_call() does not look into it. */
void rcu_kfree(void *p)
{
	rcu_call(p, rcu_free);
}

void rcu_run(void)
{
	struct rcu_callback *callback;

	CHECK(!rcu_read_ongoing());
	while (rcu_pending) {
		callback = rcu_pending;
		rcu_pending = callback->next;
		rcu_callback_run(callback);
	}
}

/* Locks and interrupts */

void mutex_init(struct mutex *lock)
{
	pthread_mutex_init(&lock->mutex, NULL);
	lock->owner = NULL;
}

void mutex_lock(struct mutex *lock)
{
	might_sleep_at("mutex_lock");
	CHECK(READ_ONCE(lock->owner) != current);
	pthread_mutex_lock(&lock->mutex);
	WRITE_ONCE(lock->owner, current);
}

int mutex_lock_killable(struct mutex *lock)
{
	if (current->signalled && READ_ONCE(lock->owner))
		return -EINTR;

	mutex_lock(lock);
	return 0;
}

bool mutex_trylock(struct mutex *lock)
{
	if (pthread_mutex_trylock(&lock->mutex))
		return false;

	WRITE_ONCE(lock->owner, current);
	return true;
}

void mutex_unlock(struct mutex *lock)
{
	CHECK(READ_ONCE(lock->owner) == current);
	WRITE_ONCE(lock->owner, NULL);
	pthread_mutex_unlock(&lock->mutex);
}

int smp_processor_id(void)
{
	return acting_cpu ? acting_cpu - 1 : current->cpu;
}

void irq_lock(int cpu)
{
	CHECK(!irqs_off);
	pthread_mutex_lock(&cpus[cpu].irq);
	irqs_off = true;
	acting_cpu = cpu + 1;
}

void irq_unlock(int cpu)
{
	CHECK(irqs_off && acting_cpu == cpu + 1);
	irqs_off = false;
	acting_cpu = 0;
	pthread_mutex_unlock(&cpus[cpu].irq);
}

int smp_call_function_single(int cpu, void (*func)(void *info), void *info, int wait)
{
	CHECK(wait && !irqs_off);
	irq_lock(cpu);
	func(info);
	irq_unlock(cpu);
	return 0;
}

bool irqs_are_off(void)
{
	return irqs_off;
}

bool irq_save(void)
{
	if (irqs_off)
		return true;

	irq_lock(smp_processor_id());
	return false;
}

void irq_restore(bool off)
{
	if (!off)
		irq_unlock(smp_processor_id());
}

__attribute__((constructor)) static void init_cpus(void)
{
	int i;

	for (i = 0; i < NR_CPUS; i++)
		pthread_mutex_init(&cpus[i].irq, NULL);
}

/* As in kernel/irq_work.c: work is pending until it runs, busy until it has run. */
#define WORK_PENDING	1
#define WORK_BUSY	2

void (*nmi_to_come)(void);
bool irq_work_late;
static __thread struct irq_work *queued[NR_CPUS];
static __thread int nr_queued;

bool irq_work_queue(struct irq_work *work)
{
	if (__sync_fetch_and_or(&work->flags.counter,
				WORK_PENDING | WORK_BUSY) & WORK_PENDING)
		return false;

	CHECK(nr_queued < NR_CPUS);
	queued[nr_queued++] = work;
	return true;
}

void irq_work_run(void)
{
	struct irq_work *work;

	while (nr_queued && !irq_work_late) {
		work = queued[--nr_queued];
		__sync_fetch_and_and(&work->flags.counter, ~WORK_PENDING);
		work->func(work);
		__sync_bool_compare_and_swap(&work->flags.counter, WORK_BUSY, 0);
	}
}

void irq_work_sync(struct irq_work *work)
{
	might_sleep_at("irq_work_sync");
	while (atomic_read(&work->flags))
		sched_yield();
}

/* As in kernel/time/hrtimer.c: a timer is queued, or running, or neither. */
static pthread_mutex_t timers_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(timers);

void hrtimer_init(struct hrtimer *timer, int clock, int mode)
{
	INIT_LIST_HEAD(&timer->node);
}

void hrtimer_start(struct hrtimer *timer, ktime_t expires, int mode)
{
	pthread_mutex_lock(&timers_lock);
	timer->expires = expires;
	list_del(&timer->node);
	list_add(&timer->node, &timers);
	pthread_mutex_unlock(&timers_lock);
}

static struct hrtimer *expired_timer(void)
{
	struct hrtimer *timer;

	list_for_each_entry(timer, &timers, node)
		if (!timer->running && timer->expires <= (s64)local_clock())
			return timer;

	return NULL;
}

void hrtimer_run(void)
{
	struct hrtimer *timer;

	pthread_mutex_lock(&timers_lock);
	while ((timer = expired_timer())) {
		list_del_init(&timer->node);
		timer->running = true;
		pthread_mutex_unlock(&timers_lock);
		timer->function(timer);
		pthread_mutex_lock(&timers_lock);
		timer->running = false;
	}
	pthread_mutex_unlock(&timers_lock);
}

void hrtimer_cancel(struct hrtimer *timer)
{
	bool running;

	might_sleep_at("hrtimer_cancel");
	do {
		pthread_mutex_lock(&timers_lock);
		list_del_init(&timer->node);
		running = timer->running;
		pthread_mutex_unlock(&timers_lock);
	} while (running);
}

int schedule_hrtimeout_range(ktime_t *expires, u64 delta, int mode)
{
	u64 now = local_clock();

	CHECK(vcpu_srcu_dropped);
	might_sleep_at("schedule_hrtimeout_range");
	while (!current->signalled && now < *expires &&
	       !__atomic_compare_exchange_n(&clock_ns, &now, *expires, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	return 0;
}

/* Files */

int single_open(struct file *file, int (*show)(struct seq_file *m, void *v),
		void *data)
{
	struct seq_file *m = kzalloc(sizeof(*m), GFP_KERNEL_ACCOUNT);

	if (!m)
		return -ENOMEM;

	m->show = show;
	m->private = data;
	file->private_data = m;
	return 0;
}

int single_release(struct inode *inode, struct file *file)
{
	kfree(file->private_data);
	return 0;
}

void seq_printf(struct seq_file *m, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	m->len += vsnprintf(m->text + m->len, sizeof(m->text) - m->len, format,
			    args);
	va_end(args);
	CHECK(m->len < sizeof(m->text));
}

ssize_t seq_read(struct file *file, char *buf, size_t n, loff_t *pos)
{
	struct seq_file *m = file->private_data;
	int ret;

	m->len = 0;
	ret = m->show(m, NULL);
	if (ret)
		return ret;
	CHECK(m->len < n);
	memcpy(buf, m->text, m->len + 1);
	return m->len;
}

loff_t seq_lseek(struct file *file, loff_t offset, int whence)
{
	return 0;
}

void debugfs_create_file(const char *name, int mode, struct dentry *parent,
			 void *data, const struct file_operations *fops)
{
	CHECK(mode == 0444);
	parent->fops = fops;
	parent->data = data;
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#include <sanitizer/tsan_interface_atomic.h>
/*
 * READ_ONCE and WRITE_ONCE are volatile accesses.  With
 * -tsan-distinguish-volatile, ThreadSanitizer calls these functions for them.
 * On x86 they have the order of an acquire and a release.
 */
#define VOLATILE_ACCESS(bytes, bits)					\
void __tsan_volatile_read##bytes(void *p);				\
void __tsan_volatile_write##bytes(void *p);				\
__attribute__((no_sanitize("thread")))					\
void __tsan_volatile_read##bytes(void *p)				\
{									\
	__tsan_atomic##bits##_load(p, __tsan_memory_order_acquire);	\
}									\
__attribute__((no_sanitize("thread")))					\
void __tsan_volatile_write##bytes(void *p)				\
{									\
	__tsan_atomic##bits##_fetch_or(p, 0, __tsan_memory_order_release); \
}

VOLATILE_ACCESS(1, 8)
VOLATILE_ACCESS(2, 16)
VOLATILE_ACCESS(4, 32)
VOLATILE_ACCESS(8, 64)

/* The kernel's xarray uses plain stores for data that readers read by READ_ONCE(). */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race_top:^xas_\n";
}
#endif
#endif
