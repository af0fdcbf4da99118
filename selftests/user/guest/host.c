// SPDX-License-Identifier: GPL-2.0
/*
 * The model of the host: see host.h.
 */
#include "host.h"

struct host host;

static const u32 features = KVM_PERF_FEATURE_SAMPLING | KVM_PERF_FEATURE_BATCH |
			    KVM_PERF_FEATURE_NESTED | KVM_PERF_FEATURE_NOTIFY |
			    KVM_PERF_FEATURE_AREA | KVM_PERF_FEATURE_COUNTS;

void host_init(void)
{
	unsigned int i;

	memset(&host, 0, sizeof(host));
	host.offers = true;
	host.query = (struct guest_perf_query) {
		.version	= KVM_PERF_ABI_VERSION,
		.features	= features,
		.max_events	= 64,
		.nr_counters	= 4,
		.raw_event_mask	= 0xfffffffffull,
		.rdpmc		= KVM_PERF_RDPMC_HOST,
		.counts		= GENMASK(KVM_PERF_NR_COUNTS - 1, 0),
	};
	for (i = 0; i < KVM_PERF_NR_HW_EVENTS; i++)
		host.query.hw_config[i] = 0x76 + 0x100 * i;
	host.query.hw_config[PERF_COUNT_HW_INSTRUCTIONS] = 0xc0;
	host.allowed_counts = host.query.counts;
	host.last_epoch = 1;
	for (i = 0; i < NR_CPUS; i++)
		host.vcpus[i].counters = 4;
}

struct host_event *host_find(u32 id)
{
	struct host_event *event;

	for (event = host.events; event < host.events + HOST_EVENTS; event++) {
		if (event->open && event->id == id)
			return event;
	}

	return NULL;
}

int host_open(void)
{
	struct host_event *event;
	int n = 0;

	for (event = host.events; event < host.events + HOST_EVENTS; event++)
		n += event->open;
	return n;
}

int host_enabled(int cpu)
{
	struct host_event *event;
	int n = 0;

	for (event = host.events; event < host.events + HOST_EVENTS; event++)
		n += event->open && event->enabled && event->cpu == cpu;
	return n;
}

/* The number of events per unit of work: different events have different counts. */
u64 host_weight(const struct guest_perf_attr *attr)
{
	return attr->type == KVM_PERF_TYPE_RAW ? 1 + (attr->config & 3) : 1;
}

/* Records */

static bool is_lost(const struct host_event *event)
{
	return event->enabled && event->hw < 0;
}

static u32 flags_of(const struct host_event *event)
{
	return (is_lost(event) ? KVM_PERF_EVENT_LOST : 0) |
	       (event->enabled && event->throttled ? KVM_PERF_EVENT_THROTTLED : 0);
}

static void write_record(struct host_event *event)
{
	event->record->sequence += 2;
	event->record->count = event->count;
	event->record->period_left = event->left;
	event->record->flags = flags_of(event);
}

static bool may_rdpmc(const struct host_event *event)
{
	return host.query.rdpmc == KVM_PERF_RDPMC_ALLOWED &&
	       event->attr.flags & KVM_PERF_ATTR_RDPMC;
}

/* Before an entry.  Sends an NMI unless the guest's own operation is the reason. */
static void update_pmc(struct host_event *event, bool tell)
{
	bool has = event->enabled && event->hw >= 0 && !event->throttled;
	u32 old = event->pmc, new = 0;
	u64 offset = 0;

	if (!may_rdpmc(event))
		return;

	if (has) {
		new = event->hw < HOST_HW ? event->hw + 1 :
		      (event->hw - HOST_HW + 1) | KVM_PERF_PMC_FIXED;
		offset = event->count -
			 sign_extend64(host.vcpus[event->cpu].pmc[event->hw], 47);
	}
	if (new == (old & ~KVM_PERF_PMC_CHANGE) && offset == event->offset)
		return;

	event->pmc = new | (u32)((old & KVM_PERF_PMC_CHANGE) + KVM_PERF_PMC_CHANGE_ONE);
	event->offset = offset;
	event->record->pmc = event->pmc;
	event->record->offset = offset;
	if (tell && old & KVM_PERF_PMC_INDEX &&
	    event->attr.flags & KVM_PERF_ATTR_RDPMC_USER)
		host.vcpus[event->cpu].nmi = true;
}

