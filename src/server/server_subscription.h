/*-------------------------------------------------------------------------
 *
 * server_subscription.h
 *	  The subscription that this process works for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_SERVER_SUBSCRIPTION_H
#define PPA_SERVER_SUBSCRIPTION_H

#include "postgres.h"

#include "access/xlogdefs.h"

#include "server/server_shared.h"

/*
 * Why the subscription of this leader apply worker is to be left to the
 * built-in loop, as a text for the log; NULL if it is ours.  Reads no catalog
 * but the name of the database, for which it starts a transaction.
 */
extern const char *ppa_subscription_left_why(void);

/*
 * Watch the subscription; once per process.  It counts as changed until it is
 * read again: an ALTER may have come between the server's reading and now.
 */
extern void ppa_subscription_watch(void);

/*
 * The same for an apply worker: read it, for the first time, and watch it.
 * The leader decides when to stop, so that nothing that happens to the
 * subscription lets this process exit.  False: it does not exist.
 */
extern bool ppa_subscription_follow(Oid subid);

/*
 * Read the subscription again if it has changed, inside or outside of a
 * transaction.  Exits the process as the built-in worker does: when the
 * subscription is gone or disabled, or a parameter of the connection changed.
 */
extern void ppa_subscription_reread(void);

/*
 * What the subscription's synchronous_commit asks for: that a commit is
 * flushed, that it is with this server's own synchronous standbys.
 */
extern bool ppa_subscription_wants_flush(void);
extern bool ppa_subscription_wants_standbys(void);

/* Parallel mode: does a worker make each commit durable before it goes on? */
static inline bool
ppa_subscription_flushes_at_once(const PpaShared *shared)
{
	return shared->flush_at_once || ppa_subscription_wants_standbys();
}

/*
 * A transaction that is not empty is about to commit: clear the LSN of ALTER
 * SUBSCRIPTION ... SKIP, with a WARNING if it names another transaction.
 */
extern void ppa_subscription_clear_skip(XLogRecPtr finish_lsn);

#endif							/* PPA_SERVER_SUBSCRIPTION_H */
