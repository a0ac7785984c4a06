/*-------------------------------------------------------------------------
 *
 * report_counters.h
 *	  What pg_parallel_apply shows of itself, in shared memory.
 *
 * One slot per subscription.  Its leader is the only writer; readers take no
 * lock for numbers, and the slot's spinlock for texts.  Counters outlive the
 * leader, so that a restart loses none; they start at zero when the server
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

	pg_atomic_uint32 pid;		/* of the leader; 0: none */
	pg_atomic_uint32 state;		/* PpaSubState */
	pg_atomic_uint64 received_lsn;
	pg_atomic_uint64 applied_lsn;
	pg_atomic_uint64 flushed_lsn;
	pg_atomic_uint64 oldest_pending;	/* commit time of the oldest remote transaction
										 * not yet applied; 0: none */
	pg_atomic_uint64 groups;
	pg_atomic_uint64 transactions;
	pg_atomic_uint64 inserts;
	pg_atomic_uint64 updates;
	pg_atomic_uint64 deletes;
	pg_atomic_uint64 truncates;
	pg_atomic_uint64 multi_insert_rows;
	pg_atomic_uint64 missing_rows;
	pg_atomic_uint64 group_replays;
	pg_atomic_uint64 errors;

	ConditionVariable applied_cv;	/* signalled when applied_lsn moves and somebody waits */
	pg_atomic_uint32 waiters;
} PpaSubSlot;

/* Shared memory request and startup; called by _PG_init in the postmaster. */
extern void ppa_report_init(void);

/* Was the library loaded by shared_preload_libraries, so that there are slots? */
extern bool ppa_report_available(void);

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

/* Add to a counter that only this process writes. */
static inline void
ppa_report_add(pg_atomic_uint64 *counter, uint64 n)
{
	pg_atomic_write_u64(counter, pg_atomic_read_u64(counter) + n);
}

/* A group has been committed: add what it did. */
extern void ppa_report_group(PpaSubSlot *slot, int transactions, const PpaChangeCounts *counts);

/* All up to lsn is applied: tell waiters. */
extern void ppa_report_applied(PpaSubSlot *slot, XLogRecPtr lsn);

/* An error stopped the subscription. */
extern void ppa_report_error(PpaSubSlot *slot, const char *message, int sqlstate);

#endif							/* PPA_REPORT_COUNTERS_H */
