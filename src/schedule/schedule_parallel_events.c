/*-------------------------------------------------------------------------
 *
 * schedule_parallel_events.c
 *	  The leader in parallel mode: what the workers have done, the watch over
 *	  the head of the line, waiting.
 *
 * The commit counter is read before the scheduler is told of anything else:
 * no event comes in before the commits that it follows.
 *
 * Runs in:	the leader.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "apply/apply_state.h"
#include "commit/commit_turn.h"
#include "dispatch/dispatch_event.h"
#include "schedule/schedule_parallel_state.h"
#include "schedule/schedule_watch.h"
#include "server/server_subscription.h"

/* How often the views' numbers are written while groups go through. */
#define REPORT_INTERVAL_MS 20

/* How often we look whether the workers are alive. */
#define POOL_INTERVAL_MS 50

/* How often we ask what a group costs. */
#define PACE_GROUPS 16

/* Longest sleep while reading is stopped; the pool is looked after then. */
#define WAIT_MS 1000

/* ---------- commits ---------- */

/* Report, in order, what has become durable. */
static void
settle_undurable(PpaLeader *l)
{
	PpaParallel *p = l->parallel;

	while (!slist_is_empty(&p->undurable))
	{
		PpaUndurable *first = slist_head_element(PpaUndurable, node, &p->undurable);

		if (pg_atomic_read_u64(&p->shared->workers[first->worker].durable) < first->group)
			return;
		ppa_feedback_applied(l->feedback, first->end_lsn, first->local_lsn);
		slist_pop_head_node(&p->undurable);
		pfree(first);
	}
}

static void
hold_undurable(PpaParallel *p, const PpaOutGroup *g, XLogRecPtr local_lsn)
{
	PpaUndurable *u = MemoryContextAlloc(p->cxt, sizeof(PpaUndurable));

	*u = (PpaUndurable)
	{
		.group = g->number,
		.worker = g->worker,
		.end_lsn = g->end_lsn,
		.local_lsn = local_lsn
	};
	if (slist_is_empty(&p->undurable))
		slist_push_head(&p->undurable, &u->node);
	else
		slist_insert_after(p->last_undurable, &u->node);
	p->last_undurable = &u->node;
}

static void
retire_group(PpaLeader *l, PpaOutGroup *g)
{
	PpaParallel *p = l->parallel;
	XLogRecPtr	local_lsn = ppa_shared_group(p->shared, g->number)->local_lsn;

	if (ppa_subscription_wants_standbys() || !slist_is_empty(&p->undurable))
		hold_undurable(p, g, local_lsn);
	else
		ppa_feedback_applied(l->feedback, g->end_lsn, local_lsn);
	l->last_end = g->end_lsn;
	p->pool->workers[g->worker].committed = g->number;
	if (g->batch != NULL)
		ppa_parallel_release_batch(p, g->batch);
	for (int i = 0; i < g->nneeds; i++)
	{
		if (g->needs[i].message != NULL)
			pfree(g->needs[i].message);
	}
	if (g->error_cxt != NULL)
		MemoryContextDelete(g->error_cxt);
	g->batch = NULL;
	g->error = NULL;
	g->error_cxt = NULL;
	g->number = 0;
}

/*
 * Who makes a commit durable has time for no other group.  Told before the
 * commit itself, which could be followed by the next group for that worker.
 * Returns whether there was news.
 */
static bool
tell_flushing(PpaParallel *p, uint64 now)
{
	bool		at_once = ppa_subscription_flushes_at_once(p->shared);
	bool		told = false;

	for (int i = 0; i < p->pool->nworkers; i++)
	{
		PpaPoolWorker *worker = &p->pool->workers[i];
		PpaScheduleEvent event = {.type = PPA_EVENT_WORKER_FLUSHING,.worker = i,.now = now};

		event.waiting = at_once &&
			pg_atomic_read_u64(&p->shared->workers[i].durable) < worker->committed;
		if (event.waiting == worker->flushing)
			continue;
		worker->flushing = event.waiting;
		p->nflushing += event.waiting ? 1 : -1;
		ppa_schedule_step(p->schedule, &event);
		told = true;
	}
	return told;
}

