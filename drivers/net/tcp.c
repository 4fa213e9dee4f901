// SPDX-License-Identifier: GPL-2.0
/*
 * The TCP sockets of connection set-up: made in the namespace of the device,
 * never blocking, read by exact lengths so that no octet behind a startup
 * frame is taken from the stream.
 */
#include <linux/filter.h>
#include <linux/inet.h>
#include <linux/ip.h>
#include <linux/slab.h>
#include <net/inet_ecn.h>
#include <net/ipv6.h>
#include <net/tcp.h>

#include "../compat/compat.h"
#include "tcp.h"

/* TCP's urgent data.  MPA knows none, and siw's receive path cannot be given any
 * it would take some octets twice and others never.  So our sockets have
 * a filter that drops segments with URG as a firewall would; a peer that insists
 * harms its own connection.  Sockets that siw has by now keep it, and so do
 * children of a listener: one filter for all, whose last user frees it, which
 * may be after this module has gone.
 */
static struct sk_filter *no_urgent;

#define TCP_FLAGS_OFFSET 13	/* of their octet in the header */

/**
 * mpa2_tcp_start() - make what all sockets share
 *
 * Context: module init, may sleep.
 * Return: 0 or -errno.
 */
int mpa2_tcp_start(void)
{
	struct sock_filter code[] = {
		/* A filter of a TCP socket sees the segment from its header on. */
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, TCP_FLAGS_OFFSET),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, TCPHDR_URG, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, U32_MAX),
	};
	struct sock_fprog_kern program = {
		.len = ARRAY_SIZE(code),
		.filter = code,
	};
	int ret;

	no_urgent = kzalloc(sizeof(*no_urgent), GFP_KERNEL);
	if (!no_urgent)
		return -ENOMEM;
	ret = bpf_prog_create(&no_urgent->prog, &program);
	if (ret) {
		kfree(no_urgent);
		return ret;
	}
	refcount_set(&no_urgent->refcnt, 1);
	return 0;
}

/**
 * mpa2_tcp_stop() - what all sockets share goes with the last of them
 *
 * That may have gone a moment ago, and a segment be in the filter.
 *
 * Context: module exit, may sleep.  No socket is made from here on.
 */
void mpa2_tcp_stop(void)
{
	if (!refcount_dec_and_test(&no_urgent->refcnt))
		return;
	synchronize_rcu();
	bpf_prog_destroy(no_urgent->prog);
	kfree(no_urgent);
}

/* Lock classes have to outlive this module and siw: once closed, a socket lives on
 * until its peer has the FIN, or TCP gives up.  A key is an address only; these are
 * TCP's own, and so is their name.
 */
enum lock_of_socket { SOCKET_SLOCK, SOCKET_LOCK, SOCKET_CALLBACK_LOCK, SOCKET_LOCKS };

static struct lock_class_key *lock_key(const struct sock *sk, enum lock_of_socket lock)
{
	unsigned int which = lock + (sk->sk_family == AF_INET6 ? SOCKET_LOCKS : 0);

	BUILD_BUG_ON(sizeof(tcp_prot) < 2 * SOCKET_LOCKS * sizeof(void *));
	return (struct lock_class_key *)((char *)&tcp_prot + which * sizeof(void *));
}

/* Whoever closes a listener takes the callback lock of each connection that nobody
 * has accepted inside its slock, and siw takes those of its connections with softirqs
 * on.  No connection is both, so what siw may get is set apart, whoever connected it.
 */
static void set_callback_lock_class(struct sock *sk)
{
	lock_sock(sk);
	lockdep_set_class_and_name(&sk->sk_callback_lock,
				   lock_key(sk, SOCKET_CALLBACK_LOCK), tcp_prot.name);
	release_sock(sk);
}

/* For a socket that nobody has used yet. */
static void set_lock_classes(struct sock *sk)
{
	lockdep_set_class_and_name(&sk->sk_lock.slock, lock_key(sk, SOCKET_SLOCK),
				   tcp_prot.name);
	lockdep_init_map(&sk->sk_lock.dep_map, tcp_prot.name, lock_key(sk, SOCKET_LOCK), 0);
	set_callback_lock_class(sk);
}

