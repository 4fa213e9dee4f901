/* SPDX-License-Identifier: GPL-2.0 */
/* The 32 bits of enhanced connection data (requirements 1.2). */
#ifndef IW_MPA2_CORE_FRAME_H
#define IW_MPA2_CORE_FRAME_H

#include <iw_mpa2/core.h>

#include "octets.h"

namespace mpa2
{

[[nodiscard]] bool ReadEnhanced(Reader *in, mpa2_enhanced *data);
void WriteEnhanced(Writer *out, const mpa2_enhanced &data);

} // namespace mpa2

#endif /* IW_MPA2_CORE_FRAME_H */
