# SPDX-License-Identifier: GPL-2.0
# The objects of the protocol core, for the module and for the KUnit suites.
mpa2-core-objs := \
	drivers/core/crc32c.o \
	drivers/core/frame.o \
	drivers/core/fpdu.o \
	drivers/core/negotiate.o \
	drivers/core/conn.o \
	drivers/core/initiator.o \
	drivers/core/responder.o \
	drivers/core/chunk.o \
	drivers/core/session.o \
	drivers/core/text.o
