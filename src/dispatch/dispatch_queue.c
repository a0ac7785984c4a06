/*-------------------------------------------------------------------------
 *
 * dispatch_queue.c
 *	  What travels in the queue from the leader to a worker.
 *
 * Runs in:	the leader (outbox), the apply workers (parsing).
 * Memory:	what waits in an outbox is allocated in its context.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "dispatch/dispatch_queue.h"

typedef struct OutItem
{
	slist_node	node;
	Size		head_len;		/* bytes in "head" */
	const char *payload;		/* somewhere else, or behind the head */
	Size		len;
	char		head[FLEXIBLE_ARRAY_MEMBER];	/* header and members */
} OutItem;

void
ppa_outbox_init(PpaOutbox *box, MemoryContext cxt, shm_mq_handle *queue)
{
	*box = (PpaOutbox)
	{
		.cxt = cxt,
		.queue = queue
	};
	slist_init(&box->items);
}

void
ppa_outbox_reset(PpaOutbox *box)
{
	while (!slist_is_empty(&box->items))
		pfree(slist_container(OutItem, node, slist_pop_head_node(&box->items)));
	box->last = NULL;
	box->bytes = 0;
	box->queue = NULL;
}

void
ppa_outbox_put(PpaOutbox *box, const PpaQueueHeader *header, const PpaMember *members,
			   const char *payload, Size len, bool copy)
{
	Size		members_len = sizeof(PpaMember) * header->nmembers;
	Size		head_len = sizeof(PpaQueueHeader) + members_len;
	OutItem    *item = MemoryContextAllocHuge(box->cxt, offsetof(OutItem, head) + head_len +
											  (copy ? len : 0));

	item->head_len = head_len;
	memcpy(item->head, header, sizeof(PpaQueueHeader));
	if (members_len > 0)
		memcpy(item->head + sizeof(PpaQueueHeader), members, members_len);
	if (copy && len > 0)
		memcpy(item->head + head_len, payload, len);
	item->payload = copy ? item->head + head_len : payload;
	item->len = len;

	if (slist_is_empty(&box->items))
		slist_push_head(&box->items, &item->node);
	else
		slist_insert_after(box->last, &item->node);
	box->last = &item->node;
	box->bytes += head_len + len;
	(void) ppa_outbox_pump(box);
}

bool
ppa_outbox_pump(PpaOutbox *box)
{
	while (!slist_is_empty(&box->items))
	{
		OutItem    *item = slist_head_element(OutItem, node, &box->items);
		shm_mq_iovec iov[2] = {
			{.data = item->head,.len = item->head_len},
			{.data = item->payload,.len = item->len}
		};

		/* A busy worker's latch is set already or not slept on: the flush costs little. */
		switch (shm_mq_sendv(box->queue, iov, 2, true, true))
		{
			case SHM_MQ_SUCCESS:
				break;
			case SHM_MQ_WOULD_BLOCK:
				return true;
			case SHM_MQ_DETACHED:
				return false;
		}
		box->bytes -= item->head_len + item->len;
		slist_pop_head_node(&box->items);
		pfree(item);
	}
	return true;
}

void
ppa_queue_parse(const char *message, Size size, PpaQueueHeader *header,
				const char **members, const char **payload, Size *len)
{
	Size		head_len = sizeof(PpaQueueHeader);

	Assert(size >= sizeof(PpaQueueHeader));
	memcpy(header, message, sizeof(PpaQueueHeader));
	*members = message + head_len;
	head_len += sizeof(PpaMember) * header->nmembers;
	Assert(size >= head_len);
	*payload = message + head_len;
	*len = size - head_len;
}
