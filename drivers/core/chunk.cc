// SPDX-License-Identifier: GPL-2.0
/*
 * The user data of DATA chunks (requirements 1.7), and what of MPA's octets they
 * carry.
 */
#include <iw_mpa2/session.h>

#include "octets.h"

namespace mpa2
{
namespace
{

constexpr size_t kCrcLen = 4;

bool IsEnhanced(uint16_t code)
{
	return code >= MPA2_FN_ENHANCED_INITIATE && code <= MPA2_FN_ENHANCED_REJECT;
}

/* Whether the private data has to begin with enhanced data; a reject is honoured
 * without (AMB-05). */
bool NeedsEnhancedData(uint16_t code)
{
	return code == MPA2_FN_ENHANCED_INITIATE || code == MPA2_FN_ENHANCED_ACCEPT;
}

mpa2_chunk_fault ReadControl(Reader *in, const uint8_t *octets, mpa2_chunk *chunk)
{
	if (!in->Read(&chunk->code))
		return MPA2_CHUNK_SHORT;
	if (chunk->code < MPA2_FN_INITIATE || chunk->code > MPA2_FN_ENHANCED_REJECT)
		return MPA2_CHUNK_BAD_CODE;
	if (chunk->code == MPA2_FN_TERMINATE)
		return MPA2_CHUNK_GOOD;
	if (in->left() > MPA2_PD_MAX)
		return MPA2_CHUNK_PD_TOO_LONG;
	if (NeedsEnhancedData(chunk->code) && in->left() < MPA2_ENHANCED_LEN)
		return MPA2_CHUNK_NO_ENHANCED_DATA;
	chunk->octets = octets + MPA2_CONTROL_HDR_LEN;
	chunk->octets_len = static_cast<uint32_t>(in->left());
	return MPA2_CHUNK_GOOD;
}

mpa2_chunk_fault ReadSegment(const Reader &in, const uint8_t *octets, mpa2_chunk *chunk)
{
	if (in.left() < MPA2_SEGMENT_MIN || in.left() > MPA2_ULPDU_MAX)
		return MPA2_CHUNK_SHORT;
	chunk->octets = octets + MPA2_SSN_OCTETS;
	chunk->octets_len = static_cast<uint32_t>(in.left());
	return MPA2_CHUNK_GOOD;
}

/* The octets behind a segment: pad and CRC field. */
size_t TailOf(size_t segment_len)
{
	return (4 - (MPA2_FPDU_LEN_OCTETS + segment_len) % 4) % 4 + kCrcLen;
}

/* No octet of the private data is changed, known flags or not. */
size_t BuildEnhanced(mpa2_frame &frame, const void *pd, size_t pd_len, uint8_t *out,
		     size_t out_size)
{
	const auto *octets = static_cast<const uint8_t *>(pd);

	frame.rev = MPA2_REV_2;
	frame.enhanced = 1;
	const size_t len = mpa2_frame_build(&frame, octets + MPA2_ENHANCED_LEN,
					    pd_len - MPA2_ENHANCED_LEN, out, out_size);
	if (!len)
		return 0;
	Writer data(out + MPA2_HDR_LEN, pd_len);
	data.WriteOctets(pd, pd_len);
	return len;
}

} // namespace
} // namespace mpa2

extern "C" mpa2_chunk_fault mpa2_chunk_parse(uint32_t ppid, const uint8_t *octets,
					     size_t len, mpa2_chunk *chunk)
{
	mpa2::Reader in(octets, len);

	*chunk = mpa2_chunk{};
	if (ppid != MPA2_PPID_CONTROL && ppid != MPA2_PPID_SEGMENT)
		return MPA2_CHUNK_BAD_PPID;
	chunk->control = ppid == MPA2_PPID_CONTROL;
	if (!in.Read(&chunk->ssn))
		return MPA2_CHUNK_SHORT;
	return chunk->control ? mpa2::ReadControl(&in, octets, chunk) :
				mpa2::ReadSegment(in, octets, chunk);
}

