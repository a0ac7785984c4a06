/*-------------------------------------------------------------------------
 *
 * report_workers.h
 *	  What each apply worker is doing, in shared memory.
 *
 * One slot per apply worker process, claimed when it starts and free again
 * when it exits.  The worker is the only writer.  Its identity is protected by
 * the slot's spinlock; everything else is single words that are written and
 * read without any lock, so that a reader may see fields of different moments.
 * (Where 8 bytes are not written at once it may even see half of a number.)
 * What belongs together is written by the functions below in an order that
 * makes the mix harmless.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_REPORT_WORKERS_H
#define PPA_REPORT_WORKERS_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "storage/spin.h"

/* What a worker is doing with its group. */
typedef enum PpaWorkerState
{
	PPA_WORKER_FREE,			/* nobody has the slot */
	PPA_WORKER_STARTING,		/* connects, attaches to its queue */
	PPA_WORKER_IDLE,			/* has no group */
	PPA_WORKER_EXECUTING,		/* applies changes */
	PPA_WORKER_WAITING,			/* has a group; "wait" says what it waits for */
	PPA_WORKER_COMMITTING,		/* has the commit turn */
	PPA_WORKER_FLUSHING			/* has handed the turn on, makes its commit durable */
} PpaWorkerState;

/* Waits of our own.  That a worker waits for a lock is known by the server. */
typedef enum PpaWorkerWait
{
	PPA_WAIT_NONE,
	PPA_WAIT_QUEUE,				/* queue empty: between groups, or inside of one that arrives */
	PPA_WAIT_START,				/* its group may begin when "wait_group" has committed */
	PPA_WAIT_DEPENDENCY,		/* its next change needs what "wait_group" writes */
	PPA_WAIT_TURN,				/* executed; groups up to "wait_group" commit before it */
	PPA_WAIT_RETRY				/* rolled back, until the leader lets it begin again */
} PpaWorkerWait;

typedef struct PpaWorkerSlot
{
	slock_t		mutex;			/* protects the identity */
	int			pid;			/* 0: the slot is free */
	Oid			subid;
	Oid			dbid;
	int			number;			/* of the worker, 0 and up */
	NameData	subname;

	volatile uint32 state;		/* PpaWorkerState */
	volatile uint32 wait;		/* PpaWorkerWait */
	volatile uint64 wait_group; /* 0: none */
	volatile uint64 group;		/* that it is applying; 0: none */
	volatile uint64 remote_lsn; /* end of the remote transaction; 0: not known yet */
	volatile uint32 remote_xid; /* of the remote transaction it is at; 0: none */
	volatile Oid relation;		/* local; 0: none */
	volatile uint32 operation;	/* of the change it is at: 'I', 'U', 'D', 'T'; 0: none */
	volatile uint64 rows;		/* changes made in this attempt at the group */
	volatile uint64 rows_total; /* changes made in groups that have committed */
	volatile uint64 groups_total;	/* groups that have committed */
	volatile uint64 replays;	/* attempts after the first */
} PpaWorkerSlot;

/* For report_counters.c, which has the hooks of shared memory. */
extern Size ppa_report_workers_size(void);
extern void ppa_report_workers_startup(void);

/*
 * A free slot for this process, in state PPA_WORKER_STARTING; it is free again
 * when the process exits.  NULL if there is none, which costs only the view's
 * row: all functions below do nothing then.
 */
extern PpaWorkerSlot *ppa_report_worker_claim(Oid subid, Oid dbid, const char *subname, int number);

/* All slots, free ones too. */
extern int	ppa_report_nworkers(void);

/* A copy of slot i; false if it is free. */
extern bool ppa_report_worker_read(int i, PpaWorkerSlot *copy);

/* ---------- for the worker; any of its fields may be set directly as well ---------- */

/* From now on it does this, and does not wait. */
static inline void
ppa_report_worker_state(PpaWorkerSlot *slot, PpaWorkerState state)
{
	if (slot == NULL)
		return;
	slot->wait = PPA_WAIT_NONE;
	slot->wait_group = 0;
	slot->state = state;
}

/*
 * From now on it waits: in state PPA_WORKER_IDLE if it has no group, else
 * PPA_WORKER_WAITING.  Ends with ppa_report_worker_state().
 */
static inline void
ppa_report_worker_wait(PpaWorkerSlot *slot, PpaWorkerWait wait, uint64 wait_group)
{
	if (slot == NULL)
		return;
	slot->wait_group = wait_group;
	slot->wait = wait;
	slot->state = slot->group == 0 ? PPA_WORKER_IDLE : PPA_WORKER_WAITING;
}

/* The group that it has from now on (again, after a rollback); 0: none. */
static inline void
ppa_report_worker_group(PpaWorkerSlot *slot, uint64 group)
{
	if (slot == NULL)
		return;
	slot->relation = InvalidOid;
	slot->operation = 0;
	slot->remote_xid = 0;
	slot->remote_lsn = 0;
	slot->rows = 0;
	slot->group = group;
}

/* The remote transaction that its next changes belong to. */
static inline void
ppa_report_worker_remote(PpaWorkerSlot *slot, TransactionId xid, XLogRecPtr lsn)
{
	if (slot == NULL)
		return;
	slot->remote_xid = xid;
	slot->remote_lsn = lsn;
}

/* The change that it is at; the one before it is done. */
static inline void
ppa_report_worker_change(PpaWorkerSlot *slot, Oid relation, char operation)
{
	if (slot == NULL)
		return;
	slot->relation = relation;
	slot->operation = (unsigned char) operation;
}

/* "n" changes more are made. */
static inline void
ppa_report_worker_rows(PpaWorkerSlot *slot, uint64 n)
{
	if (slot != NULL)
		slot->rows += n;
}

/* Its group has committed. */
static inline void
ppa_report_worker_committed(PpaWorkerSlot *slot)
{
	if (slot == NULL)
		return;
	slot->rows_total += slot->rows;
	slot->groups_total++;
}

/* It begins its group again after a rollback. */
static inline void
ppa_report_worker_replay(PpaWorkerSlot *slot)
{
	if (slot == NULL)
		return;
	slot->rows = 0;
	slot->replays++;
}

#endif							/* PPA_REPORT_WORKERS_H */
