/*-------------------------------------------------------------------------
 *
 * core_schedule_state.h
 *	  The scheduler's state; for core_schedule*.c only.
 *
 * core_schedule.c: groups, stream side, steps, actions, invariants.
 * core_schedule_pool.c: workers, choice of the worker.
 * core_schedule_retry.c: rollback, parking, retry, verdict, head of line.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_CORE_SCHEDULE_STATE_H
#define PPA_CORE_SCHEDULE_STATE_H

#include "core/core_assert.h"
#include "core/core_relorder.h"
#include "core/core_schedule.h"

#define NO_WORKER (-1)

typedef enum GroupState
{
	GROUP_OPEN,					/* changes are being added */
	GROUP_CLOSED,				/* complete */
} GroupState;

typedef struct Group
{
	uint64_t	number;
	uint64_t	bytes;			/* of the stream */
	uint64_t	waits;			/* newest wait_for of its changes */
	uint64_t	start_after;	/* as the worker was told, or is being told */
	uint64_t	quiet_until;	/* surely no transaction open before committed >= this */
	GroupState	state;
	int			worker;			/* NO_WORKER: not given out */
	uint32_t	rollbacks;		/* for an earlier group */
	uint32_t	transients;		/* transient errors alone ... */
	uint64_t	transients_at;	/* ... with so many of its transactions committed */
	bool		alone;			/* PPA_CHANGE_ALONE, or large */
	bool		triggers;
	bool		early;			/* given out, or to be given out, while open */
	bool		large;			/* UNRETAIN given, or to be given with DISPATCH */
	bool		moved;
	bool		failed;			/* waits for RETRY */
	bool		serial;			/* runs its remote transactions one by one */
	bool		wants_alone;	/* RETRY once no later group has a transaction */
	bool		alone_attempt;	/* the attempt under way counts for a verdict */
} Group;

typedef enum WorkerState
{
	WORKER_DOWN,
	WORKER_STARTING,
	WORKER_UP,
	WORKER_STOPPING,
} WorkerState;

typedef struct Worker
{
	WorkerState state;
	uint32_t	groups;			/* given and not committed */
	uint64_t	tail;			/* last group given, besides moved ones */
	uint64_t	idle_since;
	bool		flushing;		/* makes a commit durable before it does anything else */
} Worker;

struct PpaSchedule
{
	PpaScheduleConfig config;
	PpaDeps		deps;
	PpaRelOrder relorder;
	PpaScheduleStats stats;

	/* Groups committed + 1 .. last are in flight; S1. */
	uint64_t	committed;
	uint64_t	last;
	uint64_t	given;			/* last one given out */
	int			run_worker;		/* that was given the last group ... */
	uint64_t	run_left;		/* ... and microseconds that its run may still grow by */
	uint64_t	pace_us;		/* 0: not known yet */
	uint64_t	floor;			/* newest group after which all later ones start */
	uint64_t	kept_bytes;
	bool		reading;
	bool		stopped;

	uint64_t	refused_until;

	/* Head of line. */
	uint64_t	look_at;
	uint64_t	look_step;
	uint64_t	seen_group;		/* of the last look that found it waiting */
	uint64_t	seen_progress;
	uint64_t	waiting_since;
	uint64_t	backstopped;	/* newest group that the backstop was used for */

	uint32_t	group_mask;
	Group	   *groups;
	Worker		workers[PPA_SCHEDULE_MAX_WORKERS];

	uint32_t	action_capacity;
	uint32_t	nactions;
	uint32_t	next_action;
	PpaScheduleAction *actions;
};

static inline Group *
group_at(const PpaSchedule *s, uint64_t number)
{
	return &s->groups[number & s->group_mask];
}

static inline bool
in_flight(const PpaSchedule *s, uint64_t number)
{
	return number > s->committed && number <= s->last;
}

static inline bool
is_given(const PpaSchedule *s, uint64_t number)
{
	return in_flight(s, number) && group_at(s, number)->worker != NO_WORKER;
}

static inline uint64_t
max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint64_t
min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* core_schedule.c */
extern void ppa_schedule_act(PpaSchedule *s, PpaScheduleAction action);
extern void ppa_schedule_end(PpaSchedule *s, PpaScheduleAction action);

/* core_schedule_pool.c */
extern void ppa_schedule_place(PpaSchedule *s, uint64_t now);
extern void ppa_schedule_take_from(PpaSchedule *s, Group *g, uint64_t now);
extern void ppa_schedule_give_to_first(PpaSchedule *s, Group *g);
extern void ppa_schedule_pool_step(PpaSchedule *s, const PpaScheduleEvent *event);

/* core_schedule_retry.c */
extern void ppa_schedule_park_later(PpaSchedule *s, uint64_t number);
extern void ppa_schedule_retry_alone(PpaSchedule *s);
extern void ppa_schedule_watch_from(PpaSchedule *s, uint64_t now);
extern void ppa_schedule_retry_step(PpaSchedule *s, const PpaScheduleEvent *event);

#endif							/* PPA_CORE_SCHEDULE_STATE_H */
