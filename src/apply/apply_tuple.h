/*-------------------------------------------------------------------------
 *
 * apply_tuple.h
 *	  From the values of a message to a slot of the local table.
 *
 * Values are allocated in the current memory context.  All three throw what
 * the type's input function throws, with the column in the error context.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_APPLY_TUPLE_H
#define PPA_APPLY_TUPLE_H

#include "postgres.h"

#include "executor/tuptable.h"

#include "server/server_localrel.h"
#include "wire/wire_message.h"

/* All columns that the publisher sends; the others become NULL. */
extern void ppa_tuple_store(TupleTableSlot *slot, PpaLocalRel *lrel, const PpaWireTuple *tuple);

/* Only the given table columns (for a lookup by key); the others become NULL. */
extern void ppa_tuple_store_key(TupleTableSlot *slot, PpaLocalRel *lrel,
								const PpaWireTuple *tuple, const AttrNumber *attnos, int nattnos);

/*
 * The row "found", with the columns that the message changes replaced.
 * Values that are not replaced point into "found".
 */
extern void ppa_tuple_merge(TupleTableSlot *slot, TupleTableSlot *found, PpaLocalRel *lrel,
							const PpaWireTuple *tuple);

#endif							/* PPA_APPLY_TUPLE_H */
