/*-------------------------------------------------------------------------
 *
 * dispatch_pool.c
 *	  The apply workers of a subscription, and the memory shared with them.
 *
 * Owns:	the dynamic shared memory segment, its layout, the background
 *			workers.
 * Runs in:	the leader; ppa_pool_attach() and _tell() in the apply workers.
 * Memory:	one context under the caller's; the segment lives until the last
 *			process has left it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "access/xlog.h"
#include "catalog/pg_subscription.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "replication/walreceiver.h"
#include "storage/ipc.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "dispatch/dispatch_pool.h"
#include "server/server_compat.h"

/*
 * Enough for a few groups of the default size; more waits in the outbox.
 */
#define QUEUE_SIZE (256 * 1024)

/* An error message fits in; a worker may wait until the leader has read. */
#define EVENT_SIZE (32 * 1024)

/* How long a worker may take to end by itself, and how often it is interrupted meanwhile. */
#define STOP_PATIENCE_MS 1000
#define STOP_REPEAT_MS 20

static Size
fixed_size(int nworkers, int ngroups)
{
	return MAXALIGN(offsetof(PpaShared, workers) + sizeof(PpaSharedWorker) * nworkers) +
		MAXALIGN(sizeof(PpaSharedGroup) * ngroups);
}

/* The queues of worker i. */
static shm_mq *
queue_of(PpaShared *shared, int i)
{
	return (shm_mq *) ((char *) shared + fixed_size(shared->nworkers, shared->ngroups) +
					   (Size) i * (shared->queue_size + shared->event_size));
}

static shm_mq *
events_of(PpaShared *shared, int i)
{
	return (shm_mq *) ((char *) queue_of(shared, i) + shared->queue_size);
}

static void
init_worker(PpaSharedWorker *worker)
{
	worker->proc = NULL;
	pg_atomic_init_u32(&worker->attached, 0);
	pg_atomic_init_u64(&worker->waits_for, 0);
	pg_atomic_init_u64(&worker->running, 0);
	pg_atomic_init_u64(&worker->progress, 0);
	pg_atomic_init_u64(&worker->busy_us, 0);
	pg_atomic_init_u64(&worker->attempts, 0);
	pg_atomic_init_u64(&worker->durable, 0);
	pg_atomic_init_u32(&worker->abort_seq, 0);
	pg_atomic_init_u32(&worker->abort_ack, 0);
	pg_atomic_init_u32(&worker->leave, 0);
}

static void
init_shared(PpaShared *shared, int nworkers, int ngroups)
{
	memset(shared, 0, fixed_size(nworkers, ngroups));
	shared->subid = MySubscription->oid;
	shared->dbid = MySubscription->dbid;
	shared->owner = MySubscription->owner;
	shared->leader = MyProc;
	shared->nworkers = nworkers;
	shared->ngroups = ngroups;
	shared->queue_size = QUEUE_SIZE;
	shared->event_size = EVENT_SIZE;
	pg_atomic_init_u32(&shared->stop, 0);
	pg_atomic_init_u32(&shared->events, 0);
	pg_atomic_init_u64(&shared->committed, 0);
	pg_atomic_init_u64(&shared->leader_waits_for, 0);
	for (int i = 0; i < nworkers; i++)
		init_worker(&shared->workers[i]);
	for (int i = 0; i < ngroups; i++)
	{
		PpaSharedGroup *group = ppa_shared_group(shared, i);

		pg_atomic_init_u64(&group->start_after, 0);
		pg_atomic_init_u32(&group->retries, 0);
	}
}

PpaPool *
ppa_pool_create(MemoryContext parent, int nworkers, int ngroups)
{
	MemoryContext cxt = AllocSetContextCreate(parent, "pg_parallel_apply pool",
											  ALLOCSET_DEFAULT_SIZES);
	PpaPool    *pool = MemoryContextAllocZero(cxt, sizeof(PpaPool));

	Assert(!IsTransactionState());
	pool->cxt = cxt;
	pool->nworkers = nworkers;
	pool->workers = MemoryContextAllocZero(cxt, sizeof(PpaPoolWorker) * nworkers);
	pool->segment = dsm_create(fixed_size(nworkers, ngroups) +
							   (Size) nworkers * (QUEUE_SIZE + EVENT_SIZE), 0);
	pool->shared = dsm_segment_address(pool->segment);
	init_shared(pool->shared, nworkers, ngroups);
	return pool;
}

