/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connection establishment between an initiator and a responder, each with its
 * machine (drivers/core), its shell (drivers/iwcm), its ULP and iw_cm's rules.
 * README.rst says what is modelled and what is not.
 *
 * ROW_I and ROW_R are the rows of the two machines: in this state, on this
 * event, that is the next state and these are the actions.  Every row that a
 * search takes is noted and printed at its end; scripts/test-model compares
 * them with what the core does.
 *
 * What is searched is set in the environment, see configure() below.
 */

#define ROOM 4		/* messages under way in one direction */

/* The number of the claim is read from the text that the verifier prints. */
#define CLAIM(number, condition) assert(number == 0 || (condition))

#define ST_IDLE 0
#define ST_TCP 1
#define ST_W_HDR 2
#define ST_W_PD 3
#define ST_CHECK 4
#define ST_RTR 5
#define ST_ULP 6
#define ST_BIND 7
#define ST_W_FPDU 8
#define ST_EST 9
#define ST_REJ 10
#define ST_TERM 11
#define ST_CLOSED 12

#define EV_START 0
#define EV_CONNECTED 1
#define EV_CONNECT_FAILED 2
#define EV_OCTETS 3
#define EV_FPDU 4
#define EV_EOF 5
#define EV_RESET 6
#define EV_TIMER 7
#define EV_ACCEPT 8
#define EV_REJECT 9
#define EV_ABORT 10
#define EV_BOUND 11
#define EV_LOCAL_FAILURE 12
#define EV_SENT 13
#define EV_SEND_FAILED 14
#define EV_NR 15	/* none */

/* Actions: a set, since their order is always the same one. */
#define ACT_CONNECT (1 << 1)
#define ACT_SEND (1 << 2)
#define ACT_ARM_TIMER (1 << 3)
#define ACT_STOP_TIMER (1 << 4)
#define ACT_CONNECT_REQUEST (1 << 5)
#define ACT_BIND (1 << 6)
#define ACT_CONSUME (1 << 7)
#define ACT_OPEN_FENCE (1 << 8)
#define ACT_ESTABLISHED (1 << 9)
#define ACT_REJECTED (1 << 10)
#define ACT_FAILED (1 << 11)
#define ACT_SHUTDOWN (1 << 12)
#define ACT_CLOSE (1 << 13)
#define ACT_RESET (1 << 14)

#define CLOSE_SILENTLY (ACT_STOP_TIMER | ACT_CLOSE)
#define CLOSE_AND_FAIL (CLOSE_SILENTLY | ACT_FAILED)
#define LINGER (ACT_SHUTDOWN | ACT_ARM_TIMER)
#define HAS(action) ((acts & (action)) != 0)

c_decl {
\#include <iw_mpa2/core.h>

#define SAME(name) _Static_assert(MPA2_##name == name, #name)
#define SAME_ACT(name) _Static_assert(1 << MPA2_ACT_##name == ACT_##name, #name)
	SAME(ST_IDLE); SAME(ST_TCP); SAME(ST_W_HDR); SAME(ST_W_PD); SAME(ST_CHECK);
	SAME(ST_RTR); SAME(ST_ULP); SAME(ST_BIND); SAME(ST_W_FPDU); SAME(ST_EST);
	SAME(ST_REJ); SAME(ST_TERM); SAME(ST_CLOSED);
	SAME(EV_START); SAME(EV_CONNECTED); SAME(EV_CONNECT_FAILED); SAME(EV_OCTETS);
	SAME(EV_FPDU); SAME(EV_EOF); SAME(EV_RESET); SAME(EV_TIMER); SAME(EV_ACCEPT);
	SAME(EV_REJECT); SAME(EV_ABORT); SAME(EV_BOUND); SAME(EV_LOCAL_FAILURE);
	SAME(EV_SENT); SAME(EV_SEND_FAILED); SAME(EV_NR);
	SAME_ACT(CONNECT); SAME_ACT(SEND); SAME_ACT(ARM_TIMER); SAME_ACT(STOP_TIMER);
	SAME_ACT(CONNECT_REQUEST); SAME_ACT(BIND); SAME_ACT(CONSUME);
	SAME_ACT(OPEN_FENCE); SAME_ACT(ESTABLISHED); SAME_ACT(REJECTED);
	SAME_ACT(FAILED); SAME_ACT(SHUTDOWN); SAME_ACT(CLOSE); SAME_ACT(RESET);

	/* The rows taken, each once. */
	static unsigned int rows[1000], nr_rows;

	static void note_row(int role, int enhanced, int p2p, int state, int event,
			     int next, int actions)
	{
		unsigned int row, i;

		row = role << 29 | p2p << 28 | enhanced << 27 | state << 23 | event << 19 |
		      next << 15 | actions;
		for (i = 0; i < nr_rows; i++)
			if (rows[i] == row)
				return;
		if (nr_rows == sizeof(rows) / sizeof(rows[0]))
			abort();
		rows[nr_rows++] = row;
	}

	/* Role, enhanced set-up, peer-to-peer, state, event, next state, actions. */
	static void print_rows(void)
	{
		unsigned int i;

		for (i = 0; i < nr_rows; i++)
			printf("ROW %u %u %u %u %u %u %u\n", rows[i] >> 29,
			       rows[i] >> 27 & 1, rows[i] >> 28 & 1, rows[i] >> 23 & 15,
			       rows[i] >> 19 & 15, rows[i] >> 15 & 15, rows[i] & 0x7fff);
	}

	static int configured(const char *name)
	{
		const char *value = getenv(name);

		return value ? atoi(value) : 0;
	}
}

/* What the ends are set to; the same in all states of one search. */
byte want_rtr;		/* P2P: the RTR kind as in core.h, 0 is client-server */
bool rev1;		/* REV1: the initiator begins with Rev 1 */
/* FALLBACK: it may fall back to Rev 1; the ULPs then do no work, for there are
 * two responders to search.
 */
bool fallback;
byte disturbances;	/* DISTURBANCES: cuts, aborts and second answers in one run */
bool fence_p2p;		/* FENCE_P2P: fence=p2p, else fence=always */
byte fault;		/* FAULT: one built in, which has to be found */

