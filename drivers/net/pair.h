/* SPDX-License-Identifier: GPL-2.0 */
/* A pair of connected TCP sockets within one namespace. */
#ifndef IW_MPA2_PAIR_H
#define IW_MPA2_PAIR_H

#include <linux/net.h>

#include "tcp.h"

/* Of TCP's own; below it a segment would not be what it is here for. */
#define MPA2_PAIR_MSS_MAX 32767u

int __must_check mpa2_pair_open(struct net *net, unsigned int mss,
				struct socket **outer, struct socket **inner);

#endif /* IW_MPA2_PAIR_H */
