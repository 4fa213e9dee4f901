// SPDX-License-Identifier: GPL-2.0
/* Words for logs and dumps. */
#include <iw_mpa2/session.h>

extern "C" const char *mpa2_cause_text(unsigned int cause)
{
	switch (cause) {
	case MPA2_CAUSE_NONE:
		return "no cause";
	case MPA2_CAUSE_BAD_KEY:
		return "not an MPA startup frame of the expected kind";
	case MPA2_CAUSE_BAD_REV:
		return "unknown MPA revision";
	case MPA2_CAUSE_PD_TOO_LONG:
		return "too much private data";
	case MPA2_CAUSE_ENHANCED_TOO_SHORT:
		return "enhanced frame without enhanced data";
	case MPA2_CAUSE_ENHANCED_OFF:
		return "enhanced set-up is switched off";
	case MPA2_CAUSE_TRAILING_OCTETS:
		return "octets behind the request";
	case MPA2_CAUSE_NOT_ENHANCED:
		return "unenhanced reply to an enhanced request";
	case MPA2_CAUSE_MARKERS:
		return "peer requires markers, which siw cannot insert";
	case MPA2_CAUSE_REJECTED:
		return "rejected by the peer";
	case MPA2_CAUSE_INSUFFICIENT_IRD:
		return "peer's ORD exceeds our IRD limit";
	case MPA2_CAUSE_NO_MATCHING_RTR:
		return "no matching RTR or connection model";
	case MPA2_CAUSE_LOCAL:
		return "local failure";
	case MPA2_CAUSE_CONNECT_FAILED:
		return "no TCP connection";
	case MPA2_CAUSE_PEER_CLOSED:
		return "closed by the peer";
	case MPA2_CAUSE_PEER_RESET:
		return "reset by the peer";
	case MPA2_CAUSE_TIMEOUT:
		return "timed out";
	case MPA2_CAUSE_ABORTED:
		return "aborted locally";
	case MPA2_CAUSE_SEND_FAILED:
		return "could not send";
	case MPA2_CAUSE_ULP_REJECT:
		return "rejected by our application";
	case MPA2_CAUSE_REQUIRED_ORD:
		return "peer's IRD is below the required ORD";
	case MPA2_CAUSE_BAD_CRC:
		return "wrong CRC in the first FPDU";
	case MPA2_CAUSE_BAD_FPDU_LENGTH:
		return "impossible length of the first FPDU";
	case MPA2_CAUSE_BAD_HEADER:
		return "wrong header in the first FPDU";
	case MPA2_CAUSE_PEER_TERMINATE:
		return "terminate message from the peer";
	case MPA2_CAUSE_ULP_PD_TOO_LONG:
		return "more private data than rdma_cm can carry";
	case MPA2_CAUSE_NOT_TAKEN:
		return "iw_cm did not take the request";
	default:
		return "unknown cause";
	}
}

extern "C" const char *mpa2_state_text(unsigned int state)
{
	switch (state) {
	case MPA2_ST_IDLE:
		return "idle";
	case MPA2_ST_TCP:
		return "tcp";
	case MPA2_ST_W_HDR:
		return "wait-header";
	case MPA2_ST_W_PD:
		return "wait-private-data";
	case MPA2_ST_CHECK:
		return "check";
	case MPA2_ST_RTR:
		return "rtr";
	case MPA2_ST_ULP:
		return "ulp";
	case MPA2_ST_BIND:
		return "bind";
	case MPA2_ST_W_FPDU:
		return "wait-first-fpdu";
	case MPA2_ST_EST:
		return "established";
	case MPA2_ST_REJ:
		return "rejected";
	case MPA2_ST_TERM:
		return "terminated";
	case MPA2_ST_CLOSED:
		return "closed";
	default:
		return "unknown";
	}
}

extern "C" const char *mpa2_rtr_text(unsigned int kind)
{
	switch (kind) {
	case MPA2_RTR_NONE:
		return "none";
	case MPA2_RTR_SEND:
		return "send";
	case MPA2_RTR_WRITE:
		return "write";
	case MPA2_RTR_READ:
		return "read";
	default:
		return "unknown";
	}
}

extern "C" const char *mpa2_function_text(unsigned int code)
{
	switch (code) {
	case MPA2_FN_INITIATE:
		return "initiate";
	case MPA2_FN_ACCEPT:
		return "accept";
	case MPA2_FN_REJECT:
		return "reject";
	case MPA2_FN_TERMINATE:
		return "terminate";
	case MPA2_FN_ENHANCED_INITIATE:
		return "enhanced-initiate";
	case MPA2_FN_ENHANCED_ACCEPT:
		return "enhanced-accept";
	case MPA2_FN_ENHANCED_REJECT:
		return "enhanced-reject";
	default:
		return "unknown";
	}
}

extern "C" const char *mpa2_session_state_text(unsigned int state)
{
	switch (state) {
	case MPA2_SS_IDLE:
		return "idle";
	case MPA2_SS_A_WAIT:
		return "wait-reply";
	case MPA2_SS_P_WAIT:
		return "ulp";
	case MPA2_SS_OPEN:
		return "open";
	case MPA2_SS_END:
		return "end";
	default:
		return "unknown";
	}
}

extern "C" const char *mpa2_chunk_fault_text(unsigned int fault)
{
	switch (fault) {
	case MPA2_CHUNK_GOOD:
		return "no fault";
	case MPA2_CHUNK_BAD_PPID:
		return "unknown payload protocol";
	case MPA2_CHUNK_SHORT:
		return "impossible length";
	case MPA2_CHUNK_PD_TOO_LONG:
		return "too much private data";
	case MPA2_CHUNK_NO_ENHANCED_DATA:
		return "enhanced chunk without enhanced data";
	case MPA2_CHUNK_BAD_CODE:
		return "unknown function code";
	case MPA2_CHUNK_OUT_OF_PLACE:
		return "chunk fits no legal sequence";
	case MPA2_CHUNK_BAD_SSN:
		return "impossible DDP-SSN";
	case MPA2_CHUNK_NO_ROOM:
		return "too much out of order";
	default:
		return "unknown fault";
	}
}