/* New queues in place of those of the worker before. */
static void
attach_queues(PpaPool *pool, int i)
{
	PpaPoolWorker *worker = &pool->workers[i];
	MemoryContext oldcxt = MemoryContextSwitchTo(pool->cxt);
	shm_mq	   *queue = shm_mq_create(queue_of(pool->shared, i), QUEUE_SIZE);
	shm_mq	   *events = shm_mq_create(events_of(pool->shared, i), EVENT_SIZE);

	shm_mq_set_sender(queue, MyProc);
	shm_mq_set_receiver(events, MyProc);
	ppa_outbox_init(&worker->out, pool->cxt, shm_mq_attach(queue, pool->segment, NULL));
	worker->events = shm_mq_attach(events, pool->segment, NULL);
	MemoryContextSwitchTo(oldcxt);
}

static void
detach_queues(PpaPoolWorker *worker)
{
	if (worker->events == NULL)
		return;
	shm_mq_detach(worker->out.queue);
	shm_mq_detach(worker->events);
	ppa_outbox_reset(&worker->out);
	worker->events = NULL;
}

bool
ppa_pool_start(PpaPool *pool, int i)
{
	PpaPoolWorker *worker = &pool->workers[i];
	BackgroundWorker bgw = {
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_RecoveryFinished,
		.bgw_restart_time = BGW_NEVER_RESTART,
		.bgw_main_arg = Int32GetDatum(i),
		.bgw_notify_pid = MyProcPid
	};
	dsm_handle	handle = dsm_segment_handle(pool->segment);
	MemoryContext oldcxt;
	bool		registered;

	Assert(worker->state == PPA_POOL_DOWN);
	strlcpy(bgw.bgw_library_name, "pg_parallel_apply", sizeof(bgw.bgw_library_name));
	strlcpy(bgw.bgw_function_name, "ppa_apply_worker_main", sizeof(bgw.bgw_function_name));
	snprintf(bgw.bgw_name, sizeof(bgw.bgw_name), "pg_parallel_apply worker %d for subscription %u",
			 i, pool->shared->subid);
	strlcpy(bgw.bgw_type, "pg_parallel_apply worker", sizeof(bgw.bgw_type));
	memcpy(bgw.bgw_extra, &handle, sizeof(handle));

	/* all of it before the worker may look */
	init_worker(&pool->shared->workers[i]);
	worker->committed = 0;
	attach_queues(pool, i);
	oldcxt = MemoryContextSwitchTo(pool->cxt);
	registered = RegisterDynamicBackgroundWorker(&bgw, &worker->handle);
	MemoryContextSwitchTo(oldcxt);
	if (!registered)
	{
		detach_queues(worker);
		return false;
	}
	worker->state = PPA_POOL_STARTING;
	return true;
}

static bool
is_gone(const PpaPoolWorker *worker)
{
	pid_t		pid;
	BgwHandleStatus status = GetBackgroundWorkerPid(worker->handle, &pid);

	return status == BGWH_STOPPED || status == BGWH_POSTMASTER_DIED;
}

PpaPoolState
ppa_pool_check(PpaPool *pool, int i)
{
	PpaPoolWorker *worker = &pool->workers[i];

	if (worker->state == PPA_POOL_DOWN || worker->state == PPA_POOL_DIED)
		return worker->state;
	if (is_gone(worker))
	{
		/* one that had attached before it ended may have committed something */
		bool		died = worker->state == PPA_POOL_UP ||
			(worker->state == PPA_POOL_STARTING &&
			 pg_atomic_read_u32(&pool->shared->workers[i].attached) != 0);

		detach_queues(worker);
		pfree(worker->handle);
		worker->handle = NULL;
		worker->state = died ? PPA_POOL_DIED : PPA_POOL_DOWN;
	}
	else if (worker->state == PPA_POOL_STARTING && pool->shared->workers[i].proc != NULL)
		worker->state = PPA_POOL_UP;
	return worker->state;
}

