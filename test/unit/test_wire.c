/*-------------------------------------------------------------------------
 *
 * test_wire.c
 *	  Unit tests of the message parsers (src/wire).
 *
 * One test per message type with its contents, then what all types have in
 * common: every prefix of a message and every message with a byte too many is
 * an error that names the type and an offset inside the message.  Buffers are
 * heap blocks of the exact size; the program is built with the address and
 * undefined-behaviour sanitizers, which turn any read outside into a failure.
 *
 * The last test parses the corpus that test/fuzz/record took from a real
 * publisher.  Its folder is PPA_WIRE_CORPUS (environment, else compiled in).
 *
 *-------------------------------------------------------------------------
 */
#include <dirent.h>

#include "unit.h"
#include "wire_build.h"
#include "wire/wire_message.h"

/* Large (40 kB each), hence not on the stack. */
static PpaChange change;
static Msg	msg;

/* Start the next message, with nothing left of the last result. */
static Msg *
start(char type)
{
	memset(&change, 0xaa, sizeof(change));
	msg.len = 0;
	put8(&msg, (unsigned char) type);
	return &msg;
}

/*
 * Parse any message by its first byte, as a caller would; result in the
 * union.  'M' has no parser and is always fine; any other byte is an error.
 */
typedef union Parsed
{
	PpaFrame	frame;
	PpaBegin	begin;
	PpaCommit	commit;
	PpaOriginMessage origin;
	PpaRelationMessage relation;
	PpaTruncate truncate;
} Parsed;

static bool
parse(char *buf, size_t len, Parsed *out, PpaWireError *err)
{
	switch (len > 0 ? *buf : '\0')
	{
		case 'w':
		case 'k':
			return ppa_wire_frame(buf, len, &out->frame, err);
		case PPA_MSG_COMMIT:
			return ppa_wire_commit(buf, len, &out->commit, err);
		case PPA_MSG_ORIGIN:
			return ppa_wire_origin(buf, len, &out->origin, err);
		case PPA_MSG_RELATION:
			return ppa_wire_relation(buf, len, &out->relation, err);
		case PPA_MSG_TYPE:
			return ppa_wire_type(buf, len, err);
		case PPA_MSG_INSERT:
		case PPA_MSG_UPDATE:
		case PPA_MSG_DELETE:
			return ppa_wire_change(buf, len, &change, err);
		case PPA_MSG_TRUNCATE:
			return ppa_wire_truncate(buf, len, &out->truncate, err);
		case PPA_MSG_MESSAGE:
			return true;
		default:
			return ppa_wire_begin(buf, len, &out->begin, err);
	}
}

/* Does the message parse to an error of this type at this offset? */
static bool
fails_at(const Msg *m, size_t len, char type, size_t offset)
{
	char	   *buf = msg_exact(m, len, 0);
	PpaWireError err = {'?', SIZE_MAX, NULL};
	Parsed		out;
	bool		good;

	good = !parse(buf, len, &out, &err) && err.type == type &&
		err.offset == offset && err.what != NULL && err.what[0] != '\0';
	if (!good)
		printf("#   got type %d offset %zu \"%s\", want type %d offset %zu\n",
			   err.type, err.offset, err.what ? err.what : "(no error)",
			   type, offset);
	free(buf);
	return good;
}

/* The current message with n bytes at `at` overwritten by v fails there. */
static bool
patched_fails(size_t at, size_t n, uint64_t v)
{
	static Msg	copy;

	copy = msg;
	for (size_t i = 0; i < n; i++)
		copy.data[at + i] = (char) (v >> (8 * (n - 1 - i)));
	return fails_at(&copy, copy.len, copy.data[0], at);
}

/*
 * The message parses; each shorter version and one with a byte too many do
 * not.  A 'w' frame is open-ended: from `open_from` bytes on, any length is a
 * frame.  0 is for 'M', which is not parsed at all.
 */
