/*-------------------------------------------------------------------------
 *
 * apply_worker.h
 *	  The process that applies changes: remote and local transactions.
 *
 * What serial apply (apply_serial.c) and the apply workers of parallel apply
 * (apply_parallel.c) have in common.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_APPLY_WORKER_H
#define PPA_APPLY_WORKER_H

#include "postgres.h"

#include "access/xlogdefs.h"

#include "apply/apply_state.h"
#include "report/report_counters.h"
#include "server/server_batch.h"

typedef struct PpaWorkerHooks
{
	void	   *arg;

	/* Called at least every second while applying takes long; must not throw. */
	void		(*tick) (void *arg);
} PpaWorkerHooks;

/* Once per process.  "hooks" may be NULL where nothing sets ppa_tick_due. */
extern PpaWorker *ppa_worker_create(MemoryContext parent, PpaSubSlot *slot,
									const PpaWorkerHooks *hooks);

/*
 * A description that does not stand in the stream of a local transaction: no
 * rollback takes it back.
 */
extern void ppa_worker_learn_relation(PpaWorker *w, const char *message, int len);

/* A remote transaction begins: is it the one to skip? */
extern void ppa_worker_begin_member(PpaWorker *w, const PpaMember *member);

/*
 * Do what is left of the local transaction, if there is one, but for its
 * commit.  "last" is the last remote transaction in it.  Afterwards it holds
 * its locks, but no pin, no snapshot, no open relation.
 */
extern void ppa_local_complete(PpaWorker *w, const PpaMember *last);

/*
 * Commit it, with the progress of the origin; "expected" is what that was
 * before, where the origin is shared.  Returns the end of what it has written,
 * or invalid if that is nothing.
 */
extern XLogRecPtr ppa_local_commit(PpaWorker *w, const PpaMember *last, XLogRecPtr expected);

/* After the commit, when everything about it has been reported. */
extern void ppa_local_committed(PpaWorker *w);

/* In PG_CATCH, with the error dealt with: undo the local transaction and go on. */
extern void ppa_local_rollback(PpaWorker *w);

#endif							/* PPA_APPLY_WORKER_H */
