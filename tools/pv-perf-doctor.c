// SPDX-License-Identifier: GPL-2.0
/*
 * pv-perf-doctor: says whether paravirtual perf events work on this machine, and if
 * not, what to do.
 *
 * The doctor reads files of the kernel, and asks KVM and perf.  It changes nothing.  The
 * order of the checks is the order in which the user has to mend what fails.  If a check
 * fails, the doctor leaves out the checks that depend on it.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <glob.h>
#include <inttypes.h>
#include <linux/kvm.h>
#include <linux/kvm_para.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "kvm_perf.h"

#define MODULE		"/sys/module/"
#define PMU		"/sys/bus/event_source/devices/"

/* The sampling period, and the number of samples to take. */
#define PERIOD		100000
#define SAMPLES		10

/* The number of VM exits that the doctor causes, to see whether perf counts them. */
#define EXITS		100

#ifndef VERSION
#define VERSION		"of the source tree"
#endif

static struct utsname kernel;
static bool failed;

/* With --json, the JSON object goes here, and stdout is /dev/null.  Otherwise NULL. */
static FILE *json;
/* "host" or "guest" */
static const char *role;
static unsigned int json_checks, json_remedies;

static void json_string(const char *text)
{
	fputc('"', json);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fprintf(json, "\\%c", *text);
		else if ((unsigned char)*text < ' ' || (unsigned char)*text > '~')
			fprintf(json, "\\u%04x", (unsigned char)*text);
		else
			fputc(*text, json);
	}
	fputc('"', json);
}

static void json_check(const char *id, bool good, const char *text)
{
	fprintf(json, "%s\n  {\"role\": \"%s\", \"id\": \"%s\", \"ok\": %s, \"text\": ",
		json_checks++ ? "]}," : "", role, id, good ? "true" : "false");
	json_string(text);
	fputs(", \"remedy\": [", json);
	json_remedies = 0;
}

/*
 * Prints a line of the result.  If @good is false, the caller prints the remedy next, by
 * advise().  Programs know the check by its @id, which must not change.
 */
static bool check(const char *id, bool good, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	printf("%s%s\n", good ? "ok      " : "not ok  ", text);
	if (json)
		json_check(id, good, text);
	failed |= !good;
	return good;
}

/* Prints the lines of a remedy, indented. */
static void advise(const char *format, ...)
{
	char text[2048], *line, *next = text;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	while ((line = strsep(&next, "\n"))) {
		printf("        %s\n", line);
		if (!json)
			continue;
		fputs(json_remedies++ ? ", " : "", json);
		json_string(line);
	}
}

static bool exists(const char *path)
{
	return !access(path, F_OK);
}

/* The first line of a file, or "". */
static const char *first_line(const char *path)
{
	static char line[256];
	FILE *file = fopen(path, "r");

	line[0] = '\0';
	if (file) {
		if (!fgets(line, sizeof(line), file))
			line[0] = '\0';
		fclose(file);
	}
	line[strcspn(line, "\n")] = '\0';
	return line;
}

static bool is_yes(const char *path)
{
	return first_line(path)[0] == 'Y' || first_line(path)[0] == '1';
}

/* Does a line of the file contain this text? */
static bool has_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "r");
	char line[1024];
	bool found = false;

	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file))
		found = strstr(line, text);
	fclose(file);
	return found;
}

/* A script of the package pv-perf-host-kmod, which contains built modules. */
#define HOST_KMOD	"/usr/lib/pv-perf/host-kmod"

/* Is the module installed for the running kernel, by DKMS or by pv-perf-host-kmod? */
static bool is_installed(const char *module)
{
	char pattern[512];
	glob_t found;
	bool is;

	snprintf(pattern, sizeof(pattern), "/lib/modules/%s/updates/{dkms,pv-perf}/%s.ko*",
		 kernel.release, module);
	is = !glob(pattern, GLOB_BRACE, NULL, &found);
	globfree(&found);
	return is;
}

static uint32_t cpuid(uint32_t leaf, char reg)
{
	uint32_t a, b, c, d;

	if (leaf < 0x40000000 || leaf >= 0x80000000) {
		if (leaf > __get_cpuid_max(leaf & 0x80000000, NULL))
			return 0;
	}
	__cpuid_count(leaf, 0, a, b, c, d);
	return reg == 'a' ? a : reg == 'b' ? b : reg == 'c' ? c : d;
}

/* The first of KVM's CPUID leaves, or 0 if this machine is not a guest of KVM. */
static uint32_t kvm_base(void)
{
	uint32_t base, signature[4] = { 0 };

	if (!(cpuid(1, 'c') & (1U << 31)))
		return 0;
	for (base = 0x40000000; base < 0x40010000; base += 0x100) {
		signature[0] = cpuid(base, 'b');
		signature[1] = cpuid(base, 'c');
		signature[2] = cpuid(base, 'd');
		if (!strcmp((char *)signature, "KVMKVMKVM"))
			return base;
	}
	return 0;
}

static bool is_amd(void)
{
	uint32_t b = cpuid(0, 'b');

	return !memcmp(&b, "Auth", 4) || !memcmp(&b, "Hygo", 4);
}

/*
 * Other vendors' CPUs have VMX and an architectural PMU, too, but perf cannot count guests
 * alone on these CPUs.
 */
static bool is_intel(void)
{
	uint32_t b = cpuid(0, 'b');

	return !memcmp(&b, "Genu", 4);
}

/*
 * perf
 */

static int open_event(uint32_t type, uint64_t config, uint64_t period)
{
	struct perf_event_attr attr = {
		.size		= sizeof(attr),
		.type		= type,
		.config		= config,
		.sample_period	= period,
		.sample_type	= PERF_SAMPLE_IP,
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
	};

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static int open_instructions(uint64_t period)
{
	return open_event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS,
			  period);
}