extern "C" size_t mpa2_control_build(uint16_t ssn, mpa2_function code, const void *pd,
				     size_t pd_len, uint8_t *out, size_t out_size)
{
	mpa2::Writer writer(out, out_size);

	if (pd_len > (code == MPA2_FN_TERMINATE ? 0 : MPA2_PD_MAX))
		return 0;
	if (mpa2::NeedsEnhancedData(code) && pd_len < MPA2_ENHANCED_LEN)
		return 0;
	writer.Write(ssn);
	writer.Write(static_cast<uint16_t>(code));
	writer.WriteOctets(pd, pd_len);
	return writer.size();
}

extern "C" void mpa2_frame_to_control(const mpa2_frame *frame, mpa2_carried *carried)
{
	unsigned int code = MPA2_FN_INITIATE;

	if (frame->key == MPA2_KEY_REPLY)
		code = frame->reject ? MPA2_FN_REJECT : MPA2_FN_ACCEPT;
	/* The enhanced codes stand in the order of the others. */
	if (frame->enhanced)
		code += MPA2_FN_ENHANCED_INITIATE - MPA2_FN_INITIATE;
	carried->code = static_cast<uint16_t>(code);
	carried->pd_offset = MPA2_HDR_LEN;
	carried->pd_len = frame->pd_length;
}

extern "C" size_t mpa2_control_to_frame(mpa2_function code, const void *pd, size_t pd_len,
					uint8_t *out, size_t out_size)
{
	mpa2_frame frame{};

	switch (code) {
	case MPA2_FN_INITIATE:
	case MPA2_FN_ENHANCED_INITIATE:
		frame.key = MPA2_KEY_REQUEST;
		break;
	case MPA2_FN_REJECT:
	case MPA2_FN_ENHANCED_REJECT:
		frame.reject = 1;
		[[fallthrough]];
	case MPA2_FN_ACCEPT:
	case MPA2_FN_ENHANCED_ACCEPT:
		frame.key = MPA2_KEY_REPLY;
		break;
	default:
		return 0;
	}
	frame.rev = MPA2_REV_1;
	if (mpa2::IsEnhanced(code)) {
		if (pd_len < MPA2_ENHANCED_LEN && !frame.reject)
			return 0;
		/* A reject with less than the enhanced data carries nothing (AMB-05). */
		if (pd_len < MPA2_ENHANCED_LEN)
			pd_len = 0;
		else
			return mpa2::BuildEnhanced(frame, pd, pd_len, out, out_size);
	}
	return mpa2_frame_build(&frame, pd, pd_len, out, out_size);
}

extern "C" uint32_t mpa2_fpdu_size(uint32_t segment_len)
{
	return static_cast<uint32_t>(MPA2_FPDU_LEN_OCTETS + segment_len +
				     mpa2::TailOf(segment_len));
}

extern "C" mpa2_status mpa2_fpdu_length(const uint8_t *octets, size_t len,
					uint32_t *segment_len)
{
	mpa2::Reader in(octets, len);
	uint16_t length = 0;

	*segment_len = 0;
	if (!in.Read(&length))
		return MPA2_NEED_MORE;
	if (length < MPA2_SEGMENT_MIN || length > MPA2_ULPDU_MAX)
		return MPA2_ERROR;
	*segment_len = length;
	return MPA2_DONE;
}

extern "C" size_t mpa2_fpdu_head(uint32_t segment_len, uint8_t *out)
{
	mpa2::Writer writer(out, MPA2_FPDU_LEN_OCTETS);

	if (segment_len > MPA2_ULPDU_MAX)
		return 0;
	writer.Write(static_cast<uint16_t>(segment_len));
	return writer.size();
}

extern "C" size_t mpa2_fpdu_tail(uint32_t segment_len, uint8_t *out)
{
	mpa2::Writer writer(out, MPA2_FPDU_TAIL_MAX);

	writer.WriteZeros(mpa2::TailOf(segment_len));
	return writer.size();
}
