/*-------------------------------------------------------------------------
 *
 * apply_own_rows.c
 *	  Where the rows are that this local transaction has written.
 *
 * Runs in:	the process that applies changes.
 * Memory:	part of PpaLookup, so of the local transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "common/hashfn.h"
#include "utils/snapmgr.h"

#include "apply/apply_modify.h"
#include "apply/apply_own_rows.h"

/* Hash of the key as the publisher sent it; never 0. */
static uint32
hash_key(const PpaTarget *target, const PpaWireTuple *tuple)
{
	const PpaLookup *lookup = target->lookup;
	uint32		hash = 0;

	for (int i = 0; i < lookup->nkeys; i++)
	{
		int			column = target->lrel->column[lookup->attno[i] - 1];

		if (column >= 0 && column < tuple->ncols && tuple->value[column] != NULL)
			hash = hash_combine(hash, hash_bytes((const unsigned char *) tuple->value[column],
												 tuple->len[column]));
	}
	return hash != 0 ? hash : 1;
}

static bool
has_searched_key(PpaTarget *target)
{
	PpaLookup  *lookup = target->lookup;
	TupleTableSlot *search = target->lrel->search_slot;

	for (int i = 0; i < lookup->nkeys; i++)
	{
		ScanKey		key = &lookup->key[i];
		int			att = lookup->attno[i] - 1;
		bool		isnull;
		Datum		value = slot_getattr(target->found, att + 1, &isnull);

		if (isnull || search->tts_isnull[att] ||
			!DatumGetBool(FunctionCall2Coll(&key->sk_func, key->sk_collation, value,
											search->tts_values[att])))
			return false;
	}
	return true;
}

bool
ppa_own_row_find(PpaWorker *w, PpaTarget *target)
{
	PpaLookup  *lookup = target->lookup;
	uint32		hash = hash_key(target, ppa_identity_tuple(w->change));
	PpaOwnRow  *own = &lookup->own[hash % PPA_OWN_ROWS];

	lookup->search_hash = hash;
	return own->hash == hash &&
		table_tuple_fetch_row_version(target->rel, &own->tid, GetActiveSnapshot(),
									  target->found) &&
		has_searched_key(target);
}

void
ppa_own_row_remember(PpaWorker *w, PpaTarget *target)
{
	PpaLookup  *lookup = target->lookup;

	/* with an old tuple the key has changed, and the hash is that of the old one */
	if (!lookup->exact || w->change->old_kind != PPA_OLD_NONE)
		return;
	lookup->own[lookup->search_hash % PPA_OWN_ROWS] = (PpaOwnRow)
	{
		.hash = lookup->search_hash,
		.tid = target->lrel->new_slot->tts_tid
	};
}
