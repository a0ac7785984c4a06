/*-------------------------------------------------------------------------
 *
 * server_batch.c
 *	  Complete remote transactions on their way from the leader to apply.
 *
 * Runs in:	the leader and the apply workers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "server/server_batch.h"

/* More memory than this is given back. */
#define KEPT_BYTES (1024 * 1024)

PpaBatch *
ppa_batch_create(MemoryContext cxt)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	PpaBatch   *batch = palloc0(sizeof(PpaBatch));

	initStringInfo(&batch->bytes);
	batch->capacity = 128;
	batch->members = palloc(sizeof(PpaMember) * batch->capacity);
	MemoryContextSwitchTo(oldcxt);
	return batch;
}

static void
add_member(PpaBatch *batch, const PpaMember *member)
{
	if (batch->nmembers == batch->capacity)
	{
		batch->capacity *= 2;
		batch->members = repalloc(batch->members, sizeof(PpaMember) * batch->capacity);
	}
	batch->members[batch->nmembers++] = *member;
}

void
ppa_batch_begin(PpaBatch *batch, TransactionId xid, XLogRecPtr final_lsn, TimestampTz commit_time)
{
	Assert(!batch->is_open);
	batch->open = (PpaMember)
	{
		.start = batch->bytes.len,
		.xid = xid,
		.final_lsn = final_lsn,
		.commit_time = commit_time
	};
	batch->is_open = true;
}

void
ppa_batch_append(PpaBatch *batch, const char *message, int len)
{
	PpaBatchEntry entry = {.len = len};

	Assert(batch->is_open);
	appendBinaryStringInfoNT(&batch->bytes, (const char *) &entry, sizeof(entry));
	appendBinaryStringInfoNT(&batch->bytes, message, len);
}

void
ppa_batch_commit(PpaBatch *batch, XLogRecPtr end_lsn, TimestampTz commit_time)
{
	Assert(batch->is_open);
	batch->open.end = batch->bytes.len;
	batch->open.end_lsn = end_lsn;
	batch->open.commit_time = commit_time;
	batch->is_open = false;
	add_member(batch, &batch->open);
}

void
ppa_batch_drop_members(PpaBatch *batch)
{
	int			open_bytes = ppa_batch_open_bytes(batch);

	if (open_bytes == 0 && batch->bytes.maxlen > KEPT_BYTES)
	{
		/* one large row must not cost its memory for ever */
		MemoryContext oldcxt = MemoryContextSwitchTo(GetMemoryChunkContext(batch->bytes.data));

		pfree(batch->bytes.data);
		initStringInfo(&batch->bytes);
		MemoryContextSwitchTo(oldcxt);
	}
	else if (open_bytes > 0)
		memmove(batch->bytes.data, batch->bytes.data + batch->open.start, open_bytes);
	batch->bytes.len = open_bytes;
	batch->open.start = 0;
	batch->nmembers = 0;
}

void
ppa_batch_drop_messages(PpaBatch *batch)
{
	Assert(batch->nmembers == 0);
	resetStringInfo(&batch->bytes);
	batch->open.start = 0;
}

void
ppa_batch_drop_bytes(PpaBatch *batch)
{
	resetStringInfo(&batch->bytes);
}

void
ppa_batch_set_members(PpaBatch *batch, const char *members, int nmembers)
{
	batch->nmembers = 0;
	for (int i = 0; i < nmembers; i++)
	{
		PpaMember	member;

		memcpy(&member, members + sizeof(member) * i, sizeof(member));
		add_member(batch, &member);
	}
}

void
ppa_batch_reset(PpaBatch *batch)
{
	batch->is_open = false;
	ppa_batch_drop_members(batch);
}

void
ppa_batch_split(PpaBatch *batch, int nmembers, PpaBatch *rest)
{
	int			from = nmembers > 0 ? batch->members[nmembers - 1].end : 0;

	Assert(rest->nmembers == 0 && !rest->is_open);
	resetStringInfo(&rest->bytes);
	appendBinaryStringInfoNT(&rest->bytes, batch->bytes.data + from, batch->bytes.len - from);
	for (int i = nmembers; i < batch->nmembers; i++)
	{
		PpaMember	member = batch->members[i];

		member.start -= from;
		member.end -= from;
		add_member(rest, &member);
	}
	rest->open = batch->open;
	rest->open.start -= from;
	rest->is_open = batch->is_open;
	batch->bytes.len = from;
	batch->nmembers = nmembers;
	batch->is_open = false;
}

bool
ppa_batch_next(const PpaBatch *batch, int *pos, int end, const char **message,
			   PpaBatchEntry *entry)
{
	if (*pos >= end)
		return false;
	memcpy(entry, batch->bytes.data + *pos, sizeof(*entry));
	*message = batch->bytes.data + *pos + sizeof(*entry);
	*pos += sizeof(*entry) + entry->len;
	return true;
}

void
ppa_batch_set_entry(const char *message, const PpaBatchEntry *entry)
{
	memcpy(unconstify(char *, message) - sizeof(*entry), entry, sizeof(*entry));
}
