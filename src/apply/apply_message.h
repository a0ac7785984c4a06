/*-------------------------------------------------------------------------
 *
 * apply_message.h
 *	  Apply one message of a remote transaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_APPLY_MESSAGE_H
#define PPA_APPLY_MESSAGE_H

#include "postgres.h"

#include "apply/apply_state.h"
#include "core/core_group.h"

/*
 * Apply a message between BEGIN and COMMIT.  Starts the local transaction at
 * the first change.
 */
extern void ppa_apply_message(PpaWorker *w, const char *message, int len);

/* Start the local transaction, unless it has been. */
extern void ppa_local_begin(PpaWorker *w);

/*
 * Learn from a message, before it is applied, what its transaction means for
 * a group: adds to *facts.
 */
extern void ppa_learn_facts(PpaWorker *w, const char *message, int len, PpaTxnFacts *facts);

#endif							/* PPA_APPLY_MESSAGE_H */
