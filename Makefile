# SPDX-License-Identifier: GPL-2.0
#
# `make help` lists the targets. All downloads and results of builds are in build/.

# The kernel line that host and guest run, and all lines that the host side supports.
LINE ?= 6.1
LINES := $(patsubst host/hooks/linux-%,%,$(wildcard host/hooks/linux-*))
# Guests may also run this line, which Debian serves.
GUEST_LINES := $(LINES) 7.2

# A kernel of this line that is built here instead of Debian's: debug.
KERNEL ?=
# The guests' kernel if it is not the host's, e.g. 6.1 on a host that runs 6.1-debug.
GUEST_KERNEL ?=

# If LONG is not empty, tests also run their long parts.
LONG ?=
export VM_LONG := $(LONG)

export VM_KERNEL := $(LINE)$(KERNEL:%=-%)
export VM_GUEST_KERNEL := $(GUEST_KERNEL)

# depmod and other tools are in these folders, which are not in every user's PATH.
export PATH := $(PATH):/usr/sbin:/sbin

B := build
K := $(B)/linux-$(VM_KERNEL)
G := $(B)/linux-$(or $(GUEST_KERNEL),$(VM_KERNEL))
stage := selftests/machine/stage
vm := selftests/vm

qemu := $(B)/qemu/qemu-system-x86_64
bochs := $(B)/bochs/bochs
# The emulated machines: QEMU, and Bochs for an Intel CPU.
machine := $(qemu) $(if $(filter intel hybrid,$(VM_CPU)),$(bochs))
modules := $(addsuffix /modules.built,$(sort $K $G))
initrd := $(addsuffix /initrd,$(sort $K $G))
doctor := $(B)/pv-perf-doctor
debian := $(B)/linux-6.1/debian.built
# Tests wait longer on a debug kernel, because its checks slow it down.
ifdef KERNEL
export VM_PATIENCE := 10
endif

# How long `make fuzz` runs, in seconds.
FUZZ_S ?= 60

# The file that `make run` compresses.
sample := $(B)/tests/sample

