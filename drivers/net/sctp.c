// SPDX-License-Identifier: GPL-2.0
/*
 * One-to-one SCTP sockets as DDP uses them (requirements 1.7, 2.6): one address,
 * as many streams out as in, adaptation indication 1, every chunk unordered, none
 * fragmented.  The first socket makes the kernel load its sctp module.
 */
#include <linux/in.h>
#include <linux/sctp.h>
#include <linux/wait.h>
#include <net/sctp/structs.h>

#include "../compat/compat.h"
#include "sctp.h"

static int address_size(const struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET ? sizeof(struct sockaddr_in) :
					    sizeof(struct sockaddr_in6);
}

static int watch_wake(wait_queue_entry_t *entry, unsigned int mode, int sync, void *key)
{
	struct mpa2_watch *watch = container_of(entry, struct mpa2_watch, entry);

	watch->wake(watch);
	return 0;
}

/**
 * mpa2_watch_start() - hear of all that happens at a socket
 * @watch: until mpa2_watch_stop()
 * @sock: the socket
 * @wake: called for data, room, ends and errors; more often rather than less
 *
 * Context: any.
 */
void mpa2_watch_start(struct mpa2_watch *watch, struct socket *sock,
		      void (*wake)(struct mpa2_watch *watch))
{
	watch->wake = wake;
	init_waitqueue_func_entry(&watch->entry, watch_wake);
	add_wait_queue(sk_sleep(sock->sk), &watch->entry);
}

/**
 * mpa2_watch_stop() - no more of it
 * @watch: a watch that was started
 * @sock: its socket, which is still open
 *
 * Context: any.  wake() does not run any more once this returns.
 */
void mpa2_watch_stop(struct mpa2_watch *watch, struct socket *sock)
{
	remove_wait_queue(sk_sleep(sock->sk), &watch->entry);
}

static int set_option(struct socket *sock, int level, int which, void *value, int size)
{
	return sock->ops->setsockopt(sock, level, which, KERNEL_SOCKPTR(value), size);
}

static int set_int(struct socket *sock, int which, int value)
{
	return set_option(sock, SOL_SCTP, which, &value, sizeof(value));
}

static int set_event(struct socket *sock, u16 which, bool on)
{
	struct sctp_event event = { .se_type = which, .se_on = on };

	return set_option(sock, SOL_SCTP, SCTP_EVENT, &event, sizeof(event));
}

static int set_streams(struct socket *sock, unsigned int init_timeout_ms)
{
	struct sctp_initmsg init = {
		.sinit_num_ostreams = MPA2_SCTP_STREAMS,
		.sinit_max_instreams = MPA2_SCTP_STREAMS,
		.sinit_max_init_timeo = min_t(unsigned int, init_timeout_ms, U16_MAX),
	};

	return set_option(sock, SOL_SCTP, SCTP_INITMSG, &init, sizeof(init));
}

static int set_indication(struct socket *sock)
{
	struct sctp_setadaptation adaptation = {
		.ssb_adaptation_ind = MPA2_SCTP_INDICATION_DDP,
	};

	return set_option(sock, SOL_SCTP, SCTP_ADAPTATION_LAYER, &adaptation,
			  sizeof(adaptation));
}

/* Fixed, so that what a peer can make us keep does not depend on the system. */
static void set_buffers(struct sock *sk)
{
	lock_sock(sk);
	sk->sk_userlocks |= SOCK_SNDBUF_LOCK | SOCK_RCVBUF_LOCK;
	sk->sk_sndbuf = MPA2_SCTP_SNDBUF;
	sk->sk_rcvbuf = MPA2_SCTP_RCVBUF;
	release_sock(sk);
}

