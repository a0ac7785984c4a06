/*-------------------------------------------------------------------------
 *
 * server_compat.h
 *	  Everything that depends on the PostgreSQL major version.
 *
 * Owns:	the only use of PG_VERSION_NUM.  Call sites are written for the
 *			newest signature; older servers are adapted here.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_SERVER_COMPAT_H
#define PPA_SERVER_COMPAT_H

#include "postgres.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 160000
#error "pg_parallel_apply supports PostgreSQL 15 so far"
#endif

#include "access/xlogdefs.h"
#include "replication/walreceiver.h"
#include "replication/worker_internal.h"
#include "storage/latch.h"
#include "utils/memutils.h"

/* 19 prints LSNs with leading zeros in the low half. */
#define PPA_LSN_FMT "%X/%X"

/* Is this process the leader apply worker of a subscription? */
static inline bool
ppa_is_leader_apply_worker(void)
{
	return MyLogicalRepWorker != NULL && !OidIsValid(MyLogicalRepWorker->relid);
}

/*
 * Ask the publisher not to stream transactions in progress.  Returns whether
 * that changed anything.
 */
static inline bool
ppa_lower_streaming(WalRcvStreamOptions *options)
{
	bool		was_on = options->proto.logical.streaming;

	options->proto.logical.streaming = false;
	return was_on;
}

/* A set of events to wait for that lives as long as the process. */
static inline WaitEventSet *
ppa_create_wait_set(int nevents)
{
	return CreateWaitEventSet(TopMemoryContext, nevents);
}

#endif							/* PPA_SERVER_COMPAT_H */