static uint64_t read_and_close(int fd)
{
	uint64_t count = 0;

	if (read(fd, &count, sizeof(count)) != sizeof(count))
		count = 0;
	close(fd);
	return count;
}

/* Executes 2 * n instructions. */
static void loop(unsigned long n)
{
	asm volatile("1: dec %0; jnz 1b" : "+r" (n));
}

/* The number of instructions that perf counts for 2,000,000, or -errno. */
static long count_instructions(void)
{
	int fd = open_instructions(0);

	if (fd < 0)
		return -errno;
	loop(1000000);
	return read_and_close(fd);
}

/* The number of samples that perf takes, at best SAMPLES, or -errno. */
static long take_samples(void)
{
	size_t size = sysconf(_SC_PAGESIZE), offset = 0;
	struct perf_event_mmap_page *page;
	struct perf_event_header *header;
	int fd = open_instructions(PERIOD);
	long samples = 0;

	if (fd < 0)
		return -errno;
	page = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		samples = -errno;
		close(fd);
		return samples;
	}
	loop(SAMPLES * PERIOD / 2);
	while (offset < __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE)) {
		header = (void *)((char *)page + size + offset);
		samples += header->type == PERF_RECORD_SAMPLE;
		offset += header->size;
	}
	munmap(page, 2 * size);
	close(fd);
	return samples;
}

/* If perf refuses this user, prints the remedy. */
static bool is_denied(long error)
{
	if (error != -EACCES && error != -EPERM)
		return false;
	advise("Run it as root. To let others use perf:\n"
	       "    sysctl kernel.perf_event_paranoid=1   # is %s",
	       first_line("/proc/sys/kernel/perf_event_paranoid"));
	return true;
}

/*
 * For the host and the guest
 */

/* The names of the hypervisor's events in the guest's perf, by KVM_PERF_COUNT_*. */
static const char *const counts[KVM_PERF_NR_COUNTS] = {
	[KVM_PERF_COUNT_EXITS_OTHER]	= "exits_other",
	[KVM_PERF_COUNT_EXITS_IO]	= "exits_io",
	[KVM_PERF_COUNT_EXITS_MMIO]	= "exits_mmio",
	[KVM_PERF_COUNT_EXITS_MSR]	= "exits_msr",
	[KVM_PERF_COUNT_EXITS_CPUID]	= "exits_cpuid",
	[KVM_PERF_COUNT_EXITS_HLT]	= "exits_hlt",
	[KVM_PERF_COUNT_EXITS_NPF]	= "exits_npf",
	[KVM_PERF_COUNT_EXITS_INTERRUPT] = "exits_interrupt",
	[KVM_PERF_COUNT_EXITS_NMI]	= "exits_nmi",
	[KVM_PERF_COUNT_EXITS_HYPERCALL] = "exits_hypercall",
	[KVM_PERF_COUNT_EXITS_NESTED]	= "exits_nested",
	[KVM_PERF_COUNT_EXITS_PV_PERF]	= "exits_pv_perf",
	[KVM_PERF_COUNT_INJECTED_IRQS]	= "injected_irqs",
	[KVM_PERF_COUNT_PREEMPTIONS]	= "preemptions",
	[KVM_PERF_COUNT_STEAL_NS]	= "steal_ns",
	[KVM_PERF_COUNT_HALT_NS]	= "halt_ns",
	[KVM_PERF_COUNT_HOST_NS]	= "host_ns",
};

#define ALL_COUNTS	((1U << KVM_PERF_NR_COUNTS) - 1)

/* Prints the names of the events in @mask, in indented lines. */
static void list_counts(uint32_t mask)
{
	unsigned int i, column = 0;

	for (i = 0; i < KVM_PERF_NR_COUNTS; i++) {
		if (!(mask >> i & 1))
			continue;
		if (column + strlen(counts[i]) > 74) {
			putchar('\n');
			column = 0;
		}
		column += printf("%s%s", column ? " " : "    ", counts[i]);
	}
	putchar('\n');
}

static const char *locked_down(void)
{
	const char *state = first_line("/sys/kernel/security/lockdown");

	if (strstr(state, "[integrity]"))
		return "integrity";
	if (strstr(state, "[confidentiality]"))
		return "confidentiality";
	return NULL;
}

/* The first line that a shell command prints, or "". */
static const char *first_of(const char *command)
{
	static char line[512];
	FILE *out = popen(command, "r");

	line[0] = '\0';
	if (out) {
		if (!fgets(line, sizeof(line), out))
			line[0] = '\0';
		pclose(out);
	}
	line[strcspn(line, "\n")] = '\0';
	return line;
}

/*
 * Finds the certificate of the key that signs the modules.  pv-perf-host-kmod contains its
 * own certificate.  Otherwise dkms's configuration names the certificate.
 */
#define CERTIFICATE \
	"[ -e " HOST_KMOD " ] && mok_certificate=/usr/lib/pv-perf/kmod/certificate || { " \
	"mok_certificate=/var/lib/dkms/mok.pub; " \
	"for f in /etc/dkms/framework.conf /etc/dkms/framework.conf.d/*.conf; do " \
	"[ ! -e \"$f\" ] || . \"$f\"; done >/dev/null 2>&1; }; "

/*
 * /proc/keys shows the key identifier of a certificate, or its serial number if the
 * certificate has no identifier.  Without openssl or the certificate, search for the names
 * that Debian and Ubuntu give dkms's keys.
 */
static bool key_is_trusted(void)
{
	const char *id = first_of(
		CERTIFICATE
		"for form in DER PEM; do openssl x509 -inform $form -noout -serial "
		"-ext subjectKeyIdentifier -in \"$mok_certificate\" 2>/dev/null; done | "
		"sed -n '/^serial=/{s///;h};/:..:/{s/[ :]//g;h};${x;p}' | tr A-F a-f");

	if (id[0])
		return has_text("/proc/keys", id);
	if (exists(HOST_KMOD))
		return false;
	return has_text("/proc/keys", "DKMS module signing key") ||
	       has_text("/proc/keys", "Secure Boot Module Signature key");
}