/* Counters */

static int fixed_of(const struct guest_perf_attr *attr)
{
	u64 select = attr->type == KVM_PERF_TYPE_RAW ? attr->config :
		     attr->type == KVM_PERF_TYPE_HARDWARE ?
		     host.query.hw_config[attr->config] : 0;
	int i = select == 0xc0 ? 0 : select == 0x3c ? 1 : select == 0x300 ? 2 : -1;

	return i >= 0 && host.query.fixed_counters & BIT(i) ? i : -1;
}

/* Is it for cores of HOST_CORE_TYPE alone? */
static bool names_kind(const struct guest_perf_attr *attr)
{
	return attr->model & KVM_PERF_MODEL_KIND &&
	       (attr->model & KVM_PERF_MODEL_KIND) != KVM_PERF_MODEL_HYBRID;
}

static bool get_counter(struct host_event *event)
{
	struct host_vcpu *vcpu = &host.vcpus[event->cpu];
	int i, fixed = fixed_of(&event->attr);

	if (vcpu->other_kind && names_kind(&event->attr))
		return false;

	if (fixed >= 0 && !(vcpu->no_fixed & BIT(fixed)) &&
	    !vcpu->hw[HOST_HW + fixed]) {
		i = HOST_HW + fixed;
	} else {
		/* Only the fixed counter counts reference cycles. */
		if (fixed == 2)
			return false;
		for (i = 0; i < HOST_HW && vcpu->hw[i]; i++)
			;
		if (i >= min_t(int, vcpu->counters, host.query.nr_counters))
			return false;
	}

	vcpu->hw[i] = event;
	/* The counter has any old content. */
	vcpu->pmc[i] = (vcpu->pmc[i] * 7 + event->id + 0xfffffffff000ull) &
		       GENMASK_ULL(47, 0);
	event->hw = i;
	return true;
}

static void put_counter(struct host_event *event)
{
	if (event->hw >= 0)
		host.vcpus[event->cpu].hw[event->hw] = NULL;
	event->hw = -1;
}

static void note_flags(struct host_event *event, u32 old)
{
	u32 new = flags_of(event);

	if (new == old)
		return;

	if (event->attr.flags & KVM_PERF_ATTR_NOTIFY) {
		write_record(event);
		if (new & ~old)
			host.vcpus[event->cpu].nmi = true;
	}
	update_pmc(event, true);
}

/* The host needs the counter: a guest's event on it loses it. */
static void take_counter(struct host_vcpu *vcpu, int counter)
{
	struct host_event *event = vcpu->hw[counter];
	u32 old;

	if (!event)
		return;
	old = flags_of(event);
	put_counter(event);
	note_flags(event, old);
}

void host_set_counters(int cpu, int n)
{
	struct host_vcpu *vcpu = &host.vcpus[cpu];
	int i;

	vcpu->counters = n;
	for (i = n; i < HOST_HW; i++)
		take_counter(vcpu, i);
	host_deliver(cpu);
}

void host_set_kind(int cpu, bool other)
{
	struct host_vcpu *vcpu = &host.vcpus[cpu];
	int i;

	vcpu->other_kind = other;
	for (i = 0; i < (int)ARRAY_SIZE(vcpu->hw); i++) {
		if (other && vcpu->hw[i] && names_kind(&vcpu->hw[i]->attr))
			take_counter(vcpu, i);
	}
	host_deliver(cpu);
}

void host_set_no_fixed(int cpu, u32 fixed)
{
	struct host_vcpu *vcpu = &host.vcpus[cpu];
	int i;

	vcpu->no_fixed = fixed;
	for (i = 0; i < KVM_PERF_NR_FIXED_COUNTERS; i++) {
		if (fixed & BIT(i))
			take_counter(vcpu, HOST_HW + i);
	}
	host_deliver(cpu);
}

