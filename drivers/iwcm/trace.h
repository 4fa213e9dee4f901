/* SPDX-License-Identifier: GPL-2.0 */
/* Trace events iw_mpa2:*, one for everything that a handshake is made of. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM iw_mpa2

#if !defined(IW_MPA2_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define IW_MPA2_TRACE_H

#include <linux/tracepoint.h>

#include "mpa2.h"

/* What every event begins with: which connection. */
#define EP_FIELDS                                                  \
	__string(device, dev_name(&ep->dev->ibdev->dev))           \
	__field(u32, id)                                           \
	__field(bool, initiator)                                   \
	__array(u8, local, sizeof(struct sockaddr_in6))            \
	__array(u8, remote, sizeof(struct sockaddr_in6))

#define EP_ASSIGN                                                          \
	do {                                                               \
		compat_assign_str(device, dev_name(&ep->dev->ibdev->dev)); \
		__entry->id = ep->id;                                      \
		__entry->initiator = ep->role == MPA2_INITIATOR;           \
		memcpy(__entry->local, &ep->local,                         \
		       sizeof(struct sockaddr_in6));                       \
		memcpy(__entry->remote, &ep->remote,                       \
		       sizeof(struct sockaddr_in6));                       \
	} while (0)

#define EP_FORMAT "%s #%u %s %pISpc-%pISpc "
#define EP_ARGS                                                    \
	__get_str(device), __entry->id,                            \
	__entry->initiator ? "initiator" : "responder",            \
	__entry->local, __entry->remote

#define show_rtr(kinds)                                            \
	__print_flags(kinds, "+", { MPA2_RTR_SEND, "send" },       \
		      { MPA2_RTR_WRITE, "write" }, { MPA2_RTR_READ, "read" })

/* A whole Request or Reply, decoded. */
DECLARE_EVENT_CLASS(mpa2_frame_class,
	TP_PROTO(const struct mpa2_endpoint *ep, const struct mpa2_wire *wire,
		 const u8 *pd, u16 pd_len),
	TP_ARGS(ep, wire, pd, pd_len),
	TP_STRUCT__entry(
		EP_FIELDS
		__field(bool, request)
		__field(u8, rev)
		__field(bool, markers)
		__field(bool, crc)
		__field(bool, reject)
		__field(bool, enhanced)
		__field(bool, peer_to_peer)
		__field(u8, rtr)
		__field(u16, ird)
		__field(u16, ord)
		__dynamic_array(u8, pd, pd_len)
	),
	TP_fast_assign(
		EP_ASSIGN;
		__entry->request = wire->kind == MPA2_WIRE_REQUEST;
		__entry->rev = wire->frame.rev;
		__entry->markers = wire->frame.markers;
		__entry->crc = wire->frame.crc;
		__entry->reject = wire->frame.reject;
		__entry->enhanced = wire->frame.enhanced;
		__entry->peer_to_peer = wire->frame.data.peer_to_peer;
		__entry->rtr = wire->frame.data.rtr;
		__entry->ird = wire->frame.data.ird;
		__entry->ord = wire->frame.data.ord;
		memcpy(__get_dynamic_array(pd), pd, pd_len);
	),
	TP_printk(EP_FORMAT "%s rev=%u m=%d c=%d r=%d s=%d a=%d rtr=%s ird=%u ord=%u pd=%s",
		  EP_ARGS, __entry->request ? "request" : "reply", __entry->rev,
		  __entry->markers, __entry->crc, __entry->reject,
		  __entry->enhanced, __entry->peer_to_peer,
		  show_rtr(__entry->rtr), __entry->ird, __entry->ord,
		  __print_hex_str(__get_dynamic_array(pd),
				  __get_dynamic_array_len(pd)))
);

DEFINE_EVENT(mpa2_frame_class, frame_in,
	TP_PROTO(const struct mpa2_endpoint *ep, const struct mpa2_wire *wire,
		 const u8 *pd, u16 pd_len),
	TP_ARGS(ep, wire, pd, pd_len));
