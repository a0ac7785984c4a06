/*-------------------------------------------------------------------------
 *
 * core_relorder.c
 *	  Relations whose groups are retried often are ordered for a while.
 *
 *-------------------------------------------------------------------------
 */
#include "core/core_relorder.h"

/* The time a relation is ordered doubles up to 2^6 times. */
#define MAX_DOUBLINGS 6

static uint32_t
place_of(uint32_t relation)
{
	return (relation * UINT32_C(2654435761)) >> 26;
}

void
ppa_relorder_retried(PpaRelOrder *order, uint32_t relation, uint64_t group)
{
	PpaRelOrderEntry *entry = &order->entries[place_of(relation)];
	uint32_t	doublings;

	if (relation == 0 || order->groups == 0)
		return;
	if (entry->relation != relation)
	{
		if (entry->relation != 0 && (entry->ordered_until > group || entry->window_end > group))
			return;				/* taken */
		*entry = (PpaRelOrderEntry) {.relation = relation};
	}
	if (entry->ordered_until > group)
		return;
	if (entry->window_end <= group)
	{
		/* A whole window in peace: it has to earn it again. */
		if (entry->window_end + order->window <= group)
			entry->times = 0;
		entry->retries = 0;
		entry->window_end = group + order->window;
	}
	if (++entry->retries < order->retries)
		return;

	doublings = entry->times < MAX_DOUBLINGS ? entry->times : MAX_DOUBLINGS;
	entry->times++;
	entry->ordered_until = group + 1 + ((uint64_t) order->groups << doublings);
	entry->retries = 0;
	entry->window_end = entry->ordered_until + order->window;
	if (order->until < entry->ordered_until)
		order->until = entry->ordered_until;
	order->made++;
}

bool
ppa_relorder_is_ordered(const PpaRelOrder *order, uint32_t relation, uint64_t group)
{
	const PpaRelOrderEntry *entry = &order->entries[place_of(relation)];

	return group < order->until && relation != 0 && entry->relation == relation &&
		group < entry->ordered_until;
}
