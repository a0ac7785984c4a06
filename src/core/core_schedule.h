/*-------------------------------------------------------------------------
 *
 * core_schedule.h
 *	  Which worker applies a group, when it may begin, and who has to give way.
 *
 * Owns:	the groups in flight, the dependency table, the view of the workers'
 *			queues, the decisions about retry, parking, verdict, pool size.
 * Runs in:	the leader.
 * Memory:	ppa_schedule_size() bytes handed in by the caller; nothing else.
 * It must not: allocate, read a clock (times come in with the events), log,
 *			wait, or know of PostgreSQL.
 *
 * Groups are numbered 1, 2, 3... in stream order.  The leader describes each
 * with ppa_schedule_open(), _change() per change, _bytes(), _close(); all else
 * that happens comes in through ppa_schedule_step().  After each of these
 * calls the leader takes the actions, with ppa_schedule_next_action() until
 * there is none, and does them in that order.
 *
 * The commit turn is not here: groups commit in the order of their numbers by
 * a counter that the workers share ("committed"), and this module is told: the
 * leader reads the counter before each step, so that no event comes in before
 * the commits that it follows.
 *
 * What a worker does by itself
 * ----------------------------
 * It runs the group with the lowest number that it has been given, reading
 * ahead in its queue while it waits for the start of one, or for RETRY.
 *	- It opens no local transaction for a group before committed >= start_after.
 *	- A change with wait_for waits, in place, until committed >= wait_for.
 *	- A row that is missing while earlier groups are uncommitted: it reports
 *	  MISSED, waits in place for all of them, and looks again.
 *	- Any error: it rolls back, reports FAILED and waits for RETRY.  A worker
 *	  other than 0 that reports FAILED with PPA_FAILED_TRIGGERS also drops the
 *	  group.
 *	- ABORT(group, start_after): start_after of the group becomes the maximum of
 *	  both.  If committed >= start_after by now, or it no longer has the group,
 *	  the request is stale: nothing else.  Otherwise it rolls back if a
 *	  transaction is open, reports ROLLED_BACK with that start_after, and begins
 *	  again when it may.  ROLLED_BACK promises: no transaction of this group is
 *	  open, and none will be before committed >= start_after.
 *	- It fires triggers only if it is worker 0 and was told that it is alone
 *	  (DISPATCH or RETRY with "alone", UNRETAIN); else that is
 *	  PPA_FAILED_TRIGGERS.
 *	- RETRY: it begins again when committed >= start_after and the delay is
 *	  over, the remote transactions one by one, row by row, each in a local
 *	  transaction of its own.
 *	- UNRETAIN: at that place in the group it waits until all earlier groups
 *	  have committed; then it forgets the bytes that it kept for a retry.
 *	- It publishes "committed" after the commit has returned, with interrupts
 *	  held in between.
 *
 * Invariants
 * ----------
 * S1	Groups in flight are numbered without a gap from committed + 1.
 * S2	A group is with one worker at a time; it gets another one only after the
 *		first has dropped it alive, never after a worker died.
 * S3	wait_for < its group, start_after < its group: nobody waits for a later one.
 * S4	A worker has at most "depth", or "run", groups besides those moved to it, and gets
 *		groups (again besides those) in ascending order.
 * S5	A group that must be alone (fires triggers, is larger than what is kept,
 *		is tried for a verdict, or waited too long at the head of line) has
 *		start_after >= itself in all groups after it; but a large one only from
 *		UNRETAIN on.
 * S6	A group that fires triggers, and a group given out before it is closed,
 *		is with worker 0.
 * S7	VERDICT is given on the oldest group only, and only if no later group can
 *		have had a transaction open since the attempt began.
 * S8	Only groups after the oldest are asked to roll back.
 * S9	A group that was rolled back for an earlier one begins again only after
 *		that one has committed; after victim_retries of them only after all.
 * S10	After STOP_ALL, VERDICT or SERIAL there is no action any more.
 * S11	At most one closed group is without a worker, and then reading is stopped.
 * S12	Bytes kept for a retry: at most flight_bytes, plus one group of at most
 *		retain_bytes.
 * They are checked after every step in builds with -DPPA_ASSERT.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_CORE_SCHEDULE_H
#define PPA_CORE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core_deps.h"

/* Most workers of one subscription; an array's size, nothing else. */
#define PPA_SCHEDULE_MAX_WORKERS 128

#define PPA_SCHEDULE_NEVER UINT64_MAX

