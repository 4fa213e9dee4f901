// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <string.h>

#include "mpa2-cm.h"

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc >= 2 && !strcmp(argv[1], "agent"))
		return agent_main(argc - 1, argv + 1);
	if (argc >= 2 && !strcmp(argv[1], "passive-first"))
		return passive_first_main(argc - 1, argv + 1);
	fprintf(stderr, "usage: mpa2-cm agent [many] | passive-first [OPTION...]\n");
	return 2;
}
