/*-------------------------------------------------------------------------
 *
 * sim_worker.c
 *	  Applies groups as core_schedule.h says that a worker does.
 *
 * Here the promises are checked at the moment they could be broken: commits in
 * stream order, each transaction once, rows as in serial apply after each
 * commit (so every reader sees a prefix), triggers alone and in worker 0, and
 * the head of line is not kept waiting by a later group.
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

/*
 * How long a later group may block the head of line: where the lock table
 * shows it, and where it does not.  The core's own times, and slow messages.
 */
#define VISIBLE_BLOCK_US 30000
#define HIDDEN_BLOCK_US 300000

#define DEADLOCK_US SECOND

#define ROLLBACK_US 20

SimGroup *
group_of(Sim *sim, uint64_t number)
{
	return &sim->ring[number % RING];
}

static uint64_t
cost(Sim *sim, const SimWorker *w, uint64_t mean)
{
	uint64_t	us = sim->set.exact ? mean : rng_time(&sim->rng, mean);

	us = us * w->speed / 4;
	sim->busy_us += us;
	return us;
}

static void
post(Sim *sim, EventType type, uint64_t delay, int w, uint64_t b)
{
	Event	   *event = sim_post(sim, type, delay, w);

	event->gen = sim->workers[w].gen;
	event->b = b;
}

/* Everybody who waits for the end of transaction x tries again. */
void
xact_ended(Sim *sim, int x)
{
	for (int w = 0; w < (int) sim->set.core.workers; w++)
		if (sim->workers[w].phase == W_LOCK && sim->world.xacts[w].waits_for == x)
			post(sim, EV_WAKE, sim_latency(sim), w, 0);
	for (int l = 0; l < sim->set.nlocals; l++)
		if (sim->world.xacts[FIRST_LOCAL + l].waits_for == x)
		{
			Event	   *event = sim_post(sim, EV_LOCAL, sim_latency(sim), l);

			event->gen = sim->locals[l].gen;
		}
}

/* To the leader, in the order sent. */
static void
tell(Sim *sim, int w, PpaScheduleEvent event)
{
	SimWorker  *worker = &sim->workers[w];
	uint64_t	at = sim->now + sim_latency(sim);

	if (at < worker->last_from)
		at = worker->last_from;
	worker->last_from = at;
	event.worker = (uint32_t) w;
	sim_post(sim, EV_TO_LEADER, at - sim->now, w)->event = event;
}

/* ---------- beginning and ending local transactions ---------- */

static int
group_end(const SimGroup *g)
{
	return g->first + g->ntxns;
}

static void
begin_xact(Sim *sim, int w, SimGroup *g)
{
	SimWorker  *worker = &sim->workers[w];

	worker->txn = g->first + (g->serial ? g->next_member : 0);
	if (g->ntxns > 0 && worker->txn == group_end(g))
		sim_fail(sim, "group %" PRIu64 " begins again after all of it has committed", g->number);
	if (worker->txn < sim->committed_txns)
		sim_fail(sim, "group %" PRIu64 " begins again with transaction %d, which has committed",
				 g->number, worker->txn);
	worker->op = sim->txns[worker->txn].first;
	if (!g->retained)
		sim_fail(sim, "group %" PRIu64 " begins again, but its bytes are gone", g->number);
	world_begin(&sim->world, w);
	worker->lock_since = 0;
	worker->progress++;
	worker->phase = W_NEXT;
}

static void
start_rollback(Sim *sim, int w)
{
	SimWorker  *worker = &sim->workers[w];

	worker->gen++;
	worker->phase = W_ROLLBACK;
	sim->world.xacts[w].waits_for = NOBODY;
	post(sim, EV_ROLLED_BACK, cost(sim, worker, ROLLBACK_US), w, 0);
}

