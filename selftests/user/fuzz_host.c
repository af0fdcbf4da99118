// SPDX-License-Identifier: GPL-2.0
/*
 * build: -fsanitize=address,undefined -fno-sanitize-recover=undefined
 * build: -fsanitize=fuzzer -fprofile-instr-generate -fcoverage-mapping
 * build: selftests/user/fuzz_counts.c selftests/user/fuzz_branches.c
 */
/*
 * libFuzzer target: sequences of hypercalls of two vCPUs.  Guest memory has any
 * content and changes between the host's reads; pages and counters come and go.
 * A model of the contract runs the same sequence on its own memory: all results,
 * and every byte of guest memory, must be the same.
 *
 * The input is a stream of bytes, read by get().
 */
#include "fuzz_host.h"
#include "pv_perf.h"
#include "pv_perf_event.h"
#include "pv_perf_top.h"

#define NR_IDS		8
#define MAX_STEPS	64
#define NR_PAGES	48	/* of guest-physical addresses, holes included */
#define MEMORY		(NR_PAGES * PAGE_SIZE)

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

/* The input */

static const u8 *input, *input_end;

u64 get(int bytes)
{
	u64 value = 0;

	while (bytes--)
		value = value << 8 | (input < input_end ? *input++ : 0);
	return value;
}

/* Mostly a meaningful number; sometimes an edge case, or any number. */
u64 get_number(u64 limit)
{
	static const u64 edges[] = {
		0, 1, 47, 48, 64, 65, 111, 112, 256, 257, S64_MAX, 1ull << 63,
		-1ull, INT_MAX, 1ull << 31, 1ull << 32,
	};
	u8 kind = get(1);

	if (kind < 224)
		return kind % limit;
	if (kind < 248)
		return edges[kind % ARRAY_SIZE(edges)];
	return get(8);
}

static u64 get_gpa(u64 align)
{
	u16 n = get(2);

	/* In the first or last page of a slot, so that structures overlap. */
	switch (n >> 14) {
	case 0:
	case 1:
		return n % (PAGE_SIZE / 8) * 8 / align * align;
	case 2:
		return n % (MEMORY / 64) * 64;
	default:
		return n & 15 ? n % MEMORY / 8 * 8 : get(8);
	}
}

/* The model of guest memory, with the same holes. */

struct kvm *kvm;
struct kvm_vcpu *vcpus[NR_VCPUS];
static struct task_struct *tasks[NR_VCPUS];
u8 model_memory[MEMORY] __aligned(PAGE_SIZE);

/* Changes by another vCPU, before the host's nth read of a hypercall. */
static struct change {
	int read;
	gpa_t gpa;
	u64 value;
} change;

static int host_reads, model_reads;

bool model_page(gpa_t gpa, bool write)
{
	gfn_t gfn = gpa_to_gfn(gpa);
	struct kvm_memory_slot *slot = gfn_to_memslot(kvm, gfn);

	return slot && !(write && slot->readonly) &&
	       !slot->absent[gfn - slot->base_gfn];
}

/* Works also if the slot does not exist now. */
static u8 *host_byte(gpa_t gpa)
{
	struct kvm_memory_slot *slot = kvm->memslots.slot;

	for (; slot < kvm->memslots.slot + NR_SLOTS; slot++)
		if (gpa_to_gfn(gpa) - slot->base_gfn < SLOT_PAGES)
			return slot->memory +
			       (gpa - (slot->base_gfn << PAGE_SHIFT));
	return NULL;
}

bool model_write(gpa_t gpa, const void *data, unsigned long len)
{
	for (; len--; gpa++, data++) {
		if (!model_page(gpa, true))
			return false;
		model_memory[gpa] = *(u8 *)data;
	}
	return true;
}

static bool model_read(gpa_t gpa, void *data, unsigned long len)
{
	if (++model_reads == change.read)
		memcpy(model_memory + change.gpa, &change.value, 8);
	for (; len--; gpa++, data++) {
		if (!model_page(gpa, false))
			return false;
		*(u8 *)data = model_memory[gpa];
	}
	return true;
}

static void host_read(struct kvm *vm)
{
	if (++host_reads == change.read)
		memcpy(host_byte(change.gpa), &change.value, 8);
}

/* The model of events, after the contract. */

struct model_event {
	bool open;
	u32 id;
	struct guest_perf_attr attr;
	gpa_t record;
	int home;
	u64 place;		/* in the order of its home's events */
	u64 age;		/* of the backing event */
	bool enabled;
	bool lost;		/* its counter, after it was enabled */
	bool noted;		/* by the host */
	u32 told;		/* flags of the record */
	u32 owed;		/* flags for which its home must get an NMI */
	u64 count;
	u64 time_enabled, time_running;
	u32 sequence;
	u64 last_period;
	u64 period;		/* for a frequency, the adapted period */
	u64 last;		/* period that is under way */
	s64 left;
	u64 passed;
	u32 overflows;
	bool stopped;		/* for the mode, at its vCPU's last entry */
	bool unused;		/* more is left than will ever be counted */
	u64 overflow_time;	/* 0: long ago, or of another event */
	u64 overflow_count;
	u64 tick;
	u64 look_time;		/* when a tick adapted the period; */
	u64 look_count;		/* while unused, the difference to then */
};

/* At most NR_IDS events are open, so one entry is always free. */
static struct model_event model[NR_IDS + 1];
static unsigned int limit;
static u64 order;	/* of all events so far */
bool request[NR_VCPUS];
static bool filter_changed[NR_VCPUS];
/* The event has counted more after an overflow that the guest has not been told of. */
static bool counted_on[NR_VCPUS];
static int nmis[NR_VCPUS];
static int create_fails;
static bool no_allocation;

/* By the place of the record: the record may say where to read a count. */
static bool has_pmc[MEMORY / sizeof(struct guest_perf_event)];

struct model_area area[NR_VCPUS];
static u32 model_random;

static struct model_event *model_find(u32 id)
{
	struct model_event *e;

	for (e = model; e < model + ARRAY_SIZE(model); e++)
		if (e->open && e->id == id)
			return e;
	return NULL;
}

static bool counts(const struct model_event *e)
{
	return e->open && e->enabled && !e->lost;
}

static u32 model_flags(const struct model_event *e)
{
	return e->enabled && e->lost ? KVM_PERF_EVENT_LOST : 0;
}

static bool is_freq(const struct model_event *e)
{
	return e->attr.flags & KVM_PERF_ATTR_FREQ;
}

/* Events of a vCPU that come next to @place or @age. */
static struct model_event *model_next(int vcpu, u64 after, bool by_age)
{
	struct model_event *e, *next = NULL;
	u64 best = -1ull, at;

	for (e = model; e < model + ARRAY_SIZE(model); e++) {
		at = by_age ? e->age : e->place;
		if (e->open && e->home == vcpu && at > after && at < best) {
			best = at;
			next = e;
		}
	}
	return next;
}

