/* SPDX-License-Identifier: GPL-2.0 */
/* One connection as its machine sees it: what struct mpa2_conn holds. */
#ifndef IW_MPA2_CORE_CONN_H
#define IW_MPA2_CORE_CONN_H

#include <iw_mpa2/core.h>

namespace mpa2
{

enum class State : uint8_t {
	kIdle = MPA2_ST_IDLE,
	kTcp = MPA2_ST_TCP,
	kWaitHeader = MPA2_ST_W_HDR,
	kWaitData = MPA2_ST_W_PD,
	kCheck = MPA2_ST_CHECK,
	kRtr = MPA2_ST_RTR,
	kUlp = MPA2_ST_ULP,
	kBind = MPA2_ST_BIND,
	kWaitFpdu = MPA2_ST_W_FPDU,
	kEstablished = MPA2_ST_EST,
	kRejected = MPA2_ST_REJ,
	kTerminated = MPA2_ST_TERM,
	kClosed = MPA2_ST_CLOSED,
};

struct Conn {
	mpa2_policy policy;
	mpa2_enhanced request; /* initiator: sent, responder: received */
	mpa2_enhanced reply;   /* the other way round */
	uint32_t ulp_ird;
	uint32_t ulp_ord;
	uint32_t fpdu_wanted;
	uint16_t rx_len;
	uint16_t rx_total; /* of the frame, 20 until that is known */
	uint16_t tx_len;
	uint16_t local_ird;
	uint16_t local_ord;
	uint16_t ulp_pd_offset; /* in rx */
	uint16_t ulp_pd_len;
	uint16_t frame_len; /* of the peer's frame, once it is whole */
	State state;
	uint8_t role;
	uint8_t rev;
	uint8_t enhanced;
	uint8_t peer_to_peer;
	uint8_t rtr;
	uint8_t crc;
	uint8_t peer_crc; /* the C bit that the reply answers */
	uint8_t peer_reject;
	uint8_t peer_data;
	uint8_t peer_gone; /* responder: the end came while the ULP decides */
	uint8_t retried;
	uint8_t told;    /* responder: ESTABLISHED was reported */
	uint8_t failure; /* reported once the Terminate is out, */
	uint8_t failing; /* if it was not reported yet */
	uint8_t terminate;
	uint8_t cause;
	uint8_t first_fpdu;
	uint8_t first_fpdu_seen;
	uint8_t rx[MPA2_FRAME_MAX];
	uint8_t tx[MPA2_TX_MAX];
};

static_assert(sizeof(Conn) <= sizeof(mpa2_conn), "raise MPA2_CONN_WORDS in core.h");
static_assert(alignof(Conn) <= alignof(mpa2_conn));

inline Conn &ConnOf(mpa2_conn *conn)
{
	return *reinterpret_cast<Conn *>(conn->words);
}

inline const Conn &ConnOf(const mpa2_conn *conn)
{
	return *reinterpret_cast<const Conn *>(conn->words);
}

/* The actions of one event; a machine never asks for more than there is room. */
class Actions
{
public:
	explicit Actions(mpa2_actions *out) : out_(out) { out->count = 0; }

	void Add(mpa2_action_type type) { Add(type, 0); }

	void Add(mpa2_action_type type, uint32_t arg)
	{
		Put({ static_cast<uint8_t>(type), arg, nullptr, 0 });
	}

	void Send(const Conn &conn) { Put({ MPA2_ACT_SEND, 0, conn.tx, conn.tx_len }); }

	void Fail(mpa2_failure failure)
	{
		Add(MPA2_ACT_FAILED, static_cast<uint32_t>(failure));
	}

private:
	void Put(const mpa2_action &action)
	{
		if (out_->count < MPA2_ACTIONS_MAX)
			out_->list[out_->count++] = action;
	}

	mpa2_actions *out_;
};

using Handler = void (*)(Conn &conn, const mpa2_event &event, Actions &actions);

/* One row of a machine's table; what has no row changes nothing. */
struct Transition {
	State state;
	mpa2_event_type event;
	Handler handler;
};

struct Table {
	const Transition *rows;
	size_t count;
};

Table InitiatorTable();
Table ResponderTable();

/* ---- steps that both machines share (conn.cc) ---- */

void NoteCause(Conn &conn, mpa2_cause cause);

/* Collect startup octets and parse; as mpa2_frame_parse(). */
[[nodiscard]] mpa2_status TakeOctets(Conn &conn, const mpa2_event &event, mpa2_key key,
				     mpa2_frame *frame, uint8_t *cause);

/* Close by FIN and tell the ULP. */
void CloseAndFail(Conn &conn, mpa2_cause cause, mpa2_failure failure, Actions &actions);

/* The same without a word to the ULP. */
void CloseSilently(Conn &conn, mpa2_cause cause, Actions &actions);

/* A Terminate is in tx: send it, and report the failure once it is out. */
void SendAndFail(Conn &conn, mpa2_cause cause, mpa2_failure failure, Actions &actions);

/* After the last message of ours: FIN, and T_fin for the peer's. */
void LingerForPeer(Actions &actions);

/* A Terminate of layer 2, type 0. */
void SendTerminate(Conn &conn, uint8_t code, bool markers, mpa2_cause cause,
		   mpa2_failure failure, Actions &actions);

/* Handlers of both tables. */
void OnTerminateSent(Conn &conn, const mpa2_event &event, Actions &actions);
void OnTerminateOver(Conn &conn, const mpa2_event &event, Actions &actions);
void OnRejectSent(Conn &conn, const mpa2_event &event, Actions &actions);
void OnLingerOver(Conn &conn, const mpa2_event &event, Actions &actions);

} // namespace mpa2

#endif /* IW_MPA2_CORE_CONN_H */