static void
fail(Sim *sim, int w, PpaFailure reason)
{
	SimWorker  *worker = &sim->workers[w];

	sim_note(sim, "worker %d group %" PRIu64 " fails: reason %d, change %d of transaction %d%s", w,
			 worker->group, (int) reason, worker->op - sim->txns[worker->txn].first, worker->txn,
			 group_of(sim, worker->group)->retained ? "" : ", not retained");
	worker->failing = true;
	worker->reason = reason;
	start_rollback(sim, w);
}

static void
drop_group(SimWorker *worker)
{
	worker->group = 0;
	worker->phase = W_IDLE;
}

static void
say_rolled_back(Sim *sim, int w, const SimGroup *g)
{
	tell(sim, w, (PpaScheduleEvent)
		 {
			 .type = PPA_EVENT_ROLLED_BACK,.group = g->number,.start_after = g->start_after
		 });
}

static void
rolled_back(Sim *sim, int w)
{
	SimWorker  *worker = &sim->workers[w];
	SimGroup   *g = group_of(sim, worker->group);

	world_abort(&sim->world, w);
	xact_ended(sim, w);
	worker->phase = W_START;
	if (worker->failing)
	{
		worker->failing = false;
		g->held = true;
		tell(sim, w, (PpaScheduleEvent)
			 {
				 .type = PPA_EVENT_FAILED,.group = g->number,.reason = worker->reason,
					 .relation = (uint32_t) sim->ops[worker->op].rel + 1,.retained = g->retained,
					 .progress = (uint64_t) g->next_member
			 });
		if (worker->reason == PPA_FAILED_TRIGGERS && w != 0)
			drop_group(worker);
	}
	if (worker->answer)
	{
		worker->answer = false;
		say_rolled_back(sim, w, g);
	}
	worker_go(sim, w);
}

/* ---------- commit ---------- */

static void
check_commit(Sim *sim, int first, int last)
{
	if (first != sim->committed_txns)
		sim_fail(sim, "transactions %d to %d are committed after %d", first, last,
				 sim->committed_txns - 1);
	if (!sim->set.exact && world_hash(&sim->world) != sim->txns[last].hash)
		sim_fail(sim, "after transaction %d the rows are not those of serial apply", last);
	for (int t = first; t <= last; t++)
		if (sim->txns[t].fails)
			sim_fail(sim, "transaction %d commits, but fails in serial apply", t);
}

static void
committed(Sim *sim, int w)
{
	SimWorker  *worker = &sim->workers[w];
	SimGroup   *g = group_of(sim, worker->group);
	int			first = g->serial ? worker->txn : g->first;
	int			last = g->serial ? worker->txn : group_end(g) - 1;

	world_commit(&sim->world, w);
	sim_note(sim, "worker %d commits %d to %d, group %" PRIu64, w, first, last, g->number);
	check_commit(sim, first, last);
	sim->committed_txns = last + 1;
	if (sim->committed_txns == sim->set.ntxns)
		sim->finished = sim->now;
	xact_ended(sim, w);
	g->next_member++;
	worker->phase = W_PUBLISH;
	post(sim, EV_PUBLISHED, cost(sim, worker, sim->set.publish_us), w, 0);
}

static void
publish(Sim *sim, uint64_t number)
{
	sim->published = number;
	sim->head_since = sim->now;
	sim->groups++;
	for (int w = 0; w < (int) sim->set.core.workers; w++)
		switch (sim->workers[w].phase)
		{
			case W_START:
			case W_DEPENDENCY:
			case W_MISSED:
			case W_TURN:
				post(sim, EV_WAKE, sim_latency(sim), w, 0);
				break;
			default:
				break;
		}
}

static void
published(Sim *sim, int w)
{
	SimWorker  *worker = &sim->workers[w];
	SimGroup   *g = group_of(sim, worker->group);

	if (g->serial && g->first + g->next_member < group_end(g))
	{
		/* The next remote transaction of the group. */
		if (worker->stopping)
			drop_group(worker);
		else
			begin_xact(sim, w, g);
		worker_go(sim, w);
		return;
	}
	publish(sim, g->number);
	drop_group(worker);
	tell(sim, w, (PpaScheduleEvent)
		 {
			 .type = PPA_EVENT_TICK
		 });
	worker_go(sim, w);
}

