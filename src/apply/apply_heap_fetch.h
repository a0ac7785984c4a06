/*-------------------------------------------------------------------------
 *
 * apply_heap_fetch.h
 *	  Fetch rows by index, without cleaning their pages more than needed.
 *
 * The heap access method prunes a page whenever a scan comes to it that has
 * dead versions and less than a tenth free.  With rows updated in random
 * order that is nearly every visit, for the one version that died since the
 * last: a third of the cost of such an update, and a WAL record.  There is
 * room for a score of versions in that tenth.  So we come to the page first,
 * and have it pruned only when the version that we are about to write may not
 * fit any more, which is when pruning keeps the update on its page (HOT).
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_APPLY_HEAP_FETCH_H
#define PPA_APPLY_HEAP_FETCH_H

#include "postgres.h"

#include "apply/apply_state.h"

/*
 * The next row of the target's index scan that its snapshot shows, in
 * target->found; false at the end.  Like index_getnext_slot().
 */
extern bool ppa_index_next(PpaTarget *target);

#endif							/* PPA_APPLY_HEAP_FETCH_H */