/* Times are microseconds of any monotonic clock. */
typedef struct PpaScheduleConfig
{
	uint32_t	workers;		/* wanted: 1 .. PPA_SCHEDULE_MAX_WORKERS */
	uint32_t	depth;			/* groups a worker has, with the one it executes */
	uint32_t	run;			/* the same, where short groups follow each other, ... */
	uint64_t	run_us;			/* ... which together are no more work than this */
	uint32_t	deps_entries;
	PpaDepsMode deps_mode;
	uint64_t	retain_bytes;	/* kept of one group for a retry */
	uint64_t	flight_bytes;	/* kept of all groups in flight; > retain_bytes */
	uint64_t	watch_us;		/* first look at the head of line */
	uint64_t	watch_max_us;	/* looks become as rare as this */
	uint64_t	backstop_us;	/* no progress in a lock wait for so long: alone */
	uint32_t	victim_retries; /* rolled back more often: waits for all earlier */
	uint32_t	transient_retries;	/* deadlock etc., alone, before it is a verdict */
	uint64_t	transient_us;	/* before the first of these; doubles */
	uint32_t	order_retries;	/* so many retries of a relation ... */
	uint32_t	order_window;	/* ... within so many groups: it is ordered ... */
	uint32_t	order_groups;	/* ... for so many groups; doubles; 0: never */
	uint64_t	idle_us;		/* an idle worker is given back after that */
	uint64_t	refused_us;		/* no new worker for so long after a refusal */
} PpaScheduleConfig;

/* Settings that the server begins with; workers and sizes as given. */
extern PpaScheduleConfig ppa_schedule_defaults(uint32_t workers);

/* ---------- the stream side ---------- */

/* Waits for all earlier groups. */
#define PPA_CHANGE_ORDERED	1
/* Nothing else in flight while its group is applied; no transaction of its group begins earlier. */
#define PPA_CHANGE_ALONE	2
/* Fires triggers: the same, and in worker 0. */
#define PPA_CHANGE_TRIGGERS	4

typedef struct PpaScheduleChange
{
	uint32_t	relation;		/* 0: none */
	uint32_t	flags;
	uint32_t	nkeys;
	const uint64_t *keys;		/* hashes of all keys that it writes */
} PpaScheduleChange;

/* ---------- events ---------- */

typedef enum PpaScheduleEventType
{
	PPA_EVENT_COMMITTED,		/* the counter has been seen to be "group" */
	PPA_EVENT_MISSED,			/* group, relation: waits in place for all earlier */
	PPA_EVENT_FAILED,			/* group, reason, relation, retained, progress (its remote
								 * transactions that have committed) */
	PPA_EVENT_ROLLED_BACK,		/* group, start_after */
	PPA_EVENT_HEAD_SEEN,		/* group, waiting (for a lock), progress (any number that moves) */
	PPA_EVENT_HEAD_BLOCKED,		/* group waits, in whatever chain, for group "by"; relation or 0 */
	PPA_EVENT_WORKER_STARTED,	/* worker */
	PPA_EVENT_WORKER_REFUSED,	/* worker: no background worker to be had */
	PPA_EVENT_WORKER_STOPPED,	/* worker: left after STOP_WORKER */
	PPA_EVENT_WORKER_DIED,		/* worker */
	PPA_EVENT_WORKER_FLUSHING,	/* worker, waiting: it begins, or ends, to make a commit durable */
	PPA_EVENT_TICK,				/* time has passed; once a second will do */
	PPA_EVENT_STOP,				/* DISABLE, shutdown, changed settings */
} PpaScheduleEventType;

typedef enum PpaFailure
{
	PPA_FAILED_UNIQUE,
	PPA_FAILED_DEADLOCK,		/* or serialization failure */
	PPA_FAILED_LOCK_TIMEOUT,
	PPA_FAILED_OTHER,
	PPA_FAILED_TRIGGERS,		/* fires triggers, which the leader had not seen */
	PPA_FAILURES,
} PpaFailure;

typedef struct PpaScheduleEvent
{
	PpaScheduleEventType type;
	uint64_t	now;
	uint64_t	group;
	uint64_t	by;
	uint64_t	start_after;
	uint64_t	progress;
	uint64_t	pace_us;		/* COMMITTED: work of a worker for a group, mean; 0: no news */
	uint32_t	worker;
	uint32_t	relation;
	PpaFailure	reason;
	bool		waiting;
	bool		retained;		/* its bytes are still there for a retry */
} PpaScheduleEvent;

/* ---------- actions ---------- */