void host_throttle(int cpu, u32 id)
{
	struct host_event *event = host_find(id);
	u32 old = flags_of(event);

	event->throttled = true;
	note_flags(event, old);
	host_deliver(cpu);
}

void host_unthrottle(int cpu, u32 id)
{
	struct host_event *event = host_find(id);
	u32 old = event ? flags_of(event) : 0;

	if (!event)
		return;

	event->throttled = false;
	note_flags(event, old);
}

bool host_rdpmc(int cpu, u32 ecx, u64 *value)
{
	u32 i = ecx & BIT(30) ? HOST_HW + (ecx & ~BIT(30)) : ecx;

	if (host.query.rdpmc != KVM_PERF_RDPMC_ALLOWED ||
	    i >= ARRAY_SIZE(host.vcpus[cpu].pmc) || (!(ecx & BIT(30)) && i >= HOST_HW))
		return false;

	*value = host.vcpus[cpu].pmc[i];
	return true;
}

/* A hybrid host has one type of cores that may be named: HOST_CORE_TYPE. */
static bool host_knows_model(const struct guest_perf_attr *attr)
{
	u32 own = host.query.model;

	return !attr->model || attr->model == own ||
	       (own & KVM_PERF_MODEL_HYBRID &&
		attr->model == ((own & ~KVM_PERF_MODEL_KIND) |
				HOST_CORE_TYPE << KVM_PERF_MODEL_KIND_SHIFT));
}

/* On a hybrid host, only event select 0xc0 is the same on all kinds of cores. */
static bool host_has_raw(const struct guest_perf_attr *attr)
{
	return attr->config == 0xc0 || attr->model != host.query.model ||
	       !(attr->model & KVM_PERF_MODEL_HYBRID);
}

/* Operations */

static long op_open(u64 addr)
{
	struct guest_perf_event_param *param = (void *)addr;
	struct guest_perf_attr *attr = (void *)param->attr_addr;
	u64 period = attr->sample_period;
	struct host_event *event;

	if (attr->size != sizeof(*attr) || addr & 7 || param->event_addr & 63 ||
	    param->reserved || (s64)period < 0 ||
	    (attr->type == KVM_PERF_TYPE_HARDWARE &&
	     attr->config >= KVM_PERF_NR_HW_EVENTS) ||
	    (attr->type == KVM_PERF_TYPE_RAW &&
	     (attr->config & ~host.query.raw_event_mask || !host_has_raw(attr))) ||
	    (attr->flags & KVM_PERF_ATTR_FREQ && !period) ||
	    (period && period < host.min_period && !(attr->flags & KVM_PERF_ATTR_FREQ)))
		return -KVM_EINVAL;
	if (attr->config1 || attr->config2 ||
	    (attr->type == KVM_PERF_TYPE_HARDWARE &&
	     !host.query.hw_config[attr->config]) ||
	    (period && !(host.query.features & KVM_PERF_FEATURE_SAMPLING)) ||
	    !host_knows_model(attr))
		return -KVM_EOPNOTSUPP;
	if (host_find(param->id))
		return -KVM_EEXIST;
	if (host_open() >= (int)host.query.max_events)
		return -KVM_ENOSPC;

	for (event = host.events; event->open; event++)
		CHECK(event < host.events + HOST_EVENTS - 1);

	*event = (struct host_event) {
		.open	= true,
		.id	= param->id,
		.attr	= *attr,
		.record	= (void *)param->event_addr,
		.cpu	= this_cpu,
		.hw	= -1,
		.left	= period,
	};
	/* An optional flag: a host without the feature ignores it. */
	if (!(host.query.features & KVM_PERF_FEATURE_NOTIFY))
		event->attr.flags &= ~KVM_PERF_ATTR_NOTIFY;
	if (attr->flags & KVM_PERF_ATTR_FREQ) {
		event->attr.sample_period = 1000;
		event->left = 1000;
	}
	*event->record = (struct guest_perf_event) { .period_left = event->left };
	return 0;
}

static void stop(struct host_event *event)
{
	put_counter(event);
	event->enabled = false;
	event->throttled = false;
	write_record(event);
	update_pmc(event, false);
}