static bool signatures_ok(void)
{
	const char *why = locked_down();

	if (!why && !is_yes(MODULE "module/parameters/sig_enforce"))
		return true;
	return key_is_trusted();
}

/* If the modules of pv-perf-host-kmod are signed, the package contains the certificate. */
static void advise_kmod_key(const char *state)
{
	const char *certificate = "/usr/lib/pv-perf/kmod/certificate";

	advise("The kernel loads only modules with a trusted signature (%s%s).",
	       state ? "lockdown: " : "module.sig_enforce", state ? : "");
	if (exists(certificate))
		advise("Have the firmware trust the key of the modules, once:\n"
		       " 1. mokutil --import %s    # asks for a new password\n"
		       "    (If the file is PEM, convert it first: openssl x509 -outform DER)\n"
		       " 2. Reboot. In the blue screen, choose Enroll MOK and give the password.\n"
		       " 3. %s update", certificate, HOST_KMOD);
	else
		advise("The modules of pv-perf-host-kmod are not signed: build the package with\n"
		       "make kmod-deb KMOD_KEY=FILE KMOD_CERT=FILE");
}

static bool check_signatures(void)
{
	const char *state = locked_down();
	char certificate[256];

	if (check("signatures", signatures_ok(), "the kernel loads modules that %s has signed",
		  exists(HOST_KMOD) ? "the maker of pv-perf-host-kmod" : "dkms"))
		return true;

	if (exists(HOST_KMOD)) {
		advise_kmod_key(state);
		return false;
	}
	snprintf(certificate, sizeof(certificate), "%.255s",
		 first_of(CERTIFICATE "echo $mok_certificate"));

	advise("The kernel loads only modules with a trusted signature (%s%s).\n"
	       "dkms signs with its own key. Have the firmware trust this key, once:\n"
	       " 1. apt install dkms openssl mokutil",
	       state ? "lockdown: " : "module.sig_enforce", state ? : "");
	if (!exists(certificate))
		advise("    openssl req -new -x509 -nodes -days 36500 -newkey rsa:2048 \\\n"
		       "        -subj '/CN=DKMS module signing key' -outform DER \\\n"
		       "        -keyout /var/lib/dkms/mok.key -out /var/lib/dkms/mok.pub");
	advise(" 2. mokutil --import %s    # asks for a new password\n"
	       " 3. Reboot. In the blue screen, choose Enroll MOK and give the password.\n"
	       " 4. Run this again.\n"
	       "If the firmware trusts a key of your organisation, have dkms sign with that key:\n"
	       "set mok_signing_key and mok_certificate in /etc/dkms/framework.conf.\n"
	       "Without Secure Boot: remove lockdown= or module.sig_enforce from the\n"
	       "kernel's command line.", certificate);
	return false;
}

/* Prints the processes that have a VM; returns their number. */
static unsigned int list_vms(void)
{
	char path[512], target[64];
	unsigned int i, n = 0, last = 0, pid;
	glob_t fds;

	if (glob("/proc/[0-9]*/fd/*", 0, NULL, &fds))
		return 0;
	for (i = 0; i < fds.gl_pathc; i++) {
		ssize_t len = readlink(fds.gl_pathv[i], target, sizeof(target) - 1);

		target[len < 0 ? 0 : len] = '\0';
		if (strcmp(target, "anon_inode:kvm-vm"))
			continue;
		pid = atoi(fds.gl_pathv[i] + strlen("/proc/"));
		if (pid == last)
			continue;
		last = pid;
		snprintf(path, sizeof(path), "/proc/%u/comm", pid);
		advise("    process %u (%s)", pid, first_line(path));
		n++;
	}
	globfree(&fds);
	return n;
}

/* While a VM exists, KVM's modules cannot be unloaded. */
static bool check_no_vms(void)
{
	long users = atol(first_line(MODULE "kvm_amd/refcnt")) +
		     atol(first_line(MODULE "kvm_intel/refcnt"));

	if (check("no-vms", !users, "no VM runs, so KVM can be exchanged"))
		return true;
	advise("Shut down these VMs first, or move them to another host:");
	if (!list_vms())
		advise("    Only root can see their processes: run this as root");
	return false;
}

/*
 * The host
 */

static const char *vendor_module(void)
{
	return is_amd() ? "kvm_amd" : "kvm_intel";
}

/* Has the CPU several kinds of cores?  (Intel SDM volume 2A, CPUID, leaf 07H) */
static bool is_hybrid(void)
{
	return is_intel() && cpuid(0, 'a') >= 7 && cpuid(7, 'd') & (1U << 15);
}

static bool check_cpu(void)
{
	bool virt = is_amd() ? cpuid(0x80000001, 'c') & (1U << 2) :
			       cpuid(1, 'c') & (1U << 5);
	bool splits = is_amd() ? cpuid(0x80000001, 'c') & (1U << 23) :
				 is_intel() && (cpuid(0xa, 'a') & 0xff) >= 2;

	if (!check("cpu-virtualization", virt, "the CPU has %s", is_amd() ? "SVM" : "VMX"))
		advise("Turn virtualization on in the firmware; in a VM, have its host do so.");
	if (!check("cpu-pmu", splits, "the CPU's PMU can count guests alone (%s)", is_amd() ?
		   "PERFCTR_CORE" : "Intel's architectural PMU, version 2"))
		advise("Hosts without this PMU are not supported. If this is a VM, give it a PMU.");
	return virt && splits;
}

/*
 * On a hybrid host, perf's event "instructions" of a task counts on performance cores
 * alone.
 */
