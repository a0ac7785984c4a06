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

typedef struct PpaBatch
{
	StringInfoData bytes;		/* messages, each behind its length (int32, native) */
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

/* Bytes of the open transaction. */
static inline int
ppa_batch_open_bytes(const PpaBatch *batch)
{
	return batch->is_open ? batch->bytes.len - batch->open.start : 0;
}

/* Drop the members; the open transaction stays. */
extern void ppa_batch_drop_members(PpaBatch *batch);

/* Drop the messages of the open transaction, which have been applied. */
extern void ppa_batch_drop_messages(PpaBatch *batch);

/* Drop everything. */
extern void ppa_batch_reset(PpaBatch *batch);

/*
 * The message at *pos, which moves behind it; false at "end".  The result
 * points into the batch.
 */
extern bool ppa_batch_next(const PpaBatch *batch, int *pos, int end,
						   const char **message, int *len);

#endif							/* PPA_SERVER_BATCH_H */
