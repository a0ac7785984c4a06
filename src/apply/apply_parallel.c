/*-------------------------------------------------------------------------
 *
 * apply_parallel.c
 *	  An apply worker of parallel apply: the process, and what goes wrong in it.
 *
 * Owns:	what happens to an error.
 * Runs in:	the apply workers.
 * Memory:	one context for the process.
 *
 * The worker executes the group with the lowest number that it has, ahead of
 * the commit order, waiting in place where a change needs an earlier group.
 * It commits when it is its turn.  Whatever goes wrong before that is undone
 * and told to the leader, which says when to begin again.  The rules are those
 * of core/core_schedule.h, "What a worker does by itself".
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"

#include "apply/apply_parallel.h"
#include "apply/apply_parallel_state.h"
#include "commit/commit_origin.h"
#include "commit/commit_turn.h"
#include "dispatch/dispatch_event.h"
#include "server/server_compat.h"
#include "server/server_errctx.h"
#include "server/server_subscription.h"

/* Attempts of a group that end with a cancel that nobody has ordered, before it counts. */
#define MOST_CANCELS 3

/* A worker without a group is idle for the views after that, and reports its statistics. */
#define IDLE_AFTER_MS 20
#define IDLE_REPORT_MS 1000

static PpaProcess process;

/* ---------- errors ---------- */

static PpaFailure
classify(int sqlerrcode)
{
	switch (sqlerrcode)
	{
		case PPA_ERRCODE_REGROUP:
			return PPA_FAILED_TRIGGERS;
		case ERRCODE_UNIQUE_VIOLATION:
		case ERRCODE_EXCLUSION_VIOLATION:
			return PPA_FAILED_UNIQUE;
		case ERRCODE_T_R_DEADLOCK_DETECTED:
		case ERRCODE_T_R_SERIALIZATION_FAILURE:
		case ERRCODE_QUERY_CANCELED:
			return PPA_FAILED_DEADLOCK;
		case ERRCODE_LOCK_NOT_AVAILABLE:
			return PPA_FAILED_LOCK_TIMEOUT;
		default:
			return PPA_FAILED_OTHER;
	}
}

static void
tell_failed(PpaProcess *p, PpaHeldGroup *g, const ErrorData *edata, uint32 relation)
{
	PpaWorkerEvent event = {
		.type = PPA_EVENT_FAILED,
		.group = g->number,
		.relation = relation,
		.reason = classify(edata->sqlerrcode),
		.retained = !g->unretained,
		.progress = g->done
	};

	g->failed = true;
	if (event.reason == PPA_FAILED_TRIGGERS && p->pool->number != 0)
	{
		ppa_held_keep_relations(p, g);
		ppa_held_drop(p, g);
	}
	ppa_event_write(&p->event, &event, edata);
	(void) ppa_pool_tell(p->pool, p->event.data, p->event.len);
}

/*
 * Is it a failure, or has the group to begin again?  A cancel that is not
 * meant for this group, or not any more, is no reason to fail; but a function
 * of the user's may throw that error, too, each time.
 */
static bool
is_failure(PpaProcess *p, PpaHeldGroup *g, int sqlerrcode)
{
	if (g->unretained)
		return true;
	if (sqlerrcode == PPA_ERRCODE_GIVE_WAY)
		return false;
	if (sqlerrcode != ERRCODE_QUERY_CANCELED)
		return true;
	if (ppa_place_start_after(p, g) > ppa_shared_committed(p->shared))
		return false;
	return ++g->cancels > MOST_CANCELS;
}

/*
 * In PG_CATCH: undo the attempt; begin again later, or let the leader decide.
 * But once the group has committed and has been dropped there is none to begin
 * again or to decide about: then this process ends, and the leader finds out.
 */
static void
handle_error(PpaProcess *p, PpaHeldGroup *g)
{
	uint32		relation = ppa_errctx.rel != NULL ? ppa_errctx.rel->relid : 0;
	ErrorData  *edata;

	if (g->number == 0)
		PG_RE_THROW();
	MemoryContextSwitchTo(p->cxt);
	edata = CopyErrorData();
	FlushErrorState();
	ppa_local_rollback(p->w);
	QueryCancelPending = false;
	pg_atomic_write_u64(&p->mine->running, 0);
	p->current = NULL;
	if (ppa_place_is_stopping(p))
		proc_exit(0);

	elog(DEBUG1, "pg_parallel_apply group " UINT64_FORMAT " is rolled back: %s", g->number,
		 edata->message);
	if (is_failure(p, g, edata->sqlerrcode))
		tell_failed(p, g, edata, relation);
	FreeErrorData(edata);
}