typedef enum PpaScheduleActionType
{
	PPA_ACTION_START_WORKER,	/* worker */
	PPA_ACTION_STOP_WORKER,		/* worker */
	PPA_ACTION_DISPATCH,		/* group, worker, start_after, alone; what is there of it if open */
	PPA_ACTION_MOVE,			/* group, worker: give it again, to be run by RETRY */
	PPA_ACTION_ABORT,			/* group, worker, start_after */
	PPA_ACTION_RETRY,			/* group, worker, start_after, alone, delay */
	PPA_ACTION_UNRETAIN,		/* group, worker */
	PPA_ACTION_STOP_READING,
	PPA_ACTION_RESUME_READING,
	PPA_ACTION_VERDICT,			/* group: its error is the subscription's */
	PPA_ACTION_STOP_ALL,		/* stop: end all workers, wait until they are gone, start anew */
	PPA_ACTION_SERIAL,			/* no worker to be had: apply in this process for a while */
} PpaScheduleActionType;

typedef enum PpaStopReason
{
	PPA_STOP_ASKED,
	PPA_STOP_WORKER_DIED,		/* neither counted nor disabling */
	PPA_STOP_NOT_RETAINED,		/* transient error with nothing left to retry from: likewise */
} PpaStopReason;

typedef struct PpaScheduleAction
{
	PpaScheduleActionType type;
	uint32_t	worker;
	uint64_t	group;
	uint64_t	start_after;
	uint64_t	delay_us;
	PpaStopReason stop;
	bool		alone;			/* no later group holds a transaction open */
} PpaScheduleAction;

/* ---------- what the views show ---------- */

typedef struct PpaScheduleStats
{
	uint64_t	dependency_waits;	/* changes given a wait_for */
	uint64_t	ordered_changes;
	uint64_t	alone_groups;
	uint64_t	missed;
	uint64_t	failures[PPA_FAILURES];
	uint64_t	victims;		/* asked to give way to an earlier group */
	uint64_t	backstops;
	uint64_t	alone_attempts;
	uint64_t	large_groups;
	uint64_t	moved_groups;
	uint64_t	relations_ordered;	/* how often a relation became ordered */
	uint64_t	deps_full;
	uint64_t	refused_workers;
	uint32_t	workers_up;
	uint32_t	queued;			/* groups given out and not committed */
} PpaScheduleStats;

typedef struct PpaSchedule PpaSchedule;

/* Groups that can be in flight: a power of two. */
extern uint32_t ppa_schedule_window(const PpaScheduleConfig *config);

extern size_t ppa_schedule_size(const PpaScheduleConfig *config);
/* Memory aligned as for malloc().  Valid as long as the memory. */
extern PpaSchedule *ppa_schedule_init(void *memory, const PpaScheduleConfig *config);

/* May a group be opened?  If not, RESUME_READING will come. */
extern bool ppa_schedule_can_open(const PpaSchedule *s);

/* Between STOP_READING and RESUME_READING: false. */
extern bool ppa_schedule_is_reading(const PpaSchedule *s);

/* Open the next group; its number. */
extern uint64_t ppa_schedule_open(PpaSchedule *s);

/* Offer a change of the open group: what it has to wait for, 0 = nothing. */
extern uint64_t ppa_schedule_change(PpaSchedule *s, const PpaScheduleChange *change);

/*
 * The open group has grown.  Above retain_bytes it is given out as it is; such
 * a group must be of one remote transaction.
 */
extern void ppa_schedule_bytes(PpaSchedule *s, uint64_t bytes, uint64_t now);

/* Give the open group out as it is, to overlap its arrival with its apply. */
extern void ppa_schedule_forward(PpaSchedule *s, uint64_t now);

extern void ppa_schedule_close(PpaSchedule *s, uint64_t now);

extern void ppa_schedule_step(PpaSchedule *s, const PpaScheduleEvent *event);

/* Take the next action; false if there is none. */
extern bool ppa_schedule_next_action(PpaSchedule *s, PpaScheduleAction *action);

/* When the leader should look at the head of line (HEAD_SEEN); maybe NEVER. */
extern uint64_t ppa_schedule_look_at(const PpaSchedule *s);

/* Oldest group not known to be committed; 0 if none is given out. */
extern uint64_t ppa_schedule_head(const PpaSchedule *s);

/* The worker that has the group; -1 if none, or if it is not in flight. */
extern int	ppa_schedule_worker_of(const PpaSchedule *s, uint64_t group);

extern PpaScheduleStats ppa_schedule_stats(const PpaSchedule *s);

/* Is the relation ordered at present because its groups were retried often? */
extern bool ppa_schedule_is_ordered(const PpaSchedule *s, uint32_t relation);

#endif							/* PPA_CORE_SCHEDULE_H */