/* The oldest events have the counters. */
static void model_schedule(int vcpu)
{
	int free = NR_COUNTERS - cpus[vcpu].taken;
	struct model_event *e;
	u64 age = 0;

	while ((e = model_next(vcpu, age, true))) {
		age = e->age;
		if (counts(e) && free-- <= 0)
			e->lost = true;
	}
}

static int nr_counting(int vcpu)
{
	struct model_event *e;
	int n = 0;

	for (e = model; e < model + ARRAY_SIZE(model); e++)
		n += counts(e) && e->home == vcpu;
	return n;
}

/* perf's pmu->start() begins a period if none is under way. */
static void model_begin(struct model_event *e)
{
	if (e->left <= 0) {
		e->left = e->period;
		e->last = e->period;
	}
}

/* The host has seen that an event has lost its counter, and will tell the guest. */
static void model_note(struct model_event *e)
{
	if (!e->open || !e->enabled || !e->lost || e->noted)
		return;

	e->noted = true;
	request[e->home] = true;
}

/* Returns whether an event gets a free counter. */
static bool model_start(struct model_event *e, int vcpu)
{
	int counters = NR_COUNTERS - cpus[vcpu].taken, older = 0;
	struct model_event *other;

	for (other = model; other < model + ARRAY_SIZE(model); other++)
		if (other->home == vcpu)
			model_note(other);
	/* The host does not ask perf if the VM may have no more counters. */
	if (nr_counting(vcpu) >= *param_pv_perf_max_counters)
		return false;
	for (other = model; other < model + ARRAY_SIZE(model); other++)
		older += counts(other) && other->home == vcpu &&
			 other->age < e->age;
	/* perf starts the event for a moment in place of a younger event. */
	if (e->home == vcpu && older < counters)
		model_begin(e);
	if (nr_counting(vcpu) >= counters)
		return false;

	model_begin(e);
	e->lost = false;
	e->noted = false;
	return true;
}

static u64 event_select(const struct guest_perf_attr *attr)
{
	if (attr->type == KVM_PERF_TYPE_HARDWARE)
		return hw_event_config[attr->config];
	if (attr->type == KVM_PERF_TYPE_HW_CACHE)
		return attr->config == PERF_COUNT_HW_CACHE_DTLB ? 0xff45 : 0;
	return attr->config;
}

/* The CPU model: AMD, family 0x17, model 0x31. */
#define MODEL	0x21731

static int model_check_attr(const struct guest_perf_attr *attr)
{
	bool freq = attr->flags & KVM_PERF_ATTR_FREQ;

	if ((u32)attr->flags & ~0x1f || attr->reserved ||
	    attr->sample_period >> 63 ||
	    (freq && (!attr->sample_period || attr->sample_period > INT_MAX)))
		return -KVM_EINVAL;
	if (attr->config1 || attr->config2)
		return -KVM_EOPNOTSUPP;
	if (attr->model && attr->type != KVM_PERF_TYPE_RAW)
		return -KVM_EINVAL;
	if (attr->model && attr->model != MODEL)
		return -KVM_EOPNOTSUPP;
	switch (attr->type) {
	case KVM_PERF_TYPE_HARDWARE:
		return attr->config < 10 ? 0 : -KVM_EINVAL;
	case KVM_PERF_TYPE_HW_CACHE:
		return attr->config < 1 << 24 ? 0 : -KVM_EINVAL;
	case KVM_PERF_TYPE_RAW:
		/* cmask, inv, edge, unit mask, event select: 35:32, 7:0 */
		return attr->config & ~0xfff84ffffull ? -KVM_EINVAL : 0;
	}
	return -KVM_EINVAL;
}

static int model_read_attr(gpa_t gpa, struct guest_perf_attr *attr)
{
	u8 buf[256];
	u32 size;

	if (gpa % 8)
		return -KVM_EINVAL;
	if (!model_read(gpa, &size, 4))
		return -KVM_EFAULT;
	if (size < 56 || size > 256)
		return -KVM_EINVAL;
	if (!model_read(gpa, buf, size))
		return -KVM_EFAULT;
	while (size-- > 56)
		if (buf[size])
			return -KVM_EINVAL;
	memcpy(attr, buf, 56);
	return 0;
}

/* The cache, operation and result exist, on this CPU or another. */
static bool model_is_cache_event(u64 config)
{
	return (u8)config < 7 && (u8)(config >> 8) < 3 && config >> 16 < 2;
}

static bool is_denied(const struct guest_perf_attr *attr)
{
	return kvm->denied_event &&
	       (event_select(attr) & 0xf0000ffff) == kvm->denied_event;
}

/* The result of the host's perf, which OPEN and ENABLE pass on. */
static int model_create(const struct guest_perf_attr *attr)
{
	int error = create_fails;

	create_fails = 0;
	if (error)
		return error == -ENOMEM ? -KVM_ENOSPC :
		       error == -EBUSY ? -KVM_EBUSY :
		       error == -EINVAL ? -KVM_EINVAL : -KVM_EOPNOTSUPP;
	if (attr->type == KVM_PERF_TYPE_HW_CACHE &&
	    !model_is_cache_event(attr->config))
		return -KVM_EINVAL;
	if (!event_select(attr))
		return -KVM_EOPNOTSUPP;
	return no_allocation ? -KVM_ENOSPC : 0;
}

static int model_open(int vcpu, gpa_t gpa)
{
	static const u8 zero[64];
	struct guest_perf_event_param param;
	struct guest_perf_attr attr;
	struct model_event *e;
	unsigned int n = 0;
	int ret;

	if (gpa % 8)
		return -KVM_EINVAL;
	if (!model_read(gpa, &param, sizeof(param)))
		return -KVM_EFAULT;
	if (param.reserved || param.id == KVM_PERF_ID_ALL ||
	    param.event_addr % 64)
		return -KVM_EINVAL;
	ret = model_read_attr(param.attr_addr, &attr) ? :
	      model_check_attr(&attr);
	if (ret)
		return ret;
	if (model_find(param.id))
		return -KVM_EEXIST;
	for (e = model; e < model + ARRAY_SIZE(model); e++)
		n += e->open;
	if (n >= limit || no_allocation)
		return -KVM_ENOSPC;
	ret = model_create(&attr);
	if (ret)
		return ret;
	if (is_denied(&attr))
		return -KVM_EOPNOTSUPP;
	if (!model_write(param.event_addr, zero, 64))
		return -KVM_EFAULT;

	for (e = model; e->open; e++)
		;
	order++;
	*e = (struct model_event){
		.open = true, .id = param.id, .attr = attr,
		.record = param.event_addr, .home = vcpu, .place = order,
		.age = order,
		.period = attr.flags & KVM_PERF_ATTR_FREQ ? 128 :
			  attr.sample_period,
	};
	e->left = e->period;
	e->last = e->period;
	if (attr.flags & KVM_PERF_ATTR_RDPMC)
		has_pmc[e->record / sizeof(struct guest_perf_event)] = true;
	return 0;
}

/* Does the current thread's vCPU have the event, or change another's? */
static bool model_is_home(const struct model_event *e)
{
	return current == tasks[e->home];
}

