// SPDX-License-Identifier: GPL-2.0
/* MPA Request and Reply frames of both revisions (requirements 1.1, 1.2). */
#include "frame.h"

namespace mpa2
{
namespace
{

constexpr size_t kKeyLen = 16;
constexpr uint8_t kRequestKey[kKeyLen] = { 'M', 'P', 'A', ' ', 'I', 'D', ' ', 'R',
					   'e', 'q', ' ', 'F', 'r', 'a', 'm', 'e' };
constexpr uint8_t kReplyKey[kKeyLen] = { 'M', 'P', 'A', ' ', 'I', 'D', ' ', 'R',
					 'e', 'p', ' ', 'F', 'r', 'a', 'm', 'e' };

/* Octet 16 of a frame; the other bits are reserved: sent 0, never looked at. */
constexpr uint8_t kMarkers = 0x80;
constexpr uint8_t kCrc = 0x40;
constexpr uint8_t kReject = 0x20;
constexpr uint8_t kEnhanced = 0x10;

/* The two halves of the enhanced data. */
constexpr uint16_t kPeerToPeer = 0x8000; /* first half: A */
constexpr uint16_t kRtrSend = 0x4000;    /* first half: B */
constexpr uint16_t kRtrWrite = 0x8000;   /* second half: C */
constexpr uint16_t kRtrRead = 0x4000;    /* second half: D */
constexpr uint16_t kDepth = 0x3FFF;

const uint8_t *KeyOf(uint8_t key)
{
	return key == MPA2_KEY_REQUEST ? kRequestKey : kReplyKey;
}

/* Why the header alone rules a frame out (MPA-15, MPA-25, AMB-08, AMB-09). */
uint8_t HeaderFault(const mpa2_frame &frame)
{
	if (frame.rev != MPA2_REV_1 && frame.rev != MPA2_REV_2)
		return MPA2_CAUSE_BAD_REV;
	if (frame.pd_length > MPA2_PD_MAX)
		return MPA2_CAUSE_PD_TOO_LONG;
	/* A reject is honoured all the same: AMB-05. */
	if (frame.enhanced && frame.pd_length < MPA2_ENHANCED_LEN &&
	    !(frame.key == MPA2_KEY_REPLY && frame.reject))
		return MPA2_CAUSE_ENHANCED_TOO_SHORT;
	return MPA2_CAUSE_NONE;
}

uint8_t ReadHeader(Reader *in, mpa2_key expected_key, mpa2_frame *frame)
{
	uint8_t flags = 0;

	if (!in->Match(KeyOf(expected_key), kKeyLen))
		return MPA2_CAUSE_BAD_KEY;
	if (!in->Read(&flags) || !in->Read(&frame->rev) || !in->Read(&frame->pd_length))
		return MPA2_CAUSE_BAD_KEY; /* cannot be: 20 octets are there */
	frame->key = expected_key;
	frame->markers = !!(flags & kMarkers);
	frame->crc = !!(flags & kCrc);
	frame->reject = !!(flags & kReject);
	/* In Rev 1 this bit is reserved (F3). */
	frame->enhanced = frame->rev >= MPA2_REV_2 && (flags & kEnhanced);
	return HeaderFault(*frame);
}

void ReadPrivateData(Reader *in, mpa2_frame *frame)
{
	frame->ulp_offset = MPA2_HDR_LEN;
	frame->ulp_length = frame->pd_length;
	if (!frame->enhanced)
		return;
	/* A reject with less than the enhanced data carries nothing. */
	frame->ulp_length = 0;
	if (frame->pd_length < MPA2_ENHANCED_LEN || !ReadEnhanced(in, &frame->data))
		return;
	frame->has_data = 1;
	frame->ulp_offset += MPA2_ENHANCED_LEN;
	frame->ulp_length = static_cast<uint16_t>(frame->pd_length - MPA2_ENHANCED_LEN);
}

} // namespace

bool ReadEnhanced(Reader *in, mpa2_enhanced *data)
{
	uint16_t first = 0, second = 0;

	if (!in->Read(&first) || !in->Read(&second))
		return false;
	data->peer_to_peer = !!(first & kPeerToPeer);
	data->ird = first & kDepth;
	data->ord = second & kDepth;
	data->rtr = static_cast<uint8_t>(((first & kRtrSend) ? MPA2_RTR_SEND : 0) |
					 ((second & kRtrWrite) ? MPA2_RTR_WRITE : 0) |
					 ((second & kRtrRead) ? MPA2_RTR_READ : 0));
	return true;
}

void WriteEnhanced(Writer *out, const mpa2_enhanced &data)
{
	/* RTR-04: without A no kind is flagged. */
	const uint8_t rtr = data.peer_to_peer ? data.rtr : uint8_t{ 0 };

	out->Write(static_cast<uint16_t>((data.peer_to_peer ? kPeerToPeer : 0) |
					 ((rtr & MPA2_RTR_SEND) ? kRtrSend : 0) |
					 (data.ird & kDepth)));
	out->Write(static_cast<uint16_t>(((rtr & MPA2_RTR_WRITE) ? kRtrWrite : 0) |
					 ((rtr & MPA2_RTR_READ) ? kRtrRead : 0) |
					 (data.ord & kDepth)));
}

} // namespace mpa2