/* What sk_attach_filter() does with a new socket, for a filter that is shared. */
static void refuse_urgent_data(struct sock *sk)
{
	lock_sock(sk);
	refcount_inc(&no_urgent->refcnt);
	atomic_add(bpf_prog_size(no_urgent->prog->len), &sk->sk_omem_alloc);
	rcu_assign_pointer(sk->sk_filter, no_urgent);
	release_sock(sk);
}

static int address_size(const struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET ? sizeof(struct sockaddr_in) :
					    sizeof(struct sockaddr_in6);
}

/**
 * mpa2_tcp_prepare() - what both kinds of connection socket need
 * @sock: a socket, may be live
 *
 * Context: may sleep.
 */
void mpa2_tcp_prepare(struct socket *sock)
{
	/* One send, one segment: some peers do not reassemble a frame. */
	tcp_sock_set_nodelay(sock->sk);
}

/**
 * mpa2_tcp_socket() - make a TCP socket
 * @net: the namespace it lives in and pins
 * @local: for its address family
 * @v6only: the id's afonly
 * @tos: type of service, used if @tos_set
 * @tos_set: whether the ULP has set one
 * @sock: the result
 *
 * Context: may sleep.
 * Return: 0 or -errno.
 */
int mpa2_tcp_socket(struct net *net, const struct sockaddr_storage *local,
		    bool v6only, u8 tos, bool tos_set, struct socket **sock)
{
	struct socket *s;
	int ret;

	if (local->ss_family != AF_INET && local->ss_family != AF_INET6)
		return -EAFNOSUPPORT;
	/* kern = 0: a kernel socket would not hold its namespace. */
	ret = __sock_create(net, local->ss_family, SOCK_STREAM, IPPROTO_TCP, &s,
			    0);
	if (ret)
		return ret;
	set_lock_classes(s->sk);
	refuse_urgent_data(s->sk);
	sock_set_reuseaddr(s->sk);
	mpa2_tcp_prepare(s);
	if (local->ss_family == AF_INET6 && v6only) {
		ret = ip6_sock_set_v6only(s->sk);
		if (ret) {
			sock_release(s);
			return ret;
		}
	}
	if (tos_set) {
		/* On IPv6 for what goes to IPv4 addresses, and for the priority. */
		ip_sock_set_tos(s->sk, tos);
		/* ECN is TCP's own affair. */
		if (local->ss_family == AF_INET6)
			inet6_sk(s->sk)->tclass = tos & ~INET_ECN_MASK;
	}
	*sock = s;
	return 0;
}

/**
 * mpa2_tcp_bind() - give a socket its local end
 * @sock: a new socket
 * @local: the address
 *
 * Context: may sleep.
 * Return: 0 or -errno.
 */
int mpa2_tcp_bind(struct socket *sock, const struct sockaddr_storage *local)
{
	return compat_kernel_bind(sock, local, address_size(local));
}

/**
 * mpa2_tcp_share_port() - bind to a local port even where others have it
 * @sock: a socket that is not bound yet and will connect
 *
 * rdma_cm picks ports without regard to TCP's own.  Only an equal connection is in
 * the way of one that connects, and connect() finds that (FR-52).
 */
void mpa2_tcp_share_port(struct socket *sock)
{
	sock->sk->sk_reuse = SK_FORCE_REUSE;
}

/**
 * mpa2_tcp_connect() - start or ask after a connection, without waiting
 * @sock: a bound socket
 * @remote: the responder
 *
 * Return: 0 when it is up, -EINPROGRESS, or why it failed.
 */
int mpa2_tcp_connect(struct socket *sock, const struct sockaddr_storage *remote)
{
	int ret = compat_kernel_connect(sock, remote, address_size(remote),
					O_NONBLOCK);

	return ret == -EALREADY ? -EINPROGRESS : ret;
}

/**
 * mpa2_tcp_keep_to() - keep a wildcard listener to its device
 * @sock: a socket that is not bound yet
 * @ifindex: the interface, 0 for any
 */
void mpa2_tcp_keep_to(struct socket *sock, int ifindex)
{
	if (ifindex)
		sock->sk->sk_bound_dev_if = ifindex;
}

/**
 * mpa2_tcp_listen() - let connections come
 * @sock: a bound socket
 * @backlog: how many TCP lets wait
 *
 * Context: may sleep.
 * Return: 0 or -errno.
 */
int mpa2_tcp_listen(struct socket *sock, int backlog)
{
	return kernel_listen(sock, backlog);
}

