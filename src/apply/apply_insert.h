/*-------------------------------------------------------------------------
 *
 * apply_insert.h
 *	  INSERT, one row at a time or in runs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_APPLY_INSERT_H
#define PPA_APPLY_INSERT_H

#include "postgres.h"

#include "apply/apply_state.h"

/* Apply the INSERT in w->change. */
extern void ppa_apply_insert(PpaWorker *w, PpaTarget *target);

/*
 * Write one row, with triggers, constraints and indexes.  "slot" is in the
 * format of the target, which is no partitioned table.
 */
extern void ppa_insert_row(PpaWorker *w, PpaTarget *target, TupleTableSlot *slot);

/* Write the rows that were kept back, of one target or of all. */
extern void ppa_batch_flush(PpaWorker *w, PpaTarget *target);
extern void ppa_batches_flush(PpaWorker *w);

#endif							/* PPA_APPLY_INSERT_H */
