/*-------------------------------------------------------------------------
 *
 * receive_feedback.c
 *	  What we tell the publisher: how far we have received, applied, flushed.
 *
 * Owns:	the map from remote to local LSNs, and the positions reported.
 * Runs in:	the leader.
 * Memory:	one ring of positions that grows to the most commits that were ever
 *			unflushed at once.
 *
 * Invariant F1: the flush position never passes a remote transaction whose
 *			local commit record is not flushed.
 * Invariant F2: positions never go back.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "libpq/pqformat.h"
#include "replication/walreceiver.h"
#include "utils/timestamp.h"

#include "receive/receive_feedback.h"
#include "server/server_compat.h"

/* While data flows, one status message per 100 ms is enough for anybody. */
#define RELAXED_INTERVAL_MS 100

/* A local commit, and the remote position that is flushed with it. */
typedef struct FlushPosition
{
	XLogRecPtr	local_lsn;
	XLogRecPtr	remote_lsn;
} FlushPosition;

struct PpaFeedback
{
	PpaStream  *stream;
	MemoryContext cxt;
	StringInfoData message;

	FlushPosition *ring;		/* unflushed commits, oldest at "first" */
	int			first;
	int			count;
	int			capacity;

	XLogRecPtr	received;
	XLogRecPtr	applied;		/* all up to here is applied */
	XLogRecPtr	flushed;		/* ... and flushed */

	/* as reported last */
	XLogRecPtr	sent_received;
	XLogRecPtr	sent_applied;
	XLogRecPtr	sent_flushed;
	TimestampTz sent_time;
};

PpaFeedback *
ppa_feedback_create(MemoryContext cxt, PpaStream *stream, XLogRecPtr start)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	PpaFeedback *fb = palloc0(sizeof(PpaFeedback));

	fb->stream = stream;
	fb->cxt = cxt;
	fb->received = fb->applied = fb->flushed = start;
	initStringInfo(&fb->message);
	fb->capacity = 64;
	fb->ring = palloc(sizeof(FlushPosition) * fb->capacity);
	MemoryContextSwitchTo(oldcxt);
	return fb;
}

void
ppa_feedback_received(PpaFeedback *fb, XLogRecPtr lsn)
{
	fb->received = Max(fb->received, lsn);
}

XLogRecPtr
ppa_feedback_received_lsn(const PpaFeedback *fb)
{
	return fb->received;
}

XLogRecPtr
ppa_feedback_flushed_lsn(const PpaFeedback *fb)
{
	return fb->sent_flushed;
}

static FlushPosition *
ring_at(PpaFeedback *fb, int i)
{
	return &fb->ring[(fb->first + i) % fb->capacity];
}

static void
grow_ring(PpaFeedback *fb)
{
	FlushPosition *ring = MemoryContextAlloc(fb->cxt,
											 sizeof(FlushPosition) * fb->capacity * 2);

	for (int i = 0; i < fb->count; i++)
		ring[i] = *ring_at(fb, i);
	pfree(fb->ring);
	fb->ring = ring;
	fb->first = 0;
	fb->capacity *= 2;
}

void
ppa_feedback_applied(PpaFeedback *fb, XLogRecPtr remote_lsn, XLogRecPtr local_lsn)
{
	fb->applied = Max(fb->applied, remote_lsn);
	if (XLogRecPtrIsInvalid(local_lsn))
	{
		/* nothing written: as durable as what came before */
		if (fb->count > 0)
			ring_at(fb, fb->count - 1)->remote_lsn = remote_lsn;
		else
			fb->flushed = Max(fb->flushed, remote_lsn);
		return;
	}
	if (fb->count == fb->capacity)
		grow_ring(fb);
	/* who only cleans pages and changes nothing may have done so before others commit */
	if (fb->count > 0)
		local_lsn = Max(local_lsn, ring_at(fb, fb->count - 1)->local_lsn);
	fb->count++;
	*ring_at(fb, fb->count - 1) = (FlushPosition)
	{
		.local_lsn = local_lsn,
		.remote_lsn = remote_lsn
	};
}

/* Move the flush position as far as the local WAL is flushed. */
static void
settle_flushed(PpaFeedback *fb)
{
	XLogRecPtr	local_flush;

	if (fb->count == 0)
		return;
	local_flush = GetFlushRecPtr(NULL);
	while (fb->count > 0 && ring_at(fb, 0)->local_lsn <= local_flush)
	{
		fb->flushed = ring_at(fb, 0)->remote_lsn;
		fb->first = (fb->first + 1) % fb->capacity;
		fb->count--;
	}
}

bool
ppa_feedback_has_unflushed(PpaFeedback *fb)
{
	settle_flushed(fb);
	return fb->count > 0;
}

void
ppa_feedback_flush(PpaFeedback *fb)
{
	if (fb->count > 0)
		XLogFlush(ring_at(fb, fb->count - 1)->local_lsn);
}

/* The positions to report: what is true, and never less than before. */
static void
note_sent(PpaFeedback *fb)
{
	fb->sent_received = Max(fb->sent_received, fb->received);
	fb->sent_applied = Max(fb->sent_applied, fb->applied);
	fb->sent_flushed = Max(fb->sent_flushed, fb->flushed);
}

/* Build a status message, and remember when. */
static void
write_message(PpaFeedback *fb, TimestampTz now, bool request_reply)
{
	resetStringInfo(&fb->message);
	pq_sendbyte(&fb->message, 'r');
	pq_sendint64(&fb->message, fb->sent_received);
	pq_sendint64(&fb->message, fb->sent_flushed);
	pq_sendint64(&fb->message, fb->sent_applied);
	pq_sendint64(&fb->message, now);
	pq_sendbyte(&fb->message, request_reply);
	fb->sent_time = now;
}

void
ppa_feedback_send(PpaFeedback *fb, PpaFeedbackWhen when, bool busy, bool request_reply)
{
	bool		moved;
	TimestampTz now;

	if (when != PPA_FEEDBACK_FORCED && wal_receiver_status_interval <= 0)
		return;
	now = GetCurrentTimestamp();
	if (when == PPA_FEEDBACK_RELAXED &&
		!TimestampDifferenceExceeds(fb->sent_time, now, RELAXED_INTERVAL_MS))
		return;

	settle_flushed(fb);
	if (!busy)
	{
		fb->applied = fb->received;
		if (fb->count == 0)
			fb->flushed = fb->received;
	}
	moved = fb->applied > fb->sent_applied || fb->flushed > fb->sent_flushed;
	if (when != PPA_FEEDBACK_FORCED && !moved &&
		!TimestampDifferenceExceeds(fb->sent_time, now, wal_receiver_status_interval * 1000))
		return;

	note_sent(fb);
	write_message(fb, now, request_reply);
	elog(DEBUG2, "sending feedback (force %d) to recv " PPA_LSN_FMT ", write " PPA_LSN_FMT
		 ", flush " PPA_LSN_FMT,
		 when == PPA_FEEDBACK_FORCED, LSN_FORMAT_ARGS(fb->sent_received),
		 LSN_FORMAT_ARGS(fb->sent_applied), LSN_FORMAT_ARGS(fb->sent_flushed));
	ppa_stream_send(fb->stream, fb->message.data, fb->message.len);
}

void
ppa_feedback_still_alive(PpaFeedback *fb)
{
	settle_flushed(fb);
	note_sent(fb);
	write_message(fb, GetCurrentTimestamp(), false);
	ppa_stream_try_send(fb->stream, fb->message.data, fb->message.len);
}