/**
 * mpa2_tcp_accept() - take one connection, without waiting
 * @listener: a listening socket
 * @sock: the connection, the caller's
 *
 * Context: may sleep for memory.
 * Return: 0, -EAGAIN when there is none, or -errno.
 */
int mpa2_tcp_accept(struct socket *listener, struct socket **sock)
{
	int ret = kernel_accept(listener, sock, O_NONBLOCK);

	if (!ret)
		set_callback_lock_class((*sock)->sk);
	return ret;
}

/**
 * mpa2_tcp_accept_wait() - the same, but for as long as the listener's sk_rcvtimeo
 * @listener: a listening socket
 * @sock: the connection, the caller's
 *
 * Context: may sleep.
 * Return: 0, -EAGAIN when none came, or -errno.
 */
int mpa2_tcp_accept_wait(struct socket *listener, struct socket **sock)
{
	int ret = kernel_accept(listener, sock, 0);

	if (!ret)
		set_callback_lock_class((*sock)->sk);
	return ret;
}

/**
 * mpa2_tcp_addresses() - both ends of a connection
 * @sock: the connection
 * @local: our end
 * @remote: the peer's; an end that is not known stays all zero
 *
 * After an RST the other end is not known any more: all of it is 0 then, the
 * family, which a failure leaves behind, too.
 *
 * Context: may sleep.
 */
void mpa2_tcp_addresses(struct socket *sock, struct sockaddr_storage *local,
			struct sockaddr_storage *remote)
{
	memset(local, 0, sizeof(*local));
	memset(remote, 0, sizeof(*remote));
	kernel_getsockname(sock, (struct sockaddr *)local);
	if (kernel_getpeername(sock, (struct sockaddr *)remote) < 0)
		memset(remote, 0, sizeof(*remote));
}

/**
 * mpa2_tcp_install() - put callbacks on a socket
 * @sock: the socket
 * @ops: the callbacks
 * @user_data: what they find in sk_user_data, never copied to a child socket
 * @saved: where the originals go, or NULL
 *
 * Context: may sleep; no callback of the old ones runs once this returns, but
 * for its way out.
 */
void mpa2_tcp_install(struct socket *sock, const struct mpa2_sock_ops *ops,
		      void *user_data, struct mpa2_sock_ops *saved)
{
	struct sock *sk = sock->sk;

	write_lock_bh(&sk->sk_callback_lock);
	if (saved) {
		saved->state_change = sk->sk_state_change;
		saved->data_ready = sk->sk_data_ready;
		saved->write_space = sk->sk_write_space;
		saved->error_report = sk->sk_error_report;
	}
	sk->sk_user_data = user_data;
	if (user_data)
		sk->sk_user_data = (void *)((uintptr_t)user_data |
					    SK_USER_DATA_NOCOPY);
	sk->sk_state_change = ops->state_change;
	sk->sk_data_ready = ops->data_ready;
	sk->sk_write_space = ops->write_space;
	sk->sk_error_report = ops->error_report;
	write_unlock_bh(&sk->sk_callback_lock);
}

/**
 * mpa2_tcp_restore() - put callbacks back, with nothing in sk_user_data
 * @sock: the socket
 * @saved: as mpa2_tcp_install() has left them
 *
 * Context: as mpa2_tcp_install().
 */
void mpa2_tcp_restore(struct socket *sock, const struct mpa2_sock_ops *saved)
{
	mpa2_tcp_install(sock, saved, NULL, NULL);
}

/**
 * mpa2_tcp_state() - what can be expected of a connection
 * @sock: the connection
 *
 * Context: any.
 * Return: the state, which may be over at once.
 */
enum mpa2_tcp_state mpa2_tcp_state(struct socket *sock)
{
	switch (READ_ONCE(sock->sk->sk_state)) {
	case TCP_SYN_SENT:
	case TCP_SYN_RECV:
		return MPA2_TCP_CONNECTING;
	case TCP_ESTABLISHED:
	case TCP_FIN_WAIT1:
	case TCP_FIN_WAIT2:
		return MPA2_TCP_UP;
	case TCP_CLOSE_WAIT:
	case TCP_CLOSING:
	case TCP_LAST_ACK:
	case TCP_TIME_WAIT:
		return MPA2_TCP_HALF_CLOSED;
	default:
		return MPA2_TCP_DOWN;
	}
}

