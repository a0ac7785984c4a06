/*-------------------------------------------------------------------------
 *
 * dispatch_queue.h
 *	  What travels in the queue from the leader to a worker.
 *
 * The leader never waits for a queue: what does not fit in stays in an outbox
 * in its own memory.  How much that can be is bounded by the scheduler, which
 * stops the reading of the stream.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_DISPATCH_QUEUE_H
#define PPA_DISPATCH_QUEUE_H

#include "postgres.h"

#include "lib/ilist.h"
#include "storage/shm_mq.h"

#include "server/server_batch.h"

typedef enum PpaQueueType
{
	PPA_QUEUE_RELATION = 'R',	/* a RELATION message that the worker lacks */
	PPA_QUEUE_GROUP = 'G',		/* a complete group: members, then messages with their entries */
	PPA_QUEUE_OPEN = 'O',		/* the beginning of one: its only member, messages so far */
	PPA_QUEUE_DATA = 'D',		/* more messages of it */
	PPA_QUEUE_UNRETAIN = 'U',	/* what was before this place need not be kept for a retry */
	PPA_QUEUE_CLOSE = 'C',		/* its member again, complete */
} PpaQueueType;

typedef struct PpaQueueHeader
{
	uint64		group;
	int32		nmembers;		/* of the PpaMembers that follow */
	int32		done;			/* of them, committed already by the worker that had it */
	char		type;			/* PpaQueueType */
	bool		alone;			/* no later group will have a transaction open meanwhile */
	bool		moved;			/* it was with another worker: it begins with a RETRY */
} PpaQueueHeader;

/* The leader's end. */
typedef struct PpaOutbox
{
	MemoryContext cxt;			/* of what waits */
	shm_mq_handle *queue;
	slist_head	items;			/* oldest first */
	slist_node *last;
	Size		bytes;			/* that wait */
} PpaOutbox;

/* An empty outbox for a queue that has been attached. */
extern void ppa_outbox_init(PpaOutbox *box, MemoryContext cxt, shm_mq_handle *queue);

/* Forget what waits, and the queue. */
extern void ppa_outbox_reset(PpaOutbox *box);

/*
 * Send a message: header, members (header->nmembers of them), payload.  The
 * payload must stay as it is until its group has committed, unless "copy".
 */
extern void ppa_outbox_put(PpaOutbox *box, const PpaQueueHeader *header, const PpaMember *members,
						   const char *payload, Size len, bool copy);

/* Send of what waits as much as fits in.  False: the worker is gone. */
extern bool ppa_outbox_pump(PpaOutbox *box);

/*
 * The worker's end: take a received message apart.  The results point into
 * it; *members need not be aligned, *payload has *len bytes.
 */
extern void ppa_queue_parse(const char *message, Size size, PpaQueueHeader *header,
							const char **members, const char **payload, Size *len);

#endif							/* PPA_DISPATCH_QUEUE_H */