/* ---------- a change ---------- */

static bool
is_head(const Sim *sim, uint64_t number)
{
	return sim->published == number - 1;
}

static bool
any_later_open(const Sim *sim, int w)
{
	for (int i = 0; i < (int) sim->set.core.workers; i++)
		if (sim->world.xacts[i].open && sim->workers[i].group > sim->workers[w].group &&
			sim->workers[i].phase != W_ROLLBACK)
			return true;
	return false;
}

/* A later group that the lock table shows in the chain that w waits for, or 0. */
static uint64_t
later_blocker(Sim *sim, int w)
{
	int			x = sim->world.xacts[w].waits_for;

	for (int hops = 0; x != NOBODY && x != w && hops < MAX_XACTS; hops++)
	{
		if (x < FIRST_LOCAL && sim->workers[x].group > sim->workers[w].group &&
			sim->workers[x].phase != W_ROLLBACK)
			return sim->workers[x].group;
		x = sim->world.xacts[x].waits_for;
	}
	return 0;
}

/* A missing row counts only now, and if nobody is about to insert it. */
static bool
is_being_inserted(Sim *sim, int w, const Op *op)
{
	int			holder = sim->world.rows[op->rel][op->id].holder;

	if (holder == NOBODY || holder == w || holder < FIRST_LOCAL)
		return false;
	sim->world.xacts[w].waits_for = holder;
	return true;
}

static void
sleep_for_lock(Sim *sim, int w)
{
	SimWorker  *worker = &sim->workers[w];

	worker->phase = W_LOCK;
	if (worker->lock_progress != worker->progress || worker->lock_since == 0)
	{
		worker->lock_progress = worker->progress;
		worker->lock_since = sim->now;
		worker->seen_blocker = 0;
		post(sim, EV_HEAD_CHECK, VISIBLE_BLOCK_US, w, worker->progress);
		post(sim, EV_DEADLOCK_CHECK, DEADLOCK_US, w, worker->progress);
	}
}

static void
next_op(SimWorker *worker)
{
	worker->op++;
	worker->progress++;
	worker->phase = W_NEXT;
}

static void
missing(Sim *sim, int w, const Op *op)
{
	SimWorker  *worker = &sim->workers[w];

	if (!is_head(sim, worker->group))
	{
		worker->phase = W_MISSED;
		tell(sim, w, (PpaScheduleEvent)
			 {
				 .type = PPA_EVENT_MISSED,.group = worker->group,
					 .relation = (uint32_t) op->rel + 1
			 });
	}
	else if (is_being_inserted(sim, w, op))
		sleep_for_lock(sim, w);
	else
		next_op(worker);
}

/* Errors that pass; in serial apply they would stop the subscription for a moment. */
static bool
injected_failure(Sim *sim, int w, const SimGroup *g)
{
	SimWorker  *worker = &sim->workers[w];
	Txn		   *txn = &sim->txns[worker->txn];

	if (is_head(sim, g->number))
	{
		/* Errors that are there because somebody holds a lock: NOWAIT, a full lock table. */
		if (any_later_open(sim, w) && rng_below(&sim->rng, 1000) < sim->set.company_errors)
		{
			fail(sim, w, PPA_FAILED_OTHER);
			return true;
		}
		if (txn->transients == 0 || worker->op != txn->first + txn->nops - 1)
			return false;
		txn->transients--;
		fail(sim, w, rng_percent(&sim->rng, 50) ? PPA_FAILED_DEADLOCK : PPA_FAILED_LOCK_TIMEOUT);
		return true;
	}
	if (sim->set.speculative_errors == 0 ||
		rng_below(&sim->rng, 1000) >= sim->set.speculative_errors)
		return false;
	fail(sim, w, (PpaFailure) rng_below(&sim->rng, PPA_FAILED_TRIGGERS));
	return true;
}