/**
 * mpa2_tcp_error() - take the pending error, as getsockopt(SO_ERROR) would
 * @sock: the connection
 *
 * Context: any.
 * Return: 0 or -errno.
 */
int mpa2_tcp_error(struct socket *sock)
{
	return sock_error(sock->sk);
}

/**
 * mpa2_tcp_send() - send octets in one piece
 * @sock: a connection
 * @octets: a startup frame or an FPDU
 * @len: how many
 *
 * A startup frame or one FPDU always fits an idle socket; if it does not, the
 * connection is not worth having.
 *
 * Context: may sleep for memory, not for the peer.
 * Return: 0 or -errno.
 */
int mpa2_tcp_send(struct socket *sock, const void *octets, size_t len)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct kvec vec = { .iov_base = (void *)octets, .iov_len = len };
	int ret = kernel_sendmsg(sock, &msg, &vec, 1, len);

	if (ret < 0)
		return ret;
	return ret == len ? 0 : -ENOBUFS;
}

static int receive(struct socket *sock, void *octets, size_t len, int flags)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | flags };
	struct kvec vec = { .iov_base = octets, .iov_len = len };

	return kernel_recvmsg(sock, &msg, &vec, 1, len, msg.msg_flags);
}

/**
 * mpa2_tcp_receive() - take octets off the stream, without waiting
 * @sock: the connection
 * @octets: where they go
 * @len: how many at most
 *
 * Context: may sleep for the socket's lock.
 * Return: octets taken, 0 at the peer's FIN, -EAGAIN when there are none, or -errno.
 */
int mpa2_tcp_receive(struct socket *sock, void *octets, size_t len)
{
	return receive(sock, octets, len, 0);
}

/**
 * mpa2_tcp_peek() - the same, but the octets stay in the stream
 * @sock: the connection
 * @octets: where a copy goes
 * @len: how many at most
 *
 * Context: as mpa2_tcp_receive().
 * Return: as mpa2_tcp_receive().
 */
int mpa2_tcp_peek(struct socket *sock, void *octets, size_t len)
{
	return receive(sock, octets, len, MSG_PEEK);
}

/**
 * mpa2_tcp_queued() - octets that can be read in order right now
 * @sock: the connection
 *
 * Context: may sleep for the socket's lock.
 * Return: how many.
 */
u32 mpa2_tcp_queued(struct socket *sock)
{
	u32 octets;

	lock_sock(sock->sk);
	octets = tcp_inq(sock->sk);
	release_sock(sock->sk);
	return octets;
}

/**
 * mpa2_tcp_want() - have TCP keep room for octets, and wake us only with them
 * @sock: the connection
 * @octets: how many; 1 puts the usual behaviour back
 *
 * Context: may sleep for the socket's lock.
 */
void mpa2_tcp_want(struct socket *sock, u32 octets)
{
	lock_sock(sock->sk);
	tcp_set_rcvlowat(sock->sk, octets);
	release_sock(sock->sk);
}

/**
 * mpa2_tcp_discard() - throw away what is queued
 * @sock: the connection
 *
 * Context: may sleep for the socket's lock.
 * Return: 0 at the peer's FIN, -EAGAIN, or -errno.
 */
int mpa2_tcp_discard(struct socket *sock)
{
	u8 bin[128];
	int ret;

	do {
		ret = receive(sock, bin, sizeof(bin), 0);
	} while (ret > 0);
	return ret;
}

/**
 * mpa2_tcp_shutdown() - send no more: FIN
 * @sock: the connection
 *
 * Context: may sleep for the socket's lock.
 */
void mpa2_tcp_shutdown(struct socket *sock)
{
	kernel_sock_shutdown(sock, SHUT_WR);
}

/**
 * mpa2_tcp_close() - close by FIN: octets left unread would turn it into an RST
 * @sock: the connection, gone afterwards
 *
 * Context: may sleep.
 */
void mpa2_tcp_close(struct socket *sock)
{
	mpa2_tcp_shutdown(sock);
	mpa2_tcp_discard(sock);
	sock_release(sock);
}

/**
 * mpa2_tcp_reset() - close by RST
 * @sock: the connection, gone afterwards
 *
 * Context: may sleep.
 */
void mpa2_tcp_reset(struct socket *sock)
{
	sock_no_linger(sock->sk);
	sock_release(sock);
}
