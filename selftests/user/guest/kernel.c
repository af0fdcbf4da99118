// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel around the guest's driver in user space: see stand_in.h.
 */
#include "stand_in.h"

#include <signal.h>
#include <stdarg.h>
#include <ucontext.h>

#include "host.h"
#include "kvm_pmu.h"

/* Checks */

void fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: %s\n", file, line, what);
	abort();
}

void no_warning(bool cond, const char *what)
{
	if (cond)
		fail("guest", 0, what);
}

bool is_64bit = true;
unsigned long points;
void (*point_hook)(void);

void point_slow(void)
{
	void (*hook)(void) = point_hook;

	point_hook = NULL;
	hook();
	if (!point_hook)
		point_hook = hook;
}

/* Memory */

unsigned int alloc_fail_at;
int nr_allocated;

void *alloc(size_t size, size_t align)
{
	void *p;

	if (alloc_fail_at && !--alloc_fail_at)
		return NULL;

	/* kmalloc() aligns a power of two to its size. */
	if (!(size & (size - 1)) && size > align && size <= PAGE_SIZE)
		align = size;
	CHECK(!posix_memalign(&p, align < 8 ? 8 : align, size));
	memset(p, 0, size);
	nr_allocated++;
	return p;
}

void kfree(const void *p)
{
	if (p)
		nr_allocated--;
	free((void *)p);
}

void *kmemdup(const void *p, size_t size, gfp_t gfp)
{
	void *copy = alloc(size, 8);

	return copy ? memcpy(copy, p, size) : NULL;
}

struct kmem_cache *cache_create(size_t size, size_t align)
{
	struct kmem_cache *cache = alloc(sizeof(*cache), 8);

	if (cache)
		*cache = (struct kmem_cache){ size, align };
	return cache;
}

/* The log */

char log_line[256];
int log_lines;

void log_print(const char *format, ...)
{
	va_list args;

	/* printk() may take the runqueue's lock. */
	va_start(args, format);
	vsnprintf(log_line, sizeof(log_line), format, args);
	va_end(args);
	log_lines++;
}

/* CPUs */

int this_cpu;
cpumask_t cpus_online = { BIT(NR_CPUS) - 1 };
int nmi_depth[NR_CPUS];
int nr_ipis;

bool calls_are_late;

static bool off[NR_CPUS];
static struct irq_work *works;
/* Calls for another CPU, which runs them as soon as its interrupts are on. */
static call_single_data_t *calls[NR_CPUS];

bool irqs_off(void)
{
	return off[this_cpu] || nmi_depth[this_cpu];
}

bool irq_off(void)
{
	bool on = !off[this_cpu];

	off[this_cpu] = true;
	return on;
}

static struct irq_work *next_work(void)
{
	struct irq_work **p, *work;

	for (p = &works; *p; p = &(*p)->next) {
		work = *p;
		if (work->cpu == this_cpu) {
			*p = work->next;
			return work;
		}
	}

	return NULL;
}

/* Runs the work that waits for interrupts to be on. */
static void interrupts(void)
{
	struct irq_work *work;
	call_single_data_t *csd;
	int n = 0;

	while ((work = next_work())) {
		/* Work that queues itself again each time would take all CPU time. */
		CHECK(n++ < 100);
		off[this_cpu] = true;
		work->pending = false;
		work->func(work);
		off[this_cpu] = false;
	}

	csd = calls_are_late ? NULL : calls[this_cpu];
	if (csd) {
		calls[this_cpu] = NULL;
		off[this_cpu] = true;
		csd->node.u_flags = 0;
		csd->func(csd->info);
		off[this_cpu] = false;
		interrupts();
	}
}

void irq_on(bool on)
{
	if (!on)
		return;

	CHECK(off[this_cpu]);
	off[this_cpu] = false;
	if (!nmi_depth[this_cpu])
		interrupts();
}

void run_interrupts(int cpu)
{
	int was = this_cpu;

	this_cpu = cpu;
	if (!irqs_off())
		interrupts();
	this_cpu = was;
}

bool irq_work_queue(struct irq_work *work)
{
	struct irq_work **p;

	point();
	if (work->pending)
		return false;

	work->pending = true;
	work->cpu = this_cpu;
	work->next = NULL;
	for (p = &works; *p; p = &(*p)->next)
		;
	*p = work;
	return true;
}

void irq_work_sync(struct irq_work *work)
{
	if (work->pending)
		run_interrupts(work->cpu);
	CHECK(!work->pending);
}

