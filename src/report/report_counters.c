/*-------------------------------------------------------------------------
 *
 * report_counters.c
 *	  What pg_parallel_apply shows of itself, in shared memory.
 *
 * Runs in:	the postmaster (startup), leaders and apply workers (write),
 *			backends (read).
 * Memory:	one fixed array, as many slots as there can be logical replication
 *			workers; report_workers.c has another.
 * Locks:	"ppa->lock" to claim a slot; a slot's spinlock for its texts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "replication/logicallauncher.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "report/report_counters.h"
#include "report/report_workers.h"

typedef struct PpaShared
{
	LWLock	   *lock;
	int			nslots;
	PpaSubSlot	slots[FLEXIBLE_ARRAY_MEMBER];
} PpaShared;

static PpaShared *ppa = NULL;
static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

/*
 * Subscriptions can be more than workers, as those that are disabled keep
 * their counters; the oldest of these give way.
 */
static int
slots_wanted(void)
{
	return Max(max_logical_replication_workers, 1) + 16;
}

static Size
shared_size(void)
{
	return add_size(offsetof(PpaShared, slots), mul_size(sizeof(PpaSubSlot), slots_wanted()));
}

static void
shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(shared_size());
	RequestAddinShmemSpace(ppa_report_workers_size());
	RequestNamedLWLockTranche("pg_parallel_apply", 1);
}

/* What is true only while there is a leader. */
static void
reset_present(PpaSubSlot *slot)
{
	pg_atomic_write_u32(&slot->state, PPA_SUB_DOWN);
	pg_atomic_write_u64(&slot->oldest_pending, 0);
	pg_atomic_write_u32(&slot->workers_wanted, 0);
	pg_atomic_write_u32(&slot->workers_running, 0);
	pg_atomic_write_u32(&slot->queued_groups, 0);
	pg_atomic_write_u64(&slot->queued_bytes, 0);
	pg_atomic_write_u32(&slot->pid, 0);
}

static void
init_numbers(PpaSubSlot *slot)
{
	pg_atomic_uint32 *present[] = {
		&slot->pid, &slot->state, &slot->workers_wanted, &slot->workers_running,
		&slot->queued_groups,
	};
	pg_atomic_uint64 *numbers[] = {
		&slot->oldest_pending, &slot->queued_bytes,
		&slot->received_lsn, &slot->dispatched_lsn, &slot->applied_lsn, &slot->flushed_lsn,
		&slot->groups, &slot->transactions, &slot->inserts, &slot->updates, &slot->deletes,
		&slot->truncates, &slot->multi_insert_rows, &slot->missing_rows, &slot->group_replays,
		&slot->turn_waits, &slot->errors, &slot->dependency_waits, &slot->ordered_changes,
		&slot->retries_missing, &slot->retries_unique, &slot->retries_deadlock,
		&slot->retries_other, &slot->groups_aborted, &slot->groups_alone, &slot->groups_large,
		&slot->relations_ordered, &slot->refused_workers,
	};

	for (int i = 0; i < lengthof(present); i++)
		pg_atomic_init_u32(present[i], 0);
	for (int i = 0; i < lengthof(numbers); i++)
		pg_atomic_init_u64(numbers[i], 0);
	pg_atomic_init_u32(&slot->state, PPA_SUB_DOWN);
}

/* All but the lock and the condition variable, which readers may be using. */
static void
reset_slot(PpaSubSlot *slot)
{
	SpinLockAcquire(&slot->mutex);
	slot->subid = InvalidOid;
	slot->last_error[0] = '\0';
	slot->last_error_sqlstate = 0;
	slot->last_error_time = 0;
	slot->hand_back = false;
	SpinLockRelease(&slot->mutex);
	init_numbers(slot);
}

