/*-------------------------------------------------------------------------
 *
 * core_schedule_retry.c
 *	  Rollback, parking, retry, verdict, and the watch of the head of line.
 *
 * A group that failed:
 *
 *	 failed in one local transaction --> RETRY when it is the oldest, its
 *	 remote transactions one by one --> failed again --> all later groups roll
 *	 back and park --> RETRY alone --> failed again --> VERDICT
 *
 * with the middle left out where no later group has a transaction anyway, and
 * more attempts where the error is one that may pass.
 *
 *-------------------------------------------------------------------------
 */
#include "core/core_schedule_state.h"

/* The transient pause doubles up to 2^10 times. */
#define MAX_DOUBLINGS 10

/* Has no later group that was given out a transaction open, until this one commits? */
static bool
are_given_quiet(const PpaSchedule *s, uint64_t number)
{
	for (uint64_t n = number + 1; n <= s->given; n++)
		if (group_at(s, n)->quiet_until < number)
			return false;
	return true;
}

/* The same, and will none that comes? */
static bool
is_quiet_after(const PpaSchedule *s, uint64_t number)
{
	return s->floor >= number && are_given_quiet(s, number);
}

/* Ask a group to give way: it begins again after "start_after". */
static void
roll_back(PpaSchedule *s, Group *g, uint64_t start_after)
{
	ppa_assert(g->number > s->committed + 1);	/* S8 */
	g->start_after = max_u64(g->start_after, start_after);
	if (g->worker == NO_WORKER || g->failed)
		return;					/* no transaction; RETRY will carry it */
	s->stats.victims++;
	ppa_schedule_act(s, (PpaScheduleAction)
					 {
						 .type = PPA_ACTION_ABORT,.group = g->number,
							 .worker = (uint32_t) g->worker,.start_after = g->start_after
					 });
}

/* No group after "number" begins, or goes on, before it has committed. */
void
ppa_schedule_park_later(PpaSchedule *s, uint64_t number)
{
	s->floor = max_u64(s->floor, number);
	for (uint64_t n = number + 1; n <= s->last; n++)
		if (group_at(s, n)->start_after < number)
			roll_back(s, group_at(s, n), number);
}

static void
retry(PpaSchedule *s, Group *g, bool alone, uint64_t delay)
{
	ppa_assert(!alone || (g->number == s->committed + 1 && is_quiet_after(s, g->number)));	/* S7 */
	g->start_after = g->quiet_until = g->number - 1;
	if (g->worker == NO_WORKER)
		ppa_schedule_give_to_first(s, g);
	g->failed = g->wants_alone = false;
	g->alone_attempt = alone;
	s->stats.alone_attempts += alone;
	ppa_schedule_act(s, (PpaScheduleAction)
					 {
						 .type = PPA_ACTION_RETRY,.group = g->number,
							 .worker = (uint32_t) g->worker,.start_after = g->start_after,
							 .alone = alone,.delay_us = delay
					 });
}

/* The oldest group may want to be tried alone, and now be able to. */
void
ppa_schedule_retry_alone(PpaSchedule *s)
{
	uint64_t	head = s->committed + 1;
	Group	   *g = group_at(s, head);

	if (!in_flight(s, head) || !g->wants_alone)
		return;
	ppa_schedule_park_later(s, head);
	if (is_quiet_after(s, head))
		retry(s, g, true, 0);
}

/* ---------- failures ---------- */

static bool
is_transient(PpaFailure reason)
{
	return reason == PPA_FAILED_DEADLOCK || reason == PPA_FAILED_LOCK_TIMEOUT;
}

/* It failed while no later group had a transaction open. */
static void
failed_alone(PpaSchedule *s, Group *g, const PpaScheduleEvent *event)
{
	uint32_t	doublings;

	if (event->progress != g->transients_at)
	{
		/* Another remote transaction of the group. */
		g->transients = 0;
		g->transients_at = event->progress;
	}
	doublings = g->transients < MAX_DOUBLINGS ? g->transients : MAX_DOUBLINGS;
	if (is_transient(event->reason) && g->transients < s->config.transient_retries)
	{
		g->transients++;
		retry(s, g, true, s->config.transient_us << doublings);
		return;
	}
	ppa_assert(is_quiet_after(s, g->number));	/* S7 */
	ppa_schedule_end(s, (PpaScheduleAction)
					 {
						 .type = PPA_ACTION_VERDICT,.group = g->number,
							 .worker = (uint32_t) g->worker,.alone = true
					 });
}

