// SPDX-License-Identifier: GPL-2.0
#include <string.h>

#include "wire.h"

static const char request_key[] = "MPA ID Req Frame";
static const char reply_key[] = "MPA ID Rep Frame";

/* ---- startup frames ---- */

static void get_enhanced(const uint8_t *octets, struct enhanced *data)
{
	uint16_t first = get16(octets), second = get16(octets + 2);

	data->a = first & 0x8000;
	data->kinds = (uint8_t)((first & 0x4000 ? KIND_B : 0) | (second & 0x8000 ? KIND_C : 0) |
				(second & 0x4000 ? KIND_D : 0));
	data->ird = first & 0x3fff;
	data->ord = second & 0x3fff;
}

size_t put_enhanced(uint8_t *out, const struct enhanced *data)
{
	put16(out, (data->a ? 0x8000u : 0) | (data->kinds & KIND_B ? 0x4000u : 0) | data->ird);
	put16(out + 2, (data->kinds & KIND_C ? 0x8000u : 0) | (data->kinds & KIND_D ? 0x4000u : 0) |
		       data->ord);
	return ENHANCED_LEN;
}

enum parsed parse_frame(const uint8_t *octets, size_t len, bool reply, struct frame *frame)
{
	memset(frame, 0, sizeof(*frame));
	if (len < HEADER_LEN)
		return PARSED_PART;
	frame->reply = reply;
	frame->flags = octets[16];
	frame->rev = octets[17];
	frame->pd_length = get16(octets + 18);
	if (memcmp(octets, reply ? reply_key : request_key, KEY_LEN))
		frame->fault = FAULT_KEY;
	else if (frame->rev != 1 && frame->rev != 2)
		frame->fault = FAULT_REV;
	else if (frame->pd_length > PD_LENGTH_MAX)
		frame->fault = FAULT_LENGTH;
	if (frame->fault)
		return PARSED_BAD;
	frame->is_enhanced = frame->rev == 2 && frame->flags & FLAG_S;
	frame->total = (uint16_t)(HEADER_LEN + frame->pd_length);
	frame->ulp_offset = HEADER_LEN;
	frame->ulp_len = frame->pd_length;
	if (frame->is_enhanced && frame->pd_length < ENHANCED_LEN) {
		if (!reply || !(frame->flags & FLAG_R)) {
			frame->fault = FAULT_ENHANCED;
			return PARSED_BAD;
		}
		frame->ulp_len = 0;
	}
	if (len < frame->total)
		return PARSED_PART;
	if (frame->is_enhanced && frame->pd_length >= ENHANCED_LEN) {
		frame->has_data = true;
		get_enhanced(octets + HEADER_LEN, &frame->data);
		frame->ulp_offset += ENHANCED_LEN;
		frame->ulp_len = (uint16_t)(frame->ulp_len - ENHANCED_LEN);
	}
	return PARSED_WHOLE;
}

size_t put_frame(uint8_t *out, bool reply, uint8_t flags, uint8_t rev, const void *pd,
		 size_t pd_len)
{
	memcpy(out, reply ? reply_key : request_key, KEY_LEN);
	out[16] = flags;
	out[17] = rev;
	put16(out + 18, (unsigned int)pd_len);
	if (pd_len)
		memcpy(out + HEADER_LEN, pd, pd_len);
	return HEADER_LEN + pd_len;
}

/* ---- FPDUs ---- */

#define ULPDU_MAX 64768
#define TAGGED_LEN 14
#define UNTAGGED_LEN 18
#define READ_REQUEST_LEN 46
#define TERMINATE_LEN 22

uint32_t crc32c(const uint8_t *octets, size_t len)
{
	static uint32_t table[256];
	uint32_t crc = ~0u;
	size_t i;

	if (!table[1]) {
		for (i = 0; i < 256; i++) {
			uint32_t value = (uint32_t)i;
			int bit;

			for (bit = 0; bit < 8; bit++)
				value = value >> 1 ^ (value & 1 ? 0x82f63b78 : 0);
			table[i] = value;
		}
	}
	for (i = 0; i < len; i++)
		crc = table[(crc ^ octets[i]) & 0xff] ^ crc >> 8;
	return ~crc;
}

static size_t pad_of(size_t ulpdu_len)
{
	return (4 - (2 + ulpdu_len) % 4) % 4;
}

static size_t put_crc(uint8_t *out, size_t covered, bool crc)
{
	uint32_t value = crc ? crc32c(out, covered) : 0;
	int i;

	for (i = 0; i < 4; i++)
		out[covered + (size_t)i] = (uint8_t)(value >> 8 * i);
	return covered + 4;
}

size_t finish_fpdu(uint8_t *out, size_t ulpdu_len, bool crc)
{
	size_t pad = pad_of(ulpdu_len);

	put16(out, (unsigned int)ulpdu_len);
	memset(out + 2 + ulpdu_len, 0, pad);
	return put_crc(out, 2 + ulpdu_len + pad, crc);
}

enum parsed parse_fpdu(const uint8_t *octets, size_t len, struct fpdu *fpdu)
{
	const uint8_t *crc;
	size_t covered;

