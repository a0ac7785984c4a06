/*-------------------------------------------------------------------------
 *
 * report_workers.c
 *	  What each apply worker is doing, in shared memory.
 *
 * Runs in:	the postmaster (startup), apply workers (write), backends (read).
 * Memory:	one fixed array, a slot for each background worker that there can be.
 * Locks:	a slot's spinlock to claim, free and copy it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/builtins.h"

#include "report/report_workers.h"

/* Workers write all the time, so no two slots share a cache line. */
typedef union PaddedSlot
{
	PpaWorkerSlot slot;
	char		pad[TYPEALIGN(PG_CACHE_LINE_SIZE, sizeof(PpaWorkerSlot))];
} PaddedSlot;

static PaddedSlot *workers = NULL;

Size
ppa_report_workers_size(void)
{
	return mul_size(sizeof(PaddedSlot), max_worker_processes);
}

void
ppa_report_workers_startup(void)
{
	bool		found;

	workers = ShmemInitStruct("pg_parallel_apply workers", ppa_report_workers_size(), &found);
	if (found)
		return;
	memset(workers, 0, ppa_report_workers_size());
	for (int i = 0; i < max_worker_processes; i++)
		SpinLockInit(&workers[i].slot.mutex);
}

static void
release_worker(int code, Datum arg)
{
	PpaWorkerSlot *slot = (PpaWorkerSlot *) DatumGetPointer(arg);

	SpinLockAcquire(&slot->mutex);
	slot->pid = 0;
	slot->state = PPA_WORKER_FREE;
	SpinLockRelease(&slot->mutex);
}

/* With the lock held. */
static void
fill_slot(PpaWorkerSlot *slot, Oid subid, Oid dbid, const char *subname, int number)
{
	slot->pid = MyProcPid;
	slot->subid = subid;
	slot->dbid = dbid;
	slot->number = number;
	namestrcpy(&slot->subname, subname);
	slot->rows_total = 0;
	slot->groups_total = 0;
	slot->replays = 0;
	ppa_report_worker_group(slot, 0);
	ppa_report_worker_state(slot, PPA_WORKER_STARTING);
}

PpaWorkerSlot *
ppa_report_worker_claim(Oid subid, Oid dbid, const char *subname, int number)
{
	for (int i = 0; i < max_worker_processes; i++)
	{
		PpaWorkerSlot *slot = &workers[i].slot;
		bool		is_free;

		SpinLockAcquire(&slot->mutex);
		is_free = (slot->pid == 0);
		if (is_free)
			fill_slot(slot, subid, dbid, subname, number);
		SpinLockRelease(&slot->mutex);
		if (is_free)
		{
			before_shmem_exit(release_worker, PointerGetDatum(slot));
			return slot;
		}
	}
	return NULL;
}

int
ppa_report_nworkers(void)
{
	return max_worker_processes;
}

bool
ppa_report_worker_read(int i, PpaWorkerSlot *copy)
{
	PpaWorkerSlot *slot = &workers[i].slot;

	SpinLockAcquire(&slot->mutex);
	*copy = *slot;
	SpinLockRelease(&slot->mutex);
	return copy->pid != 0;
}