/* Nothing left to retry from: it was the oldest, and later ones were parked. */
static void
failed_unretained(PpaSchedule *s, Group *g, const PpaScheduleEvent *event)
{
	ppa_assert(g->large && g->number == s->committed + 1 && is_quiet_after(s, g->number)); /* S7 */
	if (is_transient(event->reason))
		ppa_schedule_end(s, (PpaScheduleAction)
						 {
							 .type = PPA_ACTION_STOP_ALL,.stop = PPA_STOP_NOT_RETAINED,
								 .group = g->number
						 });
	else
		ppa_schedule_end(s, (PpaScheduleAction)
						 {
							 .type = PPA_ACTION_VERDICT,.group = g->number,
								 .worker = (uint32_t) g->worker,.alone = true
						 });
}

static void
failed(PpaSchedule *s, const PpaScheduleEvent *event)
{
	Group	   *g = group_at(s, event->group);

	ppa_assert(is_given(s, event->group) && !g->failed);
	s->stats.failures[event->reason]++;
	ppa_relorder_retried(&s->relorder, event->relation, s->last);
	if (!event->retained)
	{
		failed_unretained(s, g, event);
		return;
	}
	g->failed = true;
	g->quiet_until = PPA_SCHEDULE_NEVER;	/* until RETRY */
	if (event->reason == PPA_FAILED_TRIGGERS)
	{
		g->triggers = g->serial = g->wants_alone = true;
		if (g->worker != 0)
			ppa_schedule_take_from(s, g, event->now);
		ppa_schedule_park_later(s, g->number);
	}
	else if (g->alone_attempt)
	{
		failed_alone(s, g, event);
		return;
	}
	else if (!g->serial && s->floor < g->number &&
			 (g->number > s->committed + 1 || !are_given_quiet(s, g->number)))
	{
		/* Most likely an earlier group is what it needs; the others go on. */
		g->serial = true;
		retry(s, g, false, 0);
		return;
	}
	else
	{
		g->serial = g->wants_alone = true;
		ppa_schedule_park_later(s, g->number);
	}
	ppa_schedule_retry_alone(s);
}

static void
rolled_back(PpaSchedule *s, const PpaScheduleEvent *event)
{
	Group	   *g = group_at(s, event->group);

	if (!is_given(s, event->group))
		return;
	g->quiet_until = max_u64(g->quiet_until, event->start_after);
	ppa_schedule_retry_alone(s);
}

/* ---------- head of line ---------- */

void
ppa_schedule_watch_from(PpaSchedule *s, uint64_t now)
{
	s->look_step = s->config.watch_us;
	s->look_at = now + s->look_step;
}

static void
head_seen(PpaSchedule *s, const PpaScheduleEvent *event)
{
	uint64_t	head = s->committed + 1;

	if (event->group != head || s->given < head || s->backstopped == head)
		return;
	if (!event->waiting || s->seen_group != head || s->seen_progress != event->progress)
	{
		/* It moves.  One that waits is looked at soon again, one that works is not. */
		s->waiting_since = event->now;
		s->seen_group = event->waiting ? head : 0;
		s->seen_progress = event->progress;
		if (event->waiting)
			s->look_step = s->config.watch_us;
	}
	else if (event->now - s->waiting_since >= s->config.backstop_us)
	{
		s->stats.backstops++;
		s->backstopped = head;
		s->look_at = PPA_SCHEDULE_NEVER;
		ppa_schedule_park_later(s, head);
		return;
	}
	s->look_at = event->now + s->look_step;
	s->look_step = min_u64(s->look_step * 2, s->config.watch_max_us);
}

static void
head_blocked(PpaSchedule *s, const PpaScheduleEvent *event)
{
	uint64_t	head = s->committed + 1;
	Group	   *g = group_at(s, event->by);

	if (event->group != head || event->by <= head || !is_given(s, event->by) ||
		g->failed || g->start_after >= head)
		return;					/* out of date, or asked already */
	ppa_relorder_retried(&s->relorder, event->relation, s->last);
	g->rollbacks++;
	roll_back(s, g, g->rollbacks > s->config.victim_retries ? g->number - 1 : head);
}

void
ppa_schedule_retry_step(PpaSchedule *s, const PpaScheduleEvent *event)
{
	switch (event->type)
	{
		case PPA_EVENT_FAILED:
			failed(s, event);
			break;
		case PPA_EVENT_ROLLED_BACK:
			rolled_back(s, event);
			break;
		case PPA_EVENT_HEAD_SEEN:
			head_seen(s, event);
			break;
		default:
			head_blocked(s, event);
			break;
	}
}