static bool
fires_trigger_too_early(Sim *sim, int w, const SimGroup *g, const Op *op)
{
	if (op->rel != REL_TRIGGER && !op->hidden_trigger)
		return false;
	if (op->rel == REL_TRIGGER && w != 0)
		sim_fail(sim, "group %" PRIu64 " is to fire a trigger in worker %d", g->number, w);
	if (g->alone && w == 0)
		return false;
	fail(sim, w, PPA_FAILED_TRIGGERS);
	return true;
}

static void
exec(Sim *sim, int w)
{
	SimWorker  *worker = &sim->workers[w];
	SimGroup   *g = group_of(sim, worker->group);
	const Op   *op = &sim->ops[worker->op];

	if (!sim->set.exact &&
		(fires_trigger_too_early(sim, w, g, op) || injected_failure(sim, w, g)))
		return;
	switch (world_exec(&sim->world, w, op))
	{
		case DONE:
			next_op(worker);
			break;
		case BLOCKED:
			sleep_for_lock(sim, w);
			break;
		case MISSING:
			missing(sim, w, op);
			break;
		case UNIQUE_ERROR:
			fail(sim, w, PPA_FAILED_UNIQUE);
			break;
		case POISON_ERROR:
			fail(sim, w, PPA_FAILED_OTHER);
			break;
	}
}

/* ---------- the worker's loop ---------- */

/* The lowest number first; the group that waits for its start, or for RETRY, gives way. */
static bool
choose(SimWorker *worker)
{
	int			best = -1;
	uint64_t	number;

	for (int i = 0; i < worker->nqueue; i++)
		if (best < 0 || worker->queue[i] < worker->queue[best])
			best = i;
	if (best < 0 || (worker->group != 0 && worker->group < worker->queue[best]))
		return worker->group != 0;
	number = worker->queue[best];
	worker->queue[best] = worker->queue[--worker->nqueue];
	if (worker->group != 0)
		worker->queue[worker->nqueue++] = worker->group;
	worker->group = number;
	worker->phase = W_START;
	return true;
}

/* May the group begin?  If so it does. */
static bool
start(Sim *sim, int w)
{
	SimWorker  *worker = &sim->workers[w];
	SimGroup   *g = group_of(sim, worker->group);

	if (sim->published < g->start_after || g->held)
		return false;
	if (sim->now < g->not_before)
	{
		post(sim, EV_WAKE, g->not_before - sim->now, w, 0);
		return false;
	}
	begin_xact(sim, w, g);
	return true;
}

/* What comes after a change. */
static void
next(Sim *sim, int w)
{
	SimWorker  *worker = &sim->workers[w];
	SimGroup   *g = group_of(sim, worker->group);
	const Txn  *txn = &sim->txns[worker->txn];
	const Op   *op = &sim->ops[worker->op];
	bool		unretain = false;

	if (worker->op == txn->first + txn->nops)
	{
		if (!g->closed)
		{
			worker->phase = W_INPUT;
			return;
		}
		if (g->serial || worker->txn == group_end(g) - 1)
		{
			worker->phase = W_TURN;
			return;
		}
		worker->txn++;
		worker->op = sim->txns[worker->txn].first;
		return;
	}
	if (worker->op >= g->sent)
	{
		worker->phase = W_INPUT;
		return;
	}
	if (g->unretain_at >= 0 && worker->op >= g->unretain_at)
		unretain = g->retained;
	worker->target = unretain ? g->number - 1 : op->wait_for;
	worker->phase = W_DEPENDENCY;
	if (sim->published < worker->target)
		return;
	if (unretain)
	{
		g->retained = false;
		g->alone = true;
	}
	worker->phase = W_RUN;
	post(sim, EV_OP_DONE, cost(sim, worker, sim->set.worker_us), w, 0);
}

