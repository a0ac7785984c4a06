/*-------------------------------------------------------------------------
 *
 * core_relorder.h
 *	  Relations whose groups are retried often are ordered for a while.
 *
 * A retry throws work away; where keys that the leader cannot see collide
 * (a unique value that moves between rows, say) waiting is cheaper.  Only a
 * matter of speed: the table is small, and a relation that finds its place
 * taken is not ordered.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_CORE_RELORDER_H
#define PPA_CORE_RELORDER_H

#include <stdbool.h>
#include <stdint.h>

#define PPA_RELORDER_ENTRIES 64

typedef struct PpaRelOrderEntry
{
	uint32_t	relation;		/* 0: free */
	uint32_t	retries;		/* in this window */
	uint32_t	times;			/* how often it was ordered, in a row */
	uint64_t	window_end;
	uint64_t	ordered_until;	/* group number */
} PpaRelOrderEntry;

typedef struct PpaRelOrder
{
	uint32_t	retries;		/* the settings: see PpaScheduleConfig */
	uint32_t	window;
	uint32_t	groups;
	uint64_t	until;			/* none is ordered from this group on */
	uint64_t	made;			/* how often a relation became ordered */
	PpaRelOrderEntry entries[PPA_RELORDER_ENTRIES];
} PpaRelOrder;

/* A change of the relation was retried; "group" is the newest there is. */
extern void ppa_relorder_retried(PpaRelOrder *order, uint32_t relation, uint64_t group);

/* Is the relation ordered in that group? */
extern bool ppa_relorder_is_ordered(const PpaRelOrder *order, uint32_t relation, uint64_t group);

#endif							/* PPA_CORE_RELORDER_H */
