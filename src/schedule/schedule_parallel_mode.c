/*-------------------------------------------------------------------------
 *
 * schedule_parallel_mode.c
 *	  The leader between serial and parallel mode.
 *
 * A change of mode needs a moment with nothing in flight.  What has been
 * received and belongs to no group yet is carried over, and so are the
 * descriptions of relations.  Without background workers or shared memory
 * there is no parallel mode, for a while.
 *
 * Runs in:	the leader.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "replication/origin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "commit/commit_origin.h"
#include "schedule/schedule_parallel_state.h"
#include "server/server_compat.h"
#include "server/server_guc.h"

/* Serial for lack of workers or memory: how long. */
#define FALL_BACK_MS 60000

/* What has been received and belongs to no group yet: know it as if it came now. */
static void
note_received(PpaLeader *l)
{
	PpaParallel *p = l->parallel;
	PpaBatch   *batch = l->batch;
	PpaBatchEntry entry;
	const char *message;

	Assert(batch->nmembers <= 1);
	for (int pos = 0; ppa_batch_next(batch, &pos, batch->bytes.len, &message, &entry);)
		ppa_parallel_note_message(l, message, entry.len);
	p->waits_to_join = batch->nmembers > 0;
	p->waits_to_forward = ppa_batch_open_bytes(batch) > p->config.retain_bytes;
	p->facts.bytes = batch->bytes.len;
}

static PpaDepsMode
deps_mode(void)
{
	switch (ppa_guc_debug_dependencies)
	{
		case PPA_DEBUG_DEPENDENCIES_NONE:
			return PPA_DEPS_NONE;
		case PPA_DEBUG_DEPENDENCIES_ALL:
			return PPA_DEPS_ALL;
		default:
			return PPA_DEPS_TABLE;
	}
}

/* Shared memory may be short, as on a small /dev/shm: then serial mode is as good as built in. */
static PpaPool *
try_create_pool(PpaLeader *l, MemoryContext cxt, int workers, int ngroups)
{
	PpaPool    *volatile pool = NULL;

	PG_TRY();
	{
		pool = ppa_pool_create(cxt, workers, ngroups);
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		MemoryContextSwitchTo(cxt);
		edata = CopyErrorData();
		FlushErrorState();
		l->parallel_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), FALL_BACK_MS);
		ereport(LOG,
				(errmsg("pg_parallel_apply applies subscription \"%s\" without workers: %s",
						MySubscription->name, edata->message),
				 errhint("Check dynamic_shared_memory_type and the space that it has.")));
		MemoryContextSwitchTo(l->cxt);
	}
	PG_END_TRY();
	return pool;
}

void
ppa_parallel_begin(PpaLeader *l, int workers)
{
	MemoryContext cxt = AllocSetContextCreate(l->cxt, "pg_parallel_apply parallel mode",
											  ALLOCSET_DEFAULT_SIZES);
	PpaParallel *p = MemoryContextAllocZero(cxt, sizeof(PpaParallel));

	Assert(l->parallel == NULL && !l->direct);
	p->cxt = cxt;
	p->scratch_cxt = AllocSetContextCreate(cxt, "pg_parallel_apply scratch", ALLOCSET_SMALL_SIZES);
	p->config = ppa_schedule_defaults(workers);
	p->config.deps_mode = deps_mode();
	p->ngroups = ppa_schedule_window(&p->config);
	p->schedule = ppa_schedule_init(MemoryContextAlloc(cxt, ppa_schedule_size(&p->config)),
									&p->config);
	p->groups = MemoryContextAllocZero(cxt, sizeof(PpaOutGroup) * p->ngroups);
	p->spare = MemoryContextAlloc(cxt, sizeof(PpaBatch *) * (p->ngroups + 1));
	p->naborts = p->ngroups;
	p->aborts = MemoryContextAllocZero(cxt, sizeof(PpaAbort) * p->naborts);
	p->change = MemoryContextAlloc(cxt, sizeof(PpaChange));
	slist_init(&p->undurable);
	p->pool = try_create_pool(l, cxt, workers, p->ngroups);
	if (p->pool == NULL)
	{
		MemoryContextDelete(cxt);
		return;
	}
	p->shared = p->pool->shared;
	p->shared->origin = ppa_origin_id();
	p->shared->progress = replorigin_get_progress(ppa_origin_id(), false);
	p->shared->flush_at_once = l->sync_standby;
	p->serial_batch = l->batch;
	l->parallel = p;
	l->batch = ppa_parallel_get_batch(p);
	ppa_batch_split(p->serial_batch, 0, l->batch);
	/* groups are numbered anew; what a worker knows is forgotten when it starts */
	for (PpaRelView *view = ppa_relviews_first(l->views); view != NULL; view = view->next)
		view->seen_in_group = 0;
	ppa_report_schedule_begin(l->slot);
	ppa_origin_lend();
	note_received(l);
}

/* The memory of parallel mode is given back; the workers are gone. */
static void
leave_parallel(PpaLeader *l)
{
	PpaParallel *p = l->parallel;

	ppa_parallel_report(l);
	if (l->slot != NULL)
	{
		pg_atomic_write_u32(&l->slot->workers_running, 0);
		pg_atomic_write_u32(&l->slot->queued_groups, 0);
		pg_atomic_write_u64(&l->slot->queued_bytes, 0);
		pg_atomic_write_u64(&l->slot->dispatched_lsn, 0);
	}
	ppa_batch_split(l->batch, 0, p->serial_batch);
	l->batch = p->serial_batch;
	l->parallel = NULL;
	ppa_pool_destroy(p->pool);
	ppa_origin_take_back();
	for (PpaRelView *view = ppa_relviews_first(l->views); view != NULL; view = view->next)
		ppa_worker_learn_relation(l->serial->w, view->message, view->message_len);
}

void
ppa_parallel_end(PpaLeader *l)
{
	PpaParallel *p = l->parallel;

	Assert(!ppa_parallel_in_flight(l) && p->forming.transactions == 0);
	ppa_pool_stop(p->pool);
	leave_parallel(l);
	MemoryContextDelete(p->cxt);
}

/* The serial applier reads the group with the descriptions that were valid at its start. */
static void
learn_needs(PpaLeader *l, const PpaOutGroup *g)
{
	for (int i = 0; i < g->nneeds; i++)
	{
		if (g->needs[i].message != NULL)
			ppa_worker_learn_relation(l->serial->w, g->needs[i].message, g->needs[i].len);
	}
}

/* Not one worker was ever to be had, so nothing has been given out. */
void
ppa_parallel_fall_back(PpaLeader *l)
{
	PpaParallel *p = l->parallel;
	PpaBatch   *closed = ppa_out_group(p, p->committed + 1)->batch;

	ppa_parallel_complain(l, "without workers");
	l->parallel_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), FALL_BACK_MS);
	ppa_pool_stop(p->pool);
	leave_parallel(l);
	/* also if it is one that is still arriving and has been carried over */
	learn_needs(l, ppa_out_group(p, p->committed + 1));
	if (closed != NULL)
		ppa_serial_apply_batch(l->serial, closed);
	MemoryContextDelete(p->cxt);
	ppa_serial_mode_push(l);
}

void
ppa_parallel_stop(PpaLeader *l)
{
	if (l->parallel == NULL)
		return;
	ppa_pool_stop(l->parallel->pool);
	ppa_parallel_report(l);
}
