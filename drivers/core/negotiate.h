/* SPDX-License-Identifier: GPL-2.0 */
/* Depths where nothing is negotiated, shared by both machines. */
#ifndef IW_MPA2_CORE_NEGOTIATE_H
#define IW_MPA2_CORE_NEGOTIATE_H

#include <iw_mpa2/core.h>

namespace mpa2
{

uint16_t ClampDepth(uint32_t depth, uint16_t cap);

/* siw rounds its queue up to a power of two, so we round down. */
uint16_t LocalOrd(const mpa2_policy &policy, uint16_t ord);

} // namespace mpa2

#endif /* IW_MPA2_CORE_NEGOTIATE_H */
