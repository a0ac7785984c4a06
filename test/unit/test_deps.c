/*-------------------------------------------------------------------------
 *
 * test_deps.c
 *	  Which group wrote a key last.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "core/core_deps.h"
#include "unit.h"

typedef struct Table
{
	PpaDeps		deps;
	void	   *memory;
} Table;

static Table
table_of(uint32_t entries, PpaDepsMode mode)
{
	Table		t;

	t.memory = malloc(ppa_deps_size(entries));
	ppa_deps_init(&t.deps, t.memory, entries, mode);
	return t;
}

static void
test_answers(void)
{
	Table		t = table_of(64, PPA_DEPS_TABLE);

	is_int(ppa_deps_write(&t.deps, 7, 1, 0), 0, "a new key depends on nothing");
	is_int(ppa_deps_write(&t.deps, 7, 1, 0), 0, "a group does not depend on itself");
	is_int(ppa_deps_write(&t.deps, 7, 2, 0), 1, "the next group depends on the last writer");
	is_int(ppa_deps_write(&t.deps, 7, 5, 0), 2, "the newest writer counts");
	is_int(ppa_deps_write(&t.deps, 8, 5, 0), 0, "another key is another key");
	is_int(ppa_deps_write(&t.deps, 7, 6, 5), 0, "a committed writer does not count");
	is_int(ppa_deps_write(&t.deps, 7, 7, 5), 6, "its entry is in use again");
	is_int(ppa_deps_write(&t.deps, 0, 7, 5), 0, "the key 0 is a key: nothing yet");
	is_int(ppa_deps_write(&t.deps, 0, 8, 5), 7, "the key 0 is a key: found");
	free(t.memory);
}

static void
test_modes(void)
{
	Table		none = table_of(64, PPA_DEPS_NONE);
	Table		all = table_of(64, PPA_DEPS_ALL);

	ppa_deps_write(&none.deps, 7, 1, 0);
	is_int(ppa_deps_write(&none.deps, 7, 2, 0), 0, "mode none: no dependency");
	is_int(ppa_deps_write(&all.deps, 7, 1, 0), 0, "mode all: the first has nothing to wait for");
	is_int(ppa_deps_write(&all.deps, 8, 5, 2), 4, "mode all: everything depends on all earlier");
	is_int(ppa_deps_write(&all.deps, 8, 5, 4), 0, "mode all: but not on committed ones");
	free(none.memory);
	free(all.memory);
}

static void
test_full(void)
{
	Table		t = table_of(16, PPA_DEPS_TABLE);

	for (uint64_t key = 1; key <= 16; key++)
		ppa_deps_write(&t.deps, key, 1, 0);
	is_int(t.deps.full, 0, "a table of 16 has room for 16 keys");
	is_int(ppa_deps_write(&t.deps, 100, 2, 0), 0, "the key that finds no room: nothing lost before");
	is_int(t.deps.full, 1, "it is counted");
	is_int(ppa_deps_write(&t.deps, 100, 3, 0), 2, "the key that found no room is not forgotten");
	is_int(ppa_deps_write(&t.deps, 200, 3, 0), 2, "any other may be one of them: all earlier");
	is_int(ppa_deps_write(&t.deps, 300, 4, 0), 3, "the newest group that lost one counts");
	is_int(ppa_deps_write(&t.deps, 3, 4, 0), 1, "a key with an entry is not in doubt");
	is_int(ppa_deps_write(&t.deps, 100, 5, 4), 0, "all forgotten when that group has committed");
	is_int(ppa_deps_write(&t.deps, 100, 6, 4), 5, "and there is room again");
	free(t.memory);
}

/* Against an array that never forgets: the answer is never too small. */
static void
test_never_lost(void)
{
	enum
	{
		KEYS = 200
	};
	Table		t = table_of(64, PPA_DEPS_TABLE);
	uint64_t	last[KEYS] = {0};
	uint64_t	committed = 0;
	uint64_t	random = 1;
	int			too_small = 0;
	int			too_large = 0;

	for (uint64_t group = 1; group <= 20000; group++)
	{
		for (int i = 0; i < 5; i++)
		{
			uint64_t	key;
			uint64_t	answer;

			random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
			key = (random >> 33) % KEYS;
			answer = ppa_deps_write(&t.deps, key, group, committed);
			too_small += last[key] > committed && last[key] < group && answer < last[key];
			too_large += answer >= group || (answer != 0 && answer <= committed);
			last[key] = group;
		}
		/* Up to 24 groups in flight: sometimes more keys than entries. */
		if (group - committed > (random >> 40) % 24)
			committed++;
		if (group - committed > 24)
			committed = group - 24;
	}
	is_int(too_small, 0, "no writer in flight is ever overlooked");
	is_int(too_large, 0, "no answer is the group itself, or committed");
	ok(t.deps.full > 0, "the table was full at times (%" PRIu64 ")", t.deps.full);
	free(t.memory);
}

/* Long use does not wear it out: old entries are taken over in place. */
static void
test_reuse(void)
{
	Table		t = table_of(1024, PPA_DEPS_TABLE);

	for (uint64_t group = 1; group <= 100000; group++)
		for (uint64_t i = 0; i < 8; i++)
			ppa_deps_write(&t.deps, group * 8 + i, group, group > 16 ? group - 16 : 0);
	is_int(t.deps.full, 0, "800,000 keys through 1,024 entries, 128 at a time: always room");
	free(t.memory);
}

int
main(void)
{
	test_answers();
	test_modes();
	test_full();
	test_never_lost();
	test_reuse();
	return unit_done();
}
