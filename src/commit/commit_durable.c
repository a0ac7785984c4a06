/*-------------------------------------------------------------------------
 *
 * commit_durable.c
 *	  Making a commit durable after its turn has been handed on.
 *
 * Inside of the turn nothing waits for a disk or for another server; so the
 * flushes of several workers overlap, and one of them often serves all.
 *
 * Runs in:	the apply workers, outside of a transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "replication/syncrep.h"
#include "replication/walsender_private.h"
#include "storage/lwlock.h"
#include "utils/guc.h"

#include "commit/commit_durable.h"
#include "server/server_compat.h"
#include "server/server_subscription.h"

/* What synchronous_commit waits for; the server's own variable for it is not to be had. */
static int
wait_mode(void)
{
	switch (synchronous_commit)
	{
		case SYNCHRONOUS_COMMIT_REMOTE_WRITE:
			return SYNC_REP_WAIT_WRITE;
		case SYNCHRONOUS_COMMIT_REMOTE_APPLY:
			return SYNC_REP_WAIT_APPLY;
		default:
			return SYNC_REP_WAIT_FLUSH;
	}
}

static bool
is_confirmed(XLogRecPtr lsn)
{
	bool		confirmed;

	LWLockAcquire(SyncRepLock, LW_SHARED);
	confirmed = WalSndCtl->lsn[wait_mode()] >= lsn;
	LWLockRelease(SyncRepLock);
	return confirmed;
}

static bool
wait_for_standbys(XLogRecPtr lsn)
{
	bool		confirmed;

	/* the setting chooses what to wait for; it is "off" only for the commit itself */
	SetConfigOption("synchronous_commit", MySubscription->synccommit, PGC_BACKEND, PGC_S_OVERRIDE);
	HOLD_INTERRUPTS();
	SyncRepWaitForLSN(lsn, true);
	confirmed = is_confirmed(lsn) || !ppa_subscription_wants_standbys();
	RESUME_INTERRUPTS();
	SetConfigOption("synchronous_commit", "off", PGC_BACKEND, PGC_S_OVERRIDE);
	return confirmed;
}

bool
ppa_make_durable(XLogRecPtr lsn)
{
	if (XLogRecPtrIsInvalid(lsn))
		return true;
	XLogFlush(lsn);
	return !ppa_subscription_wants_standbys() || wait_for_standbys(lsn);
}
