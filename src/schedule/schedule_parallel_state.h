/*-------------------------------------------------------------------------
 *
 * schedule_parallel_state.h
 *	  State of the leader in parallel mode; for schedule_parallel*.c only.
 *
 * schedule_parallel.c			from the stream to groups: what joins, what is forwarded
 * schedule_parallel_act.c		the scheduler's actions: what workers are given and told
 * schedule_parallel_mode.c		begin, end, fall back to serial mode
 * schedule_parallel_events.c	what the workers have done, the watch, waiting
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_SCHEDULE_PARALLEL_STATE_H
#define PPA_SCHEDULE_PARALLEL_STATE_H

#include "postgres.h"

#include "core/core_group.h"
#include "core/core_schedule.h"
#include "dispatch/dispatch_pool.h"
#include "schedule/schedule_state.h"

/* A RELATION message that a group needs of before its first change. */
typedef struct PpaNeed
{
	PpaRelView *view;
	char	   *message;		/* NULL: the view's; else the one of then, in PpaParallel.cxt */
	int			len;
} PpaNeed;

/*
 * A group in flight; its place is its number modulo the window.  Its messages
 * are kept until it has committed: another worker may have to be given them.
 */
typedef struct PpaOutGroup
{
	uint64		number;			/* 0: none */
	PpaBatch   *batch;			/* NULL: it was forwarded while it arrived */
	XLogRecPtr	end_lsn;		/* of its last member; invalid: open */
	TimestampTz commit_time;	/* of its first member */
	Size		bytes;
	bool		forwarded;		/* what there is of it has been sent */
	int			worker;			/* that has it, or had it */
	int			done;			/* members that are known to have committed */
	int			nneeds;
	int			needs_sent;		/* of them, to "worker" */
	int			needs_capacity;
	PpaNeed    *needs;
	ErrorData  *error;			/* its last one, in a context of its own */
	MemoryContext error_cxt;
} PpaOutGroup;

/* A start_after that a worker has to acknowledge. */
typedef struct PpaAbort
{
	uint64		group;			/* 0: free */
	uint64		start_after;
	int			worker;
	uint32		seq;
} PpaAbort;

/* A commit that is visible but not yet as durable as the subscription wants. */
typedef struct PpaUndurable
{
	slist_node	node;
	uint64		group;
	int			worker;
	XLogRecPtr	end_lsn;
	XLogRecPtr	local_lsn;
} PpaUndurable;

/* Why nothing new may be given out until all has committed. */
typedef enum PpaDrain
{
	PPA_DRAIN_RELATION = 1,		/* a known relation is, or was, described anew */
	PPA_DRAIN_SYNC = 2,			/* tables are being synchronised */
	PPA_DRAIN_MODE = 4,			/* another number of workers is wanted */
} PpaDrain;

struct PpaParallel
{
	MemoryContext cxt;
	MemoryContext scratch_cxt;	/* for one call */
	PpaPool    *pool;
	PpaShared  *shared;
	PpaSchedule *schedule;
	PpaScheduleConfig config;
	uint32		ngroups;
	PpaOutGroup *groups;
	PpaBatch  **spare;			/* batches to be used again */
	int			nspare;
	PpaAbort   *aborts;
	int			naborts;		/* places */
	uint64		pace_at;		/* with this group the pace is measured anew */
	uint64		pace_busy;		/* the workers' sums, when it was measured */
	uint64		pace_attempts;
	int			nflushing;		/* workers that the scheduler believes to be flushing */
	slist_head	undurable;		/* oldest first */
	slist_node *last_undurable;
	PpaChange  *change;			/* being parsed */

	uint64		committed;		/* groups up to this are done with */
	uint64		newest;			/* last one opened */
	uint32		events_seen;

	PpaBatch   *serial_batch;	/* l->batch of serial mode */
	PpaGroup	forming;		/* the open group: the first members of l->batch */
	PpaTxnFacts facts;			/* of the open transaction */
	bool		renews;			/* it describes a known relation anew */
	bool		waits_to_join;	/* the last member of l->batch is not in the open group yet */
	bool		waits_to_forward;	/* the open transaction is large, and is to be a group */
	bool		forwarding;		/* it is one, sent while it arrives */
	int			offered;		/* then: bytes of l->batch that the scheduler has seen */
	uint32		drain;			/* PpaDrain */
	uint64		renewed_by;		/* newest group that has described a known relation anew */

	uint32		sync_looked_at; /* ppa_sync_generation; 0: not yet */
	bool		tables_pending; /* some were not READY then */
	TimestampTz synced_at;		/* tables were synchronised last */
	TimestampTz reported_at;
	TimestampTz pool_seen_at;
};

static inline PpaOutGroup *
ppa_out_group(const PpaParallel *p, uint64 number)
{
	return &p->groups[number & (p->ngroups - 1)];
}

/* Time for the scheduler, in us. */
static inline uint64
ppa_parallel_now(void)
{
	return (uint64) GetCurrentTimestamp();
}

/* ---------- schedule_parallel_act.c ---------- */

/* Do what the scheduler asks for, until it asks for nothing more.  May throw the verdict. */
extern void ppa_parallel_act(PpaLeader *l);

/* Log, not too often, how we go on for lack of background workers. */
extern void ppa_parallel_complain(PpaLeader *l, const char *how);

/* Send more of the group that is forwarded; it is copied. */
extern void ppa_parallel_send_data(PpaLeader *l, uint64 number, const char *bytes, Size len);

/* ... and its end. */
extern void ppa_parallel_send_close(PpaLeader *l, uint64 number, const PpaMember *member);

/* ---------- schedule_parallel_events.c ---------- */

/* Write what the views show. */
extern void ppa_parallel_report(PpaLeader *l);

/* Tell the scheduler what has committed; before anything else it is told. */
extern void ppa_parallel_note_commits(PpaLeader *l);

/* Tell it of an event (now and committed are filled in), and act. */
extern void ppa_parallel_tell(PpaLeader *l, PpaScheduleEvent *event);

/* ---------- schedule_parallel.c ---------- */

/* Something may have changed that reading waits for: go on with it. */
extern void ppa_parallel_resume(PpaLeader *l);

/* An empty batch; and one to be used again. */
extern PpaBatch *ppa_parallel_get_batch(PpaParallel *p);
extern void ppa_parallel_release_batch(PpaParallel *p, PpaBatch *batch);

/* What is known of the open transaction before its end. */
extern void ppa_parallel_note_message(PpaLeader *l, const char *message, int len);

/* ---------- schedule_parallel_mode.c ---------- */

/* No worker is to be had: apply in this process for a while. */
extern void ppa_parallel_fall_back(PpaLeader *l);

#endif							/* PPA_SCHEDULE_PARALLEL_STATE_H */
