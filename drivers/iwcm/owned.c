// SPDX-License-Identifier: GPL-2.0
/*
 * Which provider_data is ours.
 *
 * provider_data may be stock siw's list_head or siw_cep, or ours.  Ours is
 * never a pointer but an odd number, an index into the table below; siw's are
 * aligned pointers.  So a handle of ours stays safe to look up even after its
 * object has gone, and nothing is ever read behind a pointer to find out.
 */
#include <linux/xarray.h>

#include "mpa2.h"

static DEFINE_XARRAY_ALLOC1(owned);
static u32 owned_next = 1;

#define OWNED_LIMIT XA_LIMIT(1, (1U << 30) - 1)

static unsigned long index_of(const void *handle)
{
	return (uintptr_t)handle >> 1;
}

bool mpa2_owned_is(const void *handle)
{
	return (uintptr_t)handle & 1;
}

/* The handle, or NULL without memory. */
void *mpa2_owned_add(void *object)
{
	u32 index;

	if (xa_alloc_cyclic(&owned, &index, object, OWNED_LIMIT, &owned_next,
			    GFP_KERNEL) < 0)
		return NULL;
	return (void *)(((uintptr_t)index << 1) | 1);
}

void mpa2_owned_del(void *handle)
{
	if (handle)
		xa_erase(&owned, index_of(handle));
}

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

void mpa2_owned_stop(void)
{
	WARN_ON(!xa_empty(&owned));
	xa_destroy(&owned);
}
