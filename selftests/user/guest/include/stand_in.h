/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of the kernel that guest/ needs, for user space.  This header is included
 * before each file of guest/.  The file's own includes find empty headers, which make
 * generates, or user space's headers.
 *
 * There is one thread, which is on one CPU at a time.  NMIs and a test's other actions
 * come at the points that this header marks: where the driver reads or writes data that
 * something else may change.
 */
#ifndef STAND_IN_H
#define STAND_IN_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* Language */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef unsigned short umode_t;

#include <linux/types.h>
#include <linux/perf_event.h>

#define __read_mostly
#define __init
#define __exit
#define __user
#define __percpu
#define __uninitialized
#define __rcu
#define noinline		__attribute__((noinline))
#undef __always_inline
#define __always_inline		inline __attribute__((always_inline))
#define __aligned(n)		__attribute__((aligned(n)))
#define fallthrough		__attribute__((fallthrough))
#define ____cacheline_aligned	__aligned(64)
#define likely(x)		(x)
#define unlikely(x)		(x)

/* A test may clear this, so that the driver reads 64 bits as on a 32-bit CPU. */
extern bool is_64bit;
#define CONFIG_64BIT		is_64bit
#define CONFIG_X86_64		1
#define IS_ENABLED(option)	(option)
#define CONFIG_X86_32		0
#define KERNEL_VERSION(a, b, c)	(((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE	KERNEL_VERSION(6, 12, 0)
#define MODULE			1
#define KBUILD_MODNAME		"kvm_pmu"
#define THIS_MODULE		NULL
#define MODULE_DESCRIPTION(text)
#define MODULE_LICENSE(text)
#define EXPORT_SYMBOL_GPL(symbol)
#define NOKPROBE_SYMBOL(symbol)
#define module_init(function)	int stand_in_init(void) { return function(); }
#define module_exit(function)	void stand_in_exit(void) { function(); }

int stand_in_init(void);
void stand_in_exit(void);

#define S64_MAX			LLONG_MAX
#define S64_MIN			LLONG_MIN
#define U32_MAX			UINT_MAX
#define U64_MAX			ULLONG_MAX
#define BIT(n)			(1ul << (n))
#define BIT_ULL(n)		(1ull << (n))
#define GENMASK(high, low)	((~0ul << (low)) & (~0ul >> (63 - (high))))
#define GENMASK_ULL(high, low)	((~0ull << (low)) & (~0ull >> (63 - (high))))
#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#define BUILD_BUG_ON(cond)	_Static_assert(!(cond), #cond)
#define min_t(type, a, b)	({ type a_ = (a), b_ = (b); a_ < b_ ? a_ : b_; })
#define max_t(type, a, b)	({ type a_ = (a), b_ = (b); a_ > b_ ? a_ : b_; })
#define clamp_t(type, n, low, high) min_t(type, max_t(type, n, low), high)
#define max(a, b)		max_t(typeof(a), a, b)
#define lower_32_bits(n)	((u32)(n))
#define upper_32_bits(n)	((u32)((u64)(n) >> 32))
#define struct_size(p, member, n) (sizeof(*(p)) + (n) * sizeof((p)->member[0]))
#define container_of(p, type, member) \
	((type *)((char *)(p) - offsetof(type, member)))
#define hweight32(n)		__builtin_popcount(n)
#define roundup_pow_of_two(n)	(1ul << (64 - __builtin_clzl((n) - 1)))
#define sign_extend64(value, bit) \
	((s64)((u64)(value) << (63 - (bit))) >> (63 - (bit)))
#define div_u64(a, b)		((u64)(a) / (u32)(b))

static inline u64 div64_u64_rem(u64 a, u64 b, u64 *rest)
{
	*rest = a % b;
	return a / b;
}

#define IS_ERR(p)		((unsigned long)(p) >= (unsigned long)-4095)
#define PTR_ERR(p)		((long)(p))
#define ERR_PTR(error)		((void *)(long)(error))
#define ERR_CAST(p)		((void *)(p))

void fail(const char *file, int line, const char *what)
	__attribute__((noreturn));

