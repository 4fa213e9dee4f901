// SPDX-License-Identifier: GPL-2.0
/* One JSON object a line. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "mpa2-cm.h"

double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e3 + ts.tv_nsec / 1e6;
}

void out_begin(const char *event)
{
	flockfile(stdout);	/* a line is one thread's */
	printf("{\"t\": %.3f, \"event\": \"%s\"", now_ms(), event);
}

void out_int(const char *name, long long value)
{
	printf(", \"%s\": %lld", name, value);
}

void out_ms(const char *name, double value)
{
	printf(", \"%s\": %.3f", name, value);
}

/* No caller has text that would need quoting. */
void out_text(const char *name, const char *value)
{
	printf(", \"%s\": \"%s\"", name, value);
}

void out_hex(const char *name, const void *data, size_t len)
{
	const uint8_t *octets = data;
	size_t i;

	printf(", \"%s\": \"", name);
	for (i = 0; i < len; i++)
		printf("%02x", octets[i]);
	printf("\"");
}

void out_end(void)
{
	printf("}\n");
	fflush(stdout);
	funlockfile(stdout);
}

void out_error(const char *what, int id)
{
	int error = errno;

	out_begin("ERROR");
	out_text("call", what);
	out_int("id", id);
	out_int("errno", error);
	out_text("text", strerror(error));
	out_end();
}
