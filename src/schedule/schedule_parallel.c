/*-------------------------------------------------------------------------
 *
 * schedule_parallel.c
 *	  The leader in parallel mode: from the stream to groups.
 *
 * A remote transaction is collected in l->batch.  When its COMMIT has been
 * read it joins the open group, or closes it and opens the next; its changes
 * are offered to the scheduler then, which says what each has to wait for.  A
 * transaction that grows above what is kept for a retry is a group at once and
 * is forwarded as it arrives.
 *
 * Descriptions of relations: workers are sent what they lack ahead of a group
 * that needs it.  Of each relation there is only one description among the
 * groups in flight: one that changes a known relation waits until nothing else
 * is in flight, and nothing else is given out until it has committed.  That is
 * rare (DDL on the publisher), and saves a history of descriptions.
 *
 * Tables that are not synchronised: this process decides, once, for each
 * change, unless it finds no table; the tables' states move only with nothing
 * in flight.
 *
 * Runs in:	the leader.
 * Locks:	none that it would have to wait for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_subscription_rel.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "schedule/schedule_parallel_state.h"
#include "server/server_compat.h"
#include "server/server_errctx.h"
#include "server/server_localrel.h"
#include "server/server_protocol.h"
#include "server/server_rules.h"
#include "server/server_subscription.h"

/* Of a transaction that is forwarded so much is collected before it is sent on. */
#define FORWARD_BYTES (32 * 1024)

/* Bytes that wait for room in the queue of a worker, before reading stops. */
#define OUTBOX_BYTES (1024 * 1024)

/*
 * In a backlog a group is collected for so many naps while others are being
 * applied, or while nobody has anything to do: a commit costs as much as
 * several small transactions, and the publisher is what we wait for.
 */
#define MOST_NAPS 8
#define IDLE_NAPS 3

/* While tables are not ready they are looked after so often. */
#define SYNC_INTERVAL_MS 250

/* ---------- groups ---------- */

PpaBatch *
ppa_parallel_get_batch(PpaParallel *p)
{
	return p->nspare > 0 ? p->spare[--p->nspare] : ppa_batch_create(p->cxt);
}

void
ppa_parallel_release_batch(PpaParallel *p, PpaBatch *batch)
{
	ppa_batch_reset(batch);
	p->spare[p->nspare++] = batch;
}

static PpaOutGroup *
open_group(PpaLeader *l, TimestampTz commit_time)
{
	PpaParallel *p = l->parallel;
	uint64		number = ppa_schedule_open(p->schedule);
	PpaOutGroup *g = ppa_out_group(p, number);

	Assert(g->number == 0);
	p->newest = number;
	g->number = number;
	g->commit_time = commit_time;
	g->end_lsn = InvalidXLogRecPtr;
	g->bytes = 0;
	g->forwarded = false;
	g->worker = -1;
	g->done = 0;
	g->nneeds = 0;
	ppa_relviews_new_group(l->views);
	if (!XLogRecPtrIsInvalid(MySubscription->skiplsn))
	{
		/* the commit that clears it must be the only one */
		PpaScheduleChange change = {.flags = PPA_CHANGE_ALONE};

		(void) ppa_schedule_change(p->schedule, &change);
	}
	return g;
}

/* The changes of the view's relation in this group are read with its present description. */
static void
note_need(PpaParallel *p, PpaOutGroup *g, PpaRelView *view)
{
	if (view->seen_in_group == g->number)
		return;
	view->seen_in_group = g->number;
	if (g->nneeds == g->needs_capacity)
	{
		g->needs_capacity = Max(8, g->needs_capacity * 2);
		g->needs = g->needs == NULL ?
			MemoryContextAlloc(p->cxt, sizeof(PpaNeed) * g->needs_capacity) :
			repalloc(g->needs, sizeof(PpaNeed) * g->needs_capacity);
	}
	g->needs[g->nneeds++] = (PpaNeed)
	{
		.view = view
	};
}

/* The description that the group needs from its start is about to be replaced. */
static void
keep_description(PpaParallel *p, PpaOutGroup *g, PpaRelView *view)
{
	for (int i = 0; i < g->nneeds; i++)
	{
		PpaNeed    *need = &g->needs[i];

		if (need->view != view || need->message != NULL)
			continue;
		need->message = MemoryContextAlloc(p->cxt, view->message_len);
		memcpy(need->message, view->message, view->message_len);
		need->len = view->message_len;
	}
}

