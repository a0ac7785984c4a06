/*-------------------------------------------------------------------------
 *
 * sim_leader.c
 *	  Reads the stream, asks the core, does its actions.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* As if every change had so many bytes. */
#define OP_BYTES 100

#define START_WORKER_US 2000
#define TICK_US 20000
#define MAX_KEYS 3

static void do_actions(Sim *sim);

static int
nworkers(const Sim *sim)
{
	return (int) sim->set.core.workers;
}

void
leader_init(Sim *sim)
{
	sim->memory = malloc(ppa_schedule_size(&sim->set.core));
	sim->core = ppa_schedule_init(sim->memory, &sim->set.core);
	memset(sim->ring, 0, sizeof(sim->ring));
	sim->forming = (PpaGroup) {0};
	sim->open = 0;
	sim->next_txn = sim->committed_txns;
	sim->next_op = -1;
	sim->read_pending = sim->stopping = false;
	sim->verdict_txn = -1;
	sim->look_scheduled = PPA_SCHEDULE_NEVER;
	sim->published = 0;
	sim->head_since = sim->now;
	sim_post(sim, EV_READ, 0, 0);
	sim->read_pending = true;
	sim_post(sim, EV_TICK, TICK_US, 0);
}

/* ---------- keys and flags, as the leader sees them ---------- */

static uint64_t
key_of(const Op *op, int what, int value)
{
	return mix(mix((uint64_t) op->rel + 1, (uint64_t) what), (uint64_t) value);
}

static uint64_t
offer(Sim *sim, const Op *op)
{
	uint64_t	keys[MAX_KEYS];
	PpaScheduleChange change = {.relation = (uint32_t) op->rel + 1,.keys = keys};

	keys[change.nkeys++] = key_of(op, 0, op->id);
	if (op->kind == OP_MOVE)
		keys[change.nkeys++] = key_of(op, 0, op->id2);
	if (op->u >= 0 && sim->set.unique_keys)
		keys[change.nkeys++] = key_of(op, 1, op->u);
	if (!sim->set.exact && (op->rel == REL_ORDERED || op->kind == OP_TRUNCATE))
		change.flags |= PPA_CHANGE_ORDERED;
	if (!sim->set.exact && op->rel == REL_TRIGGER)
		change.flags |= PPA_CHANGE_TRIGGERS;
	return ppa_schedule_change(sim->core, &change);
}

/* ---------- reading ---------- */

static void
read_again(Sim *sim, uint64_t delay)
{
	if (sim->read_pending)
		return;
	sim->read_pending = true;
	sim_post(sim, EV_READ, delay, 0);
}

static void
close_group(Sim *sim)
{
	SimGroup   *g = group_of(sim, sim->open);

	g->closed = true;
	sim->open = 0;
	sim->forming = (PpaGroup) {0};
	ppa_schedule_close(sim->core, sim->now);
	do_actions(sim);
	/* A worker may wait for more of it. */
	for (int w = 0; w < nworkers(sim); w++)
		if (sim->workers[w].group == g->number && sim->workers[w].phase == W_INPUT)
			worker_go(sim, w);
}

static void
open_group(Sim *sim)
{
	sim->open = ppa_schedule_open(sim->core);
	*group_of(sim, sim->open) = (SimGroup)
	{
		.number = sim->open,.first = sim->next_txn,.retained = true,.unretain_at = -1,
			.sent = sim->txns[sim->next_txn].first
	};
}

static bool
is_large(const Sim *sim, const Txn *txn)
{
	return (uint64_t) txn->nops * OP_BYTES > sim->set.core.retain_bytes;
}

/* One change of a transaction that is given out while it arrives. */
static void
read_large(Sim *sim)
{
	SimGroup   *g = group_of(sim, sim->open);
	Txn		   *txn = &sim->txns[g->first];
	Op		   *op = &sim->ops[sim->next_op];

	op->wait_for = offer(sim, op);
	ppa_schedule_bytes(sim->core, OP_BYTES, sim->now);
	do_actions(sim);
	if (sim->stopping)
		return;
	if (sim->next_op - txn->first == 5 && rng_percent(&sim->rng, 30))
	{
		ppa_schedule_forward(sim->core, sim->now);
		do_actions(sim);
	}
	g->sent = ++sim->next_op;
	for (int w = 0; w < nworkers(sim); w++)
		if (sim->workers[w].group == g->number)
			worker_go(sim, w);
	if (sim->next_op == txn->first + txn->nops)
	{
		sim->next_op = -1;
		sim->next_txn++;
		g->ntxns = 1;
		close_group(sim);
	}
	read_again(sim, sim->set.leader_us);
}

static bool
admits(Sim *sim, const PpaTxnFacts *facts)
{
	return sim->open == 0 || ppa_group_admits(&sim->set.rules, &sim->forming, facts);
}

