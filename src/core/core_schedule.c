/*-------------------------------------------------------------------------
 *
 * core_schedule.c
 *	  Groups in flight, the stream side, steps, actions, invariants.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "core/core_schedule_state.h"

/* Groups above the full queues: the open one, one closed and not given out. */
#define SPARE_GROUPS 2

/* Actions of one step besides one for each group and worker. */
#define SPARE_ACTIONS 8

uint32_t
ppa_schedule_window(const PpaScheduleConfig *config)
{
	uint32_t	queue = config->run > config->depth ? config->run : config->depth;
	uint32_t	wanted = config->workers * queue + SPARE_GROUPS;
	uint32_t	size = 4;

	while (size < wanted)
		size <<= 1;
	return size;
}

static size_t
aligned(size_t size)
{
	return (size + 15) & ~(size_t) 15;
}

PpaScheduleConfig
ppa_schedule_defaults(uint32_t workers)
{
	return (PpaScheduleConfig)
	{
		.workers = workers,
			.depth = 4,
			/* A group of one change costs a worker 65 us if each is handed on, 30 in runs (CPU). */
			.run = 32,
			.run_us = 1000,
			/* Four groups of 100 with up to five keys a change, half full; stays in the cache. */
			.deps_entries = workers * 4096,
			.deps_mode = PPA_DEPS_TABLE,
			.retain_bytes = UINT64_C(1) << 20,
			.flight_bytes = UINT64_C(16) << 20,
			.watch_us = 1000,
			.watch_max_us = 8000,
			.backstop_us = 100000,
			.victim_retries = 2,
			.transient_retries = 5,
			.transient_us = 10000,
			.order_retries = 8,
			.order_window = 256,
			.order_groups = 256,
			.idle_us = UINT64_C(60000000),
			.refused_us = UINT64_C(10000000),
	};
}

size_t
ppa_schedule_size(const PpaScheduleConfig *config)
{
	uint32_t	window = ppa_schedule_window(config);

	return aligned(sizeof(PpaSchedule)) + aligned(window * sizeof(Group)) +
		aligned((window + config->workers + SPARE_ACTIONS) * sizeof(PpaScheduleAction)) +
		ppa_deps_size(config->deps_entries);
}

PpaSchedule *
ppa_schedule_init(void *memory, const PpaScheduleConfig *config)
{
	PpaSchedule *s = memory;
	char	   *rest = (char *) memory + aligned(sizeof(PpaSchedule));
	uint32_t	window = ppa_schedule_window(config);

	ppa_assert(config->workers >= 1 && config->workers <= PPA_SCHEDULE_MAX_WORKERS);
	ppa_assert(config->depth >= 1 && config->flight_bytes > config->retain_bytes);
	memset(s, 0, sizeof(*s));
	s->config = *config;
	s->group_mask = window - 1;
	s->groups = (Group *) rest;
	memset(s->groups, 0, window * sizeof(Group));
	rest += aligned(window * sizeof(Group));
	s->actions = (PpaScheduleAction *) rest;
	s->action_capacity = window + config->workers + SPARE_ACTIONS;
	rest += aligned(s->action_capacity * sizeof(PpaScheduleAction));
	ppa_deps_init(&s->deps, rest, config->deps_entries, config->deps_mode);
	s->relorder.retries = config->order_retries;
	s->relorder.window = config->order_window;
	s->relorder.groups = config->order_groups;
	s->reading = true;
	s->look_at = PPA_SCHEDULE_NEVER;
	return s;
}

/* ---------- actions ---------- */

/* All actions of one step, each group and worker named once at most, fit in. */
void
ppa_schedule_act(PpaSchedule *s, PpaScheduleAction action)
{
	if (s->stopped)
		return;
	ppa_assert(s->nactions < s->action_capacity);
	s->actions[s->nactions++] = action;
}

/* The last action there is; S10. */
void
ppa_schedule_end(PpaSchedule *s, PpaScheduleAction action)
{
	ppa_schedule_act(s, action);
	s->stopped = true;
	s->look_at = PPA_SCHEDULE_NEVER;
}

bool
ppa_schedule_next_action(PpaSchedule *s, PpaScheduleAction *action)
{
	if (s->next_action == s->nactions)
	{
		s->next_action = s->nactions = 0;
		return false;
	}
	*action = s->actions[s->next_action++];
	return true;
}

/* ---------- invariants ---------- */

#ifdef PPA_ASSERT
static void
check_group(const PpaSchedule *s, const Group *g, uint64_t number)
{
	ppa_assert(g->number == number);	/* S1 */
	ppa_assert(g->waits < number && g->start_after < number);	/* S3 */
	ppa_assert(g->state == GROUP_CLOSED || number == s->last);
	if (g->worker == NO_WORKER)
		return;
	ppa_assert(s->workers[g->worker].state == WORKER_UP);	/* S2 */
	ppa_assert((!g->triggers && !g->early) || g->worker == 0);	/* S6 */
	ppa_assert(g->rollbacks <= s->config.victim_retries ||
			   g->start_after == number - 1);	/* S9 */
}

