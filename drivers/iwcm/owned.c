// SPDX-License-Identifier: GPL-2.0
/*
 * Which provider_data is ours.
 *
 * provider_data may be stock siw's list_head or siw_cep, or ours.  Ours is
 * never a pointer but an odd number, an index into the table below; siw's are
 * aligned pointers.  So a handle of ours stays safe to look up even after its
 * object has gone, and nothing is ever read behind a pointer to find out.
 *
 * From the lowest bit: 1, 30 bits of index, whether the id was accepted, and from
 * bit 32 the number of the QP it was accepted with, which outlives the object.
 */
#include <linux/bits.h>
#include <linux/xarray.h>

#include "mpa2.h"

static DEFINE_XARRAY_ALLOC1(owned);
static u32 owned_next = 1;

#define OWNED_INDEX_MASK GENMASK(29, 0)
#define OWNED_LIMIT XA_LIMIT(1, OWNED_INDEX_MASK)
#define OWNED_ACCEPTED BIT(31)
#define OWNED_QPN_SHIFT 32

static unsigned long index_of(const void *handle)
{
	return (uintptr_t)handle >> 1 & OWNED_INDEX_MASK;
}

/**
 * mpa2_owned_is() - whether a provider_data is ours
 * @handle: the provider_data
 *
 * Context: any.
 * Return: whether it is; its object may have gone all the same.
 */
bool mpa2_owned_is(const void *handle)
{
	return (uintptr_t)handle & 1;
}

/**
 * mpa2_owned_add() - a handle for an object
 * @object: what mpa2_owned_find() shall find; no reference is taken
 *
 * Context: may sleep.
 * Return: the handle, until mpa2_owned_del(); NULL without memory.
 */
void *mpa2_owned_add(void *object)
{
	u32 index;

	if (xa_alloc_cyclic(&owned, &index, object, OWNED_LIMIT, &owned_next,
			    GFP_KERNEL) < 0)
		return NULL;
	return (void *)(((uintptr_t)index << 1) | 1);
}

/**
 * mpa2_owned_del() - the object is not to be found any more
 * @handle: its handle, or NULL
 *
 * Context: any but interrupts.
 */
void mpa2_owned_del(void *handle)
{
	if (handle)
		xa_erase(&owned, index_of(handle));
}

/**
 * mpa2_owned_find() - the object of a handle
 * @handle: a provider_data that is ours
 * @get: takes a reference on it, under the table's lock
 *
 * Context: any but interrupts.
 * Return: the object with a reference for the caller, or NULL.
 */
void *mpa2_owned_find(const void *handle, void (*get)(void *object))
{
	void *object;

	xa_lock(&owned);
	object = xa_load(&owned, index_of(handle));
	if (object)
		get(object);
	xa_unlock(&owned);
	return object;
}

/**
 * mpa2_owned_accepted() - the same handle, with a note that its id was accepted
 * @handle: a provider_data that is ours
 * @qpn: the number of the QP it was accepted with
 *
 * Context: any.
 * Return: what becomes the id's provider_data.
 */
void *mpa2_owned_accepted(const void *handle, u32 qpn)
{
	BUILD_BUG_ON(sizeof(handle) < sizeof(u64));
	return (void *)(index_of(handle) << 1 | 1 | OWNED_ACCEPTED |
			(uintptr_t)qpn << OWNED_QPN_SHIFT);
}

/**
 * mpa2_owned_was_accepted() - whether the id of a handle was accepted
 * @handle: a provider_data that is ours
 * @qpn: the number of the QP that was for, if it was
 *
 * Context: any; the object may have gone.
 * Return: whether it was.
 */
bool mpa2_owned_was_accepted(const void *handle, u32 *qpn)
{
	*qpn = (uintptr_t)handle >> OWNED_QPN_SHIFT;
	return (uintptr_t)handle & OWNED_ACCEPTED;
}

/**
 * mpa2_owned_stop() - the end of the table, which has to be empty
 *
 * Context: module exit.
 */
void mpa2_owned_stop(void)
{
	WARN_ON(!xa_empty(&owned));
	xa_destroy(&owned);
}