/* The next transaction is there as a whole. */
static void
read_txn(Sim *sim)
{
	Txn		   *txn = &sim->txns[sim->next_txn];
	PpaTxnFacts facts = {.bytes = (size_t) txn->nops * OP_BYTES,.solo = txn->solo,
	.truncates = txn->truncates};
	bool		large = is_large(sim, txn);
	SimGroup   *g;

	if (sim->open != 0 && (large || !admits(sim, &facts)))
		close_group(sim);
	if (sim->stopping)
		return;
	if (sim->open == 0)
	{
		if (!ppa_schedule_can_open(sim->core))
			return;				/* RESUME_READING will come */
		open_group(sim);
	}
	g = group_of(sim, sim->open);
	if (large)
	{
		sim->next_op = txn->first;
		g->ntxns = 1;
		read_again(sim, 0);
		return;
	}
	for (int i = 0; i < txn->nops; i++)
	{
		Op		   *op = &sim->ops[txn->first + i];

		op->wait_for = offer(sim, op);
	}
	g->sent = txn->first + txn->nops;
	g->ntxns++;
	sim->next_txn++;
	ppa_schedule_bytes(sim->core, facts.bytes, sim->now);
	do_actions(sim);
	ppa_group_add(&sim->set.rules, &sim->forming, &facts);
	if (ppa_group_is_full(&sim->set.rules, &sim->forming))
		close_group(sim);
	read_again(sim, sim->set.leader_us * (uint64_t) txn->nops);
}

void
leader_read(Sim *sim)
{
	sim->read_pending = false;
	if (sim->stopping)
		return;
	if (sim->next_op >= 0)
	{
		if (ppa_schedule_is_reading(sim->core))
			read_large(sim);
		return;
	}
	if (sim->next_txn == sim->set.ntxns || sim->txns[sim->next_txn].arrival > sim->now)
	{
		/* The input is dry: nothing is kept waiting for company. */
		if (sim->open != 0)
			close_group(sim);
		if (sim->next_txn < sim->set.ntxns)
			read_again(sim, sim->txns[sim->next_txn].arrival - sim->now);
		return;
	}
	if (ppa_schedule_is_reading(sim->core))
		read_txn(sim);
	else if (sim->open != 0)
		close_group(sim);
}

/* ---------- actions ---------- */

/* Queue messages arrive in order; ABORT goes through shared memory, past them. */
static void
send(Sim *sim, const PpaScheduleAction *action)
{
	SimWorker  *worker = &sim->workers[action->worker];
	uint64_t	at = sim->now + sim_latency(sim);

	if (action->type == PPA_ACTION_ABORT && !sim->set.exact)
		at = sim->now + rng_time(&sim->rng, sim->set.abort_us);
	else
	{
		if (at < worker->last_to)
			at = worker->last_to;
		worker->last_to = at;
	}
	sim_post(sim, EV_TO_WORKER, at - sim->now, (int) action->worker)->action = *action;
}

static void
stop_all(Sim *sim)
{
	sim->stopping = true;
	sim->stop_began = sim->now;
	for (int w = 0; w < nworkers(sim); w++)
		if (sim->workers[w].phase == W_STARTING)
			sim->workers[w].phase = W_DOWN;
		else
			sim_post(sim, EV_STOP_WORKER, sim_latency(sim), w);
	leader_worker_gone(sim);
}

static void
start_worker(Sim *sim, int w)
{
	sim->workers[w].phase = W_STARTING;
	sim->workers[w].speed = 4;
	if (rng_percent(&sim->rng, sim->set.slow_percent))
		sim->workers[w].speed = 4 * (1 + rng_below(&sim->rng, 30));
	sim_post(sim, EV_STARTED, sim->set.exact ? 1 : START_WORKER_US, w);
}

/* The transaction that serial apply would have stopped at, and only that. */
static void
verdict(Sim *sim, uint64_t number)
{
	SimGroup   *g = group_of(sim, number);
	int			t = g->first + g->next_member;

	sim_note(sim, "verdict on transaction %d, group %" PRIu64, t, number);
	if (t != sim->committed_txns)
		sim_fail(sim, "verdict on transaction %d, but %d have committed", t, sim->committed_txns);
	if (!sim->txns[t].fails)
		sim_fail(sim, "verdict on transaction %d, which serial apply applies", t);
	sim->verdicts++;
	sim->verdict_txn = t;
	stop_all(sim);
}

static void
do_action(Sim *sim, const PpaScheduleAction *action)
{
	SimGroup   *g = group_of(sim, action->group);

	switch (action->type)
	{
		case PPA_ACTION_START_WORKER:
			start_worker(sim, (int) action->worker);
			break;
		case PPA_ACTION_STOP_WORKER:
			sim_post(sim, EV_STOP_WORKER, sim_latency(sim), (int) action->worker);
			break;
		case PPA_ACTION_DISPATCH:
			g->start_after = action->start_after;
			g->alone = action->alone;
			send(sim, action);
			break;
		case PPA_ACTION_UNRETAIN:
			g->unretain_at = sim->next_op >= 0 ? sim->next_op : 0;
			break;
		case PPA_ACTION_MOVE:
		case PPA_ACTION_ABORT:
		case PPA_ACTION_RETRY:
			send(sim, action);
			break;
		case PPA_ACTION_STOP_READING:
			break;
		case PPA_ACTION_RESUME_READING:
			read_again(sim, 0);
			break;
		case PPA_ACTION_VERDICT:
			verdict(sim, action->group);
			break;
		case PPA_ACTION_SERIAL:
			sim->serial_actions++;
			stop_all(sim);
			break;
		case PPA_ACTION_STOP_ALL:
			stop_all(sim);
			break;
	}
}