static void
check_invariants(const PpaSchedule *s)
{
	uint64_t	floor = 0;
	uint64_t	kept = 0;
	uint32_t	groups[PPA_SCHEDULE_MAX_WORKERS] = {0};
	uint32_t	moved[PPA_SCHEDULE_MAX_WORKERS] = {0};
	uint32_t	homeless = 0;

	ppa_assert(s->last - s->committed <= s->group_mask + UINT64_C(1));	/* S1 */
	for (uint64_t n = s->committed + 1; n <= s->last; n++)
	{
		const Group *g = group_at(s, n);

		check_group(s, g, n);
		ppa_assert(g->start_after >= floor);	/* S5 */
		if (g->alone || g->large || g->triggers || g->alone_attempt ||
			g->wants_alone || s->backstopped == n)
			floor = n;
		kept += min_u64(g->bytes, s->config.retain_bytes);
		if (g->worker == NO_WORKER)
			homeless += g->state == GROUP_CLOSED && !g->failed;
		else
		{
			groups[g->worker]++;
			moved[g->worker] += g->moved;
		}
	}
	ppa_assert(s->kept_bytes == kept);
	ppa_assert(kept <= s->config.flight_bytes + s->config.retain_bytes);	/* S12 */
	ppa_assert(homeless <= 1 && !(homeless == 1 && s->reading));	/* S11 */
	for (uint32_t w = 0; w < s->config.workers; w++)
	{
		ppa_assert(groups[w] == s->workers[w].groups);
		ppa_assert(groups[w] - moved[w] <= max_u64(s->config.depth, s->config.run));	/* S4 */
	}
}
#else
#define check_invariants(s) ((void) 0)
#endif

/* ---------- reading or not ---------- */

static bool
has_room(const PpaSchedule *s)
{
	const Group *newest = group_at(s, s->last);

	if (s->last - s->committed > s->group_mask)
		return false;
	if (s->last > s->committed && s->last > s->given && newest->state == GROUP_CLOSED)
		return false;			/* S11 */
	if (s->last > s->committed && newest->large && newest->worker == NO_WORKER && !newest->failed)
		return false;			/* no more of it can be kept */
	return s->kept_bytes < s->config.flight_bytes;
}

/* The end of every call that changes something. */
static void
settle(PpaSchedule *s, uint64_t now)
{
	bool		reading;

	if (s->stopped)
		return;
	ppa_schedule_place(s, now);
	if (s->stopped)
		return;
	if (s->look_at == PPA_SCHEDULE_NEVER && s->given > s->committed &&
		s->backstopped != s->committed + 1)
		ppa_schedule_watch_from(s, now);
	reading = has_room(s);
	if (reading != s->reading)
	{
		s->reading = reading;
		ppa_schedule_act(s, (PpaScheduleAction)
						 {
							 .type = reading ? PPA_ACTION_RESUME_READING : PPA_ACTION_STOP_READING
						 });
	}
	check_invariants(s);
}

/* ---------- the stream side ---------- */

bool
ppa_schedule_can_open(const PpaSchedule *s)
{
	return !s->stopped && s->reading && s->last - s->committed <= s->group_mask;
}

bool
ppa_schedule_is_reading(const PpaSchedule *s)
{
	return !s->stopped && s->reading;
}

uint64_t
ppa_schedule_open(PpaSchedule *s)
{
	Group	   *g;

	ppa_assert(ppa_schedule_can_open(s));
	ppa_assert(s->last == s->committed || group_at(s, s->last)->state == GROUP_CLOSED);
	s->last++;
	g = group_at(s, s->last);
	*g = (Group)
	{
		.number = s->last,.worker = NO_WORKER,
			.start_after = s->floor > s->committed ? s->floor : 0,
	};
	return s->last;
}

static Group *
open_group(PpaSchedule *s)
{
	Group	   *g = group_at(s, s->last);

	ppa_assert(in_flight(s, s->last) && g->state == GROUP_OPEN);
	return g;
}

/* Nothing else may be in flight with the group; it is the newest. */
static void
make_alone(PpaSchedule *s, Group *g)
{
	if (g->alone)
		return;
	g->alone = true;
	s->stats.alone_groups++;
	if (g->worker == NO_WORKER)
		g->start_after = g->number - 1;
	s->floor = g->number;
}

/* All keys are written, also where the answer is known already. */
static uint64_t
newest_writer(PpaSchedule *s, uint64_t number, const PpaScheduleChange *change)
{
	uint64_t	newest = 0;

	for (uint32_t i = 0; i < change->nkeys; i++)
		newest = max_u64(newest, ppa_deps_write(&s->deps, change->keys[i], number, s->committed));
	return newest;
}

