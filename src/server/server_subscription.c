/*-------------------------------------------------------------------------
 *
 * server_subscription.c
 *	  The subscription that this process works for.
 *
 * Owns:	the server's MySubscription after the take-over.
 * Runs in:	the leader, the apply workers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_subscription.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/pg_lsn.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "server/server_compat.h"
#include "server/server_guc.h"
#include "server/server_sublist.h"
#include "server/server_subscription.h"

static bool subscription_valid = false;
static int	wanted_synchronous_commit = SYNCHRONOUS_COMMIT_OFF;
static bool is_follower = false;	/* an apply worker: the leader decides when to stop */

static bool
is_listed(void)
{
	bool		listed;
	char	   *datname;

	if (ppa_guc_subscriptions[0] == '\0')
		return false;
	StartTransactionCommand();
	datname = get_database_name(MyDatabaseId);
	listed = datname != NULL &&
		ppa_sublist_match(ppa_guc_subscriptions, datname, MySubscription->name);
	CommitTransactionCommand();
	return listed;
}

const char *
ppa_subscription_left_why(void)
{
	if (!is_listed())
		return "it is not in pg_parallel_apply.subscriptions";
	if (MySubscription->twophasestate != LOGICALREP_TWOPHASE_STATE_DISABLED)
		return "two_phase is not supported yet";
	if (DefaultXactIsoLevel >= XACT_SERIALIZABLE)
		return "default_transaction_isolation is serializable";
	return NULL;
}

static void
subscription_callback(Datum arg, int cacheid, uint32 hashvalue)
{
	subscription_valid = false;
}

void
ppa_subscription_watch(void)
{
	subscription_valid = false;
	CacheRegisterSyscacheCallback(SUBSCRIPTIONOID, subscription_callback, (Datum) 0);
}

/* Did anything change that the connection to the publisher was made with? */
static bool
connection_changed(const Subscription *old, const Subscription *new)
{
	return strcmp(new->conninfo, old->conninfo) != 0 ||
		strcmp(new->name, old->name) != 0 ||
		strcmp(new->slotname, old->slotname) != 0 ||
		new->binary != old->binary ||
		new->stream != old->stream ||
		new->owner != old->owner ||
		!equal(new->publications, old->publications);
}

static void
stop_for(const char *reason)
{
	ereport(LOG,
			(errmsg("logical replication apply worker for subscription \"%s\" will %s",
					MySubscription->name, reason)));
	proc_exit(0);
}

/* Stop, as the built-in worker does, unless we can go on with the subscription as it is now. */
static void
check_subscription(const Subscription *sub)
{
	if (sub == NULL)
		stop_for("stop because the subscription was removed");
	if (!sub->enabled)
		stop_for("stop because the subscription was disabled");
	if (connection_changed(MySubscription, sub))
		stop_for("restart because of a parameter change");
	if (sub->dbid != MySubscription->dbid)
		elog(ERROR, "subscription %u changed unexpectedly", sub->oid);
}

/*
 * An apply worker commits asynchronously and, where the subscription asks for
 * more, waits for it after it has handed on the commit turn.
 */
static void
use_synchronous_commit(void)
{
	SetConfigOption("synchronous_commit", MySubscription->synccommit,
					PGC_BACKEND, PGC_S_OVERRIDE);
	wanted_synchronous_commit = synchronous_commit;
	if (is_follower)
		SetConfigOption("synchronous_commit", "off", PGC_BACKEND, PGC_S_OVERRIDE);
}

bool
ppa_subscription_wants_flush(void)
{
	return wanted_synchronous_commit > SYNCHRONOUS_COMMIT_OFF;
}

bool
ppa_subscription_wants_standbys(void)
{
	return wanted_synchronous_commit > SYNCHRONOUS_COMMIT_LOCAL_FLUSH && max_wal_senders > 0 &&
		SyncRepStandbyNames != NULL && SyncRepStandbyNames[0] != '\0';
}

bool
ppa_subscription_follow(Oid subid)
{
	ApplyContext = AllocSetContextCreate(TopMemoryContext, "ApplyContext", ALLOCSET_DEFAULT_SIZES);
	is_follower = true;
	CacheRegisterSyscacheCallback(SUBSCRIPTIONOID, subscription_callback, (Datum) 0);
	StartTransactionCommand();
	subscription_valid = true;
	MemoryContextSwitchTo(ApplyContext);
	MySubscription = GetSubscription(subid, true);
	CommitTransactionCommand();
	if (MySubscription == NULL)
		return false;
	use_synchronous_commit();
	return true;
}

void
ppa_subscription_reread(void)
{
	MemoryContext oldcxt = CurrentMemoryContext;
	bool		started = false;
	Subscription *sub;

	if (likely(subscription_valid))
		return;
	if (!IsTransactionState())
	{
		StartTransactionCommand();
		started = true;
	}

	/* An invalidation that arrives while we read makes us read again. */
	subscription_valid = true;
	MemoryContextSwitchTo(ApplyContext);
	sub = GetSubscription(MySubscription->oid, true);
	if (!is_follower)
		check_subscription(sub);
	if (sub != NULL)
	{
		FreeSubscription(MySubscription);
		MySubscription = sub;
	}
	MemoryContextSwitchTo(oldcxt);
	use_synchronous_commit();
	if (started)
	{
		CommitTransactionCommand();
		MemoryContextSwitchTo(oldcxt);
	}
}

void
ppa_subscription_clear_skip(XLogRecPtr finish_lsn)
{
	XLogRecPtr	skiplsn = MySubscription->skiplsn;
	Relation	rel;
	HeapTuple	tuple;

	if (likely(XLogRecPtrIsInvalid(skiplsn)))
		return;

	/* the catalog row may have to be fetched from TOAST */
	PushActiveSnapshot(GetTransactionSnapshot());
	LockSharedObject(SubscriptionRelationId, MySubscription->oid, 0, AccessShareLock);
	rel = table_open(SubscriptionRelationId, RowExclusiveLock);
	tuple = SearchSysCacheCopy1(SUBSCRIPTIONOID, ObjectIdGetDatum(MySubscription->oid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "subscription \"%s\" does not exist", MySubscription->name);

	/* If the user has changed it meanwhile, it is not ours to clear. */
	if (((Form_pg_subscription) GETSTRUCT(tuple))->subskiplsn == skiplsn)
	{
		Datum		values[Natts_pg_subscription] = {0};
		bool		nulls[Natts_pg_subscription] = {false};
		bool		replaces[Natts_pg_subscription] = {false};

		values[Anum_pg_subscription_subskiplsn - 1] = LSNGetDatum(InvalidXLogRecPtr);
		replaces[Anum_pg_subscription_subskiplsn - 1] = true;
		tuple = heap_modify_tuple(tuple, RelationGetDescr(rel), values, nulls, replaces);
		CatalogTupleUpdate(rel, &tuple->t_self, tuple);
		if (skiplsn != finish_lsn)
			ereport(WARNING,
					errmsg("skip-LSN of subscription \"%s\" cleared", MySubscription->name),
					errdetail("Remote transaction's finish WAL location (LSN) " PPA_LSN_FMT
							  " did not match skip-LSN " PPA_LSN_FMT ".",
							  LSN_FORMAT_ARGS(finish_lsn), LSN_FORMAT_ARGS(skiplsn)));
	}
	heap_freetuple(tuple);
	table_close(rel, NoLock);
	PopActiveSnapshot();
}
