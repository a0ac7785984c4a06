/*-------------------------------------------------------------------------
 *
 * wire_reader.h
 *	  A cursor over one message that cannot leave it.
 *
 * Owns:	the reading of single fields (integers in network byte order,
 *			NUL-terminated strings) and the report of the first bad one.
 *			Private to wire/: other folders include wire_message.h.
 * Runs in:	any process; plain C, no PostgreSQL header, no allocation.
 * Memory:	strings point into the message.
 *
 * Everything here is inline and takes the cursor by pointer, so that the
 * compiler can keep it in registers: parsing a change is on the hot path of
 * every process that reads the stream.  Only the failure path is kept out of
 * line, and it gets copies of the fields, because an escaping address would
 * force the cursor into memory.
 *
 * A reader returns false when the field does not fit into what is left of the
 * message.  The error offset is then where that field begins.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_WIRE_READER_H
#define PPA_WIRE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "wire/wire_message.h"

#define ppa_wire_unlikely(x) __builtin_expect(!!(x), 0)

typedef struct PpaWireReader
{
	const char *start;			/* the type byte of the message */
	const char *pos;			/* next byte to read, start <= pos <= end */
	const char *end;			/* behind the last byte */
	PpaWireError *err;
} PpaWireReader;

/* Fill *err and return false, for use in a return statement. */
static inline __attribute__((cold)) bool
ppa_wire_fail(PpaWireError *err, const char *start, const char *end,
			  const char *at, const char *what)
{
	err->type = (start < end) ? *start : '\0';
	err->offset = (size_t) (at - start);
	err->what = what;
	return false;
}

static inline bool
ppa_wire_fail_at(const PpaWireReader *r, const char *at, const char *what)
{
	return ppa_wire_fail(r->err, r->start, r->end, at, what);
}

static inline size_t
ppa_wire_left(const PpaWireReader *r)
{
	return (size_t) (r->end - r->pos);
}

/* Loads from any address: memcpy becomes one plain load. */
static inline uint16_t
ppa_wire_load16(const char *p)
{
	uint16_t	v;

	memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	v = __builtin_bswap16(v);
#endif
	return v;
}

static inline uint32_t
ppa_wire_load32(const char *p)
{
	uint32_t	v;

	memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	v = __builtin_bswap32(v);
#endif
	return v;
}

static inline uint64_t
ppa_wire_load64(const char *p)
{
	uint64_t	v;

	memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	v = __builtin_bswap64(v);
#endif
	return v;
}

static inline bool
ppa_wire_read8(PpaWireReader *r, uint8_t *out, const char *what)
{
	if (ppa_wire_unlikely(ppa_wire_left(r) < 1))
		return ppa_wire_fail_at(r, r->pos, what);
	*out = (uint8_t) *r->pos;
	r->pos += 1;
	return true;
}

static inline bool
ppa_wire_read16(PpaWireReader *r, uint16_t *out, const char *what)
{
	if (ppa_wire_unlikely(ppa_wire_left(r) < 2))
		return ppa_wire_fail_at(r, r->pos, what);
	*out = ppa_wire_load16(r->pos);
	r->pos += 2;
	return true;
}

static inline bool
ppa_wire_read32(PpaWireReader *r, uint32_t *out, const char *what)
{
	if (ppa_wire_unlikely(ppa_wire_left(r) < 4))
		return ppa_wire_fail_at(r, r->pos, what);
	*out = ppa_wire_load32(r->pos);
	r->pos += 4;
	return true;
}

static inline bool
ppa_wire_read64(PpaWireReader *r, uint64_t *out, const char *what)
{
	if (ppa_wire_unlikely(ppa_wire_left(r) < 8))
		return ppa_wire_fail_at(r, r->pos, what);
	*out = ppa_wire_load64(r->pos);
	r->pos += 8;
	return true;
}

/* A time stamp: microseconds since 2000-01-01, may be negative. */
static inline bool
ppa_wire_read_time(PpaWireReader *r, int64_t *out, const char *what)
{
	uint64_t	v;

	if (!ppa_wire_read64(r, &v, what))
		return false;
	*out = (int64_t) v;
	return true;
}

/* An LSN that must be set. */
static inline bool
ppa_wire_read_lsn(PpaWireReader *r, uint64_t *out, const char *what)
{
	const char *at = r->pos;

	if (!ppa_wire_read64(r, out, what))
		return false;
	if (ppa_wire_unlikely(*out == 0))
		return ppa_wire_fail_at(r, at, what);
	return true;
}

/* A string with its NUL inside the message. */
static inline bool
ppa_wire_read_string(PpaWireReader *r, const char **out, const char *what)
{
	/* memchr must not be called with a pointer behind the buffer's end. */
	const char *nul = (r->pos < r->end) ?
		memchr(r->pos, '\0', ppa_wire_left(r)) : NULL;

	if (ppa_wire_unlikely(nul == NULL))
		return ppa_wire_fail_at(r, r->pos, what);
	*out = r->pos;
	r->pos = nul + 1;
	return true;
}

/* Number of columns of a relation or tuple. */
static inline bool
ppa_wire_read_ncolumns(PpaWireReader *r, int *out)
{
	const char *at = r->pos;
	uint16_t	n;

	if (!ppa_wire_read16(r, &n, "column count"))
		return false;

	/* A negative int16 is above the limit too when read as unsigned. */
	if (ppa_wire_unlikely(n > PPA_WIRE_MAX_COLUMNS))
		return ppa_wire_fail_at(r, at, "column count from 0 to 1664");
	*out = n;
	return true;
}

/* Start reading a message: the type byte is there, and has been read. */
static inline bool
ppa_wire_open(PpaWireReader *r, const char *buf, size_t len, PpaWireError *err)
{
	r->start = buf;
	r->pos = buf;
	r->end = buf + len;
	r->err = err;

	if (ppa_wire_unlikely(len == 0))
		return ppa_wire_fail_at(r, buf, "message type");
	r->pos += 1;
	return true;
}

/* The same for a message that must be of one type. */
static inline bool
ppa_wire_open_type(PpaWireReader *r, const char *buf, size_t len, char type,
				   const char *what, PpaWireError *err)
{
	if (!ppa_wire_open(r, buf, len, err))
		return false;
	if (ppa_wire_unlikely(*buf != type))
		return ppa_wire_fail_at(r, buf, what);
	return true;
}

/* Nothing may follow the last field. */
static inline bool
ppa_wire_close(const PpaWireReader *r)
{
	if (ppa_wire_unlikely(r->pos != r->end))
		return ppa_wire_fail_at(r, r->pos, "end of message");
	return true;
}

#endif							/* PPA_WIRE_READER_H */