static int model_update(struct model_event *e, u64 *count)
{
	struct guest_perf_event r;

	if (!model_page(e->record, true))
		return -KVM_EFAULT;
	memcpy(&r, model_memory + e->record, sizeof(r));
	e->sequence += 2;
	r.count = e->count;
	r.sequence = e->sequence;
	r.time_enabled = e->time_enabled;
	r.time_running = e->time_running;
	r.last_period = e->last_period;
	/* 0: the event will start with the whole period. */
	r.period_left = e->attr.sample_period ? e->left ? : e->period : 0;
	r.flags = model_flags(e);
	e->owed &= r.flags;
	if (r.flags & ~e->told && e->attr.flags & KVM_PERF_ATTR_NOTIFY &&
	    !model_is_home(e)) {
		e->owed |= r.flags & ~e->told;
		request[e->home] = true;
	}
	e->told = r.flags;
	memcpy(model_memory + e->record, &r, sizeof(r));
	*count = e->count;
	return 0;
}

static int model_read_event(int vcpu, struct model_event *e, u64 *count)
{
	bool lost = e->enabled && e->lost;

	model_note(e);
	if (lost && e->home == vcpu && !is_denied(&e->attr))
		model_start(e, vcpu);
	return model_update(e, count) ? : lost ? -KVM_EBUSY : 0;
}

static int model_read_all(int vcpu)
{
	struct model_event *e;
	int ret = -KVM_ENOENT, err;
	bool any = false;
	u64 place = 0, count;

	while ((e = model_next(vcpu, place, false))) {
		place = e->place;
		if (!e->enabled)
			continue;
		err = model_read_event(vcpu, e, &count);
		if (!any || !ret)
			ret = err;
		any = true;
	}
	return ret;
}

static int model_enable(int vcpu, u32 id)
{
	struct model_event *e = model_find(id);
	u64 count;
	int ret;

	if (!e)
		return -KVM_ENOENT;
	if (e->home == vcpu && counts(e))
		return 0;
	if (e->home != vcpu) {
		ret = model_create(&e->attr);
		if (ret)
			return ret;
	}
	if (is_denied(&e->attr))
		return -KVM_EOPNOTSUPP;
	if (!model_start(e, vcpu))
		return -KVM_EBUSY;

	if (e->home != vcpu) {
		e->home = vcpu;
		e->stopped = false;
		e->place = ++order;
		e->age = order;
		if (e->overflows)
			request[vcpu] = true;
	}
	e->enabled = true;
	if (e->told)
		model_update(e, &count);
	return 0;
}

static int model_disable(struct model_event *e, u64 *count)
{
	e->enabled = false;
	e->lost = false;
	e->noted = false;
	return model_update(e, count);
}

/* A stopped event begins a period when it continues. */
static void model_set_left(struct model_event *e, u64 left)
{
	e->left = left;
	if (!left && counts(e))
		model_begin(e);
}

static int model_set_period(struct model_event *e, u64 period)
{
	if (!e->attr.sample_period || !period || period >> 63 ||
	    (is_freq(e) && period > INT_MAX))
		return -KVM_EINVAL;
	if (is_freq(e))
		e->period = max(min(e->period, (u64)UINT32_MAX) *
				e->attr.sample_period / period, 2ull);
	else
		e->period = period;
	e->attr.sample_period = period;
	if (e->unused)
		return 0;
	if (is_freq(e) && !model_is_home(e))
		request[e->home] = true;
	model_set_left(e, 0);
	return 0;
}

static void model_set_unused(struct model_event *e, bool unused)
{
	if (!is_freq(e) || e->unused == unused)
		return;
	e->unused = unused;
	e->look_time = e->time_running - e->look_time;
	e->look_count = e->count - e->look_count;
	e->overflow_time = 0;
}

static int model_op_left(struct model_event *e, u64 *arg)
{
	u64 left = *arg;
	int ret;

	if (!e->attr.sample_period || left >> 63)
		return -KVM_EINVAL;
	ret = model_update(e, arg);
	if (ret)
		return ret;
	model_set_unused(e, left > S64_MAX / 2);
	/* The event's home does not run while perf has stopped the event. */
	if (!model_is_home(e))
		request[e->home] = true;
	model_set_left(e, left);
	return 0;
}

static int model_query(gpa_t gpa)
{
	struct guest_perf_query q = {
		.version = 1, .features = 191, .rdpmc = KVM_PERF_RDPMC_ALLOWED,
		.max_events = limit, .nr_counters = *param_pv_perf_max_counters,
		.raw_event_mask = AMD64_RAW_EVENT_MASK,
		.counts = model_counts_allowed(),
		.branches = cpu_has_lbr_v2 ? NR_BRANCHES : 0,
		.model = MODEL,
	};
	u32 size;

	if (cpu_has_lbr_v2)
		q.features |= KVM_PERF_FEATURE_BRANCHES;
	if (gpa % 8)
		return -KVM_EINVAL;
	if (!model_read(gpa, &size, 4))
		return -KVM_EFAULT;
	if (size < GUEST_PERF_QUERY_SIZE_VER0)
		return -KVM_EINVAL;
	q.size = min_t(u32, size, sizeof(q));
	memcpy(q.hw_config, hw_event_config, sizeof(q.hw_config));
	return model_write(gpa, &q, q.size) ? 0 : -KVM_EFAULT;
}

static void model_show_area(int vcpu)
{
	struct model_area *a = &area[vcpu];

	if (a->epoch && !a->shown && model_write(a->gpa + 4, &a->epoch, 4))
		a->shown = true;
}

static void model_hide_area(int vcpu)
{
	struct model_area *a = &area[vcpu];
	u32 hidden = (a->hidden + 2) | 1u << 31;

	if (a->epoch && a->shown && model_write(a->gpa + 4, &hidden, 4)) {
		a->shown = false;
		a->hidden = hidden;
	}
}

static bool model_is_restored(int vcpu)
{
	struct model_area *a = &area[vcpu];
	u32 epoch;

	return a->epoch && !a->shown && model_page(a->gpa, true) &&
	       model_read(a->gpa + 4, &epoch, 4) && epoch != a->hidden;
}

static void model_end_area(int vcpu)
{
	u32 none = 0;

	if (area[vcpu].epoch && area[vcpu].shown)
		model_write(area[vcpu].gpa + 4, &none, 4);
	area[vcpu].epoch = 0;
}