static void
offer_relation(PpaLeader *l, PpaOutGroup *g, const char *message, int len)
{
	PpaRelationMessage relation;
	PpaRelView *view;
	PpaWireError err;
	bool		changed = false;

	if (!ppa_wire_relation(message, len, &relation, &err))
		ppa_protocol_error(&err);
	view = ppa_relview_find(l->views, relation.relid);
	if (view != NULL && ppa_relviews_would(l->views, &relation) == PPA_RELVIEW_CHANGED)
	{
		changed = true;
		keep_description(l->parallel, g, view);
		l->parallel->drain |= PPA_DRAIN_RELATION;
		l->parallel->renewed_by = g->number;
	}
	view = ppa_relviews_learn(l->views, message, len, &relation);

	/*
	 * Sent ahead to those who lack it, this one too: then all are told in one
	 * way.  Not so what changes a relation while earlier groups may still need
	 * what it was: that is read where it stands in the stream.
	 */
	if (changed && l->parallel->forwarding)
		view->seen_in_group = g->number;
	else
		note_need(l->parallel, g, view);
}

/* What a change waits for, from what it writes. */
static void
offer_change(PpaLeader *l, PpaOutGroup *g, const char *message, PpaBatchEntry *entry,
			 XLogRecPtr final_lsn)
{
	PpaParallel *p = l->parallel;
	uint64		keys[PPA_MAX_CHANGE_KEYS];
	PpaScheduleChange change = {.keys = keys};
	PpaRelView *view;
	PpaWireError err;

	if (!ppa_wire_change(unconstify(char *, message), entry->len, p->change, &err))
		ppa_protocol_error(&err);
	view = ppa_relview_find(l->views, p->change->relid);
	if (view == NULL)
		elog(ERROR, "no relation map entry for remote relation ID %u", p->change->relid);
	note_need(p, g, view);
	ppa_relview_settle(l->views, view);
	switch (ppa_relview_judge(l->views, view, final_lsn))
	{
		case PPA_RELVIEW_APPLY:
			break;
		case PPA_RELVIEW_SKIP:
			entry->flags |= PPA_ENTRY_SKIP;
			return;
		case PPA_RELVIEW_UNKNOWN:
			entry->flags |= PPA_ENTRY_UNDECIDED;
			break;
	}
	change.relation = view->relid;
	change.flags = view->flags;
	change.nkeys = ppa_change_keys(view, p->change, keys);
	entry->wait_for = ppa_schedule_change(p->schedule, &change);
}

static void
offer_truncate(PpaLeader *l, PpaOutGroup *g, const char *message, PpaBatchEntry *entry)
{
	PpaScheduleChange change = {.flags = PPA_CHANGE_ALONE};
	PpaTruncate truncate;
	PpaWireError err;

	if (!ppa_wire_truncate(message, entry->len, &truncate, &err))
		ppa_protocol_error(&err);
	for (int i = 0; i < truncate.nrelids; i++)
	{
		uint32		relid = ppa_wire_truncate_relid(&truncate, i);
		PpaRelView *view = ppa_relview_find(l->views, relid);

		if (view == NULL)
			elog(ERROR, "no relation map entry for remote relation ID %u", relid);
		note_need(l->parallel, g, view);
		ppa_relview_settle(l->views, view);
		change.flags |= view->truncate_flags;
	}
	entry->wait_for = ppa_schedule_change(l->parallel->schedule, &change);
}

/* Offer messages [from, end) of l->batch as part of the open group. */
static void
offer_messages(PpaLeader *l, PpaOutGroup *g, const PpaMember *member, int from, int end)
{
	PpaBatchEntry entry;
	const char *message;

	ppa_errctx_set_transaction(member->xid, member->final_lsn);
	for (int pos = from; ppa_batch_next(l->batch, &pos, end, &message, &entry);)
	{
		ppa_errctx.message_type = message[0];
		switch (message[0])
		{
			case PPA_MSG_RELATION:
				offer_relation(l, g, message, entry.len);
				break;
			case PPA_MSG_INSERT:
			case PPA_MSG_UPDATE:
			case PPA_MSG_DELETE:
				offer_change(l, g, message, &entry, member->final_lsn);
				break;
			case PPA_MSG_TRUNCATE:
				offer_truncate(l, g, message, &entry);
				break;
			default:
				break;
		}
		if (entry.wait_for != 0 || entry.flags != 0)
			ppa_batch_set_entry(message, &entry);
	}
	ppa_errctx_reset();
	/* settling a view has used transactions */
	MemoryContextSwitchTo(l->cxt);
}

