/*-------------------------------------------------------------------------
 *
 * wire_message.c
 *	  Parsers of the logical replication protocol.
 *
 * Owns:	see wire_message.h, which also has the contract of each function.
 * Runs in:	any process; plain C, no PostgreSQL header, no allocation, no
 *			global state.
 *
 * The publisher is another server, perhaps of another version, behind a
 * network: nothing in a message is believed before it is checked.  Where the
 * built-in worker accepts less strictly than the format says (bytes behind a
 * message, an unknown replica identity), we stop instead of guessing.  Where
 * the format leaves bits unused (column flags, TRUNCATE options), they are
 * ignored as the built-in worker does.
 *
 *-------------------------------------------------------------------------
 */
#include "wire/wire_message.h"
#include "wire/wire_reader.h"

/* Bits of the column flags and of the TRUNCATE options. */
#define COLUMN_FLAG_KEY				0x01
#define TRUNCATE_FLAG_CASCADE		0x01
#define TRUNCATE_FLAG_RESTART_SEQS	0x02

/* Byte in front of the new tuple. */
#define NEW_TUPLE 'N'

bool
ppa_wire_frame(const char *buf, size_t len, PpaFrame *out, PpaWireError *err)
{
	PpaWireReader r;
	uint8_t		reply;

	if (!ppa_wire_open(&r, buf, len, err))
		return false;

	memset(out, 0, sizeof(*out));
	out->type = *buf;

	switch (out->type)
	{
		case 'w':
			if (!ppa_wire_read64(&r, &out->start_lsn, "start LSN") ||
				!ppa_wire_read64(&r, &out->end_lsn, "end LSN") ||
				!ppa_wire_read_time(&r, &out->send_time, "send time"))
				return false;

			/* So that the caller may look at the type byte unasked. */
			if (ppa_wire_left(&r) == 0)
				return ppa_wire_fail_at(&r, r.pos, "message type");
			out->payload = r.pos;
			out->payload_len = ppa_wire_left(&r);
			return true;

		case 'k':
			if (!ppa_wire_read64(&r, &out->end_lsn, "end LSN") ||
				!ppa_wire_read_time(&r, &out->send_time, "send time") ||
				!ppa_wire_read8(&r, &reply, "reply request") ||
				!ppa_wire_close(&r))
				return false;
			out->reply_requested = (reply != 0);
			return true;

		default:
			/* The caller decides; the built-in worker ignores these. */
			return true;
	}
}

bool
ppa_wire_begin(const char *buf, size_t len, PpaBegin *out, PpaWireError *err)
{
	PpaWireReader r;

	return ppa_wire_open_type(&r, buf, len, PPA_MSG_BEGIN, "BEGIN", err) &&
		ppa_wire_read_lsn(&r, &out->final_lsn, "final LSN") &&
		ppa_wire_read_time(&r, &out->commit_time, "commit time") &&
		ppa_wire_read32(&r, &out->xid, "transaction ID") &&
		ppa_wire_close(&r);
}

bool
ppa_wire_commit(const char *buf, size_t len, PpaCommit *out, PpaWireError *err)
{
	PpaWireReader r;
	uint8_t		flags;

	if (!ppa_wire_open_type(&r, buf, len, PPA_MSG_COMMIT, "COMMIT", err) ||
		!ppa_wire_read8(&r, &flags, "commit flags"))
		return false;
	if (flags != 0)
		return ppa_wire_fail_at(&r, r.pos - 1, "commit flags 0");

	return ppa_wire_read_lsn(&r, &out->commit_lsn, "commit LSN") &&
		ppa_wire_read_lsn(&r, &out->end_lsn, "end LSN") &&
		ppa_wire_read_time(&r, &out->commit_time, "commit time") &&
		ppa_wire_close(&r);
}

bool
ppa_wire_origin(const char *buf, size_t len, PpaOriginMessage *out,
				PpaWireError *err)
{
	PpaWireReader r;

	/* The LSN is 0 if the transaction's origin was set without a position. */
	return ppa_wire_open_type(&r, buf, len, PPA_MSG_ORIGIN, "ORIGIN", err) &&
		ppa_wire_read64(&r, &out->lsn, "origin LSN") &&
		ppa_wire_read_string(&r, &out->name, "origin name") &&
		ppa_wire_close(&r);
}

