/*-------------------------------------------------------------------------
 *
 * wire_message.h
 *	  The logical replication protocol as views into the caller's buffer.
 *
 * Owns:	the byte format of the replication stream (frames 'w' and 'k') and
 *			of the pgoutput messages inside it, protocol versions 1 to 4
 *			without the streaming of transactions in progress.
 * Runs in:	any process; plain C, no PostgreSQL header, no allocation, no
 *			logging, no global state.
 * Memory:	every pointer in a result points into the buffer that was parsed
 *			and lives as long as it does.  Strings of RELATION, TYPE and
 *			ORIGIN messages are NUL-terminated in the message itself.  Column
 *			values are not: see ppa_wire_terminate().
 *
 * Every length is checked against the buffer.  A parser returns false and
 * fills PpaWireError when the message is malformed or truncated; it never
 * reads outside [buf, buf + len).  Bytes after the end of a message are an
 * error too: nothing in the protocol allows them.
 *
 * Format: PostgreSQL documentation, "Logical Replication Message Formats"
 * and "Streaming Replication Protocol".
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_WIRE_MESSAGE_H
#define PPA_WIRE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A heap tuple has at most this many columns (MaxTupleAttributeNumber). */
#define PPA_WIRE_MAX_COLUMNS 1664

/* First byte of a pgoutput message. */
#define PPA_MSG_BEGIN		'B'
#define PPA_MSG_COMMIT		'C'
#define PPA_MSG_ORIGIN		'O'
#define PPA_MSG_RELATION	'R'
#define PPA_MSG_TYPE		'Y'
#define PPA_MSG_INSERT		'I'
#define PPA_MSG_UPDATE		'U'
#define PPA_MSG_DELETE		'D'
#define PPA_MSG_TRUNCATE	'T'
#define PPA_MSG_MESSAGE		'M'

/* Kinds of a column value. */
#define PPA_COLUMN_NULL			'n'
#define PPA_COLUMN_UNCHANGED	'u'
#define PPA_COLUMN_TEXT			't'
#define PPA_COLUMN_BINARY		'b'

/* Kinds of an old tuple. */
#define PPA_OLD_NONE	'\0'
#define PPA_OLD_KEY		'K'
#define PPA_OLD_FULL	'O'

/* Why a message could not be parsed. */
typedef struct PpaWireError
{
	char		type;			/* first byte of the message, 0 if it has none */
	size_t		offset;			/* offset in the message of the bad byte */
	const char *what;			/* static text: what was expected there */
} PpaWireError;

/* A frame of the streaming replication protocol. */
typedef struct PpaFrame
{
	char		type;			/* 'w' (data), 'k' (keepalive), else unknown */
	uint64_t	start_lsn;		/* 'w': LSN of the data */
	uint64_t	end_lsn;		/* 'w', 'k': end of WAL on the sender */
	int64_t		send_time;		/* microseconds since 2000-01-01 */
	bool		reply_requested;	/* 'k' */
	const char *payload;		/* 'w': the pgoutput message */
	size_t		payload_len;
} PpaFrame;

typedef struct PpaBegin
{
	uint64_t	final_lsn;		/* LSN of the commit record */
	int64_t		commit_time;
	uint32_t	xid;
} PpaBegin;

typedef struct PpaCommit
{
	uint64_t	commit_lsn;
	uint64_t	end_lsn;
	int64_t		commit_time;
} PpaCommit;

typedef struct PpaOriginMessage
{
	uint64_t	lsn;
	const char *name;
} PpaOriginMessage;

/* RELATION; columns are read one by one with ppa_wire_next_column(). */
typedef struct PpaRelationMessage
{
	uint32_t	relid;			/* OID on the publisher */
	const char *nspname;		/* "" means pg_catalog */
	const char *relname;
	char		replident;		/* 'd', 'n', 'f' or 'i' */
	int			natts;
	const char *columns;		/* first column, for ppa_wire_next_column() */
	const char *end;
} PpaRelationMessage;

typedef struct PpaRelationColumn
{
	bool		is_key;			/* part of the replica identity */
	const char *name;
	uint32_t	type;			/* type OID on the publisher */
	int32_t		typmod;
} PpaRelationColumn;

/* One tuple; column i of the RELATION message is kind[i], value[i], len[i]. */
typedef struct PpaWireTuple
{
	int			ncols;
	char		kind[PPA_WIRE_MAX_COLUMNS];
	uint32_t	len[PPA_WIRE_MAX_COLUMNS];
	char	   *value[PPA_WIRE_MAX_COLUMNS];
} PpaWireTuple;

/* INSERT, UPDATE or DELETE. */
typedef struct PpaChange
{
	char		type;			/* PPA_MSG_INSERT, _UPDATE or _DELETE */
	uint32_t	relid;
	char		old_kind;		/* PPA_OLD_*; never NONE for a DELETE */
	PpaWireTuple old_tuple;		/* valid if old_kind is not NONE */
	PpaWireTuple new_tuple;		/* valid for INSERT and UPDATE */
} PpaChange;

typedef struct PpaTruncate
{
	int			nrelids;
	bool		cascade;
	bool		restart_identity;
	const char *relids;			/* read with ppa_wire_truncate_relid() */
} PpaTruncate;

extern bool ppa_wire_frame(const char *buf, size_t len, PpaFrame *out, PpaWireError *err);

/* Each takes one whole message, type byte included. */
extern bool ppa_wire_begin(const char *buf, size_t len, PpaBegin *out, PpaWireError *err);
extern bool ppa_wire_commit(const char *buf, size_t len, PpaCommit *out, PpaWireError *err);
extern bool ppa_wire_origin(const char *buf, size_t len, PpaOriginMessage *out, PpaWireError *err);

/* Checks all columns too, so that ppa_wire_next_column() cannot fail. */
extern bool ppa_wire_relation(const char *buf, size_t len, PpaRelationMessage *out,
							  PpaWireError *err);

/* Reads the column at *pos and moves *pos behind it; false at the end. */
extern bool ppa_wire_next_column(const PpaRelationMessage *rel, const char **pos,
								 PpaRelationColumn *out);

/* Checks a TYPE message; nobody needs its content. */
extern bool ppa_wire_type(const char *buf, size_t len, PpaWireError *err);

/* INSERT, UPDATE, DELETE.  Leaves the tuples that the message lacks alone. */
extern bool ppa_wire_change(char *buf, size_t len, PpaChange *out, PpaWireError *err);

extern bool ppa_wire_truncate(const char *buf, size_t len, PpaTruncate *out, PpaWireError *err);

/* i-th relation OID (on the publisher) of a TRUNCATE, 0 <= i < nrelids. */
extern uint32_t ppa_wire_truncate_relid(const PpaTruncate *msg, int i);

/*
 * The relation of a change without parsing the change: for INSERT, UPDATE and
 * DELETE only.  The leader uses it to learn which relations a transaction
 * touches.
 */
extern bool ppa_wire_change_relid(const char *buf, size_t len, uint32_t *relid,
								  PpaWireError *err);

/*
 * Write a NUL behind every value of a parsed tuple, so that type input
 * functions can read the values in place.  It overwrites the kind byte of the
 * following column (already parsed), so the message cannot be parsed again,
 * and needs one writable byte behind the message: work on a copy.
 */
extern void ppa_wire_terminate(PpaWireTuple *tuple);

#endif							/* PPA_WIRE_MESSAGE_H */
