/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Differences between kernels; the only place that asks for a version.  The
 * rest is written for the newest kernel.
 */
#ifndef IW_MPA2_COMPAT_H
#define IW_MPA2_COMPAT_H

#include <linux/net.h>
#include <linux/netdevice.h>
#include <linux/socket.h>
#include <linux/version.h>
#include <rdma/ib_verbs.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "iw_mpa2 needs Linux 6.1 or newer"
#endif

/* 7.0: proto_ops and the kernel_* helpers take struct sockaddr_unsized. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
#define compat_sockaddr(addr) ((struct sockaddr_unsized *)(addr))
#else
#define compat_sockaddr(addr) ((struct sockaddr *)(addr))
#endif

static inline int compat_kernel_bind(struct socket *sock,
				     const struct sockaddr_storage *addr,
				     int size)
{
	struct sockaddr_storage copy = *addr;

	return kernel_bind(sock, compat_sockaddr(&copy), size);
}

static inline int compat_kernel_connect(struct socket *sock,
					const struct sockaddr_storage *addr,
					int size, int flags)
{
	struct sockaddr_storage copy = *addr;

	return kernel_connect(sock, compat_sockaddr(&copy), size, flags);
}

/* 6.10: __assign_str() knows the source itself. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
#define compat_assign_str(field, source) __assign_str(field)
#else
#define compat_assign_str(field, source) __assign_str(field, source)
#endif

/* Exported by ib_core, but declared in its private header only. */
int ib_port_register_client_groups(struct ib_device *ibdev, u32 port_num,
				   const struct attribute_group **groups);
void ib_port_unregister_client_groups(struct ib_device *ibdev, u32 port_num,
				      const struct attribute_group **groups);

#endif /* IW_MPA2_COMPAT_H */