/* Source: MPA-01..04, MPA-15, MPA-24, MPA-25, ENH-04..07, SEC-02. */
extern "C" mpa2_status mpa2_frame_parse(const uint8_t *octets, size_t len,
					mpa2_key expected_key, mpa2_frame *frame,
					uint32_t *need_total, uint8_t *cause)
{
	mpa2::Reader in(octets, len);

	*frame = mpa2_frame{};
	*cause = MPA2_CAUSE_NONE;
	*need_total = MPA2_HDR_LEN;
	if (len < MPA2_HDR_LEN)
		return MPA2_NEED_MORE;
	*cause = mpa2::ReadHeader(&in, expected_key, frame);
	if (*cause != MPA2_CAUSE_NONE)
		return MPA2_ERROR;
	*need_total += frame->pd_length;
	if (len < *need_total)
		return MPA2_NEED_MORE;
	mpa2::ReadPrivateData(&in, frame);
	return MPA2_DONE;
}

/* Source: MPA-16, MPA-23, MPA-24, ENH-01..06. */
extern "C" size_t mpa2_frame_build(const mpa2_frame *frame, const void *ulp_pd,
				   size_t ulp_len, uint8_t *out, size_t out_size)
{
	const size_t extra = frame->enhanced ? MPA2_ENHANCED_LEN : 0;
	mpa2::Writer writer(out, out_size);

	if (ulp_len > MPA2_PD_MAX - extra)
		return 0;
	if (frame->enhanced && frame->rev < MPA2_REV_2)
		return 0;
	/* The private data first: it may have to move. */
	if (out_size < MPA2_HDR_LEN + extra + ulp_len)
		return 0;
	if (ulp_len)
		__builtin_memmove(out + MPA2_HDR_LEN + extra, ulp_pd, ulp_len);
	writer.WriteOctets(mpa2::KeyOf(frame->key), mpa2::kKeyLen);
	writer.Write(static_cast<uint8_t>(
		(frame->markers ? mpa2::kMarkers : 0) | (frame->crc ? mpa2::kCrc : 0) |
		(frame->reject && frame->key == MPA2_KEY_REPLY ? mpa2::kReject : 0) |
		(frame->enhanced ? mpa2::kEnhanced : 0)));
	writer.Write(frame->rev);
	writer.Write(static_cast<uint16_t>(extra + ulp_len));
	if (frame->enhanced)
		mpa2::WriteEnhanced(&writer, frame->data);
	return writer.size() + ulp_len;
}
