/*-------------------------------------------------------------------------
 *
 * apply_parallel_input.c
 *	  What comes from the leader: groups and their bytes.
 *
 * Owns:	the groups that the leader has given to this worker, with their bytes
 *			until they have committed.
 * Runs in:	the apply workers.
 * Memory:	a group's batch is used again by the next one in its place.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "storage/ipc.h"
#include "utils/memutils.h"

#include "apply/apply_parallel_state.h"

static PpaHeldGroup *
find_group(PpaProcess *p, uint64 number)
{
	for (uint32 i = 0; i < p->groups_end; i++)
	{
		if (p->groups[i].number == number)
			return &p->groups[i];
	}
	elog(ERROR, "apply worker has no group " UINT64_FORMAT, number);
	return NULL;
}

PpaHeldGroup *
ppa_held_lowest(PpaProcess *p)
{
	PpaHeldGroup *lowest = NULL;

	for (uint32 i = 0; i < p->groups_end; i++)
	{
		PpaHeldGroup *g = &p->groups[i];

		if (g->number != 0 && (lowest == NULL || g->number < lowest->number))
			lowest = g;
	}
	return lowest;
}

void
ppa_held_drop(PpaProcess *p, PpaHeldGroup *g)
{
	ppa_batch_reset(g->batch);
	g->number = 0;
	while (p->groups_end > 0 && p->groups[p->groups_end - 1].number == 0)
		p->groups_end--;
}

/* The first free place, so that buffers are used again. */
static PpaHeldGroup *
free_place(PpaProcess *p)
{
	for (uint32 i = 0; i < p->groups_end; i++)
	{
		if (p->groups[i].number == 0)
			return &p->groups[i];
	}
	Assert(p->groups_end < p->shared->ngroups);
	return &p->groups[p->groups_end++];
}

static PpaHeldGroup *
enter_group(PpaProcess *p, const PpaQueueHeader *header)
{
	PpaHeldGroup *g = free_place(p);
	PpaBatch   *batch = g->batch;

	if (batch == NULL)
		batch = ppa_batch_create(p->cxt);
	*g = (PpaHeldGroup)
	{
		.number = header->group,
		.batch = batch,
		.alone = header->alone,
		.failed = header->moved,
		.done = header->done,
		/* where another worker has committed its first members is not known any more */
		.local_lsn = header->done > 0 ? GetXLogInsertEndRecPtr() : InvalidXLogRecPtr,
		.unretain_at = -1
	};
	return g;
}

static void
append_messages(PpaHeldGroup *g, const char *payload, Size len)
{
	appendBinaryStringInfoNT(&g->batch->bytes, payload, len);
}

static void
handle_message(PpaProcess *p, const char *message, Size size)
{
	PpaQueueHeader header;
	const char *members;
	const char *payload;
	Size		len;
	PpaHeldGroup *g;

	ppa_queue_parse(message, size, &header, &members, &payload, &len);
	switch ((PpaQueueType) header.type)
	{
		case PPA_QUEUE_RELATION:
			/* not part of what is being applied: never to be rewound */
			ppa_worker_learn_relation(p->w, payload, len);
			break;
		case PPA_QUEUE_GROUP:
			g = enter_group(p, &header);
			ppa_batch_set_members(g->batch, members, header.nmembers);
			append_messages(g, payload, len);
			g->complete = true;
			break;
		case PPA_QUEUE_OPEN:
			g = enter_group(p, &header);
			ppa_batch_set_members(g->batch, members, header.nmembers);
			append_messages(g, payload, len);
			break;
		case PPA_QUEUE_DATA:
			append_messages(find_group(p, header.group), payload, len);
			break;
		case PPA_QUEUE_UNRETAIN:
			g = find_group(p, header.group);
			g->unretain_at = g->batch->bytes.len;
			break;
		case PPA_QUEUE_CLOSE:
			g = find_group(p, header.group);
			ppa_batch_set_members(g->batch, members, header.nmembers);
			g->complete = true;
			break;
	}
}

bool
ppa_held_read(PpaProcess *p)
{
	bool		read = false;

	for (;;)
	{
		void	   *data;
		Size		size;
		MemoryContext oldcxt = MemoryContextSwitchTo(p->cxt);
		shm_mq_result result = shm_mq_receive(p->pool->queue, &size, &data, true);

		MemoryContextSwitchTo(oldcxt);
		if (result == SHM_MQ_DETACHED)
			proc_exit(0);		/* the leader is gone, and has waited for us */
		if (result == SHM_MQ_WOULD_BLOCK)
			return read;
		handle_message(p, data, size);
		read = true;
	}
}

void
ppa_held_keep_relations(PpaProcess *p, const PpaHeldGroup *g)
{
	PpaBatchEntry entry;
	const char *message;

	for (int pos = 0; ppa_batch_next(g->batch, &pos, g->batch->bytes.len, &message, &entry);)
	{
		if (message[0] == PPA_MSG_RELATION)
			ppa_worker_learn_relation(p->w, message, entry.len);
	}
}
