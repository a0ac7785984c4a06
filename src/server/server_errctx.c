/*-------------------------------------------------------------------------
 *
 * server_errctx.c
 *	  Error context of the change being applied.
 *
 * Runs in:	the leader and the apply workers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "replication/logicalproto.h"

#include "server/server_compat.h"
#include "server/server_errctx.h"
#include "server/server_relmap.h"

PpaErrContext ppa_errctx = {.column = -1};

void
ppa_errctx_reset(void)
{
	ppa_errctx.message_type = 0;
	ppa_errctx.rel = NULL;
	ppa_errctx.column = -1;
	ppa_errctx_set_transaction(InvalidTransactionId, InvalidXLogRecPtr);
}

void
ppa_errctx_callback(void *arg)
{
	const PpaErrContext *ctx = &ppa_errctx;
	const char *message;

	if (ctx->message_type == 0)
		return;
	message = logicalrep_message_type(ctx->message_type);

	if (ctx->rel == NULL)
	{
		if (!TransactionIdIsValid(ctx->xid))
			errcontext("processing remote data for replication origin \"%s\" "
					   "during message type \"%s\"",
					   ctx->origin_name, message);
		else if (XLogRecPtrIsInvalid(ctx->finish_lsn))
			errcontext("processing remote data for replication origin \"%s\" "
					   "during message type \"%s\" in transaction %u",
					   ctx->origin_name, message, ctx->xid);
		else
			errcontext("processing remote data for replication origin \"%s\" "
					   "during message type \"%s\" in transaction %u, finished at " PPA_LSN_FMT,
					   ctx->origin_name, message, ctx->xid,
					   LSN_FORMAT_ARGS(ctx->finish_lsn));
	}
	else if (ctx->column < 0)
		errcontext("processing remote data for replication origin \"%s\" "
				   "during message type \"%s\" for replication target relation \"%s.%s\" "
				   "in transaction %u, finished at " PPA_LSN_FMT,
				   ctx->origin_name, message,
				   ctx->rel->nspname, ctx->rel->relname,
				   ctx->xid, LSN_FORMAT_ARGS(ctx->finish_lsn));
	else
		errcontext("processing remote data for replication origin \"%s\" "
				   "during message type \"%s\" for replication target relation \"%s.%s\" "
				   "column \"%s\" in transaction %u, finished at " PPA_LSN_FMT,
				   ctx->origin_name, message,
				   ctx->rel->nspname, ctx->rel->relname,
				   ctx->rel->attnames[ctx->column],
				   ctx->xid, LSN_FORMAT_ARGS(ctx->finish_lsn));
}
