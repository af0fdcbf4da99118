/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of the kernel that host/ needs, for user space, as thin as possible.
 * These files are the kernel's own: lib/xarray.c, list.h, refcount.h, the
 * user-space headers, and asm/perf_event.h.
 *
 * A CPU is a mutex, which is held while its interrupts are off.  The sender of an
 * IPI takes this mutex and acts in the CPU's name.
 */
#ifndef STAND_IN_H
#define STAND_IN_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <linux/kernel.h>
#include <linux/align.h>
#include <linux/bug.h>
#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/err.h>
#include <linux/kvm_para.h>
#include <linux/list.h>
/* Without a lock, as in the kernel: the macros of tools/ need a lock. */
#define list_empty(head)	(READ_ONCE((head)->next) == (head))
#define hlist_empty(head)	(!READ_ONCE((head)->first))
static inline void hlist_add_head_once(struct hlist_node *n,
				       struct hlist_head *h)
{
	n->next = h->first;
	if (n->next)
		n->next->pprev = &n->next;
	n->pprev = &h->first;
	WRITE_ONCE(h->first, n);
}

#define hlist_add_head(n, h)	hlist_add_head_once(n, h)
#include <linux/perf_event.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/string.h>

#include <asm/barrier.h>
#include <asm/cpufeatures.h>
#include <asm/msr-index.h>
#include <asm/perf_event.h>
#include <asm/processor-flags.h>

/* Language and library. */

#define S64_MAX			INT64_MAX
#define U32_MAX			UINT32_MAX
#define THIS_MODULE		NULL
#define MODULE_PARM_DESC(name, text)
#define upper_32_bits(n)	((u32)((u64)(n) >> 32))
#define lower_32_bits(n)	((u32)(n))
#define xchg(p, v)		__atomic_exchange_n(p, v, __ATOMIC_SEQ_CST)
/* Predictable, so that a test can check that the number is another. */
extern u32 last_random;
#define get_random_u32()	__sync_add_and_fetch(&last_random, 2)
#define div_u64(a, b)		((u64)(a) / (u32)(b))
#define div64_u64(a, b)		((u64)(a) / (u64)(b))
#define swap(a, b)		({ typeof(a) t = (a); (a) = (b); (b) = t; })
/* Atomic, unlike atomic_add() of tools/. */
#define atomic_add(i, v)	((void)__sync_fetch_and_add(&(v)->counter, i))
#define test_and_set_bit(nr, addr) \
	(__sync_fetch_and_or(addr, 1ul << (nr)) >> (nr) & 1)

/* A symbol of another module, if the module is loaded. */
#define symbol_get(name)	(have_##name ? name : NULL)
#define symbol_put(name)	((void)0)

extern bool have_kvm_pmu_query, have_hypervisor_slot;
extern struct guest_perf_query hypervisor;

/* A test reaches a parameter as *param_NAME. */
#define module_param_named(name, value, type, perm) \
	typeof(value) *const param_##name = &(value)
#define module_param(name, type, perm) module_param_named(name, name, type, perm)

extern bool *const param_pv_perf;
extern unsigned int *const param_pv_perf_max_events;
extern unsigned int *const param_pv_perf_max_rate;
extern unsigned int *const param_pv_perf_max_open_rate;
extern unsigned int *const param_pv_perf_max_counters;
extern unsigned int *const param_pv_perf_rdpmc;
extern bool *const param_pv_perf_rdpmc_default;
extern unsigned int *const param_pv_perf_counts;
extern bool *const param_pv_perf_branches;
extern unsigned int *const param_pv_perf_branches_cpu;
extern unsigned int *const param_pv_perf_branches_microcode;

void fail(const char *file, int line, const char *what)
	__attribute__((noreturn));

