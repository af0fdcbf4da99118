// SPDX-License-Identifier: GPL-2.0
/*
 * rdpmc ECX...: reads any counters of this CPU by RDPMC, from CPL 0, and prints ECX
 * and the value, or "fault".
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "kvm_perf_hypercall.h"

int main(int argc, char *argv[])
{
	int fd = open("/dev/kvm_perf_hypercall", O_RDWR);
	struct kvm_perf_rdpmc rdpmc;
	int i;

	if (fd < 0) {
		perror("/dev/kvm_perf_hypercall");
		return 1;
	}
	for (i = 1; i < argc; i++) {
		rdpmc = (struct kvm_perf_rdpmc){ .ecx = strtoul(argv[i], NULL, 0) };
		if (ioctl(fd, KVM_PERF_HYPERCALL_RDPMC, &rdpmc)) {
			perror("RDPMC");
			return 1;
		}
		if (rdpmc.failed)
			printf("%s fault\n", argv[i]);
		else
			printf("%s %llu\n", argv[i], rdpmc.value);
	}
	return 0;
}