inline configure()
{
	c_code {
		now.want_rtr = configured("P2P");
		now.rev1 = configured("REV1");
		now.fallback = configured("FALLBACK");
		now.disturbances = configured("DISTURBANCES");
		now.fence_p2p = configured("FENCE_P2P");
		now.fault = configured("FAULT");
		if (!nr_rows)
			atexit(print_rows);
	}
}

/* What is under way on TCP. */
mtype = { REQUEST_1, REQUEST_2, ACCEPT, REJECT, RTR_SEND, RTR_WRITE, RTR_READ, RESPONSE,
	  DATA, TERMINATE, FIN, RST };
/* iw_cm's states of an id, as far as events of a provider depend on them. */
mtype = { IW_IDLE, IW_SENT, IW_RECV, IW_ESTABLISHED, IW_CLOSING };
mtype = { QP_IDLE, QP_RTS, QP_ERROR };
mtype = { NO_TIMER, CORE_TIMER, DELIVER_TIMER };

/* Of the event that is being handled; all 0 between events. */
byte ev, from;
short acts;
mtype message;

/* ---- TCP: connection 0, and 1 for the Rev 1 retry ---- */

chan to_i[2] = [ROOM] of { mtype };
chan to_r[2] = [ROOM] of { mtype };
/* Nothing more gets through: behind FIN or RST, or because the path is dead. */
bool cut_i[2], cut_r[2];
bool accepted[2];	/* TCP is up at the responder's side */

#define IS_OCTETS(c) (nempty(c) && !c?[FIN] && !c?[RST])
#define NO_OCTETS(c) (empty(c) || c?[FIN] || c?[RST])

inline put(c, cut, what)
{
	if
	:: cut -> skip
	:: else ->
		CLAIM(5, nfull(c));
		c!what
	fi
}

inline drain(c)
{
	do
	:: nempty(c) -> c?_
	:: empty(c) -> break
	od
}

/* Unread octets make TCP send RST in the place of FIN. */
inline close_tcp(out, cut_out, in, cut_in, as_reset)
{
	if
	:: cut_out -> skip
	:: else ->
		if
		:: as_reset || IS_OCTETS(in) -> out!RST
		:: !(as_reset) && NO_OCTETS(in) -> out!FIN
		fi;
		cut_out = true
	fi;
	cut_in = true;
	drain(in)
}

/* ---- the initiator ---- */

byte ist = ST_IDLE, inext = EV_NR;
mtype itimer = NO_TIMER, iqp = QP_IDLE, iiw = IW_IDLE;
byte att;		/* which connection */
bool enhanced, p2p_asked;
bool any_octet, more_octets; /* of a Reply */
bool retried;
bool failing;		/* to be reported once the Terminate is out */
bool iin_op, iop_error;
bool iclosed;		/* the endpoint is done: over, or siw's */
bool igiven;		/* siw owns it */
bool ireplied;
bool iabort;
bool iposted, rtr_out;
bool connect_returned, connect_failed;

#define ROW_I(state, event) (ist == ST_##state && ev == EV_##event)
#define GO_I(next, actions) ist = ST_##next; acts = (actions)

inline raise_reply(good)
{
	CLAIM(1, iiw == IW_SENT && !ireplied);
	ireplied = true;
	iiw = (good -> IW_ESTABLISHED : IW_IDLE)
}

inline i_terminate(actions)
{
	GO_I(TERM, (actions) | ACT_SEND);
	message = TERMINATE;
	failing = true
}

/* A close with no octet of a Reply may be answered with one retry in Rev 1. */
inline i_loss()
{
	if
	:: fallback && (enhanced || fault == 61) && !any_octet ->
		GO_I(TCP, ACT_CONNECT | ACT_ARM_TIMER);
		retried = true;
		enhanced = false;
		p2p_asked = false
	:: else -> GO_I(CLOSED, CLOSE_AND_FAIL)
	fi
}

inline i_terminated()
{
	if
	:: failing -> GO_I(CLOSED, CLOSE_AND_FAIL); failing = false
	:: else -> GO_I(CLOSED, CLOSE_SILENTLY)
	fi
}

/* A whole Reply is in. */
inline i_take_reply()
{
	any_octet = true;
	if
	:: to_i[att]?[REJECT] ->
		to_i[att]?_;
		GO_I(REJ, ACT_STOP_TIMER | ACT_REJECTED | LINGER)
	:: to_i[att]?[ACCEPT] ->
		to_i[att]?_;
		if
		:: i_terminate(ACT_STOP_TIMER)	/* IRD, RTR kind or Markers */
		:: p2p_asked ->
			GO_I(RTR, ACT_STOP_TIMER | ACT_SEND);
			message = (want_rtr == 1 -> RTR_SEND :
				   (want_rtr == 2 -> RTR_WRITE : RTR_READ))
		:: !p2p_asked -> GO_I(CHECK, ACT_STOP_TIMER | ACT_BIND)
		/* A plain Reply to an enhanced Request. */
		:: enhanced -> GO_I(CLOSED, CLOSE_AND_FAIL)
		fi
	fi
}

