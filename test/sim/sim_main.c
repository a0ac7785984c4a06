/*-------------------------------------------------------------------------
 *
 * sim_main.c
 *	  Event queue, run, command line.
 *
 *	sim [--from N] [--seeds N]		many seeds; stops at the first that fails
 *	sim --seed N [--trace]			one
 *	sim whatif LEADER_US WORKER_US COMMIT_US
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "sim_whatif.h"

/* No run takes so long in virtual time, or so many events. */
#define LAST_TIME (600 * SECOND)
#define LAST_EVENT UINT64_C(3000000)

static Sim *current;			/* for assertions */

/* ---------- the queue ---------- */

static bool
before(const Event *a, const Event *b)
{
	return a->time < b->time || (a->time == b->time && a->seq < b->seq);
}

static void
swap(Event *a, Event *b)
{
	Event		c = *a;

	*a = *b;
	*b = c;
}

/*
 * The caller may fill in the rest of the event before it posts another one;
 * time and order are final here.
 */
Event *
sim_post(Sim *sim, EventType type, uint64_t delay, int a)
{
	int			i = sim->nheap++;

	if (sim->nheap > sim->heap_capacity)
	{
		sim->heap_capacity = sim->heap_capacity ? sim->heap_capacity * 2 : 256;
		sim->heap = realloc(sim->heap, (size_t) sim->heap_capacity * sizeof(Event));
	}
	sim->heap[i] = (Event)
	{
		.time = sim->now + delay,.seq = sim->next_seq++,.type = type,.a = a,.epoch = sim->epoch
	};
	for (; i > 0 && before(&sim->heap[i], &sim->heap[(i - 1) / 2]); i = (i - 1) / 2)
		swap(&sim->heap[i], &sim->heap[(i - 1) / 2]);
	return &sim->heap[i];
}

static Event
take(Sim *sim)
{
	Event		first = sim->heap[0];
	int			i = 0;

	sim->heap[0] = sim->heap[--sim->nheap];
	for (;;)
	{
		int			least = i;

		for (int child = 2 * i + 1; child <= 2 * i + 2 && child < sim->nheap; child++)
			if (before(&sim->heap[child], &sim->heap[least]))
				least = child;
		if (least == i)
			return first;
		swap(&sim->heap[i], &sim->heap[least]);
		i = least;
	}
}

/* Messages and wake-ups. */
uint64_t
sim_latency(Sim *sim)
{
	return sim->set.exact ? sim->set.latency_us : rng_time(&sim->rng, sim->set.latency_us);
}

/* ---------- messages ---------- */

void
sim_note(Sim *sim, const char *format,...)
{
	va_list		args;

	if (!sim->verbose)
		return;
	va_start(args, format);
	printf("%10" PRIu64 "  ", sim->now);
	vprintf(format, args);
	printf("\n");
	va_end(args);
}

void
sim_fail(Sim *sim, const char *format,...)
{
	va_list		args;

	va_start(args, format);
	printf("seed %" PRIu64 " fails at %" PRIu64 " us: ", sim->seed, sim->now);
	vprintf(format, args);
	printf("\nreplay it: make -C test/sim run SEED=%" PRIu64 " TRACE=1\n", sim->seed);
	va_end(args);
	exit(1);
}

#ifdef PPA_ASSERT
extern void ppa_assert_failed(const char *condition, const char *file, int line);

void
ppa_assert_failed(const char *condition, const char *file, int line)
{
	sim_fail(current, "%s:%d: assertion failed: %s", file, line, condition);
}
#endif

/* ---------- a run ---------- */

static void
started(Sim *sim, int w)
{
	bool		refused = rng_percent(&sim->rng, sim->set.refused_percent);

	if (sim->stopping || sim->workers[w].phase != W_STARTING)
		return;
	sim->workers[w].phase = refused ? W_DOWN : W_IDLE;
	leader_hear(sim, (PpaScheduleEvent)
				{
					.type = refused ? PPA_EVENT_WORKER_REFUSED : PPA_EVENT_WORKER_STARTED,
						.worker = (uint32_t) w
				});
}

static void
stop_worker(Sim *sim, int w)
{
	bool		asked_one = !sim->stopping;

	worker_stop(sim, w);
	if (asked_one)
		leader_hear(sim, (PpaScheduleEvent)
					{
						.type = PPA_EVENT_WORKER_STOPPED,.worker = (uint32_t) w
					});
}

