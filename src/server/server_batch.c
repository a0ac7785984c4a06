/*-------------------------------------------------------------------------
 *
 * server_batch.c
 *	  Complete remote transactions on their way from the leader to apply.
 *
 * Runs in:	the leader.
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
	int32		len32 = len;

	Assert(batch->is_open);
	appendBinaryStringInfoNT(&batch->bytes, (const char *) &len32, sizeof(len32));
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
	if (batch->nmembers == batch->capacity)
	{
		batch->capacity *= 2;
		batch->members = repalloc(batch->members, sizeof(PpaMember) * batch->capacity);
	}
	batch->members[batch->nmembers++] = batch->open;
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
ppa_batch_reset(PpaBatch *batch)
{
	batch->is_open = false;
	ppa_batch_drop_members(batch);
}

bool
ppa_batch_next(const PpaBatch *batch, int *pos, int end, const char **message, int *len)
{
	int32		len32;

	if (*pos >= end)
		return false;
	memcpy(&len32, batch->bytes.data + *pos, sizeof(len32));
	*message = batch->bytes.data + *pos + sizeof(len32);
	*len = len32;
	*pos += sizeof(len32) + len32;
	return true;
}
