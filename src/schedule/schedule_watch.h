/*-------------------------------------------------------------------------
 *
 * schedule_watch.h
 *	  What the head of the line waits for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_SCHEDULE_WATCH_H
#define PPA_SCHEDULE_WATCH_H

#include "server/server_shared.h"

/* Does the worker wait for a heavyweight lock? */
extern bool ppa_watch_waits(const PpaSharedWorker *worker);

/*
 * A later group than "head" that the worker waits for, directly or through
 * other sessions, as pg_blocking_pids() sees it; 0 if there is none.
 */
extern uint64 ppa_watch_blocker(PpaShared *shared, const PpaSharedWorker *worker, uint64 head);

#endif							/* PPA_SCHEDULE_WATCH_H */