static long count_on_host(void)
{
	cpu_set_t before, core;
	long count;
	int cpu = -1;

	if (is_hybrid())
		cpu = atoi(first_line("/sys/bus/event_source/devices/cpu_core/cpus"));
	if (cpu < 0 || sched_getaffinity(0, sizeof(before), &before))
		return count_instructions();

	CPU_ZERO(&core);
	CPU_SET(cpu, &core);
	sched_setaffinity(0, sizeof(core), &core);
	count = count_instructions();
	sched_setaffinity(0, sizeof(before), &before);
	return count;
}

static bool check_host_counts(void)
{
	long count = count_on_host();

	if (check("host-counts", count >= 2000000, "perf counts instructions here, on the host"))
		return true;
	if (!is_denied(count))
		advise("%s. The pair counts with the host's own perf, which has to\n"
		       "work first. Does the host have a PMU (dmesg | grep -i pmu)? Does another\n"
		       "program, or a VM with the mediated virtual PMU, use the PMU?",
		       count < 0 ? strerror(-count) : "perf counts nothing");
	return false;
}

static bool check_mediated(void)
{
	bool on = is_yes(MODULE "kvm_amd/parameters/enable_mediated_pmu") ||
		  is_yes(MODULE "kvm_intel/parameters/enable_mediated_pmu");

	if (check("no-mediated-pmu", !on, "no VM may take the whole PMU (mediated virtual PMU)"))
		return true;
	advise("With the mediated virtual PMU, the pair works in no VM. Load %s with\n"
	       "enable_mediated_pmu=0.", vendor_module());
	return false;
}

/* Prints the reason for which DKMS cannot build the modules, from the package's script. */
static void advise_source(void)
{
	char command[512], line[512];
	FILE *out;

	snprintf(command, sizeof(command),
		 "for s in /usr/src/pv-perf-host-*/host/find-source; do "
		 "[ ! -e $s ] || $s %s 2>&1 >/dev/null; done", kernel.release);
	out = popen(command, "r");
	while (out && fgets(line, sizeof(line), out)) {
		line[strcspn(line, "\n")] = '\0';
		advise("%s", line);
	}
	if (out)
		pclose(out);
}

#define STATE	"/var/lib/pv-perf-host/"

/* The version of the running kernel's package, or "". */
static const char *kernel_version(void)
{
	const char *debian = strstr(kernel.version, "Debian ");
	static char version[128];
	char command[512];

	if (debian && sscanf(debian, "Debian %127s", version) == 1)
		return version;
	snprintf(command, sizeof(command),
		 "for s in /usr/src/pv-perf-host-*/host/kernel-version; do "
		 "[ ! -e $s ] || $s %s; done", kernel.release);
	snprintf(version, sizeof(version), "%.127s", first_of(command));
	return version;
}

/*
 * Several versions of the kernel's package can have the same release.  If KVM's modules with
 * the pair are built from an older version, they lack the newer version's fixes of KVM.
 */
static bool check_host_source(void)
{
	char path[512], made_from[128] = "";
	const char *state, *version;

	snprintf(path, sizeof(path), STATE "%s", kernel.release);
	state = first_line(path);
	if (!strncmp(state, "stock ", 6)) {
		if (!exists(MODULE "kvm/parameters/pv_perf"))
			return true;
		check("modules-installed", false,
		      "the loaded modules of KVM are the installed modules");
		advise("The pair's modules were removed: %s\n"
		       "With no VM running: modprobe -r %s kvm && modprobe %s\n"
		       "or reboot.", state + 6, vendor_module(), vendor_module());
		return false;
	}
	if (sscanf(state, "kernel %127s", made_from) != 1)
		return true;

	version = kernel_version();
	if (check("modules-source", !version[0] || !strcmp(version, made_from),
		  "KVM's modules are built from the source of this kernel"))
		return true;
	advise("The modules are built from %s, and the kernel is %s:\n"
	       "they may lack fixes of this kernel's KVM. If a newer kernel is installed, reboot\n"
	       "into that kernel. Otherwise run %s update, and reboot.",
	       made_from, version, exists(HOST_KMOD) ? HOST_KMOD :
	       "/usr/lib/pv-perf/host-modules");
	return false;
}

static bool check_host_module(void)
{
	const char *vendor = vendor_module();

	if (!check("kvm-loaded", exists(MODULE "kvm"), "KVM is loaded")) {
		advise("modprobe %s", vendor);
		return false;
	}
	if (check("kvm-pair", exists(MODULE "kvm/parameters/pv_perf"),
		  "the loaded KVM is the pair's"))
		return true;

	if (is_installed("kvm")) {
		advise("The pair's KVM is installed, but not loaded. With no VM running:\n"
		       "    modprobe -r %s kvm && modprobe %s\n"
		       "or reboot.", vendor, vendor);
		check_no_vms();
	} else if (exists(HOST_KMOD)) {
		char path[512];

		snprintf(path, sizeof(path), STATE "%s", kernel.release);
		advise("pv-perf-host-kmod is installed, but not for this kernel:\n"
		       "%s\n"
		       "Get or build a package for it: make kmod-deb KERNELS=%s",
		       !strncmp(first_line(path), "stock ", 6) ? first_line(path) + 6 :
		       "the package has not been configured", kernel.release);
	} else if (exists("/usr/share/doc/pv-perf-host-dkms")) {
		char path[512];

		snprintf(path, sizeof(path), STATE "%s", kernel.release);
		advise("pv-perf-host-dkms is installed, but not built for this kernel:");
		if (!strncmp(first_line(path), "stock ", 6))
			advise("%s", first_line(path) + 6);
		advise_source();
		advise("Then: dpkg-reconfigure pv-perf-host-dkms");
	} else {
		advise("Install the pair: apt install ./pv-perf-*.deb, or in the source tree:\n"
		       "make install");
	}
	return false;
}