static void
init_slot(PpaSubSlot *slot)
{
	memset(slot, 0, sizeof(*slot));
	SpinLockInit(&slot->mutex);
	pg_atomic_init_u32(&slot->waiters, 0);
	pg_atomic_init_u32(&slot->stops, 0);
	ConditionVariableInit(&slot->applied_cv);
	reset_slot(slot);
}

static void
shmem_startup(void)
{
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	ppa = ShmemInitStruct("pg_parallel_apply", shared_size(), &found);
	if (!found)
	{
		ppa->lock = &GetNamedLWLockTranche("pg_parallel_apply")->lock;
		ppa->nslots = slots_wanted();
		for (int i = 0; i < ppa->nslots; i++)
			init_slot(&ppa->slots[i]);
	}
	ppa_report_workers_startup();
	LWLockRelease(AddinShmemInitLock);
}

void
ppa_report_init(void)
{
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = shmem_startup;
}

void
ppa_report_require(void)
{
	if (ppa == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("pg_parallel_apply must be loaded via shared_preload_libraries"),
				 errhint("Add pg_parallel_apply to shared_preload_libraries and restart the server.")));
}

int
ppa_report_nslots(void)
{
	return ppa->nslots;
}

PpaSubSlot *
ppa_report_slot(int i)
{
	return &ppa->slots[i];
}

static void
release_slot(int code, Datum arg)
{
	PpaSubSlot *slot = (PpaSubSlot *) DatumGetPointer(arg);

	reset_present(slot);
	ConditionVariableBroadcast(&slot->applied_cv);
}

/* Its own slot, else a free one, else the one without a worker started longest ago. */
static PpaSubSlot *
choose_slot(Oid subid)
{
	PpaSubSlot *oldest = NULL;
	PpaSubSlot *unused = NULL;

	for (int i = 0; i < ppa->nslots; i++)
	{
		PpaSubSlot *slot = &ppa->slots[i];

		if (slot->subid == subid)
			return slot;
		if (!OidIsValid(slot->subid))
			unused = unused ? unused : slot;
		else if (pg_atomic_read_u32(&slot->pid) == 0 &&
				 pg_atomic_read_u32(&slot->waiters) == 0 &&
				 (oldest == NULL || slot->start_time < oldest->start_time))
			oldest = slot;
	}
	return unused ? unused : oldest;
}

PpaSubSlot *
ppa_report_claim(Oid subid, Oid dbid, const char *subname, PpaSubState state)
{
	PpaSubSlot *slot;

	LWLockAcquire(ppa->lock, LW_EXCLUSIVE);
	slot = choose_slot(subid);
	if (slot != NULL)
	{
		if (slot->subid != subid)
			reset_slot(slot);
		SpinLockAcquire(&slot->mutex);
		slot->subid = subid;
		slot->dbid = dbid;
		namestrcpy(&slot->subname, subname);
		slot->start_time = GetCurrentTimestamp();
		SpinLockRelease(&slot->mutex);
		reset_present(slot);
		pg_atomic_write_u64(&slot->dispatched_lsn, 0);
		ppa_report_schedule_begin(slot);
		pg_atomic_write_u32(&slot->state, state);
		pg_atomic_write_u32(&slot->pid, MyProcPid);
	}
	LWLockRelease(ppa->lock);

	if (slot != NULL)
		before_shmem_exit(release_slot, PointerGetDatum(slot));
	return slot;
}

PpaSubSlot *
ppa_report_find(Oid subid, bool wait)
{
	PpaSubSlot *result = NULL;

	LWLockAcquire(ppa->lock, LW_SHARED);
	for (int i = 0; i < ppa->nslots && result == NULL; i++)
	{
		if (ppa->slots[i].subid == subid)
			result = &ppa->slots[i];
	}
	/* announced under the lock: a slot with waiters is not given away */
	if (result != NULL && wait)
		pg_atomic_fetch_add_u32(&result->waiters, 1);
	LWLockRelease(ppa->lock);
	return result;
}