/* The open group is complete: give it out. */
static void
close_group(PpaLeader *l)
{
	PpaParallel *p = l->parallel;
	PpaOutGroup *g = ppa_out_group(p, p->newest);
	int			nmembers = p->forming.transactions;

	if (nmembers == 0)
		return;
	ppa_parallel_note_commits(l);
	g->batch = l->batch;
	l->batch = ppa_parallel_get_batch(p);
	ppa_batch_split(g->batch, nmembers, l->batch);
	g->end_lsn = g->batch->members[nmembers - 1].end_lsn;
	g->bytes = g->batch->bytes.len;
	p->forming = (PpaGroup) {0};
	l->naps = 0;
	ppa_schedule_close(p->schedule, ppa_parallel_now());
	ppa_parallel_act(l);
}

/* ---------- with nothing in flight ---------- */

static bool
has_pending_tables(void)
{
	bool		pending;

	StartTransactionCommand();
	pending = GetSubscriptionNotReadyRelations(MySubscription->oid) != NIL;
	CommitTransactionCommand();
	return pending;
}

static void
look_after_tables(PpaLeader *l)
{
	ppa_leader_sync_tables(l, l->last_end);
	l->parallel->tables_pending = has_pending_tables();
	MemoryContextSwitchTo(l->cxt);
	l->parallel->synced_at = GetCurrentTimestamp();
}

/*
 * Is something to be done that needs a moment with nothing in flight?  A
 * change of the tables' states alone is none: a transaction at the head of the
 * line may take long, and the others shall go on beside it.
 */
static void
demand_drain(PpaLeader *l)
{
	PpaParallel *p = l->parallel;
	bool		changed = p->sync_looked_at != ppa_sync_generation;

	if (changed)
	{
		p->sync_looked_at = ppa_sync_generation;
		p->tables_pending = has_pending_tables();
		MemoryContextSwitchTo(l->cxt);
	}
	if (p->tables_pending &&
		(changed ||
		 TimestampDifferenceExceeds(p->synced_at, GetCurrentTimestamp(), SYNC_INTERVAL_MS)))
		p->drain |= PPA_DRAIN_SYNC;
	if (ppa_leader_workers_wanted() != p->pool->nworkers)
		p->drain |= PPA_DRAIN_MODE;
}

static void
use_drained_moment(PpaLeader *l)
{
	PpaParallel *p = l->parallel;
	int			wanted = ppa_leader_workers_wanted();

	if (p->drain & PPA_DRAIN_SYNC)
	{
		ppa_leader_notice(l);
		look_after_tables(l);
	}
	if (p->drain & PPA_DRAIN_MODE)
	{
		ppa_parallel_end(l);
		if (wanted > 0)
			ppa_parallel_begin(l, wanted);
	}
	else
		p->drain = 0;
}

/* ---------- joining ---------- */

/* The open transaction has found its group. */
static void
forget_open(PpaParallel *p)
{
	p->facts = (PpaTxnFacts) {0};
	p->renews = false;
}

static PpaGroupRules
rules_now(const PpaParallel *p)
{
	PpaGroupRules rules = ppa_rules_now();

	/* a group that is not kept whole is of one transaction */
	rules.max_bytes = Min(rules.max_bytes, p->config.retain_bytes / 2);
	return rules;
}

/*
 * May a group be opened now, with nothing in flight if "drain" says so?  Does
 * what is to be done in such a moment.
 */
static bool
prepare_to_open(PpaLeader *l)
{
	PpaParallel *p = l->parallel;

	if (p->renews)
		p->drain |= PPA_DRAIN_RELATION;
	if (p->drain != 0)
	{
		if (ppa_parallel_in_flight(l) || ppa_parallel_owes_durability(l))
			return false;
		use_drained_moment(l);
		p = l->parallel;
		if (p == NULL)
			return false;
	}
	if (!ppa_schedule_can_open(p->schedule))
		return false;
	ppa_leader_notice(l);
	return true;
}

