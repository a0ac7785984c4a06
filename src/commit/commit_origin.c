/*-------------------------------------------------------------------------
 *
 * commit_origin.c
 *	  The replication origin of the process that commits.
 *
 * Owns:	replorigin_session_origin, _lsn and _timestamp of this process.
 * Runs in:	the process that commits groups.
 *
 * Invariant O1: the origin LSN is set only between XACT_EVENT_PRE_COMMIT and
 *			the end of that commit.  Deferred triggers run before that event,
 *			so a trigger's own subtransaction abort or a failing constraint
 *			cannot move the progress past a transaction that is not there.
 * Invariant O2: an id without an acquired session never meets a commit (the
 *			server would crash).
 * Invariant O4: from an armed commit of a stamped process until its caller has
 *			published it no interrupt is served: a process that dies in between
 *			would leave a commit that nobody knows of.
 * Invariant O5: before such a commit the progress is what the last one has left.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "replication/origin.h"
#include "storage/ipc.h"

#include "commit/commit_origin.h"
#include "server/server_compat.h"

typedef struct OriginState
{
	RepOriginId id;				/* the origin that we write with */
	bool		shared;			/* the session is acquired for each commit */
	bool		acquired;		/* ... and is so now */
	XLogRecPtr	expected;		/* progress before the armed commit, if shared */
	XLogRecPtr	armed_lsn;		/* invalid: not armed */
	TimestampTz armed_time;
} OriginState;

static OriginState origin = {.id = InvalidRepOriginId};

static void
clear_position(void)
{
	origin.armed_lsn = InvalidXLogRecPtr;
	replorigin_session_origin_lsn = InvalidXLogRecPtr;
	replorigin_session_origin_timestamp = 0;
}

static void
check_progress(void)
{
	XLogRecPtr	progress = replorigin_session_get_progress(false);

	if (progress != origin.expected)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("progress of replication origin with ID %d was moved by somebody else, to "
						PPA_LSN_FMT " instead of " PPA_LSN_FMT,
						origin.id, LSN_FORMAT_ARGS(progress), LSN_FORMAT_ARGS(origin.expected)),
				 errhint("Do not use pg_replication_origin_advance() while the subscription is enabled.")));
}

/*
 * After the last trigger of a commit, before its WAL record.  An error here
 * still aborts the transaction.
 */
static void
before_commit(void)
{
	bool		armed = !XLogRecPtrIsInvalid(origin.armed_lsn);

	if (origin.shared && !armed)
		replorigin_session_origin = InvalidRepOriginId;
	if (!armed)
		return;
	if (origin.shared)
	{
		replorigin_session_setup(origin.id);
		origin.acquired = true;
		check_progress();
	}
	replorigin_session_origin_lsn = origin.armed_lsn;
	replorigin_session_origin_timestamp = origin.armed_time;
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			before_commit();
			break;
		case XACT_EVENT_COMMIT:
			clear_position();
			if (origin.shared)
				replorigin_session_origin = origin.id;
			/* the server holds them from before the commit record until after this */
			if (origin.acquired)
				HOLD_INTERRUPTS();
			break;
		case XACT_EVENT_ABORT:
			clear_position();
			break;
		default:
			break;
	}
}

static void
exit_callback(int code, Datum arg)
{
	ppa_origin_drop();
}

static void
begin_ownership(RepOriginId id, bool shared)
{
	Assert(origin.id == InvalidRepOriginId);
	origin.id = id;
	origin.shared = shared;
	clear_position();
	RegisterXactCallback(xact_callback, NULL);
	before_shmem_exit(exit_callback, (Datum) 0);
}

void
ppa_origin_adopt(void)
{
	Assert(replorigin_session_origin != InvalidRepOriginId);
	begin_ownership(replorigin_session_origin, false);
}

void
ppa_origin_stamp(RepOriginId id)
{
	begin_ownership(id, true);
	replorigin_session_origin = id;
}

RepOriginId
ppa_origin_id(void)
{
	return origin.id;
}

void
ppa_origin_lend(void)
{
	clear_position();
	replorigin_session_reset();
	replorigin_session_origin = InvalidRepOriginId;
}

void
ppa_origin_take_back(void)
{
	replorigin_session_setup(origin.id);
	replorigin_session_origin = origin.id;
}

void
ppa_origin_arm(XLogRecPtr end_lsn, TimestampTz commit_time, XLogRecPtr expected)
{
	Assert(replorigin_session_origin == origin.id);
	origin.expected = expected;
	origin.armed_lsn = end_lsn;
	origin.armed_time = commit_time;
}

XLogRecPtr
ppa_origin_committed(void)
{
	XLogRecPtr	progress = replorigin_session_get_progress(false);

	Assert(origin.shared && origin.acquired && InterruptHoldoffCount > 0);
	origin.acquired = false;
	replorigin_session_reset();
	return progress;
}

void
ppa_origin_resume(void)
{
	clear_position();
	replorigin_session_origin = origin.id;
}

void
ppa_origin_drop(void)
{
	clear_position();
	replorigin_session_origin = InvalidRepOriginId;
	if (origin.acquired)
	{
		origin.acquired = false;
		replorigin_session_reset();
	}
}
