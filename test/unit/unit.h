/*-------------------------------------------------------------------------
 *
 * unit.h
 *	  The few assertions the unit tests need, with TAP output.
 *
 * Each test program includes this once, checks with ok() and is_*(), and ends
 * with `return unit_done();`.  A failed check prints "not ok" with the place
 * and makes the exit status 1; the plan comes last, so a program that dies on
 * the way fails too.  Plain C, for programs of one translation unit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_UNIT_H
#define PPA_UNIT_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int	unit_run;
static int	unit_failed;

/* One result line; fmt names the check. */
static inline bool __attribute__((format(printf, 4, 5)))
unit_ok(bool pass, const char *file, int line, const char *fmt,...)
{
	va_list		args;

	unit_run++;
	printf("%sok %d - ", pass ? "" : "not ", unit_run);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	if (!pass)
	{
		unit_failed++;
		printf("#   failed at %s line %d\n", file, line);
	}
	/* What was checked before a crash must not be lost in the buffer. */
	fflush(stdout);
	return pass;
}

static inline bool
unit_is_int(int64_t got, int64_t want, const char *file, int line,
			const char *name)
{
	if (unit_ok(got == want, file, line, "%s", name))
		return true;
	printf("#   got %" PRId64 ", want %" PRId64 "\n", got, want);
	return false;
}

static inline bool
unit_is_str(const char *got, const char *want, const char *file, int line,
			const char *name)
{
	if (unit_ok(got != NULL && strcmp(got, want) == 0, file, line, "%s", name))
		return true;
	printf("#   got \"%s\", want \"%s\"\n", got ? got : "(null)", want);
	return false;
}

/* Check a condition; the rest is a printf format that names the check. */
#define ok(pass, ...)	unit_ok((pass), __FILE__, __LINE__, __VA_ARGS__)
/* Compare integers, or NUL-terminated strings. */
#define is_int(got, want, name) \
	unit_is_int((int64_t) (got), (int64_t) (want), __FILE__, __LINE__, (name))
#define is_str(got, want, name) \
	unit_is_str((got), (want), __FILE__, __LINE__, (name))

/* Print the plan; the exit status of the program. */
static inline int
unit_done(void)
{
	printf("1..%d\n", unit_run);
	return (unit_failed == 0 && unit_run > 0) ? 0 : 1;
}

#endif							/* PPA_UNIT_H */
