/*-------------------------------------------------------------------------
 *
 * sqlfuncs_stat.c
 *	  The functions behind the views.
 *
 * As for all SQL-callable functions: once released they stay for ever.
 *
 * Runs in:	backends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlogdefs.h"
#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/pg_lsn.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "report/report_counters.h"
#include "report/report_workers.h"

/* 15 does not export the functions that it declares for us */
extern PGDLLEXPORT Datum ppa_stat_subscription(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum ppa_stat_worker(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(ppa_stat_subscription);
PG_FUNCTION_INFO_V1(ppa_stat_worker);

/* ---------- rows ---------- */

#define MAX_COLS 48

/* Collects the columns of one row. */
typedef struct RowBuilder
{
	int			n;
	Datum		values[MAX_COLS];
	bool		nulls[MAX_COLS];
} RowBuilder;

static void
add_value(RowBuilder *row, Datum value, bool isnull)
{
	Assert(row->n < MAX_COLS);
	row->values[row->n] = value;
	row->nulls[row->n++] = isnull;
}

/* NULL: SQL's NULL. */
static void
add_text(RowBuilder *row, const char *text)
{
	add_value(row, text ? CStringGetTextDatum(text) : (Datum) 0, text == NULL);
}

static void
add_lsn(RowBuilder *row, uint64 lsn)
{
	add_value(row, LSNGetDatum(lsn), lsn == 0);
}

static void
add_int8(RowBuilder *row, uint64 n)
{
	add_value(row, Int64GetDatum((int64) n), false);
}

static void
add_counter(RowBuilder *row, pg_atomic_uint64 *counter)
{
	add_int8(row, pg_atomic_read_u64(counter));
}

static void
add_gauge(RowBuilder *row, pg_atomic_uint32 *gauge)
{
	add_value(row, Int32GetDatum((int32) pg_atomic_read_u32(gauge)), false);
}

static void
put_row(ReturnSetInfo *rsinfo, RowBuilder *row)
{
	Assert(row->n == rsinfo->setDesc->natts);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row->values, row->nulls);
}

/* What belongs to other databases is shown to those who may see all statistics. */
static bool
may_see(Oid dbid)
{
	return dbid == MyDatabaseId || has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
}

/* ---------- stat_subscription ---------- */

static const char *
subscription_state(PpaSubState state)
{
	switch (state)
	{
		case PPA_SUB_STARTING:
			return "starting";
		case PPA_SUB_IDLE:
			return "idle";
		case PPA_SUB_RECEIVING:
			return "receiving";
		case PPA_SUB_APPLYING:
			return "applying";
		case PPA_SUB_PASSED_THROUGH:
			return "passed through";
		case PPA_SUB_DOWN:
			break;
	}
	return "down";
}

/* The texts and the identity of a slot, copied under its lock. */
typedef struct SlotTexts
{
	Oid			subid;
	Oid			dbid;
	NameData	subname;
	char		last_error[PPA_ERROR_TEXT];
	int			sqlstate;
	TimestampTz error_time;
} SlotTexts;

static void
copy_texts(PpaSubSlot *slot, SlotTexts *texts)
{
	SpinLockAcquire(&slot->mutex);
	texts->subid = slot->subid;
	texts->dbid = slot->dbid;
	texts->subname = slot->subname;
	memcpy(texts->last_error, slot->last_error, PPA_ERROR_TEXT);
	texts->sqlstate = slot->last_error_sqlstate;
	texts->error_time = slot->last_error_time;
	SpinLockRelease(&slot->mutex);
}

static void
add_progress(RowBuilder *row, PpaSubSlot *slot)
{
	uint64		received = pg_atomic_read_u64(&slot->received_lsn);
	uint64		applied = pg_atomic_read_u64(&slot->applied_lsn);
	TimestampTz pending = (TimestampTz) pg_atomic_read_u64(&slot->oldest_pending);

	add_lsn(row, received);
	add_lsn(row, pg_atomic_read_u64(&slot->dispatched_lsn));
	add_lsn(row, applied);
	add_lsn(row, pg_atomic_read_u64(&slot->flushed_lsn));
	add_int8(row, received > applied ? received - applied : 0);
	add_value(row, Float8GetDatum(Max(GetCurrentTimestamp() - pending, 0) / 1e6), pending == 0);
	add_gauge(row, &slot->queued_groups);
	add_counter(row, &slot->queued_bytes);
}

static void
add_counters(RowBuilder *row, PpaSubSlot *slot)
{
	pg_atomic_uint64 *counters[] = {
		&slot->groups, &slot->transactions, &slot->inserts, &slot->updates, &slot->deletes,
		&slot->truncates, &slot->multi_insert_rows, &slot->missing_rows, &slot->group_replays,
		&slot->groups_alone, &slot->groups_large, &slot->groups_aborted,
		&slot->ordered_changes, &slot->relations_ordered,
		&slot->dependency_waits, &slot->turn_waits,
		&slot->retries_missing, &slot->retries_unique, &slot->retries_deadlock,
		&slot->retries_other, &slot->refused_workers, &slot->errors,
	};

	for (int i = 0; i < lengthof(counters); i++)
		add_counter(row, counters[i]);
}

static void
put_subscription(ReturnSetInfo *rsinfo, PpaSubSlot *slot, const SlotTexts *texts)
{
	RowBuilder	row = {0};
	bool		no_error = (texts->error_time == 0);
	uint32		pid = pg_atomic_read_u32(&slot->pid);
	NameData	subname = texts->subname;

	add_value(&row, ObjectIdGetDatum(texts->subid), false);
	add_value(&row, NameGetDatum(&subname), false);
	add_value(&row, ObjectIdGetDatum(texts->dbid), false);
	add_value(&row, Int32GetDatum((int32) pid), pid == 0);
	add_text(&row, subscription_state(pg_atomic_read_u32(&slot->state)));
	add_gauge(&row, &slot->workers_wanted);
	add_gauge(&row, &slot->workers_running);
	add_progress(&row, slot);
	add_counters(&row, slot);
	add_text(&row, no_error ? NULL : texts->last_error);
	add_text(&row, no_error ? NULL : unpack_sql_state(texts->sqlstate));
	add_value(&row, TimestampTzGetDatum(texts->error_time), no_error);
	put_row(rsinfo, &row);
}

/*
 * One row per subscription that has or had an apply worker since the server
 * started.  Called by the view stat_subscription, which adds names.
 */
Datum
ppa_stat_subscription(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	ppa_report_require();
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < ppa_report_nslots(); i++)
	{
		PpaSubSlot *slot = ppa_report_slot(i);
		SlotTexts	texts;

		copy_texts(slot, &texts);
		if (OidIsValid(texts.subid) && may_see(texts.dbid))
			put_subscription(rsinfo, slot, &texts);
	}
	return (Datum) 0;
}

