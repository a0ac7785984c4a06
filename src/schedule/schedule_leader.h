/*-------------------------------------------------------------------------
 *
 * schedule_leader.h
 *	  The leader: our loop in place of the built-in apply worker's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_SCHEDULE_LEADER_H
#define PPA_SCHEDULE_LEADER_H

#include "postgres.h"

#include "replication/walreceiver.h"

/*
 * Receive and apply until the stream ends; never returns.  Called in the
 * apply worker of a subscription that is ours, at its first attempt to
 * receive, on the connection that it has opened.  "sync_standby": the
 * publisher waits for standbys at commit, and we may be one.
 */
extern void ppa_leader_main(const WalReceiverFunctionsType *transport,
							WalReceiverConn *conn, bool sync_standby) pg_attribute_noreturn();

#endif							/* PPA_SCHEDULE_LEADER_H */
