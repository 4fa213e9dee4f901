// SPDX-License-Identifier: GPL-2.0
/* The responder's machine under any stream, with any event in between. SEC-01, SEC-10. */
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Source source(data, size);
	Laws laws(MPA2_RESPONDER, PolicyFrom(source));
	mpa2_event event{};
	mpa2_info info;

	event.type = MPA2_EV_CONNECTED;
	laws.Feed(event);
	while (!source.empty()) {
		if (source.Octet() % 4) {
			FeedStream(laws, source);
		} else {
			FeedAny(laws, source);
		}
		mpa2_conn_info(&laws.conn, &info);
		/* Most inputs should get past the ULP and the QP. */
		event.type = info.state == MPA2_ST_ULP  ? MPA2_EV_ACCEPT :
			     info.state == MPA2_ST_BIND ? MPA2_EV_BOUND :
							  MPA2_EV_SENT;
		event.ulp_ird = source.Octet();
		event.ulp_ord = source.Octet();
		if (info.state == MPA2_ST_ULP || info.state == MPA2_ST_BIND) {
			laws.Feed(event);
			event.type = MPA2_EV_SENT;
			if (info.state == MPA2_ST_BIND)
				laws.Feed(event);
		}
	}
	return 0;
}