static int prepare(struct socket *sock, unsigned int init_timeout_ms)
{
	static const u16 events[] = {
		SCTP_ASSOC_CHANGE, SCTP_SHUTDOWN_EVENT, SCTP_ADAPTATION_INDICATION,
	};
	unsigned int i;
	int ret;

	set_buffers(sock->sk);
	ret = set_streams(sock, init_timeout_ms);
	if (!ret)
		ret = set_indication(sock);
	if (!ret)
		ret = set_int(sock, SCTP_NODELAY, 1);
	if (!ret)
		ret = set_int(sock, SCTP_DISABLE_FRAGMENTS, 1);
	if (!ret)
		ret = set_int(sock, SCTP_RECVRCVINFO, 1);
	for (i = 0; i < ARRAY_SIZE(events) && !ret; i++)
		ret = set_event(sock, events[i], true);
	return ret;
}

/**
 * mpa2_sctp_socket() - make an SCTP socket; those it accepts are like it
 * @net: the namespace it lives in and pins
 * @local: for its address family
 * @v6only: the id's afonly
 * @init_timeout_ms: how long the retransmission of an INIT may wait, 0 for as
 *	long as the system says
 * @sock: the result
 *
 * Context: may sleep, also for modprobe.
 * Return: 0, -EPROTONOSUPPORT where the kernel has no SCTP, or -errno.
 */
int mpa2_sctp_socket(struct net *net, const struct sockaddr_storage *local,
		     bool v6only, unsigned int init_timeout_ms, struct socket **sock)
{
	struct socket *s;
	int ret;

	if (local->ss_family != AF_INET && local->ss_family != AF_INET6)
		return -EAFNOSUPPORT;
	/* kern = 0: a kernel socket would not hold its namespace. */
	ret = __sock_create(net, local->ss_family, SOCK_STREAM, IPPROTO_SCTP, &s, 0);
	if (ret)
		return ret;
	sock_set_reuseaddr(s->sk);
	ret = prepare(s, init_timeout_ms);
	if (!ret && local->ss_family == AF_INET6 && v6only)
		ret = ip6_sock_set_v6only(s->sk);
	if (ret) {
		sock_release(s);
		return ret;
	}
	*sock = s;
	return 0;
}

/**
 * mpa2_sctp_bind() - give a socket its one local address (SCTP-36)
 * @sock: a new socket
 * @local: the address; the wildcard stands for all of the namespace
 *
 * Context: may sleep.
 * Return: 0 or -errno.
 */
int mpa2_sctp_bind(struct socket *sock, const struct sockaddr_storage *local)
{
	return compat_kernel_bind(sock, local, address_size(local));
}

/**
 * mpa2_sctp_connect() - start an association, without waiting
 * @sock: a bound socket
 * @remote: the peer
 *
 * Context: may sleep.
 * Return: 0 or -errno; how it ends comes out of mpa2_sctp_receive().
 */
int mpa2_sctp_connect(struct socket *sock, const struct sockaddr_storage *remote)
{
	int ret = compat_kernel_connect(sock, remote, address_size(remote), O_NONBLOCK);

	return ret == -EINPROGRESS ? 0 : ret;
}

/**
 * mpa2_sctp_accept() - take one association, without waiting
 * @listener: a listening socket
 * @sock: the association, the caller's
 *
 * Context: may sleep for memory.
 * Return: 0, -EAGAIN when there is none, or -errno.
 */
int mpa2_sctp_accept(struct socket *listener, struct socket **sock)
{
	return kernel_accept(listener, sock, O_NONBLOCK);
}

/* Its only one; none once it is gone.  Socket lock held. */
static struct sctp_association *association_of(struct sock *sk)
{
	return list_first_entry_or_null(&sctp_sk(sk)->ep->asocs,
					struct sctp_association, asocs);
}

static void copy_address(struct sockaddr_storage *to, const union sctp_addr *from,
			 u16 port)
{
	memset(to, 0, sizeof(*to));
	if (from->sa.sa_family == AF_INET) {
		memcpy(to, &from->v4, sizeof(from->v4));
		((struct sockaddr_in *)to)->sin_port = htons(port);
	} else {
		memcpy(to, &from->v6, sizeof(from->v6));
		((struct sockaddr_in6 *)to)->sin6_port = htons(port);
	}
}