/* What a group costs a worker, from time to time; 0: no news. */
static uint64
measure_pace(PpaParallel *p)
{
	uint64		busy = 0;
	uint64		attempts = 0;
	uint64		pace = 0;

	if (p->committed < p->pace_at)
		return 0;
	p->pace_at = p->committed + PACE_GROUPS;
	for (int i = 0; i < p->pool->nworkers; i++)
	{
		busy += pg_atomic_read_u64(&p->shared->workers[i].busy_us);
		attempts += pg_atomic_read_u64(&p->shared->workers[i].attempts);
	}
	/* less than before: a worker has been given back */
	if (attempts > p->pace_attempts && busy >= p->pace_busy)
		pace = Max(1, (busy - p->pace_busy) / (attempts - p->pace_attempts));
	p->pace_busy = busy;
	p->pace_attempts = attempts;
	return pace;
}

void
ppa_parallel_note_commits(PpaLeader *l)
{
	PpaParallel *p = l->parallel;
	uint64		committed = ppa_shared_committed(p->shared);
	PpaScheduleEvent event = {.type = PPA_EVENT_COMMITTED,.group = committed};
	bool		moved = p->committed < committed;

	settle_undurable(l);
	if (!moved && p->nflushing == 0)
		return;
	pg_read_barrier();
	while (p->committed < committed)
		retire_group(l, ppa_out_group(p, ++p->committed));
	settle_undurable(l);
	event.now = ppa_parallel_now();
	if (!tell_flushing(p, event.now) && !moved)
		return;
	if (moved)
	{
		l->last_active = event.now;
		event.pace_us = measure_pace(p);
	}
	ppa_schedule_step(p->schedule, &event);
	ppa_parallel_act(l);
}

void
ppa_parallel_tell(PpaLeader *l, PpaScheduleEvent *event)
{
	ppa_parallel_note_commits(l);
	event->now = ppa_parallel_now();
	ppa_schedule_step(l->parallel->schedule, event);
	ppa_parallel_act(l);
}

/* ---------- workers ---------- */

static void
keep_error(PpaParallel *p, PpaOutGroup *g, const char *message, Size len, PpaWorkerEvent *event)
{
	MemoryContext oldcxt;

	if (g->error_cxt != NULL)
		MemoryContextDelete(g->error_cxt);
	g->error_cxt = AllocSetContextCreate(p->cxt, "pg_parallel_apply error", ALLOCSET_SMALL_SIZES);
	oldcxt = MemoryContextSwitchTo(g->error_cxt);
	ppa_event_read(message, len, event, &g->error);
	MemoryContextSwitchTo(oldcxt);
}

static void
handle_worker_event(PpaLeader *l, const char *message, Size len)
{
	PpaParallel *p = l->parallel;
	PpaWorkerEvent we;
	PpaScheduleEvent event;
	PpaRelView *view;

	memcpy(&we, message, sizeof(we));
	event = (PpaScheduleEvent)
	{
		.type = we.type,
		.group = we.group,
		.progress = we.progress,
		.relation = we.relation,
		.reason = we.reason,
		.retained = we.retained
	};
	if (we.type == PPA_EVENT_FAILED)
	{
		PpaOutGroup *g = ppa_out_group(p, we.group);

		keep_error(p, g, message, len, &we);
		g->done = we.progress;
	}
	if (we.type == PPA_EVENT_FAILED && we.reason == PPA_FAILED_TRIGGERS)
	{
		view = ppa_relview_find(l->views, we.relation);
		if (view != NULL)
			ppa_relview_mark_triggers(view);
	}
	ppa_parallel_tell(l, &event);
}

static void
read_events(PpaLeader *l, int i)
{
	for (;;)
	{
		PpaPoolWorker *worker = &l->parallel->pool->workers[i];
		MemoryContext oldcxt;
		shm_mq_result result;
		void	   *data;
		Size		len;

		if (worker->events == NULL)
			return;
		oldcxt = MemoryContextSwitchTo(l->parallel->cxt);
		result = shm_mq_receive(worker->events, &len, &data, true);
		MemoryContextSwitchTo(oldcxt);
		if (result != SHM_MQ_SUCCESS)
			return;				/* if it is gone, the pool will say so */
		handle_worker_event(l, data, len);
	}
}

