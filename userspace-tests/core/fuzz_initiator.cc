// SPDX-License-Identifier: GPL-2.0
/* The initiator's machine under any stream, with any event in between. SEC-01. */
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Source source(data, size);
	Laws laws(MPA2_INITIATOR, PolicyFrom(source));
	mpa2_event event{};

	event.type = MPA2_EV_START;
	event.ulp_ird = source.Octet();
	event.ulp_ord = source.Octet();
	laws.Feed(event);
	event.type = MPA2_EV_CONNECTED;
	laws.Feed(event);
	while (!source.empty()) {
		if (source.Octet() % 4)
			FeedStream(laws, source);
		else
			FeedAny(laws, source);
	}
	return 0;
}