/* The bits of a capability that a VMM may enable; 0 if KVM does not have the capability. */
static unsigned int kvm_allows(unsigned int capability)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), allows;

	if (kvm < 0)
		return 0;
	allows = ioctl(kvm, KVM_CHECK_EXTENSION, capability);
	close(kvm);
	return allows < 0 ? 0 : allows;
}

/* 0, 1, or -1 if /dev/kvm cannot be opened. */
static int kvm_offers_feature(void)
{
	struct {
		struct kvm_cpuid2 head;
		struct kvm_cpuid_entry2 entries[256];
	} cpuid = { .head.nent = 256 };
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), offers = 0;
	unsigned int i;

	if (kvm < 0)
		return -1;
	if (ioctl(kvm, KVM_GET_SUPPORTED_CPUID, &cpuid))
		cpuid.head.nent = 0;
	close(kvm);
	for (i = 0; i < cpuid.head.nent; i++) {
		if (cpuid.entries[i].function == KVM_CPUID_FEATURES)
			offers = cpuid.entries[i].eax >> KVM_FEATURE_PV_PERF & 1;
	}
	return offers;
}

static bool check_host_feature(void)
{
	int offers = kvm_offers_feature();

	if (offers < 0) {
		check("dev-kvm", false, "/dev/kvm can be opened");
		advise("%s. Run this as root, or as a member of the group kvm.",
		       strerror(errno));
		return false;
	}
	if (check("kvm-offers", offers, "KVM offers the feature to VMs"))
		return true;
	if (!is_yes(MODULE "kvm/parameters/pv_perf"))
		advise("kvm is loaded with pv_perf=0, its default. To offer the feature to all\n"
		       "VMs, with no VM running:\n"
		       "    echo options kvm pv_perf=1 >/etc/modprobe.d/pv-perf.conf\n"
		       "    modprobe -r %s kvm && modprobe %s\n"
		       "%s",
		       vendor_module(), vendor_module(),
		       kvm_allows(KVM_CAP_PV_PERF_EVENTS) ?
		       "With pv_perf=0, a VM has the feature only if its VMM asks for it: QEMU with the\n"
		       "pair's patches asks by -accel kvm,pv-perf-events=64." :
		       is_hybrid() ?
		       "On a hybrid CPU, KVM turns its virtual PMU off, so that no VMM may ask for the\n"
		       "feature without pv_perf=1, either." :
		       "kvm is loaded with enable_pmu=0, so that no VMM may ask for the feature, either.");
	else
		advise("KVM was loaded when the host had no PMU. With no VM running:\n"
		       "    modprobe -r %s kvm && modprobe %s",
		       vendor_module(), vendor_module());
	return false;
}

static void tell_host_rdpmc(void)
{
	if (is_yes(MODULE "kvm/parameters/pv_perf_rdpmc_default"))
		printf("\nGuests may read counters without VM exits, by RDPMC, unless their VMM refuses it.\n");
	else
		printf("\nFor guests to read counters without VM exits, by RDPMC, QEMU with the pair's\n"
		       "patches has: -accel kvm,pv-perf-rdpmc=on\n"
		       "For VMMs that cannot ask for it: kvm with pv_perf_rdpmc_default=1\n");
	if (!kvm_allows(KVM_CAP_PV_PERF_RDPMC)) {
		printf("Both need kvm with pv_perf_rdpmc=1. First read in Documentation/security.rst what\n"
		       "a guest learns of its host by RDPMC.\n");
		return;
	}
	/* Bit 2 of pv_perf_rdpmc lets guests see the watchdog's counter. */
	if (is_yes("/proc/sys/kernel/nmi_watchdog") &&
	    !(atoi(first_line(MODULE "kvm/parameters/pv_perf_rdpmc")) & 4))
		printf("While the NMI watchdog has a counter, guests cannot read by RDPMC. Turn the\n"
		       "watchdog off:\n"
		       "    sysctl kernel.nmi_watchdog=0\n"
		       "or let guests see the watchdog's counter: kvm with pv_perf_rdpmc=5.\n");
}

static void tell_host_counts(void)
{
	uint32_t kept = ALL_COUNTS & ~kvm_allows(KVM_CAP_PV_PERF_COUNTS);

	if (!exists(MODULE "kvm/parameters/pv_perf_counts")) {
		printf("\nGuests can count no events of the hypervisor (kvm/exits/), because this kvm is\n"
		       "an older version.\n");
		return;
	}

	if (!kept) {
		printf("\nGuests may count all events of the hypervisor (kvm/exits/), which tell how busy\n"
		       "this host is. To allow fewer events: kvm with pv_perf_counts=MASK; for one VM,\n"
		       "QEMU with the pair's patches has: -accel kvm,pv-perf-counts=MASK.\n"
		       "Documentation/abi.rst explains the bits of MASK.\n");
		return;
	}
	if (kept == ALL_COUNTS) {
		printf("\nGuests may count no events of the hypervisor (kvm/exits/).\n");
	} else {
		printf("\nGuests may count events of the hypervisor (kvm/exits/), but none of these:\n");
		list_counts(kept);
	}
	printf("kvm is loaded with pv_perf_counts=%#x; by default guests may count all events.\n",
	       ALL_COUNTS & ~kept);
}

static void tell_host_hybrid(void)
{
	if (is_hybrid())
		printf("\nThis CPU is hybrid: it has several kinds of cores. Guests count on all of them.\n"
		       "Raw events (perf stat -e rNNNN) are refused unless they are architectural, or\n"
		       "the guest's administrator names a kind: Documentation/guest-user.rst.\n");
}

/*
 * The installed report of pv-perf qualify
 */

#define QUALIFIED	"/etc/modprobe.d/pv-perf-qualified.conf"