#define CHECK(cond)	((cond) ? (void)0 : fail(__FILE__, __LINE__, #cond))
/* A WARN_ON_ONCE() of the driver must not trigger: the test fails. */
void no_warning(bool cond, const char *what);
#define WARN_ON_ONCE(cond) \
	({ bool bad_ = (cond); no_warning(bad_, #cond); bad_; })

/*
 * A point.  @points counts them, so that a test detects an endless loop.  If @point_hook
 * is set, a point calls it, unless it is running.
 */
extern unsigned long points;
extern void (*point_hook)(void);
void point_slow(void);

static inline void point(void)
{
	points++;
	if (point_hook)
		point_slow();
}

#define barrier()	({ point(); __asm__ volatile("" ::: "memory"); })
#define smp_mb__after_atomic()	barrier()
#define virt_rmb()	barrier()
#define READ_ONCE(x)	({ point(); *(const volatile typeof(x) *)&(x); })
#define WRITE_ONCE(x, v) \
	({ point(); *(volatile typeof(x) *)&(x) = (v); point(); })
#define xchg(p, v)							\
({									\
	typeof(*(p)) old_;						\
	point();							\
	old_ = __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);		\
	point();							\
	old_;								\
})
#define cmpxchg(p, old, new)						\
({									\
	typeof(*(p)) old_ = (old);					\
	point();							\
	__atomic_compare_exchange_n(p, &old_, new, false,		\
				    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);\
	point();							\
	old_;								\
})

/* Bits */

static inline void set_bit(unsigned int i, unsigned long *word)
{
	point();
	__atomic_fetch_or(word, BIT(i), __ATOMIC_SEQ_CST);
	point();
}

static inline void clear_bit(unsigned int i, unsigned long *word)
{
	point();
	__atomic_fetch_and(word, ~BIT(i), __ATOMIC_SEQ_CST);
	point();
}

static inline bool test_and_set_bit(unsigned int i, unsigned long *word)
{
	return __atomic_fetch_or(word, BIT(i), __ATOMIC_SEQ_CST) & BIT(i);
}

static inline bool test_and_clear_bit(unsigned int i, unsigned long *word)
{
	return __atomic_fetch_and(word, ~BIT(i), __ATOMIC_SEQ_CST) & BIT(i);
}

/* As in the kernel, for a word that may change meanwhile. */
static inline unsigned int next_bit(const unsigned long *word, unsigned int size,
				    unsigned int i)
{
	unsigned long rest = i < size ? *word & ~0ul << i : 0;

	return rest && (unsigned int)__builtin_ctzl(rest) < size ?
	       (unsigned int)__builtin_ctzl(rest) : size;
}

#define for_each_set_bit(i, word, size)					\
	for ((i) = next_bit(word, size, 0); (i) < (size);		\
	     (i) = next_bit(word, size, (i) + 1))

/* Atomic numbers */

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	s64 counter;
} atomic64_t;

typedef atomic64_t local64_t;

#define atomic_read(v)		READ_ONCE((v)->counter)
#define atomic_read_acquire(v)	atomic_read(v)
#define atomic_add(n, v)	((void)__sync_add_and_fetch(&(v)->counter, n))
#define atomic_inc(v)		((void)__sync_add_and_fetch(&(v)->counter, 1))
#define atomic_dec(v)		((void)__sync_sub_and_fetch(&(v)->counter, 1))
#define atomic_dec_return_release(v)	__sync_sub_and_fetch(&(v)->counter, 1)
#define atomic_dec_and_test(v)	(!__sync_sub_and_fetch(&(v)->counter, 1))
#define atomic64_read(v)	READ_ONCE((v)->counter)
#define atomic64_add(i, v)	((void)__sync_fetch_and_add(&(v)->counter, i))
#define local64_read(v)		atomic64_read(v)
#define local64_set(v, i)	WRITE_ONCE((v)->counter, i)
#define local64_add(i, v)						\
	({ point(); __sync_fetch_and_add(&(v)->counter, i); point(); })
#define local64_cmpxchg(v, old, new)	cmpxchg(&(v)->counter, old, new)

/* Lists */

struct list_head {
	struct list_head *next, *prev;
};

#define LIST_HEAD_INIT(name)	{ &(name), &(name) }
#define LIST_HEAD(name)		struct list_head name = LIST_HEAD_INIT(name)

static inline void list_init(struct list_head *list)
{
	list->next = list->prev = list;
}

static inline void list_add(struct list_head *new, struct list_head *head)
{
	new->next = head->next;
	new->prev = head;
	head->next->prev = new;
	head->next = new;
}

static inline void list_add_tail(struct list_head *new, struct list_head *head)
{
	list_add(new, head->prev);
}

static inline void list_del(struct list_head *entry)
{
	entry->next->prev = entry->prev;
	entry->prev->next = entry->next;
}

static inline void list_move(struct list_head *entry, struct list_head *head)
{
	list_del(entry);
	list_add(entry, head);
}

#define list_entry(p, type, member) container_of(p, type, member)
#define list_for_each_entry(p, head, member)				\
	for (p = list_entry((head)->next, typeof(*p), member);		\
	     &p->member != (head);					\
	     p = list_entry(p->member.next, typeof(*p), member))
#define list_for_each_entry_safe_reverse(p, n, head, member)		\
	for (p = list_entry((head)->prev, typeof(*p), member),		\
	     n = list_entry(p->member.prev, typeof(*p), member);	\
	     &p->member != (head);					\
	     p = n, n = list_entry(n->member.prev, typeof(*n), member))

/* Memory.  The alloc_fail_at-th allocation from now on fails; 0: none. */

#define PAGE_SIZE		4096ul
#define PAGE_MASK		(~(PAGE_SIZE - 1))
#define offset_in_page(p)	((unsigned long)(p) & ~PAGE_MASK)
#define GFP_KERNEL		0
#define __GFP_ZERO		0

typedef unsigned int gfp_t;

struct kmem_cache {
	size_t size, align;
};

extern unsigned int alloc_fail_at;
/* The number of allocations that are not freed. */
extern int nr_allocated;

void *alloc(size_t size, size_t align);
void kfree(const void *p);
void *kmemdup(const void *p, size_t size, gfp_t gfp);
struct kmem_cache *cache_create(size_t size, size_t align);

#define kzalloc(size, gfp)	alloc(size, 8)
#define KMEM_CACHE(name, flags) \
	cache_create(sizeof(struct name), __alignof__(struct name))
#define kmem_cache_alloc_node(cache, gfp, node) \
	alloc((cache)->size, (cache)->align)
#define kmem_cache_free(cache, p)	kfree(p)
#define kmem_cache_destroy(cache)	kfree(cache)
#define get_zeroed_page(gfp)	((unsigned long)alloc(PAGE_SIZE, PAGE_SIZE))
#define free_page(page)		kfree((void *)(page))
#define virt_to_phys(p)		((u64)(unsigned long)(p))
#define kmemleak_not_leak(p)	((void)(p))

#define PAGE_OFFSET		0xffff888000000000ul

/* The log.  The last line that printk() has printed, and the number of lines. */

extern char log_line[256];
extern int log_lines;

void log_print(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

#define pr_info(...)		log_print(__VA_ARGS__)
#define pr_warn(...)		log_print(__VA_ARGS__)
#define pr_err(...)		log_print(__VA_ARGS__)
#define pr_warn_once(...)						\
({									\
	static bool printed_;						\
									\
	if (!printed_)							\
		log_print(__VA_ARGS__);					\
	printed_ = true;						\
})

/* CPUs.  Interrupts are off in perf's callbacks, timers and IPIs. */

#define NR_CPUS			4
#define nr_cpu_ids		NR_CPUS
#define cpu_to_node(cpu)	0

typedef struct cpumask {
	unsigned long bits;
} cpumask_t;

extern int this_cpu;
extern cpumask_t cpus_online;

#define smp_processor_id()	this_cpu
#define raw_smp_processor_id()	smp_processor_id()
#define DECLARE_PER_CPU(type, name)	extern typeof(type) name[NR_CPUS]
#define DEFINE_PER_CPU(type, name)	typeof(type) name[NR_CPUS]
#define per_cpu(name, cpu)	((name)[cpu])
#define this_cpu_read(name)	((name)[this_cpu])
#define for_each_possible_cpu(cpu) \
	for ((cpu) = 0; (cpu) < NR_CPUS; (cpu)++)
#define for_each_online_cpu(cpu)					\
	for_each_possible_cpu(cpu)					\
		if (cpus_online.bits & BIT(cpu))
#define cpus_read_lock()	((void)0)
#define cpus_read_unlock()	((void)0)
#define tick_nohz_full_cpu(cpu)	((cpu) == NR_CPUS - 1)

bool irqs_off(void);
/* Switches interrupts off; returns true if they were on. */
bool irq_off(void);
void irq_on(bool on);

#define local_irq_save(flags)	((flags) = irq_off())
#define local_irq_restore(flags) irq_on(flags)
#define in_nmi()		(nmi_depth[this_cpu] != 0)

extern int nmi_depth[NR_CPUS];

#define CSD_FLAG_LOCK		1

typedef struct {
	struct {
		unsigned int u_flags;
	} node;
	void (*func)(void *info);
	void *info;
	int cpu;
} call_single_data_t;

#define INIT_CSD(csd, function, data) \
	(*(csd) = (call_single_data_t){ .func = (function), .info = (data) })

void on_cpu(int cpu, void (*func)(void *info), void *info);
int smp_call_function_single(int cpu, void (*func)(void *info), void *info,
			     int wait);
int smp_call_function_single_async(int cpu, call_single_data_t *csd);
void on_each_cpu(void (*func)(void *info), void *info, int wait);
void on_each_cpu_mask(const cpumask_t *mask, void (*func)(void *info),
		      void *info, int wait);
void on_each_cpu_cond(bool (*cond)(int cpu, void *info),
		      void (*func)(void *info), void *info, bool wait);
/* Asynchronous calls come when time has passed. */
extern bool calls_are_late;
extern void (*during_call)(void);
/* The number of calls of other CPUs. */
extern int nr_ipis;

enum {
	CPUHP_BP_PREPARE_DYN = 1,
	CPUHP_AP_ONLINE_DYN,
};

int cpuhp_setup_state(int state, const char *name,
		      int (*startup)(unsigned int cpu),
		      int (*teardown)(unsigned int cpu));
int cpuhp_setup_state_nocalls(int state, const char *name,
			      int (*startup)(unsigned int cpu),
			      int (*teardown)(unsigned int cpu));
void cpuhp_remove_state(int state);
void cpuhp_remove_state_nocalls(int state);
/* The next registration fails. */
extern bool cpuhp_fails;

struct syscore_ops {
	int (*suspend)(void);
	void (*resume)(void);
};

extern struct syscore_ops *system_ops;

#define register_syscore_ops(ops)	((void)(system_ops = (ops)))
#define unregister_syscore_ops(ops)	((void)(system_ops = NULL))

/* Time */

#define HZ			100
#define NSEC_PER_SEC		1000000000ull
#define NSEC_PER_MSEC		1000000ull
#define TICK_NSEC		(NSEC_PER_SEC / HZ)
#define INITIAL_JIFFIES		1000ul

extern u64 clock_ns;

/* A test may add to it, so that jiffies wrap. */
extern unsigned long jiffies_ahead;

#define jiffies								\
	(INITIAL_JIFFIES + jiffies_ahead + (unsigned long)(clock_ns / TICK_NSEC))
#define get_jiffies_64()	((u64)jiffies)
#define time_before(a, b)	((long)((a) - (b)) < 0)
#define time_after64(a, b)	((s64)((b) - (a)) < 0)
#define local_clock()		clock_ns
/* The time stamp counter.  An NMI takes some time. */
#define rdtsc_ordered()		(clock_ns / 1000)
#define tsc_khz			1000u
#define msleep(ms)		wait_ns((ms) * NSEC_PER_MSEC)

/* If not NULL, waits until no CPU has interrupts off. */
extern void (*rcu_wait)(void);

static inline void synchronize_rcu(void)
{
	if (rcu_wait)
		rcu_wait();
}

/* Moves the clock, and runs ticks and timers of all CPUs. */
void wait_ns(u64 ns);

#define TIMER_PINNED		1
#define TIMER_DEFERRABLE	2

struct timer_list {
	void (*function)(struct timer_list *timer);
	unsigned int flags;
	unsigned long expires;
	int cpu;
	bool pending;
	struct timer_list *next;
};

void timer_setup_on(struct timer_list *timer,
		    void (*function)(struct timer_list *timer),
		    unsigned int flags);
void mod_timer(struct timer_list *timer, unsigned long expires);
void timer_delete_sync(struct timer_list *timer);
void timers_run(void);

#define timer_setup(timer, function, flags) \
	timer_setup_on(timer, function, flags)
#define timer_pending(timer)	((timer)->pending)

struct irq_work {
	void (*func)(struct irq_work *work);
	bool pending;
	int cpu;
	struct irq_work *next;
};

#define IRQ_WORK_INIT_HARD(function) ((struct irq_work){ .func = (function) })

bool irq_work_queue(struct irq_work *work);
void irq_work_sync(struct irq_work *work);

/* Locks */

struct mutex {
	bool locked;
};

#define DEFINE_MUTEX(name)	struct mutex name
#define mutex_lock(lock)	\
	(CHECK(!irqs_off() && !(lock)->locked), (void)((lock)->locked = true))
#define mutex_unlock(lock)	\
	(CHECK((lock)->locked), (void)((lock)->locked = false))
#define lockdep_assert_held(lock)	CHECK((lock)->locked)
#define lockdep_assert_held_write(lock)	((void)(lock))

/*
 * A lock that is taken with interrupts off.  CPUs run one after the other here, so that no
 * CPU waits for the lock.
 */
typedef struct mutex raw_spinlock_t;

#define DEFINE_RAW_SPINLOCK(name)	raw_spinlock_t name
#define raw_spin_lock_irqsave(lock, flags) \
	do { \
		local_irq_save(flags); \
		CHECK(!(lock)->locked); \
		(lock)->locked = true; \
	} while (0)
#define raw_spin_unlock_irqrestore(lock, flags) \
	do { mutex_unlock(lock); local_irq_restore(flags); } while (0)

/* A reader in the middle of a change would wait for ever: an NMI must not read. */
typedef struct {
	unsigned int sequence;
} seqcount_raw_spinlock_t;

#define SEQCNT_RAW_SPINLOCK_ZERO(name, lock)	{ 0 }
#define write_seqcount_begin(s)		((s)->sequence++)
#define write_seqcount_end(s)		((s)->sequence++)

static inline unsigned int read_seqcount_begin(const seqcount_raw_spinlock_t *s)
{
	CHECK(!(s->sequence & 1));
	return s->sequence;
}

static inline int read_seqcount_retry(const seqcount_raw_spinlock_t *s,
				      unsigned int sequence)
{
	return s->sequence != sequence;
}

/* Tasks */

#define PF_KTHREAD		0x00200000

struct mm_struct {
	int mmap_lock;
	struct {
		atomic_t perf_rdpmc_allowed;
	} context;
	cpumask_t cpus;
};

#define mm_cpumask(mm)		(&(mm)->cpus)
#define hash_ptr(p, bits)	((unsigned long)(p) / sizeof(*(p)) % (1u << (bits)))

struct pt_regs {
	unsigned long ax, dx, di, si;
	unsigned long ip, cs, flags, sp, ss;
};

#define regs_get_kernel_argument(regs, i)	((i) ? (regs)->si : (regs)->di)
#define regs_return_value(regs)		((regs)->ax)
#define regs_set_return_value(regs, value)	((void)((regs)->ax = (value)))
#define user_mode(regs)		(((regs)->cs & 3) == 3)
#define X86_TRAP_GP		13
#define __KERNEL_CS		0x10
#define __KERNEL_DS		0x18
#define __USER_CS		0x33
#define __USER_DS		0x2b
#define X86_EFLAGS_FIXED	2
#define MAX_INSN_SIZE		15
#define PERF_EFLAGS_EXACT	8

struct task_struct;

extern struct task_struct *currents[NR_CPUS];

#define current			(currents[this_cpu])
struct pt_regs *task_pt_regs(struct task_struct *task);

extern bool may_perfmon;

#define perfmon_capable()	may_perfmon

int copy_from_user_nofault(void *to, const void *from, size_t n);

/* x86 */

#define X86_VENDOR_INTEL	0
#define X86_VENDOR_AMD		2

struct cpuinfo_x86 {
	int x86_vendor;
};

extern struct cpuinfo_x86 boot_cpu_data;
extern bool cpu_has_apic, cpu_has_svm, cpu_has_rtm;

enum {
	X86_FEATURE_APIC,
	X86_FEATURE_SVM,
	X86_FEATURE_VMX,
	X86_FEATURE_RTM,
	X86_FEATURE_HLE,
};

#define boot_cpu_has(feature)						\
	((feature) == X86_FEATURE_APIC ? cpu_has_apic :			\
	 (feature) == X86_FEATURE_SVM ? cpu_has_svm :			\
	 (feature) == X86_FEATURE_RTM && cpu_has_rtm)
#define CC_ATTR_GUEST_MEM_ENCRYPT	0

extern bool memory_is_encrypted;

#define cc_platform_has(what)	memory_is_encrypted

#define APIC_LVTPC		0x340
#define APIC_LVT_MASKED		(1 << 16)

struct apic {
	u32 (*read)(u32 reg);
	void (*write)(u32 reg, u32 value);
};

extern struct apic *apic;
extern u32 lvtpc[NR_CPUS];

#define ARCH_PERFMON_EVENTSEL_EVENT	0x000000ffull
#define ARCH_PERFMON_EVENTSEL_UMASK	0x0000ff00ull
#define ARCH_PERFMON_EVENTSEL_EDGE	(1ull << 18)
#define ARCH_PERFMON_EVENTSEL_ANY	(1ull << 21)
#define ARCH_PERFMON_EVENTSEL_INV	(1ull << 23)
#define ARCH_PERFMON_EVENTSEL_CMASK	0xff000000ull
#define HSW_IN_TX			(1ull << 32)
#define HSW_IN_TX_CHECKPOINTED		(1ull << 33)
#define PERF_REG_EXTENDED_MASK		0xffffffff00000000ull

/* RDPMC becomes UD2: SIGILL's handler plays the CPU. */
__asm__(".macro rdpmc\n\tud2\n.endm");
#define _ASM_EXTABLE(from, to)						\
	".pushsection rdpmc_table, \"aw\"\n"				\
	".quad " #from ", " #to "\n"					\
	".popsection\n"

/* Hypercalls: see host.c. */

#define KVM_CPUID_FEATURES	0x40000001

#ifndef KVM_EFAULT
#define KVM_ENOSYS		1000
#define KVM_EFAULT		EFAULT
#define KVM_EINVAL		EINVAL
#define KVM_E2BIG		E2BIG
#define KVM_EPERM		EPERM
#define KVM_EOPNOTSUPP		95
#endif

bool kvm_para_available(void);
u32 cpuid_base_hypervisor(const char *signature, u32 leaves);
u32 hypervisor_cpuid_base(const char *signature, u32 leaves);
u32 cpuid_eax(u32 leaf);
long kvm_hypercall4(unsigned int nr, unsigned long a0, unsigned long a1,
		    unsigned long a2, unsigned long a3);
u64 steal_clock(int cpu);

/* NMIs, probes, notifiers */

#define NMI_LOCAL		0
#define NMI_HANDLED		1

typedef int (*nmi_handler_t)(unsigned int cmd, struct pt_regs *regs);

extern nmi_handler_t nmi_handler;
extern bool nmi_register_fails;

int register_nmi_handler(unsigned int type, nmi_handler_t handler,
			 unsigned long flags, const char *name);
void unregister_nmi_handler(unsigned int type, const char *name);

#define KPROBE_FLAG_DISABLED	1

struct kprobe {
	const char *symbol_name;
	unsigned int flags;
	unsigned int offset;
	void *addr;
	int (*pre_handler)(struct kprobe *probe, struct pt_regs *regs);
};

struct kretprobe_instance {
	char data[32];
};

struct kretprobe {
	struct kprobe kp;
	int (*entry_handler)(struct kretprobe_instance *ri,
			     struct pt_regs *regs);
	int (*handler)(struct kretprobe_instance *ri, struct pt_regs *regs);
	size_t data_size;
};

/* A function that this kernel does not have, for a test. */
extern const char *missing_function;
/* The function at which a kprobe was armed last: the kernel has changed its code. */
extern const char *armed_function;
extern struct kprobe *kexec_probe;
extern struct kretprobe *page_probe, *fixup_probe;

int register_kprobe(struct kprobe *probe);
void unregister_kprobe(struct kprobe *probe);
int register_kretprobe(struct kretprobe *probe);
void unregister_kretprobe(struct kretprobe *probe);
#define kprobe_ftrace(probe)	((probe)->offset < 4)
unsigned long kallsyms_lookup_name(const char *name);

struct notifier_block {
	int (*notifier_call)(struct notifier_block *block, unsigned long action,
			     void *data);
};

#define NOTIFY_DONE		0

extern struct notifier_block *reboot_notifier;

#define register_reboot_notifier(block)	(reboot_notifier = (block), 0)
#define unregister_reboot_notifier(block) ((void)(reboot_notifier = NULL))

struct tracepoint {
	const char *name;
	void *probe;
};

extern struct tracepoint sched_switch_tracepoint;

int tracepoint_probe_register(struct tracepoint *tp, void *probe, void *data);
int tracepoint_probe_unregister(struct tracepoint *tp, void *probe, void *data);
extern bool tracepoint_fails;

#define for_each_kernel_tracepoint(func, data) \
	(func)(&sched_switch_tracepoint, data)
#define tracepoint_synchronize_unregister()	((void)0)

long static_call_nothing(void);

#define DECLARE_STATIC_CALL(name, func)	extern typeof(func) *call_##name
#define DEFINE_STATIC_CALL(name, func)	typeof(func) *call_##name = func
#define DEFINE_STATIC_CALL_NULL(name, func) \
	typeof(func) *call_##name = (void *)static_call_nothing
#define DEFINE_STATIC_CALL_RET0		DEFINE_STATIC_CALL_NULL
#define static_call(name)		(*call_##name)
#define static_call_cond(name)		(*call_##name)
#define static_call_update(name, func)	((void)(call_##name = (void *)(func)))

struct static_key_false {
	int enabled;
};

extern struct static_key_false rdpmc_never;

#define static_branch_inc(key)	((void)(key)->enabled++)
#define static_branch_dec(key)	((void)(key)->enabled--)

/* Files */

struct kobject;
struct device;

struct attribute {
	const char *name;
	umode_t mode;
};

struct attribute_group {
	const char *name;
	struct attribute **attrs;
	umode_t (*is_visible)(struct kobject *kobj, struct attribute *attr,
			      int i);
};

struct device_attribute {
	struct attribute attr;
	ssize_t (*show)(struct device *dev, struct device_attribute *attr,
			char *buf);
	ssize_t (*store)(struct device *dev, struct device_attribute *attr,
			 const char *buf, size_t n);
};

struct perf_pmu_events_attr {
	struct device_attribute attr;
	u64 id;
	const char *event_str;
};

#define DEVICE_ATTR_RO(name_) \
	struct device_attribute dev_attr_##name_ = \
	{ .attr = { #name_, 0444 }, .show = name_##_show }
#define DEVICE_ATTR_ADMIN_RO(name_) \
	struct device_attribute dev_attr_##name_ = \
	{ .attr = { #name_, 0400 }, .show = name_##_show }
#define DEVICE_ATTR_RW(name_) \
	struct device_attribute dev_attr_##name_ = \
	{ .attr = { #name_, 0644 }, .show = name_##_show, .store = name_##_store }
#define PMU_EVENT_ATTR(name_, var, id_, show_)				\
	static struct perf_pmu_events_attr var = {			\
		.attr = { .attr = { #name_, 0444 }, .show = show_ },	\
		.id = id_						\
	}
#define PMU_FORMAT_ATTR(name_, format_)					\
	static ssize_t name_##_format_show(struct device *dev,		\
					   struct device_attribute *attr, \
					   char *buf)			\
	{								\
		return sysfs_emit(buf, format_ "\n");			\
	}								\
	static struct device_attribute format_attr_##name_ =		\
	{ .attr = { #name_, 0444 }, .show = name_##_format_show }

int sysfs_emit(char *buf, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
int sysfs_emit_at(char *buf, int at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int kstrtouint(const char *text, unsigned int base, unsigned int *value);

struct dentry;

struct debugfs_file {
	int (*get)(void *data, u64 *value);
};

extern const struct debugfs_file *debugfs_overflows;

#define DEFINE_DEBUGFS_ATTRIBUTE(name, get_, set_, format) \
	static const struct debugfs_file name = { .get = get_ }
#define debugfs_create_dir(name, parent)	((struct dentry *)NULL)
#define debugfs_create_file_unsafe(name, mode, dir, data, fops) \
	((void)(dir), (void)(debugfs_overflows = (fops)))
#define debugfs_lookup_and_remove(name, parent)	\
	((void)(debugfs_overflows = NULL, debugfs_area = NULL))

struct file;

struct file_operations {
	struct module *owner;
	int (*open)(void);
	ssize_t (*read)(struct file *file, char *to, size_t size, loff_t *at);
	int (*llseek)(void);
};

extern const struct file_operations *debugfs_area;

#define simple_open	NULL
#define default_llseek	NULL
#define debugfs_create_file(name, mode, dir, data, fops) \
	((void)(dir), (void)(debugfs_area = (fops)))

ssize_t simple_read_from_buffer(void *to, size_t size, loff_t *at, const void *from,
				size_t available);

#include "perf_core.h"

#endif