void on_cpu(int cpu, void (*func)(void *info), void *info)
{
	int was = this_cpu;
	bool on;

	if (cpu != was)
		nr_ipis++;
	this_cpu = cpu;
	on = irq_off();
	func(info);
	irq_on(on);
	this_cpu = was;
}

int smp_call_function_single(int cpu, void (*func)(void *info), void *info, int wait)
{
	if (!(cpus_online.bits & BIT(cpu)))
		return -ENXIO;

	on_cpu(cpu, func, info);
	return 0;
}

/* What another CPU does while a CPU makes a call. */
void (*during_call)(void);

/* The kernel does not lock: two calls by the same @csd at a time end in an endless list. */
int smp_call_function_single_async(int cpu, call_single_data_t *csd)
{
	void (*during)(void) = during_call;

	if (csd->node.u_flags & CSD_FLAG_LOCK)
		return -EBUSY;
	if (!(cpus_online.bits & BIT(cpu)))
		return -ENXIO;

	during_call = NULL;
	if (during)
		during();
	csd->node.u_flags = CSD_FLAG_LOCK;
	csd->cpu = cpu;
	CHECK(!calls[cpu]);
	calls[cpu] = csd;
	return 0;
}

void on_each_cpu_mask(const cpumask_t *mask, void (*func)(void *info), void *info,
		      int wait)
{
	int cpu;

	for_each_online_cpu(cpu) {
		if (mask->bits & BIT(cpu))
			on_cpu(cpu, func, info);
	}
}

void on_each_cpu(void (*func)(void *info), void *info, int wait)
{
	on_each_cpu_mask(&cpus_online, func, info, wait);
}

void on_each_cpu_cond(bool (*cond)(int cpu, void *info), void (*func)(void *info),
		      void *info, bool wait)
{
	int cpu;

	for_each_online_cpu(cpu) {
		if (cond(cpu, info))
			on_cpu(cpu, func, info);
	}
}

/* CPUs come and go. */

bool cpuhp_fails;
struct syscore_ops *system_ops;

static int (*cpu_dead)(unsigned int cpu);
static int (*cpu_startup)(unsigned int cpu), (*cpu_teardown)(unsigned int cpu);

int cpuhp_setup_state_nocalls(int state, const char *name,
			      int (*startup)(unsigned int cpu),
			      int (*teardown)(unsigned int cpu))
{
	if (cpuhp_fails)
		return -ENOSPC;

	cpu_dead = teardown;
	return state;
}

int cpuhp_setup_state(int state, const char *name, int (*startup)(unsigned int cpu),
		      int (*teardown)(unsigned int cpu))
{
	int cpu, was = this_cpu;

	if (cpuhp_fails)
		return -ENOSPC;

	cpu_startup = startup;
	cpu_teardown = teardown;
	for_each_online_cpu(cpu) {
		this_cpu = cpu;
		startup(cpu);
	}
	this_cpu = was;
	return state;
}

void cpuhp_remove_state(int state)
{
	int cpu, was = this_cpu;

	for_each_online_cpu(cpu) {
		this_cpu = cpu;
		cpu_teardown(cpu);
	}
	this_cpu = was;
	cpu_startup = cpu_teardown = NULL;
}

void cpuhp_remove_state_nocalls(int state)
{
	cpu_dead = NULL;
}

static void cpu_go(void *info)
{
	cpu_teardown(this_cpu);
}

void cpu_down(int cpu)
{
	on_cpu(cpu, cpu_go, NULL);
	cpus_online.bits &= ~BIT(cpu);
	cpu_dead(cpu);
}

void cpu_up(int cpu)
{
	int was = this_cpu;

	cpus_online.bits |= BIT(cpu);
	this_cpu = cpu;
	cpu_startup(cpu);
	this_cpu = was;
}

/* Time */

u64 clock_ns;
unsigned long jiffies_ahead;
void (*rcu_wait)(void);

static struct timer_list *timers;

void timer_setup_on(struct timer_list *timer, void (*function)(struct timer_list *timer),
		    unsigned int flags)
{
	*timer = (struct timer_list){ .function = function, .flags = flags };
}

static void timer_unlink(struct timer_list *timer)
{
	struct timer_list **p;

	for (p = &timers; *p; p = &(*p)->next) {
		if (*p == timer) {
			*p = timer->next;
			return;
		}
	}
}

void mod_timer(struct timer_list *timer, unsigned long expires)
{
	/* The caller must not hold the runqueue's lock. */
	timer_unlink(timer);
	timer->expires = expires;
	timer->pending = true;
	timer->cpu = this_cpu;
	timer->next = timers;
	timers = timer;
}