/* Only a hint: whatever the leader believes of flushes must do no harm. */
static void
flushing(Sim *sim)
{
	uint32_t	w = (uint32_t) rng_below(&sim->rng, sim->set.core.workers);

	if (sim->set.exact || sim->workers[w].phase == W_DOWN || sim->workers[w].phase == W_STARTING)
		return;
	leader_hear(sim, (PpaScheduleEvent)
				{
					.type = PPA_EVENT_WORKER_FLUSHING,.worker = w,
						.waiting = rng_percent(&sim->rng, 50)
				});
}

static void
dispatch(Sim *sim, const Event *event)
{
	switch (event->type)
	{
		case EV_TO_WORKER:
			worker_message(sim, event->a, &event->action);
			break;
		case EV_STOP_WORKER:
			stop_worker(sim, event->a);
			break;
		case EV_STARTED:
			started(sim, event->a);
			break;
		case EV_TO_LEADER:
			leader_hear(sim, event->event);
			break;
		case EV_READ:
			leader_read(sim);
			break;
		case EV_LOOK:
			leader_look(sim);
			break;
		case EV_TICK:
			flushing(sim);
			leader_hear(sim, (PpaScheduleEvent)
						{
							.type = PPA_EVENT_TICK
						});
			if (sim->committed_txns < sim->set.ntxns)
				sim_post(sim, EV_TICK, 20000, 0);
			break;
		case EV_RESTART:
			leader_restart(sim);
			break;
		default:
			worker_event(sim, event);
			break;
	}
}

/* These outlive a leader. */
static bool
handle_outside(Sim *sim, const Event *event)
{
	switch (event->type)
	{
		case EV_LOCAL:
			if (event->gen == sim->locals[event->a].gen)
				local_event(sim, event->a);
			return true;
		case EV_KILL:
			worker_kill(sim, event->a);
			return true;
		case EV_DISABLE:
			leader_hear(sim, (PpaScheduleEvent)
						{
							.type = PPA_EVENT_STOP
						});
			return true;
		default:
			return false;
	}
}

static void
plan_faults(Sim *sim)
{
	uint64_t	span = SECOND / 20;

	for (int i = 0; i < sim->set.deaths; i++)
	{
		uint64_t	when = rng_below(&sim->rng, span);

		sim_post(sim, EV_KILL, when, (int) rng_below(&sim->rng, sim->set.core.workers));
	}
	for (int i = 0; i < sim->set.stops; i++)
		sim_post(sim, EV_DISABLE, rng_below(&sim->rng, span), 0);
}

void
sim_run(Sim *sim)
{
	current = sim;
	leader_init(sim);
	local_init(sim);
	plan_faults(sim);
	while (sim->nheap > 0 && (sim->finished == 0 || sim->now < sim->finished + SECOND / 5))
	{
		Event		event = take(sim);

		sim->now = event.time;
		if (++sim->nevents > LAST_EVENT * (sim->set.exact ? 100 : 1) || sim->now > LAST_TIME)
			sim_fail(sim, "no end: %d of %d transactions", sim->committed_txns, sim->set.ntxns);
		sim->trace_hash = mix(mix(mix(sim->trace_hash, event.time), event.type),
							  (uint64_t) event.a);
		if (!handle_outside(sim, &event) && event.epoch == sim->epoch)
			dispatch(sim, &event);
	}
	if (sim->committed_txns != sim->set.ntxns)
		sim_fail(sim, "it stands still: %d of %d transactions", sim->committed_txns,
				 sim->set.ntxns);
	if (!sim->set.exact && world_hash(&sim->world) != sim->txns[sim->set.ntxns - 1].hash)
		sim_fail(sim, "the rows in the end are not those of serial apply");
}

void
sim_free(Sim *sim)
{
	world_free(&sim->world);
	free(sim->memory);
	free(sim->heap);
	free(sim->txns);
	free(sim->ops);
}

void
sim_add_stats(PpaScheduleStats *to, const PpaScheduleStats *from)
{
	uint64_t   *t = (uint64_t *) to;
	const uint64_t *f = (const uint64_t *) from;

	/* All counters come first, and are of one type. */
	for (size_t i = 0; i < offsetof(PpaScheduleStats, workers_up) / sizeof(uint64_t); i++)
		t[i] += f[i];
}

