/*-------------------------------------------------------------------------
 *
 * test_schedule.c
 *	  Which worker applies a group, when it may begin, and who gives way.
 *
 * Each test drives the scheduler by hand and compares the actions as text.
 * What happens when all of it comes together is the simulator's (test/sim).
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "core/core_schedule.h"
#include "unit.h"

static PpaSchedule *s;
static void *memory;
static uint64_t now;
static char text[4096];

static void
begin(PpaScheduleConfig config)
{
	free(memory);
	memory = malloc(ppa_schedule_size(&config));
	s = ppa_schedule_init(memory, &config);
	now = 0;
}

static void
append_action(const PpaScheduleAction *a)
{
	static const char *const names[] = {"start", "stop", "dispatch", "move", "abort", "retry",
	"unretain", "stop-reading", "resume-reading", "verdict", "stop-all", "serial"};
	size_t		len = strlen(text);
	bool		group = a->type >= PPA_ACTION_DISPATCH && a->type <= PPA_ACTION_UNRETAIN;

	len += (size_t) snprintf(text + len, sizeof(text) - len, "%s%s", len > 0 ? ", " : "",
							 names[a->type]);
	if (a->type <= PPA_ACTION_STOP_WORKER)
		snprintf(text + len, sizeof(text) - len, " w%u", a->worker);
	else if (group)
		snprintf(text + len, sizeof(text) - len, " %" PRIu64 " w%u after %" PRIu64 "%s", a->group,
				 a->worker, a->start_after, a->alone ? " alone" : "");
	else if (a->type == PPA_ACTION_VERDICT)
		snprintf(text + len, sizeof(text) - len, " %" PRIu64, a->group);
}

/* The actions of the last step, as text. */
static const char *
actions(void)
{
	PpaScheduleAction action;

	text[0] = '\0';
	while (ppa_schedule_next_action(s, &action))
		append_action(&action);
	return text;
}

static const char *
step(PpaScheduleEvent event)
{
	event.now = now;
	ppa_schedule_step(s, &event);
	return actions();
}

#define EVENT(...) step((PpaScheduleEvent) {__VA_ARGS__})

static uint64_t
change(uint64_t key, uint32_t flags)
{
	PpaScheduleChange c = {.relation = 1,.flags = flags,.nkeys = 1,.keys = &key};

	return ppa_schedule_change(s, &c);
}

/* A whole group with one change; the actions. */
static const char *
group(uint64_t key, uint32_t flags)
{
	ppa_schedule_open(s);
	change(key, flags);
	ppa_schedule_bytes(s, 100, now);
	ppa_schedule_close(s, now);
	return actions();
}

static const char *
committed(uint64_t number)
{
	return EVENT(.type = PPA_EVENT_COMMITTED,.group = number);
}

static const char *
failed(uint64_t number, PpaFailure reason)
{
	return EVENT(.type = PPA_EVENT_FAILED,.group = number,.reason = reason,.relation = 1,
				 .retained = true);
}

static const char *
rolled_back(uint64_t number, uint64_t start_after)
{
	return EVENT(.type = PPA_EVENT_ROLLED_BACK,.group = number,.start_after = start_after);
}

static const char *
blocked(uint64_t number, uint64_t by)
{
	return EVENT(.type = PPA_EVENT_HEAD_BLOCKED,.group = number,.by = by);
}

/* All workers up; a group each has been committed on the way. */
static void
begin_with(PpaScheduleConfig config)
{
	begin(config);
	for (uint32_t i = 0; i < config.workers; i++)
	{
		group(1000 + i, 0);
		EVENT(.type = PPA_EVENT_WORKER_STARTED,.worker = i);
	}
	committed(config.workers);
}

static void
begin_with_workers(uint32_t n, uint32_t depth)
{
	PpaScheduleConfig config = ppa_schedule_defaults(n);

	config.depth = depth;
	begin_with(config);
}