static long op_enable(struct host_event *event)
{
	if (event->enabled && event->cpu == this_cpu && event->hw >= 0)
		return 0;

	if (event->enabled && event->cpu != this_cpu)
		stop(event);
	event->cpu = this_cpu;
	if (event->hw < 0 && !get_counter(event))
		return -KVM_EBUSY;

	event->enabled = true;
	if (event->record->flags)
		write_record(event);
	update_pmc(event, true);
	return 0;
}

static long read_event(struct host_event *event)
{
	bool lost = is_lost(event);

	if (lost && event->cpu == this_cpu)
		get_counter(event);
	write_record(event);
	update_pmc(event, true);
	return lost ? -KVM_EBUSY : 0;
}

static long op_read_all(void)
{
	struct host_event *event;
	long ret, first = 0;
	int n = 0;

	for (event = host.events; event < host.events + HOST_EVENTS; event++) {
		if (!event->open || !event->enabled || event->cpu != this_cpu)
			continue;
		n++;
		ret = read_event(event);
		if (!first)
			first = ret;
	}

	return n ? first : -KVM_ENOENT;
}

static void reset(void)
{
	struct host_event *event;
	int i;

	for (event = host.events; event < host.events + HOST_EVENTS; event++) {
		if (event->open)
			put_counter(event);
		event->open = false;
	}
	for (i = 0; i < NR_CPUS; i++) {
		if (host.vcpus[i].area)
			host.vcpus[i].area->epoch = 0;
		host.vcpus[i].area = NULL;
		host.vcpus[i].counts = 0;
	}
}

static long op_set_area(u64 addr)
{
	struct host_vcpu *vcpu = &host.vcpus[this_cpu];

	if (!(host.query.features & KVM_PERF_FEATURE_AREA))
		return -KVM_ENOSYS;
	if (addr % GUEST_PERF_AREA_ALIGN)
		return -KVM_EINVAL;

	vcpu->area = (void *)addr;
	vcpu->counts = 0;
	if (addr) {
		host.last_epoch += 2;
		vcpu->epoch = host.last_epoch;
		vcpu->area->epoch = vcpu->epoch;
	}
	return 0;
}

static long op_set_counts(u64 counts)
{
	struct host_vcpu *vcpu = &host.vcpus[this_cpu];

	if (!vcpu->area || counts & ~GENMASK(KVM_PERF_NR_COUNTS - 1, 0))
		return -KVM_EINVAL;
	if (counts & ~host.allowed_counts)
		return -KVM_EOPNOTSUPP;

	vcpu->counts = counts;
	return 0;
}

static long op_query(u64 addr)
{
	struct guest_perf_query *query = (void *)addr;

	host.query.size = query->size;
	*query = host.query;
	return 0;
}

static long op_set_left(struct host_event *event, u64 left)
{
	if (!event->attr.sample_period || (s64)left < 0)
		return -KVM_EINVAL;

	write_record(event);
	event->left = left ? : event->attr.sample_period;
	return 0;
}

static long op_set_period(struct host_event *event, u64 period)
{
	if (!event->attr.sample_period || !period || (s64)period < 0)
		return -KVM_EINVAL;

	if (!(event->attr.flags & KVM_PERF_ATTR_FREQ)) {
		event->attr.sample_period = period;
		event->left = period;
	}
	return 0;
}

