// SPDX-License-Identifier: GPL-2.0
/* Any octets as a first FPDU; the answer does not depend on what follows. */
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	const bool crc = data[0] & 1;
	mpa2_fpdu fpdu, again;
	uint32_t total = 0, total_again = 0;
	uint8_t cause = 0, cause_again = 0;

	data++;
	size--;
	mpa2_wire wire;
	mpa2_wire_describe(data, size, &wire);
	LAW(wire.kind < MPA2_WIRE_NR);
	LAW((wire.kind == MPA2_WIRE_RTR) == (wire.rtr != MPA2_RTR_NONE));
	const auto status = mpa2_fpdu_parse(data, size, crc, &fpdu, &total, &cause);
	LAW(total <= MPA2_FPDU_MAX);
	if (status == MPA2_NEED_MORE) {
		LAW(total > size);
		return 0;
	}
	LAW((status == MPA2_ERROR) == (cause != MPA2_CAUSE_NONE));
	if (cause == MPA2_CAUSE_BAD_FPDU_LENGTH)
		return 0;
	const std::vector<uint8_t> exact(data, data + total);
	LAW(mpa2_fpdu_parse(exact.data(), exact.size(), crc, &again, &total_again,
			    &cause_again) == status);
	LAW(!memcmp(&fpdu, &again, sizeof(fpdu)) && total == total_again);
	LAW(fpdu.term_header_len <= fpdu.ulpdu_length);
	return 0;
}
