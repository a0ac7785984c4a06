/*-------------------------------------------------------------------------
 *
 * test_keys.c
 *	  The keys that a change writes.
 *
 * One relation of four columns, id, email, city, note.  Its keys: the replica
 * identity (id), a unique index (email), a unique index (id, city).  A change
 * is written in short: "1|x|-|~" is a tuple of 1, x, NULL and unchanged.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "schedule/schedule_keys.h"
#include "unit.h"
#include "wire_build.h"

#define RELID 16385

enum
{
	ID,
	EMAIL,
	ID_CITY,
	NKEYS
};

static char id_name[] = "id";
static char email_name[] = "email";
static char city_name[] = "city";
static char note_name[] = "note";
static char *const names[] = {id_name, email_name, city_name, note_name};
static const uint16_t all_columns[] = {0, 1, 2, 3};
static const uint16_t id_city[] = {0, 2};

static PpaRelationKeys relation;

/* The keys of one change. */
typedef struct Keys
{
	int			n;
	uint64_t	key[PPA_MAX_CHANGE_KEYS];
} Keys;

static PpaKey
key_of(int ncolumns, const uint16_t *columns, bool has_nulls, bool in_identity)
{
	PpaKey		key = {
		.ncolumns = ncolumns,.columns = columns,
		.has_nulls = has_nulls,.in_identity = in_identity,
		.seed = ppa_key_seed(RELID, names, ncolumns, columns),
	};

	return key;
}

static void
make_relation(void)
{
	relation.nkeys = NKEYS;
	relation.key[ID] = key_of(1, &all_columns[0], true, true);
	relation.key[EMAIL] = key_of(1, &all_columns[1], false, false);
	relation.key[ID_CITY] = key_of(2, id_city, false, false);
}

static void
put_tuple(Msg *m, char kind, const char *text)
{
	unsigned	ncols = 1;
	size_t		n;

	for (const char *p = text; *p != '\0'; p++)
		ncols += *p == '|';
	put16(m, ncols);
	for (;; text += n + 1)
	{
		n = strcspn(text, "|");
		if (n == 1 && *text == '-')
			put8(m, 'n');
		else if (n == 1 && *text == '~')
			put8(m, 'u');
		else
			put_value(m, kind, text, (uint32_t) n);
		if (text[n] == '\0')
			break;
	}
}

/* NULL: no such tuple.  Values are of the kind given, text or binary. */
static Keys
keys_of(char type, char kind, char old_kind, const char *old, const char *new)
{
	static Msg	m;
	static PpaChange change;
	PpaWireError err;
	Keys		keys;
	char	   *copy;

	m.len = 0;
	put8(&m, (unsigned char) type);
	put32(&m, RELID);
	if (old != NULL)
	{
		put8(&m, (unsigned char) old_kind);
		put_tuple(&m, kind, old);
	}
	if (new != NULL)
	{
		put8(&m, 'N');
		put_tuple(&m, kind, new);
	}
	copy = msg_exact(&m, m.len, 0);
	if (!ppa_wire_change(copy, m.len, &change, &err))
		abort();
	keys.n = ppa_keys_of_change(&relation, &change, keys.key);
	free(copy);
	return keys;
}

static Keys
insert(const char *new)
{
	return keys_of('I', 't', 0, NULL, new);
}

static Keys
update(char old_kind, const char *old, const char *new)
{
	return keys_of('U', 't', old_kind, old, new);
}

static Keys
delete_of(char old_kind, const char *old)
{
	return keys_of('D', 't', old_kind, old, NULL);
}

static bool
has(const Keys *keys, uint64_t key)
{
	for (int i = 0; i < keys->n; i++)
	{
		if (keys->key[i] == key)
			return true;
	}
	return false;
}

/* How many keys the two have in common. */
static int
common(Keys a, Keys b)
{
	int			n = 0;

	for (int i = 0; i < a.n; i++)
		n += has(&b, a.key[i]);
	return n;
}

static void
test_images(void)
{
	Keys		row = insert("1|x|rome|n");

	is_int(row.n, 3, "INSERT: all keys");
	is_int(common(row, insert("1|x|rome|m")), 3, "the same keys, whatever else the row has");
	is_int(common(row, insert("2|y|rome|n")), 0, "another row has none of them");
	is_int(common(row, insert("2|x|rome|n")), 1, "only the e-mail is the same");
	is_int(common(row, insert("x|1|rome|n")), 0, "the same value in another column is another key");

	is_int(update(0, NULL, "1|x|rome|m").n, 3, "UPDATE without an old image: each key once");
	is_int(common(row, update(0, NULL, "1|x|rome|m")), 3, "the keys of the row");
	is_int(update('K', "1|-|-|-", "2|x|rome|n").n, 4, "UPDATE of the identity: it twice");
	is_int(common(row, update('K', "1|-|-|-", "2|z|bonn|n")), 1, "the old identity is one of them");
	is_int(common(row, update('K', "9|-|-|-", "1|x|rome|n")), 3, "an old and a new key are one key");
	is_int(update('O', "1|x|rome|n", "1|x|rome|m").n, 3, "whole old image, no key changed: each once");
	is_int(common(row, update('O', "1|x|rome|n", "2|z|bonn|n")), 3,
		   "whole old image, all keys changed: all old ones");
	is_int(update('O', "1|x|rome|n", "2|z|bonn|n").n, 6, "and all new ones");

	is_int(delete_of('K', "1|-|-|-").n, 1, "DELETE by identity: the identity");
	is_int(common(row, delete_of('K', "1|-|-|-")), 1, "that of the row");
	is_int(common(row, delete_of('O', "1|x|rome|n")), 3, "DELETE with the whole old image: all keys");
}