uint64_t
ppa_schedule_change(PpaSchedule *s, const PpaScheduleChange *change)
{
	Group	   *g = open_group(s);
	uint64_t	wait_for = newest_writer(s, g->number, change);

	if (change->flags & (PPA_CHANGE_ALONE | PPA_CHANGE_TRIGGERS))
		make_alone(s, g);
	if (change->flags & PPA_CHANGE_TRIGGERS)
		g->triggers = true;
	if ((change->flags & PPA_CHANGE_ORDERED) || (g->alone && g->worker != NO_WORKER) ||
		ppa_relorder_is_ordered(&s->relorder, change->relation, g->number))
	{
		wait_for = g->number - 1;
		s->stats.ordered_changes++;
	}
	/* What an earlier change of the group has waited for needs no waiting. */
	if (wait_for <= max_u64(max_u64(g->waits, g->start_after), s->committed))
		return 0;
	g->waits = wait_for;
	s->stats.dependency_waits++;
	return wait_for;
}

void
ppa_schedule_bytes(PpaSchedule *s, uint64_t bytes, uint64_t now)
{
	Group	   *g = open_group(s);
	uint64_t	kept = min_u64(g->bytes, s->config.retain_bytes);

	g->bytes += bytes;
	s->kept_bytes += min_u64(g->bytes, s->config.retain_bytes) - kept;
	if (g->bytes > s->config.retain_bytes && !g->large)
	{
		g->early = g->large = true;
		s->stats.large_groups++;
		s->floor = g->number;
		if (g->worker != NO_WORKER)
			ppa_schedule_act(s, (PpaScheduleAction)
							 {
								 .type = PPA_ACTION_UNRETAIN,.group = g->number,
									 .worker = (uint32_t) g->worker
							 });
	}
	settle(s, now);
}

void
ppa_schedule_forward(PpaSchedule *s, uint64_t now)
{
	open_group(s)->early = true;
	settle(s, now);
}

void
ppa_schedule_close(PpaSchedule *s, uint64_t now)
{
	open_group(s)->state = GROUP_CLOSED;
	settle(s, now);
}

/* ---------- events ---------- */

static void
retire(PpaSchedule *s, uint64_t upto, uint64_t now)
{
	ppa_assert(upto <= s->given);
	while (s->committed < upto)
	{
		Group	   *g = group_at(s, s->committed + 1);

		ppa_assert(g->state == GROUP_CLOSED && !g->wants_alone);
		ppa_schedule_take_from(s, g, now);
		s->kept_bytes -= min_u64(g->bytes, s->config.retain_bytes);
		s->committed++;
	}
	s->look_at = PPA_SCHEDULE_NEVER;	/* settle() begins to watch the next */
	ppa_schedule_retry_alone(s);
}

void
ppa_schedule_step(PpaSchedule *s, const PpaScheduleEvent *event)
{
	if (s->stopped)
		return;
	switch (event->type)
	{
		case PPA_EVENT_COMMITTED:
			if (event->pace_us != 0)
				s->pace_us = event->pace_us;
			if (event->group > s->committed)
				retire(s, event->group, event->now);
			break;
		case PPA_EVENT_MISSED:
			s->stats.missed++;
			ppa_relorder_retried(&s->relorder, event->relation, s->last);
			break;
		case PPA_EVENT_FAILED:
		case PPA_EVENT_ROLLED_BACK:
		case PPA_EVENT_HEAD_SEEN:
		case PPA_EVENT_HEAD_BLOCKED:
			ppa_schedule_retry_step(s, event);
			break;
		case PPA_EVENT_WORKER_STARTED:
		case PPA_EVENT_WORKER_REFUSED:
		case PPA_EVENT_WORKER_STOPPED:
		case PPA_EVENT_WORKER_DIED:
		case PPA_EVENT_WORKER_FLUSHING:
		case PPA_EVENT_TICK:
			ppa_schedule_pool_step(s, event);
			break;
		case PPA_EVENT_STOP:
			ppa_schedule_end(s, (PpaScheduleAction)
							 {
								 .type = PPA_ACTION_STOP_ALL,.stop = PPA_STOP_ASKED
							 });
			break;
	}
	settle(s, event->now);
}

/* ---------- questions ---------- */

uint64_t
ppa_schedule_look_at(const PpaSchedule *s)
{
	return s->look_at;
}

uint64_t
ppa_schedule_head(const PpaSchedule *s)
{
	return s->given > s->committed ? s->committed + 1 : 0;
}

int
ppa_schedule_worker_of(const PpaSchedule *s, uint64_t group)
{
	return is_given(s, group) ? group_at(s, group)->worker : NO_WORKER;
}

bool
ppa_schedule_is_ordered(const PpaSchedule *s, uint32_t relation)
{
	return ppa_relorder_is_ordered(&s->relorder, relation, s->last + 1);
}

PpaScheduleStats
ppa_schedule_stats(const PpaSchedule *s)
{
	PpaScheduleStats stats = s->stats;

	stats.relations_ordered = s->relorder.made;
	stats.deps_full = s->deps.full;
	stats.workers_up = 0;
	stats.queued = 0;
	for (uint32_t w = 0; w < s->config.workers; w++)
	{
		stats.workers_up += s->workers[w].state == WORKER_UP;
		stats.queued += s->workers[w].groups;
	}
	return stats;
}
