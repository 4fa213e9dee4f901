// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../tools/mpa2-cm.h"
#include "wire-fuzz.h"

#define PARAMETERS "/sys/module/iw_mpa2/parameters/"
#define IN_PROGRESS "/sys/class/infiniband/" DEVICE_B "/ports/1/hw_counters/handshakes_in_progress"
#define REST_MS 5000
/* Of each sort of fault so many are shown. */
#define SHOWN_MAX 3
#define SORTS_MAX 64

static struct {
	unsigned long first, count, seconds;
	long only;
	int limit_ms;
	bool verbose, keep_going, storm;
} options = { .only = -1, .limit_ms = 1000 };

static struct attack attack = { .timer_ms = 200, .scale = 1, .slots = 6 };
static struct tally tally;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "wire-fuzz: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- the module's parameters and counters ---- */

static void set_parameter(const char *name, const char *value)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), PARAMETERS "%s", name);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, value, strlen(value)) != (ssize_t)strlen(value))
		die(path);
	close(fd);
}

static void set_timers(unsigned int ms)
{
	static const char * const names[] = {
		"connect_timeout_ms", "request_timeout_ms", "reply_timeout_ms", "rtr_timeout_ms",
		"close_timeout_ms",
	};
	char value[16];
	size_t i;

	snprintf(value, sizeof(value), "%u", ms);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		set_parameter(names[i], value);
}

static void set_policy(const struct policy *policy)
{
	static const char * const kinds[] = {
		[KIND_B] = "send", [KIND_C] = "write", [KIND_D] = "read",
	};
	char rtr[32] = "";
	int i;

	for (i = 0; i < 3 && policy->order[i]; i++) {
		if (i)
			strcat(rtr, ",");
		strcat(rtr, kinds[policy->order[i]]);
	}
	set_parameter("rtr", rtr);
	set_parameter("crc", policy->crc ? "Y" : "N");
	set_parameter("peer_to_peer", policy->peer_to_peer ? "Y" : "N");
	set_parameter("accept_enhanced", policy->accept_enhanced ? "Y" : "N");
	set_parameter("rev", policy->rev == 2 ? "2" : "1");
}

static const struct policy good_policy = {
	.peer_to_peer = true, .accept_enhanced = true, .rev = 2,
	.order = { KIND_C, KIND_D, KIND_B },
};

static long in_progress(void)
{
	FILE *file = fopen(IN_PROGRESS, "r");
	long value;

	if (!file || fscanf(file, "%ld", &value) != 1)
		die(IN_PROGRESS);
	fclose(file);
	return value;
}

static bool all_done(void)
{
	double end = now_ms() + REST_MS * attack.scale;
	long left;

	while ((left = in_progress()) && now_ms() < end)
		usleep(10000);
	if (left)
		printf("%ld handshakes are still in progress\n", left);
	return !left;
}

/* ---- batches ---- */

static struct {
	const char *why;
	unsigned int count;
} faults[SORTS_MAX];

/* Return: whether this one is still to be shown. */
static bool count_fault(const char *why)
{
	size_t i;

	for (i = 0; i < SORTS_MAX - 1 && faults[i].why; i++)
		if (!strcmp(faults[i].why, why))
			break;
	faults[i].why = why;
	return ++faults[i].count <= SHOWN_MAX;
}

static void print_faults(void)
{
	size_t i;

	for (i = 0; i < SORTS_MAX && faults[i].why; i++)
		printf("WRONG %u times: %s\n", faults[i].count, faults[i].why);
}

static unsigned int judge_batch(const struct batch *batch)
{
	unsigned int wrong = 0;
	const char *why;
	uint32_t i;

	for (i = 0; i < batch->count; i++) {
		const struct report *report = batch->reported[i] ? &batch->reports[i] : NULL;
		bool show = options.verbose;

		why = judge(&attack, &batch->talks[i], report, &tally);
		if (why) {
			wrong++;
			show = count_fault(why) || show;
		}
		if (why && show)
			printf("WRONG: %s\n    scripts/test-wire-fuzz --seed %llu --only %u\n", why,
			       (unsigned long long)attack.seed, batch->first + i);
		if (show)
			print_exchange(&attack, &batch->talks[i], report);
	}
	fflush(stdout);
	return wrong;
}

/* Return: whether all was as it should be; *good_ms: how long a good connection took. */
static bool run_batch(uint32_t first, uint32_t count, double *good_ms)
{
	static struct batch batch;
	struct policy policy;
	unsigned int wrong;

	batch.first = first;
	batch.count = count;
	choose_policy(attack.seed, first / BATCH, &policy);
	if (!options.storm) {
		set_policy(&policy);
		set_timers(attack.timer_ms);
	}
	play_batch(&attack, &batch);
	if (options.storm)
		return batch.at_rest;
	wrong = judge_batch(&batch);
	if (wrong)
		printf("%u of %u exchanges went wrong\n", wrong, count);
	if (!batch.at_rest) {
		printf("the application has not come to rest\n");
		return false;
	}
	set_policy(&good_policy);
	set_timers(10000);
	*good_ms = good_connections(&attack, first / BATCH % 2, options.limit_ms);
	return all_done() && *good_ms >= 0 && !wrong;
}