inline initiator_row()
{
	if
	:: ROW_I(IDLE, START) ->
		if
		:: GO_I(TCP, ACT_CONNECT | ACT_ARM_TIMER)
		:: GO_I(CLOSED, ACT_FAILED)
		fi

	:: ROW_I(TCP, CONNECTED) ->
		accepted[att] = true;
		GO_I(W_HDR, ACT_SEND | ACT_ARM_TIMER);
		message = (enhanced -> REQUEST_2 : REQUEST_1)
	:: ROW_I(TCP, CONNECT_FAILED) -> GO_I(CLOSED, CLOSE_AND_FAIL)
	:: ROW_I(TCP, TIMER) -> GO_I(CLOSED, ACT_RESET | ACT_FAILED)
	:: ROW_I(TCP, ABORT) -> GO_I(CLOSED, CLOSE_AND_FAIL)

	:: ROW_I(W_HDR, OCTETS) ->
		if
		:: !any_octet -> any_octet = true; GO_I(W_HDR, 0)
		:: any_octet = true; GO_I(W_PD, 0)
		:: any_octet = true; GO_I(CLOSED, CLOSE_AND_FAIL)	/* not a Reply */
		/* A Reply without private data is not enhanced: only a reject may be. */
		:: !enhanced || to_i[att]?[REJECT] -> i_take_reply()
		fi
	:: ROW_I(W_HDR, EOF) -> i_loss()
	:: ROW_I(W_HDR, RESET) -> i_loss()
	:: ROW_I(W_HDR, SEND_FAILED) -> i_loss()
	:: ROW_I(W_HDR, TIMER) -> GO_I(CLOSED, ACT_RESET | ACT_FAILED)
	:: ROW_I(W_HDR, ABORT) -> GO_I(CLOSED, CLOSE_AND_FAIL)

	:: ROW_I(W_PD, OCTETS) ->
		if
		:: !more_octets -> more_octets = true; GO_I(W_PD, 0)
		:: i_take_reply()
		fi
	:: ROW_I(W_PD, EOF) -> i_loss()
	:: ROW_I(W_PD, RESET) -> i_loss()
	:: ROW_I(W_PD, TIMER) -> GO_I(CLOSED, ACT_RESET | ACT_FAILED)
	:: ROW_I(W_PD, ABORT) -> GO_I(CLOSED, CLOSE_AND_FAIL)

	:: ROW_I(RTR, SENT) -> rtr_out = true; GO_I(CHECK, ACT_BIND)
	:: ROW_I(RTR, SEND_FAILED) -> GO_I(CLOSED, CLOSE_AND_FAIL)
	:: ROW_I(RTR, ABORT) -> GO_I(CLOSED, CLOSE_AND_FAIL)

	:: ROW_I(CHECK, BOUND) -> GO_I(EST, ACT_ESTABLISHED)
	:: ROW_I(CHECK, LOCAL_FAILURE) ->
		if
		:: enhanced -> i_terminate(0)
		:: else -> GO_I(CLOSED, CLOSE_AND_FAIL)
		fi
	:: ROW_I(CHECK, ABORT) -> GO_I(CLOSED, CLOSE_AND_FAIL)

	:: ROW_I(REJ, EOF) -> GO_I(CLOSED, CLOSE_SILENTLY)
	:: ROW_I(REJ, RESET) -> GO_I(CLOSED, CLOSE_SILENTLY)
	:: ROW_I(REJ, TIMER) -> GO_I(CLOSED, CLOSE_SILENTLY)
	:: ROW_I(REJ, ABORT) -> GO_I(CLOSED, CLOSE_SILENTLY)

	:: ROW_I(TERM, SENT) -> failing = false; GO_I(TERM, LINGER | ACT_FAILED)
	:: ROW_I(TERM, SEND_FAILED) -> i_terminated()
	:: ROW_I(TERM, EOF) -> i_terminated()
	:: ROW_I(TERM, RESET) -> i_terminated()
	:: ROW_I(TERM, TIMER) -> i_terminated()
	:: ROW_I(TERM, ABORT) -> i_terminated()

	:: else -> ev = EV_NR	/* no row: changes nothing */
	fi
}

/* connect() and the report of a failure: an error, or an event. */
inline i_report()
{
	if
	:: iin_op -> iop_error = true
	:: else ->
		if
		:: fault != 11 -> raise_reply(false)
		:: else		/* not reported */
		fi;
		if
		:: fault == 10 -> raise_reply(false)	/* reported twice */
		:: else
		fi
	fi
}

/* A timer that was forgotten. */
#define I_NOT_ARMED (fault == 51 && ist == ST_REJ || fault == 53 && ist == ST_W_HDR || \
		     fault == 54 && ist == ST_TCP)

/* The shell carries out what the machine wants. */
inline i_act()
{
	d_step {
		if
		:: HAS(ACT_STOP_TIMER | ACT_RESET) -> itimer = NO_TIMER
		:: else
		fi;
		if
		:: HAS(ACT_REJECTED) -> raise_reply(false)
		:: else
		fi;
		if
		:: HAS(ACT_ESTABLISHED) ->
			raise_reply(true);
			igiven = true;
			iclosed = true
		:: else
		fi
	};
	if
	:: HAS(ACT_CONNECT) ->
		if
		:: retried ->
			close_tcp(to_r[att], cut_r[att], to_i[att], cut_i[att], true);
			att = 1;
			if
			:: fault == 61 ->
				cut_r[1] = false; cut_i[1] = false;
				drain(to_r[1]); drain(to_i[1])
			:: else
			fi
		:: else
		fi;
		if
		:: true
		:: inext = EV_CONNECT_FAILED
		fi
	:: else
	fi;
	if
	:: HAS(ACT_SEND) && !(fault == 30 && ist == ST_RTR) ->
		if
		:: put(to_r[att], cut_r[att], message); inext = EV_SENT
		:: inext = EV_SEND_FAILED
		fi
	/* The QP goes to RTS before the RTR is out. */
	:: HAS(ACT_SEND) && fault == 30 && ist == ST_RTR -> iqp = QP_RTS; inext = EV_SENT
	:: else
	fi;
	if
	:: HAS(ACT_BIND) ->
		if
		:: iqp = QP_RTS; inext = EV_BOUND
		:: inext = EV_LOCAL_FAILURE
		fi
	:: else
	fi;
	d_step {
		if
		:: HAS(ACT_SHUTDOWN) ->
			put(to_r[att], cut_r[att], FIN);
			cut_r[att] = true
		:: else
		fi;
		if
		:: HAS(ACT_ARM_TIMER) ->
			itimer = (I_NOT_ARMED -> NO_TIMER : CORE_TIMER)
		:: else
		fi;
		if
		:: HAS(ACT_CLOSE | ACT_RESET) ->
			close_tcp(to_r[att], cut_r[att], to_i[att], cut_i[att],
				  HAS(ACT_RESET));
			iclosed = true
		:: else
		fi;
		if
		:: HAS(ACT_FAILED) ->
			if
			:: iqp == QP_RTS -> iqp = QP_ERROR
			:: else
			fi;
			i_report()
		:: else
		fi
	}
}

