/*-------------------------------------------------------------------------
 *
 * schedule_leader.c
 *	  The leader: our loop in place of the built-in apply worker's.
 *
 * Owns:	the stream from the publisher: frames, messages, waiting; what is done
 *			between remote transactions.
 * Runs in:	the apply worker that the server's launcher has started.
 * Memory:	one context under the server's ApplyContext.
 * Locks:	none of its own.
 *
 * What becomes of a remote transaction is decided by the mode: serial or
 * parallel, see schedule_state.h.
 *
 * Between remote transactions nothing of ours is open, and the leader does
 * what the server's loop does there: invalidations, subscription, settings
 * before it applies, table synchronisation after it has.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "replication/origin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "apply/apply_serial.h"
#include "commit/commit_origin.h"
#include "receive/receive_feedback.h"
#include "receive/receive_stream.h"
#include "schedule/schedule_leader.h"
#include "schedule/schedule_state.h"
#include "server/server_compat.h"
#include "server/server_errctx.h"
#include "server/server_guc.h"
#include "server/server_protocol.h"
#include "server/server_subscription.h"
#include "wire/wire_message.h"

/* How long an idle leader sleeps. */
#define IDLE_WAIT_MS 1000

/*
 * Silence after which commits that the WAL writer has not flushed are flushed
 * here: somebody may be waiting for them on the publisher.
 */
#define FLUSH_AFTER_MS 10

/*
 * A remote transaction that was committed longer ago than this, by the two
 * nodes' clocks, is part of a backlog.
 */
#define BEHIND_MS 20

/* How often the publisher hears from us while applying takes long. */
#define TICK_MS 1000

/* For the timer and the hooks. */
static PpaLeader *leader = NULL;

bool
ppa_leader_is_busy(const PpaLeader *l)
{
	return l->direct || l->batch->is_open || l->batch->nmembers > 0 ||
		ppa_parallel_in_flight(l) || ppa_parallel_owes_durability(l);
}

void
ppa_leader_set_state(PpaLeader *l, PpaSubState state)
{
	if (l->slot != NULL)
		pg_atomic_write_u32(&l->slot->state, state);
}

/* ---------- hooks of the apply side ---------- */

static void
applied_hook(void *arg, XLogRecPtr end_lsn, XLogRecPtr local_lsn)
{
	PpaLeader  *l = arg;

	ppa_feedback_applied(l->feedback, end_lsn, local_lsn);
	l->last_end = end_lsn;
	ppa_report_applied(l->slot, end_lsn);
}

static void
tick_hook(void *arg)
{
	ppa_feedback_still_alive(((PpaLeader *) arg)->feedback);
}

/*
 * Timer, in signal context.  While the process sleeps for a lock it cannot
 * come to tick_hook(), so the message goes out from here.  That is as safe as
 * a call from inside WaitLatch(): the wait event says that the code that is
 * interrupted is the wait itself, so it is not in libpq, malloc or ereport.
 */
static void
tick_handler(void)
{
	uint32		wait_event = *(volatile uint32 *) my_wait_event_info;

	ppa_tick_due = true;
	if (leader != NULL && (wait_event & 0xFF000000U) == PG_WAIT_LOCK)
		ppa_feedback_still_alive(leader->feedback);
}

static void
start_timer(void)
{
	TimeoutId	timer = RegisterTimeout(USER_TIMEOUT, tick_handler);

	enable_timeout_every(timer, TimestampTzPlusMilliseconds(GetCurrentTimestamp(), TICK_MS),
						 TICK_MS);
}

/* ---------- between remote transactions ---------- */

static void
leave_if_not_ours(void)
{
	const char *why = ppa_subscription_left_why();

	if (why == NULL)
		return;
	ereport(LOG,
			(errmsg("logical replication apply worker for subscription \"%s\" will restart because "
					"pg_parallel_apply no longer applies it", MySubscription->name)));
	proc_exit(0);
}

static void
reload_configuration(void)
{
	if (!ConfigReloadPending)
		return;
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	leave_if_not_ours();
}

/* Before anything is applied: what was altered before the publisher committed counts. */
void
ppa_leader_notice(PpaLeader *l)
{
	CHECK_FOR_INTERRUPTS();
	AcceptInvalidationMessages();
	ppa_subscription_reread();
	reload_configuration();
	MemoryContextSwitchTo(l->cxt);
}

