/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The paravirtual perf events in a guest of the kernel's KVM selftests: the
 * hypercalls, and memory that the guest and the VMM share.
 *
 * Guest code runs in 64-bit mode at CPL 0, from the same C file as the VMM.
 */
#ifndef GUEST_PERF_H
#define GUEST_PERF_H

#include <stdbool.h>
#include <stdint.h>

#include <linux/perf_event.h>

#include "kselftest.h"
#include "kvm_util.h"
#include "processor.h"

#include "kvm_perf.h"

#define GUEST_PERF_RECORDS	64
#define GUEST_PERF_VCPUS	4

/**
 * struct guest_perf_shared - memory that guest and VMM share
 * @record: the record of the event whose id is the index
 * @vcpu: arguments of OPEN and of BATCH, per vCPU
 * @watched: a bit per record: the guest's NMI handler reads the record
 * @overflows: the overflows that the NMI handler has found, per record
 * @phase: the phase in which the VMM, or a vCPU, wants the other vCPU to be
 * @reached: the progress of each vCPU
 */
struct guest_perf_shared {
	struct guest_perf_event record[GUEST_PERF_RECORDS];
	struct {
		struct guest_perf_event_param param;
		struct guest_perf_attr attr;
		struct guest_perf_op ops[KVM_PERF_BATCH_MAX];
	} vcpu[GUEST_PERF_VCPUS];
	uint64_t watched;
	uint64_t overflows[GUEST_PERF_RECORDS];
	uint64_t phase;
	uint64_t reached[GUEST_PERF_VCPUS];
};

/* The guest's addresses of the shared memory; the VMM sets these globals. */
static struct guest_perf_shared *guest_area;
static uint64_t guest_area_gpa;

/* AMD's instruction, which KVM patches on Intel. */
static inline long guest_perf_call(uint64_t op, uint64_t a1, uint64_t a2,
				   uint64_t a3)
{
	long ret;

	__asm__ volatile("vmmcall"
			 : "=a"(ret)
			 : "a"((uint64_t)KVM_PERF_OP), "b"(op), "c"(a1),
			   "d"(a2), "S"(a3)
			 : "memory");
	return ret;
}

static inline long guest_perf_op(unsigned int op, uint32_t id, uint64_t arg)
{
	return guest_perf_call(op, id, (uint32_t)arg, arg >> 32);
}

static inline uint64_t guest_perf_gpa(const void *p)
{
	return guest_area_gpa + ((char *)p - (char *)guest_area);
}

static inline long guest_perf_addr_op(unsigned int op, const void *p,
				      unsigned int nr)
{
	uint64_t gpa = guest_perf_gpa(p);

	return guest_perf_call(op, (uint32_t)gpa, gpa >> 32, nr);
}

/* Opens an event for instructions in all modes; with a @period of 0 it only counts. */
static inline long guest_perf_open(int vcpu, uint32_t id, uint64_t period)
{
	struct guest_perf_attr *attr = &guest_area->vcpu[vcpu].attr;
	struct guest_perf_event_param *param = &guest_area->vcpu[vcpu].param;

	*attr = (struct guest_perf_attr) {
		.size		= sizeof(*attr),
		.type		= KVM_PERF_TYPE_HARDWARE,
		.config		= PERF_COUNT_HW_INSTRUCTIONS,
		.sample_period	= period,
	};
	*param = (struct guest_perf_event_param) {
		.attr_addr	= guest_perf_gpa(attr),
		.event_addr	= guest_perf_gpa(&guest_area->record[id]),
		.id		= id,
	};
	__atomic_or_fetch(&guest_area->watched, 1ull << id, __ATOMIC_SEQ_CST);
	return guest_perf_addr_op(KVM_PERF_OP_OPEN, param, 0);
}

/* Keeps the NMI handler from the record, whose memory will be used otherwise. */
static inline void guest_perf_forget(uint32_t id)
{
	__atomic_and_fetch(&guest_area->watched, ~(1ull << id),
			   __ATOMIC_SEQ_CST);
}

/* Executes two instructions per turn. */
static inline void guest_perf_burn(uint64_t n)
{
	__asm__ volatile("1: dec %0; jnz 1b" : "+r"(n));
}

