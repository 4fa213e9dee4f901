// SPDX-License-Identifier: GPL-2.0
/*
 * A pair of connected TCP sockets over the loopback device of a namespace: what
 * siw speaks MPA through where the wire carries something else.
 *
 * Any process of the namespace can dial the port while it is open, so an accepted
 * connection counts only if both its ends are those of our own.
 */
#include <linux/in.h>
#include <linux/net.h>
#include <linux/tcp.h>

#include "../compat/compat.h"
#include "pair.h"

/* The loopback device needs microseconds; beyond this it does not work. */
#define PAIR_TIMEOUT HZ
/* Strangers that are shown out before we give up. */
#define PAIR_ACCEPTS 64
#define PAIR_BACKLOG 16

static void loopback(struct sockaddr_storage *addr)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)addr;

	memset(addr, 0, sizeof(*addr));
	v4->sin_family = AF_INET;
	v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

/* Before the SYN, as it is what the SYN announces. */
static int set_mss(struct socket *sock, unsigned int mss)
{
	int value = min(mss, MPA2_PAIR_MSS_MAX);

	return sock->ops->setsockopt(sock, SOL_TCP, TCP_MAXSEG,
				     KERNEL_SOCKPTR(&value), sizeof(value));
}

static int make_socket(struct net *net, unsigned int mss, struct socket **sock)
{
	struct sockaddr_storage addr;
	int ret;

	loopback(&addr);
	ret = mpa2_tcp_socket(net, &addr, false, 0, false, sock);
	if (ret)
		return ret;
	ret = set_mss(*sock, mss);
	if (ret)
		sock_release(*sock);
	return ret;
}

static int make_listener(struct net *net, unsigned int mss, struct socket **sock)
{
	struct sockaddr_storage addr;
	int ret = make_socket(net, mss, sock);

	if (ret)
		return ret;
	loopback(&addr);
	ret = mpa2_tcp_bind(*sock, &addr);
	if (!ret)
		ret = mpa2_tcp_listen(*sock, PAIR_BACKLOG);
	if (ret)
		sock_release(*sock);
	else
		(*sock)->sk->sk_rcvtimeo = PAIR_TIMEOUT;
	return ret;
}

static bool same_end(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in *a4 = (const struct sockaddr_in *)a;
	const struct sockaddr_in *b4 = (const struct sockaddr_in *)b;

	return a->ss_family == AF_INET && b->ss_family == AF_INET &&
	       a4->sin_port == b4->sin_port &&
	       a4->sin_addr.s_addr == b4->sin_addr.s_addr;
}

static bool are_a_pair(struct socket *outer, struct socket *inner)
{
	struct sockaddr_storage local, remote, inner_local, inner_remote;

	mpa2_tcp_addresses(outer, &local, &remote);
	mpa2_tcp_addresses(inner, &inner_local, &inner_remote);
	return same_end(&local, &inner_remote) && same_end(&remote, &inner_local);
}

static int accept_own(struct socket *listener, struct socket *outer,
		      struct socket **inner)
{
	int i, ret;

	for (i = 0; i < PAIR_ACCEPTS; i++) {
		ret = mpa2_tcp_accept_wait(listener, inner);
		if (ret)
			return ret;
		if (are_a_pair(outer, *inner))
			return 0;
		mpa2_tcp_reset(*inner);
	}
	return -EBUSY;
}

/**
 * mpa2_pair_open() - make a pair
 * @net: the namespace; its loopback device has to be up
 * @mss: no segment of either end is larger, so no FPDU of siw is
 * @outer: the end that has connected
 * @inner: the end that was accepted
 *
 * Context: may sleep, for a second where the loopback device does not work.
 * Return: 0 or -errno.
 */
int mpa2_pair_open(struct net *net, unsigned int mss, struct socket **outer,
		   struct socket **inner)
{
	struct sockaddr_storage addr, none;
	struct socket *listener;
	int ret = make_listener(net, mss, &listener);

	if (ret)
		return ret;
	ret = make_socket(net, mss, outer);
	if (ret)
		goto release_listener;
	(*outer)->sk->sk_sndtimeo = PAIR_TIMEOUT;
	mpa2_tcp_addresses(listener, &addr, &none);
	ret = compat_kernel_connect(*outer, &addr, sizeof(struct sockaddr_in), 0);
	if (!ret)
		ret = accept_own(listener, *outer, inner);
	if (ret) {
		mpa2_tcp_reset(*outer);
		goto release_listener;
	}
	(*outer)->sk->sk_sndtimeo = MAX_SCHEDULE_TIMEOUT;
	(*inner)->sk->sk_rcvtimeo = MAX_SCHEDULE_TIMEOUT;
	mpa2_tcp_prepare(*inner);
release_listener:
	sock_release(listener);
	return ret == -EAGAIN || ret == -EINPROGRESS ? -ETIMEDOUT : ret;
}
