// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of the host side: SET_AREA, and guests that were restored from a snapshot.
 */
#include "unit.h"

UNIT_TEST(set_area)
{
	u32 epoch;

	setup();
	mem->area.size = GUEST_PERF_AREA_SIZE_VER0 - 1;
	is("an area that is too small: EINVAL", set_area(GPA(area)),
	   -KVM_EINVAL);
	mem->area.size = GUEST_PERF_AREA_ALIGN + 1;
	is("an area that is larger than a page: EINVAL",
	   set_area(GPA(area)), -KVM_EINVAL);
	/* The size at this address is valid. */
	*(u32 *)((char *)&mem->area + 2048) = sizeof(mem->area);
	is("an area in the middle of a page: EINVAL",
	   set_area(GPA(area) + 2048), -KVM_EINVAL);
	*(u32 *)((char *)&mem->area + 2048) = 0;
	is("an area without memory: EFAULT", set_area(NO_MEMORY), -KVM_EFAULT);
	*(u32 *)kvm->memslots.slot[1].memory = sizeof(mem->area);
	is("an area in read-only memory: EFAULT",
	   set_area(RO_MEMORY), -KVM_EFAULT);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("a refused area is not written", mem->area.epoch, 0);

	mem->area.size = GUEST_PERF_AREA_ALIGN;
	is("SET_AREA", set_area(GPA(area)), 0);
	epoch = mem->area.epoch;
	is("SET_AREA writes an epoch", epoch != 0, true);
	is("SET_AREA writes the size of the known fields",
	   mem->area.size, sizeof(mem->area));
	mem->area.size = 1;
	is("SET_AREA that fails", set_area(GPA(area)), -KVM_EINVAL);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("a failed SET_AREA keeps the previous area", mem->area.epoch & 1, 0);
	mem->area.size = sizeof(mem->area);
	is("SET_AREA once more", set_area(GPA(area)), 0);
	is("another SET_AREA writes another epoch",
	   mem->area.epoch != epoch, true);
	epoch = mem->area.epoch;
	is("SET_AREA to address 0", set_area(0), 0);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("after SET_AREA to address 0, the area is not written",
	   mem->area.epoch, epoch);
	teardown();
}

UNIT_TEST(area)
{
	u32 epoch;

	setup();
	mem->area.size = sizeof(mem->area);
	CHECK(!set_area(GPA(area)));
	epoch = mem->area.epoch;
	vcpus[0]->run->exit_reason = KVM_EXIT_MMIO;
	pv_perf_vcpu_leave(vcpus[0], 0);
	is("an exit that the VMM must complete keeps the epoch",
	   mem->area.epoch, epoch);
	kvm->memslots.slot[0].dirty[gpa_to_gfn(GPA(area))] = false;
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("a stopped vCPU's area has no epoch", mem->area.epoch & 1, 0);
	is("the area's page is dirty",
	   kvm->memslots.slot[0].dirty[gpa_to_gfn(GPA(area))], true);
	pv_perf_vcpu_run(vcpus[0]);
	is("when the vCPU runs again, the epoch is the same",
	   mem->area.epoch, epoch);
	is("the guest gets no NMI for that", enter_guest(), 0);

	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	kvm->memslots.slot[0].absent[gpa_to_gfn(GPA(area))] = true;
	pv_perf_vcpu_run(vcpus[0]);
	is("while the page is absent, the area gets no epoch",
	   mem->area.epoch & 1, 0);
	kvm->memslots.slot[0].absent[gpa_to_gfn(GPA(area))] = false;
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	pv_perf_vcpu_run(vcpus[0]);
	is("when the page is present again, the area gets the epoch",
	   mem->area.epoch, epoch);

	on(1);
	is("RESET by another vCPU", call(KVM_PERF_OP_RESET, 0), 0);
	on(0);
	is("RESET sets the area's epoch to 0", mem->area.epoch, 0);
	pv_perf_vcpu_run(vcpus[0]);
	is("the area gets no epoch any more", mem->area.epoch, 0);

	CHECK(!set_area(GPA(area)));
	is("SET_AREA after RESET writes another epoch",
	   mem->area.epoch != epoch, true);
	epoch = mem->area.epoch;
	pv_perf_vcpu_reset(vcpus[0]);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	pv_perf_vcpu_run(vcpus[0]);
	is("after a reset of the vCPU, the area is not written",
	   mem->area.epoch, epoch);
	teardown();
}

