/*-------------------------------------------------------------------------
 *
 * apply_serial.c
 *	  Serial apply: the leader applies what it has received, in groups.
 *
 * Runs in:	the leader (serial mode).
 *
 * Error isolation: an error in a local transaction that holds one remote
 * transaction, applied row by row, is thrown as it is; the subscription stops
 * there.  Any other error may be due to the company or to the run: the local
 * transaction is rolled back and its members are applied again one by one,
 * row by row, without a net.  So the good ones before the bad one are
 * committed, and the bad one stops the subscription where, and with what, the
 * built-in worker would have stopped.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "apply/apply_message.h"
#include "apply/apply_serial.h"
#include "server/server_rules.h"

PpaSerial *
ppa_serial_create(MemoryContext parent, PpaSubSlot *slot, const PpaSerialHooks *hooks)
{
	PpaSerial  *serial = MemoryContextAllocZero(parent, sizeof(PpaSerial));

	serial->hooks = hooks;
	serial->w = ppa_worker_create(parent, slot, &hooks->worker);
	return serial;
}

/* Commit the local transaction, if there is one; "last" is the last member in it. */
static void
commit_local(PpaSerial *serial, const PpaMember *last, int transactions)
{
	PpaWorker  *w = serial->w;
	XLogRecPtr	local_lsn = InvalidXLogRecPtr;

	ppa_local_complete(w, last);
	if (w->in_txn)
	{
		local_lsn = ppa_local_commit(w, last, InvalidXLogRecPtr);
		ppa_report_group(w->slot, transactions, &w->counts);
	}
	ppa_local_committed(w);
	serial->hooks->applied(serial->hooks->worker.arg, last->end_lsn, local_lsn);
}

static PpaTxnFacts
learn_member(PpaWorker *w, const PpaBatch *batch, const PpaMember *member)
{
	PpaTxnFacts facts = {.bytes = member->end - member->start};
	const char *message;
	PpaBatchEntry entry;

	for (int pos = member->start; ppa_batch_next(batch, &pos, member->end, &message, &entry);)
		ppa_learn_facts(w, message, entry.len, &facts);
	return facts;
}

static void
run_member(PpaWorker *w, const PpaBatch *batch, const PpaMember *member)
{
	const char *message;
	PpaBatchEntry entry;

	ppa_worker_begin_member(w, member);
	for (int pos = member->start; ppa_batch_next(batch, &pos, member->end, &message, &entry);)
	{
		CHECK_FOR_INTERRUPTS();
		ppa_worker_tick(w);
		ppa_apply_message(w, message, entry.len);
	}
}

/*
 * Apply members [*done, end) without catching errors.  *done moves on with
 * every commit.
 */
static void
run_members(PpaSerial *serial, const PpaBatch *batch, volatile int *done, int end)
{
	PpaWorker  *w = serial->w;
	PpaGroup	group = {0};

	for (int i = *done; i < end; i++)
	{
		const PpaMember *member = &batch->members[i];
		PpaGroupRules rules = ppa_rules_now();
		PpaTxnFacts facts = learn_member(w, batch, member);

		if (!ppa_group_admits(&rules, &group, &facts))
		{
			commit_local(serial, member - 1, group.transactions);
			*done = i;
			group = (PpaGroup) {0};
		}
		w->members = group.transactions + 1;
		run_member(w, batch, member);
		facts.solo |= w->solo;
		ppa_group_add(&rules, &group, &facts);
		if (ppa_group_is_full(&rules, &group) || i == end - 1)
		{
			commit_local(serial, member, group.transactions);
			*done = i + 1;
			group = (PpaGroup) {0};
		}
	}
}

/*
 * In PG_CATCH: is the error that of one remote transaction, as the built-in
 * worker would have it?
 */
static bool
is_verdict(PpaWorker *w)
{
	if (w->row_by_row || geterrcode() == ERRCODE_QUERY_CANCELED)
		return true;
	return w->members == 1 && !w->batched && geterrcode() != PPA_ERRCODE_REGROUP;
}

void
ppa_serial_apply_batch(PpaSerial *serial, const PpaBatch *batch)
{
	PpaWorker  *w = serial->w;
	volatile int done = 0;
	volatile bool failed = false;

	PG_TRY();
	{
		run_members(serial, batch, &done, batch->nmembers);
	}
	PG_CATCH();
	{
		if (is_verdict(w))
			PG_RE_THROW();
		MemoryContextSwitchTo(w->cxt);
		FlushErrorState();
		ppa_local_rollback(w);
		if (w->slot != NULL)
			ppa_report_add(&w->slot->group_replays, 1);
		failed = true;
	}
	PG_END_TRY();

	if (!failed)
		return;
	w->row_by_row = true;
	while (done < batch->nmembers)
		run_members(serial, batch, &done, done + 1);
	w->row_by_row = false;
}

void
ppa_serial_begin(PpaSerial *serial, const PpaMember *txn)
{
	Assert(!serial->w->in_txn);
	serial->w->members = 1;
	ppa_worker_begin_member(serial->w, txn);
}

void
ppa_serial_message(PpaSerial *serial, const char *message, int len)
{
	ppa_worker_tick(serial->w);
	ppa_apply_message(serial->w, message, len);
}

void
ppa_serial_commit(PpaSerial *serial, const PpaMember *txn)
{
	commit_local(serial, txn, 1);
}
