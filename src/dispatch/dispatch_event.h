/*-------------------------------------------------------------------------
 *
 * dispatch_event.h
 *	  What a worker tells the leader, besides what the shared memory shows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_DISPATCH_EVENT_H
#define PPA_DISPATCH_EVENT_H

#include "postgres.h"

#include "core/core_schedule.h"
#include "lib/stringinfo.h"

typedef struct PpaWorkerEvent
{
	PpaScheduleEventType type;	/* PPA_EVENT_MISSED or PPA_EVENT_FAILED */
	uint64		group;
	uint32		relation;		/* OID on the publisher; 0: none */
	PpaFailure	reason;
	bool		retained;		/* its bytes are still there for a retry */
	uint64		progress;		/* remote transactions of it that have committed */
} PpaWorkerEvent;

/* Write an event, and the error (or NULL), to "buf", which is reset. */
extern void ppa_event_write(StringInfo buf, const PpaWorkerEvent *event, const ErrorData *edata);

/* Read it; the error is NULL or allocated in the current context. */
extern void ppa_event_read(const char *message, Size len, PpaWorkerEvent *event, ErrorData **edata);

#endif							/* PPA_DISPATCH_EVENT_H */