/*
 * The last member of l->batch joins the open group, or the next.  What it has
 * to wait for before that keeps reading stopped.
 */
static void
join(PpaLeader *l)
{
	PpaParallel *p = l->parallel;
	PpaGroupRules rules = rules_now(p);
	PpaMember  *member;
	PpaOutGroup *g;

	p->waits_to_join = true;
	if (p->renews || p->drain != 0 || !ppa_group_admits(&rules, &p->forming, &p->facts))
		close_group(l);
	p = l->parallel;
	if (p == NULL)
		return;
	if (p->forming.transactions == 0)
	{
		if (!prepare_to_open(l))
			return;
		p = l->parallel;
		open_group(l, l->batch->members[0].commit_time);
	}
	g = ppa_out_group(p, p->newest);
	member = &l->batch->members[l->batch->nmembers - 1];
	p->waits_to_join = false;
	offer_messages(l, g, member, member->start, member->end);
	ppa_group_add(&rules, &p->forming, &p->facts);
	ppa_schedule_bytes(p->schedule, member->end - member->start, ppa_parallel_now());
	ppa_parallel_act(l);
	forget_open(p);
	if (p->drain != 0 || ppa_group_is_full(&rules, &p->forming))
		close_group(l);
}

/* ---------- a large transaction ---------- */

/* Send on what has been collected of it. */
static void
forward(PpaLeader *l, const PpaMember *member)
{
	PpaParallel *p = l->parallel;
	PpaOutGroup *g = ppa_out_group(p, p->newest);
	PpaBatch   *batch = l->batch;
	int			more = batch->bytes.len - p->offered;

	if (more == 0)
		return;
	offer_messages(l, g, member, p->offered, batch->bytes.len);
	p->offered = batch->bytes.len;
	g->bytes += more;
	ppa_parallel_note_commits(l);
	ppa_schedule_bytes(p->schedule, more, ppa_parallel_now());
	if (g->forwarded)
	{
		ppa_parallel_send_data(l, g->number, batch->bytes.data, batch->bytes.len);
		ppa_batch_drop_bytes(batch);
		p->offered = 0;
	}
	ppa_parallel_act(l);
	if (l->parallel == NULL)
		return;
	AcceptInvalidationMessages();
	ppa_subscription_reread();
	MemoryContextSwitchTo(l->cxt);
}

/* The open transaction is larger than what is kept: let it be a group now. */
static void
start_forwarding(PpaLeader *l)
{
	PpaParallel *p = l->parallel;

	p->waits_to_forward = true;
	close_group(l);
	if (l->parallel == NULL || !prepare_to_open(l))
		return;
	p = l->parallel;
	p->waits_to_forward = false;
	p->forwarding = true;
	p->offered = 0;
	open_group(l, l->batch->open.commit_time);
	forward(l, &l->batch->open);
}

static void
finish_forwarding(PpaLeader *l)
{
	PpaParallel *p = l->parallel;
	PpaOutGroup *g = ppa_out_group(p, p->newest);
	PpaMember	member = l->batch->members[0];

	forward(l, &member);
	Assert(g->forwarded);
	g->end_lsn = member.end_lsn;
	ppa_batch_reset(l->batch);
	ppa_parallel_send_close(l, g->number, &member);
	p->forwarding = false;
	forget_open(p);
	ppa_parallel_note_commits(l);
	ppa_schedule_close(p->schedule, ppa_parallel_now());
	ppa_parallel_act(l);
}

/* ---------- messages ---------- */

void
ppa_parallel_note_message(PpaLeader *l, const char *message, int len)
{
	PpaParallel *p = l->parallel;
	PpaRelationMessage relation;
	PpaWireError err;
	PpaRelView *view;
	uint32		relid;

	switch (message[0])
	{
		case PPA_MSG_RELATION:
			if (!ppa_wire_relation(message, len, &relation, &err))
				ppa_protocol_error(&err);
			if (ppa_relviews_would(l->views, &relation) == PPA_RELVIEW_CHANGED)
				p->renews = true;
			else
				(void) ppa_relviews_learn(l->views, message, len, &relation);
			break;
		case PPA_MSG_TRUNCATE:
			p->facts.truncates = true;
			break;
		case PPA_MSG_INSERT:
		case PPA_MSG_UPDATE:
		case PPA_MSG_DELETE:
			if (!ppa_wire_change_relid(message, len, &relid, &err))
				ppa_protocol_error(&err);
			view = ppa_relview_find(l->views, relid);
			if (view != NULL)
				ppa_relview_settle(l->views, view);
			if (view != NULL && (view->flags & (PPA_CHANGE_TRIGGERS | PPA_CHANGE_ALONE)))
				p->facts.solo = true;
			break;
		default:
			break;
	}
}

