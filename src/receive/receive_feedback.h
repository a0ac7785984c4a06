/*-------------------------------------------------------------------------
 *
 * receive_feedback.h
 *	  What we tell the publisher: how far we have received, applied, flushed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_RECEIVE_FEEDBACK_H
#define PPA_RECEIVE_FEEDBACK_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "datatype/timestamp.h"

#include "receive/receive_stream.h"

typedef struct PpaFeedback PpaFeedback;

/* When to send a status message. */
typedef enum PpaFeedbackWhen
{
	PPA_FEEDBACK_RELAXED,		/* data is flowing: at intervals, if something moved */
	PPA_FEEDBACK_NOW,			/* if something moved, or the status interval is over */
	PPA_FEEDBACK_FORCED			/* always: the publisher asks */
} PpaFeedbackWhen;

/* All up to "start" is applied and flushed. */
extern PpaFeedback *ppa_feedback_create(MemoryContext cxt, PpaStream *stream, XLogRecPtr start);

/* The publisher has sent up to lsn. */
extern void ppa_feedback_received(PpaFeedback *fb, XLogRecPtr lsn);
extern XLogRecPtr ppa_feedback_received_lsn(const PpaFeedback *fb);

/*
 * All up to remote_lsn is applied, by a local commit that ends at local_lsn
 * (invalid: nothing was written).
 */
extern void ppa_feedback_applied(PpaFeedback *fb, XLogRecPtr remote_lsn, XLogRecPtr local_lsn);

/* Are there local commits that are not flushed? */
extern bool ppa_feedback_has_unflushed(PpaFeedback *fb);

/* Flush them. */
extern void ppa_feedback_flush(PpaFeedback *fb);

/*
 * Send a status message.  "busy" is whether something received is not applied
 * yet: if not, the received position counts as applied and flushed too.
 */
extern void ppa_feedback_send(PpaFeedback *fb, PpaFeedbackWhen when, bool busy,
							  bool request_reply);

/*
 * Send a status message while something is being applied, so that the
 * publisher does not take us for dead.  Throws nothing and allocates nothing:
 * may be called where the process waits for a lock.
 */
extern void ppa_feedback_still_alive(PpaFeedback *fb);

/* The flush position reported last. */
extern XLogRecPtr ppa_feedback_flushed_lsn(const PpaFeedback *fb);

#endif							/* PPA_RECEIVE_FEEDBACK_H */
