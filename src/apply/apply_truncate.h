/*-------------------------------------------------------------------------
 *
 * apply_truncate.h
 *	  TRUNCATE.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_APPLY_TRUNCATE_H
#define PPA_APPLY_TRUNCATE_H

#include "postgres.h"

#include "apply/apply_state.h"

/*
 * Apply a TRUNCATE message.  All targets must be closed: a table cannot be
 * truncated while it is open.
 */
extern void ppa_apply_truncate(PpaWorker *w, const PpaTruncate *msg);

#endif							/* PPA_APPLY_TRUNCATE_H */