void
ppa_parallel_change(PpaLeader *l, const char *message, int len)
{
	PpaParallel *p = l->parallel;

	ppa_parallel_note_message(l, message, len);
	MemoryContextSwitchTo(l->cxt);
	ppa_batch_append(l->batch, message, len);
	if (p->forwarding)
	{
		if (l->batch->bytes.len >= FORWARD_BYTES)
			forward(l, &l->batch->open);
	}
	else if (ppa_batch_open_bytes(l->batch) > p->config.retain_bytes)
		start_forwarding(l);
}

void
ppa_parallel_commit(PpaLeader *l)
{
	PpaParallel *p = l->parallel;

	if (p->forwarding)
	{
		finish_forwarding(l);
		return;
	}
	p->facts.bytes = l->batch->members[l->batch->nmembers - 1].end -
		l->batch->members[l->batch->nmembers - 1].start;
	join(l);
}

/* ---------- what the loop asks ---------- */

bool
ppa_parallel_in_flight(const PpaLeader *l)
{
	const PpaParallel *p = l->parallel;

	return p != NULL && p->newest > p->committed;
}

bool
ppa_parallel_will_commit(const PpaLeader *l)
{
	const PpaParallel *p = l->parallel;

	/* what is being forwarded is the newest, and not complete */
	return p != NULL && p->newest > p->committed + (p->forwarding ? 1 : 0);
}

bool
ppa_parallel_owes_durability(const PpaLeader *l)
{
	return l->parallel != NULL && !slist_is_empty(&l->parallel->undurable);
}

int
ppa_parallel_workers(const PpaLeader *l)
{
	return l->parallel->pool->nworkers;
}

static bool
is_outbox_full(const PpaParallel *p)
{
	for (int i = 0; i < p->pool->nworkers; i++)
	{
		if (p->pool->workers[i].out.bytes > OUTBOX_BYTES)
			return true;
	}
	return false;
}

/*
 * Does the worker only collect what is forwarded to it, because it may not
 * begin?  It has no bound for that.
 */
static bool
is_piling_up(const PpaParallel *p)
{
	const PpaOutGroup *g = ppa_out_group(p, p->newest);

	return p->forwarding && g->forwarded && g->bytes > 2 * p->config.retain_bytes &&
		pg_atomic_read_u64(&p->shared->workers[g->worker].running) != g->number;
}

bool
ppa_parallel_can_read(PpaLeader *l)
{
	PpaParallel *p = l->parallel;

	return p == NULL ||
		(!p->waits_to_join && !p->waits_to_forward &&
		 ppa_schedule_is_reading(p->schedule) && !is_outbox_full(p) && !is_piling_up(p));
}

bool
ppa_parallel_should_collect(PpaLeader *l)
{
	PpaParallel *p = l->parallel;

	return p->forming.transactions > 0 && p->drain == 0 && !l->sync_standby &&
		l->naps < (p->newest > p->committed + 1 ? MOST_NAPS : IDLE_NAPS) &&
		ppa_leader_is_behind(l, l->batch->members[p->forming.transactions - 1].commit_time);
}

void
ppa_parallel_push(PpaLeader *l)
{
	PpaParallel *p = l->parallel;

	if (p->forwarding)
		forward(l, &l->batch->open);
	else
		close_group(l);
	if (l->parallel != NULL)
		ppa_parallel_step(l);
}

void
ppa_parallel_resume(PpaLeader *l)
{
	PpaParallel *p = l->parallel;

	demand_drain(l);
	if (p->drain != 0 && p->forming.transactions > 0)
		close_group(l);
	p = l->parallel;
	if (p == NULL)
		return;
	if (p->drain != 0 && !p->forwarding && !ppa_parallel_in_flight(l) &&
		!ppa_parallel_owes_durability(l))
		use_drained_moment(l);
	p = l->parallel;
	if (p != NULL && p->waits_to_join)
		join(l);
	else if (p != NULL && p->waits_to_forward)
		start_forwarding(l);
}