void
ppa_pool_leave(PpaPool *pool, int i)
{
	Assert(pool->workers[i].state == PPA_POOL_UP);
	pool->workers[i].state = PPA_POOL_LEAVING;
	pg_atomic_write_u32(&pool->shared->workers[i].leave, 1);
	ppa_pool_wake(pool, i, false);
}

void
ppa_pool_wake(PpaPool *pool, int i, bool interrupt)
{
	PGPROC	   *proc = pool->shared->workers[i].proc;
	pid_t		pid;

	if (proc == NULL)
		return;
	pid = proc->pid;
	SetLatch(&proc->procLatch);
	if (interrupt && pid != 0)
		kill(pid, SIGINT);
}

void
ppa_pool_stop(PpaPool *pool)
{
	TimestampTz give_up = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), STOP_PATIENCE_MS);

	pg_atomic_write_u32(&pool->shared->stop, 1);
	pg_memory_barrier();
	for (;;)
	{
		bool		all_gone = true;
		bool		terminate = GetCurrentTimestamp() > give_up;

		for (int i = 0; i < pool->nworkers; i++)
		{
			PpaPoolWorker *worker = &pool->workers[i];

			if (worker->handle == NULL || is_gone(worker))
				continue;
			all_gone = false;
			if (terminate)
				TerminateBackgroundWorker(worker->handle);
			else
				ppa_pool_wake(pool, i, true);
		}
		if (all_gone)
			break;
		/* the postmaster tells us when one has ended */
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 STOP_REPEAT_MS, WAIT_EVENT_BGWORKER_SHUTDOWN);
		ResetLatch(MyLatch);
	}
	for (int i = 0; i < pool->nworkers; i++)
		pool->workers[i].state = PPA_POOL_DOWN;
}

void
ppa_pool_destroy(PpaPool *pool)
{
	for (int i = 0; i < pool->nworkers; i++)
		detach_queues(&pool->workers[i]);
	dsm_detach(pool->segment);
	MemoryContextDelete(pool->cxt);
}

PpaPoolMember *
ppa_pool_attach(Datum main_arg)
{
	PpaPoolMember *member = palloc0(sizeof(PpaPoolMember));
	int			i = DatumGetInt32(main_arg);
	dsm_handle	handle;
	shm_mq	   *queue;
	shm_mq	   *events;

	memcpy(&handle, MyBgworkerEntry->bgw_extra, sizeof(handle));
	member->segment = dsm_attach(handle);
	if (member->segment == NULL)
		return NULL;
	member->number = i;
	member->shared = dsm_segment_address(member->segment);
	member->mine = &member->shared->workers[i];
	queue = queue_of(member->shared, i);
	events = events_of(member->shared, i);
	shm_mq_set_receiver(queue, MyProc);
	shm_mq_set_sender(events, MyProc);
	member->queue = shm_mq_attach(queue, member->segment, NULL);
	member->events = shm_mq_attach(events, member->segment, NULL);
	return member;
}

/* The server gives our PGPROC to somebody else after this. */
static void
exit_callback(int code, Datum arg)
{
	PpaSharedWorker *mine = (PpaSharedWorker *) DatumGetPointer(arg);

	mine->proc = NULL;
	pg_atomic_write_u64(&mine->running, 0);
}

void
ppa_pool_ready(PpaPoolMember *member)
{
	before_shmem_exit(exit_callback, PointerGetDatum(member->mine));
	pg_atomic_write_u32(&member->mine->attached, 1);
	pg_write_barrier();
	member->mine->proc = MyProc;
	SetLatch(&member->shared->leader->procLatch);
}

bool
ppa_pool_tell(PpaPoolMember *member, const char *message, Size len)
{
	for (;;)
	{
		/* Not waiting in there: an interrupt would leave half a message. */
		shm_mq_result result = shm_mq_send(member->events, len, message, true, true);

		pg_atomic_fetch_add_u32(&member->shared->events, 1);
		SetLatch(&member->shared->leader->procLatch);
		if (result != SHM_MQ_WOULD_BLOCK)
			return result == SHM_MQ_SUCCESS;
		if (ProcDiePending || pg_atomic_read_u32(&member->shared->stop) != 0)
			return false;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH, -1, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
}
