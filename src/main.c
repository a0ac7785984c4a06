/*-------------------------------------------------------------------------
 *
 * main.c
 *	  Loading, and the take-over of the built-in apply worker.
 *
 * The server reaches the publisher through a table of transport functions,
 * WalReceiverFunctions, which is made to be exchanged.  We put a copy of it
 * in place with two functions wrapped:
 *
 *	walrcv_startstreaming	decides whether the subscription of this process is
 *							ours, and if so asks for no streaming of
 *							transactions in progress;
 *	walrcv_receive			enters our loop, and does not come back, if so.
 *
 * In every other process (physical receiver, table synchronisation) and for
 * every other subscription both pass straight through.
 *
 * Runs in:	_PG_init in the postmaster; the wrappers in apply workers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "replication/logicalworker.h"
#include "storage/ipc.h"
#include "utils/memutils.h"

#include "report/report_counters.h"
#include "schedule/schedule_leader.h"
#include "server/server_compat.h"
#include "server/server_guc.h"
#include "server/server_subscription.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

typedef enum TakeOver
{
	TAKE_OVER_UNDECIDED,		/* no logical stream was started here */
	TAKE_OVER_OURS,
	TAKE_OVER_PASSED			/* a leader apply worker, left to the built-in loop */
} TakeOver;

static const WalReceiverFunctionsType *transport;	/* the table that we wrap */
static WalReceiverFunctionsType wrapped;

/* Of this process. */
static TakeOver take_over = TAKE_OVER_UNDECIDED;
static uint32 decided_generation;	/* of pg_parallel_apply.subscriptions */
static bool sync_standby = false;

/*
 * Is the subscription named in the publisher's synchronous_standby_names, so
 * that commits there wait for us?  Then they must not wait for our naps.
 * Asked on the connection that is about to stream, which knows the name that
 * it has over there; no answer counts as no.  A list changed later costs 10 ms
 * of silence at a commit, until we connect again.
 */
#define NAMED_AS_STANDBY_QUERY \
	"SELECT EXISTS (SELECT FROM pg_catalog.regexp_split_to_table(" \
	"pg_catalog.regexp_replace(pg_catalog.current_setting('synchronous_standby_names'), " \
	"'^\\s*((first|any)\\s+)?\\d+\\s*\\(|\\)\\s*$', '', 'gi'), ',') AS s(name) " \
	"WHERE pg_catalog.btrim(s.name, ' ') = '*' OR " \
	"pg_catalog.lower(pg_catalog.btrim(s.name, ' \"')) = " \
	"pg_catalog.lower(pg_catalog.current_setting('application_name')))"

static bool
is_named_as_standby(WalReceiverConn *conn)
{
	Oid			types[1] = {BOOLOID};
	WalRcvExecResult *result;
	bool		named = false;

	StartTransactionCommand();
	result = (transport->walrcv_exec) (conn, NAMED_AS_STANDBY_QUERY, 1, types);
	if (result->status == WALRCV_OK_TUPLES)
	{
		TupleTableSlot *slot = MakeSingleTupleTableSlot(result->tupledesc, &TTSOpsMinimalTuple);
		bool		isnull;

		if (tuplestore_gettupleslot(result->tuplestore, true, false, slot))
			named = DatumGetBool(slot_getattr(slot, 1, &isnull));
		ExecDropSingleTupleTableSlot(slot);
	}
	walrcv_clear_result(result);
	CommitTransactionCommand();
	return named;
}

/* The subscription was handed back by a worker that met what it cannot apply. */
static bool
was_handed_back(void)
{
	PpaSubSlot *slot = ppa_report_find(MySubscription->oid, false);

	return slot != NULL && slot->hand_back;
}

/*
 * Decide whether this leader apply worker is ours.  Outside of the server's
 * PG_TRY: an error here would not be counted, so nothing here complains above
 * LOG.
 */
static void
decide(void)
{
	const char *why = ppa_subscription_left_why();

	decided_generation = ppa_guc_subscriptions_generation;
	if (why == NULL && was_handed_back())
		why = "the publisher sent messages that pg_parallel_apply cannot apply yet";

	if (why == NULL)
	{
		take_over = TAKE_OVER_OURS;
		ereport(LOG,
				(errmsg("pg_parallel_apply applies subscription \"%s\"", MySubscription->name)));
		return;
	}
	take_over = TAKE_OVER_PASSED;
	ereport(LOG,
			(errmsg("pg_parallel_apply leaves subscription \"%s\" to the built-in apply worker: %s",
					MySubscription->name, why)));
	ppa_report_claim(MySubscription->oid, MySubscription->dbid, MySubscription->name,
					 PPA_SUB_PASSED_THROUGH);
}

static bool
wrapped_startstreaming(WalReceiverConn *conn, const WalRcvStreamOptions *options)
{
	MemoryContext oldcxt = CurrentMemoryContext;
	WalRcvStreamOptions lowered;

	if (!options->logical || !ppa_is_leader_apply_worker())
		return (transport->walrcv_startstreaming) (conn, options);

	decide();
	if (take_over == TAKE_OVER_OURS)
	{
		lowered = *options;
		if (ppa_lower_streaming(&lowered))
			ereport(LOG,
					(errmsg("pg_parallel_apply asks the publisher of subscription \"%s\" not to stream transactions in progress",
							MySubscription->name),
					 errdetail("Large transactions are sent at their commit.")));
		options = &lowered;
		sync_standby = is_named_as_standby(conn);
	}
	MemoryContextSwitchTo(oldcxt);
	return (transport->walrcv_startstreaming) (conn, options);
}

/*
 * A worker that was passed through has heard of new settings: if it is ours
 * now, let it come back as ours.
 */
static void
reconsider(void)
{
	if (decided_generation == ppa_guc_subscriptions_generation ||
		in_remote_transaction || IsTransactionState())
		return;
	decided_generation = ppa_guc_subscriptions_generation;
	if (ppa_subscription_left_why() != NULL || was_handed_back())
		return;
	ereport(LOG,
			(errmsg("logical replication apply worker for subscription \"%s\" will restart because "
					"pg_parallel_apply applies it now", MySubscription->name)));
	proc_exit(0);
}

static int
wrapped_receive(WalReceiverConn *conn, char **buffer, pgsocket *wait_fd)
{
	if (unlikely(take_over != TAKE_OVER_UNDECIDED) && conn == LogRepWorkerWalRcvConn)
	{
		if (take_over == TAKE_OVER_OURS)
			ppa_leader_main(transport, conn, sync_standby);
		reconsider();
	}
	return (transport->walrcv_receive) (conn, buffer, wait_fd);
}

void
_PG_init(void)
{
	/*
	 * pg_upgrade loads every library, and somebody may LOAD it: that must not
	 * hurt.  The SQL functions say what is missing.
	 */
	if (!process_shared_preload_libraries_in_progress)
		return;

	ppa_guc_define();
	ppa_report_init();

	/* It insists on being the first to set the table. */
	load_file("libpqwalreceiver", false);
	transport = WalReceiverFunctions;
	wrapped = *transport;
	wrapped.walrcv_startstreaming = wrapped_startstreaming;
	wrapped.walrcv_receive = wrapped_receive;
	WalReceiverFunctions = &wrapped;
}
