/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The SCTP sockets of DDP stream sessions, by the socket API alone: no symbol of
 * the sctp module is used, so that this module loads where that one is missing.
 */
#ifndef IW_MPA2_SCTP_H
#define IW_MPA2_SCTP_H

#include <linux/net.h>
#include <linux/types.h>
#include <linux/uio.h>
#include <net/sock.h>

/* RFC 5043: the indication of DDP (SCTP-01). */
#define MPA2_SCTP_INDICATION_DDP 1u
/* Stream pairs that we ask for: so many sessions an association has at a time. */
#define MPA2_SCTP_STREAMS 256u
/* What is in flight or not read yet is bounded by these, in octets.  The first
 * also bounds the chunks that are not acknowledged (SCTP-10): the kernel counts
 * more than 768 octets for the smallest.
 */
#define MPA2_SCTP_SNDBUF (768u << 10)
#define MPA2_SCTP_RCVBUF (1024u << 10)

/* What came out of an SCTP socket. */
enum mpa2_sctp_kind {
	MPA2_SCTP_DATA = 0,
	MPA2_SCTP_UP,		/* the association is up: streams */
	MPA2_SCTP_INDICATION,	/* the peer's adaptation indication */
	MPA2_SCTP_SHUTDOWN,	/* the peer sends no more */
	MPA2_SCTP_DRY,		/* all that was sent is acknowledged */
	MPA2_SCTP_LOST,		/* aborted, timed out, or never came up */
	MPA2_SCTP_OTHER,
};

struct mpa2_sctp_message {
	u8 kind;		/* enum mpa2_sctp_kind */
	bool whole;		/* DATA: the message ends here */
	bool unordered;		/* DATA */
	u16 stream;		/* DATA */
	u32 ppid;		/* DATA, host order */
	u32 len;		/* DATA: octets in the buffer */
	u16 streams_in, streams_out;	/* UP */
	u32 indication;		/* INDICATION */
};

/* Something happened at a socket, of TCP or SCTP: wake() is called in any
 * context, with the lock of the socket's wait queue held, and only queues.
 */
struct mpa2_watch {
	wait_queue_entry_t entry;
	void (*wake)(struct mpa2_watch *watch);
};

void mpa2_watch_start(struct mpa2_watch *watch, struct socket *sock,
		      void (*wake)(struct mpa2_watch *watch));
void mpa2_watch_stop(struct mpa2_watch *watch, struct socket *sock);

int __must_check mpa2_sctp_socket(struct net *net,
				  const struct sockaddr_storage *local, bool v6only,
				  unsigned int init_timeout_ms, struct socket **sock);
int __must_check mpa2_sctp_bind(struct socket *sock, const struct sockaddr_storage *local);
int __must_check mpa2_sctp_connect(struct socket *sock,
				   const struct sockaddr_storage *remote);
int __must_check mpa2_sctp_accept(struct socket *listener, struct socket **sock);
void mpa2_sctp_addresses(struct socket *sock, struct sockaddr_storage *local,
			 struct sockaddr_storage *remote);
unsigned int mpa2_sctp_chunk_room(struct socket *sock);
int __must_check mpa2_sctp_ask_dry(struct socket *sock, bool ask);
int mpa2_sctp_let_fragment(struct socket *sock);
int __must_check mpa2_sctp_send(struct socket *sock, u16 stream, u32 ppid,
				struct kvec *octets, size_t nr, size_t len);
int __must_check mpa2_sctp_receive(struct socket *sock, void *octets, size_t room,
				   struct mpa2_sctp_message *message);
void mpa2_sctp_abort(struct socket *sock);

#endif /* IW_MPA2_SCTP_H */