/* The rest of the file's first line that begins with @prefix, or NULL. */
static const char *rest_of_line(const char *path, const char *prefix)
{
	static char line[512];
	size_t length = strlen(prefix);
	FILE *file = fopen(path, "r");
	bool found = false;

	if (!file)
		return NULL;
	while (!found && fgets(line, sizeof(line), file))
		found = !strncmp(line, prefix, length);
	fclose(file);
	line[strcspn(line, "\n")] = '\0';
	return found ? line + length : NULL;
}

static uint32_t number_of_line(const char *path, const char *prefix)
{
	const char *rest = rest_of_line(path, prefix);

	return rest ? strtoul(rest, NULL, 0) : 0;
}

static uint32_t microcode(void)
{
	return number_of_line("/proc/cpuinfo", "microcode\t: ");
}

/* The kernel compares the same numbers: pv_perf_branches_are_shown(). */
static bool is_qualified(void)
{
	return exists(QUALIFIED) &&
	       number_of_line(QUALIFIED, "# signature: ") == cpuid(1, 'a') &&
	       number_of_line(QUALIFIED, "# microcode: ") == microcode();
}

/* Only on a host whose administrator has installed a report. */
static void check_qualified(void)
{
	if (!exists(QUALIFIED) ||
	    check("qualified", is_qualified(), "the installed report of pv-perf qualify is of this CPU"))
		return;
	advise("The report is of a CPU with signature %#x and microcode %#x.",
	       number_of_line(QUALIFIED, "# signature: "),
	       number_of_line(QUALIFIED, "# microcode: "));
	advise("This CPU has %#x and %#x, so KVM does not turn on what the report allows.\n"
	       "With no VM running: pv-perf qualify && pv-perf qualify --install pv-perf-qualify.json\n"
	       "Or remove " QUALIFIED, cpuid(1, 'a'), microcode());
}

static void tell_host_qualified(void)
{
	if (is_qualified())
		printf("\nOn this CPU, pv-perf qualify has said: %s\n",
		       rest_of_line(QUALIFIED, "# result: ") ? : "nothing");
	else
		printf("\nThe pair has been tested only on emulated CPUs of AMD and Intel. pv-perf qualify\n"
		       "tests it on this CPU. Documentation/bringup.rst says what to verify.\n");
}

/* AMD APM volume 3, CPUID: leaf 8000_0022H, EAX bit 1. */
static void tell_host_branches(void)
{
	if (is_amd() && cpuid(0x80000000, 'a') >= 0x80000022 &&
	    cpuid(0x80000022, 'a') >> 1 & 1)
		printf("\nThis CPU records branches. Guests' samples %s (perf record -b): kvm is\n"
		       "loaded with%s pv_perf_branches=1. pv-perf qualify shows whether this CPU keeps\n"
		       "the host's addresses out of them: Documentation/qualify.rst.\n",
		       is_yes(MODULE "kvm/parameters/pv_perf_branches") ?
		       "have branches" : "have no branches",
		       is_yes(MODULE "kvm/parameters/pv_perf_branches") ?
		       "" : "out");
	else
		printf("\nGuests' samples have no branches (perf record -b): these need an AMD CPU from\n"
		       "Zen 4 on.\n");
}

static void check_host(bool can_install)
{
	bool good = check_host_source();

	good &= check_cpu() & check_host_counts();

	if (can_install) {
		check_signatures();
		check_no_vms();
		return;
	}
	if (!exists(MODULE "kvm/parameters/pv_perf"))
		good &= check_signatures();
	if (!check_host_module() || !check_mediated() || !check_host_feature())
		return;
	check_qualified();
	if (!good)
		return;

	printf("\nStart guests with the feature and without a virtual PMU, with QEMU:\n"
	       "    -cpu host,migratable=no,pmu=off\n");
	if (!is_amd())
		printf("If QEMU says that LBR is unsupported without pmu=on, add lbr-fmt=0.\n");
	if (is_amd() && is_yes(MODULE "kvm/parameters/enable_pmu"))
		printf("If pv-perf-doctor in the guest says that another PMU has perf's hardware events,\n"
		       "load kvm with enable_pmu=0: some versions of QEMU do not turn AMD's virtual PMU\n"
		       "off.\n");
	printf("Install pv-perf-guest-dkms in the guest, and run pv-perf-doctor there.\n");
	tell_host_rdpmc();
	tell_host_counts();
	tell_host_hybrid();
	tell_host_branches();
	tell_host_qualified();
}

/*
 * The guest
 */

/* The last line of the kernel's log that contains @text, from @text on, or NULL. */
static char *last_message(const char *text)
{
	int size = klogctl(10, NULL, 0);	/* SYSLOG_ACTION_SIZE_BUFFER */
	char *log = size > 0 ? calloc(1, size + 1) : NULL, *at, *last = NULL;

	/* SYSLOG_ACTION_READ_ALL */
	if (log && klogctl(3, log, size) > 0) {
		for (at = log; (at = strstr(at, text)); at++)
			last = at;
	}
	if (last)
		last = strndup(last, strcspn(last, "\n"));
	free(log);
	return last;
}

/* Prints the last message of the guest's module. */
static void advise_last_message(void)
{
	char *last = last_message("kvm_pmu: ");

	if (last)
		advise("The kernel's log says: %s", last);
	free(last);
}

static bool check_guest_module(void)
{
	if (check("driver-loaded", exists(MODULE "kvm_pmu"), "the module kvm_pmu is loaded"))
		return true;

	advise_last_message();
	if (is_installed("kvm_pmu"))
		advise("modprobe kvm_pmu");
	else if (exists("/usr/share/doc/pv-perf-guest-dkms"))
		advise("pv-perf-guest-dkms is installed, but not built for this kernel:\n"
		       "    apt install linux-headers-%s\n"
		       "    dkms autoinstall", kernel.release);
	else
		advise("Install it: apt install ./pv-perf-guest-dkms_*.deb ./pv-perf-doctor_*.deb,\n"
		       "or in the source tree: make install-guest");
	return false;
}

