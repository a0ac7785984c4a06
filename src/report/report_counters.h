/*-------------------------------------------------------------------------
 *
 * report_counters.h
 *	  What pg_parallel_apply shows of itself, in shared memory.
 *
 * One slot per subscription.  Each number has one writer at a time: the leader,
 * or whoever has the commit turn (in serial mode the leader too; in parallel
 * mode one apply worker after the other, and each hands the turn on with a
 * barrier).  So they are added to without a locked instruction.  Readers take
 * no lock for numbers, and the slot's spinlock for texts.  Counters outlive
 * the leader, so that a restart loses none; they start at zero when the server
 * does.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_REPORT_COUNTERS_H
#define PPA_REPORT_COUNTERS_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"

#include "core/core_schedule.h"

/* Changes by kind. */
typedef struct PpaChangeCounts
{
	uint64		inserts;
	uint64		updates;
	uint64		deletes;
	uint64		truncates;
	uint64		multi_insert_rows;	/* of the inserts, those written several at a time */
	uint64		missing_rows;	/* UPDATE or DELETE found no row */
} PpaChangeCounts;

typedef enum PpaSubState
{
	PPA_SUB_DOWN,				/* no apply worker is running */
	PPA_SUB_STARTING,
	PPA_SUB_IDLE,				/* all that was received is applied */
	PPA_SUB_RECEIVING,			/* a remote transaction is arriving */
	PPA_SUB_APPLYING,
	PPA_SUB_PASSED_THROUGH		/* left to the built-in apply worker */
} PpaSubState;

#define PPA_ERROR_TEXT 512

typedef struct PpaSubSlot
{
	slock_t		mutex;			/* protects the identity and the texts */
	Oid			subid;			/* invalid: the slot is free */
	Oid			dbid;
	NameData	subname;
	TimestampTz start_time;
	char		last_error[PPA_ERROR_TEXT];
	int			last_error_sqlstate;
	TimestampTz last_error_time;
	bool		hand_back;		/* leave it to the built-in worker until the server restarts */

	/* Of the leader alone: a large transaction that begins anew, see schedule_parallel_act.c. */
	XLogRecPtr	restart_lsn;
	int			restarts;

	/* Written by the leader. */
	pg_atomic_uint32 pid;		/* of the leader; 0: none */
	pg_atomic_uint32 state;		/* PpaSubState */
	pg_atomic_uint64 received_lsn;
	pg_atomic_uint64 dispatched_lsn;	/* given to workers up to here; 0: has none */
	pg_atomic_uint64 flushed_lsn;
	pg_atomic_uint64 oldest_pending;	/* commit time of the oldest remote transaction
										 * not yet applied; 0: none */
	pg_atomic_uint32 workers_wanted;	/* by the setting; 0: serial mode */
	pg_atomic_uint32 workers_running;
	pg_atomic_uint32 queued_groups; /* given out and not committed */
	pg_atomic_uint64 queued_bytes;	/* kept of these and of the one that is being read */
	pg_atomic_uint64 errors;

	/* Written by whoever has the commit turn. */
	pg_atomic_uint64 applied_lsn;
	pg_atomic_uint64 groups;
	pg_atomic_uint64 transactions;
	pg_atomic_uint64 inserts;
	pg_atomic_uint64 updates;
	pg_atomic_uint64 deletes;
	pg_atomic_uint64 truncates;
	pg_atomic_uint64 multi_insert_rows;
	pg_atomic_uint64 missing_rows;
	pg_atomic_uint64 group_replays;
	pg_atomic_uint64 turn_waits;	/* groups that were done before their turn */

	/* Written by the leader, in ppa_report_schedule(). */
	PpaScheduleStats schedule;	/* what has been added of the present schedule */
	pg_atomic_uint64 dependency_waits;	/* changes that must wait for an earlier group */
	pg_atomic_uint64 ordered_changes;	/* changes that must wait for all of them */
	pg_atomic_uint64 retries_missing;	/* row not found, looked for again in its turn */
	pg_atomic_uint64 retries_unique;
	pg_atomic_uint64 retries_deadlock;	/* or serialization failure */
	pg_atomic_uint64 retries_other;
	pg_atomic_uint64 groups_aborted;	/* rolled back for an earlier group */
	pg_atomic_uint64 groups_alone;	/* applied with no later group in flight */
	pg_atomic_uint64 groups_large;	/* more than is kept for a retry */
	pg_atomic_uint64 relations_ordered; /* how often one was, for its many retries */
	pg_atomic_uint64 refused_workers;	/* no background worker was to be had */

	ConditionVariable applied_cv;	/* signalled when applied_lsn moves and somebody waits */
	pg_atomic_uint32 waiters;
	pg_atomic_uint32 stops;		/* see ppa_report_first_stop() */
} PpaSubSlot;

/* Shared memory request and startup; called by _PG_init in the postmaster. */
extern void ppa_report_init(void);

/*
 * For backends: an error unless the library was loaded by
 * shared_preload_libraries, so that there are slots.
 */
extern void ppa_report_require(void);

/* All slots, free ones too. */
extern int	ppa_report_nslots(void);
extern PpaSubSlot *ppa_report_slot(int i);

/*
 * The slot of a subscription, for the leader: its own of old, a free one, or
 * that of a subscription without a worker that was used longest ago.  NULL if
 * there is none left, which costs only the view's row.  Freed of its pid when
 * this process exits.
 */
extern PpaSubSlot *ppa_report_claim(Oid subid, Oid dbid, const char *subname, PpaSubState state);

/*
 * The slot of a subscription, for readers; NULL if it never had one.  "wait":
 * the caller is going to wait on applied_cv, and is counted in slot->waiters.
 */
extern PpaSubSlot *ppa_report_find(Oid subid, bool wait);

/* Add to a counter that only this process writes at present. */
static inline void
ppa_report_add(pg_atomic_uint64 *counter, uint64 n)
{
	pg_atomic_write_u64(counter, pg_atomic_read_u64(counter) + n);
}

/*
 * A group has been committed: add what it did.  Called in the commit turn,
 * before it is handed on.
 */
extern void ppa_report_group(PpaSubSlot *slot, int transactions, const PpaChangeCounts *counts);

/*
 * All up to lsn is applied and visible: tell waiters.  Called in the commit
 * turn, or by the leader with nothing in flight.
 */
extern void ppa_report_applied(PpaSubSlot *slot, XLogRecPtr lsn);

/*
 * Add what the counters of the leader's schedule have gained since the last
 * call, and show its numbers of the moment.  They begin at zero with each
 * schedule; a leader that begins another one calls _begin() first (its first
 * one is cared for by ppa_report_claim()).
 */
extern void ppa_report_schedule(PpaSubSlot *slot, const PpaScheduleStats *stats);
extern void ppa_report_schedule_begin(PpaSubSlot *slot);

/* An error stopped the subscription. */
extern void ppa_report_error(PpaSubSlot *slot, const char *message, int sqlstate);

/* For tests: true for its first caller since the server started. */
extern bool ppa_report_first_stop(PpaSubSlot *slot);

#endif							/* PPA_REPORT_COUNTERS_H */