/* Returns and clears the number of the event's overflows. */
static inline uint32_t guest_perf_take_overflows(int id)
{
	uint32_t *overflows = &guest_area->record[id].overflows, n;

	/* Another vCPU may forget the record, and write there, at any time. */
	do {
		n = __atomic_load_n(overflows, __ATOMIC_SEQ_CST);
		if (!n || !(__atomic_load_n(&guest_area->watched,
					    __ATOMIC_SEQ_CST) & 1ull << id))
			return 0;
	} while (!__atomic_compare_exchange_n(overflows, &n, 0, false,
					      __ATOMIC_SEQ_CST,
					      __ATOMIC_SEQ_CST));
	return n;
}

static inline void guest_perf_handle_nmi(struct ex_regs *regs)
{
	uint64_t watched = guest_area->watched;

	for (; watched; watched &= watched - 1) {
		int id = __builtin_ctzll(watched);
		uint32_t n = guest_perf_take_overflows(id);

		if (n)
			__atomic_add_fetch(&guest_area->overflows[id], n,
					   __ATOMIC_SEQ_CST);
	}
}

#define GUEST_PERF_NMI	2

/* The VMM emulates the interrupt controllers, so that HLT leaves KVM_RUN. */
static bool guest_perf_without_irqchip;

static inline struct kvm_vm *
guest_perf_vm_start(int nr_vcpus, size_t pages, void *guest_code,
		    struct kvm_vcpu *vcpus[])
{
	struct kvm_vm *vm;
	int i;

	if (!guest_perf_without_irqchip)
		return __vm_create_with_vcpus(VM_MODE_DEFAULT, nr_vcpus, pages,
					      guest_code, vcpus);

	/* Like __vm_create_with_vcpus(), but without vm_create_irqchip(). */
	vm = ____vm_create(VM_MODE_DEFAULT, 2048 + pages);
	kvm_vm_elf_load(vm, program_invocation_name);
	for (i = 0; i < nr_vcpus; i++)
		vcpus[i] = vm_vcpu_add(vm, i, guest_code);
	return vm;
}

/**
 * guest_perf_vm_create - a VM with the shared memory and the NMI handler
 * @nr_vcpus: number of vCPUs, at most GUEST_PERF_VCPUS
 * @guest_code: the function that each vCPU runs; its argument is the vCPU's number
 * @vcpus: set to the vCPUs
 * @area: set to the VMM's address of the shared memory
 */
static inline struct kvm_vm *
guest_perf_vm_create(int nr_vcpus, void *guest_code, struct kvm_vcpu *vcpus[],
		     struct guest_perf_shared **area)
{
	size_t size = (sizeof(**area) + 4095) & ~4095ul;
	struct kvm_vm *vm;
	vm_vaddr_t gva;
	int i;

	vm = guest_perf_vm_start(nr_vcpus, size / 4096, guest_code, vcpus);
	gva = vm_vaddr_alloc(vm, size, KVM_UTIL_MIN_VADDR);
	*area = addr_gva2hva(vm, gva);
	memset(*area, 0, size);
	guest_area = (void *)gva;
	guest_area_gpa = addr_gva2gpa(vm, gva);
	sync_global_to_guest(vm, guest_area);
	sync_global_to_guest(vm, guest_area_gpa);

	vm_init_descriptor_tables(vm);
	for (i = 0; i < nr_vcpus; i++) {
		vcpu_init_descriptor_tables(vcpus[i]);
		vcpu_args_set(vcpus[i], 1, (uint64_t)i);
	}
	vm_install_exception_handler(vm, GUEST_PERF_NMI, guest_perf_handle_nmi);
	return vm;
}

/* Runs the vCPU until the guest makes a ucall; returns the ucall's command. */
static inline uint64_t guest_perf_run(struct kvm_vcpu *vcpu, struct ucall *uc)
{
	vcpu_run(vcpu);
	get_ucall(vcpu, uc);
	if (uc->cmd == UCALL_ABORT) {
		ksft_print_msg("vCPU %u: %s (%s:%lu) %#lx %#lx\n", vcpu->id,
			       (char *)uc->args[0], (char *)uc->args[1],
			       uc->args[2], uc->args[3], uc->args[4]);
		ksft_exit_fail_msg("the guest has found an error\n");
	}
	if (uc->cmd == UCALL_NONE)
		ksft_exit_fail_msg("vCPU %u: exit %s\n", vcpu->id,
				   exit_reason_str(vcpu->run->exit_reason));
	return uc->cmd;
}

#endif /* GUEST_PERF_H */
