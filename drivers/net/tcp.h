/* SPDX-License-Identifier: GPL-2.0 */
/* The TCP sockets of connection set-up.  Only this part and sctp touch sockets. */
#ifndef IW_MPA2_TCP_H
#define IW_MPA2_TCP_H

#include <linux/net.h>
#include <linux/types.h>
#include <net/sock.h>

/* The callbacks of a socket that we replace, and the originals that we keep. */
struct mpa2_sock_ops {
	void (*state_change)(struct sock *sk);
	void (*data_ready)(struct sock *sk);
	void (*write_space)(struct sock *sk);
	void (*error_report)(struct sock *sk);
};

/* What a look at a socket says of its connection. */
enum mpa2_tcp_state {
	MPA2_TCP_CONNECTING = 0,
	MPA2_TCP_UP,		/* octets may come */
	MPA2_TCP_HALF_CLOSED,	/* the peer's FIN is in */
	MPA2_TCP_DOWN,		/* reset, refused or timed out */
};

/* What mpa2_tcp_install() was given; under sk_callback_lock. */
static inline void *mpa2_tcp_user_data(const struct sock *sk)
{
	lockdep_assert_held(&sk->sk_callback_lock);
	return (void *)((uintptr_t)sk->sk_user_data & SK_USER_DATA_PTRMASK);
}

int __must_check mpa2_tcp_start(void);
void mpa2_tcp_stop(void);
int __must_check mpa2_tcp_socket(struct net *net,
				 const struct sockaddr_storage *local, bool v6only,
				 u8 tos, bool tos_set, struct socket **sock);
int __must_check mpa2_tcp_bind(struct socket *sock, const struct sockaddr_storage *local);
int mpa2_tcp_connect(struct socket *sock, const struct sockaddr_storage *remote);
void mpa2_tcp_share_port(struct socket *sock);
void mpa2_tcp_keep_to(struct socket *sock, int ifindex);
int __must_check mpa2_tcp_listen(struct socket *sock, int backlog);
int __must_check mpa2_tcp_accept(struct socket *listener, struct socket **sock);
int __must_check mpa2_tcp_accept_wait(struct socket *listener, struct socket **sock);
void mpa2_tcp_addresses(struct socket *sock, struct sockaddr_storage *local,
			struct sockaddr_storage *remote);
void mpa2_tcp_prepare(struct socket *sock);

void mpa2_tcp_install(struct socket *sock, const struct mpa2_sock_ops *ops,
		      void *user_data, struct mpa2_sock_ops *saved);
void mpa2_tcp_restore(struct socket *sock, const struct mpa2_sock_ops *saved);

enum mpa2_tcp_state mpa2_tcp_state(struct socket *sock);
int __must_check mpa2_tcp_error(struct socket *sock);
int __must_check mpa2_tcp_send(struct socket *sock, const void *octets, size_t len);
int __must_check mpa2_tcp_receive(struct socket *sock, void *octets, size_t len);
int __must_check mpa2_tcp_peek(struct socket *sock, void *octets, size_t len);
u32 mpa2_tcp_queued(struct socket *sock);
void mpa2_tcp_want(struct socket *sock, u32 octets);
int mpa2_tcp_discard(struct socket *sock);
void mpa2_tcp_shutdown(struct socket *sock);
void mpa2_tcp_close(struct socket *sock);
void mpa2_tcp_reset(struct socket *sock);

#endif /* IW_MPA2_TCP_H */