static void
check_extent(const Msg *m, const char *name, size_t open_from)
{
	static Msg	longer;
	char	   *buf = msg_exact(m, m->len, 0);
	PpaWireError err;
	Parsed		out;
	size_t		bad = 0;

	ok(parse(buf, m->len, &out, &err), "%s parses", name);
	free(buf);
	if (open_from == 0)
		return;

	for (size_t len = 0; len < m->len && len < open_from; len++)
	{
		char		type = len > 0 ? m->data[0] : '\0';

		buf = msg_exact(m, len, 0);
		err = (PpaWireError) {'?', SIZE_MAX, NULL};
		if (parse(buf, len, &out, &err) || err.type != type ||
			err.offset > len || err.what == NULL)
		{
			printf("#   prefix of %zu bytes: type %d offset %zu\n",
				   len, err.type, err.offset);
			bad++;
		}
		free(buf);
	}
	is_int(bad, 0, "every shorter version is an error with type and offset");

	if (open_from < m->len)
		return;
	longer = *m;
	put8(&longer, 0);
	ok(fails_at(&longer, longer.len, m->data[0], m->len),
	   "%s with a byte too many", name);
}

#define CLOSED SIZE_MAX

static void
test_frames(void)
{
	PpaFrame	f;
	PpaWireError err;
	Msg		   *m = start('w');
	char	   *buf;

	put64(m, UINT64_C(0x0102030405060708));
	put64(m, UINT64_C(0xf1f2f3f4f5f6f7f8));
	put64(m, (uint64_t) -2);
	put_string(m, "Bxyz");
	buf = msg_exact(m, m->len, 0);
	ok(ppa_wire_frame(buf, m->len, &f, &err), "data frame");
	is_int(f.type, 'w', "its type");
	ok(f.start_lsn == UINT64_C(0x0102030405060708), "its start LSN");
	ok(f.end_lsn == UINT64_C(0xf1f2f3f4f5f6f7f8), "its end LSN");
	is_int(f.send_time, -2, "its send time");
	ok(f.payload == buf + 25 && f.payload_len == 5, "its payload");
	free(buf);
	check_extent(m, "data frame", 26);

	m = start('k');
	put64(m, 42);
	put64(m, 43);
	put8(m, 1);
	buf = msg_exact(m, m->len, 0);
	ok(ppa_wire_frame(buf, m->len, &f, &err), "keepalive");
	is_int(f.type, 'k', "its type");
	is_int(f.end_lsn, 42, "its end LSN");
	is_int(f.send_time, 43, "its send time");
	ok(f.reply_requested, "it wants a reply");
	ok(f.payload == NULL && f.payload_len == 0, "it has no payload");
	free(buf);
	check_extent(m, "keepalive", CLOSED);
	msg.data[17] = 0;
	ok(ppa_wire_frame(msg.data, msg.len, &f, &err) && !f.reply_requested,
	   "keepalive without reply request");

	start('z');
	ok(ppa_wire_frame(msg.data, msg.len, &f, &err) && f.type == 'z',
	   "a frame of an unknown type is left to the caller");
	ok(!ppa_wire_frame(msg.data, 0, &f, &err) && err.type == '\0' &&
	   err.offset == 0, "an empty frame is an error");
}

static void
test_transaction(void)
{
	PpaBegin	b;
	PpaCommit	c;
	PpaOriginMessage o;
	PpaWireError err;
	Msg		   *m = start('B');

	put64(m, UINT64_C(0x1122334455667788));
	put64(m, (uint64_t) INT64_C(-7));
	put32(m, UINT32_C(0xfedcba98));
	ok(ppa_wire_begin(m->data, m->len, &b, &err), "BEGIN");
	ok(b.final_lsn == UINT64_C(0x1122334455667788), "its final LSN");
	is_int(b.commit_time, -7, "its commit time");
	ok(b.xid == UINT32_C(0xfedcba98), "its transaction ID");
	check_extent(m, "BEGIN", CLOSED);
	memset(m->data + 1, 0, 8);
	ok(fails_at(m, m->len, 'B', 1), "BEGIN with final LSN 0");

	m = start('C');
	put8(m, 0);
	put64(m, 100);
	put64(m, 200);
	put64(m, 300);
	ok(ppa_wire_commit(m->data, m->len, &c, &err), "COMMIT");
	is_int(c.commit_lsn, 100, "its commit LSN");
	is_int(c.end_lsn, 200, "its end LSN");
	is_int(c.commit_time, 300, "its commit time");
	check_extent(m, "COMMIT", CLOSED);
	ok(patched_fails(1, 1, 1), "COMMIT with flags");
	ok(patched_fails(2, 8, 0), "COMMIT with commit LSN 0");
	ok(patched_fails(10, 8, 0), "COMMIT with end LSN 0");

	m = start('O');
	put64(m, 77);
	put_string(m, "pg_16390");
	ok(ppa_wire_origin(m->data, m->len, &o, &err), "ORIGIN");
	is_int(o.lsn, 77, "its LSN");
	is_str(o.name, "pg_16390", "its name");
	check_extent(m, "ORIGIN", CLOSED);
	memset(m->data + 1, 0, 8);
	ok(ppa_wire_origin(m->data, m->len, &o, &err), "ORIGIN without position");
}

static void
test_relation(void)
{
	PpaRelationMessage rel;
	PpaRelationColumn col;
	PpaWireError err;
	const char *pos;
	char	   *buf;
	int			n = 0;
	Msg		   *m = start('R');

	put32(m, UINT32_C(0x80000001));
	put_string(m, "public");
	put_string(m, "orders");
	put8(m, 'd');
	put16(m, 3);
	put_column(m, 1, "id", 20, -1);
	put_column(m, 0, "note", 1043, 104);
	put_column(m, 0xfe, "", 16400, -1);
	buf = msg_exact(m, m->len, 0);
	ok(ppa_wire_relation(buf, m->len, &rel, &err), "RELATION");
	is_int(rel.relid, INT64_C(0x80000001), "its ID");
	is_str(rel.nspname, "public", "its schema");
	is_str(rel.relname, "orders", "its name");
	is_int(rel.replident, 'd', "its replica identity");
	is_int(rel.natts, 3, "its column count");
	pos = rel.columns;
	ok(ppa_wire_next_column(&rel, &pos, &col) && col.is_key &&
	   strcmp(col.name, "id") == 0 && col.type == 20 && col.typmod == -1,
	   "its first column");
	ok(ppa_wire_next_column(&rel, &pos, &col) && !col.is_key &&
	   strcmp(col.name, "note") == 0 && col.type == 1043 && col.typmod == 104,
	   "its second column");
	ok(ppa_wire_next_column(&rel, &pos, &col) && !col.is_key &&
	   col.name[0] == '\0' && col.type == 16400,
	   "its third column; unknown flags are ignored");
	ok(!ppa_wire_next_column(&rel, &pos, &col), "no fourth column");
	ok(!ppa_wire_next_column(&rel, &pos, &col), "still no fourth column");
	free(buf);
	check_extent(m, "RELATION", CLOSED);
	ok(patched_fails(19, 1, 'x'), "RELATION with an unknown replica identity");
	ok(patched_fails(20, 2, 0xffff), "RELATION with -1 columns");
	ok(patched_fails(20, 2, 1665), "RELATION with too large a count");

	for (int ncols = PPA_WIRE_MAX_COLUMNS; ncols <= PPA_WIRE_MAX_COLUMNS + 1;
		 ncols++)
	{
		m = start('R');
		put32(m, 1);
		put_string(m, "");
		put_string(m, "w");
		put8(m, 'f');
		put16(m, (unsigned) ncols);
		for (int i = 0; i < ncols; i++)
			put_column(m, 1, "c", 23, -1);
		if (ncols > PPA_WIRE_MAX_COLUMNS)
		{
			ok(fails_at(m, m->len, 'R', 9), "RELATION with 1665 columns");
			break;
		}
		buf = msg_exact(m, m->len, 0);
		ok(ppa_wire_relation(buf, m->len, &rel, &err) && rel.natts == ncols,
		   "RELATION with 1664 columns");
		pos = rel.columns;
		while (ppa_wire_next_column(&rel, &pos, &col))
			n++;
		is_int(n, ncols, "all of them can be read");
		free(buf);
	}

	m = start('R');
	put32(m, 1);
	put_string(m, "s");
	put_string(m, "t");
	put8(m, 'n');
	put16(m, 0);
	check_extent(m, "RELATION without columns", CLOSED);

	m = start('Y');
	put32(m, 16400);
	put_string(m, "public");
	put_string(m, "mood");
	check_extent(m, "TYPE", CLOSED);
}

/* Column i of the tuple has this kind and value. */
static bool
column_is(const PpaWireTuple *t, int i, char kind, const char *value)
{
	size_t		len = strlen(value);

	return t->kind[i] == kind && t->len[i] == len &&
		memcmp(t->value[i], value, len) == 0;
}

static bool
column_empty(const PpaWireTuple *t, int i, char kind)
{
	return t->kind[i] == kind && t->len[i] == 0 && t->value[i] == NULL;
}

/* An UPDATE with every kind of column. */
static Msg *
build_update(char old_kind)
{
	Msg		   *m = start('U');

	put32(m, 16385);
	if (old_kind)
	{
		put8(m, (unsigned char) old_kind);
		put16(m, 2);
		put_text(m, "17");
		put8(m, 'n');
	}
	put8(m, 'N');
	put16(m, 5);
	put_text(m, "18");
	put8(m, 'u');
	put_value(m, 'b', "\0\1\2", 3);
	put_text(m, "");
	put_text(m, "last");
	return m;
}

static void
test_change(void)
{
	PpaWireError err;
	uint32_t	relid = 0;
	char	   *buf;
	Msg		   *m;
	static const char old_kinds[] = {PPA_OLD_NONE, PPA_OLD_KEY, PPA_OLD_FULL};

	m = start('I');
	put32(m, 16384);
	put8(m, 'N');
	put16(m, 2);
	put_text(m, "x");
	put8(m, 'n');
	buf = msg_exact(m, m->len, 0);
	ok(ppa_wire_change(buf, m->len, &change, &err), "INSERT");
	ok(change.type == 'I' && change.relid == 16384 &&
	   change.old_kind == PPA_OLD_NONE, "its head");
	ok(change.new_tuple.ncols == 2 && column_is(&change.new_tuple, 0, 't', "x")
	   && column_empty(&change.new_tuple, 1, 'n'), "its tuple");
	ok(ppa_wire_change_relid(buf, m->len, &relid, &err) && relid == 16384,
	   "its relation alone");
	free(buf);
	check_extent(m, "INSERT", CLOSED);
	ok(patched_fails(5, 1, 'K'), "INSERT with an old key");
	ok(patched_fails(5, 1, 'O'), "INSERT with an old tuple");

	for (size_t i = 0; i < sizeof(old_kinds); i++)
	{
		m = build_update(old_kinds[i]);
		buf = msg_exact(m, m->len, 0);
		ok(ppa_wire_change(buf, m->len, &change, &err), "UPDATE");
		ok(change.type == 'U' && change.relid == 16385 &&
		   change.old_kind == old_kinds[i], "its head, old kind %d",
		   old_kinds[i]);
		ok(old_kinds[i] == PPA_OLD_NONE ||
		   (change.old_tuple.ncols == 2 &&
			column_is(&change.old_tuple, 0, 't', "17") &&
			column_empty(&change.old_tuple, 1, 'n')), "its old tuple");
		ok(change.new_tuple.ncols == 5 &&
		   column_is(&change.new_tuple, 0, 't', "18") &&
		   column_empty(&change.new_tuple, 1, 'u') &&
		   change.new_tuple.kind[2] == 'b' && change.new_tuple.len[2] == 3 &&
		   memcmp(change.new_tuple.value[2], "\0\1\2", 3) == 0 &&
		   column_is(&change.new_tuple, 3, 't', "") &&
		   column_is(&change.new_tuple, 4, 't', "last"), "its new tuple");
		free(buf);
		check_extent(m, "UPDATE", CLOSED);
	}
	ok(patched_fails(5, 1, 'X'), "UPDATE with an unknown tuple kind");
	ok(patched_fails(16, 1, 'K'), "UPDATE with two old keys");
	ok(patched_fails(16, 1, 'O'), "UPDATE without new tuple");

	for (size_t i = 1; i < sizeof(old_kinds); i++)
	{
		m = start('D');
		put32(m, 16386);
		put8(m, (unsigned char) old_kinds[i]);
		put16(m, 1);
		put_text(m, "5");
		buf = msg_exact(m, m->len, 0);
		ok(ppa_wire_change(buf, m->len, &change, &err) &&
		   change.type == 'D' && change.relid == 16386 &&
		   change.old_kind == old_kinds[i] && change.old_tuple.ncols == 1 &&
		   column_is(&change.old_tuple, 0, 't', "5"), "DELETE");
		free(buf);
		check_extent(m, "DELETE", CLOSED);
	}
	ok(patched_fails(5, 1, 'N'), "DELETE with a new tuple");
	ok(patched_fails(5, 1, 0), "DELETE with an unknown tuple kind");

	m = start('B');
	put32(m, 1);
	ok(!ppa_wire_change(m->data, m->len, &change, &err) && err.type == 'B' &&
	   err.offset == 0, "a BEGIN is no change");
	ok(!ppa_wire_change_relid(m->data, m->len, &relid, &err) &&
	   err.type == 'B', "and has no relation");
	m->data[0] = 'I';
	buf = msg_exact(m, 4, 0);
	ok(!ppa_wire_change_relid(buf, 4, &relid, &err) && err.offset == 1,
	   "a truncated change has no relation");
	free(buf);
}

/* Counts and lengths that no publisher sends. */
static void
test_absurd(void)
{
	static const uint32_t lengths[] = {
		2, 3, 255, 0x7ffffffe, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffe
	};
	PpaWireError err;
	char	   *buf;
	Msg		   *m;

	for (int kind = 0; kind < 2; kind++)
	{
		/* Type, relation, 'N', count, then the kind byte at 8. */
		m = start('I');
		put32(m, 1);
		put8(m, 'N');
		put16(m, 1);
		put_value(m, kind ? 'b' : 't', "x", 1);
		for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
			ok(patched_fails(9, 4, lengths[i]), "value length %" PRIu32,
			   lengths[i]);
		ok(patched_fails(6, 2, 0xffff), "-1 columns");
		ok(patched_fails(6, 2, 0x8000), "-32768 columns");
		ok(patched_fails(8, 1, 'x'), "unknown column kind");
	}

	/* All columns NULL: a count one too large must not pass the end. */
	m = start('I');
	put32(m, 1);
	put8(m, 'N');
	put16(m, 3);
	put8(m, 'n');
	put8(m, 'n');
	ok(fails_at(m, m->len, 'I', 10), "a column count above the columns sent");

	m = start('I');
	put32(m, 1);
	put8(m, 'N');
	put16(m, 0);
	check_extent(m, "a tuple without columns", CLOSED);

	m = start('I');
	put32(m, 1);
	put8(m, 'N');
	put16(m, PPA_WIRE_MAX_COLUMNS);
	for (int i = 0; i < PPA_WIRE_MAX_COLUMNS; i++)
		put8(m, 'n');
	buf = msg_exact(m, m->len, 0);
	ok(ppa_wire_change(buf, m->len, &change, &err) &&
	   change.new_tuple.ncols == PPA_WIRE_MAX_COLUMNS &&
	   column_empty(&change.new_tuple, PPA_WIRE_MAX_COLUMNS - 1, 'n'),
	   "a tuple of 1664 columns");
	free(buf);
	put8(m, 'n');
	ok(patched_fails(6, 2, PPA_WIRE_MAX_COLUMNS + 1),
	   "a tuple of 1665 columns");
}

static void
test_truncate(void)
{
	PpaTruncate t;
	PpaWireError err;
	char	   *buf;
	Msg		   *m = start('T');

	put32(m, 2);
	put8(m, 0);
	put32(m, 16384);
	put32(m, UINT32_C(0xfffffffe));
	for (unsigned options = 0; options < 4; options++)
	{
		m->data[5] = (char) options;
		buf = msg_exact(m, m->len, 0);
		ok(ppa_wire_truncate(buf, m->len, &t, &err), "TRUNCATE");
		is_int(t.nrelids, 2, "its relation count");
		ok(t.cascade == ((options & 1) != 0) &&
		   t.restart_identity == ((options & 2) != 0), "its options %u",
		   options);
		ok(ppa_wire_truncate_relid(&t, 0) == 16384 &&
		   ppa_wire_truncate_relid(&t, 1) == UINT32_C(0xfffffffe),
		   "its relations");
		free(buf);
	}
	check_extent(m, "TRUNCATE", CLOSED);
	ok(patched_fails(1, 4, 3), "TRUNCATE with a count too large");
	ok(patched_fails(1, 4, 0xffffffff), "TRUNCATE of -1 relations");
	ok(patched_fails(1, 4, 0x80000002), "TRUNCATE of a negative count");
	/* 4 times this is 8 modulo 2^32. */
	ok(patched_fails(1, 4, 0x40000002), "TRUNCATE with a count that overflows");
}

static void
test_terminate(void)
{
	PpaWireError err;
	PpaWireTuple *t = &change.new_tuple;
	Msg		   *m = build_update(PPA_OLD_KEY);
	char	   *buf = msg_exact(m, m->len, 1);

	buf[m->len] = '!';
	ok(ppa_wire_change(buf, m->len, &change, &err), "UPDATE to terminate");
	ppa_wire_terminate(&change.old_tuple);
	ppa_wire_terminate(t);
	is_str(change.old_tuple.value[0], "17", "old key is a string");
	is_str(t->value[0], "18", "first text is a string");
	is_str(t->value[3], "", "empty text is a string");
	is_str(t->value[4], "last", "last text is a string, behind the message");
	ok(t->len[2] == 3 && memcmp(t->value[2], "\0\1\2", 3) == 0,
	   "binary value is as it was");
	ok(column_empty(&change.old_tuple, 1, 'n') && column_empty(t, 1, 'u') &&
	   t->ncols == 5 && t->len[4] == 4, "kinds and lengths are as they were");
	free(buf);

	/* Binary values too: receive functions may read them as strings. */
	m = start('I');
	put32(m, 1);
	put8(m, 'N');
	put16(m, 1);
	put_value(m, 'b', "xy", 2);
	buf = msg_exact(m, m->len, 1);
	buf[m->len] = '!';
	ok(ppa_wire_change(buf, m->len, &change, &err), "INSERT of a binary value");
	ppa_wire_terminate(t);
	ok(column_is(t, 0, 'b', "xy"), "a binary value is as it was");
	is_int(buf[m->len], 0, "a binary value is terminated");
	free(buf);
}

/* Each parser refuses messages of another type, at offset 0. */
static void
test_wrong_type(void)
{
	PpaWireError err = {0};
	Parsed		out;
	uint32_t	relid;
	int			bad = 0;

	for (int c = 0; c < 256; c++)
	{
		char		type = (char) c;
		char		buf[1] = {type};
		bool		is_change = (type == 'I' || type == 'U' || type == 'D');

#define REFUSES(call, right) \
		do { \
			err.offset = SIZE_MAX; \
			if ((call) || err.type != type || err.offset != ((right) ? 1 : 0)) \
				bad++; \
		} while (0)
		REFUSES(ppa_wire_begin(buf, 1, &out.begin, &err), type == 'B');
		REFUSES(ppa_wire_commit(buf, 1, &out.commit, &err), type == 'C');
		REFUSES(ppa_wire_origin(buf, 1, &out.origin, &err), type == 'O');
		REFUSES(ppa_wire_relation(buf, 1, &out.relation, &err), type == 'R');
		REFUSES(ppa_wire_type(buf, 1, &err), type == 'Y');
		REFUSES(ppa_wire_change(buf, 1, &change, &err), is_change);
		REFUSES(ppa_wire_change_relid(buf, 1, &relid, &err), is_change);
		REFUSES(ppa_wire_truncate(buf, 1, &out.truncate, &err), type == 'T');
#undef REFUSES
	}
	is_int(bad, 0, "each parser takes its own type only");
}

static void
test_corpus(void)
{
	const char *dir = getenv("PPA_WIRE_CORPUS");
	struct dirent *entry;
	DIR		   *d;
	bool		seen[256] = {false};
	int			files = 0;

	if (dir == NULL)
		dir = PPA_WIRE_CORPUS;
	d = opendir(dir);
	if (!ok(d != NULL, "corpus folder %s", dir))
		return;
	while ((entry = readdir(d)) != NULL)
	{
		char		path[4096];
		FILE	   *f;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		f = fopen(path, "rb");
		if (!ok(f != NULL, "open %s", entry->d_name))
			continue;
		msg.len = fread(msg.data, 1, sizeof(msg.data), f);
		fclose(f);
		if (!ok(msg.len > 0, "%s is not empty", entry->d_name))
			continue;
		files++;
		seen[(unsigned char) msg.data[0]] = true;
		check_extent(&msg, entry->d_name,
					 msg.data[0] == 'w' ? 26 :
					 msg.data[0] == 'M' ? 0 : CLOSED);
	}
	closedir(d);
	ok(files > 0, "the corpus is not empty");
	for (const char *t = "BCORYIUDTMwk"; *t; t++)
		ok(seen[(unsigned char) *t], "the corpus has a message of type %c", *t);
}

int
main(void)
{
	test_frames();
	test_transaction();
	test_relation();
	test_change();
	test_absurd();
	test_truncate();
	test_terminate();
	test_wrong_type();
	test_corpus();
	return unit_done();
}
