// SPDX-License-Identifier: GPL-2.0
/*
 * FPDUs: the RTR messages, the Read Response to one, the Terminate message, and
 * a look at the first FPDU of a stream (requirements 1.3 to 1.6).
 */
#include <iw_mpa2/core.h>

#include "octets.h"

namespace mpa2
{
namespace
{

constexpr size_t kCrcLen = 4;
constexpr size_t kTaggedLen = 14;
constexpr size_t kUntaggedLen = 18;
constexpr size_t kReadRequestLen = 46;
constexpr size_t kTerminateLen = 22;

/* DDP and RDMAP control octets (1.4). */
constexpr uint8_t kTagged = 0x80;
constexpr uint8_t kLast = 0x40;
constexpr uint8_t kDdpVersionMask = 0x03;
constexpr uint8_t kDdpVersion = 0x01;
constexpr uint8_t kRdmapVersionMask = 0xC0;
constexpr uint8_t kRdmapVersion = 0x40;
constexpr uint8_t kOpcodeMask = 0x0F;

enum Opcode : uint8_t {
	kWrite = 0,
	kReadRequest = 1,
	kReadResponse = 2,
	kSend = 3,
	kSendSeInvalidate = 6,
	kTerminate = 7,
};

enum Queue : uint32_t {
	kQnSend = 0,
	kQnRead = 1,
	kQnTerminate = 2,
};

/* AMB-22: some hardware fails on STag 0. */
constexpr uint32_t kRtrStag = 1;
constexpr uint64_t kRtrTo = 0;
constexpr uint32_t kFirstMsn = 1;

/* Terminate Control flags of the third octet. */
constexpr uint16_t kLengthValid = 0x8000; /* M */
constexpr uint16_t kDdpHeader = 0x4000;   /* D */

size_t PadOf(size_t ulpdu_length)
{
	return (4 - (MPA2_FPDU_LEN_OCTETS + ulpdu_length) % 4) % 4;
}

size_t FpduSize(size_t ulpdu_length)
{
	return MPA2_FPDU_LEN_OCTETS + ulpdu_length + PadOf(ulpdu_length) + kCrcLen;
}

/* Length first; with Markers the one that precedes the first FPDU (MPA-28). */
void BeginFpdu(Writer *out, bool markers, size_t ulpdu_length)
{
	if (markers)
		out->WriteZeros(4);
	out->Write(static_cast<uint16_t>(ulpdu_length));
}

/* Pad and CRC, which covers a leading Marker, too. */
size_t EndFpdu(Writer *out, bool crc, size_t ulpdu_length)
{
	out->WriteZeros(PadOf(ulpdu_length));
	const size_t covered = out->size();
	if (!covered)
		return 0;
	out->WriteLittleEndian(crc ? mpa2_crc32c(out->start(), covered) : 0);
	return out->size();
}

void WriteTagged(Writer *out, Opcode opcode, uint32_t stag, uint64_t to)
{
	out->Write(static_cast<uint8_t>(kTagged | kLast | kDdpVersion));
	out->Write(static_cast<uint8_t>(kRdmapVersion | opcode));
	out->Write(stag);
	out->Write(to);
}

void WriteUntagged(Writer *out, Opcode opcode, Queue queue)
{
	out->Write(static_cast<uint8_t>(kLast | kDdpVersion));
	out->Write(static_cast<uint8_t>(kRdmapVersion | opcode));
	out->Write(uint32_t{ 0 }); /* Invalidate STag */
	out->Write(static_cast<uint32_t>(queue));
	out->Write(kFirstMsn);
	out->Write(uint32_t{ 0 }); /* MO */
}

/* The header of the first segment, as far as it was read. */
struct Header {
	uint8_t ddp = 0;
	uint8_t rdmap = 0;
	uint32_t queue = 0;
	uint32_t msn = 0;
	uint32_t mo = 0;