void
ppa_leader_sync_tables(PpaLeader *l, XLogRecPtr lsn)
{
	process_syncing_tables(lsn);
	MemoryContextSwitchTo(l->cxt);
}

/* ---------- messages ---------- */

static void
handle_begin(PpaLeader *l, const char *message, size_t len)
{
	PpaBegin	begin;
	PpaWireError err;

	if (!ppa_wire_begin(message, len, &begin, &err))
		ppa_protocol_error(&err);
	if (l->batch->is_open)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg_internal("BEGIN message sent out of order")));
	ppa_batch_begin(l->batch, begin.xid, begin.final_lsn, begin.commit_time);
	if (l->slot != NULL && l->batch->nmembers == 0)
	{
		pg_atomic_write_u64(&l->slot->oldest_pending, begin.commit_time);
		ppa_leader_set_state(l, PPA_SUB_RECEIVING);
	}
}

static void
handle_commit(PpaLeader *l, const char *message, size_t len)
{
	PpaCommit	commit;
	PpaWireError err;
	PpaBatch   *batch = l->batch;

	ppa_errctx_set_transaction(batch->open.xid, batch->open.final_lsn);
	if (!ppa_wire_commit(message, len, &commit, &err))
		ppa_protocol_error(&err);
	if (!batch->is_open)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg_internal("COMMIT message sent out of order")));
	if (commit.commit_lsn != batch->open.final_lsn)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg_internal("incorrect commit LSN " PPA_LSN_FMT " in commit message (expected "
								 PPA_LSN_FMT ")",
								 LSN_FORMAT_ARGS(commit.commit_lsn),
								 LSN_FORMAT_ARGS(batch->open.final_lsn))));
	ppa_errctx_reset();
	ppa_batch_commit(batch, commit.end_lsn, commit.commit_time);

	if (l->parallel != NULL)
		ppa_parallel_commit(l);
	else
		ppa_serial_mode_commit(l);
}

static void
handle_change(PpaLeader *l, const char *message, size_t len)
{
	if (!l->batch->is_open)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg_internal("%s message sent out of order",
								 logicalrep_message_type(message[0]))));
	if (l->parallel != NULL)
		ppa_parallel_change(l, message, len);
	else
		ppa_serial_mode_change(l, message, len);
}

/*
 * A message of a feature that we did not ask for: a slot that was created
 * with two_phase sends PREPARE all the same.  The built-in worker can deal
 * with it, so it gets the subscription.
 */
static void
hand_back(PpaLeader *l, char type)
{
	if (l->slot == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("pg_parallel_apply cannot apply %s messages yet",
						logicalrep_message_type(type)),
				 errhint("Remove the subscription from pg_parallel_apply.subscriptions.")));
	l->slot->hand_back = true;
	ereport(LOG,
			(errmsg("pg_parallel_apply hands subscription \"%s\" back to the built-in apply worker: "
					"the publisher sent a %s message",
					MySubscription->name, logicalrep_message_type(type))));
	proc_exit(0);
}

static void
handle_message(PpaLeader *l, const char *message, size_t len)
{
	char		type = len > 0 ? message[0] : '\0';

	ppa_errctx.message_type = 0;
	switch (type)
	{
		case PPA_MSG_BEGIN:
			ppa_errctx.message_type = type;
			handle_begin(l, message, len);
			break;
		case PPA_MSG_COMMIT:
			ppa_errctx.message_type = type;
			handle_commit(l, message, len);
			break;
		case PPA_MSG_ORIGIN:
		case PPA_MSG_RELATION:
		case PPA_MSG_TYPE:
		case PPA_MSG_INSERT:
		case PPA_MSG_UPDATE:
		case PPA_MSG_DELETE:
		case PPA_MSG_TRUNCATE:
			ppa_errctx.message_type = type;
			handle_change(l, message, len);
			break;
		case PPA_MSG_MESSAGE:
			/* applications may use it, apply does not */
			break;
		case 'b':				/* two-phase commit */
		case 'P':
		case 'K':
		case 'r':
		case 'p':
		case 'S':				/* streaming of transactions in progress */
		case 'E':
		case 'A':
		case 'c':
			hand_back(l, type);
			break;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_PROTOCOL_VIOLATION),
					 errmsg("invalid logical replication message type \"??? (%d)\"", type)));
	}
	ppa_errctx.message_type = 0;
}