static void
do_actions(Sim *sim)
{
	PpaScheduleAction action;
	uint64_t	look_at;

	while (ppa_schedule_next_action(sim->core, &action))
	{
		static const char *const names[] = {"START_WORKER", "STOP_WORKER", "DISPATCH", "MOVE",
			"ABORT", "RETRY", "UNRETAIN", "STOP_READING", "RESUME_READING", "VERDICT",
		"STOP_ALL", "SERIAL"};

		sim_note(sim, "action %s worker %u group %" PRIu64 " start_after %" PRIu64 "%s",
				 names[action.type], action.worker, action.group, action.start_after,
				 action.alone ? " alone" : "");
		do_action(sim, &action);
	}
	look_at = ppa_schedule_look_at(sim->core);
	if (look_at != sim->look_scheduled && look_at != PPA_SCHEDULE_NEVER)
		sim_post(sim, EV_LOOK, look_at > sim->now ? look_at - sim->now : 0, 0);
	sim->look_scheduled = look_at;
}

/* ---------- events ---------- */

static void
step(Sim *sim, PpaScheduleEvent event)
{
	event.now = sim->now;
	ppa_schedule_step(sim->core, &event);
	do_actions(sim);
}

/* The counter is read first, always. */
static void
read_counter(Sim *sim)
{
	step(sim, (PpaScheduleEvent)
		 {
			 .type = PPA_EVENT_COMMITTED,.group = sim->published,
				 /* only a hint, which may be wrong */
				 .pace_us = sim->set.exact ? sim->set.pace_us : rng_below(&sim->rng, 100)
		 });
}

void
leader_hear(Sim *sim, PpaScheduleEvent event)
{
	if (sim->stopping)
		return;
	read_counter(sim);
	if (!sim->stopping)
		step(sim, event);
}

/* Look at the head of line as pg_blocking_pids would. */
void
leader_look(Sim *sim)
{
	uint64_t	head;
	SimWorker  *worker;
	int			w;
	int			x;

	if (sim->stopping || ppa_schedule_look_at(sim->core) > sim->now)
		return;
	read_counter(sim);
	head = ppa_schedule_head(sim->core);
	w = ppa_schedule_worker_of(sim->core, head);
	if (head == 0 || ppa_schedule_look_at(sim->core) > sim->now)
		return;
	if (w < 0)
	{
		step(sim, (PpaScheduleEvent)
			 {
				 .type = PPA_EVENT_HEAD_SEEN,.group = head
			 });
		return;
	}
	worker = &sim->workers[w];
	step(sim, (PpaScheduleEvent)
		 {
			 .type = PPA_EVENT_HEAD_SEEN,.group = head,.progress = worker->progress,
				 .waiting = worker->phase == W_LOCK && worker->group == head
		 });
	x = worker->phase == W_LOCK && worker->group == head ? sim->world.xacts[w].waits_for : NOBODY;
	for (int hops = 0; x != NOBODY && x != w && hops < MAX_XACTS && !sim->stopping; hops++)
	{
		if (x < FIRST_LOCAL && sim->workers[x].group > head)
			step(sim, (PpaScheduleEvent)
				 {
					 .type = PPA_EVENT_HEAD_BLOCKED,.group = head,
						 .by = sim->workers[x].group
				 });
		x = sim->world.xacts[x].waits_for;
	}
}

/* ---------- stop and start ---------- */

/* The leader leaves last: only when all are gone the next one may begin. */
void
leader_worker_gone(Sim *sim)
{
	if (!sim->stopping)
		return;
	for (int w = 0; w < nworkers(sim); w++)
		if (sim->workers[w].phase != W_DOWN)
			return;
	if (sim->now > sim->stop_began + SECOND)
		sim_fail(sim, "stopping took %" PRIu64 " us", sim->now - sim->stop_began);
	sim_post(sim, EV_RESTART, 1000, 0);
}

void
leader_restart(Sim *sim)
{
	PpaScheduleStats stats = ppa_schedule_stats(sim->core);

	sim_add_stats(&sim->stats, &stats);
	free(sim->memory);
	if (sim->verdict_txn >= 0)
	{
		sim->txns[sim->verdict_txn].skipped = true;
		sim->committed_txns = sim->verdict_txn + 1;
		if (sim->committed_txns == sim->set.ntxns)
			sim->finished = sim->now;
	}
	sim_note(sim, "restart at transaction %d", sim->committed_txns);
	sim->epoch++;
	sim->restarts++;
	leader_init(sim);
}