/* ---------- command line ---------- */

typedef struct Totals
{
	PpaScheduleStats stats;
	uint64_t	hash;
	uint64_t	events;
	uint64_t	txns;
	uint64_t	groups;
	uint64_t	restarts;
	uint64_t	verdicts;
	uint64_t	serial;
} Totals;

static void
run_seed(uint64_t seed, bool verbose, Totals *totals)
{
	Sim		   *sim = calloc(1, sizeof(Sim));
	PpaScheduleStats last;

	sim->seed = seed;
	sim->verbose = verbose;
	load_from_seed(sim);
	load_oracle(sim);
	sim_run(sim);
	last = ppa_schedule_stats(sim->core);
	sim_add_stats(&sim->stats, &last);
	sim_add_stats(&totals->stats, &sim->stats);
	totals->hash = mix(totals->hash, sim->trace_hash);
	totals->events += sim->nevents;
	totals->txns += (uint64_t) sim->set.ntxns;
	totals->groups += sim->groups;
	totals->restarts += sim->restarts;
	totals->verdicts += sim->verdicts;
	totals->serial += sim->serial_actions;
	sim_free(sim);
	free(sim);
}

static void
print_totals(const Totals *t)
{
	const PpaScheduleStats *s = &t->stats;

	printf("%" PRIu64 " transactions in %" PRIu64 " groups, %" PRIu64 " events; trace %016" PRIx64
		   "\n", t->txns, t->groups, t->events, t->hash);
	printf("restarts %" PRIu64 ", verdicts %" PRIu64 ", no worker to be had %" PRIu64
		   ", workers refused %" PRIu64 "\n", t->restarts, t->verdicts, t->serial,
		   s->refused_workers);
	printf("waits %" PRIu64 ", ordered %" PRIu64 ", alone %" PRIu64 ", missed %" PRIu64
		   ", table full %" PRIu64 ", relations ordered %" PRIu64 "\n", s->dependency_waits,
		   s->ordered_changes, s->alone_groups, s->missed, s->deps_full, s->relations_ordered);
	printf("failed: unique %" PRIu64 ", deadlock %" PRIu64 ", lock timeout %" PRIu64 ", other %"
		   PRIu64 ", triggers %" PRIu64 "\n", s->failures[PPA_FAILED_UNIQUE],
		   s->failures[PPA_FAILED_DEADLOCK], s->failures[PPA_FAILED_LOCK_TIMEOUT],
		   s->failures[PPA_FAILED_OTHER], s->failures[PPA_FAILED_TRIGGERS]);
	printf("victims %" PRIu64 ", backstops %" PRIu64 ", attempts alone %" PRIu64 ", large %"
		   PRIu64 ", moved %" PRIu64 "\n", s->victims, s->backstops, s->alone_attempts,
		   s->large_groups, s->moved_groups);
}

int
main(int argc, char **argv)
{
	Totals		totals = {0};
	uint64_t	from = 1;
	uint64_t	seeds = 100;
	bool		trace = false;

	if (argc > 1 && strcmp(argv[1], "whatif") == 0)
		return whatif_main(argc - 2, argv + 2);
	for (int i = 1; i < argc; i++)
	{
		if (strcmp(argv[i], "--trace") == 0)
			trace = true;
		else if (i + 1 < argc && strcmp(argv[i], "--from") == 0)
			from = strtoull(argv[++i], NULL, 10);
		else if (i + 1 < argc && strcmp(argv[i], "--seeds") == 0)
			seeds = strtoull(argv[++i], NULL, 10);
		else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0)
		{
			from = strtoull(argv[++i], NULL, 10);
			seeds = 1;
		}
		else
		{
			fprintf(stderr, "usage: %s [--from N] [--seeds N] | --seed N [--trace] | "
					"whatif LEADER_US WORKER_US COMMIT_US\n", argv[0]);
			return 2;
		}
	}
	for (uint64_t seed = from; seed < from + seeds; seed++)
		run_seed(seed, trace, &totals);
	printf("%" PRIu64 " seeds from %" PRIu64 " on: ok\n", seeds, from);
	print_totals(&totals);
	return 0;
}