/* ---------- frames ---------- */

static void
note_received(PpaLeader *l, XLogRecPtr lsn, TimestampTz send_time, bool keepalive)
{
	ppa_feedback_received(l->feedback, lsn);
	lsn = ppa_feedback_received_lsn(l->feedback);
	if (l->stream.frames == 1 || keepalive)
	{
		/* once per burst: the clock is not free */
		l->last_active = GetCurrentTimestamp();
		MyLogicalRepWorker->last_recv_time = l->last_active;
	}
	l->ping_sent = false;
	MyLogicalRepWorker->last_lsn = lsn;
	MyLogicalRepWorker->last_send_time = send_time;
	if (keepalive)
	{
		MyLogicalRepWorker->reply_lsn = lsn;
		MyLogicalRepWorker->reply_time = send_time;
	}
	if (l->slot != NULL)
		pg_atomic_write_u64(&l->slot->received_lsn, lsn);
}

/* Do now with what is complete what can be done. */
static void
push(PpaLeader *l)
{
	if (l->parallel != NULL)
		ppa_parallel_push(l);
	else
		ppa_serial_mode_push(l);
}

/* The publisher asks how far we are: tell it the best that can be said. */
static void
answer_request(PpaLeader *l)
{
	push(l);
	ppa_feedback_flush(l->feedback);
	ppa_feedback_send(l->feedback, PPA_FEEDBACK_FORCED, ppa_leader_is_busy(l), false);
}

static void
handle_frame(PpaLeader *l, const char *buf, int len)
{
	PpaFrame	frame;
	PpaWireError err;

	if (!ppa_wire_frame(buf, len, &frame, &err))
		ppa_protocol_error(&err);
	switch (frame.type)
	{
		case 'w':
			note_received(l, Max(frame.start_lsn, frame.end_lsn), frame.send_time, false);
			handle_message(l, frame.payload, frame.payload_len);
			break;
		case 'k':
			note_received(l, frame.end_lsn, frame.send_time, true);
			if (frame.reply_requested)
				answer_request(l);
			break;
		default:
			break;				/* others are ignored on purpose */
	}
}

/* ---------- waiting ---------- */

/*
 * Serial or parallel?  Nothing is in flight, and this process is outside of
 * transactions.
 */
static void
choose_mode(PpaLeader *l)
{
	int			wanted = ppa_leader_workers_wanted();

	if (l->slot != NULL)
		pg_atomic_write_u32(&l->slot->workers_wanted, wanted);
	if (l->parallel != NULL && wanted != ppa_parallel_workers(l))
		ppa_parallel_end(l);
	if (l->parallel == NULL && wanted > 0 && GetCurrentTimestamp() >= l->parallel_at)
		ppa_parallel_begin(l, wanted);
}

/* Nothing has come for a while: is the publisher still there? */
static void
check_silence(PpaLeader *l)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		ping = false;

	if (wal_receiver_timeout > 0)
	{
		if (TimestampDifferenceExceeds(l->last_active, now, wal_receiver_timeout))
			ereport(ERROR,
					(errcode(ERRCODE_CONNECTION_FAILURE),
					 errmsg("terminating logical replication worker due to timeout")));
		if (!l->ping_sent &&
			TimestampDifferenceExceeds(l->last_active, now, wal_receiver_timeout / 2))
		{
			ping = true;
			l->ping_sent = true;
		}
	}
	ppa_feedback_send(l->feedback, ping ? PPA_FEEDBACK_FORCED : PPA_FEEDBACK_NOW,
					  ppa_leader_is_busy(l), ping);
	if (!IsTransactionState())
		pgstat_report_stat(true);
}

/* Show what is pending, with the stream idle. */
static void
report_idle(PpaLeader *l)
{
	if (l->slot == NULL)
		return;
	pg_atomic_write_u64(&l->slot->flushed_lsn, ppa_feedback_flushed_lsn(l->feedback));
	if (l->direct || ppa_parallel_in_flight(l))
		return;
	pg_atomic_write_u64(&l->slot->oldest_pending,
						l->batch->is_open ? l->batch->open.commit_time : 0);
	ppa_leader_set_state(l, l->batch->is_open ? PPA_SUB_RECEIVING : PPA_SUB_IDLE);
}

