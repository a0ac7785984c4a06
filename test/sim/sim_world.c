/*-------------------------------------------------------------------------
 *
 * sim_world.c
 *	  The subscriber's rows, with the locks of PostgreSQL that matter here.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "sim_world.h"

void
world_init(World *world, int nrows, int nuniques)
{
	memset(world, 0, sizeof(*world));
	world->nrows = nrows;
	world->nuniques = nuniques;
	for (int r = 0; r < RELS; r++)
	{
		world->exclusive[r] = NOBODY;
		world->rows[r] = calloc((size_t) nrows, sizeof(Row));
		world->uniques[r] = calloc((size_t) nuniques, sizeof(UniqueEntry));
		for (int i = 0; i < nrows; i++)
			world->rows[r][i].holder = NOBODY;
		for (int u = 0; u < nuniques; u++)
			world->uniques[r][u] = (UniqueEntry)
		{
			NOBODY, NOBODY, NOBODY
		};
	}
	for (int x = 0; x < MAX_XACTS; x++)
		world->xacts[x].waits_for = NOBODY;
}

void
world_free(World *world)
{
	for (int r = 0; r < RELS; r++)
	{
		free(world->rows[r]);
		free(world->uniques[r]);
	}
	for (int x = 0; x < MAX_XACTS; x++)
		free(world->xacts[x].held);
}

void
world_put(World *world, int rel, int id, int u, uint32_t val)
{
	Row		   *row = &world->rows[rel][id];

	row->committed = row->current = (RowState)
	{
		true, u, val
	};
	if (u >= 0)
		world->uniques[rel][u].committed = world->uniques[rel][u].current = id;
}

void
world_begin(World *world, int x)
{
	Xact	   *xact = &world->xacts[x];

	xact->open = true;
	memset(xact->touched, 0, sizeof(xact->touched));
	xact->waits_for = NOBODY;
	xact->nheld = 0;
}

static void
remember(World *world, int x, int rel, bool is_unique, int index)
{
	Xact	   *xact = &world->xacts[x];

	if (xact->nheld == xact->held_capacity)
	{
		xact->held_capacity = xact->held_capacity ? xact->held_capacity * 2 : 16;
		xact->held = realloc(xact->held, (size_t) xact->held_capacity * sizeof(Held));
	}
	xact->held[xact->nheld++] = (Held)
	{
		(uint8_t) rel, is_unique, index
	};
}

static const RowState *
view(const World *world, int x, int rel, int id)
{
	const Row  *row = &world->rows[rel][id];

	return row->holder == x ? &row->current : &row->committed;
}

static Outcome
wait_for(World *world, int x, int holder)
{
	world->xacts[x].waits_for = holder;
	return BLOCKED;
}

static Outcome
take_row(World *world, int x, int rel, int id)
{
	Row		   *row = &world->rows[rel][id];

	if (row->holder == x)
		return DONE;
	if (row->holder != NOBODY)
		return wait_for(world, x, row->holder);
	row->holder = x;
	row->current = row->committed;
	remember(world, x, rel, false, id);
	return DONE;
}

/* Row "id" gets the value: nobody else may have it, or be about to get or lose it. */
static Outcome
take_unique(World *world, int x, int rel, int u, int id)
{
	UniqueEntry *entry = &world->uniques[rel][u];
	int			owner;

	if (entry->holder != NOBODY && entry->holder != x)
		return wait_for(world, x, entry->holder);
	owner = entry->holder == x ? entry->current : entry->committed;
	if (owner != NOBODY && owner != id)
	{
		int			holder = world->rows[rel][owner].holder;

		return holder != NOBODY && holder != x ? wait_for(world, x, holder) : UNIQUE_ERROR;
	}
	if (entry->holder == NOBODY)
	{
		entry->holder = x;
		entry->current = entry->committed;
		remember(world, x, rel, true, u);
	}
	return DONE;
}

/* The value that a row of ours had; its row lock protects the entry. */
static void
drop_unique(World *world, int x, int rel, int u)
{
	if (u < 0)
		return;
	if (world->uniques[rel][u].holder != x)
	{
		world->uniques[rel][u].holder = x;
		remember(world, x, rel, true, u);
	}
	world->uniques[rel][u].current = NOBODY;
}

static uint64_t
visible(const World *world, int x, int rel)
{
	uint64_t	h = 1;

	for (int id = 0; id < world->nrows; id++)
	{
		const RowState *state = view(world, x, rel, id);

		if (state->exists)
			h = mix(mix(mix(h, (uint64_t) id), (uint64_t) (state->u + 1)), state->val);
	}
	return h;
}

static bool
other_worker_holds_any(const World *world, int x)
{
	for (int i = 0; i < FIRST_LOCAL; i++)
		if (i != x && world->xacts[i].open && world->xacts[i].nheld > 0)
			return true;
	return false;
}

static Outcome
fire_trigger(World *world, int x)
{
	Outcome		outcome = take_row(world, x, REL_AUDIT, 0);
	RowState   *audit = &world->rows[REL_AUDIT][0].current;
	uint64_t	h = audit->val;

	if (outcome != DONE)
		return outcome;
	for (int r = 0; r < REL_AUDIT; r++)
		h = mix(h, visible(world, x, r));
	audit->val = (uint32_t) mix(h, other_worker_holds_any(world, x));
	return DONE;
}

