/*-------------------------------------------------------------------------
 *
 * commit_durable.h
 *	  Making a commit durable after its turn has been handed on.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_COMMIT_DURABLE_H
#define PPA_COMMIT_DURABLE_H

#include "postgres.h"

#include "access/xlogdefs.h"

/*
 * Flush the WAL up to "lsn" and, if the subscription's synchronous_commit says
 * so, wait for this server's synchronous standbys.  Returns whether it is as
 * durable as asked for: a wait that was interrupted does not count.
 */
extern bool ppa_make_durable(XLogRecPtr lsn);

#endif							/* PPA_COMMIT_DURABLE_H */
