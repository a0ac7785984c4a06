/*-------------------------------------------------------------------------
 *
 * wire_build.h
 *	  Writes protocol messages field by field, for the tests of wire/.
 *
 * A message is built in a fixed buffer and then copied with msg_exact() into
 * a heap block of exactly its size, so that the address sanitizer sees a read
 * of even one byte too many.  Written from the documentation and apart from
 * the code under test: it must not share its helpers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_WIRE_BUILD_H
#define PPA_WIRE_BUILD_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Room for a RELATION of 1665 columns with short names. */
#define MSG_MAX (64 * 1024)

typedef struct Msg
{
	size_t		len;
	char		data[MSG_MAX];
} Msg;

static inline void
put_bytes(Msg *m, const void *p, size_t n)
{
	if (n > MSG_MAX - m->len)
		abort();
	memcpy(m->data + m->len, p, n);
	m->len += n;
}

static inline void
put8(Msg *m, unsigned v)
{
	unsigned char b = (unsigned char) v;

	put_bytes(m, &b, 1);
}

static inline void
put16(Msg *m, unsigned v)
{
	put8(m, v >> 8);
	put8(m, v & 0xff);
}

static inline void
put32(Msg *m, uint32_t v)
{
	put16(m, v >> 16);
	put16(m, v & 0xffff);
}

static inline void
put64(Msg *m, uint64_t v)
{
	put32(m, (uint32_t) (v >> 32));
	put32(m, (uint32_t) v);
}

static inline void
put_string(Msg *m, const char *s)
{
	put_bytes(m, s, strlen(s) + 1);
}

/* A column value, kind 't' or 'b'. */
static inline void
put_value(Msg *m, char kind, const void *p, uint32_t n)
{
	put8(m, (unsigned char) kind);
	put32(m, n);
	put_bytes(m, p, n);
}

static inline void
put_text(Msg *m, const char *s)
{
	put_value(m, 't', s, (uint32_t) strlen(s));
}

/* A column of a RELATION message. */
static inline void
put_column(Msg *m, unsigned flags, const char *name, uint32_t type,
		   int32_t typmod)
{
	put8(m, flags);
	put_string(m, name);
	put32(m, type);
	put32(m, (uint32_t) typmod);
}

/* The first n bytes on the heap, plus `spare` bytes; free() it. */
static inline char *
msg_exact(const Msg *m, size_t n, size_t spare)
{
	char	   *copy = malloc(n + spare);

	if (copy == NULL)
		abort();
	memcpy(copy, m->data, n);
	return copy;
}

#endif							/* PPA_WIRE_BUILD_H */