/* One column of a RELATION message. */
static inline bool
read_column(PpaWireReader *r, PpaRelationColumn *out)
{
	uint8_t		flags;
	uint32_t	typmod;

	if (!ppa_wire_read8(r, &flags, "column flags") ||
		!ppa_wire_read_string(r, &out->name, "column name") ||
		!ppa_wire_read32(r, &out->type, "column type") ||
		!ppa_wire_read32(r, &typmod, "column type modifier"))
		return false;
	out->is_key = (flags & COLUMN_FLAG_KEY) != 0;
	out->typmod = (int32_t) typmod;
	return true;
}

bool
ppa_wire_relation(const char *buf, size_t len, PpaRelationMessage *out,
				  PpaWireError *err)
{
	PpaWireReader r;
	PpaRelationColumn column;
	uint8_t		replident;

	if (!ppa_wire_open_type(&r, buf, len, PPA_MSG_RELATION, "RELATION", err) ||
		!ppa_wire_read32(&r, &out->relid, "relation ID") ||
		!ppa_wire_read_string(&r, &out->nspname, "schema name") ||
		!ppa_wire_read_string(&r, &out->relname, "relation name") ||
		!ppa_wire_read8(&r, &replident, "replica identity"))
		return false;
	if (replident != 'd' && replident != 'n' && replident != 'f' &&
		replident != 'i')
		return ppa_wire_fail_at(&r, r.pos - 1, "replica identity d, n, f or i");
	out->replident = (char) replident;

	if (!ppa_wire_read_ncolumns(&r, &out->natts))
		return false;
	out->columns = r.pos;
	out->end = r.end;

	for (int i = 0; i < out->natts; i++)
	{
		if (!read_column(&r, &column))
			return false;
	}
	return ppa_wire_close(&r);
}

bool
ppa_wire_next_column(const PpaRelationMessage *rel, const char **pos,
					 PpaRelationColumn *out)
{
	PpaWireError unused;
	PpaWireReader r = {*pos, *pos, rel->end, &unused};

	if (r.pos == r.end || !read_column(&r, out))
		return false;
	*pos = r.pos;
	return true;
}

bool
ppa_wire_type(const char *buf, size_t len, PpaWireError *err)
{
	PpaWireReader r;
	uint32_t	typid;
	const char *name;

	return ppa_wire_open_type(&r, buf, len, PPA_MSG_TYPE, "TYPE", err) &&
		ppa_wire_read32(&r, &typid, "type ID") &&
		ppa_wire_read_string(&r, &name, "schema name") &&
		ppa_wire_read_string(&r, &name, "type name") &&
		ppa_wire_close(&r);
}

/*
 * One tuple.  Columns without a value get a NULL pointer, so that a caller
 * that forgets to look at the kind cannot read an older message.
 */
static bool
read_tuple(PpaWireReader *cursor, PpaWireTuple *tuple)
{
	/*
	 * Local copies: for all the compiler knows, a store into kind[] (char)
	 * changes the cursor and the count, and it would reload them each time.
	 */
	PpaWireReader r = *cursor;
	int			ncols;

	if (!ppa_wire_read_ncolumns(&r, &ncols))
		return false;

	for (int i = 0; i < ncols; i++)
	{
		const char *at = r.pos;
		uint8_t		kind;
		uint32_t	len = 0;
		const char *value = NULL;

		if (!ppa_wire_read8(&r, &kind, "column kind"))
			return false;
		switch (kind)
		{
			case PPA_COLUMN_TEXT:
			case PPA_COLUMN_BINARY:
				if (!ppa_wire_read32(&r, &len, "value length"))
					return false;
				if (ppa_wire_unlikely(len > INT32_MAX || len > ppa_wire_left(&r)))
					return ppa_wire_fail_at(&r, at + 1,
											"value length within the message");
				value = r.pos;
				r.pos += len;
				break;
			case PPA_COLUMN_NULL:
			case PPA_COLUMN_UNCHANGED:
				break;
			default:
				return ppa_wire_fail_at(&r, at, "column kind n, u, t or b");
		}
		tuple->kind[i] = (char) kind;
		tuple->len[i] = len;
		/* The message was given to us writable. */
		tuple->value[i] = (char *) value;
	}
	tuple->ncols = ncols;
	*cursor = r;
	return true;
}

