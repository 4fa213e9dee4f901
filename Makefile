# SPDX-License-Identifier: GPL-2.0
# What people type. Everything is done by scripts/, which also work alone.

KVER ?= $(shell uname -r)
export SIW_KO KDIR

.PHONY: module siw vm demo check check-long lint conformance bench man clean help

module:
	@set -e; ko=$$(scripts/build-module $(KVER)); cp "$$ko" iw_mpa2.ko; \
	echo "iw_mpa2.ko is for kernel $(KVER)"

siw:
	@set -e; ko=$$(scripts/build-siw $(KVER)); cp "$$ko" siw.ko; \
	echo "siw.ko is for kernel $(KVER)"

vm:
	@scripts/vm shell --module

demo:
	@scripts/demo

check:
	@scripts/check

check-long:
	@scripts/check-long

lint:
	@scripts/lint

conformance:
	@scripts/conformance --write

bench:
	@scripts/bench-data-path

man:
	@man -l Documentation/man/iw_mpa2.4

clean:
	rm -f iw_mpa2.ko siw.ko

help:
	@echo 'make              iw_mpa2.ko for the running kernel, or for KVER=RELEASE;'
	@echo '                  SIW_KO=FILE: for that siw.ko instead of the one of make siw'
	@echo 'make siw          unmodified siw.ko for KVER, from the kernel source package'
	@echo 'make demo         two hosts in a virtual machine: stock siw, then iw_mpa2'
	@echo 'make check        all tests (scripts/check PART... for some, --list names them)'
	@echo 'make check-long   what takes too long for every time'
	@echo 'make lint         style, static checks and spelling alone'
	@echo 'make conformance  which requirements lack a test; writes Documentation/conformance.rst'
	@echo 'make bench        the data path with the module against stock siw'
	@echo 'make man          the manual page'
	@echo 'make vm           a shell in the virtual machine with the two hosts'
	@echo 'make clean        remove what make and make siw put here'
	@echo
	@echo 'Kernels, images, builds and logs are kept in $${IW_MPA2_CACHE:-~/.cache/iw_mpa2}.'