void timer_delete_sync(struct timer_list *timer)
{
	timer_unlink(timer);
	timer->pending = false;
}

/* A CPU without a tick does not run them. */
static bool is_deferred(const struct timer_list *timer)
{
	return timer->flags & TIMER_DEFERRABLE && tick_nohz_full_cpu(timer->cpu);
}

static struct timer_list *next_timer(void)
{
	struct timer_list *timer;

	for (timer = timers; timer; timer = timer->next) {
		if (!time_before(jiffies, timer->expires) && !is_deferred(timer))
			return timer;
	}

	return NULL;
}

void timers_run(void)
{
	struct timer_list *timer;
	int was = this_cpu;

	while ((timer = next_timer())) {
		timer_delete_sync(timer);
		this_cpu = cpus_online.bits & BIT(timer->cpu) ? timer->cpu : 0;
		timer->function(timer);
		run_interrupts(this_cpu);
		this_cpu = was;
	}
}

void wait_ns(u64 ns)
{
	u64 end = clock_ns + ns, next;
	int cpu;

	calls_are_late = false;
	for (;;) {
		next = (clock_ns / TICK_NSEC + 1) * TICK_NSEC;
		if (next > end)
			break;
		clock_ns = next;
		for_each_online_cpu(cpu) {
			run_interrupts(cpu);
			perf_tick(cpu);
			perf_rotate(cpu);
		}
		timers_run();
		perf_run_pending();
	}
	clock_ns = end;
}

/* x86 */

struct cpuinfo_x86 boot_cpu_data = { X86_VENDOR_AMD };
bool cpu_has_apic = true, cpu_has_svm, cpu_has_rtm, memory_is_encrypted, may_perfmon = true;
u32 lvtpc[NR_CPUS] = { [0 ... NR_CPUS - 1] = APIC_LVT_MASKED };

static u32 read_apic(u32 reg)
{
	CHECK(reg == APIC_LVTPC);
	return lvtpc[this_cpu];
}

static void write_apic(u32 reg, u32 value)
{
	CHECK(reg == APIC_LVTPC);
	lvtpc[this_cpu] = value;
}

static struct apic local_apic = { read_apic, write_apic };
struct apic *apic = &local_apic;

struct rdpmc_entry {
	u64 from, to;
};

extern const struct rdpmc_entry __start_rdpmc_table[], __stop_rdpmc_table[];
__asm__(".section rdpmc_table, \"aw\"\n.globl __start_rdpmc_table\n.previous");

static const struct rdpmc_entry *rdpmc_at(u64 ip)
{
	const struct rdpmc_entry *entry;

	for (entry = __start_rdpmc_table; entry < __stop_rdpmc_table; entry++) {
		if (entry->from == ip)
			return entry;
	}

	return NULL;
}

/* An RDPMC: the value, or #GP, which continues at the exception table's address. */
static void illegal_instruction(int signal, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	const struct rdpmc_entry *entry = rdpmc_at(regs[REG_RIP]);
	u64 value;

	CHECK(entry);
	if (host_rdpmc(this_cpu, regs[REG_RCX], &value)) {
		regs[REG_RAX] = (u32)value;
		regs[REG_RDX] = value >> 32;
		regs[REG_RIP] += 2;
	} else {
		regs[REG_RIP] = entry->to;
	}
}

void cpu_init(void)
{
	struct sigaction action = {
		.sa_sigaction	= illegal_instruction,
		.sa_flags	= SA_SIGINFO | SA_NODEFER,
	};

	sigaction(SIGILL, &action, NULL);
}

int copy_from_user_nofault(void *to, const void *from, size_t n)
{
	/* The programs here have code at only one address. */
	if ((unsigned long)from != USER_RDPMC)
		return -EFAULT;

	memcpy(to, "\x0f\x33", 2);
	return 0;
}

struct pt_regs *task_pt_regs(struct task_struct *task)
{
	return &task->regs;
}

int branch_type_fused(unsigned long from, unsigned long to, int abort, int *offset)
{
	*offset = 0;
	/* The type comes from the address, so that a test can choose it. */
	return from & 0xfff000 ? 1 << (from >> 12 & 31) | ((long)from < 0 ? 2 : 1) : 0;
}

int common_branch_type(int type)
{
	return 1;
}

int kernel_text_address(unsigned long address)
{
	return (address >> 24 & 0xff) == 0x81;
}

unsigned long cr4_updates;

void cr4_update_pce(void *unused)
{
	cr4_updates++;
}

/* NMIs and probes */