static Outcome
exec_insert(World *world, int x, const Op *op, int id, int u, uint32_t val)
{
	Row		   *row = &world->rows[op->rel][id];
	Outcome		outcome;

	if (row->holder != NOBODY && row->holder != x)
		return wait_for(world, x, row->holder);
	if (view(world, x, op->rel, id)->exists)
		return UNIQUE_ERROR;
	take_row(world, x, op->rel, id);
	outcome = u < 0 ? DONE : take_unique(world, x, op->rel, u, id);
	if (outcome != DONE)
		return outcome;
	row->current = (RowState)
	{
		true, u, val
	};
	if (u >= 0)
		world->uniques[op->rel][u].current = id;
	return DONE;
}

static Outcome
exec_move(World *world, int x, const Op *op)
{
	RowState   *from = &world->rows[op->rel][op->id].current;
	Row		   *to = &world->rows[op->rel][op->id2];

	if (to->holder != NOBODY && to->holder != x)
		return wait_for(world, x, to->holder);
	if (view(world, x, op->rel, op->id2)->exists)
		return UNIQUE_ERROR;
	take_row(world, x, op->rel, op->id2);
	if (from->u >= 0)
	{
		drop_unique(world, x, op->rel, from->u);
		world->uniques[op->rel][from->u].current = op->id2;
	}
	to->current = *from;
	to->current.val += op->val;
	from->exists = false;
	return DONE;
}

/* Update, delete, move: the row must be there. */
static Outcome
exec_on_row(World *world, int x, const Op *op)
{
	RowState   *current = &world->rows[op->rel][op->id].current;
	Outcome		outcome;

	if (!view(world, x, op->rel, op->id)->exists)
		return MISSING;
	outcome = take_row(world, x, op->rel, op->id);
	if (outcome != DONE)
		return outcome;
	if (op->kind == OP_MOVE)
		return exec_move(world, x, op);
	if (op->kind == OP_DELETE)
	{
		drop_unique(world, x, op->rel, current->u);
		current->exists = false;
		return DONE;
	}
	if (op->u >= 0 && op->u != current->u)
	{
		outcome = take_unique(world, x, op->rel, op->u, op->id);
		if (outcome != DONE)
			return outcome;
		drop_unique(world, x, op->rel, current->u);
		world->uniques[op->rel][op->u].current = op->id;
		current->u = op->u;
	}
	current->val = (uint32_t) mix(current->val, op->val);
	if (op->rel == REL_ORDERED)
		current->val = (uint32_t) mix(current->val, visible(world, x, op->rel));
	return DONE;
}

static Outcome
exec_truncate(World *world, int x, const Op *op)
{
	for (int i = 0; i < MAX_XACTS; i++)
		if (i != x && world->xacts[i].open && world->xacts[i].touched[op->rel])
			return wait_for(world, x, i);
	world->exclusive[op->rel] = x;
	for (int id = 0; id < world->nrows; id++)
	{
		Row		   *row = &world->rows[op->rel][id];

		if (!view(world, x, op->rel, id)->exists)
			continue;
		take_row(world, x, op->rel, id);
		drop_unique(world, x, op->rel, row->current.u);
		row->current.exists = false;
	}
	return DONE;
}

Outcome
world_exec(World *world, int x, const Op *op)
{
	Xact	   *xact = &world->xacts[x];
	Outcome		outcome;

	xact->waits_for = NOBODY;
	if (world->exclusive[op->rel] != NOBODY && world->exclusive[op->rel] != x)
		return wait_for(world, x, world->exclusive[op->rel]);
	if (op->kind == OP_POISON)
		return POISON_ERROR;
	if (op->kind == OP_TRUNCATE)
	{
		outcome = exec_truncate(world, x, op);
		xact->touched[op->rel] |= outcome == DONE;
		return outcome;
	}
	xact->touched[op->rel] = true;
	/* The trigger's lock first: then nothing is done twice. */
	if (op->rel == REL_TRIGGER || op->hidden_trigger)
	{
		outcome = take_row(world, x, REL_AUDIT, 0);
		if (outcome != DONE)
			return outcome;
	}
	outcome = op->kind == OP_INSERT
		? exec_insert(world, x, op, op->id, op->u, op->val) : exec_on_row(world, x, op);
	if (outcome == DONE && (op->rel == REL_TRIGGER || op->hidden_trigger))
		outcome = fire_trigger(world, x);
	return outcome;
}

Outcome
world_lock(World *world, int x, int rel, int id)
{
	world->xacts[x].waits_for = NOBODY;
	if (world->exclusive[rel] != NOBODY && world->exclusive[rel] != x)
		return wait_for(world, x, world->exclusive[rel]);
	world->xacts[x].touched[rel] = true;
	return take_row(world, x, rel, id);
}

static void
end(World *world, int x, bool commit)
{
	Xact	   *xact = &world->xacts[x];

	for (int i = 0; i < xact->nheld; i++)
	{
		const Held *held = &xact->held[i];

		if (held->is_unique)
		{
			UniqueEntry *entry = &world->uniques[held->rel][held->index];

			if (commit)
				entry->committed = entry->current;
			entry->holder = NOBODY;
		}
		else
		{
			Row		   *row = &world->rows[held->rel][held->index];

			if (commit)
				row->committed = row->current;
			row->holder = NOBODY;
		}
	}
	for (int r = 0; r < RELS; r++)
		if (world->exclusive[r] == x)
			world->exclusive[r] = NOBODY;
	xact->nheld = 0;
	xact->open = false;
	xact->waits_for = NOBODY;
}

void
world_commit(World *world, int x)
{
	end(world, x, true);
}

void
world_abort(World *world, int x)
{
	end(world, x, false);
}

uint64_t
world_hash(const World *world)
{
	uint64_t	h = 0;

	for (int r = 0; r < RELS; r++)
		h = mix(h, visible(world, NOBODY - 1, r));
	return h;
}
