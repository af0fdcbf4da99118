/* SPDX-License-Identifier: GPL-2.0 */
/* The interfaces between the fuzzer's parts. */
#ifndef FUZZ_HOST_H
#define FUZZ_HOST_H

#include "stand_in.h"

#define NR_VCPUS	2

/* The input, the model of guest memory, of areas, requests and NMIs. */

struct model_area {
	gpa_t gpa;
	u32 size;
	u32 epoch;
	bool shown;
	u32 hidden;
	u64 generation;		/* of the memory slots at the lookup */
};

extern struct kvm *kvm;
extern struct kvm_vcpu *vcpus[NR_VCPUS];
extern u8 model_memory[];
extern struct model_area area[NR_VCPUS];
extern bool request[NR_VCPUS];
extern bool trace;

u64 get(int bytes);
u64 get_number(u64 limit);
void put(gpa_t gpa, const void *data, unsigned long len);
bool model_page(gpa_t gpa, bool write);
bool model_write(gpa_t gpa, const void *data, unsigned long len);
bool model_reads_pmc(gpa_t gpa, unsigned long len);
void model_nmi(int vcpu, bool injected);
void pass_time(u64 n);

/* The model of the records of branches. */

void branches_setup(bool there);
u64 get_branch_flags(void);
void branches_of_host(int vcpu, bool used);
void model_branches_enter(int vcpu, u32 wanted, bool given_up);
void branches_check(int vcpu);
void branches_run(int vcpu, bool nmi);
void model_branches_tell(int vcpu);

/* The model of the hypervisor's events. */

/* The content of memory is no longer known, because the model does not have pmc. */
extern bool counts_unsure;

void counts_setup(u8 limit);
u32 model_counts_allowed(void);
int model_counts_set(int vcpu, u64 wanted);
void model_counts_end(int vcpu);
void model_counts_overflow(int vcpu);
void model_counts_nmi(int vcpu);
void model_counts_enter(int vcpu);
bool model_counts_wanted(int vcpu);
void model_counts_tell(int vcpu);
void model_counts_flush(int vcpu);
void counts_check(void);

u64 get_counts(void);
/* Makes a step; if it returns true, the vCPU enters. */
bool counts_step(int vcpu);

#endif