/**
 * mpa2_sctp_addresses() - both ends of an association, by its primary path
 * @sock: the association
 * @local: our end
 * @remote: the peer's; all zero, and so is @local, when it is gone
 *
 * A listener's children have the wildcard as their socket's name.
 *
 * Context: may sleep for the socket's lock.
 */
void mpa2_sctp_addresses(struct socket *sock, struct sockaddr_storage *local,
			 struct sockaddr_storage *remote)
{
	struct sock *sk = sock->sk;
	struct sctp_association *asoc;

	memset(local, 0, sizeof(*local));
	memset(remote, 0, sizeof(*remote));
	lock_sock(sk);
	asoc = association_of(sk);
	if (asoc && asoc->peer.primary_path) {
		copy_address(local, &asoc->peer.primary_path->saddr,
			     asoc->base.bind_addr.port);
		copy_address(remote, &asoc->peer.primary_path->ipaddr,
			     asoc->peer.port);
	}
	release_sock(sk);
}

/**
 * mpa2_sctp_chunk_room() - octets of user data that one chunk takes (SCTP-24)
 * @sock: an association that is up
 *
 * Context: may sleep for the socket's lock.
 * Return: how many, by the path's MTU as it is now; 0 when it is gone.
 */
unsigned int mpa2_sctp_chunk_room(struct socket *sock)
{
	struct sctp_association *asoc;
	unsigned int room = 0;

	lock_sock(sock->sk);
	asoc = association_of(sock->sk);
	if (asoc)
		room = asoc->frag_point;
	release_sock(sock->sk);
	return room;
}

/**
 * mpa2_sctp_ask_dry() - ask to be told when all that was sent is acknowledged
 * @sock: an association
 * @ask: false: not any more
 *
 * If it is so already, MPA2_SCTP_DRY comes at once.
 *
 * Context: may sleep for the socket's lock.
 * Return: 0 or -errno.
 */
int mpa2_sctp_ask_dry(struct socket *sock, bool ask)
{
	return set_event(sock, SCTP_SENDER_DRY_EVENT, ask);
}

/**
 * mpa2_sctp_let_fragment() - the path takes less than it did (SCTP-25)
 * @sock: an association
 *
 * The alternative is IP's fragmentation.
 *
 * Context: may sleep for the socket's lock.
 * Return: 0 or -errno.
 */
int mpa2_sctp_let_fragment(struct socket *sock)
{
	return set_int(sock, SCTP_DISABLE_FRAGMENTS, 0);
}

/**
 * mpa2_sctp_send() - send one unordered chunk, without waiting (SCTP-07)
 * @sock: an association
 * @stream: its stream
 * @ppid: its payload protocol identifier, host order
 * @octets: the user data
 * @nr: parts of it
 * @len: octets in all
 *
 * Context: may sleep for memory, not for the peer.
 * Return: 0, -EAGAIN while there is no room, -EMSGSIZE for what does not fit one
 * chunk, or -errno.
 */
