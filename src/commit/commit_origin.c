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
 *			server would crash): the id is ours only while "adopted" is set.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "replication/origin.h"
#include "storage/ipc.h"

#include "commit/commit_origin.h"

typedef struct OriginState
{
	RepOriginId id;				/* the origin that we own */
	bool		adopted;
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
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			if (!XLogRecPtrIsInvalid(origin.armed_lsn))
			{
				replorigin_session_origin_lsn = origin.armed_lsn;
				replorigin_session_origin_timestamp = origin.armed_time;
			}
			break;
		case XACT_EVENT_COMMIT:
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

void
ppa_origin_adopt(void)
{
	Assert(!origin.adopted && replorigin_session_origin != InvalidRepOriginId);
	origin.id = replorigin_session_origin;
	origin.adopted = true;
	clear_position();
	RegisterXactCallback(xact_callback, NULL);
	before_shmem_exit(exit_callback, (Datum) 0);
}

void
ppa_origin_arm(XLogRecPtr end_lsn, TimestampTz commit_time)
{
	Assert(replorigin_session_origin == origin.id);
	origin.armed_lsn = end_lsn;
	origin.armed_time = commit_time;
}

void
ppa_origin_resume(void)
{
	Assert(origin.adopted);
	clear_position();
	replorigin_session_origin = origin.id;
}

void
ppa_origin_drop(void)
{
	clear_position();
	replorigin_session_origin = InvalidRepOriginId;
}