	memset(fpdu, 0, sizeof(*fpdu));
	if (len < 2)
		return PARSED_PART;
	fpdu->length = get16(octets);
	if (fpdu->length > ULPDU_MAX)
		return PARSED_BAD;
	covered = 2u + fpdu->length + pad_of(fpdu->length);
	fpdu->size = (uint32_t)covered + 4;
	fpdu->ulpdu = octets + 2;
	if (len < fpdu->size)
		return PARSED_PART;
	crc = octets + covered;
	fpdu->crc_good = crc32c(octets, covered) ==
			 ((uint32_t)crc[3] << 24 | (uint32_t)crc[2] << 16 |
			  (uint32_t)crc[1] << 8 | crc[0]);
	return PARSED_WHOLE;
}

static void fault(struct first_fpdu *first, uint8_t layer, uint8_t etype, uint8_t code,
		  size_t header_len)
{
	first->what = FIRST_FAULT;
	first->layer = layer;
	first->etype = etype;
	first->code = code;
	first->header_len = header_len;
}

static bool opcode_fits(bool tagged, uint32_t queue, uint8_t opcode)
{
	if (tagged)
		return opcode == OP_WRITE;
	if (queue == 0)
		return opcode >= OP_SEND && opcode < OP_TERMINATE;
	return opcode == (queue == 1 ? OP_READ_REQUEST : OP_TERMINATE);
}

static void look_at_payload(struct first_fpdu *first, bool tagged)
{
	const uint8_t *ulpdu = first->fpdu.ulpdu;
	bool empty = first->fpdu.length == (tagged ? TAGGED_LEN : UNTAGGED_LEN) && ulpdu[0] & 0x40;

	first->what = FIRST_MESSAGE;
	switch (ulpdu[1] & 0x0f) {
	case OP_WRITE:
		first->kind = empty ? KIND_C : 0;
		break;
	case OP_SEND:
		first->kind = empty ? KIND_B : 0;
		break;
	case OP_READ_REQUEST:
		if (first->fpdu.length != READ_REQUEST_LEN) {
			fault(first, 0, 2, 0xff, 0);
			return;
		}
		first->sink_stag = get32(ulpdu + 18);
		first->sink_to = (uint64_t)get32(ulpdu + 22) << 32 | get32(ulpdu + 26);
		first->kind = get32(ulpdu + 30) ? 0 : KIND_D;
		break;
	case OP_TERMINATE:
		first->what = FIRST_TERMINATE;
		return;
	}
	if (first->kind)
		first->what = FIRST_RTR;
}

void look_at_first(const uint8_t *octets, size_t len, bool crc, struct first_fpdu *first)
{
	const uint8_t *ulpdu;
	size_t header;
	bool tagged;

	memset(first, 0, sizeof(*first));
	switch (parse_fpdu(octets, len, &first->fpdu)) {
	case PARSED_PART:
		first->what = FIRST_PART;
		return;
	case PARSED_BAD:
		first->what = FIRST_BAD;
		return;
	case PARSED_WHOLE:
		break;
	}
	if (crc && !first->fpdu.crc_good) {
		first->what = FIRST_BAD;
		return;
	}
	if (!first->fpdu.length) {
		fault(first, 0, 2, 0xff, 0);
		first->what = FIRST_EMPTY;
		return;
	}
	ulpdu = first->fpdu.ulpdu;
	tagged = ulpdu[0] & 0x80;
	header = tagged ? TAGGED_LEN : UNTAGGED_LEN;
	if (first->fpdu.length < header)
		fault(first, 0, 2, 0xff, 0);
	else if ((ulpdu[0] & 3) != 1)
		fault(first, 1, tagged ? 1 : 2, tagged ? 4 : 6, header);
	else if (!tagged && get32(ulpdu + 6) > 2)
		fault(first, 1, 2, 1, header);
	else if (!tagged && get32(ulpdu + 10) != 1)
		fault(first, 1, 2, 3, header);
	else if (!tagged && get32(ulpdu + 14))
		fault(first, 1, 2, 4, header);
	else if ((ulpdu[1] & 0xc0) != 0x40)
		fault(first, 0, 2, 5, header);
	else if (!opcode_fits(tagged, tagged ? 0 : get32(ulpdu + 6), ulpdu[1] & 0x0f))
		fault(first, 0, 2, 6, header);
	else
		look_at_payload(first, tagged);
}

size_t put_untagged(uint8_t *out, uint8_t opcode, uint32_t queue, uint32_t msn, uint32_t mo)
{
	out[0] = 0x41;
	out[1] = 0x40 | opcode;
	put32(out + 2, 0);
	put32(out + 6, queue);
	put32(out + 10, msn);
	put32(out + 14, mo);
	return UNTAGGED_LEN;
}

size_t put_tagged(uint8_t *out, uint8_t opcode, uint32_t stag, uint64_t to)
{
	out[0] = 0xc1;
	out[1] = 0x40 | opcode;
	put32(out + 2, stag);
	put64(out + 6, to);
	return TAGGED_LEN;
}