void
worker_go(Sim *sim, int w)
{
	SimWorker  *worker = &sim->workers[w];

	for (;;)
		switch (worker->phase)
		{
			case W_IDLE:
				if (worker->stopping)
				{
					worker_stop(sim, w);
					return;
				}
				if (!choose(worker))
					return;
				break;
			case W_START:
				choose(worker);
				if (!start(sim, w))
					return;
				break;
			case W_NEXT:
				next(sim, w);
				if (worker->phase == W_DEPENDENCY || worker->phase == W_RUN)
					return;
				break;
			case W_DEPENDENCY:
				if (sim->published < worker->target)
					return;
				worker->phase = W_NEXT;
				break;
			case W_MISSED:
				if (!is_head(sim, worker->group))
					return;
				worker->phase = W_EXEC;
				break;
			case W_EXEC:
				exec(sim, w);
				break;
			case W_TURN:
				if (!is_head(sim, worker->group))
					return;
				worker->phase = W_COMMIT;
				post(sim, EV_COMMITTED, cost(sim, worker, sim->set.commit_us), w, 0);
				return;
			case W_INPUT:
				if (worker->op >= group_of(sim, worker->group)->sent &&
					!group_of(sim, worker->group)->closed)
					return;
				worker->phase = W_NEXT;
				break;
			default:
				return;
		}
}

/* ---------- checks of the head of line ---------- */

static void
head_check(Sim *sim, int w, uint64_t progress)
{
	SimWorker  *worker = &sim->workers[w];
	uint64_t	slack = 40 * sim->set.latency_us + 30 * sim->set.abort_us;
	uint64_t	since = worker->lock_since;
	uint64_t	blocker;

	if (worker->progress != progress || sim->stopping)
		return;
	if (since < sim->head_since)
		since = sim->head_since;
	blocker = worker->phase == W_LOCK ? later_blocker(sim, w) : 0;
	if (!is_head(sim, worker->group) || sim->now < since + VISIBLE_BLOCK_US + slack)
		blocker = 0;
	if (blocker != 0 && blocker == worker->seen_blocker)
		sim_fail(sim, "group %" PRIu64 ", head of line, is not freed from group %" PRIu64,
				 worker->group, blocker);
	worker->seen_blocker = blocker;
	if (is_head(sim, worker->group) && worker->phase == W_LOCK &&
		sim->now >= since + HIDDEN_BLOCK_US + slack && any_later_open(sim, w))
		sim_fail(sim, "group %" PRIu64 ", head of line, waits for long while later ones "
				 "have transactions open", worker->group);
	post(sim, EV_HEAD_CHECK, VISIBLE_BLOCK_US / 2 + slack, w, progress);
}

/*
 * As PostgreSQL's own check: is there a cycle?  With a local session in it the
 * error is that one's, as it would be no matter who applies.
 */
static void
deadlock_check(Sim *sim, int w, uint64_t progress)
{
	int			x = sim->world.xacts[w].waits_for;
	int			local = NOBODY;

	if (sim->workers[w].progress != progress)
		return;
	for (int hops = 0; sim->workers[w].phase == W_LOCK && x != NOBODY && hops < MAX_XACTS; hops++)
	{
		if (x == w && local == NOBODY)
		{
			fail(sim, w, PPA_FAILED_DEADLOCK);
			return;
		}
		if (x == w)
		{
			local_give_up(sim, local - FIRST_LOCAL);
			break;
		}
		if (x >= FIRST_LOCAL)
			local = x;
		x = sim->world.xacts[x].waits_for;
	}
	post(sim, EV_DEADLOCK_CHECK, DEADLOCK_US, w, progress);
}

/* ---------- what comes in ---------- */