/*
 * The stream is idle, and nothing is being applied: what is to be done where
 * nothing is in flight.
 */
static void
use_quiet_moment(PpaLeader *l)
{
	ppa_leader_notice(l);
	ppa_leader_sync_tables(l, ppa_feedback_received_lsn(l->feedback));
	ppa_report_applied(l->slot, ppa_feedback_received_lsn(l->feedback));
	choose_mode(l);
}

/* All that could be read is applied, or with the workers, and the stream is idle: wait. */
static void
wait_for_input(PpaLeader *l)
{
	bool		unflushed = ppa_feedback_has_unflushed(l->feedback);
	int			events;

	if (unflushed && l->sync_standby)
	{
		ppa_feedback_flush(l->feedback);
		unflushed = false;
	}
	ppa_feedback_send(l->feedback, PPA_FEEDBACK_NOW, ppa_leader_is_busy(l), false);
	if (!ppa_leader_is_busy(l))
		use_quiet_moment(l);
	else if (l->parallel != NULL)
		ppa_leader_notice(l);
	report_idle(l);

	events = ppa_stream_wait(&l->stream,
							 ppa_parallel_before_sleep(l, unflushed ?
													   FLUSH_AFTER_MS : IDLE_WAIT_MS));
	if (!l->direct)
		reload_configuration();
	if (events & WL_SOCKET_READABLE)
		return;
	/* Not by WL_TIMEOUT: our own timer and the workers set the latch, too. */
	if (unflushed &&
		TimestampDifferenceExceeds(l->last_active, GetCurrentTimestamp(), FLUSH_AFTER_MS - 1))
		ppa_feedback_flush(l->feedback);
	check_silence(l);
}

bool
ppa_leader_is_behind(const PpaLeader *l, TimestampTz commit_time)
{
	/* once begun, a nap in which little has come is no reason to stop */
	return !l->sync_standby && (l->naps > 0 || ppa_stream_is_flowing(&l->stream)) &&
		TimestampDifferenceExceeds(commit_time, l->last_active, BEHIND_MS);
}

/*
 * Is it worth waiting for a larger group?  Only where nobody notices: we lag
 * behind the publisher anyway, and more is about to come.
 */
static bool
should_collect(PpaLeader *l)
{
	PpaBatch   *batch = l->batch;

	if (l->parallel != NULL)
		return ppa_parallel_should_collect(l);
	return l->naps == 0 && batch->nmembers > 0 &&
		batch->nmembers < ppa_guc_group_transactions / 2 &&
		ppa_leader_is_behind(l, batch->members[batch->nmembers - 1].commit_time);
}

/* The input has run dry. */
static void
handle_dry(PpaLeader *l)
{
	bool		pushed = l->parallel == NULL && l->batch->nmembers > 0;

	if (l->stream.frames > 0)
		l->last_active = GetCurrentTimestamp();
	if (should_collect(l))
	{
		l->naps++;
		ppa_stream_nap(&l->stream);
		return;
	}
	push(l);
	/* applying has cost no latency: meanwhile more may have arrived */
	if (pushed && !l->sync_standby)
		return;
	if (!l->sync_standby && ppa_stream_is_flowing(&l->stream))
	{
		ppa_feedback_send(l->feedback, PPA_FEEDBACK_RELAXED, ppa_leader_is_busy(l), false);
		ppa_stream_nap(&l->stream);
		return;
	}
	wait_for_input(l);
}

/*
 * The publisher has said all: see to it that all of it is applied.  A
 * transaction of which only a part has arrived comes again.
 */
static void
finish_stream(PpaLeader *l)
{
	ereport(LOG,
			(errmsg("data stream from publisher has ended")));
	push(l);
	while (ppa_parallel_will_commit(l))
		ppa_parallel_wait(l, true);
	ppa_feedback_send(l->feedback, PPA_FEEDBACK_NOW, ppa_leader_is_busy(l), false);
	ppa_stream_end(&l->stream);
}

static void
run(PpaLeader *l)
{
	for (;;)
	{
		char	   *buf;
		int			len;

		CHECK_FOR_INTERRUPTS();
		if (!ppa_parallel_can_read(l))
		{
			ppa_parallel_wait(l, false);
			continue;
		}
		len = ppa_stream_receive(&l->stream, &buf);
		if (len > 0)
			handle_frame(l, buf, len);
		else if (len == 0)
			handle_dry(l);
		else
		{
			finish_stream(l);
			return;
		}
	}
}