help:
	@echo 'make run            perf stat, record and top in a guest (10 minutes the first time, then 1)'
	@echo 'make shell          a shell in a guest with the pair loaded'
	@echo
	@echo 'make test           the tests for one AMD machine and one kernel line (20 minutes); installs'
	@echo '                    packages. TESTS="stat record" runs only these tests: selftests/README'
	@echo 'make test-quick     the tests that need no emulated machine (5 minutes); installs nothing'
	@echo 'make test-all       all tests of AMD machines, and the shortest of the Intel machine (1 hour).'
	@echo '                    LONG=1: tests also run slow parts, which rarely find a fault (+50 min)'
	@echo 'make test-intel     all tests that run on the emulated Intel machine (2 hours)'
	@echo 'make matrix         every kernel line as host with every line as guest (20 minutes)'
	@echo 'make check          checkpatch, W=1 and sparse on all C (1 minute)'
	@echo 'make fuzz           random hypercalls for the host side, and random work of perf for the guest'\''s'
	@echo '                    driver, in user space; FUZZ_S=600: 10 minutes each'
	@echo
	@echo 'make bench          the cost of profiling: native, KVM'\''s virtual PMUs and the pair (20 minutes;'
	@echo '                    installs nginx, matplotlib); writes build/bench.json, build/bench.svg'
	@echo 'make nginx-exits    the VM exits of nginx, by function of the guest (3 minutes)'
	@echo 'make two-guests     one flame graph of a host and two guests, nginx and PostgreSQL (10 minutes)'
	@echo 'make bolt           BOLT optimises a program by its samples in a guest (2 minutes; installs'
	@echo '                    bolt-19, valgrind)'
	@echo 'make results        record the results of tests and bench, and make the documents'\'' tables'
	@echo 'make docs           the documents as HTML, in build/docs/html (installs python3-sphinx)'
	@echo
	@echo 'make install        on a host: build KVM'\''s modules with the host side as a DKMS package, and'
	@echo '                    load them'
	@echo 'make install-guest  in a guest: the same for the driver'
	@echo 'make uninstall      remove the packages, and load the stock modules'
	@echo 'make doctor         say whether the pair works on this machine, and if not, what to do'
	@echo 'make qualify        on a host without VMs: check whether the pair works on this CPU. Loads'
	@echo '                    modules for some minutes, installs nothing (10 minutes)'
	@echo 'make deb            make the packages, in build/deb'
	@echo 'make kmod-deb       a package of built modules for hosts without a compiler;'
	@echo '                    KERNELS="RELEASE...", KMOD_KEY=FILE KMOD_CERT=FILE to sign them'
	@echo
	@echo 'make series         write the patches for mainline Linux and QEMU, in build/series'
	@echo 'make series-check   build each patch and a kernel with all patches, boot that kernel, and run KVM'\''s'
	@echo '                    tests on it (an hour)'
	@echo
	@echo 'make qemu           build the emulated AMD machine (5 minutes)'
	@echo 'make bochs          build the emulated Intel machine (10 minutes)'
	@echo 'make kernel         fetch and unpack the kernel (1 minute)'
	@echo 'make modules        build the modules of host and guest (1 minute)'
	@echo 'make clean          remove what was built, keep the downloads'
	@echo 'make distclean      remove build/'
	@echo
	@echo 'LINE=6.12           the kernel line; 6.1 without it'
	@echo 'KERNEL=debug        a kernel with KASAN, lockdep and more for host and guest (15 minutes to'
	@echo '                    build); with GUEST_KERNEL=6.1 for the host only'
	@echo 'VM_CPU=intel        with run, bench or shell: the machine with an Intel CPU'
	@echo 'VM_CPU=zen4         the machine with virtual NMIs and records of branches, with LINE=6.12'
	@echo 'Documentation/paravirt-perf.txt is the entry to the documents.'

run: machine $(sample)
	@selftests/show $(CURDIR)/$(sample)

# Each test names the targets that it needs, and the runner makes them by this Makefile:
# selftests/README.
run_tests = selftests/run $(if $(CONTINUE),--continue) $(or $(strip $(TESTS)),--tier $1)

test-quick:
	@NO_INSTALL=1 $(call run_tests,quick)

test:
	@$(call run_tests,test)

test-all:
	@$(call run_tests,all)

test-intel:
	@VM_CPU=intel $(call run_tests,intel)

# The targets that tests name in `needs:`, apart from files of build/.
machine: $(machine) $(modules) $(initrd)
memory-initrd: $(G)/memory-initrd
agent-initrd: $(G)/agent-initrd
debian: $(debian)
newer-perf: $(B)/perf/perf-7

# Installs packages, or groups of packages, which begin with "@".
install = selftests/machine/install-packages $1 >/dev/null 2>&1 || \
	$(stage) packages 'installing packages: $1' \
		selftests/machine/install-packages $1

bench: machine $(B)/tests/workload
	@$(call install,nginx-light wrk python3-matplotlib)
	@selftests/bench/bench

nginx-exits: machine
	@$(call install,nginx-light wrk)
	@selftests/bench/nginx-exits

two-guests: machine agent-initrd
	@$(call install,nginx-light wrk postgresql chromium)
	@selftests/bench/two-guests

bolt: machine
	@$(call install,bolt-19 valgrind)
	@selftests/bench/bolt

# Every kernel line as host with every line as guest.
matrix: $(qemu) $(addprefix $(B)/tests/,hypercall_test loop)
	@selftests/matrix $(foreach h,$(LINES),$(foreach g,$(GUEST_LINES),$h/$g))

shell: machine
	@$(vm) guest -i

# An input that makes a fuzzer fail is kept in the corpus, which the tests run.
fuzz: $(B)/tests/fuzz_host $(B)/tests/fuzz_kinds $(B)/tests/fuzz_guest
	@mkdir -p $(addprefix $(B)/tests/corpus,'' -kinds -guest)
	@LLVM_PROFILE_FILE=/dev/null $< -max_total_time=$(FUZZ_S) -max_len=2048 \
		-timeout=10 -print_final_stats=1 \
		-artifact_prefix=selftests/user/corpus/ \
		$(B)/tests/corpus selftests/user/corpus
	@LLVM_PROFILE_FILE=/dev/null $(B)/tests/fuzz_kinds -max_total_time=$(FUZZ_S) \
		-max_len=500 -len_control=0 -timeout=10 -print_final_stats=1 \
		-artifact_prefix=$(B)/tests/ $(B)/tests/corpus-kinds
	@LLVM_PROFILE_FILE=/dev/null $(B)/tests/fuzz_guest -max_total_time=$(FUZZ_S) \
		-max_len=600 -len_control=0 -timeout=25 -print_final_stats=1 \
		-artifact_prefix=selftests/user/guest/corpus/ \
		$(B)/tests/corpus-guest selftests/user/guest/corpus

qemu: $(qemu)
bochs: $(bochs)
kernel: $(K)/release
modules: $(modules)

# For a real machine: these targets install only the packages that they need.  The version
# is the date of the last commit, or the time if files differ from it.
version := $(shell git diff-index --quiet HEAD -- 2>/dev/null && \
	git log -1 --format=%cd --date=format:%Y%m%d.%H%M%S || date +%Y%m%d.%H%M%S)

deb: $(doctor)
	@$(call install,build-essential debhelper dh-dkms)
	@$(stage) deb 'making the packages' tools/build-deb $(version)
	@ls $(B)/deb/*.deb

# The releases of the kernels to build modules for: their headers and source are installed.
KERNELS ?= $(shell uname -r)
export KMOD_KEY KMOD_CERT
kmod-deb: deb
	@$(call install,build-essential patch xz-utils)
	@$(stage) kmod-deb 'building the modules for $(KERNELS) (1 minute each)' \
		tools/build-kmod $(version) $(KERNELS)
	@ls $(B)/deb/pv-perf-host-kmod_*.deb

install: deb
	@tools/install host

install-guest: deb
	@tools/install guest

uninstall: $(doctor)
	@tools/install remove

doctor: $(doctor)
	@$(doctor)

# qualify asks before it starts, and names missing packages.
qualify: $(doctor)
	@tools/pv-perf qualify

$(doctor): tools/pv-perf-doctor.c abi/kvm_perf.h
	@$(call install,gcc libc6-dev)
	@mkdir -p $(@D)
	@$(CC) -O2 -Wall -Wextra -Iabi -o $@ $<

check: $(K)/release
	@selftests/check $(LINE)

docs: build/linux-6.1/release
	@$(call install,python3-sphinx)
	@selftests/docs
	@echo $(B)/docs/html/paravirt-perf.html

results:
	@selftests/results

# The patches for mainline, against the newest sources that Debian has.
newest := $(lastword $(sort $(LINES)))
series: $(B)/linux-$(newest)/release $(qemu)
	@$(call install,unifdef)
	@$(stage) series-kernel 'writing the patches for Linux, in $(B)/series/kernel' \
		series/write-kernel $(B)/linux-$(newest)/source $(B)/series/kernel
	@$(stage) series-qemu 'writing the patches for QEMU, in $(B)/series/qemu' \
		sh -c 'series/write-qemu $$(series/fetch-qemu) $(B)/series/qemu'

# A kernel with all series, and a kernel with the first two only.
with_series := $(B)/linux-$(newest)-series
with_core := $(B)/linux-$(newest)-core
$(with_core)/release: last = 2-guest
$(with_series)/release $(with_core)/release: $(B)/linux-$(newest)-%/release: \
		$(B)/linux-$(newest)/release selftests/machine/build-kernel \
		$(addprefix selftests/machine/config/,base.config series.config) \
		$(wildcard host/*.[ch] host/Makefile.pv_perf host/hooks/linux-$(newest)/*.patch \
			abi/*.h Documentation/abi.rst guest/*.[ch] series/write-kernel \
			series/fill-cover $(addprefix series/kernel/*/*/,* tree/*/*))
	@$(call install,unifdef libelf-dev)
	@$(stage) series-$* 'writing the patches for Linux, in $(B)/series/$*' \
		series/write-kernel $(B)/linux-$(newest)/source $(B)/series/$* $(last)
	@$(stage) kernel-$(newest)-$* 'building Linux with them (10 minutes)' \
		selftests/machine/build-kernel $(newest) $* $(B)/series/$*.tree
	@touch $@

# Checks that each patch builds, that KVM's own tests give the same results with the
# patches and without, and that both kernels work as host and guest.
series-check: series $(B)/linux-$(newest)/initrd $(B)/linux-$(newest)/modules.built \
		$(addprefix $(with_series)/,initrd modules.built) \
		$(addprefix $(with_core)/,initrd modules.built) \
		$(addprefix $(B)/tests/,hypercall_test loop)
	@$(call install,uuid-dev libelf-dev)
	@$(stage) series-build 'building each patch (5 minutes)' series/build-kernel \
		$(B)/linux-$(newest)/source $(B)/series/kernel x86_64 i386
	@series/compare-selftests $(B)/series/kernel $(newest)
	@selftests/matrix $(newest)-series/$(newest)-series
	@VM_KERNEL=$(newest)-series selftests/run kexec took
	@VM_KERNEL=$(newest)-core selftests/run stat record hypercall hostile limits

# Checked by every make: if no package is missing, the check is quick.
groups := $(addprefix packages-,build user qemu bochs machine)
$(groups): packages-%:
	@$(call install,@$*)

$(qemu): $(wildcard selftests/machine/qemu/*.patch) selftests/machine/build-qemu | packages-build packages-qemu
	@$(stage) qemu 'building QEMU, the emulated machine (5 minutes)' \
		selftests/machine/build-qemu

# The build of Bochs also makes the server of the machine's files.
$(bochs): $(wildcard selftests/machine/bochs/*.patch) \
		selftests/machine/bochs/boot.S selftests/machine/build-bochs | packages-build packages-bochs
	@$(stage) bochs 'building Bochs, the emulated machine with an Intel CPU (10 minutes)' \
		selftests/machine/build-bochs

$(B)/linux-%/release: selftests/machine/fetch-kernel | packages-build
	@$(stage) kernel-$* 'fetching Linux $*, image and source (1 minute)' \
		selftests/machine/fetch-kernel $*
	@touch $@

$(debian): selftests/machine/build-debian $(B)/linux-6.1/release
	@$(call install,mmdebstrap)
	@$(stage) debian 'making a Debian to install on (1 minute)' \
		selftests/machine/build-debian
	@touch $@

$(B)/clients: selftests/machine/fetch-clients
	@$(stage) clients 'fetching programs that use counters (1 minute)' \
		selftests/machine/fetch-clients
	@touch $@

$(B)/linux-%-debug/release: $(B)/linux-%/release \
		selftests/machine/build-kernel \
		$(addprefix selftests/machine/config/,base.config debug.config)
	@$(call install,libelf-dev)
	@$(stage) kernel-$*-debug 'building Linux $* with checks (15 minutes)' \
		selftests/machine/build-kernel $* debug
	@touch $@

$(B)/linux-%/initrd: $(addprefix selftests/machine/,build-initrd init run-job) \
		$(B)/linux-%/release | packages-machine
	@$(stage) initrd-$* 'making the initrd for Linux $*' \
		selftests/machine/build-initrd $*

$(B)/linux-%/memory-initrd: $(addprefix selftests/machine/,build-memory-initrd \
		init-memory) $(B)/linux-%/modules.built \
		$(addprefix $(B)/tests/,loop longloop longerloop self_monitor exits) \
		| packages-machine
	@$(stage) memory-initrd-$* 'making the initrd with perf for Linux $*' \
		selftests/machine/build-memory-initrd $*

$(B)/linux-%/agent-initrd: $(addprefix selftests/machine/,build-agent-initrd \
		init-agent) $(B)/linux-%/modules.built \
		$(addprefix $(B)/tests/,loop longloop calltree) | packages-machine
	@$(call install,qemu-guest-agent)
	@$(stage) agent-initrd-$* 'making the initrd with an agent for Linux $*' \
		selftests/machine/build-agent-initrd $*

# $(1): the suffix of the line's name
define modules_built
$(B)/linux-%$(1)/modules.built: $$$$(wildcard host/hooks/linux-$$$$*/*.patch) \
		$(B)/linux-%$(1)/release \
		selftests/machine/build-modules host/build \
		$(wildcard host/*.[ch] host/Makefile.pv_perf abi/*.h guest/*.[ch] guest/Kbuild) \
		$(wildcard selftests/hypercall/Kbuild selftests/hypercall/kvm_perf_hypercall.*)
	@$(stage) modules-$$*$(1) 'building the modules for Linux $$*$(1) (1 minute)' \
		selftests/machine/build-modules $$*$(1) W=1
	@touch $$@
endef
.SECONDEXPANSION:
$(eval $(call modules_built,))
$(eval $(call modules_built,-debug))
$(eval $(call modules_built,-series))
$(eval $(call modules_built,-core))

# Each program of the tests is one file.  The file's folder selects the rule that builds
# the program; the rule adds the options that follow `build:` at the file's beginning.
own_of = $(shell sed -n '1,9s,^.\{0\,2\} \?build: \([^*]*\).*,\1,p' $1)
own = $(call own_of,$<)
depends = -MMD -MP -MF $@.d -MT $@
source := $(K)/source
-include $(wildcard $(B)/tests/*.d)

define program
	@mkdir -p $(@D)
	@$(CC) -O2 -Wall -Iabi -I$(source)/tools/testing/selftests $(depends) \
		-o $@ $< $(own)
endef

$(B)/tests/%: selftests/programs/%.S | $(K)/release
	$(program)

$(B)/tests/%: selftests/programs/%.c | $(K)/release
	$(program)

$(B)/tests/%: selftests/hypercall/%.c | $(K)/release
	$(program)

$(B)/tests/%: selftests/bench/%.c | $(K)/release
	$(program)

# Programs that run on the bare machine.
$(B)/tests/%: selftests/bare/%.c | packages-build
	@mkdir -p $(@D)
	@$(CC) -nostdlib -O2 -Wall -ffreestanding -fno-pie -no-pie -static \
		-fno-stack-protector -mgeneral-regs-only -mno-red-zone \
		-fcf-protection=none -mcmodel=large -Wl,-Ttext=0x1000000 \
		-Wl,--build-id=none $(depends) -o $@ $<

# The patches for QEMU add the sources of these tests.
$(B)/tests/amd-%: $(qemu)
	@mkdir -p $(@D)
	@cd $(B)/qemu-src && D=tests/tcg/x86_64/system && $(CC) -nostdlib -O0 \
		-ffreestanding -fno-pie -no-pie -static -fno-stack-protector \
		-mgeneral-regs-only -mno-red-zone -fcf-protection=none \
		-Wa,--noexecstack -Itests/tcg/minilib -Wl,-T$$D/kernel.ld \
		-Wl,-melf_x86_64 -Wl,--build-id=none $$D/boot.S \
		tests/tcg/minilib/printf.c $$D/amd-$*.c \
		-o $(CURDIR)/$@ -lgcc

# The unchanged host side in user space, with stand-ins for perf, KVM and the kernel.  Each
# program has its own sanitizers, so it has its own objects: after a change of a program's
# line "build:", remove $(B)/tests.
user_programs := $(basename $(notdir $(shell grep -l '^.\{0,3\}build: ' selftests/user/*.c)))
user_objects := $(patsubst %.c,%.o,$(notdir $(wildcard host/*.c selftests/user/fake_*.c)))
user_headers := $(wildcard host/*.h abi/*.h selftests/user/*.h \
	selftests/user/include/*.h selftests/user/include/*/*.h \
	selftests/user/include/*/*/*.h)
