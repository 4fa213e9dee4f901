// SPDX-License-Identifier: GPL-2.0
/*
 * Negotiation of depths and RTR (requirements 3.1 to 3.3).  The reply is a pure
 * function of Request, policy and ULP values; the RTR one of our offer and the
 * reply.
 */
#include <iw_mpa2/core.h>

#include "negotiate.h"

namespace mpa2
{
namespace
{

uint16_t RoundDown(uint16_t depth)
{
	uint16_t power = 1;

	if (depth == 0)
		return 0;
	while (power <= depth / 2)
		power = static_cast<uint16_t>(power * 2);
	return power;
}

bool IsNumber(uint16_t depth)
{
	return depth != MPA2_DEPTH_NONE;
}

/* A Read RTR needs a slot at the responder, and one of ours (note to 3.1). */
bool ReadRtrUsable(uint16_t reply_ird, uint16_t local_ord)
{
	return IsNumber(reply_ird) ? reply_ird >= 1 : local_ord >= 1;
}

/* The most wanted kind of a set; C before D before B where policy is silent. */
uint8_t Choose(uint8_t kinds, const mpa2_policy &policy, uint16_t reply_ird,
	       uint16_t local_ord)
{
	const uint8_t order[] = { policy.rtr_order[0], policy.rtr_order[1],
				  policy.rtr_order[2], MPA2_RTR_WRITE,
				  MPA2_RTR_READ,       MPA2_RTR_SEND };

	for (const uint8_t kind : order) {
		if (!(kinds & kind))
			continue;
		if (kind == MPA2_RTR_READ && !ReadRtrUsable(reply_ird, local_ord))
			continue;
		return kind;
	}
	return MPA2_RTR_NONE;
}

/* The kinds that may be sent after this reply (RTR-05, AMB-12, AMB-13). */
uint8_t SendableKinds(const mpa2_enhanced &sent, const mpa2_enhanced &reply)
{
	if (!reply.peer_to_peer)
		return 0;
	if (sent.peer_to_peer)
		return sent.rtr & reply.rtr;
	return reply.rtr & (MPA2_RTR_WRITE | MPA2_RTR_READ);
}

uint16_t InitiatorIrd(const mpa2_enhanced &sent, const mpa2_enhanced &reply,
		      const mpa2_policy &policy, uint16_t ird, bool *enough)
{
	*enough = true;
	if (!IsNumber(reply.ord) || !IsNumber(sent.ird) || reply.ord <= ird)
		return ird;
	*enough = reply.ord <= policy.cap_ird; /* NEG-06, NEG-08 */
	return *enough ? reply.ord : ird;
}

/* K of 3.1, less a Read RTR that could never be answered (3.3). */
uint8_t SupportedKinds(const mpa2_policy &policy, bool ird_stays_zero)
{
	const uint8_t all = mpa2_policy_rtr_set(&policy);
	const uint8_t usable =
		static_cast<uint8_t>(ird_stays_zero ? all & ~MPA2_RTR_READ : all);

	return usable ? usable : all; /* RTR-10: never none */
}

uint8_t ReplyKinds(const mpa2_enhanced &request, uint8_t supported)
{
	const uint8_t shared = request.rtr & supported;

	if (!request.peer_to_peer)
		return 0;
	return shared ? shared : supported; /* RTR-12 */
}

void ReplyIrd(const mpa2_enhanced &request, const mpa2_policy &policy, uint32_t ulp_ird,
	      mpa2_reply_result *result)
{
	const bool number = IsNumber(request.ord);
	uint16_t ird = ClampDepth(ulp_ird, policy.cap_ird);

	if (number && request.ord > ird)
		ird = ClampDepth(request.ord, policy.cap_ird); /* NEG-03 */
	const bool stays_zero = ird == 0 && (!number || policy.cap_ird == 0);

	result->reply.rtr = ReplyKinds(request, SupportedKinds(policy, stays_zero));
	if ((result->reply.rtr & MPA2_RTR_READ) && ird == 0 && !stays_zero)
		ird = 1; /* NEG-04 */
	result->local_ird = ird;
	result->reply.ird = number ? ird : uint16_t{ MPA2_DEPTH_NONE };
}

void ReplyOrd(const mpa2_enhanced &request, const mpa2_policy &policy, uint32_t ulp_ord,
	      mpa2_reply_result *result)
{
	const bool number = IsNumber(request.ird);
	uint16_t ord = ClampDepth(ulp_ord, policy.cap_ord);

	if (number && ord > request.ird)
		ord = request.ird; /* NEG-02 */
	result->local_ord = LocalOrd(policy, ord);
	result->reply.ord = number ? result->local_ord : uint16_t{ MPA2_DEPTH_NONE };
	if (policy.require_ord && number && request.ird < policy.require_ord) {
		result->reject = 1; /* NEG-05 */
		result->reply.ord = policy.require_ord;
	}
}

} // namespace

uint16_t ClampDepth(uint32_t depth, uint16_t cap)
{
	return static_cast<uint16_t>(depth < cap ? depth : cap);
}

uint16_t LocalOrd(const mpa2_policy &policy, uint16_t ord)
{
	return policy.round_ord ? RoundDown(ord) : ord; /* NEG-07 */
}

} // namespace mpa2

extern "C" uint8_t mpa2_policy_rtr_set(const mpa2_policy *policy)
{
	uint8_t kinds = 0;

	for (const uint8_t kind : policy->rtr_order) {
		if (!kind)
			break;
		kinds |= kind;
	}
	return kinds;
}

/* Source: NEG-02..05, NEG-12, NEG-13, RTR-06..12. */
extern "C" void mpa2_negotiate_reply(const mpa2_enhanced *request,
				     const mpa2_policy *policy, uint32_t ulp_ird,
				     uint32_t ulp_ord, mpa2_reply_result *result)
{
	*result = mpa2_reply_result{};
	result->reply.peer_to_peer = request->peer_to_peer;
	mpa2::ReplyIrd(*request, *policy, ulp_ird, result);
	mpa2::ReplyOrd(*request, *policy, ulp_ord, result);
}

/* Source: NEG-06..08, NEG-14, NEG-15, RTR-13, RTR-14, RTR-17, AMB-12..14, AMB-23. */
extern "C" void mpa2_negotiate_check(const mpa2_enhanced *sent,
				     const mpa2_enhanced *reply,
				     const mpa2_policy *policy, uint32_t ulp_ird,
				     uint32_t ulp_ord, mpa2_check_result *result)
{
	uint16_t ord = mpa2::ClampDepth(ulp_ord, policy->cap_ord);
	bool enough = false;

	*result = mpa2_check_result{};
	result->local_ird =
		mpa2::InitiatorIrd(*sent, *reply, *policy,
				   mpa2::ClampDepth(ulp_ird, policy->cap_ird), &enough);
	if (mpa2::IsNumber(reply->ird) && ord > reply->ird)
		ord = reply->ird;
	if (sent->peer_to_peer || reply->peer_to_peer) {
		result->rtr = mpa2::Choose(mpa2::SendableKinds(*sent, *reply), *policy,
					   reply->ird, ord);
		if (result->rtr == MPA2_RTR_NONE)
			result->terminate = MPA2_TERM_NO_MATCHING_RTR;
	}
	if (result->rtr == MPA2_RTR_READ && ord == 0)
		ord = 1;
	result->local_ord = mpa2::LocalOrd(*policy, ord);
	if (!enough)
		result->terminate = MPA2_TERM_INSUFFICIENT_IRD;
	if (result->terminate)
		result->rtr = MPA2_RTR_NONE;
}
