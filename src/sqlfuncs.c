/*-------------------------------------------------------------------------
 *
 * sqlfuncs.c
 *	  SQL-callable functions.
 *
 * Once released, a C function stays for ever: the library is older or newer
 * than the extension's SQL objects during an upgrade.
 *
 * Runs in:	backends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlogdefs.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_subscription.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/pg_lsn.h"
#include "utils/timestamp.h"

#include "report/report_counters.h"

/* 15 does not export the functions that it declares for us */
extern PGDLLEXPORT Datum ppa_stat_subscription(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum ppa_wait_until_applied(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(ppa_stat_subscription);
PG_FUNCTION_INFO_V1(ppa_wait_until_applied);

#define STAT_SUBSCRIPTION_COLS 23

static void
require_preload(void)
{
	if (!ppa_report_available())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("pg_parallel_apply must be loaded via shared_preload_libraries"),
				 errhint("Add pg_parallel_apply to shared_preload_libraries and restart the server.")));
}

static const char *
state_name(PpaSubState state)
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

/* Collects the columns of one row. */
typedef struct RowBuilder
{
	int			n;
	Datum		values[STAT_SUBSCRIPTION_COLS];
	bool		nulls[STAT_SUBSCRIPTION_COLS];
} RowBuilder;

static void
add_value(RowBuilder *row, Datum value, bool isnull)
{
	Assert(row->n < STAT_SUBSCRIPTION_COLS);
	row->values[row->n] = value;
	row->nulls[row->n++] = isnull;
}

static void
add_lsn(RowBuilder *row, uint64 lsn)
{
	add_value(row, LSNGetDatum(lsn), lsn == 0);
}

static void
add_counter(RowBuilder *row, pg_atomic_uint64 *counter)
{
	add_value(row, Int64GetDatum((int64) pg_atomic_read_u64(counter)), false);
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

/* Subscriptions of other databases are shown to those who may see all statistics. */
static bool
may_see(Oid dbid)
{
	return dbid == MyDatabaseId || has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
}

static void
add_progress(RowBuilder *row, PpaSubSlot *slot)
{
	uint64		received = pg_atomic_read_u64(&slot->received_lsn);
	uint64		applied = pg_atomic_read_u64(&slot->applied_lsn);
	TimestampTz pending = (TimestampTz) pg_atomic_read_u64(&slot->oldest_pending);

	add_lsn(row, received);
	add_lsn(row, applied);
	add_lsn(row, pg_atomic_read_u64(&slot->flushed_lsn));
	add_value(row, Int64GetDatum(received > applied ? (int64) (received - applied) : 0), false);
	add_value(row, Float8GetDatum(Max(GetCurrentTimestamp() - pending, 0) / 1e6), pending == 0);
}

static void
add_row(ReturnSetInfo *rsinfo, PpaSubSlot *slot, const SlotTexts *texts)
{
	RowBuilder	row = {0};
	bool		no_error = (texts->error_time == 0);
	uint32		pid = pg_atomic_read_u32(&slot->pid);
	NameData	subname = texts->subname;

	add_value(&row, ObjectIdGetDatum(texts->subid), false);
	add_value(&row, NameGetDatum(&subname), false);
	add_value(&row, ObjectIdGetDatum(texts->dbid), false);
	add_value(&row, Int32GetDatum((int32) pid), pid == 0);
	add_value(&row, CStringGetTextDatum(state_name(pg_atomic_read_u32(&slot->state))), false);
	add_progress(&row, slot);
	add_counter(&row, &slot->groups);
	add_counter(&row, &slot->transactions);
	add_counter(&row, &slot->inserts);
	add_counter(&row, &slot->updates);
	add_counter(&row, &slot->deletes);
	add_counter(&row, &slot->truncates);
	add_counter(&row, &slot->multi_insert_rows);
	add_counter(&row, &slot->group_replays);
	add_counter(&row, &slot->missing_rows);
	add_counter(&row, &slot->errors);
	add_value(&row, CStringGetTextDatum(texts->last_error), no_error);
	add_value(&row, CStringGetTextDatum(unpack_sql_state(texts->sqlstate)), no_error);
	add_value(&row, TimestampTzGetDatum(texts->error_time), no_error);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
}

/*
 * One row per subscription that has or had an apply worker since the server
 * started.  Called by the view stat_subscription, which adds names.
 */
Datum
ppa_stat_subscription(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	require_preload();
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < ppa_report_nslots(); i++)
	{
		PpaSubSlot *slot = ppa_report_slot(i);
		SlotTexts	texts;

		copy_texts(slot, &texts);
		if (OidIsValid(texts.subid) && may_see(texts.dbid))
			add_row(rsinfo, slot, &texts);
	}
	return (Datum) 0;
}

static void
stop_waiting(int code, Datum arg)
{
	PpaSubSlot *slot = (PpaSubSlot *) DatumGetPointer(arg);

	pg_atomic_fetch_sub_u32(&slot->waiters, 1);
}

static TimestampTz
time_after(Datum interval)
{
	return DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval,
												   TimestampTzGetDatum(GetCurrentTimestamp()),
												   interval));
}

/* Wait; returns whether "lsn" was reached before "deadline" (0: no limit). */
static bool
wait_for_lsn(PpaSubSlot *slot, const char *subname, XLogRecPtr lsn, TimestampTz deadline)
{
	bool		reached = false;

	ConditionVariablePrepareToSleep(&slot->applied_cv);
	/* pairs with the barrier in ppa_report_applied() */
	pg_memory_barrier();
	while (!(reached = pg_atomic_read_u64(&slot->applied_lsn) >= lsn))
	{
		/* a worker that starts does not signal, so look once a second */
		long		timeout = 1000;

		if (pg_atomic_read_u32(&slot->state) == PPA_SUB_PASSED_THROUGH)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("subscription \"%s\" is applied by the built-in apply worker", subname),
					 errhint("Check pg_parallel_apply.subscriptions and the server log.")));
		if (deadline != 0)
		{
			long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);

			if (left <= 0)
				break;
			timeout = Min(timeout, left);
		}
		ConditionVariableTimedSleep(&slot->applied_cv, timeout, PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
	return reached;
}

/*
 * wait_until_applied(subscription name, lsn pg_lsn, timeout interval)
 *
 * Waits until all that the publisher committed before "lsn" (a position of
 * the publisher, as pg_current_wal_lsn() there) is applied and visible here.
 * NULL timeout: waits for ever.  Returns false when the time is over.
 */
Datum
ppa_wait_until_applied(PG_FUNCTION_ARGS)
{
	char	   *subname;
	XLogRecPtr	lsn;
	TimestampTz deadline;
	PpaSubSlot *slot;
	bool		reached;

	require_preload();
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_NULL();
	subname = NameStr(*PG_GETARG_NAME(0));
	lsn = PG_GETARG_LSN(1);
	deadline = PG_ARGISNULL(2) ? 0 : time_after(PG_GETARG_DATUM(2));
	slot = ppa_report_find(get_subscription_oid(subname, false), true);
	if (slot == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("subscription \"%s\" has not been applied since the server started",
						subname),
				 errhint("Check that it is enabled.")));
	PG_ENSURE_ERROR_CLEANUP(stop_waiting, PointerGetDatum(slot));
	{
		reached = wait_for_lsn(slot, subname, lsn, deadline);
	}
	PG_END_ENSURE_ERROR_CLEANUP(stop_waiting, PointerGetDatum(slot));
	stop_waiting(0, PointerGetDatum(slot));
	PG_RETURN_BOOL(reached);
}