static void
test_missing_values(void)
{
	Keys		row = insert("1|x|rome|n");

	is_int(insert("1|-|rome|n").n, 2, "a unique key with NULL is none");
	is_int(insert("1|-|-|n").n, 1, "nor one with NULL in a part");
	is_int(insert("-|x|-|n").n, 2, "an identity with NULL is one");
	is_int(common(insert("-|x|rome|n"), insert("-|y|rome|n")), 1, "NULL is equal to NULL there");
	is_int(common(insert("-|x|rome|n"), insert("|y|rome|n")), 0, "and not to the empty string");
	is_int(common(insert("|x|rome|n"), insert("|y|bonn|n")), 1, "which is a value");

	is_int(update(0, NULL, "1|~|rome|n").n, 2, "a value that is not sent: the key is left out");
	is_int(update('O', "1|x|rome|n", "1|~|rome|m").n, 3, "but for one that the old image has");
	is_int(common(row, update('O', "9|x|rome|n", "1|~|~|m")), 3, "it counts as the new value");
	is_int(common(row, update('K', "1|-|-|-", "~|z|rome|m")), 1, "also of an identity");
	is_int(update('K', "1|-|-|-", "2|~|rome|m").n, 3,
		   "an old image of the identity knows nothing of other columns");
	is_int(insert("1|x").n, 2, "a tuple that is too short: what it has");
}

static void
test_hashes(void)
{
	static const uint16_t pair[] = {0, 1};
	PpaRelationKeys saved = relation;

	is_int(common(keys_of('I', 'b', 0, NULL, "1|x|rome|n"), insert("1|x|rome|n")), 0,
		   "binary values are not text");
	is_int(common(keys_of('I', 'b', 0, NULL, "1|x|rome|n"), keys_of('I', 'b', 0, NULL, "1|x|rome|m")),
		   3, "binary values have keys as well");
	ok(ppa_key_seed(RELID, names, 1, &all_columns[0]) !=
	   ppa_key_seed(RELID + 1, names, 1, &all_columns[0]), "another relation, another key");
	ok(ppa_key_seed(RELID, names, 1, &all_columns[0]) !=
	   ppa_key_seed(RELID, names, 1, &all_columns[1]), "another column, another key");
	ok(ppa_key_seed(RELID, names, 1, &all_columns[1]) ==
	   ppa_key_seed(RELID, names + 1, 1, &all_columns[0]), "a column that has moved is the same");

	relation.nkeys = 1;
	relation.key[0] = key_of(2, pair, true, true);
	is_int(common(insert("ab|c|-|-"), insert("a|bc|-|-")), 0, "the border of two values counts");
	is_int(common(insert("|a|-|-"), insert("a||-|-")), 0, "also of an empty one");
	is_int(common(insert("a|-|-|-"), insert("-|a|-|-")), 0, "also of NULL");
	relation = saved;
}

/* Every byte of a value of any length counts. */
static void
test_every_byte(void)
{
	char		text[64 + sizeof("|-|-|-")];
	int			same = 0;

	for (int len = 1; len <= 64; len++)
	{
		Keys		before;

		memset(text, 'a', (size_t) len);
		memcpy(text + len, "|-|-|-", sizeof("|-|-|-"));
		before = insert(text);
		for (int i = 0; i < len; i++)
		{
			text[i] = 'b';
			same += common(before, insert(text));
			text[i] = 'a';
		}
	}
	is_int(same, 0, "one byte differs, in values of 1 to 64 bytes: another key");
}

static int
compare(const void *a, const void *b)
{
	uint64_t	x = *(const uint64_t *) a;
	uint64_t	y = *(const uint64_t *) b;

	return x < y ? -1 : x > y;
}

/* Keys as they are: numbers in a row, and their high and low bits. */
static void
test_spread(void)
{
	enum
	{
		N = 100000,
		BUCKETS = 1024
	};
	uint64_t   *seen = malloc(sizeof(uint64_t) * N);
	static int	high[BUCKETS];
	static int	low[BUCKETS];
	int			doubles = 0;
	int			fullest = 0;

	for (int i = 0; i < N; i++)
	{
		char		text[32];

		snprintf(text, sizeof(text), "%d|-|-|-", i);
		seen[i] = insert(text).key[0];
		high[seen[i] >> 54]++;
		low[seen[i] % BUCKETS]++;
	}
	for (int i = 0; i < BUCKETS; i++)
	{
		fullest = high[i] > fullest ? high[i] : fullest;
		fullest = low[i] > fullest ? low[i] : fullest;
	}
	qsort(seen, N, sizeof(uint64_t), compare);
	for (int i = 1; i < N; i++)
		doubles += seen[i] == seen[i - 1];
	is_int(doubles, 0, "100000 numbers, 100000 keys");
	/* about 98 each; 6 standard deviations more */
	ok(fullest < 98 + 60, "spread over the high and the low bits: at most %d in a bucket", fullest);
	free(seen);
}

int
main(void)
{
	make_relation();
	test_images();
	test_missing_values();
	test_hashes();
	test_every_byte();
	test_spread();
	return unit_done();
}
