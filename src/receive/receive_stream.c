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
#include "server/server_compat.h"

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

/* The latch, the postmaster's death, the socket. */
#define WAIT_EVENTS 3

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

/*
 * Made once: WaitLatchOrSocket() makes one for each wait, which is half of the
 * cost of waiting.  The socket is the same as long as the connection.
 */
static WaitEventSet *
make_wait_set(pgsocket socket)
{
	WaitEventSet *set = ppa_create_wait_set(WAIT_EVENTS);

	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	AddWaitEventToSet(set, WL_SOCKET_READABLE, socket, NULL, NULL);
	return set;
}

int
ppa_stream_wait(PpaStream *stream, long timeout)
{
	WaitEvent	occurred[WAIT_EVENTS];
	int			n;
	int			events = 0;

	stream->frames = 0;
	if (stream->wait_set == NULL)
		stream->wait_set = make_wait_set(stream->socket);
	n = WaitEventSetWait(stream->wait_set, timeout, occurred, WAIT_EVENTS,
						 WAIT_EVENT_LOGICAL_APPLY_MAIN);
	for (int i = 0; i < n; i++)
		events |= occurred[i].events;
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