void
ppa_report_group(PpaSubSlot *slot, int transactions, const PpaChangeCounts *counts)
{
	if (slot == NULL)
		return;
	ppa_report_add(&slot->groups, 1);
	ppa_report_add(&slot->transactions, transactions);
	ppa_report_add(&slot->inserts, counts->inserts);
	ppa_report_add(&slot->updates, counts->updates);
	ppa_report_add(&slot->deletes, counts->deletes);
	ppa_report_add(&slot->truncates, counts->truncates);
	ppa_report_add(&slot->multi_insert_rows, counts->multi_insert_rows);
	ppa_report_add(&slot->missing_rows, counts->missing_rows);
}

void
ppa_report_applied(PpaSubSlot *slot, XLogRecPtr lsn)
{
	if (slot == NULL || lsn <= pg_atomic_read_u64(&slot->applied_lsn))
		return;
	pg_atomic_write_u64(&slot->applied_lsn, lsn);
	/* pairs with the barrier of a waiter between announcing itself and looking */
	pg_memory_barrier();
	if (pg_atomic_read_u32(&slot->waiters) > 0)
		ConditionVariableBroadcast(&slot->applied_cv);
}

void
ppa_report_schedule_begin(PpaSubSlot *slot)
{
	if (slot != NULL)
		memset(&slot->schedule, 0, sizeof(slot->schedule));
}

static uint64
other_failures(const PpaScheduleStats *stats)
{
	uint64		n = 0;

	for (int i = 0; i < PPA_FAILURES; i++)
	{
		if (i != PPA_FAILED_UNIQUE && i != PPA_FAILED_DEADLOCK)
			n += stats->failures[i];
	}
	return n;
}

void
ppa_report_schedule(PpaSubSlot *slot, const PpaScheduleStats *stats)
{
	const PpaScheduleStats *old;

	if (slot == NULL)
		return;
	old = &slot->schedule;
	ppa_report_add(&slot->dependency_waits, stats->dependency_waits - old->dependency_waits);
	ppa_report_add(&slot->ordered_changes, stats->ordered_changes - old->ordered_changes);
	ppa_report_add(&slot->retries_missing, stats->missed - old->missed);
	ppa_report_add(&slot->retries_unique,
				   stats->failures[PPA_FAILED_UNIQUE] - old->failures[PPA_FAILED_UNIQUE]);
	ppa_report_add(&slot->retries_deadlock,
				   stats->failures[PPA_FAILED_DEADLOCK] - old->failures[PPA_FAILED_DEADLOCK]);
	ppa_report_add(&slot->retries_other, other_failures(stats) - other_failures(old));
	ppa_report_add(&slot->groups_aborted, stats->victims - old->victims);
	ppa_report_add(&slot->groups_alone, stats->alone_groups - old->alone_groups);
	ppa_report_add(&slot->groups_large, stats->large_groups - old->large_groups);
	ppa_report_add(&slot->relations_ordered, stats->relations_ordered - old->relations_ordered);
	ppa_report_add(&slot->refused_workers, stats->refused_workers - old->refused_workers);
	pg_atomic_write_u32(&slot->workers_running, stats->workers_up);
	pg_atomic_write_u32(&slot->queued_groups, stats->queued);
	slot->schedule = *stats;
}

void
ppa_report_error(PpaSubSlot *slot, const char *message, int sqlstate)
{
	if (slot == NULL)
		return;
	SpinLockAcquire(&slot->mutex);
	strlcpy(slot->last_error, message ? message : "", PPA_ERROR_TEXT);
	slot->last_error_sqlstate = sqlstate;
	slot->last_error_time = GetCurrentTimestamp();
	SpinLockRelease(&slot->mutex);
	ppa_report_add(&slot->errors, 1);
}

bool
ppa_report_first_stop(PpaSubSlot *slot)
{
	return slot != NULL && pg_atomic_fetch_add_u32(&slot->stops, 1) == 0;
}
