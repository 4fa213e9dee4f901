// SPDX-License-Identifier: GPL-2.0
/* Any octets as a frame; what is read is written back the same. SEC-02, SEC-11. */
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (const auto key : { MPA2_KEY_REQUEST, MPA2_KEY_REPLY }) {
		uint8_t out[MPA2_FRAME_MAX];
		uint32_t total = 0;
		uint8_t cause = 0;
		mpa2_frame frame, again;
		const auto status =
			mpa2_frame_parse(data, size, key, &frame, &total, &cause);

		if (status == MPA2_NEED_MORE) {
			LAW(total > size && total <= MPA2_FRAME_MAX);
		}
		LAW((status == MPA2_ERROR) == (cause != MPA2_CAUSE_NONE));
		if (status != MPA2_DONE)
			continue;
		LAW(total <= size);
		LAW(frame.ulp_offset + frame.ulp_length <= int(total));
		if (frame.enhanced && !frame.has_data)
			continue; /* a stump that we never send */
		if (!frame.data.peer_to_peer)
			frame.data.rtr = 0;
		if (key == MPA2_KEY_REQUEST)
			frame.reject = 0;
		const size_t len = mpa2_frame_build(&frame, data + frame.ulp_offset,
						    frame.ulp_length, out, sizeof(out));
		LAW(len == total);
		LAW(mpa2_frame_parse(out, len, key, &again, &total, &cause) == MPA2_DONE);
		LAW(!memcmp(&frame, &again, sizeof(frame)));
	}
	return 0;
}