/* siw, once the connection is its own; in_use keeps it away until then. */
#define I_SIWS (iqp == QP_RTS && (igiven || fault == 21))

inline i_siw_ends()
{
	close_tcp(to_r[att], cut_r[att], to_i[att], cut_i[att], false);
	iqp = QP_ERROR;
	CLAIM(2, ireplied && iiw == IW_ESTABLISHED);
	iiw = IW_IDLE
}

#define I_FREE (inext == EV_NR && !iclosed)
#define I_READS_FRAMES (ist == ST_W_HDR || ist == ST_W_PD)
#define I_LINGERS (ist == ST_REJ || ist == ST_TERM)

proctype Initiator()
{
end:	do
	:: atomic {
		if
		:: inext != EV_NR && !iclosed -> ev = inext; inext = EV_NR
		:: ist == ST_IDLE -> ev = EV_START; iin_op = true; iiw = IW_SENT
		:: I_FREE && ist == ST_TCP && !cut_r[att] -> ev = EV_CONNECTED
		:: I_FREE && ist == ST_TCP && !cut_r[att] -> ev = EV_CONNECT_FAILED
		:: I_FREE && I_READS_FRAMES && IS_OCTETS(to_i[att]) -> ev = EV_OCTETS
		:: I_FREE && (I_READS_FRAMES || I_LINGERS) && to_i[att]?[FIN] ->
			to_i[att]?_; ev = EV_EOF
		:: I_FREE && (I_READS_FRAMES || I_LINGERS) && to_i[att]?[RST] ->
			to_i[att]?_; ev = EV_RESET
		:: I_FREE && itimer == CORE_TIMER -> itimer = NO_TIMER; ev = EV_TIMER
		:: iabort && !iclosed && ist != ST_IDLE ->
			iabort = false; inext = EV_NR; ev = EV_ABORT
		fi;
		from = ist;
		initiator_row();
		if
		:: ev != EV_NR ->
			c_code {
				note_row(MPA2_INITIATOR, now.enhanced, now.p2p_asked,
					 now.from, now.ev, now.ist, now.acts);
			};
			i_act()
		:: else
		fi;
		d_step {
			ev = EV_START; from = 0; acts = 0; message = 0;
			if
			:: iin_op && inext == EV_NR ->
				/* connect returns: 0 and one event, or an error and none. */
				iin_op = false;
				connect_returned = true;
				connect_failed = iop_error;
				if
				:: iop_error -> CLAIM(1, !ireplied); iiw = IW_IDLE; iclosed = true
				:: else
				fi
			:: else
			fi;
			if
			:: iclosed -> inext = EV_NR; iabort = false; itimer = NO_TIMER
			:: else
			fi
		}
	   }
	/* Lingering reads and forgets. */
	:: atomic { I_FREE && I_LINGERS && IS_OCTETS(to_i[att]) -> to_i[att]?_ }
	:: atomic { I_SIWS && IS_OCTETS(to_i[att]) ->
		if
		:: to_i[att]?[TERMINATE] -> i_siw_ends()
		:: else ->
			/* A p2p responder is silent until it has the RTR. */
			CLAIM(3, !p2p_asked || rtr_out);
			to_i[att]?_
		fi }
	:: atomic { I_SIWS && (to_i[att]?[FIN] || to_i[att]?[RST]) -> i_siw_ends() }
	od
}

proctype InitiatorUlp()
{
	/* From RTS on the QP takes work, heard of or not; or the ULP is silent. */
end:	do
	:: atomic { iqp == QP_RTS && !iposted && !fallback ->
		iposted = true;
		put(to_r[att], cut_r[att], DATA) }
	:: atomic { igiven && iqp == QP_RTS && !fallback -> i_siw_ends() }
	:: atomic { iclosed -> break }
	od
}

/* ---- a responder, one for each TCP connection ---- */

byte rst[2] = ST_IDLE, rnext[2] = EV_NR;
mtype rtimer[2] = NO_TIMER, rqp[2] = QP_IDLE, riw[2] = IW_IDLE;
byte ask[2] = EV_NR;	/* the ULP's answer to iw_cm */
bool asked_enhanced[2], p2p[2]; /* the Request */
bool peer_gone[2], input_seen[2], rfailing[2];
bool part[2], part_pd[2], part_fpdu[2];
bool up[2];		/* siw has the socket, the fence is closed */
bool released[2];	/* siw has let go behind the fence */
bool raised[2], answered[2], delivered[2], waits_turn[2];
bool in_op[2], op_error[2], has_id[2], silent[2];
bool told[2];		/* ESTABLISHED is out */
bool rclosed[2], rgiven[2];
bool rabort[2], again[2];
bool fpdu_in[2];	/* the initiator's first FPDU has come in */
bool posted[2], held[2];
byte sent[2], flushed[2]; /* how often */
bool accept_ok[2], returned[2];

#define ROW_R(state, event) (rst[k] == ST_##state && ev == EV_##event)
#define GO_R(next, actions) rst[k] = ST_##next; acts = (actions)

inline r_reject(actions)
{
	GO_R(REJ, (actions) | ACT_SEND);
	message = REJECT
}

/* A whole Request is in. */
inline r_take_request()
{
	if
	/* With octets behind it: AMB-19. */
	:: GO_R(CLOSED, CLOSE_SILENTLY)
	:: true ->
		asked_enhanced[k] = to_r[k]?[REQUEST_2];
		p2p[k] = (asked_enhanced[k] && want_rtr != 0);
		if
		:: r_reject(ACT_STOP_TIMER)	/* Markers */
		:: GO_R(ULP, ACT_STOP_TIMER | ACT_CONNECT_REQUEST)
		fi
	fi;
	to_r[k]?_
}

inline r_establish(actions)
{
	GO_R(EST, (actions) | ACT_OPEN_FENCE | (told[k] -> 0 : ACT_ESTABLISHED))
}