user_flags := -std=gnu11 -g -O1 -Wall -Wno-format -D_GNU_SOURCE \
	-D_LGPL_SOURCE -Iselftests/user/include \
	-I$(source)/tools/testing/radix-tree -I$(source)/tools/include \
	-Ihost -Iabi -isystem $(source)/tools/include/uapi \
	-I$(source)/tools/testing/selftests \
	-idirafter $(source)/arch/x86/include

define user_program
$(B)/tests/$(1).objects/%.o: host/%.c $$(user_headers) | $$(K)/release packages-user
	@mkdir -p $$(@D)
	@clang $$(user_flags) $$(filter-out %.c,$$(call own_of,selftests/user/$(1).c)) -c -o $$@ $$<

$(B)/tests/$(1).objects/%.o: selftests/user/%.c $$(user_headers) | $$(K)/release packages-user
	@mkdir -p $$(@D)
	@clang $$(user_flags) $$(filter-out %.c,$$(call own_of,selftests/user/$(1).c)) -c -o $$@ $$<

$(B)/tests/$(1): selftests/user/$(1).c $$(wildcard selftests/user/fuzz_*.c) \
		$(addprefix $(B)/tests/$(1).objects/,$(user_objects))
	@clang $$(user_flags) $$(call own_of,$$<) -o $$@ $$< $$(filter %.o,$$^) \
		$$(source)/lib/xarray.c $$(source)/tools/testing/radix-tree/bitmap.c \
		$$(source)/tools/lib/find_bit.c $$(source)/tools/lib/string.c \
		$$(source)/tools/lib/ctype.c -lurcu -lpthread
