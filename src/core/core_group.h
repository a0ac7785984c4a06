/*-------------------------------------------------------------------------
 *
 * core_group.h
 *	  Which remote transactions share a local transaction.
 *
 * A group is a contiguous run of remote transactions, in commit order, that
 * is applied in one local transaction.  These are its rules, as a function of
 * facts: no PostgreSQL header, clock, allocation or logging.
 *
 * The leader asks twice: ppa_group_admits() when a COMMIT has been read (all
 * of the transaction is there, nothing of it applied), and ppa_group_is_full()
 * after it has joined.  Besides, a group ends when the input runs dry, so that
 * it costs no latency; that is for the caller to see.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_CORE_GROUP_H
#define PPA_CORE_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The settings. */
typedef struct PpaGroupRules
{
	bool		grouping;		/* false: one remote transaction per group */
	uint32_t	max_transactions;
	size_t		max_bytes;
} PpaGroupRules;

/* What is known of a remote transaction when its COMMIT has been read. */
typedef struct PpaTxnFacts
{
	size_t		bytes;
	bool		unsettled;		/* touches a relation (re)described in it, or changed locally */
	bool		truncates;
	bool		solo;			/* something that runs in it would notice company */
} PpaTxnFacts;

/* A group being formed; all zero is an empty group. */
typedef struct PpaGroup
{
	uint32_t	transactions;
	size_t		bytes;
	bool		sealed;			/* takes nobody any more */
} PpaGroup;

/* May the transaction join?  An empty group admits every one. */
extern bool ppa_group_admits(const PpaGroupRules *rules, const PpaGroup *group,
							 const PpaTxnFacts *txn);

/* The transaction joins. */
extern void ppa_group_add(const PpaGroupRules *rules, PpaGroup *group, const PpaTxnFacts *txn);

/* Should the group be applied now, whatever comes next? */
extern bool ppa_group_is_full(const PpaGroupRules *rules, const PpaGroup *group);

#endif							/* PPA_CORE_GROUP_H */
