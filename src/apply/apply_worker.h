/*-------------------------------------------------------------------------
 *
 * apply_worker.h
 *	  The process that applies changes: groups, local transactions, errors.
 *
 * In serial mode this is the leader itself.  The leader hands over complete
 * remote transactions in batches, or, when one is large, message by message.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_APPLY_WORKER_H
#define PPA_APPLY_WORKER_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "datatype/timestamp.h"

#include "apply/apply_state.h"
#include "report/report_counters.h"
#include "server/server_batch.h"

typedef struct PpaWorkerHooks
{
	void	   *arg;

	/*
	 * All remote transactions up to end_lsn are applied.  local_lsn is the
	 * end of the local commit record, or invalid if nothing was committed.
	 */
	void		(*applied) (void *arg, XLogRecPtr end_lsn, XLogRecPtr local_lsn);

	/* Called at least every second while applying takes long; must not throw. */
	void		(*tick) (void *arg);
} PpaWorkerHooks;

/* Once per process; the origin has been adopted. */
extern PpaWorker *ppa_worker_create(MemoryContext parent, PpaSubSlot *slot,
									const PpaWorkerHooks *hooks);

/*
 * Apply the members of a batch, in as few local transactions as the rules
 * allow.  After an error they are applied one by one; what is thrown is then
 * the error of the first transaction that fails by itself, with all before it
 * committed.
 */
extern void ppa_worker_apply_batch(PpaWorker *w, const PpaBatch *batch);

/*
 * Apply a large transaction while it arrives: begin, then its messages, then
 * commit.
 */
extern void ppa_worker_begin(PpaWorker *w, const PpaMember *txn);
extern void ppa_worker_message(PpaWorker *w, const char *message, int len);
extern void ppa_worker_commit(PpaWorker *w, const PpaMember *txn);

#endif							/* PPA_APPLY_WORKER_H */