#define CHECK(cond)	((cond) ? (void)0 : fail(__FILE__, __LINE__, #cond))
#undef WARN_ON_ONCE
#define WARN_ON_ONCE(cond) \
	({ bool bad = (cond); CHECK(!bad && "WARN_ON_ONCE: " #cond); bad; })

/* The last line of the log, and the number of lines. */
extern char log_line[256];
extern int log_lines;

#define pr_info_ratelimited(fmt, ...)					\
	(log_lines++, snprintf(log_line, sizeof(log_line), pr_fmt(fmt),	\
			       ##__VA_ARGS__))

/* Each tracepoint is a function that formats into trace_line. */
extern __thread bool trace_on;
extern __thread char trace_line[256];

struct trace_symbol {
	unsigned long value;
	const char *name;
};

const char *trace_symbol_name(unsigned long value,
			      const struct trace_symbol *symbols);

#define TP_PROTO(...)		__VA_ARGS__
#define TP_ARGS(...)
#define TP_STRUCT__entry(...)	__VA_ARGS__
#define TP_fast_assign(...)	__VA_ARGS__
#define TP_printk(...)		__VA_ARGS__
#define __field(type, name)	type name;
#define __print_symbolic(value, ...) \
	trace_symbol_name(value, (struct trace_symbol[]){ __VA_ARGS__, { } })
#define TRACE_EVENT(name, proto, args, fields, assign, print)		\
static inline void trace_##name(proto)					\
{									\
	struct { fields } entry, *__entry = &entry;			\
									\
	if (!trace_on)							\
		return;							\
	assign								\
	snprintf(trace_line, sizeof(trace_line), #name ": " print);	\
}

/* Failures on demand, and hooks where the kernel might sleep. */

/*
 * The fail_at-th access to guest memory from now on fails; the fail_at-th
 * allocation and all later ones fail; 0: no failure.  @seen counts accesses or
 * allocations.
 */
struct faults {
	int seen;
	int fail_at;
};

extern struct faults alloc_faults, guest_faults;

/* Bytes that were ever charged to a memory control group. */
extern u64 charged;

bool fault(struct faults *faults);

#define struct_size(p, member, n) \
	(sizeof(*(p)) + sizeof(*(p)->member) * (n))

/* The hook runs where the host may sleep, so that another vCPU may run. */
extern void (*sleep_hook)(const char *where);
void might_sleep_at(const char *where);

/* Tasks, CPUs and time. */

#define NR_CPUS		16
#define NR_COUNTERS	4
#define NR_FIXED	4
#define NR_BRANCHES	16

typedef struct {
	pthread_mutex_t mutex;
} raw_spinlock_t;

struct task_struct {
	refcount_t refs;
	int cpu;
	bool running;
	bool exited;
	bool signalled;
	u64 start_time;
	unsigned long nivcsw;
	struct {
		u64 run_delay;
	} sched_info;
	struct perf_event_context {
		raw_spinlock_t lock;
		struct pmu *pmu;
		struct task_struct *task;
		struct list_head pinned_active;
		struct list_head flexible_active;
		int nr_active;
		int nr_freq;
		u64 timeoffset;
		u64 stopped_at;
	} ctx;
	struct list_head events;
};

struct cpu {
	pthread_mutex_t irq;
	int taken;	/* number of the last counters, which the host uses */
	int taken_fixed;	/* fixed counters that the host uses, as bits */
	u64 pmc[NR_COUNTERS];	/* content of unused counters */
	u64 fixed[NR_FIXED];
	/* The last branch record stack. */
	u64 lbr_config;
	u64 lbr_select;
	u64 lbr[NR_BRANCHES][2];
};

extern struct cpu cpus[NR_CPUS];
/* A bit for each CPU. */
extern unsigned int cpus_offline;
#define for_each_possible_cpu(cpu)	for ((cpu) = 0; (cpu) < NR_CPUS; (cpu)++)
#define for_each_online_cpu(cpu)					\
	for_each_possible_cpu(cpu)					\
		if (cpus_offline & BIT(cpu))				\
			continue;					\
		else
int smp_call_function_single(int cpu, void (*func)(void *info), void *info, int wait);
extern __thread struct task_struct *current;
extern u64 clock_ns;
/* perf moves events 0xb7 to event 0xbb, because another event has the register of 0xb7. */
extern bool register_taken;

struct task_struct *task_create(int cpu);
void task_put(struct task_struct *task);
void task_exit(struct task_struct *task);
void task_sched_out(struct task_struct *task);
void task_sched_in(struct task_struct *task);
void take_counters(struct task_struct *task, int n);

int smp_processor_id(void);
#define raw_smp_processor_id()	smp_processor_id()
void irq_lock(int cpu);
void irq_unlock(int cpu);
u64 local_clock(void);

/* A short tick, because the guests here run for a short time. */
#define TICK_NSEC	4000ull
#define jiffies		(local_clock() / TICK_NSEC)

bool irq_save(void);
void irq_restore(bool off);
bool irqs_are_off(void);

#define local_irq_save(flags)	  (flags = irq_save())
#define local_irq_restore(flags)  irq_restore(flags)
#define lockdep_assert_irqs_disabled()	CHECK(irqs_are_off())
#define cond_resched()		  might_sleep_at("cond_resched")

struct mutex {
	pthread_mutex_t mutex;
	struct task_struct *owner;
};

#define DEFINE_MUTEX(name) \
	struct mutex name = { .mutex = PTHREAD_MUTEX_INITIALIZER }

void mutex_init(struct mutex *lock);
void mutex_lock(struct mutex *lock);
bool mutex_trylock(struct mutex *lock);
/* A pending signal kills the task. */
int mutex_lock_killable(struct mutex *lock);
void mutex_unlock(struct mutex *lock);

#define mutex_lock_nested(lock, class)	mutex_lock(lock)

static inline void assert_mutex_held(struct mutex *lock)
{
	CHECK(READ_ONCE(lock->owner) == current);
}

/* The lock's holder is not known, but interrupts must be off. */
static inline void assert_raw_spinlock_held(raw_spinlock_t *lock)
{
	CHECK(irqs_are_off());
}

#define lockdep_assert_held(lock)			\
	_Generic((lock), struct mutex *: assert_mutex_held,	\
		 raw_spinlock_t *: assert_raw_spinlock_held)(lock)

#define raw_spin_lock_init(lock)	pthread_mutex_init(&(lock)->mutex, NULL)
#define raw_spin_lock(lock) \
	(CHECK(irqs_are_off()), (void)pthread_mutex_lock(&(lock)->mutex))
#define raw_spin_unlock(lock)		((void)pthread_mutex_unlock(&(lock)->mutex))
#define raw_spin_lock_irq(lock) \
	do { CHECK(!irq_save()); raw_spin_lock(lock); } while (0)
#define raw_spin_unlock_irq(lock) \
	do { raw_spin_unlock(lock); irq_restore(false); } while (0)
#define raw_spin_lock_irqsave(lock, flags) \
	do { local_irq_save(flags); raw_spin_lock(lock); } while (0)
#define raw_spin_unlock_irqrestore(lock, flags) \
	do { raw_spin_unlock(lock); local_irq_restore(flags); } while (0)

struct irq_work {
	atomic_t flags;
	void (*func)(struct irq_work *work);
};

#define IRQ_WORK_INIT_HARD(function) \
	((struct irq_work){ .func = (function) })

/* Interrupts are off for so long that an irq_work does not run. */
extern bool irq_work_late;

bool irq_work_queue(struct irq_work *work);
void irq_work_sync(struct irq_work *work);
void irq_work_run(void);

typedef s64 ktime_t;

#define NSEC_PER_SEC	1000000000l
#define NSEC_PER_MSEC	1000000l
#define NSEC_PER_USEC	1000l
#define USEC_PER_SEC	1000000l
#define ns_to_ktime(ns)	(ns)
#define ktime_get_ns()	local_clock()

enum hrtimer_mode {
	HRTIMER_MODE_ABS,
};

enum hrtimer_restart {
	HRTIMER_NORESTART,
};

/* A timer expires when a running guest moves the clock. */
struct hrtimer {
	enum hrtimer_restart (*function)(struct hrtimer *timer);
	ktime_t expires;
	struct list_head node;
	bool running;
};

void hrtimer_init(struct hrtimer *timer, int clock, int mode);
void hrtimer_start(struct hrtimer *timer, ktime_t expires, int mode);
void hrtimer_cancel(struct hrtimer *timer);
void hrtimer_run(void);
#define TASK_INTERRUPTIBLE	1
#define set_current_state(state)	((void)(state))
/* Moves the clock, unless a signal is pending. */
int schedule_hrtimeout_range(ktime_t *expires, u64 delta, int mode);

/* x86 and its PMU. */

#define X86_VENDOR_INTEL	0
#define X86_VENDOR_AMD		2
#define X86_VENDOR_HYGON	9
#define X86_VENDOR_ZHAOXIN	10

struct cpuinfo_x86 {
	int x86;
	int x86_vendor;
	int x86_virt_bits;
	int x86_model;
	u32 microcode;
};

extern struct cpuinfo_x86 boot_cpu_data;
extern bool cpu_has_perfctr_core, cpu_has_perfctr_nb, cpu_has_hybrid;
extern bool cpu_has_pdcm, cpu_has_tsx_force_abort, cpu_has_lbr_v2;
extern bool enable_vmware_backdoor;
/* A parameter of the module kvm. */
extern bool enable_pmu;
extern struct x86_pmu_capability pmu_capability;
extern u64 hw_event_config[PERF_COUNT_HW_MAX];

#define boot_cpu_has(feature) \
	((feature) == X86_FEATURE_PERFCTR_CORE ? cpu_has_perfctr_core : \
	 (feature) == X86_FEATURE_PERFCTR_NB ? cpu_has_perfctr_nb : \
	 (feature) == X86_FEATURE_PERFCTR_LLC ? false : \
	 (feature) == X86_FEATURE_TSX_FORCE_ABORT ? cpu_has_tsx_force_abort : \
	 (feature) == X86_FEATURE_HYPERVISOR ? cpu_has_hypervisor : \
	 (feature) == X86_FEATURE_VMX ?					\
		boot_cpu_data.x86_vendor == X86_VENDOR_INTEL :		\
	 (feature) == X86_FEATURE_AMD_LBR_V2 ? cpu_has_lbr_v2 :		\
	 (feature) == X86_FEATURE_PDCM ? cpu_has_pdcm : cpu_has_hybrid)
/* MSR_IA32_PERF_CAPABILITIES and MSR_PERF_METRICS, which faults without metrics. */
extern u64 perf_capabilities, perf_metrics;
extern bool cpu_has_metrics;
#define FULL_WIDTH_WRITES	BIT(13)
/* AMD's event selects.  A hypervisor's PMU may drop the bits select_drops. */
extern bool cpu_has_hypervisor;
extern u64 selects[NR_CPUS][NR_COUNTERS], select_drops;
int rdmsrl_safe(u32 msr, u64 *p);
int wrmsrl_safe(u32 msr, u64 value);
extern u32 cpuid_fixed;
#define cpuid_ecx(leaf)		(CHECK((leaf) == 0xa), cpuid_fixed)
/* Registers of the CPU that this thread runs on. */
u64 native_read_pmc(int ecx);
void wrmsr(u32 msr, u32 low, u32 high);
/* Registers of the CPU's last branch record stack. */
extern unsigned int cpu_branches;
/* CPUID leaf 1, EAX */
extern u32 cpu_signature;
#define cpuid_ebx(leaf)							\
	(CHECK((leaf) == EXT_PERFMON_DEBUG_FEATURES), cpu_branches << 4)
u64 *lbr_msr(u32 msr);
#define rdmsrl(msr, value)	((value) = *lbr_msr(msr))
#define wrmsrl(msr, value)	((void)(*lbr_msr(msr) = (value)))

#define sign_extend64(value, bit) \
	((s64)((u64)(value) << (63 - (bit))) >> (63 - (bit)))
u64 perf_get_hw_event_config(int event);

/* perf, as in kernel/events/core.c and arch/x86/events/core.c. */

#define PERF_EF_START	1
#define PERF_EF_RELOAD	2
#define PERF_EF_UPDATE	4
#define PERF_HES_STOPPED	1
#define PERF_HES_UPTODATE	2
#define PERF_HES_ARCH		4

struct pt_regs;

struct perf_sample_data {
	u64 period;
};

enum perf_event_state {
	PERF_EVENT_STATE_DEAD = -4,
	PERF_EVENT_STATE_EXIT = -3,
	PERF_EVENT_STATE_ERROR = -2,
	PERF_EVENT_STATE_OFF = -1,
	PERF_EVENT_STATE_INACTIVE = 0,
	PERF_EVENT_STATE_ACTIVE = 1,
};

struct perf_event;

/* Before Linux 6.2. */
struct perf_cpu_context {
	struct perf_event_context ctx;
	int active_oncpu;
	int exclusive;
};

#define this_cpu_ptr(array)	(&(array)[smp_processor_id()])
#define DEFINE_PER_CPU(type, name)	type name[NR_CPUS]
#define DECLARE_PER_CPU(type, name)	extern type name[NR_CPUS]
#define per_cpu(name, cpu)	((name)[cpu])
#define this_cpu_read(name)	READ_ONCE((name)[smp_processor_id()])
#define cpus_read_lock()	((void)0)
#define cpus_read_unlock()	((void)0)

#define DEFINE_STATIC_KEY_FALSE(name)	bool name
#define DECLARE_STATIC_KEY_FALSE(name)	extern bool name
#define static_branch_unlikely(key)	READ_ONCE(*(key))
#define static_branch_enable(key)	WRITE_ONCE(*(key), true)

/* The kind of each CPU, with cpu_has_hybrid, and the core type of each kind. */
#define NR_KINDS	2
extern int cpu_kinds[NR_CPUS];
extern const u8 kind_cores[NR_KINDS];
int kind_of(int cpu);
/* General-purpose counters of a CPU. */
int nr_counters(int cpu);
u32 cpuid_eax(u32 leaf);

struct pmu {
	u32 type;
	struct perf_cpu_context *pmu_cpu_context;
	void (*pmu_enable)(struct pmu *pmu);
	void (*pmu_disable)(struct pmu *pmu);
	int (*filter_match)(struct perf_event *event);
	int (*add)(struct perf_event *event, int flags);
	void (*del)(struct perf_event *event, int flags);
	void (*read)(struct perf_event *event);
	void (*start)(struct perf_event *event, int flags);
	void (*stop)(struct perf_event *event, int flags);
};

struct hw_perf_event {
	u64 config;
	struct task_struct *target;
	int idx;		/* the counter's index */
	u64 last_tag;
	int event_base_rdpmc;
	unsigned long event_base;	/* the counter's MSR */
	int state;
	local64_t prev_count;	/* the counter at its last read */
	u64 sample_period;
	u64 last_period;
	local64_t period_left;
	u64 interrupts;
	u64 freq_time_stamp;
	u64 freq_count_stamp;
	u64 counter;	/* counts after its last read */
};

typedef void (*perf_overflow_handler_t)(struct perf_event *event,
					struct perf_sample_data *data,
					struct pt_regs *regs);

struct perf_event {
	struct list_head node;
	struct list_head active_list;
	struct list_head sibling_list;
	struct perf_event *group_leader;
	void *owner;
	struct pmu *pmu;
	enum perf_event_state state;
	int oncpu;
	local64_t count;
	u64 tstamp;
	u64 total_time_enabled;
	u64 total_time_running;
	struct perf_event_attr attr;
	struct hw_perf_event hw;
	struct perf_event_context *ctx;
	perf_overflow_handler_t overflow_handler;
	void *overflow_handler_context;
};

#define for_each_sibling_event(sibling, event)				\
	if ((event)->group_leader == (event))				\
		list_for_each_entry(sibling, &(event)->sibling_list, sibling_list)

static inline bool is_sampling_event(struct perf_event *event)
{
	return event->attr.sample_period != 0;
}

struct perf_event *
perf_event_create_kernel_counter(struct perf_event_attr *attr, int cpu,
				 struct task_struct *task,
				 perf_overflow_handler_t overflow_handler,
				 void *context);
int perf_event_release_kernel(struct perf_event *event);
void perf_event_enable(struct perf_event *event);
void perf_event_disable(struct perf_event *event);
int perf_event_period(struct perf_event *event, u64 value);
u64 perf_event_read_value(struct perf_event *event, u64 *enabled, u64 *running);

/* The next creation fails with this error, once. */
extern int create_error;
extern atomic_t nr_backing_events;
/* Events that do not back a guest's event. */
extern atomic_t nr_held_events;
extern unsigned int nr_asked;
/* Events for which perf keeps the tick on all CPUs. */
extern atomic_t nr_freq_events;
extern int max_sample_rate;

/* This thread's guest runs; each event counts @n. */
void run_guest(u64 n);
/* Like run_guest(), with interrupts off. */
void count_guest(u64 n);
/* Throttles the event until the next tick, as if it overflowed too often. */
void throttle(struct perf_event *event);
/* The number of writes to counters. */
extern unsigned int written_counters;
/* Does perf throttle events that overflow? */
extern bool throttles;
/* A hook that runs when a PMU is disabled. */
extern void (*disable_hook)(void);
void reassign(struct perf_event *event, u64 content);
/* The host's NMI watchdog takes a counter of a task's CPU. */
extern struct perf_event watchdog;
void set_watchdog(struct task_struct *task, bool on);
void set_host_event(struct task_struct *task, struct perf_event *event);
void start_again(struct perf_event *event);
void tick(struct perf_event *event);

/* KVM */

#define PAGE_SHIFT	12
#define PAGE_SIZE	4096ul
#define NR_SLOTS	4
#define MAX_VCPUS	16
#define SLOT_PAGES	8
/* linux/kvm.h */
struct kvm_enable_cap {
	u32 cap;
	u32 flags;
	u64 args[4];
	u8 pad[64];
};

/* From Linux 6.16 on. */
#define KVM_X86_TDX_VM	5

#define KVM_EXIT_UNKNOWN	0
#define KVM_EXIT_IO	2
#define KVM_EXIT_HYPERCALL	3
#define KVM_EXIT_HLT	5
#define KVM_EXIT_MMIO	6
#define KVM_EXIT_X86_RDMSR	29
#define KVM_EXIT_X86_WRMSR	30
#define KVM_EXIT_XEN	34

#define KVM_REQUEST_MASK	0xff
#define KVM_REQ_NMI	9
#define KVM_REQ_PV_PERF	40

typedef u64 gpa_t;
typedef u64 gfn_t;

#define gpa_to_gfn(gpa)	((gpa) >> PAGE_SHIFT)

struct kvm_memory_slot {
	gfn_t base_gfn;
	u8 *memory;
	bool present;
	bool readonly;
	bool internal;			/* KVM's own */
	bool absent[SLOT_PAGES];	/* the VMM has no such page */
	bool dirty[SLOT_PAGES];
};

struct kvm_memslots {
	u64 generation;
	struct kvm_memory_slot slot[NR_SLOTS];
};

struct gfn_to_hva_cache {
	u64 generation;
	gpa_t gpa;
	unsigned long hva;
	unsigned long len;
	struct kvm_memory_slot *memslot;
};

struct dentry {
	const struct file_operations *fops;
	void *data;
};

struct kvm {
	refcount_t users_count;
	atomic_t online_vcpus;
	struct mutex lock;
	int created_vcpus;
	int userspace_pid;
	u32 dirty_ring_size;
	int srcu;
	struct dentry *debugfs_dentry;
	struct kvm_memslots memslots;
	struct kvm_vcpu *vcpus[MAX_VCPUS];
	u64 denied_event;	/* of the PMU event filter; 0: none */
	bool xen_hypercalls;
	u32 denied_fixed;	/* the filter's bitmap of denied fixed counters */
	struct {
		struct pv_perf_vm *pv_perf;
		u8 vm_type;
		bool enable_pmu;
	} arch;
};

struct kvm_pmu {
	int version;
};

struct kvm_sregs {
	struct {
		u64 base;
	} cs;
	u64 cr0;
};

struct kvm_run {
	u32 exit_reason;
};

struct kvm_vcpu {
	struct kvm *kvm;
	struct kvm_run *run;
	int vcpu_id;
	unsigned long requests;
	unsigned long guest_debug;
	atomic_t kicks;
	struct kvm_vcpu_stat {
		struct {
			u64 halt_wait_ns;
			u64 halt_poll_success_ns;
			u64 halt_poll_fail_ns;
		} generic;
		u64 irq_injections;
		u64 hypercalls;
	} stat;
	struct {
		struct {
			u32 features;
		} pv_cpuid;
		struct pv_perf_vcpu *pv_perf;
		unsigned int nmi_pending;
		bool nmi_injected;
		struct {
			bool injected;
			bool soft;
		} interrupt;
		bool has_interrupt;
		atomic_t nmi_queued;
		bool guest_mode;
		bool smm;
		bool nmi_from_guest;
		struct kvm_lapic *apic;
		struct kvm_pmu pmu;
		bool rdpmc_intercept;
		u32 pv_perf_branches;
		u8 pv_perf_retires;
		bool iret_intercept;
		int cpl;
		u64 cr4;
		/* The reason of the last exit. */
		struct {
			u32 reason;
			u32 intr_info;
			gpa_t gpa;
			u64 rip;
			u64 rax;
			u64 rbx;
			u64 rcx;
			u64 rdx;
			u64 rsi;
			u64 rflags;
		} exit;
		bool hv_hypercalls;
	} arch;
};

/* Without this the vCPU's APIC is in user space. */
struct kvm_lapic {
	u32 lvtpc;
};

#define APIC_LVTPC			0x340
#define lapic_in_kernel(vcpu)		((vcpu)->arch.apic)
#define kvm_lapic_get_reg(apic, reg)	(CHECK((reg) == APIC_LVTPC), (apic)->lvtpc)

/* Grace periods have no waiters here.  A vCPU that runs holds kvm->srcu for reading. */
extern __thread bool vcpu_srcu_dropped;

#define kvm_vcpu_srcu_read_unlock(vcpu) \
	(CHECK(!vcpu_srcu_dropped), vcpu_srcu_dropped = true)
#define kvm_vcpu_srcu_read_lock(vcpu) \
	(CHECK(vcpu_srcu_dropped), vcpu_srcu_dropped = false)
/* vcpu_run(): handles the request, as long as there is no signal. */
void handle_requests(struct kvm_vcpu *vcpu);
#define srcu_read_lock(srcu)		(*(srcu))
#define srcu_read_unlock(srcu, idx)	((void)(srcu), (void)(idx))
#define kvm_memslots(kvm)		(&(kvm)->memslots)
#define kvm_is_error_hva(hva)		(!(hva))
#define kvm_for_each_vcpu(i, vcpu, kvm)					\
	for ((i) = 0; (i) < MAX_VCPUS; (i)++)				\
		if (((vcpu) = READ_ONCE((kvm)->vcpus[i])))
#define vcpu_to_pmu(vcpu)		(&(vcpu)->arch.pmu)
#define kvm_read_cr0_bits(vcpu, bits)	((bits) & X86_CR0_PE)
#define kvm_read_cr4_bits(vcpu, bits)	((vcpu)->arch.cr4 & (bits))
#define kvm_x86_call(op)		fake_x86_##op
#define fake_x86_get_cpl(vcpu)		((vcpu)->arch.cpl)
#define fake_x86_set_rdpmc_intercept(vcpu, on) \
	((vcpu)->arch.rdpmc_intercept = (on))
#define fake_x86_handles_nmi(vcpu)	((vcpu)->arch.iret_intercept)
#define fake_x86_get_fault_gpa(vcpu)	((vcpu)->arch.exit.gpa)
#define fake_x86_get_exit_info(vcpu, why, info1, info2, intr, error)	\
	(*(why) = (vcpu)->arch.exit.reason, *(info1) = *(info2) = 0,	\
	 *(intr) = (vcpu)->arch.exit.intr_info, *(error) = 0)
#define kvm_rip_read(vcpu)		((vcpu)->arch.exit.rip)
#define kvm_rax_read(vcpu)		((vcpu)->arch.exit.rax)
#define VCPU_REGS_RAX			0
#define kvm_register_write_raw(vcpu, reg, value)			\
	(CHECK((reg) == VCPU_REGS_RAX), (vcpu)->arch.exit.rax = (value))
#define kvm_rbx_read(vcpu)		((vcpu)->arch.exit.rbx)
#define kvm_rcx_read(vcpu)		((vcpu)->arch.exit.rcx)
#define kvm_rdx_read(vcpu)		((vcpu)->arch.exit.rdx)
#define kvm_rsi_read(vcpu)		((vcpu)->arch.exit.rsi)
#define trace_kvm_hypercall(nr, a0, a1, a2, a3)				\
	((void)(nr), (void)(a0), (void)(a1), (void)(a2), (void)(a3))
#define kvm_get_rflags(vcpu)		((vcpu)->arch.exit.rflags)
#define kvm_xen_hypercall_enabled(kvm)	((kvm)->xen_hypercalls)
#define kvm_hv_hypercall_enabled(vcpu)	((vcpu)->arch.hv_hypercalls)
int kvm_skip_emulated_instruction(struct kvm_vcpu *vcpu);
/* KVM_PERF_OP, as KVM runs it: first where nothing may sleep. */
long run_hypercall(struct kvm_vcpu *vcpu, u64 op, u64 a1, u64 a2, u64 a3);
#define kvm_vcpu_gfn_to_memslot(vcpu, gfn) gfn_to_memslot((vcpu)->kvm, gfn)
#define kvm_is_visible_memslot(slot)	((slot) && !(slot)->internal)
/* If the guest may execute RDPMC, it reads right counts, and only its own. */
void check_rdpmc(struct kvm_vcpu *vcpu);
/* At an entry: the stack has no branch of the host, and will not record the host. */
void check_branches(struct kvm_vcpu *vcpu);
/* The CPU records @n branches between VMRUN and #VMEXIT. */
void run_branches(struct kvm_vcpu *vcpu, const u64 (*branches)[2], int n);

#define DB_VECTOR			1
#define is_smm(vcpu)			((vcpu)->arch.smm)
#define is_guest_mode(vcpu)		((vcpu)->arch.guest_mode)
#define kvm_handling_nmi_from_guest(v)	READ_ONCE((v)->arch.nmi_from_guest)

int kvm_read_guest(struct kvm *kvm, gpa_t gpa, void *data, unsigned long len);
int kvm_write_guest(struct kvm *kvm, gpa_t gpa, const void *data,
		    unsigned long len);
int kvm_write_guest_offset_cached(struct kvm *kvm, struct gfn_to_hva_cache *ghc,
				  void *data, unsigned int offset,
				  unsigned long len);
int kvm_read_guest_offset_cached(struct kvm *kvm, struct gfn_to_hva_cache *ghc,
				 void *data, unsigned int offset,
				  unsigned long len);
int kvm_gfn_to_hva_cache_init(struct kvm *kvm, struct gfn_to_hva_cache *ghc,
			      gpa_t gpa, unsigned long len);
static inline bool kvm_slot_dirty_track_enabled(const struct kvm_memory_slot *slot)
{
	return true;
}

void mark_page_dirty_in_slot(struct kvm *kvm,
			     const struct kvm_memory_slot *memslot, gfn_t gfn);
void kvm_make_request(int request, struct kvm_vcpu *vcpu);
void kvm_make_all_cpus_request(struct kvm *kvm, int request);
bool kvm_test_request(int request, struct kvm_vcpu *vcpu);
bool kvm_check_request(int request, struct kvm_vcpu *vcpu);
void kvm_inject_nmi(struct kvm_vcpu *vcpu);
int kvm_cpu_has_injectable_intr(struct kvm_vcpu *vcpu);
void kvm_vcpu_kick(struct kvm_vcpu *vcpu);
bool kvm_get_kvm_safe(struct kvm *kvm);
void kvm_put_kvm(struct kvm *kvm);
bool kvm_pmu_event_allowed(struct kvm *kvm, u64 eventsel, int fixed);

struct kvm_memory_slot *gfn_to_memslot(struct kvm *kvm, gfn_t gfn);
/* A VM with memory at 0, read-only memory at 0x10000, and holes. */
struct kvm *vm_create(void);
void vm_destroy(struct kvm *kvm);
/* Chooses the VM whose user space runs. */
void vm_use(struct kvm *kvm);
struct kvm_vcpu *vcpu_create(struct kvm *kvm, int id);
void vcpu_destroy(struct kvm_vcpu *vcpu);

/* Runs before each read of guest memory by the host: a guest may change the memory. */
extern void (*read_hook)(struct kvm *kvm);

/* User space has only the slots' memory, and only writable pages. */
#define FUTEX_OP_ADD	1

/* With this an access fails if it would have to wait for the page. */
extern __thread bool pagefaults_off;

#define pagefault_disable()	(pagefaults_off = true)
#define pagefault_enable()	(pagefaults_off = false)

void user_access(const char *where);
bool user_writable(const void *address);
int arch_futex_atomic_op_inuser(int op, u32 oparg, int *oval, u32 *uaddr);

#define user_access_begin(p, size) \
	({ user_access("user"); !fault(&guest_faults); })
#define user_access_end()		((void)0)
#define unsafe_put_user(x, p, label) do {				\
	if (!user_writable(p))						\
		goto label;						\
	__atomic_store_n(p, x, __ATOMIC_RELEASE);			\
} while (0)

/* The guest uses the same accesses as the host. */
#define __put_user(x, p)						\
	({ user_access("put"); !user_writable(p) ? -EFAULT :		\
	   (__atomic_store_n(p, x, __ATOMIC_RELAXED), 0); })
#define __get_user(x, p)						\
	({ user_access("get"); !user_writable(p) ? -EFAULT :		\
	   ((x) = __atomic_load_n(p, __ATOMIC_RELAXED), 0); })

/* Files */

struct inode {
	void *i_private;
};

struct seq_file {
	char text[8192];
	size_t len;
	void *private;
	int (*show)(struct seq_file *m, void *v);
};

struct file {
	struct seq_file *private_data;
};

struct file_operations {
	void *owner;
	int (*open)(struct inode *inode, struct file *file);
	ssize_t (*read)(struct file *file, char *buf, size_t n, loff_t *pos);
	loff_t (*llseek)(struct file *file, loff_t offset, int whence);
	int (*release)(struct inode *inode, struct file *file);
};

int single_open(struct file *file, int (*show)(struct seq_file *m, void *v),
		void *data);
int single_release(struct inode *inode, struct file *file);
ssize_t seq_read(struct file *file, char *buf, size_t n, loff_t *pos);
loff_t seq_lseek(struct file *file, loff_t offset, int whence);
void seq_printf(struct seq_file *m, const char *format, ...);
void debugfs_create_file(const char *name, int mode, struct dentry *parent,
			 void *data, const struct file_operations *fops);

#endif