static int model_set_area(int vcpu, gpa_t gpa)
{
	struct kvm_memory_slot *slot = gfn_to_memslot(kvm, gpa_to_gfn(gpa));
	u32 size, epoch;

	if (!gpa) {
		area[vcpu].epoch = 0;
		model_counts_end(vcpu);
		return 0;
	}
	if (gpa % 4096)
		return -KVM_EINVAL;
	if (!model_read(gpa, &size, 4))
		return -KVM_EFAULT;
	if (size < GUEST_PERF_AREA_SIZE_VER0 || size > 4096)
		return -KVM_EINVAL;
	if (!slot || slot->readonly)
		return -KVM_EFAULT;
	size = min_t(u32, size, sizeof(struct guest_perf_area));
	if (!model_write(gpa, &size, 4))
		return -KVM_EFAULT;
	model_random += 2;
	epoch = model_random | 1;
	model_write(gpa + 4, &epoch, 4);
	area[vcpu] = (struct model_area){
		gpa, size, epoch, true, area[vcpu].hidden,
		kvm->memslots.generation,
	};
	model_counts_end(vcpu);
	return 0;
}

static int model_op(int vcpu, u32 op, u32 id, u64 *arg)
{
	struct model_event *e = model_find(id);
	int i;

	switch (op) {
	case KVM_PERF_OP_OPEN:
		return model_open(vcpu, *arg);
	case KVM_PERF_OP_QUERY:
		return model_query(*arg);
	case KVM_PERF_OP_RESET:
		memset(model, 0, sizeof(model));
		for (i = 0; i < NR_VCPUS; i++)
			model_end_area(i);
		return 0;
	case KVM_PERF_OP_SET_AREA:
		return model_set_area(vcpu, *arg);
	case KVM_PERF_OP_SET_COUNTS:
		return model_counts_set(vcpu, *arg);
	case KVM_PERF_OP_ENABLE:
		return model_enable(vcpu, id);
	case KVM_PERF_OP_READ:
		if (id == KVM_PERF_ID_ALL)
			return model_read_all(vcpu);
		return e ? model_read_event(vcpu, e, arg) : -KVM_ENOENT;
	case KVM_PERF_OP_CLOSE:
		if (e)
			e->open = false;
		return e ? 0 : -KVM_ENOENT;
	case KVM_PERF_OP_DISABLE:
		return e ? model_disable(e, arg) : -KVM_ENOENT;
	case KVM_PERF_OP_SET_PERIOD:
		return e ? model_set_period(e, *arg) : -KVM_ENOENT;
	case KVM_PERF_OP_SET_LEFT:
		return e ? model_op_left(e, arg) : -KVM_ENOENT;
	}
	return -KVM_ENOSYS;
}

static int model_batch(int vcpu, gpa_t gpa, u64 nr)
{
	struct guest_perf_op ops[KVM_PERF_BATCH_MAX];
	u64 i;

	if (gpa % 8 || !nr || nr > KVM_PERF_BATCH_MAX)
		return -KVM_EINVAL;
	if (!model_read(gpa, ops, nr * sizeof(*ops)) ||
	    !model_write(gpa, ops, nr * sizeof(*ops)))
		return -KVM_EFAULT;
	for (i = 0; i < nr; i++) {
		if (ops[i].reserved || ops[i].op == KVM_PERF_OP_BATCH ||
		    ops[i].op == KVM_PERF_OP_RESET)
			ops[i].result = -KVM_EINVAL;
		else
			ops[i].result = model_op(vcpu, ops[i].op, ops[i].id,
						 &ops[i].arg);
	}
	return model_write(gpa, ops, nr * sizeof(*ops)) ? 0 : -KVM_EFAULT;
}

static long model_call(int vcpu, u64 op, u64 a1, u64 a2, u64 a3)
{
	u64 arg = 0;

	if (!vcpus[vcpu]->arch.pv_cpuid.features)
		return -KVM_ENOSYS;
	if (vcpus[vcpu]->arch.guest_mode)
		return -KVM_EPERM;
	if (a1 >> 32 || a2 >> 32)
		return -KVM_EINVAL;
	switch (op) {
	case KVM_PERF_OP_BATCH:
		return model_batch(vcpu, a2 << 32 | a1, a3);
	case KVM_PERF_OP_OPEN:
	case KVM_PERF_OP_QUERY:
	case KVM_PERF_OP_SET_AREA:
	case KVM_PERF_OP_SET_COUNTS:
		arg = a2 << 32 | a1;
		return model_op(vcpu, op, a1, &arg);
	case KVM_PERF_OP_SET_PERIOD:
	case KVM_PERF_OP_SET_LEFT:
		if (a3 >> 32)
			return -KVM_EINVAL;
		arg = a3 << 32 | a2;
		return model_op(vcpu, op, a1, &arg);
	}
	return op >> 32 ? -KVM_ENOSYS : model_op(vcpu, op, a1, &arg);
}

/* The guest runs, and the host then delivers overflows. */

/* Changes the period by an eighth of its distance from the right period, at least 1. */
static void model_adapt(struct model_event *e, u64 ns, u64 count)
{
	unsigned __int128 want = (unsigned __int128)count * 1000000000 /
				 ((unsigned __int128)ns * e->attr.sample_period);
	s64 delta = (u64)want - e->period;

	e->period += (delta < 0 ? delta - 7 : delta + 7) / 8;
	e->period = max_t(s64, e->period, 2);
}

static void model_overflow(struct model_event *e, u64 now)
{
	u64 ns = now - e->overflow_time;

	e->overflows++;
	e->passed += e->last;
	e->left = e->period;
	e->last = e->period;
	if (!is_freq(e))
		return;

	if (ns && ns < 2 * TICK_NSEC)
		model_adapt(e, ns, e->count - e->overflow_count);
	e->overflow_time = now;
	e->overflow_count = e->count;
}

static void model_count(struct model_event *e, u64 n)
{
	/* The clock moves before the events count. */
	u64 now = clock_ns + n, step;

	while (n) {
		step = e->attr.sample_period ? min(n, (u64)e->left) : n;
		n -= step;
		e->count += step;
		e->left -= step;
		if (e->attr.sample_period && !e->left)
			model_overflow(e, now);
	}
}

static void model_tick(struct model_event *e)
{
	u64 ns, count;

	if (!is_freq(e) || e->tick == clock_ns / TICK_NSEC)
		return;
	e->tick = clock_ns / TICK_NSEC;
	if (!counts(e) || e->unused || e->stopped)
		return;
	ns = e->time_running - e->look_time;
	count = e->count - e->look_count;
	if (ns < TICK_NSEC / 2)
		return;
	e->look_time = e->time_running;
	e->look_count = e->count;
	if (!count)
		return;
	model_adapt(e, ns, count);
	if (e->left > 8 * e->period)
		model_set_left(e, 0);
}

static bool model_is_stopped(int vcpu, const struct model_event *e)
{
	if (vcpus[vcpu]->arch.guest_mode)
		return e->attr.flags & KVM_PERF_ATTR_EXCLUDE_GUEST;

	return e->attr.flags & KVM_PERF_ATTR_EXCLUDE_HOST ||
	       (vcpus[vcpu]->arch.iret_intercept &&
		!(e->attr.flags & KVM_PERF_ATTR_EXCLUDE_KERNEL));
}

static void model_enter_mode(int vcpu)
{
	struct model_event *e;

	for (e = model; e < model + ARRAY_SIZE(model); e++) {
		if (!e->open || e->home != vcpu)
			continue;
		model_tick(e);
		if (counts(e))
			e->stopped = model_is_stopped(vcpu, e);
	}
}