size_t put_read_request(uint8_t *out, uint32_t msn, uint32_t size)
{
	uint8_t *at = out + put_untagged(out, OP_READ_REQUEST, 1, msn, 0);

	put32(at, 1);		/* sink */
	put64(at + 4, 0);
	put32(at + 12, size);
	put32(at + 16, 1);	/* source */
	put64(at + 20, 0);
	return READ_REQUEST_LEN;
}

size_t put_rtr(uint8_t *out, uint8_t kind, bool crc)
{
	size_t len;

	if (kind == KIND_C)
		len = put_tagged(out + 2, OP_WRITE, 1, 0);
	else if (kind == KIND_D)
		len = put_read_request(out + 2, 1, 0);
	else
		len = put_untagged(out + 2, OP_SEND, 0, 1, 0);
	return finish_fpdu(out, len, crc);
}

size_t put_read_response(uint8_t *out, uint32_t stag, uint64_t to, bool crc)
{
	return finish_fpdu(out, put_tagged(out + 2, OP_READ_RESPONSE, stag, to), crc);
}

size_t put_terminate(uint8_t *out, uint8_t layer, uint8_t etype, uint8_t code, bool crc,
		     bool marker)
{
	size_t front = marker ? 4 : 0, len;

	memset(out, 0, front);
	len = put_untagged(out + front + 2, OP_TERMINATE, 2, 1, 0);
	out[front + 2 + len] = (uint8_t)(layer << 4 | etype);
	out[front + 3 + len] = code;
	put16(out + front + 4 + len, 0);
	put16(out + front, TERMINATE_LEN);
	return put_crc(out, front + 2 + TERMINATE_LEN, crc);
}

size_t put_terminate_for(uint8_t *out, const struct first_fpdu *first, bool crc)
{
	uint8_t *ulpdu = out + 2;

	if (!first->header_len)
		return put_terminate(out, first->layer, first->etype, first->code, crc, false);
	put_untagged(ulpdu, OP_TERMINATE, 2, 1, 0);
	ulpdu[18] = (uint8_t)(first->layer << 4 | first->etype);
	ulpdu[19] = first->code;
	put16(ulpdu + 20, 0xc000);	/* M and D */
	put16(ulpdu + 22, first->fpdu.length);
	memcpy(ulpdu + 24, first->fpdu.ulpdu, first->header_len);
	return finish_fpdu(out, 24 + first->header_len, crc);
}

/* ---- negotiation ---- */

static unsigned int least(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/* siw would round up, past what was agreed. */
static unsigned int round_down(unsigned int depth)
{
	unsigned int power = 1;

	while (power * 2 <= depth)
		power *= 2;
	return depth ? power : 0;
}

uint8_t policy_kinds(const struct policy *policy)
{
	return policy->order[0] | policy->order[1] | policy->order[2];
}

void negotiate(const struct enhanced *request, const struct policy *policy, unsigned int ird,
	       unsigned int ord, struct answer *answer)
{
	uint8_t kinds = policy_kinds(policy), shared;
	bool none = request->ord == DEPTH_NONE;

	memset(answer, 0, sizeof(*answer));
	if (!none && request->ord > ird)
		ird = least(request->ord, DEPTH_CAP);
	/* A Read RTR that could never be answered is not flagged, if others are left. */
	if (none && !ird && kinds & ~KIND_D)
		kinds &= ~KIND_D;
	shared = request->kinds & kinds;
	answer->reply.a = request->a;
	if (request->a)
		answer->reply.kinds = shared ? shared : kinds;
	if (answer->reply.kinds & KIND_D && !ird && !none)
		ird = 1;
	answer->local_ird = (uint16_t)ird;
	answer->reply.ird = none ? DEPTH_NONE : (uint16_t)ird;
	if (request->ird == DEPTH_NONE)
		answer->reply.ord = DEPTH_NONE;
	else
		answer->reply.ord = (uint16_t)round_down(least(ord, request->ird));
}

void check_reply(const struct enhanced *sent, const struct enhanced *reply,
		 const struct policy *policy, unsigned int ird, unsigned int ord,
		 struct check *check)
{
	uint8_t kinds = 0, order[6];
	int i;

	memset(check, 0, sizeof(*check));
	if (reply->ird != DEPTH_NONE)
		ord = least(ord, reply->ird);
	if (reply->a)
		kinds = sent->a ? sent->kinds & reply->kinds : reply->kinds & (KIND_C | KIND_D);
	if (sent->a || reply->a) {
		memcpy(order, policy->order, 3);
		order[3] = KIND_C;
		order[4] = KIND_D;
		order[5] = KIND_B;
		for (i = 0; i < 6 && !check->kind; i++) {
			if (!(order[i] & kinds))
				continue;
			if (order[i] == KIND_D && (reply->ird == DEPTH_NONE ? !ord : !reply->ird))
				continue;
			check->kind = order[i];
		}
		if (!check->kind)
			check->terminate = TERM_RTR;
	}
	if (reply->ord != DEPTH_NONE && reply->ord > ird && reply->ord > DEPTH_CAP)
		check->terminate = TERM_IRD;
	if (check->terminate)
		check->kind = 0;
}
