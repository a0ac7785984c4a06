/*-------------------------------------------------------------------------
 *
 * receive_stream.h
 *	  The connection to the publisher, below the server's transport table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_RECEIVE_STREAM_H
#define PPA_RECEIVE_STREAM_H

#include "postgres.h"

#include "replication/walreceiver.h"
#include "storage/latch.h"

typedef struct PpaStream
{
	const WalReceiverFunctionsType *transport;	/* the one that we wrap */
	WalReceiverConn *conn;
	pgsocket	socket;			/* known once the input has run dry */
	WaitEventSet *wait_set;		/* that socket, the latch, the postmaster's death */
	int			frames;			/* read since the last wait or nap */
	bool		broken;			/* sending has failed: reading will say why */
} PpaStream;

/*
 * Read a frame without waiting.  Returns its length, 0 if there is none yet,
 * -1 at the end of the stream.  *buf is valid until the next call.
 */
extern int	ppa_stream_receive(PpaStream *stream, char **buf);

/* Send a message; throws what the transport throws. */
extern void ppa_stream_send(PpaStream *stream, const char *buf, int len);

/*
 * The same where nothing may be thrown and nothing waited for: skipped when
 * the connection is broken or does not take it at once.
 */
extern void ppa_stream_try_send(PpaStream *stream, const char *buf, int len);

/*
 * Is data flowing, so that more will be there in a moment?  Then
 * ppa_stream_nap() for that moment costs less than being woken by it, and the
 * publisher need not wake us message by message.
 */
extern bool ppa_stream_is_flowing(const PpaStream *stream);
extern void ppa_stream_nap(PpaStream *stream);

/*
 * Wait for data, the latch or a timeout (in ms).  Returns WL_* events; exits
 * if the postmaster dies.
 */
extern int	ppa_stream_wait(PpaStream *stream, long timeout);

/* Say good-bye after the end of the stream. */
extern void ppa_stream_end(PpaStream *stream);

#endif							/* PPA_RECEIVE_STREAM_H */
