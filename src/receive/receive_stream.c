/*-------------------------------------------------------------------------
 *
 * receive_stream.c
 *	  The connection to the publisher, below the server's transport table.
 *
 * Runs in:	the leader.
 * Memory:	frames belong to the transport.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <poll.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "utils/memutils.h"

#include "receive/receive_stream.h"

/*
 * Three small transactions since the last wait: then the publisher has more
 * than it sends at a time.  A single transaction, on a quiet system, is
 * never worth a nap.
 */
#define FLOWING_FRAMES 9

/*
 * The publisher decodes a small transaction in about 17 us; a nap of half a
 * millisecond collects thirty.  WaitLatch() resolves only milliseconds.
 */
#define NAP_US 500

int
ppa_stream_receive(PpaStream *stream, char **buf)
{
	int			len = (stream->transport->walrcv_receive) (stream->conn, buf, &stream->socket);

	if (len > 0)
		stream->frames++;
	return len;
}

void
ppa_stream_send(PpaStream *stream, const char *buf, int len)
{
	if (!stream->broken)
		(stream->transport->walrcv_send) (stream->conn, buf, len);
}

void
ppa_stream_try_send(PpaStream *stream, const char *buf, int len)
{
	struct pollfd pfd = {.fd = stream->socket,.events = POLLOUT};
	MemoryContext oldcxt = CurrentMemoryContext;
	uint32		holdoff = InterruptHoldoffCount;
	uint32		cancel_holdoff = QueryCancelHoldoffCount;

	if (stream->broken)
		return;
	/* not known before the input has run dry for the first time */
	if (stream->socket != PGINVALID_SOCKET &&
		(poll(&pfd, 1, 0) != 1 || !(pfd.revents & POLLOUT)))
		return;
	PG_TRY();
	{
		ppa_stream_send(stream, buf, len);
	}
	PG_CATCH();
	{
		/* throwing has reset what our caller may hold, a signal handler say */
		InterruptHoldoffCount = holdoff;
		QueryCancelHoldoffCount = cancel_holdoff;
		MemoryContextSwitchTo(oldcxt);
		FlushErrorState();
		stream->broken = true;
	}
	PG_END_TRY();
}

bool
ppa_stream_is_flowing(const PpaStream *stream)
{
	return stream->frames >= FLOWING_FRAMES;
}

void
ppa_stream_nap(PpaStream *stream)
{
	stream->frames = 0;
	/* unlike WaitLatch() it does not see the postmaster die */
	if (!PostmasterIsAlive())
		proc_exit(1);
	/* returns early at a signal */
	pg_usleep(NAP_US);
}

int
ppa_stream_wait(PpaStream *stream, long timeout)
{
	int			events;

	stream->frames = 0;
	events = WaitLatchOrSocket(MyLatch,
							   WL_SOCKET_READABLE | WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
							   stream->socket, timeout, WAIT_EVENT_LOGICAL_APPLY_MAIN);
	if (events & WL_LATCH_SET)
	{
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return events;
}

void
ppa_stream_end(PpaStream *stream)
{
	TimeLineID	tli;

	(stream->transport->walrcv_endstreaming) (stream->conn, &tli);
}
