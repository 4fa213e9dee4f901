/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where host order meets the wire: a reader that cannot run past its end and a
 * writer that cannot run past its buffer.  Nothing else in the core touches
 * octets by index.
 */
#ifndef IW_MPA2_CORE_OCTETS_H
#define IW_MPA2_CORE_OCTETS_H

#include <stddef.h>
#include <stdint.h>

namespace mpa2
{

class Reader
{
public:
	Reader(const uint8_t *octets, size_t len) : at_(octets), left_(len) {}

	/* The next octets as one big-endian number; false at the end. */
	template <typename T> [[nodiscard]] bool Read(T *value)
	{
		if (left_ < sizeof(T))
			return false;
		T number = 0;
		for (size_t i = 0; i < sizeof(T); i++)
			number = static_cast<T>((number << 8) | at_[i]);
		*value = number;
		Advance(sizeof(T));
		return true;
	}

	[[nodiscard]] bool Skip(size_t len)
	{
		if (left_ < len)
			return false;
		Advance(len);
		return true;
	}

	/* Whether the next octets are these; takes them if so. */
	[[nodiscard]] bool Match(const uint8_t *octets, size_t len)
	{
		if (left_ < len || __builtin_memcmp(at_, octets, len) != 0)
			return false;
		Advance(len);
		return true;
	}

	[[nodiscard]] size_t left() const { return left_; }

private:
	void Advance(size_t len)
	{
		at_ += len;
		left_ -= len;
	}

	const uint8_t *at_;
	size_t left_;
};

class Writer
{
public:
	Writer(uint8_t *out, size_t size) : start_(out), size_(size) {}

	template <typename T> void Write(T value)
	{
		if (!Room(sizeof(T)))
			return;
		for (size_t i = sizeof(T); i-- > 0;)
			start_[used_++] = static_cast<uint8_t>(value >> (8 * i));
	}

	/* The one number that the standard stores the other way round (1.3). */
	void WriteLittleEndian(uint32_t value)
	{
		if (!Room(sizeof(value)))
			return;
		for (size_t i = 0; i < sizeof(value); i++)
			start_[used_++] = static_cast<uint8_t>(value >> (8 * i));
	}

	/* The source may overlap the buffer. */
	void WriteOctets(const void *octets, size_t len)
	{
		if (!Room(len) || !len)
			return;
		__builtin_memmove(start_ + used_, octets, len);
		used_ += len;
	}

	void WriteZeros(size_t len)
	{
		if (!Room(len) || !len)
			return;
		__builtin_memset(start_ + used_, 0, len);
		used_ += len;
	}

	/* Octets written, 0 if they did not all fit. */
	[[nodiscard]] size_t size() const { return fits_ ? used_ : 0; }
	[[nodiscard]] const uint8_t *start() const { return start_; }

private:
	bool Room(size_t len)
	{
		if (fits_ && size_ - used_ < len)
			fits_ = false;
		return fits_;
	}

	uint8_t *start_;
	size_t size_;
	size_t used_ = 0;
	bool fits_ = true;
};

} // namespace mpa2

#endif /* IW_MPA2_CORE_OCTETS_H */