	[[nodiscard]] bool tagged() const { return ddp & kTagged; }
	[[nodiscard]] bool last() const { return ddp & kLast; }
	[[nodiscard]] uint8_t opcode() const { return rdmap & kOpcodeMask; }
};

[[nodiscard]] bool ReadHeader(Reader *in, Header *header)
{
	uint32_t stag = 0;

	if (!in->Read(&header->ddp) || !in->Read(&header->rdmap) || !in->Read(&stag))
		return false;
	if (header->tagged())
		return in->Skip(sizeof(uint64_t));
	return in->Read(&header->queue) && in->Read(&header->msn) &&
	       in->Read(&header->mo);
}

struct Fault {
	uint8_t layer, etype, code;
	bool with_header;
	bool any = true;
};

constexpr Fault kNoFault{ 0, 0, 0, false, false };

/* 0/2/FF: what no other code says; a header that is not whole is not sent. */
constexpr Fault kTooShort{ 0, 2, 0xFF, false };

/* TERM-11: the first error found is reported, the lower layer first. */
Fault DdpFault(const Header &header)
{
	if ((header.ddp & kDdpVersionMask) != kDdpVersion)
		return header.tagged() ? Fault{ 1, 1, 0x04, true } :
					 Fault{ 1, 2, 0x06, true };
	if (header.tagged())
		return kNoFault;
	if (header.queue > kQnTerminate)
		return { 1, 2, 0x01, true };
	if (header.msn != kFirstMsn)
		return { 1, 2, 0x03, true };
	if (header.mo != 0)
		return { 1, 2, 0x04, true };
	return kNoFault;
}

bool OpcodeFits(const Header &header)
{
	const uint8_t opcode = header.opcode();

	if (header.tagged())
		return opcode == kWrite; /* no Read of ours is outstanding */
	switch (header.queue) {
	case kQnSend:
		return opcode >= kSend && opcode <= kSendSeInvalidate;
	case kQnRead:
		return opcode == kReadRequest;
	default:
		return opcode == kTerminate;
	}
}

Fault RdmapFault(const Header &header)
{
	if ((header.rdmap & kRdmapVersionMask) != kRdmapVersion)
		return { 0, 2, 0x05, true };
	if (!OpcodeFits(header))
		return { 0, 2, 0x06, true };
	return kNoFault;
}

/* The parts of a Read Request that its answer needs. */
[[nodiscard]] bool ReadReadRequest(Reader *in, mpa2_fpdu *fpdu, uint32_t *size)
{
	return in->Read(&fpdu->sink_stag) && in->Read(&fpdu->sink_to) && in->Read(size);
}

/* Layer, type and code, as far as they are there (TERM-09). */
void ReadTerminate(Reader *in, mpa2_fpdu *fpdu)
{
	uint8_t what = 0;

	if (!in->Read(&what) || !in->Read(&fpdu->term_code))
		return;
	fpdu->term_layer = what >> 4;
	fpdu->term_etype = what & 0x0F;
}

/* What a segment with a valid header is. */
Fault Classify(Reader *in, const Header &header, mpa2_fpdu *fpdu)
{
	const bool empty = in->left() == 0 && header.last();
	uint32_t read_size = 0;

	fpdu->opcode = header.opcode();
	fpdu->kind = MPA2_FPDU_MESSAGE;
	switch (header.opcode()) {
	case kWrite:
		if (empty)
			fpdu->rtr = MPA2_RTR_WRITE;
		break;
	case kSend:
		if (empty)
			fpdu->rtr = MPA2_RTR_SEND;
		break;
	case kReadRequest:
		if (fpdu->ulpdu_length != kReadRequestLen ||
		    !ReadReadRequest(in, fpdu, &read_size))
			return kTooShort;
		if (read_size == 0)
			fpdu->rtr = MPA2_RTR_READ;
		break;
	case kTerminate:
		fpdu->kind = MPA2_FPDU_TERMINATE;
		ReadTerminate(in, fpdu);
		break;
	}
	if (fpdu->rtr != MPA2_RTR_NONE)
		fpdu->kind = MPA2_FPDU_RTR;
	return kNoFault;
}

Fault ParseUlpdu(Reader *in, mpa2_fpdu *fpdu)
{
	Header header;

	if (!ReadHeader(in, &header))
		return kTooShort;
	if (const Fault fault = DdpFault(header); fault.any)
		return fault;
	if (const Fault fault = RdmapFault(header); fault.any)
		return fault;
	return Classify(in, header, fpdu);
}

uint32_t StoredCrc(const uint8_t *at)
{
	uint32_t crc = 0;

	for (size_t i = kCrcLen; i-- > 0;)
		crc = (crc << 8) | at[i];
	return crc;
}

} // namespace
} // namespace mpa2

