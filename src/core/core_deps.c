/*-------------------------------------------------------------------------
 *
 * core_deps.c
 *	  Which group wrote a key last.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "core/core_assert.h"
#include "core/core_deps.h"

/* Slots a key may live in: four cache lines, read in one direction. */
#define WINDOW 16

/* Entries, rounded up to a power of two. */
static uint32_t
round_up(uint32_t entries)
{
	uint32_t	size = WINDOW;

	while (size < entries && size < (UINT32_C(1) << 30))
		size <<= 1;
	return size;
}

size_t
ppa_deps_size(uint32_t entries)
{
	return (size_t) round_up(entries) * sizeof(PpaDepsEntry);
}

void
ppa_deps_init(PpaDeps *deps, void *memory, uint32_t entries, PpaDepsMode mode)
{
	uint32_t	size = round_up(entries);

	memset(deps, 0, sizeof(*deps));
	memset(memory, 0, ppa_deps_size(entries));
	deps->entries = memory;
	deps->mask = size - 1;
	deps->mode = mode;
	for (deps->shift = 64; size > 1; size >>= 1)
		deps->shift--;
}

/*
 * What a key without an entry depends on: nothing, unless entries were lost.
 * Those of this very group hide which earlier groups lost theirs.
 */
static uint64_t
not_found(const PpaDeps *deps, uint64_t group, uint64_t committed)
{
	uint64_t	answer = deps->lost < group ? deps->lost : group - 1;

	return answer > committed ? answer : 0;
}

uint64_t
ppa_deps_write(PpaDeps *deps, uint64_t key, uint64_t group, uint64_t committed)
{
	PpaDepsEntry *room = NULL;
	uint64_t	answer;
	uint32_t	home;

	ppa_assert(group > committed);
	if (deps->mode == PPA_DEPS_NONE)
		return 0;
	if (deps->mode == PPA_DEPS_ALL)
		return group - 1 > committed ? group - 1 : 0;

	/* The multiplication lets even poor hashes use all slots. */
	home = (uint32_t) ((key * UINT64_C(0x9E3779B97F4A7C15)) >> deps->shift);
	for (uint32_t i = 0; i < WINDOW; i++)
	{
		PpaDepsEntry *entry = &deps->entries[(home + i) & deps->mask];

		if (entry->key == key && entry->group > committed)
		{
			answer = entry->group < group ? entry->group : 0;
			entry->group = group;
			return answer;
		}
		if (room == NULL && entry->group <= committed)
			room = entry;
		/* Slots are taken from home on: nothing lies beyond one never used. */
		if (entry->group == 0)
			break;
	}

	answer = not_found(deps, group, committed);
	if (room != NULL)
	{
		room->key = key;
		room->group = group;
	}
	else
	{
		deps->lost = group;
		deps->full++;
	}
	return answer;
}