/* Which rollbacks that we have asked for are promised by now? */
static void
read_acknowledgements(PpaLeader *l)
{
	PpaParallel *p = l->parallel;

	for (int i = 0; i < p->naborts; i++)
	{
		PpaAbort   *order = &p->aborts[i];
		PpaSharedWorker *worker = &p->shared->workers[order->worker];
		PpaScheduleEvent event = {.type = PPA_EVENT_ROLLED_BACK};

		if (order->group == 0 ||
			(int32) (pg_atomic_read_u32(&worker->abort_ack) - order->seq) < 0)
			continue;
		pg_read_barrier();
		event.group = order->group;
		event.start_after = order->start_after;
		order->group = 0;
		ppa_parallel_tell(l, &event);
	}
}

static void
look_at_worker(PpaLeader *l, int i)
{
	PpaPool    *pool = l->parallel->pool;
	PpaPoolState before = pool->workers[i].state;
	PpaPoolState after = ppa_pool_check(pool, i);
	PpaScheduleEvent event = {.worker = i};

	if (before == after)
		return;
	switch (after)
	{
		case PPA_POOL_UP:
			event.type = PPA_EVENT_WORKER_STARTED;
			break;
		case PPA_POOL_DIED:
			event.type = PPA_EVENT_WORKER_DIED;
			break;
		default:
			event.type = before == PPA_POOL_LEAVING ?
				PPA_EVENT_WORKER_STOPPED : PPA_EVENT_WORKER_REFUSED;
			break;
	}
	ppa_parallel_tell(l, &event);
}

/*
 * Those that start or leave at every step; whether others are alive from time
 * to time: asking takes a lock of the postmaster's.
 */
static void
look_at_pool(PpaLeader *l)
{
	PpaParallel *p = l->parallel;
	TimestampTz now = GetCurrentTimestamp();
	bool		all = TimestampDifferenceExceeds(p->pool_seen_at, now, POOL_INTERVAL_MS);

	if (all)
		p->pool_seen_at = now;
	for (int i = 0; l->parallel == p && i < p->pool->nworkers; i++)
	{
		if (all || p->pool->workers[i].state != PPA_POOL_UP)
			look_at_worker(l, i);
	}
}

static void
look_at_workers(PpaLeader *l)
{
	PpaParallel *p = l->parallel;
	uint32		events = pg_atomic_read_u32(&p->shared->events);

	if (events != p->events_seen)
	{
		p->events_seen = events;
		pg_read_barrier();
		for (int i = 0; l->parallel == p && i < p->pool->nworkers; i++)
			read_events(l, i);
		if (l->parallel == p)
			read_acknowledgements(l);
	}
	if (l->parallel == p)
		look_at_pool(l);
	for (int i = 0; l->parallel == p && i < p->pool->nworkers; i++)
	{
		if (p->pool->workers[i].out.bytes > 0)
			(void) ppa_outbox_pump(&p->pool->workers[i].out);
	}
}

/* ---------- the head of the line ---------- */

static void
look_at_head(PpaLeader *l)
{
	PpaParallel *p = l->parallel;
	uint64		head = ppa_schedule_head(p->schedule);
	int			i = ppa_schedule_worker_of(p->schedule, head);
	PpaScheduleEvent event = {.type = PPA_EVENT_HEAD_SEEN,.group = head};
	PpaSharedWorker *worker;

	if (i >= 0)
	{
		worker = &p->shared->workers[i];
		event.waiting = pg_atomic_read_u64(&worker->running) == head && ppa_watch_waits(worker);
		event.progress = pg_atomic_read_u64(&worker->progress);
		if (event.waiting)
		{
			PpaScheduleEvent blocked = {.type = PPA_EVENT_HEAD_BLOCKED,.group = head};

			MemoryContextSwitchTo(p->scratch_cxt);
			blocked.by = ppa_watch_blocker(p->shared, worker, head);
			MemoryContextSwitchTo(l->cxt);
			MemoryContextReset(p->scratch_cxt);
			if (blocked.by != 0)
				ppa_parallel_tell(l, &blocked);
		}
	}
	ppa_parallel_tell(l, &event);
}

/* ---------- the step ---------- */

void
ppa_parallel_report(PpaLeader *l)
{
	PpaParallel *p = l->parallel;
	PpaScheduleStats stats;
	uint64		bytes = 0;

	if (l->slot == NULL)
		return;
	stats = ppa_schedule_stats(p->schedule);
	ppa_report_schedule(l->slot, &stats);
	for (uint64 n = p->committed + 1; n <= p->newest; n++)
		bytes += ppa_out_group(p, n)->bytes;
	pg_atomic_write_u64(&l->slot->queued_bytes, bytes);
	pg_atomic_write_u64(&l->slot->flushed_lsn, ppa_feedback_flushed_lsn(l->feedback));
	if (!ppa_parallel_in_flight(l))
		return;
	pg_atomic_write_u64(&l->slot->oldest_pending, ppa_out_group(p, p->committed + 1)->commit_time);
	ppa_leader_set_state(l, PPA_SUB_APPLYING);
}