int mpa2_sctp_send(struct socket *sock, u16 stream, u32 ppid, struct kvec *octets,
		   size_t nr, size_t len)
{
	u8 control[CMSG_SPACE(sizeof(struct sctp_sndinfo))]
		__aligned(__alignof__(struct cmsghdr)) = {};
	struct msghdr msg = {
		.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *head = (struct cmsghdr *)control;
	struct sctp_sndinfo *info = CMSG_DATA(head);
	int ret;

	head->cmsg_len = CMSG_LEN(sizeof(*info));
	head->cmsg_level = IPPROTO_SCTP;
	head->cmsg_type = SCTP_SNDINFO;
	info->snd_sid = stream;
	info->snd_flags = SCTP_UNORDERED;
	info->snd_ppid = (__force __u32)htonl(ppid);
	ret = kernel_sendmsg(sock, &msg, octets, nr, len);
	if (ret < 0)
		return ret;
	return ret == len ? 0 : -EIO;
}

static void read_change(const void *octets, struct mpa2_sctp_message *message)
{
	const struct sctp_assoc_change *change = octets;

	switch (change->sac_state) {
	case SCTP_COMM_UP:
		message->kind = MPA2_SCTP_UP;
		message->streams_in = change->sac_inbound_streams;
		message->streams_out = change->sac_outbound_streams;
		break;
	case SCTP_SHUTDOWN_COMP:
		message->kind = MPA2_SCTP_SHUTDOWN;
		break;
	default:
		/* A peer that has begun anew knows nothing of our sessions. */
		message->kind = MPA2_SCTP_LOST;
	}
}

static void read_notification(const void *octets, size_t len,
			      struct mpa2_sctp_message *message)
{
	const union sctp_notification *note = octets;

	message->kind = MPA2_SCTP_OTHER;
	if (len < sizeof(note->sn_header))
		return;
	switch (note->sn_header.sn_type) {
	case SCTP_ASSOC_CHANGE:
		if (len >= sizeof(note->sn_assoc_change))
			read_change(octets, message);
		break;
	case SCTP_ADAPTATION_INDICATION:
		if (len < sizeof(note->sn_adaptation_event))
			break;
		message->kind = MPA2_SCTP_INDICATION;
		message->indication = note->sn_adaptation_event.sai_adaptation_ind;
		break;
	case SCTP_SHUTDOWN_EVENT:
		message->kind = MPA2_SCTP_SHUTDOWN;
		break;
	case SCTP_SENDER_DRY_EVENT:
		message->kind = MPA2_SCTP_DRY;
		break;
	}
}

static void read_rcvinfo(void *control, size_t len, struct mpa2_sctp_message *message)
{
	struct msghdr found = { .msg_control = control, .msg_controllen = len };
	struct cmsghdr *cmsg;

	for_each_cmsghdr(cmsg, &found) {
		const struct sctp_rcvinfo *info = CMSG_DATA(cmsg);

		if (!CMSG_OK(&found, cmsg) || cmsg->cmsg_level != IPPROTO_SCTP ||
		    cmsg->cmsg_type != SCTP_RCVINFO)
			continue;
		message->stream = info->rcv_sid;
		message->ppid = ntohl((__force __be32)info->rcv_ppid);
		message->unordered = info->rcv_flags & SCTP_UNORDERED;
	}
}

/**
 * mpa2_sctp_receive() - take one message or notification, without waiting
 * @sock: an association
 * @octets: where user data goes
 * @room: for so many
 * @message: what it is
 *
 * Context: may sleep for the socket's lock.
 * Return: 1 for a message, 0 at the end of the association, -EAGAIN when there
 * is nothing, or -errno.
 */
int mpa2_sctp_receive(struct socket *sock, void *octets, size_t room,
		      struct mpa2_sctp_message *message)
{
	u8 control[CMSG_SPACE(sizeof(struct sctp_rcvinfo))]
		__aligned(__alignof__(struct cmsghdr));
	struct kvec vec = { .iov_base = octets, .iov_len = room };
	struct msghdr msg = {
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	int ret = kernel_recvmsg(sock, &msg, &vec, 1, room, MSG_DONTWAIT);

	memset(message, 0, sizeof(*message));
	if (ret == -ENOTCONN && READ_ONCE(sock->sk->sk_state) == SCTP_SS_CLOSED)
		return 0;
	if (ret <= 0)
		return ret == -ENOTCONN ? -EAGAIN : ret;
	if (msg.msg_flags & MSG_NOTIFICATION) {
		read_notification(octets, ret, message);
		return 1;
	}
	message->kind = MPA2_SCTP_DATA;
	message->len = ret;
	message->whole = msg.msg_flags & MSG_EOR;
	read_rcvinfo(control, sizeof(control) - msg.msg_controllen, message);
	return 1;
}

/**
 * mpa2_sctp_abort() - end an association by ABORT
 * @sock: the association, gone afterwards
 *
 * Context: may sleep.
 */
void mpa2_sctp_abort(struct socket *sock)
{
	sock_no_linger(sock->sk);
	sock_release(sock);
}
