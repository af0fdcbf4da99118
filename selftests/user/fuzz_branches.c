// SPDX-License-Identifier: GPL-2.0
/*
 * The fuzzer's model of branch records: the branches that are recorded while the guest
 * runs, and the branches that are in its area with an overflow.
 */
#include "fuzz_host.h"
#include "pv_perf.h"
#include "pv_perf_event.h"

/* A branch in the MSRs' format, and in the guest's. */
struct branch {
	u64 raw[2];
	struct guest_perf_branch told;
	bool valid;
};

static struct model_branches {
	u32 wanted;		/* at the vCPU's entry */
	bool records;		/* the host's perf does not use the stack */
	unsigned int nr;	/* branches that led to an NMI */
	struct guest_perf_branch branch[NR_BRANCHES];
} model[NR_VCPUS];

static u64 seed;

static u64 next_number(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return seed >> 16 | seed << 48;
}

void branches_setup(bool there)
{
	int i;

	cpu_has_lbr_v2 = there;
	seed = 1;
	memset(model, 0, sizeof(model));
	for (i = 0; i < NR_VCPUS; i++)
		cpus[i].lbr_config = BIT(0);
}

/* Kinds of branches, sometimes a kind that does not exist. */
u64 get_branch_flags(void)
{
	u16 n = get(2);

	return (n & 0xf000 ? n & 0x1ff : n & 0x3ff) * (1ull << 32);
}

/* The host's perf uses the stack, or no longer uses it. */
void branches_of_host(int vcpu, bool used)
{
	if (used)
		cpus[vcpu].lbr_config |= DBG_EXTN_CFG_LBRV2EN;
	else
		cpus[vcpu].lbr_config &= ~DBG_EXTN_CFG_LBRV2EN;
}

/* An entry that is given up keeps the branches to be told. */
void model_branches_enter(int vcpu, u32 wanted, bool given_up)
{
	struct model_branches *m = &model[vcpu];

	m->wanted = wanted;
	m->records = wanted && !vcpus[vcpu]->arch.guest_mode &&
		     !(cpus[vcpu].lbr_config & DBG_EXTN_CFG_LBRV2EN);
	if (!given_up || !wanted)
		m->nr = 0;
}

void branches_check(int vcpu)
{
	check_branches(vcpus[vcpu]);
	CHECK(!!vcpus[vcpu]->arch.pv_perf_branches == model[vcpu].records);
	if (model[vcpu].records)
		CHECK(cpus[vcpu].lbr_select == (~model[vcpu].wanted & 0x1ff));
}

static u64 any_address(void)
{
	return sign_extend64(next_number(), 47);
}

/* The host ignores bits above an address's bits. */
static u64 raw_address(u64 address)
{
	return (address & ~(0x3ffull << 48) & ~(0x3full << 58)) |
	       (next_number() & 0x3ff) << 48;
}

static struct branch any_branch(void)
{
	static const u64 flags[] = {
		[PERF_BR_SPEC_WRONG_PATH] = BIT_ULL(62),
		[PERF_BR_NON_SPEC_CORRECT_PATH] = BIT_ULL(63),
		[PERF_BR_SPEC_CORRECT_PATH] = BIT_ULL(63) | BIT_ULL(62),
	};
	u64 kind = next_number() % 64, spec = kind % 4;
	struct branch b = {
		.told = {
			.from = any_address(),
			.to = any_address(),
			.info = kind >> 2 & 1,
		},
		.valid = spec && kind < 56,
	};

	b.told.info |= spec << KVM_PERF_BRANCH_SPEC_SHIFT;
	b.raw[0] = raw_address(b.told.from) | (kind >> 2 & 1) << 63;
	b.raw[1] = raw_address(b.told.to) | flags[spec];
	if (kind >= 56)
		b.raw[1] |= BIT_ULL(61);
	return b;
}

/* The guest runs, and exits for an NMI, or for something else. */
void branches_run(int vcpu, bool nmi)
{
	struct model_branches *m = &model[vcpu];
	struct branch branches[NR_BRANCHES];
	unsigned int i, nr = next_number() % (NR_BRANCHES + 1);

	for (i = 0; i < nr; i++) {
		branches[i] = any_branch();
		run_branches(vcpus[vcpu], &branches[i].raw, 1);
	}
	if (!nmi)
		return;

	pv_perf_save_branches(vcpus[vcpu]);
	if (!m->records)
		return;

	m->nr = 0;
	while (i--)
		if (branches[i].valid)
			m->branch[m->nr++] = branches[i].told;
}

/* The branches in the area with an overflow. */
void model_branches_tell(int vcpu)
{
	const struct model_branches *m = &model[vcpu];
	struct {
		u32 nr, reserved;
		struct guest_perf_branch branch[NR_BRANCHES];
	} told = { .nr = m->nr };

	if (!area[vcpu].epoch)
		return;

	memcpy(told.branch, m->branch, sizeof(told.branch));
	model_write(area[vcpu].gpa + offsetof(struct guest_perf_area, nr_branches), &told,
		    8 + m->nr * sizeof(told.branch[0]));
}