static bool model_has_branches(const struct model_event *e)
{
	return e->attr.flags & KVM_PERF_ATTR_BRANCHES &&
	       e->attr.sample_period && cpu_has_lbr_v2;
}

/* The branches that the counting events want recorded. */
static u32 model_wanted_branches(int vcpu)
{
	struct model_event *e;
	bool in_nmi = false;
	u64 wanted = 0;

	for (e = model; e < model + ARRAY_SIZE(model); e++) {
		if (!counts(e) || e->home != vcpu)
			continue;
		in_nmi |= vcpus[vcpu]->arch.iret_intercept &&
			  !(e->attr.flags & KVM_PERF_ATTR_EXCLUDE_KERNEL);
		if (!e->stopped && model_has_branches(e))
			wanted |= e->attr.flags;
	}
	if (in_nmi)
		wanted &= ~KVM_PERF_ATTR_BRANCH_KERNEL;
	return (wanted & KVM_PERF_ATTR_BRANCHES) >> 32;
}

static void model_pass_time(u64 n)
{
	struct model_event *e;

	for (e = model; e < model + ARRAY_SIZE(model); e++) {
		if (!counts(e))
			continue;
		e->time_enabled += n;
		e->time_running += n;
	}
}

void pass_time(u64 n)
{
	model_pass_time(n);
	clock_ns += n;
}

static void model_run(int vcpu, u64 n)
{
	bool overflow = false;
	struct model_event *e;
	u32 before;

	model_enter_mode(vcpu);
	model_pass_time(n);
	for (e = model; e < model + ARRAY_SIZE(model); e++) {
		if (!counts(e))
			continue;
		before = e->overflows;
		if (e->home == vcpu && !model_is_stopped(vcpu, e))
			model_count(e, n);
		overflow |= e->overflows != before;
	}
	if (!overflow)
		return;
	request[vcpu] = true;
	model_counts_overflow(vcpu);
	/* The vCPU may be halted: wake it. */
	if (!vcpus[vcpu]->arch.nmi_from_guest) {
		nmis[vcpu]++;
		model_counts_nmi(vcpu);
	}
}

/* A pending NMI is enough. */
void model_nmi(int vcpu, bool injected)
{
	model_counts_nmi(vcpu);
	if (!vcpus[vcpu]->arch.nmi_pending && !injected && !nmis[vcpu])
		nmis[vcpu]++;
}

static void model_filter(int vcpu)
{
	struct model_event *e;

	for (e = model; e < model + ARRAY_SIZE(model); e++)
		if (e->open && e->home == vcpu && e->enabled &&
		    is_denied(&e->attr))
			e->lost = true;
}

static bool model_any_to_note(int vcpu)
{
	struct model_event *e;

	for (e = model; e < model + ARRAY_SIZE(model); e++)
		if (e->open && e->home == vcpu && e->enabled && e->lost &&
		    !e->noted)
			return true;
	return false;
}

/* The entry finds an event that has lost its counter. */
static void model_look(int vcpu)
{
	request[vcpu] |= model_any_to_note(vcpu);
}

/* KVM has completed an instruction of the guest after an exit. */
static void model_retire(int vcpu, bool instruction, bool branch, int cpl)
{
	bool overflow = false;
	struct model_event *e;
	u64 select;

	for (e = model; e < model + ARRAY_SIZE(model); e++) {
		if (!counts(e) || e->home != vcpu || e->stopped ||
		    e->attr.flags & (cpl ? KVM_PERF_ATTR_EXCLUDE_USER :
					   KVM_PERF_ATTR_EXCLUDE_KERNEL))
			continue;
		select = event_select(&e->attr);
		if (!(instruction && select == 0xc0) && !(branch && select == 0xc2))
			continue;
		e->count++;
		e->left--;
		if (!e->attr.sample_period || e->left)
			continue;
		model_overflow(e, clock_ns);
		overflow = true;
	}
	if (!overflow)
		return;
	/* The instruction may have been a HLT. */
	request[vcpu] = true;
	nmis[vcpu]++;
	model_counts_nmi(vcpu);
}

/* Returns true for an NMI. */
static bool model_tell_anew(struct model_event *e)
{
	u32 told = e->told & ~e->owed;
	u64 count;

	if (model_update(e, &count))
		return false;
	e->owed = 0;
	return e->attr.flags & KVM_PERF_ATTR_NOTIFY && e->told & ~told;
}

static bool model_tell(struct model_event *e)
{
	return (e->owed || model_flags(e) != e->told) && model_tell_anew(e);
}

/* Returns true for an NMI. */
static bool model_deliver(struct model_event *e)
{
	u32 n = e->overflows, overflows;
	u64 count;

	if (!n)
		return false;

	e->last_period = e->passed / n;
	e->overflows = 0;
	e->passed = 0;
	if (model_has_branches(e))
		model_branches_tell(e->home);
	if (model_update(e, &count))
		return false;
	e->owed = 0;
	memcpy(&overflows, model_memory + e->record + 8, 4);
	overflows += n;
	memcpy(model_memory + e->record + 8, &overflows, 4);
	return true;
}

/*
 * The model does not have pmc.  It has the NMI for a change of pmc: look() returns
 * whether the host has noticed the change.
 */
static bool pmc_to_tell(int vcpu)
{
	struct pv_perf_vcpu *pv = vcpus[vcpu]->arch.pv_perf;
	struct pv_perf_event *event;

	if (pv->pmc_changed)
		return true;

	list_for_each_entry(event, &pv->events, node)
		if (pv->hide_pmc && event->pmc.index &&
		    event->flags & KVM_PERF_ATTR_RDPMC_USER)
			return true;
	return false;
}

/* At the end of KVM_RUN, the host writes the records of all enabled events. */
static void model_tell_all(int vcpu, bool leaves)
{
	bool any = pmc_to_tell(vcpu), delivered;
	struct model_event *e;
	u64 place = 0;

	while ((e = model_next(vcpu, place, false))) {
		place = e->place;
		e->noted |= e->enabled && e->lost;
		delivered = model_deliver(e);
		any |= delivered;
		any |= leaves && e->enabled && !delivered ? model_tell_anew(e) :
							    model_tell(e);
	}
	if (any)
		model_nmi(vcpu, false);
}

static void model_enter(int vcpu)
{
	if (!request[vcpu])
		return;

	request[vcpu] = false;
	if (filter_changed[vcpu])
		model_filter(vcpu);
	filter_changed[vcpu] = false;
	model_counts_tell(vcpu);
	model_tell_all(vcpu, false);
}

/* The VMM interrupts the vCPU, perhaps to save the guest's memory. */
static void model_leave(int vcpu)
{
	model_tell_all(vcpu, true);
	model_counts_flush(vcpu);
	model_hide_area(vcpu);
}

/* Comparison of the model with the host */

