/*-------------------------------------------------------------------------
 *
 * server_batch.h
 *	  Complete remote transactions on their way from the leader to apply.
 *
 * The messages are kept as they came, so that they can be applied again one
 * by one after an error.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_SERVER_BATCH_H
#define PPA_SERVER_BATCH_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
#include "lib/stringinfo.h"

/* One remote transaction. */
typedef struct PpaMember
{
	int			start;			/* its messages are bytes [start, end) of the batch */
	int			end;
	TransactionId xid;
	XLogRecPtr	final_lsn;		/* LSN of its commit record */
	XLogRecPtr	end_lsn;		/* LSN behind it */
	TimestampTz commit_time;
} PpaMember;

/* Of PpaBatchEntry.flags. */
#define PPA_ENTRY_SKIP 1		/* its table is not synchronised yet: not to be applied */
#define PPA_ENTRY_UNDECIDED 2	/* the leader found no table: whoever finds one decides that */

/* What stands in front of each message. */
typedef struct PpaBatchEntry
{
	int32		len;			/* of the message */
	uint32		flags;
	uint64		wait_for;		/* group that must have committed before; 0: none */
} PpaBatchEntry;

typedef struct PpaBatch
{
	StringInfoData bytes;		/* messages, each behind its PpaBatchEntry, not aligned */
	int			nmembers;		/* complete transactions */
	int			capacity;
	PpaMember  *members;
	PpaMember	open;			/* the transaction being received */
	bool		is_open;
} PpaBatch;

/* An empty batch; its memory grows in "cxt" to the largest batch seen. */
extern PpaBatch *ppa_batch_create(MemoryContext cxt);

/* BEGIN has been read. */
extern void ppa_batch_begin(PpaBatch *batch, TransactionId xid, XLogRecPtr final_lsn,
							TimestampTz commit_time);

/* A message of the open transaction. */
extern void ppa_batch_append(PpaBatch *batch, const char *message, int len);

/* COMMIT has been read: the open transaction becomes a member. */
extern void ppa_batch_commit(PpaBatch *batch, XLogRecPtr end_lsn, TimestampTz commit_time);

/* Bytes of the open transaction, those of the entries with them. */
static inline int
ppa_batch_open_bytes(const PpaBatch *batch)
{
	return batch->is_open ? batch->bytes.len - batch->open.start : 0;
}

/* Drop the members; the open transaction stays. */
extern void ppa_batch_drop_members(PpaBatch *batch);

/* Drop the messages of the open transaction, which have been applied. */
extern void ppa_batch_drop_messages(PpaBatch *batch);

/* Drop all messages; the members stay. */
extern void ppa_batch_drop_bytes(PpaBatch *batch);

/* Let the members be these, which need not be aligned. */
extern void ppa_batch_set_members(PpaBatch *batch, const char *members, int nmembers);

/* Drop everything. */
extern void ppa_batch_reset(PpaBatch *batch);

/*
 * Move all members but the first "nmembers", and the open transaction, to an
 * empty batch.
 */
extern void ppa_batch_split(PpaBatch *batch, int nmembers, PpaBatch *rest);

/*
 * The message at *pos, which moves behind it; false at "end".  The message
 * points into the batch.
 */
extern bool ppa_batch_next(const PpaBatch *batch, int *pos, int end,
						   const char **message, PpaBatchEntry *entry);

/* Write the entry of the message that starts at "message" anew. */
extern void ppa_batch_set_entry(const char *message, const PpaBatchEntry *entry);

#endif							/* PPA_SERVER_BATCH_H */