/* The guest's module registers as "cpu" only if no other PMU has this name. */
static bool check_guest_pmu(void)
{
	bool ours = !strcmp(first_line(PMU "cpu/caps/pmu_name"), "kvm_pmu");

	if (check("pmu", ours, "perf's hardware events are the pair's"))
		return true;
	advise("Another PMU has perf's hardware events: the VM has a virtual PMU. Start the VM\n"
	       "without a virtual PMU, with QEMU: -cpu host,migratable=no,pmu=off\n"
	       "If QEMU has pmu=off already, the host's CPU is AMD's, and this QEMU does not\n"
	       "turn AMD's virtual PMU off: load kvm with enable_pmu=0 on the host.");
	if (exists(PMU "kvm_pmu"))
		advise("Until then, name the pair's PMU: perf stat -e kvm_pmu/instructions/");
	return false;
}

static bool check_guest_counts(void)
{
	long count = count_instructions();

	if (check("counts", count >= 2000000, "perf counts instructions"))
		return true;
	if (!is_denied(count)) {
		advise("%s.", count < 0 ? strerror(-count) : "perf counts nothing");
		advise_last_message();
		advise("Run pv-perf-doctor on the host. Pinned events of the host's CPUs, or a VM with\n"
		       "the mediated virtual PMU, may use the host's PMU.");
	}
	return false;
}

/* RDPMC and branches are optional: a guest without them passes. */
static void tell_guest_rdpmc(void)
{
	const char *reads = first_line(PMU "cpu/caps/reads");

	if (!strcmp(reads, "kernel user"))
		printf("\nThe kernel and programs read counters without VM exits, by RDPMC.\n");
	else if (!strcmp(reads, "kernel"))
		printf("\nThe kernel reads counters by RDPMC, but programs cannot: %s.\n",
		       locked_down() ? "the module finds no functions of a kernel that is locked down" :
		       "the host or the module is an older version, or kprobes cannot be used");
	else if (reads[0])
		printf("\nEach read of a counter asks the host%s.\n"
		       "To read without VM exits, by RDPMC, run pv-perf-doctor on the host.\n",
		       reads + strlen("none"));
}

static void tell_guest_hybrid(void)
{
	if (atoi(first_line(PMU "cpu/caps/hybrid")))
		printf("\nThe host's CPU is hybrid: it has several kinds of cores. Raw events (perf stat\n"
		       "-e rNNNN) count architectural events, or events of the kind of cores that\n"
		       PMU "cpu/core_type names: %s (0: none).\n",
		       first_line(PMU "cpu/core_type"));
}

static void tell_guest_branches(void)
{
	const char *branches = first_line(PMU "cpu/caps/branches");

	if (branches[0])
		printf("\nSamples have up to %s branches (perf record -b).\n", branches);
	else
		printf("\nSamples have no branches (perf record -b). pv-perf-doctor on the host says why.\n"
		       "In a kernel that is locked down, the module does not find the functions that\n"
		       "branches need.\n");
}

static bool check_guest_samples(void)
{
	long samples = take_samples();

	if (check("samples", samples > 0, "perf takes samples"))
		return true;
	if (samples == -EOPNOTSUPP)
		advise("The module can only count: for samples it has to find a function of the\n"
		       "kernel by a kprobe. %s.", locked_down() ?
		       "Lockdown may forbid kprobes: use lockdown=integrity" :
		       "Use a kernel with CONFIG_KPROBES");
	else if (!is_denied(samples))
		advise("%s.", samples < 0 ? strerror(-samples) : "perf took no sample");
	return false;
}

static bool has_event(const char *pmu, const char *event)
{
	char path[128];

	snprintf(path, sizeof(path), PMU "%s/events/%s", pmu, event);
	return exists(path);
}

/* The mask of the hypervisor's events that a PMU has; 0 if @pmu is NULL. */
static uint32_t counts_of(const char *pmu)
{
	uint32_t has = 0;
	unsigned int i;

	for (i = 0; pmu && i < KVM_PERF_NR_COUNTS; i++) {
		if (has_event(pmu, counts[i]))
			has |= 1U << i;
	}
	return has;
}

/*
 * The PMU with the hypervisor's events, or NULL.  If another PMU is named kvm, the guest's
 * module uses the name kvm_hypervisor.
 */
static const char *counts_pmu(void)
{
	return counts_of("kvm_hypervisor") ? "kvm_hypervisor" :
	       counts_of("kvm") ? "kvm" : NULL;
}

/* The number of VM exits that perf counts for EXITS CPUID instructions, or -errno. */
static long count_exits(const char *pmu, const char *event)
{
	uint64_t type, config;
	unsigned int leaf;
	char path[128];
	int i, fd;

	snprintf(path, sizeof(path), PMU "%s/type", pmu);
	type = strtoul(first_line(path), NULL, 10);
	snprintf(path, sizeof(path), PMU "%s/events/%s", pmu, event);
	if (sscanf(first_line(path), "event=%" SCNx64, &config) != 1)
		return -EINVAL;

	fd = open_event(type, config, 0);
	if (fd < 0)
		return -errno;
	for (i = 0; i < EXITS; i++) {
		leaf = 0;
		asm volatile("cpuid" : "+a" (leaf) : : "ebx", "ecx", "edx");
	}
	return read_and_close(fd);
}