/* ---------- start and end ---------- */

static PpaLeader *
make_leader(const WalReceiverFunctionsType *transport, WalReceiverConn *conn, bool sync_standby)
{
	static PpaSerialHooks hooks = {.worker.tick = tick_hook,.applied = applied_hook};
	MemoryContext cxt = AllocSetContextCreate(ApplyContext, "pg_parallel_apply leader",
											  ALLOCSET_DEFAULT_SIZES);
	PpaLeader  *l = MemoryContextAllocZero(cxt, sizeof(PpaLeader));

	l->cxt = cxt;
	l->stream.transport = transport;
	l->stream.conn = conn;
	l->stream.socket = PGINVALID_SOCKET;
	l->sync_standby = sync_standby;
	l->last_active = GetCurrentTimestamp();
	/* flushed, as we are going to report it so */
	l->last_end = replorigin_session_get_progress(true);

	l->slot = ppa_report_claim(MySubscription->oid, MySubscription->dbid, MySubscription->name,
							   PPA_SUB_STARTING);
	if (l->slot != NULL)
	{
		pg_atomic_write_u64(&l->slot->received_lsn, l->last_end);
		pg_atomic_write_u64(&l->slot->applied_lsn, l->last_end);
	}
	l->feedback = ppa_feedback_create(cxt, &l->stream, l->last_end);
	l->batch = ppa_batch_create(cxt);
	l->views = ppa_relviews_create(cxt);
	ppa_origin_adopt();
	hooks.worker.arg = l;
	l->serial = ppa_serial_create(cxt, l->slot, &hooks);
	snprintf(ppa_errctx.origin_name, sizeof(ppa_errctx.origin_name), "pg_%u", MySubscription->oid);
	return l;
}

/* In PG_CATCH: keep the error for the view; the server reports it. */
static void
note_error(PpaLeader *l)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(l->cxt);
	ErrorData  *edata = CopyErrorData();

	ppa_report_error(l->slot, edata->message, edata->sqlerrcode);
	FreeErrorData(edata);
	MemoryContextSwitchTo(oldcxt);
}

int
ppa_leader_workers_wanted(void)
{
	/* a snapshot that lasts would show a worker what was before it had to wait */
	return DefaultXactIsoLevel > XACT_READ_COMMITTED ? 0 : ppa_guc_workers;
}

/* What the settings of the session keep us from doing. */
static void
report_restrictions(void)
{
	if (DefaultXactIsoLevel > XACT_READ_COMMITTED)
		ereport(LOG,
				(errmsg("pg_parallel_apply applies transactions of subscription \"%s\" one by one: "
						"default_transaction_isolation is above read committed",
						MySubscription->name)));
}

/*
 * The leader leaves last: its workers may hold what others wait for, and must
 * not commit when the next leader has begun.  Whoever drops or alters the
 * subscription holds a lock on it and waits for this process, so nothing here
 * may wait for a lock.
 */
static void
leader_exit(int code, Datum arg)
{
	ppa_origin_drop();
	AbortOutOfAnyTransaction();
	ppa_parallel_stop(leader);
}

void
ppa_leader_main(const WalReceiverFunctionsType *transport, WalReceiverConn *conn,
				bool sync_standby)
{
	ErrorContextCallback errcallback = {.callback = ppa_errctx_callback};

	leader = make_leader(transport, conn, sync_standby);
	before_shmem_exit(leader_exit, (Datum) 0);
	errcallback.previous = error_context_stack;
	error_context_stack = &errcallback;
	ppa_subscription_watch();
	report_restrictions();
	start_timer();
	pgstat_report_activity(STATE_IDLE, NULL);
	MemoryContextSwitchTo(leader->cxt);

	PG_TRY();
	{
		choose_mode(leader);
		run(leader);
	}
	PG_CATCH();
	{
		/*
		 * The server commits while it handles the error: nothing may be
		 * applied any more then, and the origin must not move.
		 */
		ppa_origin_drop();
		/* of whatever the error has left: workers may need it in order to end */
		LWLockReleaseAll();
		ppa_parallel_stop(leader);
		note_error(leader);
		PG_RE_THROW();
	}
	PG_END_TRY();
	proc_exit(0);
}