static void
test_pool(void)
{
	PpaScheduleConfig config = ppa_schedule_defaults(2);

	config.depth = 2;
	config.idle_us = 1000;
	config.refused_us = 5000;
	begin(config);
	is_str(group(1, 0), "start w0, stop-reading", "the first group starts the first worker");
	ok(!ppa_schedule_can_open(s), "no other group is opened meanwhile");
	is_str(EVENT(.type = PPA_EVENT_WORKER_STARTED,.worker = 0),
		   "dispatch 1 w0 after 0, resume-reading", "and is given out when it is there");
	is_str(group(2, 0), "start w1, dispatch 2 w0 after 0",
		   "a group behind another one starts a second worker");
	is_str(EVENT(.type = PPA_EVENT_WORKER_REFUSED,.worker = 1), "",
		   "a refusal changes nothing for the others");
	is_str(group(3, 0), "stop-reading", "all queues are full: reading stops");
	is_str(committed(1), "dispatch 3 w0 after 0, resume-reading", "a commit makes room");
	now = 6000;
	is_str(group(4, 0), "start w1, stop-reading", "later the second worker is asked for again");
	is_str(EVENT(.type = PPA_EVENT_WORKER_STARTED,.worker = 1),
		   "dispatch 4 w1 after 0, resume-reading", "now it comes");
	committed(4);
	EVENT(.type = PPA_EVENT_WORKER_FLUSHING,.worker = 0,.waiting = true);
	is_str(group(5, 0), "dispatch 5 w1 after 0", "who is flushing is not idle");
	EVENT(.type = PPA_EVENT_WORKER_FLUSHING,.worker = 0,.waiting = false);
	is_str(group(6, 0), "dispatch 6 w0 after 0", "and then it is again");
	committed(6);
	now = 8000;
	EVENT(.type = PPA_EVENT_WORKER_FLUSHING,.worker = 1,.waiting = true);
	is_str(EVENT(.type = PPA_EVENT_TICK), "", "nor is it given back");
	EVENT(.type = PPA_EVENT_WORKER_FLUSHING,.worker = 1,.waiting = false);
	is_str(EVENT(.type = PPA_EVENT_TICK), "stop w1", "idle workers are given back");
	is_str(EVENT(.type = PPA_EVENT_WORKER_STOPPED,.worker = 1), "", "it has left");
	is_str(EVENT(.type = PPA_EVENT_TICK), "", "the first one stays");
	is_int(ppa_schedule_stats(s).workers_up, 1, "one worker is up");

	begin(config);
	group(1, 0);
	is_str(EVENT(.type = PPA_EVENT_WORKER_REFUSED,.worker = 0), "serial",
		   "no worker at all: in this process");
	is_str(EVENT(.type = PPA_EVENT_TICK), "", "that was the last action");
}

static void
test_choice(void)
{
	begin_with_workers(3, 4);
	is_str(group(1, 0), "dispatch 4 w0 after 0", "an idle worker");
	is_str(group(2, 0), "dispatch 5 w1 after 0", "another idle worker");
	is_str(group(2, 0), "dispatch 6 w1 after 0", "the one that ends with what it waits for");
	is_str(group(1, 0), "dispatch 7 w0 after 0", "the same, the other one");
	is_str(group(3, 0), "dispatch 8 w2 after 0", "the shortest queue");
	ppa_schedule_open(s);
	is_int(change(2, 0), 6, "waits for the last writer of its key");
	is_int(change(1, 0), 7, "waits for a newer one");
	is_int(change(2, 0), 0, "need not wait for what it has waited for");
	is_int(change(50, PPA_CHANGE_ORDERED), 8, "ordered: waits for all earlier");
	is_int(change(50, PPA_CHANGE_ORDERED), 0, "once");
	ppa_schedule_close(s, now);
	is_str(actions(), "dispatch 9 w2 after 0", "the worker that ends with the newest of them");
	is_int(ppa_schedule_head(s), 4, "the head of line is the oldest one");
	is_int(ppa_schedule_worker_of(s, 9), 2, "the worker of a group");
}