/**
 * mpa2_rtr_build() - one of the three RTR messages as a whole FPDU
 *
 * Context: any.  Source: requirements 1.5, RTR-13, AMB-01, AMB-22.
 */
extern "C" size_t mpa2_rtr_build(mpa2_rtr kind, bool crc, bool markers, uint8_t *out,
				 size_t out_size)
{
	using namespace mpa2;
	Writer writer(out, out_size);

	switch (kind) {
	case MPA2_RTR_SEND:
		BeginFpdu(&writer, markers, kUntaggedLen);
		WriteUntagged(&writer, kSend, kQnSend);
		return EndFpdu(&writer, crc, kUntaggedLen);
	case MPA2_RTR_WRITE:
		BeginFpdu(&writer, markers, kTaggedLen);
		WriteTagged(&writer, kWrite, kRtrStag, kRtrTo);
		return EndFpdu(&writer, crc, kTaggedLen);
	case MPA2_RTR_READ:
		BeginFpdu(&writer, markers, kReadRequestLen);
		WriteUntagged(&writer, kReadRequest, kQnRead);
		writer.Write(kRtrStag); /* sink */
		writer.Write(kRtrTo);
		writer.Write(uint32_t{ 0 }); /* read size */
		writer.Write(kRtrStag);      /* source */
		writer.Write(kRtrTo);
		return EndFpdu(&writer, crc, kReadRequestLen);
	default:
		return 0;
	}
}

/**
 * mpa2_read_response_build() - the zero-length answer to a Read RTR
 *
 * Context: any.  Source: RTR-21.
 */
extern "C" size_t mpa2_read_response_build(uint32_t sink_stag, uint64_t sink_to, bool crc,
					   bool markers, uint8_t *out, size_t out_size)
{
	using namespace mpa2;
	Writer writer(out, out_size);

	BeginFpdu(&writer, markers, kTaggedLen);
	WriteTagged(&writer, kReadResponse, sink_stag, sink_to);
	return EndFpdu(&writer, crc, kTaggedLen);
}

/**
 * mpa2_terminate_build() - a Terminate without headers
 *
 * Context: any.  Source: TERM-05, TERM-06, AMB-21.
 */
extern "C" size_t mpa2_terminate_build(uint8_t layer, uint8_t etype, uint8_t code,
				       bool crc, bool markers, uint8_t *out,
				       size_t out_size)
{
	return mpa2_terminate_build_with_header(layer, etype, code, nullptr, 0, 0, crc,
						markers, out, out_size);
}

/**
 * mpa2_terminate_build_with_header() - a Terminate with the DDP header it means
 *
 * segment_length is the DDP Segment Length; header_len 14 or 18, or 0 for none.
 * Context: any.  Source: requirements 1.6.
 */
extern "C" size_t mpa2_terminate_build_with_header(uint8_t layer, uint8_t etype,
						   uint8_t code, const uint8_t *header,
						   size_t header_len,
						   uint16_t segment_length, bool crc,
						   bool markers, uint8_t *out,
						   size_t out_size)
{
	using namespace mpa2;
	const size_t extra = header_len ? sizeof(segment_length) + header_len : 0;
	const size_t length = kTerminateLen + extra;
	Writer writer(out, out_size);

	BeginFpdu(&writer, markers, length);
	WriteUntagged(&writer, kTerminate, kQnTerminate);
	writer.Write(static_cast<uint8_t>(layer << 4 | etype));
	writer.Write(code);
	writer.Write(static_cast<uint16_t>(header_len ? kLengthValid | kDdpHeader : 0));
	if (header_len) {
		writer.Write(segment_length);
		writer.WriteOctets(header, header_len);
	}
	return EndFpdu(&writer, crc, length);
}

/**
 * mpa2_fpdu_parse() - look at the first FPDU of a stream
 *
 * Context: any.  Source: MPA-37, MPA-38, RTR-18, RTR-20, RTR-21, SEC-07, AMB-01.
 */
