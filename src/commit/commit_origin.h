/*-------------------------------------------------------------------------
 *
 * commit_origin.h
 *	  The replication origin of the process that commits.
 *
 * The progress of pg_<subid> must move exactly with the commit of what was
 * applied.  The server moves it when a transaction ends while the session's
 * origin LSN is set, whatever that transaction did and, from 16 on, also when
 * it aborts.  So the LSN is set only between the last trigger of a commit and
 * its WAL record, and never at any other time.
 *
 * States, kept by this module alone:
 *	none		no origin id: nothing written carries the origin
 *	owned		id set and session acquired: every WAL record carries the id
 *	armed		owned, and the commit that follows moves the progress
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_COMMIT_ORIGIN_H
#define PPA_COMMIT_ORIGIN_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "datatype/timestamp.h"

/*
 * Take over the origin that this process has acquired (state: owned).
 * Registers a transaction callback and an exit callback; once per process.
 */
extern void ppa_origin_adopt(void);

/* The next commit moves the progress to end_lsn (state: armed). */
extern void ppa_origin_arm(XLogRecPtr end_lsn, TimestampTz commit_time);

/* After an abort that we go on from: back from none to owned. */
extern void ppa_origin_resume(void);

/*
 * Drop the origin before an abort, so that neither it nor any later commit of
 * the error handling moves the progress (state: none).  Safe anywhere.
 */
extern void ppa_origin_drop(void);

#endif							/* PPA_COMMIT_ORIGIN_H */