/* The first worker has a queue of its own before the second is there. */
static void
test_take_turns(void)
{
	PpaScheduleConfig config = ppa_schedule_defaults(2);

	config.depth = 3;
	begin(config);
	group(1, 0);
	EVENT(.type = PPA_EVENT_WORKER_STARTED,.worker = 0);
	group(2, 0);
	is_str(group(3, 0), "dispatch 3 w0 after 0", "there is no other worker");
	EVENT(.type = PPA_EVENT_WORKER_STARTED,.worker = 1);
	is_str(group(4, 0), "dispatch 4 w1 after 0", "the new worker has nothing to do");
	is_str(group(5, 0), "stop-reading", "the first is done before the second, but full");
	is_str(committed(1), "dispatch 5 w0 after 0, resume-reading", "so it gets the next group");
	is_str(group(6, 0), "dispatch 6 w1 after 0", "they take turns");
	is_str(group(7, 0), "stop-reading", "although there is a place left");
	is_str(committed(3), "dispatch 7 w0 after 0, resume-reading", "still in turns");
}

/* Groups that are short follow each other in one worker. */
static void
test_runs(void)
{
	PpaScheduleConfig config = ppa_schedule_defaults(2);

	config.depth = 1;
	config.run_us = 800;
	begin_with(config);
	EVENT(.type = PPA_EVENT_COMMITTED,.group = 2,.pace_us = 100);
	is_str(group(1, 0), "dispatch 3 w0 after 0", "a run begins");
	is_str(group(2, 0), "dispatch 4 w0 after 0", "and goes on, although the queue is full");
	for (uint64_t key = 3; key <= 8; key++)
		group(key, 0);
	is_int(ppa_schedule_worker_of(s, 10), 0, "it does so ...");
	is_str(group(9, 0), "dispatch 11 w1 after 0", "until it is long enough");
	is_str(group(10, 0), "dispatch 12 w1 after 0", "the next one is with another worker");
	EVENT(.type = PPA_EVENT_COMMITTED,.group = 12,.pace_us = 101);
	is_str(group(11, 0), "dispatch 13 w0 after 0", "groups are not short any more");
	is_str(group(12, 0), "dispatch 14 w1 after 0", "each has a worker of its own");
}

static void
test_alone(void)
{
	begin_with_workers(3, 4);
	group(1, 0);
	group(2, 0);
	is_str(group(9, PPA_CHANGE_TRIGGERS), "dispatch 6 w0 after 5 alone",
		   "triggers: in the first worker, after all earlier");
	is_str(group(3, 0), "dispatch 7 w2 after 6", "later ones begin after it");
	is_str(group(9, PPA_CHANGE_ALONE), "dispatch 8 w1 after 7 alone", "alone: in any worker");
	is_str(group(4, 0), "dispatch 9 w0 after 8", "later ones begin after the newest of them");
	committed(8);
	is_str(group(5, 0), "dispatch 10 w1 after 0", "when it has committed, they need not wait");
}

static void
test_victim(void)
{
	begin_with_workers(3, 4);
	group(1, 0);
	group(2, 0);
	group(3, 0);
	is_str(blocked(4, 6), "abort 6 w2 after 4", "the later one gives way, and is parked");
	is_str(blocked(4, 6), "", "it is asked once");
	is_str(blocked(4, 4), "", "the head of line itself is never asked");
	is_str(blocked(5, 6), "", "a look at another group is out of date");
	is_str(rolled_back(6, 4), "", "it begins again by itself");
	committed(4);
	is_str(blocked(5, 6), "abort 6 w2 after 5", "a second time");
	rolled_back(6, 5);
	is_int(ppa_schedule_stats(s).victims, 2, "victims are counted");

	begin_with_workers(4, 4);
	for (int i = 0; i < 4; i++)
		group(10 + (uint64_t) i, 0);
	group(20, 0);
	for (uint64_t head = 5; head <= 6; head++)
	{
		blocked(head, 9);
		rolled_back(9, head);
		committed(head);
	}
	is_str(blocked(7, 9), "abort 9 w0 after 8", "after two retries it waits for all earlier");
}