/* Type byte and relation of a change. */
static inline bool
read_change_head(PpaWireReader *r, const char *buf, size_t len,
				 uint32_t *relid, PpaWireError *err)
{
	if (!ppa_wire_open(r, buf, len, err))
		return false;
	if (ppa_wire_unlikely(*buf != PPA_MSG_INSERT && *buf != PPA_MSG_UPDATE &&
						  *buf != PPA_MSG_DELETE))
		return ppa_wire_fail_at(r, buf, "INSERT, UPDATE or DELETE");
	return ppa_wire_read32(r, relid, "relation ID");
}

bool
ppa_wire_change(char *buf, size_t len, PpaChange *out, PpaWireError *err)
{
	PpaWireReader r;
	uint8_t		action;

	if (!read_change_head(&r, buf, len, &out->relid, err))
		return false;
	out->type = *buf;
	out->old_kind = PPA_OLD_NONE;

	if (!ppa_wire_read8(&r, &action, "tuple kind"))
		return false;
	if (out->type != PPA_MSG_INSERT &&
		(action == PPA_OLD_KEY || action == PPA_OLD_FULL))
	{
		out->old_kind = (char) action;
		if (!read_tuple(&r, &out->old_tuple))
			return false;
		if (out->type == PPA_MSG_DELETE)
			return ppa_wire_close(&r);
		if (!ppa_wire_read8(&r, &action, "new tuple"))
			return false;
	}
	if (out->type == PPA_MSG_DELETE)
		return ppa_wire_fail_at(&r, r.pos - 1, "old tuple K or O");
	if (action != NEW_TUPLE)
		return ppa_wire_fail_at(&r, r.pos - 1, "new tuple N");

	return read_tuple(&r, &out->new_tuple) && ppa_wire_close(&r);
}

bool
ppa_wire_change_relid(const char *buf, size_t len, uint32_t *relid,
					  PpaWireError *err)
{
	PpaWireReader r;

	return read_change_head(&r, buf, len, relid, err);
}

bool
ppa_wire_truncate(const char *buf, size_t len, PpaTruncate *out,
				  PpaWireError *err)
{
	PpaWireReader r;
	uint32_t	nrelids;
	uint8_t		options;

	if (!ppa_wire_open_type(&r, buf, len, PPA_MSG_TRUNCATE, "TRUNCATE", err) ||
		!ppa_wire_read32(&r, &nrelids, "relation count") ||
		!ppa_wire_read8(&r, &options, "TRUNCATE options"))
		return false;

	/* Division, because the product could overflow a 32-bit size_t. */
	if (nrelids > INT32_MAX || nrelids > ppa_wire_left(&r) / sizeof(uint32_t))
		return ppa_wire_fail_at(&r, buf + 1,
								"relation count within the message");
	out->nrelids = (int) nrelids;
	out->cascade = (options & TRUNCATE_FLAG_CASCADE) != 0;
	out->restart_identity = (options & TRUNCATE_FLAG_RESTART_SEQS) != 0;
	out->relids = r.pos;
	r.pos += nrelids * sizeof(uint32_t);
	return ppa_wire_close(&r);
}

uint32_t
ppa_wire_truncate_relid(const PpaTruncate *msg, int i)
{
	return ppa_wire_load32(msg->relids + (size_t) i * sizeof(uint32_t));
}

void
ppa_wire_terminate(PpaWireTuple *tuple)
{
	for (int i = 0; i < tuple->ncols; i++)
	{
		if (tuple->value[i] != NULL)
			tuple->value[i][tuple->len[i]] = '\0';
	}
}
