/*-------------------------------------------------------------------------
 *
 * schedule_state.h
 *	  State of the leader; for schedule_leader.c, _serial.c and _parallel*.c.
 *
 * schedule_leader.c owns the stream: frames, messages, waiting, what is
 * between transactions.  What becomes of a remote transaction is the business
 * of one of two modes, which have the same entry points:
 *	schedule_serial.c		applies it in this process
 *	schedule_parallel.c		makes groups and has them applied by workers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_SCHEDULE_STATE_H
#define PPA_SCHEDULE_STATE_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "datatype/timestamp.h"

#include "apply/apply_serial.h"
#include "receive/receive_feedback.h"
#include "receive/receive_stream.h"
#include "report/report_counters.h"
#include "schedule/schedule_relview.h"
#include "server/server_batch.h"

typedef struct PpaParallel PpaParallel;

typedef struct PpaLeader
{
	MemoryContext cxt;
	PpaStream	stream;
	PpaFeedback *feedback;
	PpaSerial  *serial;
	PpaRelViews *views;
	PpaParallel *parallel;		/* NULL: serial mode */
	PpaSubSlot *slot;			/* may be NULL */
	PpaBatch   *batch;
	bool		sync_standby;
	bool		direct;			/* serial: the open transaction is applied as it arrives */
	int			naps;			/* for which the batch has been collected */
	XLogRecPtr	last_end;		/* end of the last remote transaction applied */
	TimestampTz last_active;	/* last frame received, or end of applying */
	TimestampTz parallel_at;	/* serial for lack of workers: try again then */
	TimestampTz complained_at;	/* when we last logged that */
	bool		ping_sent;
} PpaLeader;

/* ---------- schedule_leader.c ---------- */

/* Nothing is applied in part: notice what has changed around us. */
extern void ppa_leader_notice(PpaLeader *l);

/* Table synchronisation; all up to lsn is applied, and nothing is in flight. */
extern void ppa_leader_sync_tables(PpaLeader *l, XLogRecPtr lsn);

/* Is something received that is not applied yet? */
extern bool ppa_leader_is_busy(const PpaLeader *l);

/* Do we lag behind the publisher, so that nobody notices if a group is collected? */
extern bool ppa_leader_is_behind(const PpaLeader *l, TimestampTz commit_time);

/* How many workers there should be: 0 is serial mode. */
extern int	ppa_leader_workers_wanted(void);

/* What the view shows. */
extern void ppa_leader_set_state(PpaLeader *l, PpaSubState state);

/* ---------- the two modes ---------- */

/* A message of the open transaction. */
extern void ppa_serial_mode_change(PpaLeader *l, const char *message, int len);
extern void ppa_parallel_change(PpaLeader *l, const char *message, int len);

/* It is complete: the last member of l->batch. */
extern void ppa_serial_mode_commit(PpaLeader *l);
extern void ppa_parallel_commit(PpaLeader *l);

/* Do now with what is complete what can be done. */
extern void ppa_serial_mode_push(PpaLeader *l);
extern void ppa_parallel_push(PpaLeader *l);

/* ---------- parallel mode ---------- */

/* Between serial and parallel mode; outside of a transaction, with nothing in flight. */
extern void ppa_parallel_begin(PpaLeader *l, int workers);
extern void ppa_parallel_end(PpaLeader *l);

/* The workers that it was begun with. */
extern int	ppa_parallel_workers(const PpaLeader *l);

/* Look at what the workers have done, and do what follows from it. */
extern void ppa_parallel_step(PpaLeader *l);

/* May more be read from the stream?  If not, ppa_parallel_wait(). */
extern bool ppa_parallel_can_read(PpaLeader *l);

/*
 * Sleep until something happens that reading waits for, or that brings the
 * moment nearer at which nothing is in flight ("for_all").  Returns early.
 */
extern void ppa_parallel_wait(PpaLeader *l, bool for_all);

/* Are transactions given out, or to be, that have not committed? */
extern bool ppa_parallel_in_flight(const PpaLeader *l);

/* Are there among them any that will commit if nothing more arrives? */
extern bool ppa_parallel_will_commit(const PpaLeader *l);

/* Is there a commit that is not yet as durable as the subscription wants it? */
extern bool ppa_parallel_owes_durability(const PpaLeader *l);

/* The input has run dry; should the group be collected further? */
extern bool ppa_parallel_should_collect(PpaLeader *l);

/*
 * Before a sleep with the stream idle: let the workers wake us when something
 * is to be reported.  Returns the longest time to sleep (ms), at most "timeout".
 */
extern long ppa_parallel_before_sleep(PpaLeader *l, long timeout);

/* In an exit callback or PG_CATCH: end the workers.  Throws nothing. */
extern void ppa_parallel_stop(PpaLeader *l);

#endif							/* PPA_SCHEDULE_STATE_H */
