// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpa2-cm.h"

void parse_address(const char *host, unsigned int port, struct sockaddr_storage *addr)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
	struct addrinfo *list;
	char service[8];
	int err;

	snprintf(service, sizeof(service), "%u", port);
	err = getaddrinfo(host, service, &hints, &list);
	if (err) {
		fprintf(stderr, "%s: %s\n", host, gai_strerror(err));
		exit(2);
	}
	memset(addr, 0, sizeof(*addr));
	memcpy(addr, list->ai_addr, list->ai_addrlen);
	freeaddrinfo(list);
}

unsigned long parse_number(const char *text, unsigned long max)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 0);
	if (errno || end == text || *end || value > max) {
		fprintf(stderr, "%s: expected a number from 0 to %lu\n", text, max);
		exit(2);
	}
	return value;
}

void fill_private_data(uint8_t *data, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		data[i] = (uint8_t)(len + 7 * i + 1);
}