/* The model does not have pmc: check_rdpmc() checks it. */
static void adopt_pmcs(void)
{
	const size_t pmc = offsetof(struct guest_perf_event, pmc);
	const size_t size = sizeof(struct guest_perf_event);
	int i;

	for (i = 0; i < ARRAY_SIZE(has_pmc); i++)
		if (has_pmc[i] && host_byte(i * size))
			memcpy(model_memory + i * size + pmc,
			       host_byte(i * size) + pmc, size - pmc);
}

/* The memory may have a pmc that has changed between two checks. */
bool model_reads_pmc(gpa_t gpa, unsigned long len)
{
	const size_t size = sizeof(struct guest_perf_event);
	int i;

	for (i = gpa / size; i < DIV_ROUND_UP(gpa + len, size); i++)
		if (has_pmc[i])
			return true;
	return false;
}

static void check_memory(void)
{
	gpa_t gpa;

	adopt_pmcs();
	for (gpa = 0; gpa < MEMORY; gpa += PAGE_SIZE) {
		if (!host_byte(gpa) ||
		    !memcmp(host_byte(gpa), model_memory + gpa, PAGE_SIZE))
			continue;
		while (*host_byte(gpa) == model_memory[gpa])
			gpa++;
		fprintf(stderr, "0x%llx: 0x%02x, not 0x%02x\n", gpa,
			*host_byte(gpa), model_memory[gpa]);
		CHECK(!"the guest's memory is as the model says");
	}
}

static void check_state(void)
{
	int i, n = 0;

	if (counts_unsure)
		return;
	check_memory();
	for (i = 0; i < ARRAY_SIZE(model); i++)
		n += model[i].open;
	CHECK(atomic_read(&kvm->arch.pv_perf->nr_events) == n);
	CHECK(atomic_read(&nr_backing_events) == n);
	CHECK(create_error == create_fails);
	for (i = 0; i < NR_VCPUS; i++) {
		CHECK(atomic_read(&vcpus[i]->arch.nmi_queued) == nmis[i]);
		CHECK((vcpus[i]->requests >> KVM_REQ_PV_PERF & 1) == request[i]);
	}
	counts_check();
}

/* Steps */

void put(gpa_t gpa, const void *data, unsigned long len)
{
	for (; len--; gpa++, data++) {
		if (gpa >= MEMORY)
			return;
		model_memory[gpa] = *(u8 *)data;
		if (host_byte(gpa))
			*host_byte(gpa) = *(u8 *)data;
	}
}

static void put_number(void)
{
	gpa_t gpa = get_gpa(8);
	u64 value = get_number(12);

	put(gpa, &value, 8);
}

static u64 get_type_and_config(struct guest_perf_attr *attr)
{
	static const u32 types[] = {
		KVM_PERF_TYPE_HARDWARE, KVM_PERF_TYPE_HW_CACHE,
		KVM_PERF_TYPE_RAW, KVM_PERF_TYPE_RAW, 1,
	};

	attr->type = types[get(1) % ARRAY_SIZE(types)];
	return attr->type == KVM_PERF_TYPE_RAW ? get_number(3) + 0xc0 :
						 get_number(11);
}

/* The five flags that a host must know, and the first three optional flags. */
static u64 get_flags(void)
{
	u8 flags = get(1);

	return (flags & 31) | (u64)(flags >> 5) << 48;
}

/* A CPU model, and fields that do not exist. */
static void put_new_fields(struct guest_perf_attr *attr, u8 odd)
{
	switch (odd) {
	case 224:
		attr->reserved = 1;
		break;
	case 225:
		attr->flags |= BIT_ULL(5);
		break;
	case 226:
		attr->flags |= BIT_ULL(63);
		break;
	case 227:
		attr->model = MODEL + 1;
		break;
	default:
		attr->model = MODEL;
	}
}

static gpa_t put_attr(void)
{
	struct guest_perf_attr attr = { .size = sizeof(attr) };
	gpa_t gpa = get_gpa(8);
	u8 odd = get(1);

	if (odd >= 248)
		attr.size = get_number(257);
	attr.config = get_type_and_config(&attr);
	attr.config1 = (odd & 0xf8) == 240 ? get(8) : 0;
	attr.config2 = (odd & 0xf8) == 232 ? get(8) : 0;
	attr.sample_period = odd & 1 ? get_number(200) : 0;
	attr.flags = odd & 2 ? get_flags() : 0;
	if (odd & 4)
		attr.flags &= 3;
	if ((odd & 0xe1) == 0xc1)
		attr.flags |= get_branch_flags();
	if ((odd & 0xf8) == 224)
		put_new_fields(&attr, odd);
	put(gpa, &attr, sizeof(attr));
	return gpa;
}

static gpa_t put_param(void)
{
	struct guest_perf_event_param param;
	u8 odd = get(1);
	gpa_t gpa;

	param.attr_addr = put_attr();
	param.event_addr = get_gpa(odd >= 250 ? 8 : 64);
	param.id = odd == 249 ? KVM_PERF_ID_ALL : get(1) % NR_IDS;
	param.reserved = odd == 248;
	gpa = get_gpa(8);
	put(gpa, &param, sizeof(param));
	return gpa;
}

static gpa_t put_area(void)
{
	u8 odd = get(1);
	gpa_t gpa = odd < 240 ? odd % NR_PAGES * PAGE_SIZE : get_gpa(1);
	u32 size = odd == 240 ? get_number(4098) :
		   odd % 16 == 7 ? GUEST_PERF_AREA_ALIGN :
				   sizeof(struct guest_perf_area);

	if (odd != 241)
		put(gpa, &size, sizeof(size));
	return gpa;
}

static bool has_address(u32 op)
{
	return op == KVM_PERF_OP_OPEN || op == KVM_PERF_OP_QUERY ||
	       op == KVM_PERF_OP_SET_AREA;
}

static gpa_t get_address(u32 op)
{
	u32 size = sizeof(struct guest_perf_query) + get(1) % 2 * 8;
	gpa_t gpa;

	if (op == KVM_PERF_OP_OPEN)
		return get(1) < 240 ? put_param() : get_gpa(1);
	if (op == KVM_PERF_OP_SET_AREA)
		return put_area();
	gpa = get_gpa(get(1) < 250 ? 8 : 1);
	if (get(1) < 128)
		put(gpa, &size, 4);
	return gpa;
}

static u32 get_id(void)
{
	u8 n = get(1);

	return n < 240 ? n % NR_IDS : n < 250 ? KVM_PERF_ID_ALL : get(4);
}

/* With FUZZ_TRACE set, prints the steps of a sequence. */
bool trace;

static void put_ops(gpa_t gpa, u64 nr)
{
	struct guest_perf_op op;
	u64 i;

	for (i = 0; i < nr; i++, gpa += sizeof(op)) {
		op.op = get(1) % 13;
		op.result = 0x5a;
		op.id = get_id();
		op.reserved = get(1) == 255;
		op.arg = has_address(op.op) ? get_address(op.op) :
			 op.op == KVM_PERF_OP_SET_COUNTS ? get_counts() :
							   get_number(200);
		put(gpa, &op, sizeof(op));
		if (trace)
			fprintf(stderr, "  op %u id 0x%x arg 0x%llx\n", op.op,
				op.id, op.arg);
	}
}

