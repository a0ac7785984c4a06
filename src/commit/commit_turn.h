/*-------------------------------------------------------------------------
 *
 * commit_turn.h
 *	  The order of commits: one counter, and whom to wake when it moves.
 *
 * Group n commits when "committed" is n - 1.  It is published only after
 * CommitTransactionCommand() has returned: then its changes are visible to
 * every new snapshot, so that whoever sees the counter sees the group.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_COMMIT_TURN_H
#define PPA_COMMIT_TURN_H

#include "server/server_shared.h"

/*
 * Sleep until "threshold" has committed or the latch is set for another
 * reason; may return early.  The caller looks at its reasons to wake up, and
 * calls again.  "waits_for" is its own announcement.  False: the time is over.
 */
extern bool ppa_turn_sleep(PpaShared *shared, pg_atomic_uint64 *waits_for, uint64 threshold,
						   long timeout_ms);

/*
 * Group "number" has committed: count it, and wake the workers that wait for
 * it.  By the worker that has the turn, with interrupts held since its commit.
 */
extern void ppa_turn_publish(PpaShared *shared, uint64 number, XLogRecPtr local_lsn);

/* Wake the leader, if it waits for that group. */
extern void ppa_turn_tell_leader(PpaShared *shared, uint64 number);

#endif							/* PPA_COMMIT_TURN_H */