/* The host may offer no events of the hypervisor, or only some: tell_guest_hypervisor(). */
static bool check_guest_hypervisor(void)
{
	const char *pmu = counts_pmu(), *event = "exits";
	char *message;
	long count;

	if (!pmu) {
		message = last_message("kvm_pmu: no events of the hypervisor");
		if (!message)
			return true;
		check("hypervisor-events", false, "perf has events of the hypervisor");
		advise("The kernel's log says: %s\n"
		       "If the error is -17, other PMUs have the names kvm and kvm_hypervisor: see\n"
		       PMU ". Unload one of these PMUs, then:\n"
		       "    modprobe -r kvm_pmu && modprobe kvm_pmu", message);
		free(message);
		return false;
	}

	if (!has_event(pmu, event))
		event = counts[KVM_PERF_COUNT_EXITS_CPUID];
	/* The doctor cannot cause the other events. */
	if (!has_event(pmu, event))
		return true;

	count = count_exits(pmu, event);
	if (check("hypervisor-counts", count >= EXITS, "perf counts events of the hypervisor (%s/%s/)",
		  pmu, event))
		return true;
	if (!is_denied(count)) {
		advise("%s.", count < 0 ? strerror(-count) : "perf does not count all VM exits");
		advise_last_message();
		advise("If the VM has migrated: does this host let guests count the events?\n"
		       "On the host: pv-perf-doctor host");
	}
	return false;
}

/* These events are optional: a guest without them passes. */
static void tell_guest_hypervisor(void)
{
	const char *pmu = counts_pmu();
	uint32_t kept = ALL_COUNTS & ~counts_of(pmu);

	if (!pmu) {
		printf("\nThere are no events of the hypervisor (kvm/exits/): the host or the VMM does not\n"
		       "allow them, or the host or the module is an older version. pv-perf-doctor on the\n"
		       "host says how to get them.\n");
		return;
	}
	if (strcmp(pmu, "kvm"))
		printf("\nAnother PMU is named kvm: the hypervisor's events are %s/exits/ etc.\n",
		       pmu);
	if (kept) {
		printf("\nThe host or the VMM does not allow these events of the hypervisor:\n");
		list_counts(kept);
		printf("pv-perf-doctor on the host says how to get them.\n");
	}
}

static void check_guest(bool can_install)
{
	uint32_t base = kvm_base();
	bool samples, hypervisor;

	if (!check("kvm-guest", base, "this is a guest of KVM")) {
		advise("The pair needs KVM. To check it as a host: pv-perf-doctor host");
		return;
	}
	if (!check("host-offers", cpuid(base | KVM_CPUID_FEATURES, 'a') >> KVM_FEATURE_PV_PERF & 1,
		   "the host offers the feature to this guest")) {
		advise("On the host: run pv-perf-doctor. Then start the VM with the feature,\n"
		       "with QEMU: -cpu host,migratable=no,pmu=off");
		return;
	}
	if (!exists(MODULE "kvm_pmu") && !check_signatures())
		return;
	if (can_install)
		return;
	if (!check_guest_module() || !check_guest_pmu() || !check_guest_counts())
		return;

	samples = check_guest_samples();
	hypervisor = check_guest_hypervisor();
	if (samples) {
		tell_guest_rdpmc();
		tell_guest_hybrid();
		tell_guest_branches();
	}
	if (hypervisor)
		tell_guest_hypervisor();
}

/* The caller then prints nothing but the JSON object.  The order of the checks is free. */
static bool begin_json(void)
{
	json = fdopen(dup(STDOUT_FILENO), "w");
	if (!json || !freopen("/dev/null", "w", stdout)) {
		perror("pv-perf-doctor");
		return false;
	}
	fputs("{\"version\": 1, \"program\": ", json);
	json_string(VERSION);
	fputs(", \"kernel\": ", json);
	json_string(kernel.release);
	fputs(", \"checks\": [", json);
	return true;
}

static bool end_json(void)
{
	fprintf(json, "%s\n], \"ok\": %s}\n", json_checks ? "]}" : "", failed ? "false" : "true");
	return !fclose(json);
}

static void usage(void)
{
	printf("pv-perf-doctor [--json|--can-install|--signatures|--no-vms] [host|guest]\n\n"
	       "Says whether paravirtual perf events work on this machine, and if not,\n"
	       "what to do. If they work, the exit status is 0. Without host or guest, the doctor\n"
	       "finds out what this machine is. A guest with the pair's KVM is both.\n\n"
	       "--json         print the checks as one JSON object\n"
	       "--can-install  check only whether the modules can be installed here\n"
	       "--signatures   check only whether the kernel loads modules signed by dkms\n"
	       "--no-vms       check only that no VM runs, so that KVM can be exchanged\n"
	       "--version      print the version of this program\n");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "can-install", no_argument, NULL, 'c' },
		{ "signatures", no_argument, NULL, 's' },
		{ "no-vms", no_argument, NULL, 'n' },
		{ "version", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	bool can_install = false, as_json = false, guest, host;
	int option;

	uname(&kernel);
	guest = kvm_base();
	host = !guest || exists(MODULE "kvm/parameters/pv_perf");
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'j':
			as_json = true;
			break;
		case 'c':
			can_install = true;
			break;
		case 's':
			return !signatures_ok() && !check_signatures();
		case 'n':
			return !check_no_vms();
		case 'v':
			printf("pv-perf-doctor %s\n", VERSION);
			return 0;
		default:
			usage();
			return option == 'h' ? 0 : 2;
		}
	}
	if (optind < argc) {
		guest = !strcmp(argv[optind], "guest");
		host = !strcmp(argv[optind], "host");
		if (guest == host) {
			usage();
			return 2;
		}
	}

	if (as_json && !begin_json())
		return 2;
	printf("Linux %s, %s\n", kernel.release, is_amd() ? "AMD" :
	       is_intel() ? "Intel" : "a CPU that is neither AMD's nor Intel's");
	if (guest) {
		printf("As a guest:\n");
		role = "guest";
		check_guest(can_install);
	}
	if (host) {
		printf("As a host:\n");
		role = "host";
		check_host(can_install);
	}
	if (as_json && !end_json())
		return 2;
	return failed;
}