static void get_args(u64 op, u64 *a)
{
	gpa_t gpa;
	u64 number;

	a[0] = get_id();
	switch (op) {
	case KVM_PERF_OP_BATCH:
		gpa = get_gpa(8);
		a[2] = get(1) < 240 ? 1 + get(1) % 8 : get_number(66);
		put_ops(gpa, min(a[2], 8ull));
		a[0] = (u32)gpa;
		a[1] = gpa >> 32;
		break;
	case KVM_PERF_OP_OPEN:
	case KVM_PERF_OP_QUERY:
	case KVM_PERF_OP_SET_AREA:
		gpa = get_address(op);
		a[0] = (u32)gpa;
		a[1] = gpa >> 32;
		break;
	case KVM_PERF_OP_SET_COUNTS:
		number = get_counts();
		a[0] = (u32)number;
		a[1] = number >> 32;
		break;
	case KVM_PERF_OP_SET_PERIOD:
	case KVM_PERF_OP_SET_LEFT:
		number = get_number(200);
		a[1] = (u32)number;
		a[2] = number >> 32;
	}
}

static void hypercall(int vcpu)
{
	u8 odd = get(1);
	u64 op = get_number(13), a[3] = { };
	long want, got;

	get_args(op, a);
	if (odd >= 253)
		a[odd - 253] |= 1ull << 32;
	no_allocation = odd == 252;
	change.read = 0;
	if (odd >= 128 && odd < 192) {
		change.gpa = get_gpa(8);
		change.value = get_number(12);
		if (change.gpa % 8 == 0 && change.gpa < MEMORY &&
		    host_byte(change.gpa))
			change.read = 1 + odd % 8;
	}

	host_reads = 0;
	model_reads = 0;
	want = model_call(vcpu, op, a[0], a[1], a[2]);
	alloc_faults = (struct faults){ .fail_at = no_allocation };
	read_hook = host_read;
	got = run_hypercall(vcpus[vcpu], op, a[0], a[1], a[2]);
	read_hook = NULL;
	change.read = 0;
	alloc_faults.fail_at = 0;
	if (got != want || trace)
		fprintf(stderr, "vCPU %d: %llu 0x%llx 0x%llx 0x%llx: %ld, model %ld\n",
			vcpu, op, a[0], a[1], a[2], got, want);
	CHECK(got == want);
	CHECK(host_reads == model_reads);
}

static void change_slot(void)
{
	u8 n = get(1);
	struct kvm_memory_slot *slot = &kvm->memslots.slot[n % NR_SLOTS];
	bool *page = &slot->absent[n / NR_SLOTS % SLOT_PAGES];

	switch (n >> 5) {
	case 0:
		slot->present = !slot->present;
		kvm->memslots.generation += 2;
		break;
	case 1:
		slot->readonly = !slot->readonly;
		kvm->memslots.generation += 2;
		break;
	default:
		*page = !*page;
	}
}

static void model_reset(int vcpu)
{
	struct model_event *e;

	for (e = model; e < model + ARRAY_SIZE(model); e++)
		if (e->home == vcpu)
			e->open = false;
	area[vcpu].epoch = 0;
	model_counts_end(vcpu);
}

static void reset(int vcpu)
{
	pv_perf_vcpu_reset(vcpus[vcpu]);
	model_reset(vcpu);
}

static void host_event(int vcpu)
{
	static const int errors[] = { 0, -ENOMEM, -EBUSY, -ENOENT, -EINVAL };
	u8 n = get(1);
	int i;

	switch (n % 8) {
	case 0:
		create_fails = errors[n / 8 % ARRAY_SIZE(errors)];
		create_error = create_fails;
		break;
	case 1:
		kvm->denied_event = n & 8 ? 0xc0 : 0;
		pv_perf_filter_changed(kvm);
		for (i = 0; i < NR_VCPUS; i++) {
			request[i] = true;
			filter_changed[i] = true;
		}
		break;
	case 2:
		*param_pv_perf_max_events = n / 8 % 5;
		limit = *param_pv_perf_max_events * NR_VCPUS;
		break;
	case 3:
		vcpus[vcpu]->arch.guest_mode = n == 0xfb;
		vcpus[vcpu]->arch.iret_intercept = n == 0xf3;
		break;
	case 4:
		vcpus[vcpu]->arch.pv_cpuid.features =
			n == 0xfc ? 0 : 1u << KVM_FEATURE_PV_PERF |
					1u << KVM_FEATURE_STEAL_TIME;
		break;
	case 5:
		vcpus[vcpu]->arch.nmi_from_guest = n & 8;
		branches_of_host(vcpu, (n & 0x70) == 0x70);
		break;
	case 6:
		vcpus[vcpu]->arch.nmi_pending = n & 8;
		break;
	case 7:
		if (n == 0xff)
			reset(vcpu);
		else
			*param_pv_perf_max_counters = 1 + n / 8 % NR_COUNTERS;
	}
}

/*
 * There is no NMI exit if an entry has been given up because of a loss.  If the filter
 * has changed, the host may tell the guest at once or in two steps.  There is no NMI exit
 * either if, after the overflow, the vCPU has run or KVM has completed an instruction: in
 * KVM the request comes first, so that the exit does not read counts after the overflow.
 */
static void enter_guest(int vcpu)
{
	bool at_once = filter_changed[vcpu] || counted_on[vcpu] ||
		       model_any_to_note(vcpu) || model_counts_wanted(vcpu);
	unsigned long flags;

	model_enter(vcpu);
	/* The caller injects the NMI. */
	local_irq_save(flags);
	if (!at_once && pv_perf_deliver_at_exit(vcpus[vcpu])) {
		atomic_inc(&vcpus[vcpu]->arch.nmi_queued);
		model_branches_enter(vcpu, model_wanted_branches(vcpu),
				     kvm_test_request(KVM_REQ_PV_PERF, vcpus[vcpu]));
		pv_perf_enter(vcpus[vcpu], PV_PERF_ENTRY_AFTER_NMI);
	}
	local_irq_restore(flags);
	/* The entry also checks where counters are. */
	if (pmc_to_tell(vcpu))
		model_nmi(vcpu, false);
	handle_requests(vcpus[vcpu]);
	check_state();
	counted_on[vcpu] = false;
	nmis[vcpu] = 0;
	atomic_set(&vcpus[vcpu]->arch.nmi_queued, 0);
}

/* Has a pmc that the guest could read changed after @before? */
static bool pmc_has_changed(int vcpu, const u16 *before)
{
	struct pv_perf_event *event;
	int i = 0;

	list_for_each_entry(event, &vcpus[vcpu]->arch.pv_perf->events, node) {
		if (before[i] && before[i] != event->pmc_changes + 1)
			return true;
		i++;
	}
	return false;
}

