/*-------------------------------------------------------------------------
 *
 * schedule_parallel_act.c
 *	  The leader in parallel mode: what the workers are given and told.
 *
 * What belongs to a place in the stream of a worker travels in its queue;
 * orders about a group go through shared memory, past the queue, so that they
 * arrive while the worker waits.
 *
 * Runs in:	the leader.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "schedule/schedule_parallel_state.h"
#include "server/server_compat.h"

/* A large transaction is begun anew so often for errors that may pass. */
#define MOST_RESTARTS 5

/* Log at most so often that there are too few background workers. */
#define COMPLAIN_INTERVAL_MS (3600 * 1000)

static bool
is_known(const PpaRelView *view, int worker)
{
	return (view->known[worker / 64] >> (worker % 64)) & 1;
}

static void
send_relation(PpaParallel *p, int worker, const char *message, int len)
{
	PpaQueueHeader header = {.type = PPA_QUEUE_RELATION};

	ppa_outbox_put(&p->pool->workers[worker].out, &header, NULL, message, len, true);
}

/* The descriptions that the worker lacks for the group, as far as it is known. */
static void
send_needs(PpaParallel *p, PpaOutGroup *g, int worker)
{
	for (; g->needs_sent < g->nneeds; g->needs_sent++)
	{
		PpaNeed    *need = &g->needs[g->needs_sent];

		/* the new one stands in the group itself */
		if (need->message != NULL)
			send_relation(p, worker, need->message, need->len);
		else if (!is_known(need->view, worker))
			send_relation(p, worker, need->view->message, need->view->message_len);
		need->view->known[worker / 64] |= UINT64CONST(1) << (worker % 64);
	}
}

static void
prepare_shared(PpaParallel *p, uint64 number, uint64 start_after)
{
	PpaSharedGroup *shared = ppa_shared_group(p->shared, number);

	shared->local_lsn = InvalidXLogRecPtr;
	shared->retry_alone = false;
	shared->retry_delay_ms = 0;
	pg_atomic_write_u32(&shared->retries, 0);
	pg_atomic_write_u64(&shared->start_after, start_after);
	pg_write_barrier();
}

/* The complete group, its messages where they are. */
static void
send_group(PpaParallel *p, const PpaOutGroup *g, const PpaScheduleAction *action)
{
	PpaQueueHeader header = {
		.group = g->number,
		.nmembers = g->batch->nmembers,
		.done = g->done,
		.type = PPA_QUEUE_GROUP,
		.alone = action->alone,
		.moved = action->type == PPA_ACTION_MOVE
	};

	ppa_outbox_put(&p->pool->workers[action->worker].out, &header, g->batch->members,
				   g->batch->bytes.data, g->batch->bytes.len, false);
}

/* The group whose transaction is still arriving: what there is of it. */
static void
send_open(PpaLeader *l, PpaOutGroup *g, const PpaScheduleAction *action)
{
	PpaParallel *p = l->parallel;
	PpaQueueHeader header = {
		.group = g->number,
		.nmembers = 1,
		.type = PPA_QUEUE_OPEN,
		.alone = action->alone
	};

	ppa_outbox_put(&p->pool->workers[action->worker].out, &header, &l->batch->open,
				   l->batch->bytes.data, l->batch->bytes.len, true);
	ppa_batch_drop_bytes(l->batch);
	p->offered = 0;
	g->forwarded = true;
}

static void
give_group(PpaLeader *l, const PpaScheduleAction *action)
{
	PpaParallel *p = l->parallel;
	PpaOutGroup *g = ppa_out_group(p, action->group);

	prepare_shared(p, g->number, action->start_after);
	g->worker = action->worker;
	g->needs_sent = 0;
	send_needs(p, g, action->worker);
	if (XLogRecPtrIsInvalid(g->end_lsn))
	{
		send_open(l, g, action);
		return;
	}
	send_group(p, g, action);
	if (l->slot != NULL)
		pg_atomic_write_u64(&l->slot->dispatched_lsn, g->end_lsn);
}

void
ppa_parallel_send_data(PpaLeader *l, uint64 number, const char *bytes, Size len)
{
	PpaParallel *p = l->parallel;
	PpaOutGroup *g = ppa_out_group(p, number);
	PpaQueueHeader header = {.group = number,.type = PPA_QUEUE_DATA};

	send_needs(p, g, g->worker);
	ppa_outbox_put(&p->pool->workers[g->worker].out, &header, NULL, bytes, len, true);
}

void
ppa_parallel_send_close(PpaLeader *l, uint64 number, const PpaMember *member)
{
	PpaOutGroup *g = ppa_out_group(l->parallel, number);
	PpaQueueHeader header = {.group = number,.nmembers = 1,.type = PPA_QUEUE_CLOSE};

	ppa_outbox_put(&l->parallel->pool->workers[g->worker].out, &header, member, NULL, 0, true);
	if (l->slot != NULL)
		pg_atomic_write_u64(&l->slot->dispatched_lsn, g->end_lsn);
}

/* The group's place among the orders, or a free one: there are as many as groups. */
static PpaAbort *
find_order(PpaParallel *p, uint64 group)
{
	PpaAbort   *unused = NULL;

	for (int i = 0; i < p->naborts; i++)
	{
		if (p->aborts[i].group == group)
			return &p->aborts[i];
		if (p->aborts[i].group == 0)
			unused = &p->aborts[i];
	}
	Assert(unused != NULL);
	return unused;
}