/* An attempt that has begun at "begin" is over: what has it cost us? */
static void
count_work(PpaProcess *p, TimestampTz begin)
{
	TimestampTz work = GetCurrentTimestamp() - begin - p->slept;

	pg_atomic_write_u64(&p->mine->busy_us, pg_atomic_read_u64(&p->mine->busy_us) + Max(work, 0));
	pg_atomic_write_u64(&p->mine->attempts, pg_atomic_read_u64(&p->mine->attempts) + 1);
}

static void
attempt(PpaProcess *p, PpaHeldGroup *g)
{
	bool		again = g->retries_seen > 0;
	TimestampTz begin = GetCurrentTimestamp();

	if (p->idle > 0)
		pgstat_report_activity(STATE_RUNNING, NULL);
	p->idle = 0;
	p->slept = 0;
	p->current = g;
	p->w->alone = g->alone;
	p->w->row_by_row = again;
	LockTimeout = again && g->alone ? p->lock_timeout : 0;
	if (again)
		ppa_report_worker_replay(p->report);
	ppa_report_worker_group(p->report, g->number);
	ppa_report_worker_state(p->report, PPA_WORKER_EXECUTING);
	AcceptInvalidationMessages();
	ppa_subscription_reread();

	/* announced first: the leader interrupts us only for the group that it sees here */
	pg_atomic_write_u64(&p->mine->running, g->number);
	pg_memory_barrier();
	if (!g->complete)
		SetLatch(&p->shared->leader->procLatch);	/* it may have stopped sending */

	PG_TRY();
	{
		if (again)
			ppa_run_one_by_one(p, g);
		else
			ppa_run_together(p, g);
	}
	PG_CATCH();
	{
		handle_error(p, g);
	}
	PG_END_TRY();
	count_work(p, begin);
}

/* ---------- the process ---------- */

void
ppa_process_reload(PpaProcess *p)
{
	if (!ConfigReloadPending)
		return;
	ConfigReloadPending = false;
	LockTimeout = p->lock_timeout;
	ProcessConfigFile(PGC_SIGHUP);
	p->lock_timeout = LockTimeout;
}

/*
 * No group: wait for one.  Between two groups nothing is reported; after a
 * while that we are idle, and after a longer one what we have done.
 */
static void
wait_for_group(PpaProcess *p)
{
	static const long patience_ms[] = {IDLE_AFTER_MS, IDLE_REPORT_MS, -1};

	ppa_run_flush_owed(p);
	ppa_report_worker_group(p->report, 0);
	ppa_report_worker_wait(p->report, PPA_WAIT_QUEUE, 0);
	if (ppa_turn_sleep(p->shared, &p->mine->waits_for, 0, patience_ms[p->idle]))
		return;
	if (p->idle == 0)
		pgstat_report_activity(STATE_IDLE, NULL);
	else
		pgstat_report_stat(true);
	p->idle++;
}

/* May the group begin?  If not, sleep a while. */
static bool
may_begin(PpaProcess *p, PpaHeldGroup *g)
{
	PpaSharedGroup *shared = ppa_shared_group(p->shared, g->number);
	uint64		after = ppa_place_start_after(p, g);

	ppa_report_worker_group(p->report, g->number);
	if (g->failed)
	{
		uint32		retries = pg_atomic_read_u32(&shared->retries);

		ppa_report_worker_wait(p->report, PPA_WAIT_RETRY, 0);
		if (retries == g->retries_seen)
		{
			ppa_turn_sleep(p->shared, &p->mine->waits_for, 0, -1);
			return false;
		}
		pg_read_barrier();
		g->retries_seen = retries;
		g->alone = shared->retry_alone;
		g->failed = false;
		g->not_before = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), shared->retry_delay_ms);
		return false;
	}
	if (g->not_before != 0)
	{
		/* whatever else this worker is told meanwhile */
		long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), g->not_before);

		if (left > 0)
		{
			ppa_report_worker_wait(p->report, PPA_WAIT_RETRY, 0);
			ppa_turn_sleep(p->shared, &p->mine->waits_for, 0, left);
			return false;
		}
		g->not_before = 0;
	}
	if (ppa_shared_committed(p->shared) >= after)
		return true;
	ppa_run_flush_owed(p);
	ppa_report_worker_wait(p->report, PPA_WAIT_START, after);
	ppa_turn_sleep(p->shared, &p->mine->waits_for, after, -1);
	return false;
}

