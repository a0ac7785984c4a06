/*-------------------------------------------------------------------------
 *
 * server_errctx.h
 *	  Error context of the change being applied.
 *
 * The text is the built-in apply worker's: users' tools read the remote
 * transaction and its finish LSN from it (ALTER SUBSCRIPTION ... SKIP).
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_SERVER_ERRCTX_H
#define PPA_SERVER_ERRCTX_H

#include "postgres.h"

#include "access/xlogdefs.h"

struct PpaRemoteRel;

typedef struct PpaErrContext
{
	char		message_type;	/* 0: nothing is being processed */
	const struct PpaRemoteRel *rel; /* target relation, or NULL */
	int			column;			/* remote column being converted, or -1 */
	TransactionId xid;			/* remote transaction */
	XLogRecPtr	finish_lsn;		/* LSN of its commit record */
	char		origin_name[NAMEDATALEN];
} PpaErrContext;

/* The context of this process: one, as there is one change at a time. */
extern PpaErrContext ppa_errctx;

static inline void
ppa_errctx_set_transaction(TransactionId xid, XLogRecPtr finish_lsn)
{
	ppa_errctx.xid = xid;
	ppa_errctx.finish_lsn = finish_lsn;
}

/* Nothing is being processed any more. */
extern void ppa_errctx_reset(void);

/* The ErrorContextCallback function. */
extern void ppa_errctx_callback(void *arg);

#endif							/* PPA_SERVER_ERRCTX_H */