/* A VMM without KVM's local APIC restores memory without notifying KVM. */
UNIT_TEST(restored_in_place)
{
	static u8 saved[PAGE_SIZE];
	u32 epoch, hidden;

	setup();
	mem->area.size = sizeof(mem->area);
	CHECK(!set_area(GPA(area)));
	epoch = mem->area.epoch;
	CHECK(!open_id(1) && !call(KVM_PERF_OP_ENABLE, 1));
	run_guest(100);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	hidden = mem->area.epoch;
	memcpy(saved, &mem->area, sizeof(saved));
	pv_perf_vcpu_run(vcpus[0]);
	is("a VM that continues after it was saved has its epoch",
	   mem->area.epoch, epoch);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("each stop hides the epoch by another number",
	   mem->area.epoch != hidden && !(mem->area.epoch & 1), true);
	pv_perf_vcpu_run(vcpus[0]);
	run_guest(1000);
	is("the VM's event counts on", call(KVM_PERF_OP_READ, 1), 0);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);

	memcpy(&mem->area, saved, sizeof(saved));
	memset(mem->record, 0x5a, sizeof(mem->record));
	pv_perf_vcpu_run(vcpus[0]);
	is("a VM that is restored in place has no epoch", mem->area.epoch, hidden);
	is("the restored VM does not have the later event",
	   call(KVM_PERF_OP_READ, 1), -KVM_ENOENT);
	is("the later event's record is not written",
	   !memchr_inv(mem->record, 0x5a, sizeof(mem->record)), true);
	is("the restored VM gets no NMI", enter_guest(), 0);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	pv_perf_vcpu_run(vcpus[0]);
	is("the restored VM's area is not written", mem->area.epoch, hidden);
	CHECK(!set_area(GPA(area)));
	is("after SET_AREA, the restored VM has an epoch",
	   mem->area.epoch & 1, 1);
	is("after SET_AREA, the restored VM can open an event", open_id(1), 0);

	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	kvm->memslots.slot[0].absent[gpa_to_gfn(GPA(area))] = true;
	pv_perf_vcpu_run(vcpus[0]);
	is("an absent page does not count as restored", event(1) != NULL, true);
	kvm->memslots.slot[0].absent[gpa_to_gfn(GPA(area))] = false;
	teardown();
}

/* A VMM restores the APIC's registers and memory with an area. */
UNIT_TEST(restored)
{
	struct kvm_lapic lapic = { .lvtpc = KVM_PERF_LVTPC };
	struct kvm_vcpu *fresh;

	setup();
	fresh = vcpu_create(kvm, 2);
	fresh->arch.apic = &lapic;
	pv_perf_vcpu_run(fresh);
	is("a vCPU without a call on this host that had an area elsewhere: an NMI",
	   atomic_read(&fresh->arch.nmi_queued), 1);
	vcpu_destroy(fresh);
	vcpus[0]->arch.apic = &lapic;
	vcpus[1]->arch.apic = &lapic;
	pv_perf_vcpu_run(vcpus[0]);
	is("a vCPU without an area that had an area elsewhere: an NMI",
	   enter_guest(), 1);
	pv_perf_vcpu_run(vcpus[0]);
	is("the vCPU gets this NMI once", enter_guest(), 0);
	pv_perf_vcpu_reset(vcpus[0]);
	pv_perf_vcpu_run(vcpus[0]);
	is("after a reset of the vCPU: another NMI", enter_guest(), 1);
	mem->area.size = sizeof(mem->area);
	CHECK(!set_area(GPA(area)) && !set_area(0));
	pv_perf_vcpu_run(vcpus[0]);
	is("a vCPU that has removed its area gets no NMI", enter_guest(), 0);

	on(1);
	lapic.lvtpc = 0x400;
	pv_perf_vcpu_run(vcpus[1]);
	is("a vCPU with another LVTPC gets no NMI", enter_guest(), 0);
	lapic.lvtpc = KVM_PERF_LVTPC;
	vcpus[1]->arch.nmi_pending = 1;
	pv_perf_vcpu_run(vcpus[1]);
	is("a vCPU with another NMI pending gets no NMI", enter_guest(), 0);
	vcpus[1]->arch.nmi_pending = 0;
	pv_perf_vcpu_reset(vcpus[1]);
	vcpus[1]->arch.apic = NULL;
	pv_perf_vcpu_run(vcpus[1]);
	is("a vCPU with its APIC in user space gets no NMI", enter_guest(), 0);
	vcpus[1]->arch.apic = &lapic;
	pv_perf_vcpu_run(vcpus[1]);
	is("any other vCPU gets the NMI", enter_guest(), 1);
	teardown();
}
