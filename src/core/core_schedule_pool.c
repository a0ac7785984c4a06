/*-------------------------------------------------------------------------
 *
 * core_schedule_pool.c
 *	  Workers, and which of them gets a group.
 *
 * Worker 0 is the first to start and the last to stay: groups that fire
 * triggers find their session's settings there.  Others are started when a
 * group that belongs to no run and to no dependency finds nobody idle, and
 * given back when they have been idle for a while.
 *
 *-------------------------------------------------------------------------
 */
#include "core/core_schedule_state.h"

static bool
has_place(const PpaSchedule *s, const Worker *w)
{
	return w->state == WORKER_UP && w->groups < s->config.depth;
}

/* ---------- choice ---------- */

/*
 * The worker at whose end the newest group stands that this one waits for: it
 * would wait for the commit anyway, and there it needs no waking.
 */
static int
worker_of_dependency(const PpaSchedule *s, const Group *g)
{
	int			w;

	if (!is_given(s, g->waits))
		return NO_WORKER;
	w = group_at(s, g->waits)->worker;
	if (s->workers[w].tail != g->waits || !has_place(s, &s->workers[w]))
		return NO_WORKER;
	return w;
}

/* The group that has to commit before; last comes who flushes, for nobody knows how long. */
static uint64_t
free_after(const Worker *w)
{
	return w->flushing ? UINT64_MAX : w->tail;
}

static bool
is_idle(const Worker *w)
{
	return w->groups == 0 && !w->flushing;
}

/*
 * The worker that is free first: commits are in order, so that is the one whose
 * last group is the oldest, however much it has to do.  If its queue is full,
 * nobody: a place with another one would only be left later.  And the groups of
 * one worker would be consecutive then, of which all others wait for the last.
 */
static int
first_free(const PpaSchedule *s)
{
	int			best = 0;

	for (uint32_t i = 1; i < s->config.workers; i++)
	{
		if (s->workers[i].state == WORKER_UP &&
			free_after(&s->workers[i]) < free_after(&s->workers[best]))
			best = (int) i;
	}
	return has_place(s, &s->workers[best]) ? best : NO_WORKER;
}

/* So many groups a run has at least; fewer and longer ones are worth a worker each. */
#define SHORTEST_RUN 8

/*
 * While groups are short, several in a row go to one worker: handing on the
 * turn to another process after each would cost more than the group does.
 */
static int
worker_of_run(const PpaSchedule *s, const Group *g)
{
	const Worker *w = &s->workers[s->run_worker];
	bool		is_short = s->pace_us != 0 && s->pace_us <= s->config.run_us / SHORTEST_RUN;
	bool		goes_on = w->tail == g->number - 1 && s->pace_us <= s->run_left;

	return is_short && goes_on && w->state == WORKER_UP && !w->flushing &&
		w->groups < s->config.run ? s->run_worker : NO_WORKER;
}

/* ---------- start ---------- */

static void
start_one(PpaSchedule *s, uint64_t now)
{
	for (uint32_t i = 0; i < s->config.workers; i++)
	{
		Worker	   *w = &s->workers[i];

		/* One at a time; the first before all others. */
		if (w->state == WORKER_STARTING || (w->state == WORKER_STOPPING && i == 0))
			return;
		if (w->state != WORKER_DOWN)
			continue;
		if (i > 0 && now < s->refused_until)
			return;
		w->state = WORKER_STARTING;
		ppa_schedule_act(s, (PpaScheduleAction)
						 {
							 .type = PPA_ACTION_START_WORKER,.worker = i
						 });
		return;
	}
}

/* ---------- giving out ---------- */

static void
give(PpaSchedule *s, Group *g, int worker)
{
	Worker	   *w = &s->workers[worker];

	ppa_assert(g->worker == NO_WORKER && s->given == g->number - 1);
	ppa_assert(w->state == WORKER_UP && w->tail < g->number);	/* S4 */
	if (w->tail != g->number - 1)
		s->run_left = s->config.run_us;
	s->run_left -= min_u64(s->run_left, s->pace_us);
	s->run_worker = worker;
	g->worker = worker;
	g->quiet_until = g->start_after;
	s->given = g->number;
	w->tail = g->number;
	w->groups++;
	ppa_schedule_act(s, (PpaScheduleAction)
					 {
						 .type = PPA_ACTION_DISPATCH,.group = g->number,.worker = (uint32_t) worker,
							 .start_after = g->start_after,.alone = g->alone
					 });
	if (g->large)
		ppa_schedule_act(s, (PpaScheduleAction)
						 {
							 .type = PPA_ACTION_UNRETAIN,.group = g->number,
								 .worker = (uint32_t) worker
						 });
}

