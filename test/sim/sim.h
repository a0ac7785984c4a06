/*-------------------------------------------------------------------------
 *
 * sim.h
 *	  A leader and its workers in virtual time, around the scheduling core.
 *
 * sim_main.c: event queue, run, command line.
 * sim_load.c: settings, transactions and the oracle, all from the seed.
 * sim_leader.c: reads the stream, asks the core, does its actions.
 * sim_worker.c: applies groups as core_schedule.h says that a worker does.
 * sim_local.c: local sessions that lock rows.
 * sim_world.c: rows and locks.
 * sim_whatif.c: speed-up from measured costs.
 *
 * Everything that happens is an event of the queue; what takes time is
 * followed by an event at its end.  Nothing depends on anything but the seed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_H
#define SIM_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/core_group.h"
#include "core/core_schedule.h"
#include "sim_world.h"

#define MAX_LOCALS 8
#define RING 4096				/* groups remembered; more than are in flight */
#define SECOND UINT64_C(1000000)

/* ---------- random numbers ---------- */

typedef struct Rng
{
	uint64_t	state;
} Rng;

static inline uint64_t
rng_next(Rng *rng)
{
	uint64_t	z = (rng->state += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

/* 0 .. n - 1 */
static inline uint64_t
rng_below(Rng *rng, uint64_t n)
{
	return rng_next(rng) % n;
}

static inline bool
rng_percent(Rng *rng, uint32_t percent)
{
	return rng_below(rng, 100) < percent;
}

/* About exponential, mean "mean", at least 1. */
static inline uint64_t
rng_time(Rng *rng, uint64_t mean)
{
	uint64_t	total = 0;

	for (int i = 0; i < 3; i++)
		total += rng_below(rng, mean + 1);
	return 1 + (rng_percent(rng, 3) ? total * 8 : total * 2 / 3);
}

/* ---------- load ---------- */

typedef struct Txn
{
	int			first;			/* of ops */
	int			nops;
	uint64_t	arrival;
	bool		solo;			/* the leader knows that it fires triggers */
	bool		truncates;
	bool		skipped;		/* SKIP LSN, after a verdict */
	bool		fails;			/* the oracle: serial apply stops here */
	int			transients;		/* errors at the head of line that pass */
	uint64_t	hash;			/* the oracle: rows after it */
} Txn;

typedef struct Settings
{
	PpaScheduleConfig core;
	PpaGroupRules rules;
	int			ntxns;
	int			nrows;
	int			nuniques;
	int			nlocals;
	uint64_t	leader_us;		/* per change */
	uint64_t	worker_us;
	uint64_t	commit_us;
	uint64_t	publish_us;
	uint64_t	latency_us;		/* of messages and wake-ups */
	uint64_t	abort_us;		/* until a worker notices that it shall roll back */
	uint64_t	local_hold_us;
	uint32_t	speculative_errors; /* per 1000 changes */
	uint32_t	company_errors; /* the same, at the head of line beside later groups */
	uint32_t	slow_percent;	/* workers that are slow */
	int			deaths;
	int			stops;			/* DISABLE and ENABLE again */
	uint32_t	refused_percent;	/* starts of workers that are refused */
	bool		unique_keys;	/* the leader knows the local unique indexes */
	uint64_t	pace_us;		/* what-if: what the workers say that a group costs them */
	bool		exact;			/* what-if: costs as they are, no checks of rows */
} Settings;

/* ---------- processes ---------- */

typedef struct SimGroup
{
	uint64_t	number;
	int			first;			/* transactions */
	int			ntxns;
	bool		closed;
	bool		alone;
	bool		serial;
	bool		held;			/* failed, RETRY not seen yet */
	bool		retained;
	int			sent;			/* ops before this one have been sent */
	int			unretain_at;	/* op, or -1 */
	int			next_member;	/* serial: members before it have committed */
	uint64_t	start_after;
	uint64_t	not_before;
} SimGroup;

typedef enum WorkerPhase
{
	W_DOWN,
	W_STARTING,
	W_IDLE,
	W_START,					/* waits for the start of its group, or for RETRY */
	W_NEXT,
	W_INPUT,
	W_DEPENDENCY,
	W_RUN,
	W_MISSED,					/* waits in place for all earlier */
	W_EXEC,
	W_LOCK,
	W_TURN,
	W_COMMIT,
	W_PUBLISH,
	W_ROLLBACK,
} WorkerPhase;

typedef struct SimWorker
{
	WorkerPhase phase;
	uint64_t	gen;			/* events of an older one are void */
	uint64_t	group;			/* 0: none */
	int			nqueue;
	uint64_t	queue[RING];
	int			op;
	int			txn;			/* serial: the member being applied */
	uint64_t	target;			/* W_DEPENDENCY */
	uint64_t	progress;
	uint64_t	lock_progress;	/* progress and time when it first slept for this change */
	uint64_t	lock_since;
	uint64_t	seen_blocker;	/* later group found in its way, 0 = none */
	uint64_t	speed;			/* costs are multiplied by it, in 1/4 */
	bool		failing;		/* the rollback is for an error */
	bool		answer;			/* the rollback was asked for */
	bool		stopping;
	PpaFailure	reason;
	uint64_t	last_to;		/* delivery of the last message to, from it */
	uint64_t	last_from;
} SimWorker;

typedef enum LocalPhase
{
	L_IDLE,
	L_FIRST,
	L_HOLD,
	L_SECOND,
	L_HIDDEN,					/* waits in the application, which no lock shows */
} LocalPhase;

typedef struct Local
{
	LocalPhase	phase;
	uint64_t	gen;
	int			rel[2];
	int			id[2];
	int			kind;
	uint64_t	give_up;
} Local;

typedef enum EventType
{
	EV_WAKE,					/* worker a */
	EV_OP_DONE,
	EV_COMMITTED,
	EV_PUBLISHED,
	EV_ROLLED_BACK,
	EV_HEAD_CHECK,
	EV_DEADLOCK_CHECK,
	EV_TO_WORKER,
	EV_STOP_WORKER,
	EV_STARTED,
	EV_KILL,
	EV_TO_LEADER,
	EV_READ,
	EV_LOOK,
	EV_TICK,
	EV_DISABLE,
	EV_RESTART,
	EV_LOCAL,
} EventType;

typedef struct Event
{
	uint64_t	time;
	uint64_t	seq;
	EventType	type;
	int			a;
	uint64_t	gen;
	uint64_t	b;
	uint64_t	epoch;
	PpaScheduleAction action;
	PpaScheduleEvent event;
} Event;

typedef struct Sim
{
	uint64_t	seed;
	bool		verbose;
	Rng			rng;
	Settings	set;
	uint64_t	now;
	uint64_t	trace_hash;
	uint64_t	nevents;

	Event	   *heap;
	int			nheap;
	int			heap_capacity;
	uint64_t	next_seq;

	World		world;
	Txn		   *txns;
	Op		   *ops;
	int			nops;

	/* The leader; a new one after every stop. */
	uint64_t	epoch;
	void	   *memory;
	PpaSchedule *core;
	SimGroup	ring[RING];
	PpaGroup	forming;
	uint64_t	open;			/* number of the open group, 0 = none */
	int			next_txn;		/* to be read */
	int			next_op;		/* of a large one, being read; -1 = none */
	bool		read_pending;
	bool		stopping;
	int			verdict_txn;
	uint64_t	look_scheduled;
	uint64_t	stop_began;

	/* Shared. */
	uint64_t	published;
	uint64_t	head_since;
	int			committed_txns; /* the origin */

	SimWorker	workers[FIRST_LOCAL];
	Local		locals[MAX_LOCALS];

	/* What happened. */
	uint64_t	finished;		/* when the last transaction was committed */
	uint64_t	groups;
	uint64_t	restarts;
	uint64_t	verdicts;
	uint64_t	serial_actions;
	uint64_t	busy_us;
	PpaScheduleStats stats;		/* summed up over the leaders */
} Sim;

/* sim_main.c */
extern Event *sim_post(Sim *sim, EventType type, uint64_t delay, int a);
extern void sim_note(Sim *sim, const char *format,...) __attribute__((format(printf, 2, 3)));
extern void sim_fail(Sim *sim, const char *format,...)
			__attribute__((format(printf, 2, 3), noreturn));
extern uint64_t sim_latency(Sim *sim);
extern void sim_run(Sim *sim);
extern void sim_free(Sim *sim);
extern void sim_add_stats(PpaScheduleStats *to, const PpaScheduleStats *from);

/* sim_load.c */
extern void load_from_seed(Sim *sim);
extern void load_oracle(Sim *sim);

/* sim_leader.c */
extern void leader_init(Sim *sim);
extern void leader_read(Sim *sim);
extern void leader_hear(Sim *sim, PpaScheduleEvent event);
extern void leader_look(Sim *sim);
extern void leader_worker_gone(Sim *sim);
extern void leader_restart(Sim *sim);

/* sim_worker.c */
extern SimGroup *group_of(Sim *sim, uint64_t number);
extern void worker_go(Sim *sim, int w);
extern void worker_event(Sim *sim, const Event *event);
extern void worker_message(Sim *sim, int w, const PpaScheduleAction *action);
extern void worker_stop(Sim *sim, int w);
extern void worker_kill(Sim *sim, int w);
extern void xact_ended(Sim *sim, int x);

/* sim_local.c */
extern void local_init(Sim *sim);
extern void local_event(Sim *sim, int l);
extern void local_give_up(Sim *sim, int l);

#endif							/* SIM_H */