void
worker_event(Sim *sim, const Event *event)
{
	int			w = event->a;
	SimWorker  *worker = &sim->workers[w];

	if (event->gen != worker->gen)
		return;
	switch (event->type)
	{
		case EV_WAKE:
			if (worker->phase == W_LOCK)
				worker->phase = W_EXEC;
			worker_go(sim, w);
			break;
		case EV_OP_DONE:
			worker->phase = W_EXEC;
			worker_go(sim, w);
			break;
		case EV_COMMITTED:
			committed(sim, w);
			break;
		case EV_PUBLISHED:
			published(sim, w);
			break;
		case EV_ROLLED_BACK:
			rolled_back(sim, w);
			break;
		case EV_HEAD_CHECK:
			head_check(sim, w, event->b);
			break;
		case EV_DEADLOCK_CHECK:
			deadlock_check(sim, w, event->b);
			break;
		default:
			break;
	}
}

static bool
is_xact_open(const SimWorker *worker)
{
	return worker->phase >= W_NEXT && worker->phase <= W_TURN;
}

static void
asked_to_roll_back(Sim *sim, int w, const PpaScheduleAction *action)
{
	SimWorker  *worker = &sim->workers[w];
	SimGroup   *g = group_of(sim, action->group);

	if (g->number != action->group)
		return;
	if (g->start_after < action->start_after)
		g->start_after = action->start_after;
	if (sim->published >= action->start_after)
		return;					/* stale */
	if (worker->group != action->group || worker->phase == W_START)
		say_rolled_back(sim, w, g);
	else if (worker->phase == W_ROLLBACK)
		worker->answer = true;
	else if (is_xact_open(worker))
	{
		worker->answer = true;
		start_rollback(sim, w);
	}
	else
		sim_fail(sim, "group %" PRIu64 " is asked to roll back in its commit", action->group);
}

void
worker_message(Sim *sim, int w, const PpaScheduleAction *action)
{
	SimWorker  *worker = &sim->workers[w];
	SimGroup   *g = group_of(sim, action->group);

	if (worker->stopping || worker->phase == W_DOWN)
		return;
	switch (action->type)
	{
		case PPA_ACTION_DISPATCH:
		case PPA_ACTION_MOVE:
			worker->queue[worker->nqueue++] = action->group;
			break;
		case PPA_ACTION_ABORT:
			asked_to_roll_back(sim, w, action);
			return;
		case PPA_ACTION_RETRY:
			g->serial = true;
			g->held = false;
			g->alone |= action->alone;
			g->not_before = sim->now + action->delay_us;
			if (g->start_after < action->start_after)
				g->start_after = action->start_after;
			if (worker->group == action->group && worker->phase != W_START)
				sim_fail(sim, "group %" PRIu64 " is to be retried while it runs", g->number);
			break;
		default:
			break;
	}
	worker_go(sim, w);
}

static void
gone(Sim *sim, int w)
{
	SimWorker  *worker = &sim->workers[w];

	if (sim->world.xacts[w].open)
	{
		world_abort(&sim->world, w);
		xact_ended(sim, w);
	}
	worker->gen++;
	worker->phase = W_DOWN;
	worker->group = 0;
	worker->nqueue = 0;
	worker->stopping = worker->failing = worker->answer = false;
}

/* Asked to leave; from commit to publish interrupts are held. */
void
worker_stop(Sim *sim, int w)
{
	SimWorker  *worker = &sim->workers[w];

	if (worker->phase == W_COMMIT || worker->phase == W_PUBLISH)
	{
		worker->stopping = true;
		return;
	}
	if (worker->phase == W_DOWN)
		return;
	gone(sim, w);
	leader_worker_gone(sim);
}

/* SIGKILL; in a real server this would restart all, here only the worker is lost. */
void
worker_kill(Sim *sim, int w)
{
	if (sim->workers[w].phase <= W_STARTING)
		return;
	sim_note(sim, "worker %d is killed", w);
	gone(sim, w);
	tell(sim, w, (PpaScheduleEvent)
		 {
			 .type = PPA_EVENT_WORKER_DIED
		 });
	leader_worker_gone(sim);
}
