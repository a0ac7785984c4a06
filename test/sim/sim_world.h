/*-------------------------------------------------------------------------
 *
 * sim_world.h
 *	  The subscriber's rows, with the locks of PostgreSQL that matter here.
 *
 * A row, and an entry of a unique index, belongs from its change to the commit
 * to the transaction that changed it; others that need it wait for that
 * transaction.  Readers see what is committed, and their own changes.
 *
 * Relations:	0 plain
 *				1 ordered: what is written depends on what is visible
 *				2 fires a trigger, which writes into 3 what it sees, and whether
 *				  somebody else has a row locked (SKIP LOCKED)
 *				3 the trigger's
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#define RELS 4
#define REL_PLAIN 0
#define REL_ORDERED 1
#define REL_TRIGGER 2
#define REL_AUDIT 3

#define NOBODY (-1)
#define MAX_XACTS 96
#define FIRST_LOCAL 80			/* transactions below are apply workers' */

typedef enum OpKind
{
	OP_INSERT,					/* id, u, val */
	OP_UPDATE,					/* id, val; u unless -1 */
	OP_DELETE,					/* id */
	OP_MOVE,					/* id becomes id2 */
	OP_TRUNCATE,
	OP_POISON,					/* always an error */
} OpKind;

typedef struct Op
{
	OpKind		kind;
	uint8_t		rel;
	bool		hidden_trigger; /* fires a trigger that the leader does not know of */
	int			id;
	int			id2;
	int			u;
	uint32_t	val;
	uint64_t	wait_for;		/* what the scheduler said */
} Op;

typedef struct RowState
{
	bool		exists;
	int			u;
	uint32_t	val;
} RowState;

typedef struct Row
{
	RowState	committed;
	RowState	current;		/* as its holder sees it */
	int			holder;
} Row;

typedef struct UniqueEntry
{
	int			committed;		/* owner's id or NOBODY */
	int			current;
	int			holder;
} UniqueEntry;

typedef struct Held
{
	uint8_t		rel;
	bool		is_unique;
	int			index;
} Held;

typedef struct Xact
{
	bool		open;
	bool		touched[RELS];
	int			waits_for;		/* visible in the lock table */
	int			nheld;
	int			held_capacity;
	Held	   *held;
} Xact;

typedef struct World
{
	int			nrows;			/* of each relation */
	int			nuniques;
	Row		   *rows[RELS];
	UniqueEntry *uniques[RELS];
	int			exclusive[RELS];
	Xact		xacts[MAX_XACTS];
} World;

typedef enum Outcome
{
	DONE,
	BLOCKED,					/* xacts[x].waits_for says by whom */
	MISSING,
	UNIQUE_ERROR,
	POISON_ERROR,
} Outcome;

extern void world_init(World *world, int nrows, int nuniques);
extern void world_free(World *world);
/* A committed row, from nowhere. */
extern void world_put(World *world, int rel, int id, int u, uint32_t val);
extern void world_begin(World *world, int x);
/* Do it, or find out why not.  After BLOCKED it can be called again. */
extern Outcome world_exec(World *world, int x, const Op *op);
/* Lock a row without changing it; also one that is not there ("inserted"). */
extern Outcome world_lock(World *world, int x, int rel, int id);
extern void world_commit(World *world, int x);
extern void world_abort(World *world, int x);
/* Of what is committed. */
extern uint64_t world_hash(const World *world);

static inline uint64_t
mix(uint64_t h, uint64_t v)
{
	h ^= v + UINT64_C(0x9E3779B97F4A7C15) + (h << 6) + (h >> 2);
	h *= UINT64_C(0xBF58476D1CE4E5B9);
	return h ^ (h >> 29);
}

#endif							/* SIM_WORLD_H */