static long run_op(u32 op, u32 id, u64 arg, u64 *count)
{
	struct host_event *event = NULL;
	long ret;

	if (host.gone)
		return -KVM_ENOSYS;
	CHECK(op <= KVM_PERF_OP_SET_COUNTS);
	host.ops[op]++;
	ret = host.refuse ? host.refuse(op, id, arg) : 0;
	if (ret)
		return ret;

	switch (op) {
	case KVM_PERF_OP_OPEN:
		return op_open(arg);
	case KVM_PERF_OP_QUERY:
		return op_query(arg);
	case KVM_PERF_OP_SET_AREA:
		return op_set_area(arg);
	case KVM_PERF_OP_SET_COUNTS:
		return op_set_counts(arg);
	case KVM_PERF_OP_RESET:
		reset();
		return 0;
	}

	if (op == KVM_PERF_OP_READ && id == KVM_PERF_ID_ALL)
		return op_read_all();

	event = host_find(id);
	if (!event)
		return -KVM_ENOENT;

	switch (op) {
	case KVM_PERF_OP_CLOSE:
		put_counter(event);
		event->open = false;
		return 0;
	case KVM_PERF_OP_ENABLE:
		return op_enable(event);
	case KVM_PERF_OP_DISABLE:
		stop(event);
		break;
	case KVM_PERF_OP_READ:
		ret = read_event(event);
		break;
	case KVM_PERF_OP_SET_LEFT:
		ret = op_set_left(event, arg);
		break;
	case KVM_PERF_OP_SET_PERIOD:
		return op_set_period(event, arg);
	default:
		fail(__FILE__, __LINE__, "no such operation");
	}
	if (!ret || ret == -KVM_EBUSY)
		*count = event->count;
	return ret;
}

static long run_batch(u64 addr, unsigned long n)
{
	struct guest_perf_op *ops = (void *)addr;
	unsigned long i;

	if (host.gone)
		return -KVM_ENOSYS;
	host.ops[KVM_PERF_OP_BATCH]++;
	CHECK(n && n <= KVM_PERF_BATCH_MAX && !(addr & 7));
	host.largest_batch = max(host.largest_batch, (u32)n);
	host.last_batch = ops;
	host.last_batch_n = n;
	for (i = 0; i < n; i++) {
		u64 count = ops[i].arg;

		CHECK(!ops[i].reserved);
		ops[i].result = run_op(ops[i].op, ops[i].id, ops[i].arg, &count);
		ops[i].arg = count;
	}
	return 0;
}

static bool takes_address(u32 op)
{
	return op == KVM_PERF_OP_OPEN || op == KVM_PERF_OP_QUERY ||
	       op == KVM_PERF_OP_SET_AREA;
}

long kvm_hypercall4(unsigned int nr, unsigned long a0, unsigned long a1,
		    unsigned long a2, unsigned long a3)
{
	long ret;
	u64 count;

	CHECK(nr == KVM_PERF_OP && !(a1 >> 32) && !(a2 >> 32));
	point();
	if (host.call_hook)
		host.call_hook();
	host.calls++;
	host.last_batch = NULL;
	if (a0 == KVM_PERF_OP_BATCH)
		ret = run_batch(a1 | a2 << 32, a3);
	else if (takes_address(a0))
		ret = run_op(a0, 0, a1 | a2 << 32, &count);
	else if (a0 == KVM_PERF_OP_SET_COUNTS)
		ret = run_op(a0, 0, a1 | a2 << 32, &count);
	else
		ret = run_op(a0, a1, a2 | a3 << 32, &count);

	if (host.exit_hook)
		host.exit_hook();
	host_deliver(this_cpu);
	if (host.kernel_work && !in_nmi())
		kernel_work(this_cpu, host.kernel_work);
	point();
	return ret;
}

/* NMIs */

static bool is_user[NR_CPUS];

void host_deliver(int cpu)
{
	struct host_vcpu *vcpu = &host.vcpus[cpu];
	struct pt_regs regs = {
		.ip	= is_user[cpu] ? 0x400200 : 0xffffffff81000200,
		.cs	= is_user[cpu] ? __USER_CS : __KERNEL_CS,
	};
	int was = this_cpu;

	while (vcpu->nmi && !nmi_depth[cpu] && nmi_handler) {
		vcpu->nmi = false;
		vcpu->nmis++;
		this_cpu = cpu;
		nmi_depth[cpu]++;
		nmi_handler(NMI_LOCAL, &regs);
		nmi_depth[cpu]--;
		run_interrupts(cpu);
		if (!irqs_off())
			perf_run_pending();
		this_cpu = was;
	}
}

void host_nmi(int cpu)
{
	host.vcpus[cpu].nmi = true;
	host_deliver(cpu);
}

/* Work */