endef
$(foreach program,$(user_programs),$(eval $(call user_program,$(program))))

unit_tests := $(filter-out unit_test.c,$(notdir $(wildcard selftests/user/unit_*.c)))
$(B)/tests/unit_test: $(unit_tests:%.c=$(B)/tests/unit_test.objects/%.o)

# One object for each file of the host side, for selftests/layers.
host_objects := $(patsubst host/%.c,$(B)/tests/host/%.o,$(wildcard host/*.c))
host-objects: $(host_objects)

$(host_objects): $(B)/tests/host/%.o: host/%.c $(user_headers) | $(K)/release packages-user
	@mkdir -p $(@D)
	@clang $(user_flags) -O0 -g0 -c -o $@ $<

# The guest's unchanged driver in user space, with stand-ins for the kernel and a model of
# the host.  The kernel's headers that the driver includes are empty files, except for the
# two headers that user space has.
guest_user := $(B)/tests/guest
guest_objects := $(patsubst %.c,$(guest_user)/%.o,$(notdir $(wildcard guest/*.c)) \
	driver.c host.c kernel.c perf_core.c)
guest_headers := $(wildcard guest/*.h abi/*.h selftests/user/guest/*.h \
	selftests/user/guest/include/*.h)
guest_flags := -std=gnu11 -g -O1 -Wall -fwrapv -D_GNU_SOURCE -include stand_in.h \
	-I$(guest_user)/include -Iselftests/user/guest/include -Iselftests/user/guest \
	-Iguest -Iabi -isystem $(B)/linux-6.1/source/tools/include/uapi \
	-isystem $(B)/linux-6.1/source/tools/testing/selftests \
	-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined \
	-fprofile-instr-generate -fcoverage-mapping

guest-objects: $(patsubst guest/%.c,$(guest_user)/%.o,$(wildcard guest/*.c))

$(guest_user)/include/made: $(wildcard guest/*.[ch]) | packages-user
	@rm -rf $(@D)
	@for h in $$(sed -n 's/^#include <\(.*\)>/\1/p' $^ | sort -u | \
			grep -v -x -e linux/types.h -e linux/perf_event.h); do \
		mkdir -p $(@D)/$$(dirname $$h) && : >$(@D)/$$h || exit 1; \
	done
	@touch $@

$(guest_user)/%.o: guest/%.c $(guest_headers) $(guest_user)/include/made \
		| $(B)/linux-6.1/release packages-user
	@clang $(guest_flags) -c -o $@ $<

$(guest_user)/%.o: selftests/user/guest/%.c $(guest_headers) $(guest_user)/include/made \
		| $(B)/linux-6.1/release packages-user
	@clang $(guest_flags) -c -o $@ $<

$(B)/tests/%: selftests/user/guest/%.c $(guest_objects)
	@clang $(guest_flags) -o $@ $< $(guest_objects) $(own)

# Programs with the library of the kernel's KVM selftests: a VMM and its guest are in one C
# file.  The library is 6.1's, whatever LINE is, because other lines have other files.  The
# guest takes NMIs, so the code has no red zone and no vector instructions.
kvm_source := $(B)/linux-6.1/source
kvm_selftests := $(kvm_source)/tools/testing/selftests/kvm
kvm_sources := $(addprefix lib/,assert.c elf.c guest_modes.c io.c kvm_util.c \
	rbtree.c sparsebit.c string_override.c test_util.c $(addprefix x86_64/, \
	apic.c processor.c svm.c ucall.c vmx.c handlers.S))
kvm_flags := -O2 -g -std=gnu99 -fno-stack-protector -fno-pie -mno-red-zone \
	-fno-tree-vectorize -I$(kvm_source)/tools/include \
	-I$(kvm_source)/tools/arch/x86/include -I$(kvm_selftests)/include \
	-I$(kvm_selftests)/include/x86_64 -I$(kvm_selftests)/.. -Iabi

$(B)/tests/libkvm.a: $(B)/linux-6.1/release
	@rm -rf $@ $(B)/tests/libkvm && mkdir -p $(B)/tests/libkvm
	@$(foreach s,$(kvm_sources),$(CC) $(kvm_flags) -ffreestanding \
		-I$(kvm_selftests)/$(dir $s) -c $(kvm_selftests)/$s \
		-o $(B)/tests/libkvm/$(notdir $s).o &&) \
	ar rcs $@ $(B)/tests/libkvm/*.o

$(B)/tests/%: selftests/kvm/%.c $(B)/tests/libkvm.a
	@$(CC) $(kvm_flags) -Wall -no-pie $(depends) -o $@ $< $(B)/tests/libkvm.a

$(B)/perf/perf-7: selftests/machine/fetch-perf | packages-build
	@$(stage) perf 'fetching perf of Debian 13 (1 minute)' $<

$(sample): $(K)/release
	@mkdir -p $(@D)
	@head -c 2000000 $(K)/source/MAINTAINERS $(K)/source/kernel/*/*.c | \
		head -c 2000000 >$@

clean:
	rm -rf $(B)/qemu $(B)/qemu-src $(B)/bochs $(B)/bochs-src $(B)/linux-*/kvm $(B)/linux-*/guest \
		$(B)/linux-*/hypercall $(B)/linux-*/modules.built \
		$(B)/linux-*/initrd $(B)/linux-*/memory-initrd \
		$(B)/linux-*-debug $(B)/deb $(doctor) $(B)/tests $(B)/run $(B)/log \
		$(B)/series $(B)/linux-*-series $(B)/linux-*-core $(B)/docs

distclean:
	rm -rf $(B)

.PHONY: help run bench nginx-exits two-guests bolt test-quick test test-all test-intel \
	machine memory-initrd agent-initrd debian newer-perf host-objects guest-objects matrix fuzz shell \
	qemu bochs kernel modules check docs results series series-check deb kmod-deb install \
	install-guest uninstall doctor qualify clean distclean $(groups)
.DELETE_ON_ERROR:
# Keep the intermediate files of pattern rules.
.SECONDARY:
# One stage at a time: each stage uses all CPUs.
.NOTPARALLEL:
