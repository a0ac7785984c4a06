/*-------------------------------------------------------------------------
 *
 * fuzz_wire.c
 *	  libFuzzer target for the message parsers (src/wire).
 *
 * One input is one message; the first byte chooses the parser.  An input that
 * is a data frame is parsed as a frame, and then its payload as a message.
 *
 * The sanitizers see reads outside the buffer.  What they cannot see is
 * checked here, and any violation aborts:
 * - every view of a result lies in the message, and is read byte by byte;
 * - the fields of a result add up to the length of the message: nothing was
 *   skipped or read twice;
 * - an error names the type byte and an offset inside the message;
 * - no message is a proper prefix of another: what parses does not parse with
 *   its last byte missing or with one byte more;
 * - terminating the values of a copy changes no value.
 *
 * Build and run: see the Makefile here.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/wire_message.h"

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Abort with the broken rule, so that the fuzzer keeps the input. */
#define CHECK(cond) \
	do { \
		if (!(cond)) \
		{ \
			fprintf(stderr, "%s:%d: check failed: %s\n", \
					__FILE__, __LINE__, #cond); \
			abort(); \
		} \
	} while (0)

/* Large, hence not on the stack. */
static PpaChange change;
static PpaChange copy_change;

/* Reads go here, or the compiler would drop them. */
static volatile uint64_t sink;

/* FNV-1a over every byte of a view that must lie in [buf, buf + len). */
static uint64_t
read_view(const char *buf, size_t len, const char *view, size_t view_len)
{
	uint64_t	hash = UINT64_C(14695981039346656037);

	CHECK(view >= buf && view <= buf + len);
	CHECK(view_len <= (size_t) (buf + len - view));
	for (size_t i = 0; i < view_len; i++)
		hash = (hash ^ (uint8_t) view[i]) * UINT64_C(1099511628211);
	sink += hash;
	return hash;
}

/* The same for a string and its NUL; its size with the NUL. */
static size_t
read_string(const char *buf, size_t len, const char *string)
{
	size_t		n = strlen(string) + 1;

	read_view(buf, len, string, n);
	return n;
}

/* Read every value; the size of the tuple in the message. */
static size_t
walk_tuple(const char *buf, size_t len, const PpaWireTuple *tuple,
		   uint64_t *hash)
{
	size_t		size = 2;

	CHECK(tuple->ncols >= 0 && tuple->ncols <= PPA_WIRE_MAX_COLUMNS);
	for (int i = 0; i < tuple->ncols; i++)
	{
		char		kind = tuple->kind[i];

		size += 1;
		if (kind == PPA_COLUMN_TEXT || kind == PPA_COLUMN_BINARY)
		{
			*hash = *hash * 31 + read_view(buf, len, tuple->value[i],
										   tuple->len[i]);
			size += 4 + tuple->len[i];
		}
		else
		{
			CHECK(kind == PPA_COLUMN_NULL || kind == PPA_COLUMN_UNCHANGED);
			CHECK(tuple->value[i] == NULL && tuple->len[i] == 0);
		}
		*hash = *hash * 31 + (uint8_t) kind;
	}
	return size;
}

/* Read the whole change; its size in the message. */
static size_t
walk_change(const char *buf, size_t len, const PpaChange *c, uint64_t *hash)
{
	size_t		size = 1 + 4;

	*hash = 0;
	CHECK(c->type == buf[0]);
	CHECK(c->old_kind == PPA_OLD_NONE || c->old_kind == PPA_OLD_KEY ||
		  c->old_kind == PPA_OLD_FULL);
	CHECK(c->type != PPA_MSG_DELETE || c->old_kind != PPA_OLD_NONE);
	CHECK(c->type != PPA_MSG_INSERT || c->old_kind == PPA_OLD_NONE);
	if (c->old_kind != PPA_OLD_NONE)
		size += 1 + walk_tuple(buf, len, &c->old_tuple, hash);
	if (c->type != PPA_MSG_DELETE)
		size += 1 + walk_tuple(buf, len, &c->new_tuple, hash);
	return size;
}

/* Each text value is followed by a NUL. */
static void
check_terminated(const PpaWireTuple *tuple)
{
	for (int i = 0; i < tuple->ncols; i++)
	{
		if (tuple->kind[i] == PPA_COLUMN_TEXT)
			CHECK(tuple->value[i][tuple->len[i]] == '\0');
	}
}

/* Terminate the values of a copy: the values stay what they are. */
static void
check_terminate(const char *buf, size_t len, uint64_t hash)
{
	char	   *copy = malloc(len + 1);
	PpaWireError err;
	uint64_t	again;

	CHECK(copy != NULL);
	memcpy(copy, buf, len);
	copy[len] = 'x';
	CHECK(ppa_wire_change(copy, len, &copy_change, &err));
	if (copy_change.old_kind != PPA_OLD_NONE)
		ppa_wire_terminate(&copy_change.old_tuple);
	if (copy_change.type != PPA_MSG_DELETE)
		ppa_wire_terminate(&copy_change.new_tuple);
	walk_change(copy, len, &copy_change, &again);
	CHECK(again == hash);
	if (copy_change.old_kind != PPA_OLD_NONE)
		check_terminated(&copy_change.old_tuple);
	if (copy_change.type != PPA_MSG_DELETE)
		check_terminated(&copy_change.new_tuple);
	free(copy);
}

static bool
fuzz_change(char *buf, size_t len, PpaWireError *err)
{
	PpaWireError relid_err;
	uint32_t	relid = 0;
	uint64_t	hash;
	bool		has_relid = ppa_wire_change_relid(buf, len, &relid, &relid_err);

	if (!ppa_wire_change(buf, len, &change, err))
		return false;
	CHECK(has_relid && relid == change.relid);
	CHECK(walk_change(buf, len, &change, &hash) == len);
	check_terminate(buf, len, hash);
	return true;
}

static bool
fuzz_relation(const char *buf, size_t len, PpaWireError *err)
{
	PpaRelationMessage rel;
	PpaRelationColumn column;
	const char *pos;
	size_t		size = 1 + 4 + 1 + 2;
	int			ncols = 0;

	if (!ppa_wire_relation(buf, len, &rel, err))
		return false;
	CHECK(rel.natts >= 0 && rel.natts <= PPA_WIRE_MAX_COLUMNS);
	CHECK(strchr("dnfi", rel.replident) != NULL && rel.replident != '\0');
	size += read_string(buf, len, rel.nspname);
	size += read_string(buf, len, rel.relname);
	pos = rel.columns;
	while (ppa_wire_next_column(&rel, &pos, &column))
	{
		size += 1 + read_string(buf, len, column.name) + 4 + 4;
		ncols++;
	}
	CHECK(ncols == rel.natts);
	CHECK(pos == buf + len && size == len);
	return true;
}

static bool
fuzz_truncate(const char *buf, size_t len, PpaWireError *err)
{
	PpaTruncate t;

	if (!ppa_wire_truncate(buf, len, &t, err))
		return false;
	CHECK(t.nrelids >= 0);
	CHECK(len == 1 + 4 + 1 + 4 * (size_t) t.nrelids);
	for (int i = 0; i < t.nrelids; i++)
		sink += ppa_wire_truncate_relid(&t, i);
	return true;
}

static bool
fuzz_begin(const char *buf, size_t len, PpaWireError *err)
{
	PpaBegin	b;

	if (!ppa_wire_begin(buf, len, &b, err))
		return false;
	CHECK(b.final_lsn != 0 && len == 21);
	return true;
}

static bool
fuzz_commit(const char *buf, size_t len, PpaWireError *err)
{
	PpaCommit	c;

	if (!ppa_wire_commit(buf, len, &c, err))
		return false;
	CHECK(c.commit_lsn != 0 && c.end_lsn != 0 && len == 26);
	return true;
}

static bool
fuzz_origin(const char *buf, size_t len, PpaWireError *err)
{
	PpaOriginMessage o;

	if (!ppa_wire_origin(buf, len, &o, err))
		return false;
	CHECK(len == 1 + 8 + read_string(buf, len, o.name));
	return true;
}

/* Parse with the parser of the first byte; an unknown one is a BEGIN. */
static bool
fuzz_message(char *buf, size_t len, PpaWireError *err)
{
	switch (len > 0 ? *buf : '\0')
	{
		case PPA_MSG_COMMIT:
			return fuzz_commit(buf, len, err);
		case PPA_MSG_ORIGIN:
			return fuzz_origin(buf, len, err);
		case PPA_MSG_RELATION:
			return fuzz_relation(buf, len, err);
		case PPA_MSG_TYPE:
			return ppa_wire_type(buf, len, err);
		case PPA_MSG_INSERT:
		case PPA_MSG_UPDATE:
		case PPA_MSG_DELETE:
			return fuzz_change(buf, len, err);
		case PPA_MSG_TRUNCATE:
			return fuzz_truncate(buf, len, err);
		default:
			return fuzz_begin(buf, len, err);
	}
}

/* One message in a heap block of its exact size; did it parse? */
static bool
one_message(const char *data, size_t len)
{
	char	   *buf = malloc(len);
	PpaWireError err = {'?', SIZE_MAX, NULL};
	bool		good;

	CHECK(buf != NULL);
	if (len > 0)
		memcpy(buf, data, len);
	good = fuzz_message(buf, len, &err);
	if (!good)
	{
		CHECK(err.type == (len > 0 ? buf[0] : '\0'));
		CHECK(err.offset <= len);
		CHECK(err.what != NULL);
	}
	free(buf);
	return good;
}

static void
message_and_neighbours(const char *data, size_t len)
{
	char	   *longer;

	if (!one_message(data, len))
		return;

	CHECK(!one_message(data, len - 1));
	longer = malloc(len + 1);
	CHECK(longer != NULL);
	memcpy(longer, data, len);
	longer[len] = '\0';
	CHECK(!one_message(longer, len + 1));
	free(longer);
}

static void
frame(const char *data, size_t len)
{
	char	   *buf = malloc(len);
	PpaWireError err = {'?', SIZE_MAX, NULL};
	PpaFrame	f;

	CHECK(buf != NULL);
	if (len > 0)
		memcpy(buf, data, len);
	if (!ppa_wire_frame(buf, len, &f, &err))
	{
		CHECK(err.type == (len > 0 ? buf[0] : '\0'));
		CHECK(err.offset <= len);
		CHECK(err.what != NULL);
	}
	else
	{
		CHECK(f.type == buf[0]);
		if (f.type == 'w')
		{
			CHECK(f.payload_len > 0 && f.payload_len == len - 25);
			read_view(buf, len, f.payload, f.payload_len);
			message_and_neighbours(f.payload, f.payload_len);
		}
		else
			CHECK(f.payload == NULL && f.payload_len == 0);
		CHECK(f.type != 'k' || len == 18);
	}
	free(buf);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	frame((const char *) data, size);
	message_and_neighbours((const char *) data, size);
	return 0;
}