/* The first FPDU is whole, or a part of it is. */
inline r_take_fpdu()
{
	/* On the wire nothing of the initiator's comes before its RTR. */
	CLAIM(3, !p2p[k] || !to_r[k]?[DATA]);
	if
	:: !part_fpdu[k] -> part_fpdu[k] = true; GO_R(W_FPDU, 0)
	:: GO_R(CLOSED, CLOSE_AND_FAIL)		/* CRC or length */
	:: fpdu_in[k] = true;
		if
		:: to_r[k]?[TERMINATE] -> GO_R(CLOSED, CLOSE_AND_FAIL)
		:: else ->
			if
			/* Its header is wrong. */
			:: GO_R(TERM, ACT_STOP_TIMER | ACT_SEND);
				rfailing[k] = true;
				message = TERMINATE
			:: p2p[k] && (to_r[k]?[RTR_SEND] || to_r[k]?[RTR_WRITE]) ->
				r_establish(ACT_STOP_TIMER | ACT_CONSUME)
			:: p2p[k] && to_r[k]?[RTR_READ] ->
				GO_R(RTR, ACT_STOP_TIMER | ACT_CONSUME | ACT_SEND);
				message = RESPONSE
			/* Any other message, and an RTR that siw can take. */
			:: r_establish(ACT_STOP_TIMER)
			fi
		fi
	fi
}

inline r_terminated()
{
	if
	:: rfailing[k] -> GO_R(CLOSED, CLOSE_AND_FAIL); rfailing[k] = false
	:: else -> GO_R(CLOSED, CLOSE_SILENTLY)
	fi
}

inline responder_row()
{
	if
	:: ROW_R(IDLE, CONNECTED) -> GO_R(W_HDR, ACT_ARM_TIMER)

	:: ROW_R(W_HDR, OCTETS) ->
		if
		:: !part[k] -> part[k] = true; GO_R(W_HDR, 0)
		:: GO_R(W_PD, 0)
		:: GO_R(CLOSED, CLOSE_SILENTLY)		/* not a Request */
		:: to_r[k]?[REQUEST_2] ->
			/* accept_enhanced is off */
			GO_R(CLOSED, ACT_STOP_TIMER | ACT_RESET)
		:: to_r[k]?[REQUEST_1] -> r_take_request()
		fi
	:: ROW_R(W_HDR, EOF) -> GO_R(CLOSED, CLOSE_SILENTLY)
	:: ROW_R(W_HDR, RESET) -> GO_R(CLOSED, CLOSE_SILENTLY)
	:: ROW_R(W_HDR, TIMER) -> GO_R(CLOSED, CLOSE_SILENTLY)
	:: ROW_R(W_HDR, ABORT) -> GO_R(CLOSED, CLOSE_SILENTLY)

	:: ROW_R(W_PD, OCTETS) ->
		if
		:: !part_pd[k] -> part_pd[k] = true; GO_R(W_PD, 0)
		:: r_take_request()
		fi
	:: ROW_R(W_PD, EOF) -> GO_R(CLOSED, CLOSE_SILENTLY)
	:: ROW_R(W_PD, RESET) -> GO_R(CLOSED, CLOSE_SILENTLY)
	:: ROW_R(W_PD, TIMER) -> GO_R(CLOSED, CLOSE_SILENTLY)
	:: ROW_R(W_PD, ABORT) -> GO_R(CLOSED, CLOSE_SILENTLY)

	:: ROW_R(ULP, ACCEPT) ->
		if
		:: peer_gone[k] -> GO_R(CLOSED, CLOSE_AND_FAIL)
		:: else ->
			if
			:: r_reject(ACT_FAILED)	/* the policy's ORD, or too long */
			:: GO_R(BIND, ACT_BIND)
			fi
		fi
	:: ROW_R(ULP, REJECT) ->
		if
		:: peer_gone[k] -> GO_R(CLOSED, CLOSE_SILENTLY)
		:: else -> r_reject(0)
		fi
	:: ROW_R(ULP, EOF) -> peer_gone[k] = true; GO_R(ULP, 0)
	:: ROW_R(ULP, RESET) -> peer_gone[k] = true; GO_R(ULP, 0)
	:: ROW_R(ULP, ABORT) -> GO_R(CLOSED, CLOSE_SILENTLY)

	:: ROW_R(BIND, BOUND) -> GO_R(BIND, ACT_SEND); message = ACCEPT
	:: ROW_R(BIND, LOCAL_FAILURE) -> r_reject(ACT_FAILED)
	:: ROW_R(BIND, SENT) ->
		if
		:: p2p[k] && fault == 32 -> GO_R(W_FPDU, ACT_OPEN_FENCE)
		:: p2p[k] && fault != 32 -> GO_R(W_FPDU, ACT_ARM_TIMER)
		:: else -> GO_R(W_FPDU, ACT_ESTABLISHED)
		fi
	:: ROW_R(BIND, SEND_FAILED) -> GO_R(CLOSED, CLOSE_AND_FAIL)
	:: ROW_R(BIND, ABORT) -> GO_R(CLOSED, CLOSE_AND_FAIL)

	:: ROW_R(W_FPDU, FPDU) -> r_take_fpdu()
	:: ROW_R(W_FPDU, EOF) -> GO_R(CLOSED, CLOSE_AND_FAIL)
	:: ROW_R(W_FPDU, RESET) -> GO_R(CLOSED, CLOSE_AND_FAIL)
	:: ROW_R(W_FPDU, TIMER) -> GO_R(CLOSED, CLOSE_AND_FAIL)
	:: ROW_R(W_FPDU, ABORT) -> GO_R(CLOSED, CLOSE_AND_FAIL)
	:: ROW_R(W_FPDU, LOCAL_FAILURE) -> GO_R(CLOSED, CLOSE_AND_FAIL)

	:: ROW_R(RTR, SENT) -> r_establish(0)
	:: ROW_R(RTR, SEND_FAILED) -> GO_R(CLOSED, CLOSE_AND_FAIL)
	:: ROW_R(RTR, ABORT) -> GO_R(CLOSED, CLOSE_AND_FAIL)

	:: ROW_R(REJ, SENT) -> GO_R(REJ, LINGER)
	:: ROW_R(REJ, SEND_FAILED) -> GO_R(CLOSED, CLOSE_SILENTLY)
	:: ROW_R(REJ, EOF) -> GO_R(CLOSED, CLOSE_SILENTLY)
	:: ROW_R(REJ, RESET) -> GO_R(CLOSED, CLOSE_SILENTLY)
	:: ROW_R(REJ, TIMER) -> GO_R(CLOSED, CLOSE_SILENTLY)
	:: ROW_R(REJ, ABORT) -> GO_R(CLOSED, CLOSE_SILENTLY)

	:: ROW_R(TERM, SENT) -> rfailing[k] = false; GO_R(TERM, LINGER | ACT_FAILED)
	:: ROW_R(TERM, SEND_FAILED) -> r_terminated()
	:: ROW_R(TERM, EOF) -> r_terminated()
	:: ROW_R(TERM, RESET) -> r_terminated()
	:: ROW_R(TERM, TIMER) -> r_terminated()
	:: ROW_R(TERM, ABORT) -> r_terminated()

	:: else -> ev = EV_NR	/* no row: changes nothing */
	fi
}

