/*-------------------------------------------------------------------------
 *
 * apply_lookup_plan.h
 *	  Choose how the rows of a target are found.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_APPLY_LOOKUP_PLAN_H
#define PPA_APPLY_LOOKUP_PLAN_H

#include "postgres.h"

#include "apply/apply_state.h"

/*
 * By the replica identity index or primary key; where there is none, the
 * publisher sends whole rows: by the usable index with the fewest rows per
 * key, or by a scan if that is cheaper.  Opens the index; the result lives in
 * the current memory context.
 */
extern PpaLookup *ppa_lookup_plan(PpaTarget *target);

#endif							/* PPA_APPLY_LOOKUP_PLAN_H */