/* Ask for a rollback, and remember whom. */
static void
abort_group(PpaParallel *p, const PpaScheduleAction *action)
{
	PpaSharedWorker *worker = &p->shared->workers[action->worker];
	uint32		seq = pg_atomic_read_u32(&worker->abort_seq) + 1;

	pg_atomic_write_u64(&ppa_shared_group(p->shared, action->group)->start_after,
						action->start_after);
	pg_write_barrier();
	pg_atomic_write_u32(&worker->abort_seq, seq);
	*find_order(p, action->group) = (PpaAbort)
	{
		.group = action->group,
		.start_after = action->start_after,
		.worker = action->worker,
		.seq = seq
	};
	/* pairs with the barrier of a worker that announces what it runs */
	pg_memory_barrier();
	ppa_pool_wake(p->pool, action->worker,
				  pg_atomic_read_u64(&worker->running) == action->group);
}

static void
retry_group(PpaParallel *p, const PpaScheduleAction *action)
{
	PpaSharedGroup *shared = ppa_shared_group(p->shared, action->group);

	pg_atomic_write_u64(&shared->start_after, action->start_after);
	shared->retry_alone = action->alone;
	shared->retry_delay_ms = action->delay_us / 1000;
	pg_write_barrier();
	pg_atomic_write_u32(&shared->retries, pg_atomic_read_u32(&shared->retries) + 1);
	ppa_pool_wake(p->pool, action->worker, false);
}

static void
unretain(PpaParallel *p, const PpaScheduleAction *action)
{
	PpaQueueHeader header = {.group = action->group,.type = PPA_QUEUE_UNRETAIN};

	ppa_outbox_put(&p->pool->workers[action->worker].out, &header, NULL, NULL, 0, true);
}

void
ppa_parallel_complain(PpaLeader *l, const char *how)
{
	TimestampTz now = GetCurrentTimestamp();

	if (!TimestampDifferenceExceeds(l->complained_at, now, COMPLAIN_INTERVAL_MS))
		return;
	l->complained_at = now;
	ereport(LOG,
			(errmsg("pg_parallel_apply applies subscription \"%s\" %s: no background worker is free",
					MySubscription->name, how),
			 errhint("Raise max_worker_processes.")));
}

static void
start_worker(PpaLeader *l, int i)
{
	PpaParallel *p = l->parallel;
	PpaScheduleEvent event = {.type = PPA_EVENT_WORKER_REFUSED,.worker = i};

	for (PpaRelView *view = ppa_relviews_first(l->views); view != NULL; view = view->next)
		view->known[i / 64] &= ~(UINT64CONST(1) << (i % 64));
	if (ppa_pool_start(p->pool, i))
		return;
	if (i > 0)
		ppa_parallel_complain(l, "with fewer workers than pg_parallel_apply.workers");
	event.now = ppa_parallel_now();
	ppa_schedule_step(p->schedule, &event);
}

/* The error is the subscription's: thrown here, logged and counted once by the server. */
static void
throw_verdict(PpaLeader *l, uint64 group)
{
	PpaOutGroup *g = ppa_out_group(l->parallel, group);

	Assert(g->error != NULL);
	ThrowErrorData(g->error);
}

/*
 * A large transaction was interrupted by an error that may pass, with nothing
 * kept to retry it from.  If it is so time and again, it does not pass.
 */
static void
count_restart(PpaLeader *l, uint64 group)
{
	if (l->slot == NULL || ppa_out_group(l->parallel, group)->error == NULL)
		return;
	if (l->slot->restart_lsn != l->last_end)
		l->slot->restarts = 0;
	l->slot->restart_lsn = l->last_end;
	if (++l->slot->restarts > MOST_RESTARTS)
		throw_verdict(l, group);
}

/* End, to begin again from where the origin is. */
static void
stop_all(PpaStopReason reason)
{
	ereport(LOG,
			(errmsg("logical replication apply worker for subscription \"%s\" will restart because %s",
					MySubscription->name,
					reason == PPA_STOP_WORKER_DIED ?
					"a pg_parallel_apply worker has ended" :
					"a large transaction was interrupted")));
	proc_exit(0);
}

void
ppa_parallel_act(PpaLeader *l)
{
	PpaScheduleAction action;

	while (l->parallel != NULL && ppa_schedule_next_action(l->parallel->schedule, &action))
	{
		PpaParallel *p = l->parallel;

		switch (action.type)
		{
			case PPA_ACTION_START_WORKER:
				start_worker(l, action.worker);
				break;
			case PPA_ACTION_STOP_WORKER:
				ppa_pool_leave(p->pool, action.worker);
				break;
			case PPA_ACTION_MOVE:
				/* the descriptions that it needs may be gone by now */
				if (p->renewed_by > action.group)
					stop_all(PPA_STOP_NOT_RETAINED);
				give_group(l, &action);
				break;
			case PPA_ACTION_DISPATCH:
				give_group(l, &action);
				break;
			case PPA_ACTION_ABORT:
				abort_group(p, &action);
				break;
			case PPA_ACTION_RETRY:
				retry_group(p, &action);
				break;
			case PPA_ACTION_UNRETAIN:
				unretain(p, &action);
				break;
			case PPA_ACTION_STOP_READING:
			case PPA_ACTION_RESUME_READING:
				break;			/* ppa_parallel_can_read() asks */
			case PPA_ACTION_VERDICT:
				throw_verdict(l, action.group);
				break;
			case PPA_ACTION_STOP_ALL:
				if (action.stop == PPA_STOP_NOT_RETAINED)
					count_restart(l, action.group);
				stop_all(action.stop);
				break;
			case PPA_ACTION_SERIAL:
				ppa_parallel_fall_back(l);
				break;
		}
	}
}