inline raise_established()
{
	CLAIM(1, riw[k] == IW_RECV && !told[k]);
	told[k] = true;
	riw[k] = IW_ESTABLISHED
}

inline raise_disconnect()
{
	CLAIM(2, told[k]);
	if
	:: riw[k] == IW_ESTABLISHED -> riw[k] = IW_CLOSING
	:: else
	fi
}

/* BUG() in any other state. */
inline raise_close()
{
	CLAIM(2, told[k] && (riw[k] == IW_ESTABLISHED || riw[k] == IW_CLOSING));
	riw[k] = IW_IDLE
}

inline flush()
{
	rqp[k] = QP_ERROR;
	if
	:: held[k] && fault == 40 -> held[k] = false
	:: held[k] && fault != 40 -> held[k] = false; flushed[k]++
	:: else
	fi
}

inline take_back()
{
	if
	:: up[k] -> up[k] = false; flush()
	:: else
	fi
}

/* accept() and the report of a failure: an error, or the events in their order. */
inline r_report()
{
	if
	:: in_op[k] && !told[k] -> op_error[k] = true
	:: else ->
		if
		:: has_id[k] && (!silent[k] || fault == 13) ->
			if
			:: !told[k] && fault != 20 -> raise_established()
			:: else
			fi;
			raise_disconnect();
			if
			:: fault != 12 -> raise_close()
			:: else		/* no CLOSE */
			fi
		:: else
		fi
	fi;
	take_back();
	has_id[k] = false
}

inline r_close(as_reset)
{
	take_back();
	close_tcp(to_i[k], cut_i[k], to_r[k], cut_r[k], as_reset);
	rclosed[k] = true
}

#define R_LINGERS (rst[k] == ST_REJ || rst[k] == ST_TERM)
#define FENCE_MAY_OPEN (fpdu_in[k] || (fence_p2p && !p2p[k]))

inline r_open_fence()
{
	/* siw may have been faster. */
	if
	:: released[k] || rqp[k] != QP_RTS -> r_report(); r_close(false)
	:: else ->
		if
		:: !told[k] -> raise_established()
		:: else
		fi;
		up[k] = false;
		has_id[k] = false;
		rgiven[k] = true;
		rclosed[k] = true;
		if
		:: held[k] && fault != 41 ->
			held[k] = (fault == 42);
			sent[k]++;
			CLAIM(3, FENCE_MAY_OPEN);
			put(to_i[k], cut_i[k], DATA)
		:: else
		fi
	fi
}

/* CONNECT_REQUEST; or it waits until those before it were raised. */
inline r_raise_request()
{
	if
	:: rnext[k] = EV_REJECT		/* iw_cm has not taken it */
	:: raised[k] = true; rtimer[k] = (fault == 52 -> NO_TIMER : DELIVER_TIMER)
	fi
}

#define R_NOT_ARMED (fault == 50 && rst[k] == ST_W_FPDU || fault == 55 && rst[k] == ST_W_HDR || \
		     fault == 56 && R_LINGERS)

inline r_act()
{
	d_step {
		if
		:: HAS(ACT_STOP_TIMER) -> rtimer[k] = NO_TIMER
		:: else
		fi;
		if
		:: HAS(ACT_CONSUME) -> to_r[k]?_
		:: else
		fi;
		if
		:: HAS(ACT_OPEN_FENCE) -> r_open_fence()
		:: else
		fi;
		if
		:: HAS(ACT_ESTABLISHED) && !told[k] && has_id[k] ->
			raise_established();
			if
			:: fence_p2p || fault == 33 -> r_open_fence()
			:: else
			fi
		:: else
		fi
	};
	if
	:: HAS(ACT_CONNECT_REQUEST) ->
		if
		:: r_raise_request()
		:: waits_turn[k] = true
		fi
	:: else
	fi;
	if
	:: HAS(ACT_SEND) ->
		if
		/* Behind the fence the socket may be gone without our doing. */
		:: !released[k] ->
			CLAIM(3, message != RESPONSE || fpdu_in[k]);
			put(to_i[k], cut_i[k], message);
			rnext[k] = EV_SENT
		:: rnext[k] = EV_SEND_FAILED
		fi
	:: else
	fi;
	if
	:: HAS(ACT_BIND) ->
		if
		:: up[k] = true; rqp[k] = QP_RTS; rnext[k] = EV_BOUND
		:: rnext[k] = EV_LOCAL_FAILURE
		fi
	:: else
	fi;
	d_step {
		if
		:: HAS(ACT_SHUTDOWN) ->
			take_back();
			if
			:: released[k] -> rclosed[k] = true
			:: else ->
				put(to_i[k], cut_i[k], FIN);
				cut_i[k] = true
			fi
		:: else
		fi;
		if
		:: HAS(ACT_ARM_TIMER) ->
			rtimer[k] = (R_NOT_ARMED -> NO_TIMER : CORE_TIMER)
		:: else
		fi;
		if
		:: HAS(ACT_CLOSE | ACT_RESET) -> r_close(HAS(ACT_RESET))
		:: else
		fi;
		if
		:: HAS(ACT_FAILED) -> r_report()
		:: else
		fi
	}
}