extern "C" mpa2_status mpa2_fpdu_parse(const uint8_t *octets, size_t len, bool crc,
				       mpa2_fpdu *fpdu, uint32_t *need_total,
				       uint8_t *cause)
{
	using namespace mpa2;
	Reader in(octets, len);

	*fpdu = mpa2_fpdu{};
	*cause = MPA2_CAUSE_NONE;
	*need_total = MPA2_FPDU_LEN_OCTETS;
	if (!in.Read(&fpdu->ulpdu_length))
		return MPA2_NEED_MORE;
	if (fpdu->ulpdu_length > MPA2_ULPDU_MAX) {
		*cause = MPA2_CAUSE_BAD_FPDU_LENGTH;
		return MPA2_ERROR;
	}
	const size_t size = FpduSize(fpdu->ulpdu_length);
	*need_total = static_cast<uint32_t>(size);
	if (len < size)
		return MPA2_NEED_MORE;
	if (crc &&
	    mpa2_crc32c(octets, size - kCrcLen) != StoredCrc(octets + size - kCrcLen)) {
		*cause = MPA2_CAUSE_BAD_CRC;
		return MPA2_ERROR;
	}
	if (fpdu->ulpdu_length == 0) {
		fpdu->kind = MPA2_FPDU_EMPTY;
		fpdu->term_etype = kTooShort.etype;
		fpdu->term_code = kTooShort.code;
		return MPA2_DONE;
	}
	Reader ulpdu(octets + MPA2_FPDU_LEN_OCTETS, fpdu->ulpdu_length);
	const Fault fault = ParseUlpdu(&ulpdu, fpdu);
	if (!fault.any)
		return MPA2_DONE;
	fpdu->term_layer = fault.layer;
	fpdu->term_etype = fault.etype;
	fpdu->term_code = fault.code;
	fpdu->term_header_len = 0;
	if (fault.with_header)
		fpdu->term_header_len = static_cast<uint8_t>(
			(octets[MPA2_FPDU_LEN_OCTETS] & kTagged) ? kTaggedLen :
								   kUntaggedLen);
	*cause = MPA2_CAUSE_BAD_HEADER;
	return MPA2_ERROR;
}

namespace mpa2
{
namespace
{

bool DescribeFrame(const uint8_t *octets, size_t len, mpa2_key key, mpa2_wire_kind kind,
		   mpa2_wire *wire)
{
	uint32_t total = 0;
	uint8_t cause = 0;

	if (mpa2_frame_parse(octets, len, key, &wire->frame, &total, &cause) != MPA2_DONE)
		return false;
	wire->kind = kind;
	return true;
}

void DescribeFpdu(const uint8_t *octets, size_t len, mpa2_wire *wire)
{
	constexpr size_t kMarkerLen = 4;
	Reader marker(octets, len);
	uint32_t zero = 1, total = 0;
	uint8_t cause = 0, ddp = 0, rdmap = 0;
	mpa2_fpdu fpdu;

	if (marker.Read(&zero) && zero == 0) {
		octets += kMarkerLen;
		len -= kMarkerLen;
	}
	const mpa2_status status =
		mpa2_fpdu_parse(octets, len, false, &fpdu, &total, &cause);
	if (status == MPA2_DONE && fpdu.kind == MPA2_FPDU_RTR) {
		wire->kind = MPA2_WIRE_RTR;
		wire->rtr = fpdu.rtr;
	} else if (status == MPA2_DONE && fpdu.kind == MPA2_FPDU_TERMINATE) {
		wire->kind = MPA2_WIRE_TERMINATE;
		wire->term_layer = fpdu.term_layer;
		wire->term_etype = fpdu.term_etype;
		wire->term_code = fpdu.term_code;
	} else if (status == MPA2_ERROR) {
		Reader header(octets, len);

		if (header.Skip(MPA2_FPDU_LEN_OCTETS) && header.Read(&ddp) &&
		    header.Read(&rdmap) && (ddp & kTagged) &&
		    (rdmap & kOpcodeMask) == kReadResponse)
			wire->kind = MPA2_WIRE_READ_RESPONSE;
	}
}

} // namespace
} // namespace mpa2

/**
 * mpa2_wire_describe() - what octets are
 *
 * Context: any.  Source: requirements 1.1, 1.5, 1.6.
 */
extern "C" void mpa2_wire_describe(const uint8_t *octets, size_t len, mpa2_wire *wire)
{
	*wire = mpa2_wire{};
	if (!mpa2::DescribeFrame(octets, len, MPA2_KEY_REQUEST, MPA2_WIRE_REQUEST,
				 wire) &&
	    !mpa2::DescribeFrame(octets, len, MPA2_KEY_REPLY, MPA2_WIRE_REPLY, wire))
		mpa2::DescribeFpdu(octets, len, wire);
}
