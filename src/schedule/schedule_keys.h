/*-------------------------------------------------------------------------
 *
 * schedule_keys.h
 *	  The keys that a change writes, as 64-bit hashes of wire bytes.
 *
 * Two changes that write the same key must be applied in order; the scheduler
 * compares hashes.  A key that is not seen here (values that are equal but
 * written in different ways, the old value of a column that is not part of
 * the replica identity) is found by the worker that meets it.  So this is only
 * a matter of speed.
 *
 * Runs in:	the leader, for every change: plain C, no allocation.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_SCHEDULE_KEYS_H
#define PPA_SCHEDULE_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/wire_message.h"

/* Keys of one relation that are looked at; more do not pay. */
#define PPA_MAX_RELATION_KEYS 8

/* Each in the old and in the new image. */
#define PPA_MAX_CHANGE_KEYS (2 * PPA_MAX_RELATION_KEYS)

typedef struct PpaKey
{
	uint64_t	seed;			/* from ppa_key_seed() */
	int			ncolumns;		/* > 0 */
	const uint16_t *columns;	/* remote columns, from 0, ascending */
	bool		has_nulls;		/* NULL is a value; else a key with NULL is none */
	bool		in_identity;	/* all its columns are of the replica identity */
} PpaKey;

/* The keys of one relation; no two with the same columns. */
typedef struct PpaRelationKeys
{
	int			nkeys;
	PpaKey		key[PPA_MAX_RELATION_KEYS];
} PpaRelationKeys;

/*
 * Seed of a key.  It depends on the relation and on the names of the columns,
 * so that a key is the same key after the relation is described anew.
 */
extern uint64_t ppa_key_seed(uint32_t relid, char *const *attnames, int ncolumns,
							 const uint16_t *columns);

/*
 * The keys that a parsed change (before ppa_wire_terminate()) writes, each
 * once: of the old image what it has, of the new image all.  Left out are keys
 * with a column whose value the message does not have.  Returns their number;
 * "keys" has room for PPA_MAX_CHANGE_KEYS.
 */
extern int	ppa_keys_of_change(const PpaRelationKeys *relation, const PpaChange *change,
							   uint64_t *keys);

#endif							/* PPA_SCHEDULE_KEYS_H */