/* siw ends a connection: its own, or one behind a closed fence. */
inline r_siw_ends(peer)
{
	close_tcp(to_i[k], cut_i[k], to_r[k], cut_r[k], false);
	flush();
	if
	:: rgiven[k] || fault == 22 ->
		if
		:: peer -> raise_disconnect()
		:: else
		fi;
		raise_close()
	:: else -> released[k] = true
	fi
}

#define R_FREE (rnext[k] == EV_NR && !rclosed[k])
#define R_READS_FRAMES (rst[k] == ST_W_HDR || rst[k] == ST_W_PD)
#define R_WAITS_FOR_FPDU (rst[k] == ST_W_FPDU && !released[k] && !in_op[k])
#define R_SIWS (rgiven[k] && rqp[k] == QP_RTS)

proctype Responder(byte k)
{
end:	do
	:: atomic {
		if
		:: rnext[k] != EV_NR && !rclosed[k] -> ev = rnext[k]; rnext[k] = EV_NR
		:: rst[k] == ST_IDLE && accepted[k] -> ev = EV_CONNECTED
		:: R_FREE && R_READS_FRAMES && IS_OCTETS(to_r[k]) -> ev = EV_OCTETS
		:: R_FREE && R_WAITS_FOR_FPDU && IS_OCTETS(to_r[k]) -> ev = EV_FPDU
		/* No memory to look at it. */
		:: R_FREE && R_WAITS_FOR_FPDU && IS_OCTETS(to_r[k]) -> ev = EV_LOCAL_FAILURE
		:: R_FREE && (R_READS_FRAMES || R_LINGERS || R_WAITS_FOR_FPDU) &&
		   to_r[k]?[FIN] -> to_r[k]?_; ev = EV_EOF
		:: R_FREE && (R_READS_FRAMES || R_LINGERS || R_WAITS_FOR_FPDU) &&
		   to_r[k]?[RST] -> to_r[k]?_; ev = EV_RESET
		:: R_FREE && rst[k] == ST_ULP && !input_seen[k] && nempty(to_r[k]) ->
			input_seen[k] = true;
			ev = (to_r[k]?[RST] -> EV_RESET : EV_EOF)
		:: R_FREE && !in_op[k] && rtimer[k] == CORE_TIMER ->
			/* A timer that is armed again for ever, or is not. */
			rtimer[k] = (fault == 60 -> CORE_TIMER : NO_TIMER);
			ev = (fault == 60 -> EV_NR : EV_TIMER)
		/* iw_cm has dropped the request: nobody will answer it. */
		:: rnext[k] == EV_NR && rtimer[k] == DELIVER_TIMER ->
			rtimer[k] = NO_TIMER; answered[k] = true;
			ev = (rclosed[k] -> EV_NR : EV_ABORT)
		:: rabort[k] && !rclosed[k] && rst[k] != ST_IDLE ->
			rabort[k] = false; rnext[k] = EV_NR; ev = EV_ABORT
		/* A second answer: silently the end. */
		:: R_FREE && again[k] && !in_op[k] ->
			again[k] = false;
			if
			:: told[k] || riw[k] != IW_RECV || !accept_ok[k] -> ev = EV_NR
			:: else -> silent[k] = true; riw[k] = IW_IDLE; ev = EV_ABORT
			fi
		:: R_FREE && released[k] && up[k] && !in_op[k] -> ev = EV_ABORT
		/* The ops of iw_cm; the ULP is told when they return. */
		:: rnext[k] == EV_NR && ask[k] == EV_REJECT ->
			ask[k] = EV_NR; answered[k] = true; returned[k] = true;
			riw[k] = IW_IDLE;
			ev = (rclosed[k] -> EV_NR : EV_REJECT)
		:: rnext[k] == EV_NR && ask[k] == EV_ACCEPT ->
			ask[k] = EV_NR; answered[k] = true;
			if
			:: rclosed[k] -> returned[k] = true; riw[k] = IW_IDLE; ev = EV_NR
			:: !rclosed[k] ->	/* the parameters are refused */
				returned[k] = true; riw[k] = IW_IDLE; ev = EV_ABORT
			:: !rclosed[k] ->
				if
				:: nempty(to_r[k]) -> peer_gone[k] = true
				:: empty(to_r[k])
				fi;
				in_op[k] = true; has_id[k] = true; ev = EV_ACCEPT
			fi
		fi;
		from = rst[k];
		if
		:: ev != EV_NR -> responder_row()
		:: else
		fi;
		if
		:: ev != EV_NR ->
			c_code {
				note_row(MPA2_RESPONDER, now.asked_enhanced[PResponder->k],
					 now.p2p[PResponder->k], now.from, now.ev,
					 now.rst[PResponder->k], now.acts);
			};
			r_act()
		:: else
		fi;
		d_step {
			/* A request that iw_cm may never deliver is not waited for long. */
			if
			:: ev == EV_ABORT && raised[k] && !answered[k] && !delivered[k] &&
			   fault != 52 ->
				rtimer[k] = DELIVER_TIMER
			:: else
			fi;
			ev = EV_START; from = 0; acts = 0; message = 0;
			if
			:: rclosed[k] ->
				rnext[k] = EV_NR; rabort[k] = false; again[k] = false;
				waits_turn[k] = false;
				if
				:: rtimer[k] == CORE_TIMER -> rtimer[k] = NO_TIMER
				:: else
				fi
			:: else
			fi;
			if
			:: in_op[k] && rnext[k] == EV_NR ->
				/* accept returns: 0 and one ESTABLISHED, or an error and no event. */
				in_op[k] = false;
				returned[k] = true;
				accept_ok[k] = (up[k] || told[k]);
				if
				:: accept_ok[k]
				:: else ->
					CLAIM(1, !told[k]);
					riw[k] = IW_IDLE;
					has_id[k] = false
				fi
			:: else
			fi
		}
	   }
	:: atomic { R_FREE && waits_turn[k] -> waits_turn[k] = false; r_raise_request() }
	:: atomic { R_FREE && R_LINGERS && IS_OCTETS(to_r[k]) -> to_r[k]?_ }
	:: atomic { R_SIWS && IS_OCTETS(to_r[k]) ->
		fpdu_in[k] = true;
		if
		:: to_r[k]?[TERMINATE] -> r_siw_ends(true)
		:: else -> to_r[k]?_
		fi }
	:: atomic { R_SIWS && (to_r[k]?[FIN] || to_r[k]?[RST]) -> r_siw_ends(true) }
	od
}