static void
test_failure(void)
{
	begin_with_workers(3, 4);
	group(1, 0);
	group(2, 0);
	group(3, 0);
	is_str(failed(5, PPA_FAILED_UNIQUE), "retry 5 w1 after 4",
		   "an error while speculative: once more, after all earlier");
	committed(4);
	is_str(failed(5, PPA_FAILED_UNIQUE), "abort 6 w2 after 5",
		   "an error beside a later group is no verdict: that one rolls back");
	is_str(group(4, 0), "dispatch 7 w0 after 5", "those that come are parked");
	is_str(rolled_back(6, 4), "", "an answer to something older does not count");
	is_str(rolled_back(6, 5), "retry 5 w1 after 4 alone", "then it is tried alone");
	is_str(failed(5, PPA_FAILED_UNIQUE), "verdict 5", "an error alone is the verdict");
	is_str(committed(5), "", "nothing comes after a verdict");

	begin_with_workers(2, 4);
	group(1, 0);
	is_str(failed(3, PPA_FAILED_OTHER), "retry 3 w0 after 2 alone",
		   "no later group: alone at once");
	is_str(committed(3), "", "and it may succeed");

	begin_with_workers(2, 4);
	group(1, 0);
	failed(3, PPA_FAILED_DEADLOCK);
	for (int i = 0; i < 5; i++)
		is_str(failed(3, PPA_FAILED_DEADLOCK), "retry 3 w0 after 2 alone",
			   "errors that pass are tried again");
	is_str(failed(3, PPA_FAILED_DEADLOCK), "verdict 3", "but not for ever");
}

static void
test_late_trigger(void)
{
	begin_with_workers(2, 4);
	group(1, 0);
	group(2, 0);
	group(2, 0);
	is_str(failed(4, PPA_FAILED_TRIGGERS), "abort 5 w1 after 4",
		   "a trigger found late: later ones roll back");
	is_str(rolled_back(5, 4), "", "it is not the head of line yet");
	is_str(committed(3), "move 4 w0 after 3, retry 4 w0 after 3 alone",
		   "then it goes to the first worker, alone");
	is_str(committed(4), "", "and commits");
	is_int(ppa_schedule_stats(s).moved_groups, 1, "it is counted");
}

static void
test_backstop(void)
{
	PpaScheduleEvent seen = {.type = PPA_EVENT_HEAD_SEEN,.group = 4,.waiting = true,.progress = 7};
	int			looks = 0;

	begin_with_workers(3, 4);
	group(1, 0);
	group(2, 0);
	group(3, 0);
	is_int(ppa_schedule_look_at(s), 1000, "the head of line is looked at after a millisecond");
	for (text[0] = '\0'; text[0] == '\0' && looks < 1000; looks++)
	{
		now = ppa_schedule_look_at(s);
		step(seen);
	}
	is_str(text, "abort 5 w1 after 4, abort 6 w2 after 4", "too long in a lock wait: all give way");
	ok(now >= 100000 && now < 110000, "after 100 ms (%" PRIu64 " us)", now);
	ok(looks < 20, "with few looks (%d)", looks);
	ok(ppa_schedule_look_at(s) == PPA_SCHEDULE_NEVER, "then there is nothing to look for");
	is_str(group(4, 0), "dispatch 7 w0 after 4", "those that come are parked");
	committed(4);
	ok(ppa_schedule_look_at(s) != PPA_SCHEDULE_NEVER, "the next head of line is looked at");
	seen.group = 5;
	for (looks = 0; looks < 100; looks++)
	{
		now = ppa_schedule_look_at(s);
		seen.progress++;
		step(seen);
	}
	is_int(ppa_schedule_stats(s).backstops, 1, "one that makes progress is left alone");
}