DEFINE_EVENT(mpa2_frame_class, frame_out,
	TP_PROTO(const struct mpa2_endpoint *ep, const struct mpa2_wire *wire,
		 const u8 *pd, u16 pd_len),
	TP_ARGS(ep, wire, pd, pd_len));

TRACE_EVENT(state,
	TP_PROTO(const struct mpa2_endpoint *ep, u8 from, u8 to),
	TP_ARGS(ep, from, to),
	TP_STRUCT__entry(
		EP_FIELDS
		__string(from, mpa2_state_text(from))
		__string(to, mpa2_state_text(to))
	),
	TP_fast_assign(
		EP_ASSIGN;
		compat_assign_str(from, mpa2_state_text(from));
		compat_assign_str(to, mpa2_state_text(to));
	),
	TP_printk(EP_FORMAT "%s -> %s", EP_ARGS, __get_str(from), __get_str(to))
);

TRACE_EVENT(rtr,
	TP_PROTO(const struct mpa2_endpoint *ep, bool sent, u8 kind),
	TP_ARGS(ep, sent, kind),
	TP_STRUCT__entry(
		EP_FIELDS
		__field(bool, sent)
		__field(u8, kind)
	),
	TP_fast_assign(
		EP_ASSIGN;
		__entry->sent = sent;
		__entry->kind = kind;
	),
	TP_printk(EP_FORMAT "rtr %s %s", EP_ARGS,
		  __entry->sent ? "sent" : "received", show_rtr(__entry->kind))
);

/* rtr: the kind that opened it, none when an ordinary message did. */
TRACE_EVENT(fence_open,
	TP_PROTO(const struct mpa2_endpoint *ep, u8 rtr, u32 closed_us),
	TP_ARGS(ep, rtr, closed_us),
	TP_STRUCT__entry(
		EP_FIELDS
		__field(u8, rtr)
		__field(u32, closed_us)
	),
	TP_fast_assign(
		EP_ASSIGN;
		__entry->rtr = rtr;
		__entry->closed_us = closed_us;
	),
	TP_printk(EP_FORMAT "fence open after %u us, rtr=%s", EP_ARGS,
		  __entry->closed_us, show_rtr(__entry->rtr))
);

TRACE_EVENT(terminate,
	TP_PROTO(const struct mpa2_endpoint *ep, bool sent,
		 const struct mpa2_wire *wire),
	TP_ARGS(ep, sent, wire),
	TP_STRUCT__entry(
		EP_FIELDS
		__field(bool, sent)
		__field(u8, layer)
		__field(u8, etype)
		__field(u8, code)
	),
	TP_fast_assign(
		EP_ASSIGN;
		__entry->sent = sent;
		__entry->layer = wire->term_layer;
		__entry->etype = wire->term_etype;
		__entry->code = wire->term_code;
	),
	TP_printk(EP_FORMAT "terminate %s %u/%u/%u", EP_ARGS,
		  __entry->sent ? "sent" : "received", __entry->layer,
		  __entry->etype, __entry->code)
);

/* The one end of every handshake, good or bad. */
TRACE_EVENT(result,
	TP_PROTO(const struct mpa2_endpoint *ep, int status, const char *cause,
		 u32 duration_us),
	TP_ARGS(ep, status, cause, duration_us),
	TP_STRUCT__entry(
		EP_FIELDS
		__field(int, status)
		__string(cause, cause)
		__field(u32, duration_us)
	),
	TP_fast_assign(
		EP_ASSIGN;
		__entry->status = status;
		compat_assign_str(cause, cause);
		__entry->duration_us = duration_us;
	),
	TP_printk(EP_FORMAT "%s status=%d after %u us: %s", EP_ARGS,
		  __entry->status ? "failed" : "established", __entry->status,
		  __entry->duration_us, __get_str(cause))
);

#undef EP_FIELDS
#undef EP_ASSIGN
#undef EP_FORMAT
#undef EP_ARGS

#endif /* IW_MPA2_TRACE_H */

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