static bool counts_here(const struct host_event *event, int cpu, bool user)
{
	u64 exclude = user ? KVM_PERF_ATTR_EXCLUDE_USER : KVM_PERF_ATTR_EXCLUDE_KERNEL;

	return event->open && event->enabled && event->cpu == cpu && event->hw >= 0 &&
	       !event->throttled &&
	       !(event->attr.flags & (exclude | KVM_PERF_ATTR_EXCLUDE_HOST));
}

/* The work until the first event overflows, at most @n. */
static u64 work_to_overflow(int cpu, u64 n, bool user)
{
	struct host_event *event;
	u64 weight;

	for (event = host.events; event < host.events + HOST_EVENTS; event++) {
		if (!counts_here(event, cpu, user) || !event->attr.sample_period)
			continue;
		weight = host_weight(&event->attr);
		n = min_t(u64, n, (event->left + weight - 1) / weight);
	}

	return n;
}

static void count_work(struct host_event *event, u64 n)
{
	struct host_vcpu *vcpu = &host.vcpus[event->cpu];
	u64 units = n * host_weight(&event->attr);

	event->count += units;
	vcpu->pmc[event->hw] = (vcpu->pmc[event->hw] + units) & GENMASK_ULL(47, 0);
	if (!event->attr.sample_period)
		return;

	event->left -= units;
	if ((s64)event->left > 0)
		return;

	while ((s64)event->left <= 0) {
		event->left += event->attr.sample_period;
		event->record->overflows++;
		event->overflows++;
	}
	write_record(event);
	event->record->last_period = event->attr.sample_period;
	if (vcpu->area && event->attr.flags & KVM_PERF_ATTR_BRANCHES)
		vcpu->area->nr_branches = 3;
	vcpu->nmi = true;
}

void host_work(int cpu, u64 n, bool user)
{
	bool was = is_user[cpu];
	struct host_event *event;
	u64 step;

	while (n) {
		is_user[cpu] = user;
		step = work_to_overflow(cpu, n, user);
		for (event = host.events; event < host.events + HOST_EVENTS; event++) {
			if (counts_here(event, cpu, user))
				count_work(event, step);
		}
		n -= step;
		clock_ns += step;
		host_deliver(cpu);
	}
	is_user[cpu] = was;
}

static bool slot_counts(const struct guest_perf_slot *slot, unsigned int count, bool user)
{
	return slot->counts & BIT(count) && (s64)slot->left > 0 &&
	       !(slot->exclude & (user ? KVM_PERF_ATTR_EXCLUDE_USER :
					 KVM_PERF_ATTR_EXCLUDE_KERNEL));
}

void host_exit(int cpu, unsigned int count, u64 n, bool user, u64 ip)
{
	struct host_vcpu *vcpu = &host.vcpus[cpu];
	struct guest_perf_area *area = vcpu->area;
	struct guest_perf_slot *slot;
	bool was = is_user[cpu];
	unsigned int i;

	is_user[cpu] = user;
	if (area && vcpu->counts & BIT(count)) {
		area->count[count][user] += n;
		for (i = 0; i < KVM_PERF_NR_SLOTS; i++) {
			slot = &area->slot[i];
			if (!(area->slots & BIT(i)) || !slot_counts(slot, count, user))
				continue;
			slot->left -= n;
			if ((s64)slot->left <= 0) {
				slot->ip = ip;
				slot->user = user;
				vcpu->nmi = true;
			}
		}
	}
	host_deliver(cpu);
	is_user[cpu] = was;
}

void host_migrate(void)
{
	int i;

	reset();
	for (i = 0; i < NR_CPUS; i++) {
		if (lvtpc[i] == KVM_PERF_LVTPC)
			host.vcpus[i].nmi = true;
	}
	for (i = 0; i < NR_CPUS; i++)
		host_deliver(i);
}

/* CPUID */

bool kvm_para_available(void)
{
	return host.offers || host.gone;
}

u32 cpuid_base_hypervisor(const char *signature, u32 leaves)
{
	return 0x40000000;
}

u32 hypervisor_cpuid_base(const char *signature, u32 leaves)
{
	return 0x40000000;
}

u32 cpuid_eax(u32 leaf)
{
	return host.offers ? BIT(KVM_FEATURE_PV_PERF) : 0;
}

u64 steal_clock(int cpu)
{
	return 0;
}
