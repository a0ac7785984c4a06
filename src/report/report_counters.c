/*-------------------------------------------------------------------------
 *
 * report_counters.c
 *	  What pg_parallel_apply shows of itself, in shared memory.
 *
 * Runs in:	the postmaster (startup), leaders (write), backends (read).
 * Memory:	one fixed array, as many slots as there can be logical replication
 *			workers.
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
	RequestNamedLWLockTranche("pg_parallel_apply", 1);
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
	pg_atomic_init_u32(&slot->pid, 0);
	pg_atomic_init_u32(&slot->state, PPA_SUB_DOWN);
	pg_atomic_init_u64(&slot->received_lsn, 0);
	pg_atomic_init_u64(&slot->applied_lsn, 0);
	pg_atomic_init_u64(&slot->flushed_lsn, 0);
	pg_atomic_init_u64(&slot->oldest_pending, 0);
	pg_atomic_init_u64(&slot->groups, 0);
	pg_atomic_init_u64(&slot->transactions, 0);
	pg_atomic_init_u64(&slot->inserts, 0);
	pg_atomic_init_u64(&slot->updates, 0);
	pg_atomic_init_u64(&slot->deletes, 0);
	pg_atomic_init_u64(&slot->truncates, 0);
	pg_atomic_init_u64(&slot->multi_insert_rows, 0);
	pg_atomic_init_u64(&slot->missing_rows, 0);
	pg_atomic_init_u64(&slot->group_replays, 0);
	pg_atomic_init_u64(&slot->errors, 0);
}

static void
init_slot(PpaSubSlot *slot)
{
	memset(slot, 0, sizeof(*slot));
	SpinLockInit(&slot->mutex);
	pg_atomic_init_u32(&slot->waiters, 0);
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

bool
ppa_report_available(void)
{
	return ppa != NULL;
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

	pg_atomic_write_u32(&slot->state, PPA_SUB_DOWN);
	pg_atomic_write_u64(&slot->oldest_pending, 0);
	pg_atomic_write_u32(&slot->pid, 0);
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
