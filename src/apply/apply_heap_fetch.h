/*-------------------------------------------------------------------------
 *
 * apply_heap_fetch.h
 *	  Fetch rows from the heap in the way that suits changes in a row.
 *
 * By index: without cleaning their pages more than needed.  The heap access
 * method prunes a page whenever a scan comes to it that has dead versions and
 * less than a tenth free.  With rows updated in random order that is nearly
 * every visit, for the one version that died since the last: a third of the
 * cost of such an update, and a WAL record.  There is room for a score of
 * versions in that tenth.  So we come to the page first, and have it pruned
 * only when the version that we are about to write may not fit any more, which
 * is when pruning keeps the update on its page (HOT).
 *
 * By scan: one statement of the publisher changes rows mostly in the order in
 * which they lie there, and so they lie here.  A scan that begins where the
 * last row was found, and goes round, finds the next one at once, where one
 * that begins at the first page passes all that have been changed before.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_APPLY_HEAP_FETCH_H
#define PPA_APPLY_HEAP_FETCH_H

#include "postgres.h"

#include "access/relscan.h"
#include "utils/snapshot.h"

#include "apply/apply_state.h"

/*
 * The next row of the target's index scan that its snapshot shows, in
 * target->found; false at the end.  Like index_getnext_slot().
 */
extern bool ppa_index_next(PpaTarget *target);

/* A scan of the whole table, from the page where the last one found its row. */
extern TableScanDesc ppa_scan_begin(PpaTarget *target, Snapshot snapshot);

/* The row that it was begun for is in target->found. */
extern void ppa_scan_found(PpaTarget *target);

#endif							/* PPA_APPLY_HEAP_FETCH_H */