/* Does the guest run now? */
static bool look(int vcpu)
{
	struct pv_perf_vcpu *pv = vcpus[vcpu]->arch.pv_perf;
	bool runs, changed = pv->pmc_changed;
	struct pv_perf_event *event;
	u16 before[64] = { 0 };
	unsigned long flags;
	int i = 0;

	/* 0 for a pmc that the guest could not read. */
	list_for_each_entry(event, &pv->events, node) {
		if (event->pmc.index && event->flags & KVM_PERF_ATTR_RDPMC_USER)
			before[i] = event->pmc_changes + 1;
		i++;
	}
	local_irq_save(flags);
	/* As if the NMI came just now, because events may be open only now. */
	vcpus[vcpu]->arch.nmi_injected = vcpus[vcpu]->arch.iret_intercept;
	pv_perf_enter(vcpus[vcpu], PV_PERF_ENTRY_ANEW);
	vcpus[vcpu]->arch.nmi_injected = false;
	branches_check(vcpu);
	CHECK(pv->pmc_changed == (changed || pmc_has_changed(vcpu, before)));
	runs = !kvm_test_request(KVM_REQ_PV_PERF, vcpus[vcpu]);
	if (runs)
		check_rdpmc(vcpus[vcpu]);
	local_irq_restore(flags);
	request[vcpu] |= pv->hide_pmc || pv->pmc_changed;
	return runs;
}

static void run(int vcpu, u64 n)
{
	unsigned long flags;
	bool runs, given_up;

	model_counts_enter(vcpu);
	given_up = request[vcpu];
	model_look(vcpu);
	counted_on[vcpu] |= request[vcpu];
	model_run(vcpu, n);
	model_branches_enter(vcpu, model_wanted_branches(vcpu), given_up);
	runs = look(vcpu);
	local_irq_save(flags);
	branches_run(vcpu, vcpus[vcpu]->arch.nmi_from_guest);
	local_irq_restore(flags);
	run_guest(n);
	/* An overflow ends guest mode. */
	local_irq_save(flags);
	if (runs && !kvm_test_request(KVM_REQ_PV_PERF, vcpus[vcpu]))
		check_rdpmc(vcpus[vcpu]);
	local_irq_restore(flags);
}

static void retire(int vcpu)
{
	struct kvm_vcpu *v = vcpus[vcpu];
	u8 n = get(1);
	bool branch = n & 4, moves = n & 8;

	counted_on[vcpu] |= request[vcpu];
	v->arch.cpl = n & 3;
	switch (n >> 6) {
	case 0:
		model_retire(vcpu, true, false, n & 3);
		pv_perf_instruction_retired(v);
		break;
	case 1:
		model_retire(vcpu, !moves, moves, 0);
		pv_perf_vmentry_retired(v, moves ? PV_PERF_BRANCH :
						   PV_PERF_INSTRUCTION);
		break;
	default:
		/* The instruction may change the CPL, or be completed in part. */
		if (moves || branch)
			model_retire(vcpu, true, branch, n & 3);
		pv_perf_emulates(v);
		v->arch.cpl = n >> 4 & 3;
		pv_perf_emulated(v, branch, kvm_rip_read(v) + moves);
	}
	irq_work_run();
	v->arch.cpl = 0;
}

static void step(void)
{
	u8 kind = get(1);
	int vcpu = kind >> 7;
	u64 n;

	current = tasks[vcpu];
	if (trace)
		fprintf(stderr, "vCPU %d: step %d, then 0x%02x\n", vcpu,
			kind & 15, input < input_end ? *input : 0);
	switch (kind & 15) {
	case 0:
		put_number();
		break;
	case 1:
	case 2:
		run(vcpu, get(1) * 4);
		break;
	case 3:
		enter_guest(vcpu);
		break;
	case 4:
		n = get(1) % (NR_COUNTERS + 1);
		take_counters(current, n);
		model_schedule(vcpu);
		break;
	case 5:
		change_slot();
		break;
	case 6:
		host_event(vcpu);
		break;
	case 7:
		model_leave(vcpu);
		pv_perf_vcpu_leave(vcpus[vcpu], -EINTR);
		break;
	case 8:
		if (model_is_restored(vcpu))
			model_reset(vcpu);
		else
			model_show_area(vcpu);
		pv_perf_vcpu_run(vcpus[vcpu]);
		break;
	case 12:
		retire(vcpu);
		break;
	case 11:
		if (counts_step(vcpu))
			run(vcpu, 0);
		break;
	default:
		hypercall(vcpu);
	}
	check_state();
	rcu_run();
}

static void setup(u8 counts_limit)
{
	int i;

	memset(model, 0, sizeof(model));
	memset(model_memory, 0, sizeof(model_memory));
	memset(request, 0, sizeof(request));
	memset(filter_changed, 0, sizeof(filter_changed));
	memset(counted_on, 0, sizeof(counted_on));
	memset(nmis, 0, sizeof(nmis));
	memset(area, 0, sizeof(area));
	memset(has_pmc, 0, sizeof(has_pmc));
	last_random = 0;
	model_random = 0;
	clock_ns = 1000;
	create_fails = 0;
	create_error = 0;
	*param_pv_perf_max_counters = NR_COUNTERS;
	*param_pv_perf_rdpmc = 1;
	*param_pv_perf_branches = true;
	*param_pv_perf_max_events = 4;
	/* No limit on rates, because the fuzzer moves the clock. */
	*param_pv_perf_max_rate = INT_MAX;
	*param_pv_perf_max_open_rate = INT_MAX;
	limit = 4 * NR_VCPUS;
	for (i = 0; i < NR_VCPUS; i++)
		tasks[i] = task_create(i);
	current = tasks[0];
	branches_setup(!(counts_limit & 1));
	kvm = vm_create();
	CHECK(!pv_perf_enable_cap(kvm, &(struct kvm_enable_cap) {
			.cap = KVM_CAP_PV_PERF_RDPMC, .args = { 1 } }));
	counts_setup(counts_limit);
	/* As if each vCPU had made a hypercall; unit_test also has vCPUs without. */
	for (i = 0; i < NR_VCPUS; i++) {
		vcpus[i] = vcpu_create(kvm, i);
		CHECK(!pv_perf_vcpu_prepare(vcpus[i]));
	}
}

static void teardown(void)
{
	int i;

	for (i = 0; i < NR_VCPUS; i++) {
		current = tasks[i];
		cpus[i].taken = 0;
		vcpu_destroy(vcpus[i]);
		task_put(tasks[i]);
	}
	vm_destroy(kvm);
	rcu_run();
	CHECK(!atomic_read(&nr_backing_events));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	trace = getenv("FUZZ_TRACE");
	rcu_by_hand = true;
	rcu_register_thread();
	return 0;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	int i;

	input = data;
	input_end = data + size;
	/* The last byte chooses the setup, and rarely has another meaning. */
	setup(size ? data[size - 1] : 0);
	for (i = 0; i < MAX_STEPS && input < input_end && !counts_unsure; i++)
		step();
	teardown();
	return 0;
}
