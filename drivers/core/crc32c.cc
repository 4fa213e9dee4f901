// SPDX-License-Identifier: GPL-2.0
/* CRC32c as MPA uses it (requirements 1.3). */
#include <iw_mpa2/core.h>

namespace
{

constexpr uint32_t kReflectedPolynomial = 0x82F63B78;

struct Table {
	uint32_t of[256];
};

constexpr Table MakeTable()
{
	Table table{};

	for (uint32_t octet = 0; octet < 256; octet++) {
		uint32_t crc = octet;
		for (int bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ ((crc & 1) ? kReflectedPolynomial : 0);
		table.of[octet] = crc;
	}
	return table;
}

constexpr Table kTable = MakeTable();

} // namespace

/* Source: MPA-37, requirements 1.3. */
extern "C" uint32_t mpa2_crc32c(const void *octets, size_t len)
{
	const auto *at = static_cast<const uint8_t *>(octets);
	uint32_t crc = 0xFFFFFFFF;

	while (len--)
		crc = (crc >> 8) ^ kTable.of[(crc ^ *at++) & 0xFF];
	return ~crc;
}
