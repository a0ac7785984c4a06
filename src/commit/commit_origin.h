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
 *	stamped		id set: every WAL record carries it; the session is acquired only
 *				for the moment of a commit, as the apply workers of a subscription
 *				share one origin
 *	owned		id set and session acquired, for as long as this process lives
 *	armed		stamped or owned, and the commit that follows moves the progress
 *
 * A commit with an id but no acquired session crashes the server (so would an
 * abort from 16 on): while stamped, a commit that is not armed loses the id
 * for its duration.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_COMMIT_ORIGIN_H
#define PPA_COMMIT_ORIGIN_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
#include "replication/origin.h"

/*
 * Take over the origin that this process has acquired (state: owned).
 * Registers a transaction callback and an exit callback; once per process.
 */
extern void ppa_origin_adopt(void);

/* Write with this origin, which others write with too (state: stamped).  Once per process. */
extern void ppa_origin_stamp(RepOriginId id);

/* The origin that was adopted or stamped. */
extern RepOriginId ppa_origin_id(void);

/* The leader, which has adopted it, leaves it to its workers (none), or takes it back (owned). */
extern void ppa_origin_lend(void);
extern void ppa_origin_take_back(void);

/*
 * The next commit moves the progress to end_lsn (state: armed).  While
 * stamped, interrupts are held from that commit on: see
 * ppa_origin_committed(); and it fails if the progress is not "expected"
 * before it: on 15 nothing else keeps somebody from moving it by hand.
 */
extern void ppa_origin_arm(XLogRecPtr end_lsn, TimestampTz commit_time, XLogRecPtr expected);

/*
 * While stamped, the commit was armed and has returned: gives up the session.
 * The caller publishes the commit and only then resumes interrupts.  Returns
 * the progress: a commit that has written nothing does not move it.
 */
extern XLogRecPtr ppa_origin_committed(void);

/* After an abort that we go on from: back from none to owned or stamped. */
extern void ppa_origin_resume(void);

/*
 * Drop the origin before an abort, so that neither it nor any later commit of
 * the error handling moves the progress (state: none).  Safe anywhere.
 */
extern void ppa_origin_drop(void);

#endif							/* PPA_COMMIT_ORIGIN_H */