proctype ResponderUlp(byte k)
{
	/* No request is delivered that is answered, or whose end was final. */
end:	atomic { raised[k] && !answered[k] && rnext[k] == EV_NR ->
		if
		:: goto dropped		/* by iw_cm, without a word */
		:: delivered[k] = true
		fi;
		rtimer[k] = NO_TIMER;
		riw[k] = IW_RECV;
		if
		:: ask[k] = EV_ACCEPT
		:: ask[k] = EV_REJECT	/* or the id is destroyed: iw_cm rejects */
		fi };
	do
	/* Early or not: the QP takes work from RTS on. */
	:: atomic { rqp[k] == QP_RTS && !posted[k] && !fallback ->
		posted[k] = true;
		if
		:: !rgiven[k] && fault != 31 -> held[k] = true
		:: else ->
			sent[k]++;
			CLAIM(3, FENCE_MAY_OPEN);
			put(to_i[k], cut_i[k], DATA)
		fi }
	/* The QP is destroyed or moved to ERROR, also behind the fence. */
	:: atomic { rqp[k] == QP_RTS && (up[k] || rgiven[k]) && !fallback ->
		r_siw_ends(false) }
	/* Disconnect and destroy of the id wait for ESTABLISHED. */
	:: atomic { riw[k] == IW_ESTABLISHED && rqp[k] == QP_RTS && (up[k] || rgiven[k]) &&
		    !fallback ->
		riw[k] = IW_CLOSING; r_siw_ends(false) }
	/* Or it does nothing from here on. */
	:: returned[k] -> break
	od;
dropped:
	skip
}

/* ---- what else may happen, at any moment ---- */

inline silence(c, is_cut)
{
	if
	:: true		/* what is under way arrives */
	:: nempty(c) -> drain(c)	/* or is lost with it */
	fi;
	is_cut = true
}

inline cut(c, is_cut, end_of_it)
{
	silence(c, is_cut);
	c!end_of_it
}

proctype Disturber(byte left)
{
end:	do
	:: atomic { left > 0 && accepted[att] && !cut_r[att] ->
		left--; cut(to_r[att], cut_r[att], FIN) }
	:: atomic { left > 0 && accepted[att] && !cut_i[att] ->
		left--; cut(to_i[att], cut_i[att], FIN) }
	:: atomic { left > 0 && accepted[att] && !cut_r[att] ->
		left--; cut(to_r[att], cut_r[att], RST) }
	:: atomic { left > 0 && accepted[att] && !cut_i[att] ->
		left--; cut(to_i[att], cut_i[att], RST) }
	/* Without a word, as when the other host dies; it may never have answered. */
	:: atomic { left > 0 && ist != ST_IDLE && !cut_r[att] ->
		left--; silence(to_r[att], cut_r[att]) }
	:: atomic { left > 0 && accepted[att] && !cut_i[att] ->
		left--; silence(to_i[att], cut_i[att]) }
	/* ULP, QP, listener or device goes. */
	:: atomic { left > 0 && !iclosed && !iabort && ist != ST_IDLE -> left--; iabort = true }
	:: atomic { left > 0 && !rclosed[0] && !rabort[0] && rst[0] != ST_IDLE ->
		left--; rabort[0] = true }
	:: atomic { left > 0 && !rclosed[1] && !rabort[1] && rst[1] != ST_IDLE ->
		left--; rabort[1] = true }
	/* The ULP answers a second time. */
	:: atomic { left > 0 && accept_ok[0] && !told[0] && !rclosed[0] && !again[0] ->
		left--; again[0] = true }
	:: left > 0 -> left = 0
	od
}

/* Nothing can happen any more: has everything come to its end? */
inline final_responder(k)
{
	/* A silent initiator of a client-server connection is waited for. */
	CLAIM(5, !accepted[k] || rclosed[k] ||
		 (rst[k] == ST_W_FPDU && !p2p[k] && told[k] && empty(to_r[k])));
	CLAIM(5, !raised[k] || answered[k]);
	CLAIM(1, told[k] == (accept_ok[k] && !silent[k]));
	CLAIM(1, !told[k] || riw[k] == (rqp[k] == QP_RTS -> IW_ESTABLISHED : IW_IDLE));
	CLAIM(5, riw[k] != IW_RECV);	/* else disconnect and destroy would sleep */
	CLAIM(4, posted[k] == held[k] + sent[k] + flushed[k]);
	CLAIM(4, !held[k] || (up[k] && rst[k] == ST_W_FPDU && !fence_p2p))
}

proctype Final()
{
	atomic { timeout ->
		CLAIM(5, iclosed && connect_returned);
		CLAIM(1, ireplied == !connect_failed);
		CLAIM(1, !igiven || iiw == (iqp == QP_RTS -> IW_ESTABLISHED : IW_IDLE));
		CLAIM(5, iiw != IW_SENT);
		final_responder(0);
		final_responder(1)
	}
}

init {
	atomic {
		configure();
		enhanced = !rev1;
		p2p_asked = (enhanced && want_rtr != 0);
		run Initiator();
		run InitiatorUlp();
		run Responder(0);
		run ResponderUlp(0);
		if
		:: fallback -> run Responder(1); run ResponderUlp(1)
		:: else
		fi;
		run Disturber(disturbances);
		run Final()
	}
}