/* ---------- stat_worker ---------- */

static const char *
worker_state(PpaWorkerState state)
{
	switch (state)
	{
		case PPA_WORKER_STARTING:
			return "starting";
		case PPA_WORKER_IDLE:
			return "idle";
		case PPA_WORKER_EXECUTING:
			return "executing";
		case PPA_WORKER_WAITING:
			return "waiting";
		case PPA_WORKER_COMMITTING:
			return "committing";
		case PPA_WORKER_FLUSHING:
			return "flushing";
		case PPA_WORKER_FREE:
			break;
	}
	return NULL;
}

static const char *
wait_name(PpaWorkerWait wait)
{
	switch (wait)
	{
		case PPA_WAIT_QUEUE:
			return "queue empty";
		case PPA_WAIT_START:
			return "start";
		case PPA_WAIT_DEPENDENCY:
			return "dependency";
		case PPA_WAIT_TURN:
			return "commit turn";
		case PPA_WAIT_RETRY:
			return "retry";
		case PPA_WAIT_NONE:
			break;
	}
	return NULL;
}

static const char *
operation_name(uint32 operation)
{
	switch (operation)
	{
		case 'I':
			return "INSERT";
		case 'U':
			return "UPDATE";
		case 'D':
			return "DELETE";
		case 'T':
			return "TRUNCATE";
	}
	return NULL;
}

/* Does the process sleep in the lock manager? */
static bool
waits_for_lock(int pid)
{
	PGPROC	   *proc = BackendPidGetProc(pid);

	/* it may end meanwhile, but that memory stays */
	return proc != NULL &&
		(*(volatile uint32 *) &proc->wait_event_info & 0xFF000000) == PG_WAIT_LOCK;
}

/*
 * wait, wait_group, blocking_pids: what the worker says that it waits for;
 * that it sleeps in the lock manager it cannot say.
 */
static void
add_wait(RowBuilder *row, const PpaWorkerSlot *worker)
{
	if (waits_for_lock(worker->pid))
	{
		add_text(row, "lock");
		add_value(row, (Datum) 0, true);
		add_value(row, DirectFunctionCall1(pg_blocking_pids, Int32GetDatum(worker->pid)), false);
		return;
	}
	add_text(row, wait_name(worker->wait));
	add_value(row, Int64GetDatum((int64) worker->wait_group), worker->wait_group == 0);
	add_value(row, (Datum) 0, true);
}

/* NULL if there is none, in another database, or dropped meanwhile. */
static char *
relation_name(Oid dbid, Oid relid)
{
	char	   *name;
	char	   *namespace;

	if (dbid != MyDatabaseId || !OidIsValid(relid))
		return NULL;
	name = get_rel_name(relid);
	namespace = get_namespace_name(get_rel_namespace(relid));
	return name && namespace ? quote_qualified_identifier(namespace, name) : NULL;
}

static void
put_worker(ReturnSetInfo *rsinfo, const PpaWorkerSlot *worker)
{
	RowBuilder	row = {0};
	NameData	subname = worker->subname;

	add_value(&row, ObjectIdGetDatum(worker->subid), false);
	add_value(&row, NameGetDatum(&subname), false);
	add_value(&row, ObjectIdGetDatum(worker->dbid), false);
	add_value(&row, Int32GetDatum(worker->number), false);
	add_value(&row, Int32GetDatum(worker->pid), false);
	add_text(&row, worker_state(worker->state));
	add_wait(&row, worker);
	add_value(&row, Int64GetDatum((int64) worker->group), worker->group == 0);
	add_value(&row, TransactionIdGetDatum(worker->remote_xid), worker->remote_xid == 0);
	add_lsn(&row, worker->remote_lsn);
	add_text(&row, relation_name(worker->dbid, worker->relation));
	add_text(&row, operation_name(worker->operation));
	add_int8(&row, worker->rows);
	add_int8(&row, worker->rows_total);
	add_int8(&row, worker->groups_total);
	add_int8(&row, worker->replays);
	put_row(rsinfo, &row);
}

/* One row per apply worker process.  Called by the view stat_worker. */
Datum
ppa_stat_worker(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	ppa_report_require();
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < ppa_report_nworkers(); i++)
	{
		PpaWorkerSlot worker;

		if (ppa_report_worker_read(i, &worker) && may_see(worker.dbid))
			put_worker(rsinfo, &worker);
	}
	return (Datum) 0;
}