static void
run(PpaProcess *p)
{
	for (;;)
	{
		PpaHeldGroup *g;

		if (ppa_place_is_stopping(p) || pg_atomic_read_u32(&p->mine->leave) != 0)
			proc_exit(0);
		/* meant for a group that this worker is not at any more */
		QueryCancelPending = false;
		CHECK_FOR_INTERRUPTS();
		ppa_process_reload(p);
		ppa_held_read(p);
		ppa_place_obey_outside(p);
		g = ppa_held_lowest(p);
		if (g == NULL)
			wait_for_group(p);
		else if (may_begin(p, g))
			attempt(p, g);
	}
}

/* As the built-in apply worker sets up its session. */
static void
connect_to_database(const PpaShared *shared)
{
	SetConfigOption("session_replication_role", "replica", PGC_SUSET, PGC_S_OVERRIDE);
	BackgroundWorkerInitializeConnectionByOid(shared->dbid, shared->owner, 0);
	SetConfigOption("search_path", "", PGC_SUSET, PGC_S_OVERRIDE);
	/* waits among our own workers are nobody's business */
	SetConfigOption("log_lock_waits", "off", PGC_SUSET, PGC_S_OVERRIDE);
}

static void
prepare(PpaProcess *p, Datum main_arg)
{
	p->cxt = AllocSetContextCreate(TopMemoryContext, "pg_parallel_apply", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(p->cxt);
	p->pool = ppa_pool_attach(main_arg);
	if (p->pool == NULL)
		proc_exit(0);
	p->idle = 1;				/* for pg_stat_activity it is */
	p->shared = p->pool->shared;
	p->groups = palloc0(sizeof(PpaHeldGroup) * p->shared->ngroups);
	p->mine = p->pool->mine;
	connect_to_database(p->shared);
	MemoryContextSwitchTo(p->cxt);
	initStringInfo(&p->event);
	p->lock_timeout = LockTimeout;
	if (ppa_place_is_stopping(p) || !ppa_subscription_follow(p->shared->subid))
		proc_exit(0);
	MemoryContextSwitchTo(p->cxt);

	p->report = ppa_report_worker_claim(MySubscription->oid, MySubscription->dbid,
										MySubscription->name, p->pool->number);
	p->w = ppa_worker_create(p->cxt, ppa_report_find(MySubscription->oid, false), NULL);
	ppa_place_order.arg = p;
	p->w->order = &ppa_place_order;
	p->w->report = p->report;
	/* what a trigger leaves in its session must be found by the next one */
	p->w->may_fire = p->pool->number == 0;
	snprintf(ppa_errctx.origin_name, sizeof(ppa_errctx.origin_name), "pg_%u", MySubscription->oid);
	ppa_origin_stamp(p->shared->origin);
}

void
ppa_apply_worker_main(Datum main_arg)
{
	PpaProcess *p = &process;
	ErrorContextCallback errcallback = {.callback = ppa_errctx_callback};

	/* The server's default would throw from inside of the signal handler. */
	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();

	errcallback.previous = error_context_stack;
	error_context_stack = &errcallback;
	PG_TRY();
	{
		prepare(p, main_arg);
		ppa_pool_ready(p->pool);
		run(p);
	}
	PG_CATCH();
	{
		/* interrupted in order to end, outside of a group: nothing to complain of */
		ppa_origin_drop();
		if (p->shared != NULL && ppa_place_is_stopping(p))
			proc_exit(0);
		PG_RE_THROW();
	}
	PG_END_TRY();
}
