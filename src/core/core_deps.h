/*-------------------------------------------------------------------------
 *
 * core_deps.h
 *	  Which group wrote a key last.
 *
 * Owns:	a table of fixed size, 64-bit hash of a key -> number of the last
 *			group that wrote it.
 * Runs in:	the leader.
 * Memory:	handed in by the caller; nothing is ever allocated.
 *
 * Open addressing with a bounded window: a key lives in one of the WINDOW
 * slots that follow its home slot.  An entry whose group has committed is free
 * and is taken over by whoever probes it; nothing is ever cleaned up apart.
 *
 * A key that finds no room is not forgotten: from then on every key that is
 * not found answers the newest group that lost one ("all earlier"), until
 * that group has committed.  Two keys with the same hash are one key.
 *
 * A missed dependency would be harmless (a later rule finds it), a needless
 * one costs time.  The two test modes prove the former.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_CORE_DEPS_H
#define PPA_CORE_DEPS_H

#include <stddef.h>
#include <stdint.h>

typedef enum PpaDepsMode
{
	PPA_DEPS_TABLE,				/* the rule */
	PPA_DEPS_NONE,				/* test: nothing depends on anything */
	PPA_DEPS_ALL,				/* test: everything depends on everything earlier */
} PpaDepsMode;

typedef struct PpaDepsEntry
{
	uint64_t	key;
	uint64_t	group;			/* 0: never used */
} PpaDepsEntry;

typedef struct PpaDeps
{
	PpaDepsEntry *entries;
	uint32_t	mask;
	uint32_t	shift;
	PpaDepsMode mode;
	uint64_t	lost;			/* newest group with a key that found no room */
	uint64_t	full;			/* how often a key found no room */
} PpaDeps;

/* Bytes of memory for a table of at least that many entries. */
extern size_t ppa_deps_size(uint32_t entries);

extern void ppa_deps_init(PpaDeps *deps, void *memory, uint32_t entries, PpaDepsMode mode);

/*
 * "group" writes "key"; everything up to "committed" has committed.  Returns
 * the newest earlier group that has not and that wrote the key, or may have; 0
 * if there is none.  Groups come in ascending order.
 */
extern uint64_t ppa_deps_write(PpaDeps *deps, uint64_t key, uint64_t group, uint64_t committed);

#endif							/* PPA_CORE_DEPS_H */