nmi_handler_t nmi_handler;
bool nmi_register_fails, tracepoint_fails;
const char *missing_function;
struct kprobe *kexec_probe;
const char *armed_function;
struct kretprobe *page_probe, *fixup_probe;
struct notifier_block *reboot_notifier;
struct tracepoint sched_switch_tracepoint = { "sched_switch" };
struct static_key_false rdpmc_never;

int register_nmi_handler(unsigned int type, nmi_handler_t handler, unsigned long flags,
			 const char *name)
{
	if (nmi_register_fails)
		return -ENOMEM;

	nmi_handler = handler;
	return 0;
}

void unregister_nmi_handler(unsigned int type, const char *name)
{
	nmi_handler = NULL;
}

int tracepoint_probe_register(struct tracepoint *tp, void *probe, void *data)
{
	if (tracepoint_fails)
		return -ENOMEM;

	tp->probe = probe;
	return 0;
}

int tracepoint_probe_unregister(struct tracepoint *tp, void *probe, void *data)
{
	CHECK(tp->probe == probe);
	tp->probe = NULL;
	return 0;
}

static const struct {
	const char *name;
	void *address;
} functions[] = {
	{ "perf_event_overflow", perf_event_overflow },
	{ "perf_event_account_interrupt", perf_event_account_interrupt },
	{ "perf_pmu_resched", perf_pmu_resched },
	{ "perf_sample_event_took", perf_sample_event_took },
	{ "kvm_steal_clock", steal_clock },
	{ "branch_type_fused", branch_type_fused },
	{ "common_branch_type", common_branch_type },
	{ "perf_sched_cb_inc", perf_sched_cb_inc },
	{ "perf_sched_cb_dec", perf_sched_cb_dec },
	{ "kernel_text_address", kernel_text_address },
	{ "cr4_update_pce", cr4_update_pce },
	{ "kallsyms_lookup_name", kallsyms_lookup_name },
	{ "machine_kexec", kexec_probe_target },
};

void kexec_probe_target(void)
{
}

unsigned long kallsyms_lookup_name(const char *name)
{
	if (!strcmp(name, "sysctl_perf_event_sample_rate"))
		return (unsigned long)&sample_rate;
	CHECK(!strcmp(name, "rdpmc_never_available_key"));
	return (unsigned long)&rdpmc_never;
}

int register_kprobe(struct kprobe *probe)
{
	unsigned int i;

	if (missing_function && !strcmp(missing_function, probe->symbol_name))
		return -ENOENT;

	for (i = 0; i < ARRAY_SIZE(functions); i++) {
		if (strcmp(functions[i].name, probe->symbol_name))
			continue;
		probe->addr = functions[i].address;
		if (!(probe->flags & KPROBE_FLAG_DISABLED))
			armed_function = probe->symbol_name;
		if (probe->pre_handler)
			kexec_probe = probe;
		return 0;
	}

	return -ENOENT;
}

void unregister_kprobe(struct kprobe *probe)
{
	if (probe == kexec_probe)
		kexec_probe = NULL;
}

int register_kretprobe(struct kretprobe *probe)
{
	bool page = !strcmp(probe->kp.symbol_name, "arch_perf_update_userpage");

	if (missing_function && !strcmp(missing_function, probe->kp.symbol_name))
		return -ENOENT;

	*(page ? &page_probe : &fixup_probe) = probe;
	return 0;
}

void unregister_kretprobe(struct kretprobe *probe)
{
	*(probe == page_probe ? &page_probe : &fixup_probe) = NULL;
}

long static_call_nothing(void)
{
	return 0;
}

/* Files */

const struct debugfs_file *debugfs_overflows;
const struct file_operations *debugfs_area;

ssize_t simple_read_from_buffer(void *to, size_t size, loff_t *at, const void *from,
				size_t available)
{
	CHECK(*at >= 0);
	if ((size_t)*at >= available)
		return 0;
	size = min_t(size_t, size, available - *at);
	memcpy(to, (const char *)from + *at, size);
	*at += size;
	return size;
}

int sysfs_emit(char *buf, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(buf, PAGE_SIZE, format, args);
	va_end(args);
	CHECK(n < (int)PAGE_SIZE);
	return n;
}

int sysfs_emit_at(char *buf, int at, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(buf + at, PAGE_SIZE - at, format, args);
	va_end(args);
	CHECK(at + n < (int)PAGE_SIZE);
	return n;
}

int kstrtouint(const char *text, unsigned int base, unsigned int *value)
{
	char *end;

	*value = strtoul(text, &end, base);
	return end == text || *end > '\n' ? -EINVAL : 0;
}