void
ppa_parallel_step(PpaLeader *l)
{
	PpaParallel *p = l->parallel;
	TimestampTz now;

	ppa_parallel_note_commits(l);
	look_at_workers(l);
	if (l->parallel != p)
		return;
	now = GetCurrentTimestamp();
	if ((uint64) now >= ppa_schedule_look_at(p->schedule))
		look_at_head(l);
	if (TimestampDifferenceExceeds(p->reported_at, now, REPORT_INTERVAL_MS))
	{
		p->reported_at = now;
		ppa_parallel_report(l);
	}
	ppa_parallel_resume(l);
}

/* ---------- waiting ---------- */

/* How long may we sleep before the head of the line is to be looked at? */
static long
limit_sleep(PpaParallel *p, long timeout)
{
	uint64		look_at = ppa_schedule_look_at(p->schedule);
	uint64		now = ppa_parallel_now();

	if (look_at == PPA_SCHEDULE_NEVER)
		return timeout;
	return look_at <= now ? 0 : Min(timeout, (long) ((look_at - now) / 1000) + 1);
}

/* What is to be done while reading is stopped, though no input calls for it. */
static void
look_after_connection(PpaLeader *l)
{
	PpaScheduleEvent tick = {.type = PPA_EVENT_TICK};

	ppa_feedback_send(l->feedback, l->sync_standby ? PPA_FEEDBACK_NOW : PPA_FEEDBACK_RELAXED,
					  true, false);
	if (!ppa_tick_due)
		return;
	ppa_tick_due = false;
	ppa_leader_notice(l);
	ppa_feedback_still_alive(l->feedback);
	ppa_parallel_tell(l, &tick);
}

/*
 * Not at every commit: while a quarter of what is queued is applied, all
 * workers have something to do.
 */
static uint64
worth_waking(const PpaLeader *l, bool for_all)
{
	const PpaParallel *p = l->parallel;

	if (p->newest == p->committed)
		return 0;				/* a worker that makes a commit durable wakes us in any case */
	if (for_all)
		return p->newest;
	if (l->sync_standby)
		return p->committed + 1;
	return p->drain != 0 ? p->newest : p->committed + Max(1, (p->newest - p->committed) / 4);
}

void
ppa_parallel_wait(PpaLeader *l, bool for_all)
{
	PpaParallel *p = l->parallel;

	ppa_parallel_step(l);
	if (l->parallel != p || (!for_all && ppa_parallel_can_read(l)) ||
		(for_all && !ppa_parallel_in_flight(l)))
		return;
	look_after_connection(l);
	if (l->parallel != p)
		return;
	ppa_turn_sleep(p->shared, &p->shared->leader_waits_for,
				   worth_waking(l, for_all), limit_sleep(p, WAIT_MS));
	CHECK_FOR_INTERRUPTS();
	/* not reading is no silence of the publisher's */
	l->last_active = GetCurrentTimestamp();
}

long
ppa_parallel_before_sleep(PpaLeader *l, long timeout)
{
	PpaParallel *p = l->parallel;
	PpaScheduleEvent tick = {.type = PPA_EVENT_TICK};

	if (p == NULL)
		return timeout;
	ppa_parallel_tell(l, &tick);
	if (l->parallel != p)
		return 0;
	if (!ppa_parallel_in_flight(l))
	{
		/* a worker that makes its commit durable wakes us in any case */
		pg_atomic_write_u64(&p->shared->leader_waits_for, 0);
		ppa_parallel_report(l);
		return timeout;
	}
	/* somebody on the publisher waits for each commit; else for all of them is enough */
	pg_atomic_write_u64(&p->shared->leader_waits_for,
						l->sync_standby ? p->committed + 1 : p->newest);
	pg_memory_barrier();
	if (ppa_shared_is_reached(&p->shared->leader_waits_for, ppa_shared_committed(p->shared)))
		return 0;
	return limit_sleep(p, timeout);
}