static void print_rate(unsigned long done, double begun, double worst_ms)
{
	double s = (now_ms() - begun) / 1e3;

	printf("%lu exchanges in %.0f s, %.1f a second; ", done, s, (double)done / s);
	printf("good connections within %.0f ms\n", worst_ms);
	fflush(stdout);
}

static int fuzz(void)
{
	double begun = now_ms(), good_ms = 0, worst_ms = 0;
	unsigned long done = 0, shown = 0;
	bool good = true;

	if (options.only >= 0)
		return run_batch((uint32_t)options.only, 1, &good_ms) ? 0 : 1;
	while ((good || options.keep_going) && (options.count ? done < options.count :
					now_ms() - begun < 1e3 * (double)options.seconds)) {
		unsigned long count = options.count && options.count - done < BATCH ?
				      options.count - done : BATCH;

		if (!run_batch((uint32_t)(options.first + done), (uint32_t)count, &good_ms))
			good = false;
		done += count;
		if (good_ms > worst_ms)
			worst_ms = good_ms;
		if (now_ms() - begun > 15e3 * (double)shown || !good) {
			shown = (unsigned long)((now_ms() - begun) / 15e3) + 1;
			print_rate(done, begun, worst_ms);
		}
	}
	if (options.storm)
		return good ? 0 : 1;
	print_tally(&tally);
	print_faults();
	if (good && done >= BATCH)
		good = check_shares(&tally);
	printf("\nseed %llu, timers of %u ms: %s\n", (unsigned long long)attack.seed,
	       attack.timer_ms, good ? "passed" : "FAILED");
	print_rate(done, begun, worst_ms);
	return good ? 0 : 1;
}

/* ---- processes ---- */

static void enter_host(const char *path)
{
	int fd = open(path, O_RDONLY);

	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die(path);
	close(fd);
}

static pid_t start_victim(int *control)
{
	int fds[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds))
		die("socketpair");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fds[0]);
		enter_host("/run/netns/hostb");
		exit(victim_main(fds[1]));
	}
	close(fds[1]);
	*control = fds[0];
	return pid;
}

static void usage(FILE *file)
{
	fprintf(file,
		"usage: wire-fuzz --seed N (--count N | --seconds N | --only N) [OPTION...]\n"
		"  --seed N        exchanges are derived from it and their number\n"
		"  --only N        one exchange, shown whole\n"
		"  --first N       number of the first one, a multiple of 250 (default 0)\n"
		"  --slots N       exchanges at the same time (default 6)\n"
		"  --timer N       the module's timers in ms (default 200)\n"
		"  --scale N       how much longer to wait for what must come (default 1)\n"
		"  --limit N       for a good connection in ms (default 1000)\n"
		"  --keep-going    also when exchanges have gone wrong\n"
		"  --storm         the application has to live on, and that is all: others change\n"
		"                  the module's parameters meanwhile\n"
		"  --verbose       show each exchange\n");
}

static void parse_options(int argc, char **argv)
{
	static const struct option table[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "count", required_argument, NULL, 'n' },
		{ "seconds", required_argument, NULL, 't' },
		{ "only", required_argument, NULL, 'o' },
		{ "first", required_argument, NULL, 'f' },
		{ "slots", required_argument, NULL, 'p' },
		{ "timer", required_argument, NULL, 'm' },
		{ "scale", required_argument, NULL, 'x' },
		{ "limit", required_argument, NULL, 'l' },
		{ "keep-going", no_argument, NULL, 'k' },
		{ "storm", no_argument, NULL, 'S' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	int option;

	while ((option = getopt_long(argc, argv, "h", table, NULL)) != -1) {
		switch (option) {
		case 's':
			attack.seed = parse_number(optarg, ~0ul);
			break;
		case 'n':
			options.count = parse_number(optarg, 100000000);
			break;
		case 't':
			options.seconds = parse_number(optarg, 1000000);
			break;
		case 'o':
			options.only = (long)parse_number(optarg, 100000000);
			options.verbose = true;
			break;
		case 'f':
			options.first = parse_number(optarg, 100000000);
			break;
		case 'p':
			attack.slots = (unsigned int)parse_number(optarg, 24);
			break;
		case 'm':
			attack.timer_ms = (unsigned int)parse_number(optarg, 10000);
			break;
		case 'x':
			attack.scale = (unsigned int)parse_number(optarg, 100);
			break;
		case 'l':
			options.limit_ms = (int)parse_number(optarg, 100000);
			break;
		case 'k':
			options.keep_going = true;
			break;
		case 'S':
			options.storm = true;
			break;
		case 'v':
			options.verbose = true;
			break;
		default:
			usage(option == 'h' ? stdout : stderr);
			exit(option == 'h' ? 0 : 2);
		}
	}
	if (optind < argc || !attack.slots || (options.first % BATCH && !options.storm) ||
	    !!options.count + !!options.seconds + !(options.only < 0) != 1) {
		usage(stderr);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct report report;
	int status;

	setvbuf(stdout, NULL, _IOLBF, 0);
	parse_options(argc, argv);
	start_victim(&attack.control);
	enter_host("/run/netns/hosta");
	if (!get_report(&attack, &report, 60000) || report.type != REPORT_READY)
		die("the application does not begin");
	open_slots(&attack);
	good_open();
	status = fuzz();
	give_order(&attack, &(struct order){ .type = ORDER_QUIT });
	return status;
}
