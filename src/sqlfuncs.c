/*-------------------------------------------------------------------------
 *
 * sqlfuncs.c
 *	  SQL-callable functions; those behind the views are in sqlfuncs_stat.c.
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
#include "catalog/pg_subscription.h"
#include "fmgr.h"
#include "pgstat.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/pg_lsn.h"
#include "utils/timestamp.h"

#include "report/report_counters.h"

/* 15 does not export the functions that it declares for us */
extern PGDLLEXPORT Datum ppa_wait_until_applied(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(ppa_wait_until_applied);

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

	ppa_report_require();
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