/* Give out the one group that waits for it, if there is a place. */
void
ppa_schedule_place(PpaSchedule *s, uint64_t now)
{
	Group	   *g = group_at(s, s->last);
	int			w;

	if (s->last == s->committed || s->given == s->last ||
		(g->state == GROUP_OPEN && !g->early))
		return;
	if (s->workers[0].state != WORKER_UP)
	{
		start_one(s, now);
		return;
	}
	if (g->triggers || g->early)
		w = has_place(s, &s->workers[0]) ? 0 : NO_WORKER;
	else
	{
		w = worker_of_dependency(s, g);
		if (w == NO_WORKER)
			w = worker_of_run(s, g);
		if (w == NO_WORKER)
		{
			w = first_free(s);
			if (w == NO_WORKER || !is_idle(&s->workers[w]))
				start_one(s, now);
		}
	}
	if (w != NO_WORKER)
		give(s, g, w);
}

/* The worker has done with the group, or has dropped it. */
void
ppa_schedule_take_from(PpaSchedule *s, Group *g, uint64_t now)
{
	Worker	   *w = &s->workers[g->worker];

	w->groups--;
	if (w->tail == g->number)
		w->tail = 0;
	if (w->groups == 0)
		w->idle_since = now;
	g->worker = NO_WORKER;
}

/* Move a dropped group to worker 0, which runs it before what it has. */
void
ppa_schedule_give_to_first(PpaSchedule *s, Group *g)
{
	ppa_assert(g->worker == NO_WORKER && g->failed && s->workers[0].state == WORKER_UP);	/* S2 */
	g->worker = 0;
	g->moved = true;
	s->stats.moved_groups++;
	s->workers[0].groups++;
	ppa_schedule_act(s, (PpaScheduleAction)
					 {
						 .type = PPA_ACTION_MOVE,.group = g->number,.worker = 0,
							 .start_after = g->start_after
					 });
}

/* ---------- events ---------- */

/* Not one: the leader applies by itself.  Fewer than wanted: work with these. */
static void
refused(PpaSchedule *s, uint32_t worker, uint64_t now)
{
	s->workers[worker].state = WORKER_DOWN;
	s->stats.refused_workers++;
	s->refused_until = now + s->config.refused_us;
	if (worker == 0)
		ppa_schedule_end(s, (PpaScheduleAction)
						 {
							 .type = PPA_ACTION_SERIAL
						 });
}

/* Give back the last of the idle ones; one at a time. */
static void
shrink(PpaSchedule *s, uint64_t now)
{
	for (uint32_t i = s->config.workers; i-- > 1;)
	{
		Worker	   *w = &s->workers[i];

		if (w->state != WORKER_UP || !is_idle(w) || now < w->idle_since + s->config.idle_us)
			continue;
		w->state = WORKER_STOPPING;
		ppa_schedule_act(s, (PpaScheduleAction)
						 {
							 .type = PPA_ACTION_STOP_WORKER,.worker = i
						 });
		return;
	}
}

void
ppa_schedule_pool_step(PpaSchedule *s, const PpaScheduleEvent *event)
{
	Worker	   *w = &s->workers[event->worker];

	switch (event->type)
	{
		case PPA_EVENT_WORKER_STARTED:
			ppa_assert(w->state == WORKER_STARTING);
			w->state = WORKER_UP;
			w->idle_since = event->now;
			break;
		case PPA_EVENT_WORKER_REFUSED:
			ppa_assert(w->state == WORKER_STARTING);
			refused(s, event->worker, event->now);
			break;
		case PPA_EVENT_WORKER_STOPPED:
			ppa_assert(w->state == WORKER_STOPPING && w->groups == 0);
			w->state = WORKER_DOWN;
			break;
		case PPA_EVENT_WORKER_FLUSHING:
			w->flushing = event->waiting;
			break;
		case PPA_EVENT_WORKER_DIED:
			/* Its commit may have happened unpublished: nothing is given again. */
			ppa_schedule_end(s, (PpaScheduleAction)
							 {
								 .type = PPA_ACTION_STOP_ALL,.stop = PPA_STOP_WORKER_DIED,
									 .worker = event->worker
							 });
			break;
		default:
			shrink(s, event->now);
			break;
	}
}