static void
test_large(void)
{
	PpaScheduleConfig config = ppa_schedule_defaults(2);

	config.retain_bytes = 1000;
	config.flight_bytes = 2000;
	begin(config);
	group(1, 0);
	EVENT(.type = PPA_EVENT_WORKER_STARTED,.worker = 0);
	ppa_schedule_open(s);
	change(5, 0);
	ppa_schedule_bytes(s, 900, now);
	is_str(actions(), "", "not large yet");
	ppa_schedule_bytes(s, 200, now);
	is_str(actions(), "dispatch 2 w0 after 0, unretain 2 w0 after 0",
		   "larger than what is kept: given out, and then not kept");
	is_int(change(6, PPA_CHANGE_TRIGGERS), 1, "a trigger in it: waits for all earlier in place");
	ppa_schedule_bytes(s, 100000, now);
	is_str(actions(), "", "its bytes do not stop the reading");
	ppa_schedule_close(s, now);
	actions();
	is_str(group(7, 0), "start w1, dispatch 3 w0 after 2", "later ones begin after it");
	committed(1);
	is_str(EVENT(.type = PPA_EVENT_FAILED,.group = 2,.reason = PPA_FAILED_DEADLOCK), "stop-all",
		   "an error that passes, with nothing to retry from: all start anew");
}

static void
test_bytes(void)
{
	PpaScheduleConfig config = ppa_schedule_defaults(2);

	config.retain_bytes = 100;
	config.flight_bytes = 250;
	begin(config);
	group(1, 0);
	EVENT(.type = PPA_EVENT_WORKER_STARTED,.worker = 0);
	group(2, 0);
	is_str(group(3, 0), "stop-reading, dispatch 3 w0 after 0", "too many bytes: reading stops");
	is_str(committed(1), "resume-reading", "a commit gives some back");
}

static void
test_death(void)
{
	begin_with_workers(2, 4);
	group(1, 0);
	group(2, 0);
	is_str(EVENT(.type = PPA_EVENT_WORKER_DIED,.worker = 0), "stop-all",
		   "a dead worker ends all; nothing is given again");
	is_str(committed(3), "", "nothing comes after it");
	ok(!ppa_schedule_can_open(s), "no group is opened any more");
}

static void
test_ordered_for_a_while(void)
{
	PpaScheduleConfig config = ppa_schedule_defaults(1);

	config.order_retries = 3;
	config.order_window = 100;
	config.order_groups = 10;
	begin(config);
	group(1, 0);
	EVENT(.type = PPA_EVENT_WORKER_STARTED,.worker = 0);
	for (int i = 0; i < 2; i++)
		EVENT(.type = PPA_EVENT_MISSED,.group = 1,.relation = 1);
	ok(!ppa_schedule_is_ordered(s, 1), "a few retries do not matter");
	EVENT(.type = PPA_EVENT_MISSED,.group = 1,.relation = 1);
	ok(ppa_schedule_is_ordered(s, 1), "a relation that is retried often is ordered");
	ok(!ppa_schedule_is_ordered(s, 2), "others are not");
	ppa_schedule_open(s);
	is_int(change(77, 0), 1, "its changes wait for all earlier");
	ppa_schedule_close(s, now);
	actions();
	for (uint64_t n = 3; n <= 14; n++)
	{
		group(1000 + n, 0);
		committed(n);
	}
	ok(!ppa_schedule_is_ordered(s, 1), "for a while");
	is_int(ppa_schedule_stats(s).relations_ordered, 1, "it is counted");
}

int
main(void)
{
	test_pool();
	test_choice();
	test_take_turns();
	test_runs();
	test_alone();
	test_victim();
	test_failure();
	test_late_trigger();
	test_backstop();
	test_large();
	test_bytes();
	test_death();
	test_ordered_for_a_while();
	free(memory);
	return unit_done();
}
