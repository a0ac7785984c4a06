/*-------------------------------------------------------------------------
 *
 * schedule_serial.c
 *	  The leader in serial mode: it applies what it has received.
 *
 * Remote transactions are collected whole in a batch and applied when no more
 * can be read without waiting, or when there are enough of them.  One that
 * grows above pg_parallel_apply.group_bytes is applied while it arrives
 * ("direct").
 *
 * Runs in:	the leader.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "utils/timestamp.h"

#include "schedule/schedule_state.h"
#include "server/server_errctx.h"
#include "server/server_guc.h"
#include "server/server_subscription.h"

/* Show what is pending, after something was applied. */
static void
report_pending(PpaLeader *l)
{
	if (l->slot == NULL)
		return;
	pg_atomic_write_u64(&l->slot->oldest_pending,
						l->batch->is_open ? l->batch->open.commit_time : 0);
	pg_atomic_write_u64(&l->slot->flushed_lsn, ppa_feedback_flushed_lsn(l->feedback));
	ppa_leader_set_state(l, l->batch->is_open ? PPA_SUB_RECEIVING : PPA_SUB_IDLE);
}

static void
begin_applying(PpaLeader *l)
{
	ppa_leader_notice(l);
	pgstat_report_activity(STATE_RUNNING, NULL);
	ppa_leader_set_state(l, PPA_SUB_APPLYING);
}

static void
finish_applying(PpaLeader *l)
{
	pgstat_report_activity(STATE_IDLE, NULL);
	l->last_active = GetCurrentTimestamp();
	report_pending(l);
	ppa_feedback_send(l->feedback, PPA_FEEDBACK_RELAXED, ppa_leader_is_busy(l), false);
	ppa_leader_sync_tables(l, l->last_end);
}

/* Apply the complete transactions of the batch, if any. */
void
ppa_serial_mode_push(PpaLeader *l)
{
	if (l->batch->nmembers == 0)
		return;
	begin_applying(l);
	ppa_serial_apply_batch(l->serial, l->batch);
	ppa_batch_drop_members(l->batch);
	l->naps = 0;
	finish_applying(l);
}

/* The open transaction is large: apply what is there of it, and go on so. */
static void
start_direct(PpaLeader *l)
{
	PpaBatchEntry entry;
	const char *message;
	int			end;

	ppa_serial_mode_push(l);
	begin_applying(l);
	l->direct = true;
	ppa_serial_begin(l->serial, &l->batch->open);
	end = l->batch->bytes.len;
	for (int pos = l->batch->open.start; ppa_batch_next(l->batch, &pos, end, &message, &entry);)
	{
		CHECK_FOR_INTERRUPTS();
		ppa_serial_message(l->serial, message, entry.len);
	}
	ppa_batch_drop_messages(l->batch);
}

/* Parallel mode, if it comes, needs the description too. */
static void
learn_relation(PpaLeader *l, const char *message, int len)
{
	PpaRelationMessage relation;
	PpaWireError err;

	if (ppa_wire_relation(message, len, &relation, &err))
		(void) ppa_relviews_learn(l->views, message, len, &relation);
}

void
ppa_serial_mode_change(PpaLeader *l, const char *message, int len)
{
	if (message[0] == PPA_MSG_RELATION)
		learn_relation(l, message, len);
	if (!l->direct && ppa_batch_open_bytes(l->batch) + len > ppa_guc_group_bytes * 1024)
	{
		ppa_errctx_reset();
		start_direct(l);
	}
	if (!l->direct)
	{
		ppa_batch_append(l->batch, message, len);
		return;
	}
	ppa_errctx.message_type = 0;
	ppa_serial_message(l->serial, message, len);
	/* a large transaction must not keep DISABLE waiting */
	ppa_subscription_reread();
}

void
ppa_serial_mode_commit(PpaLeader *l)
{
	PpaBatch   *batch = l->batch;

	if (l->direct)
	{
		ppa_serial_commit(l->serial, &batch->members[batch->nmembers - 1]);
		l->direct = false;
		ppa_batch_reset(batch);
		finish_applying(l);
	}
	else if (batch->nmembers >= ppa_guc_group_transactions ||
			 batch->bytes.len >= ppa_guc_group_bytes * 1024)
		ppa_serial_mode_push(l);
}
