/*-------------------------------------------------------------------------
 *
 * sim_load.c
 *	  Settings, transactions and the oracle, all from the seed.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define MAX_OPS_PER_TXN 40
#define LARGE_OPS 160

/* The publisher's rows, so that most changes make sense. */
typedef struct Publisher
{
	bool	   *exists[RELS];
	int		   *unique[RELS];	/* of a row, -1 = none */
	int		   *owner[RELS];	/* of a value, -1 = free */
} Publisher;

static uint64_t
pick(Rng *rng, const uint64_t *values, int n)
{
	return values[rng_below(rng, (uint64_t) n)];
}
#define PICK(rng, ...) \
	pick((rng), (const uint64_t[]) {__VA_ARGS__}, \
		 (int) (sizeof((const uint64_t[]) {__VA_ARGS__}) / sizeof(uint64_t)))

static void
settings_from_seed(Sim *sim)
{
	Rng		   *rng = &sim->rng;
	Settings   *set = &sim->set;
	PpaScheduleConfig *core = &set->core;

	*core = ppa_schedule_defaults((uint32_t) PICK(rng, 1, 2, 3, 4, 4, 8, 16));
	core->depth = (uint32_t) PICK(rng, 1, 2, 2, 4, 8);
	core->run = (uint32_t) PICK(rng, 1, 4, 16);
	core->run_us = (uint64_t) PICK(rng, 50, 200, 1000);
	core->deps_entries = (uint32_t) PICK(rng, 16, 32, 64, 1024, 65536);
	/* The wrong guesses are part of every run. */
	core->deps_mode = (PpaDepsMode) PICK(rng, PPA_DEPS_TABLE, PPA_DEPS_TABLE, PPA_DEPS_TABLE,
										 PPA_DEPS_NONE, PPA_DEPS_NONE, PPA_DEPS_ALL);
	core->retain_bytes = PICK(rng, 3000, 10000, 1000000);
	core->flight_bytes = core->retain_bytes + PICK(rng, 1000, 20000, 1000000);
	core->idle_us = PICK(rng, 5000, 100000, 10 * SECOND);
	core->refused_us = PICK(rng, 1000, 100000);
	core->order_retries = (uint32_t) PICK(rng, 2, 8, 1000);
	core->order_window = 64;
	core->order_groups = (uint32_t) PICK(rng, 0, 16, 64);
	core->transient_us = 1000;
	set->rules.grouping = rng_percent(rng, 80);
	set->rules.max_transactions = (uint32_t) PICK(rng, 1, 2, 5, 20, 100);
	set->rules.max_bytes = PICK(rng, 1000, 3000, 64000);
	if (set->rules.max_bytes > core->retain_bytes)
		set->rules.max_bytes = core->retain_bytes;
	set->ntxns = (int) PICK(rng, 30, 100, 200);
	set->nrows = (int) PICK(rng, 4, 8, 16, 32);
	set->nuniques = set->nrows + (int) PICK(rng, 0, 1, 8);
	set->nlocals = (int) PICK(rng, 0, 0, 1, 3, MAX_LOCALS);
	set->leader_us = PICK(rng, 0, 1, 1, 10, 100);
	set->worker_us = PICK(rng, 5, 20, 20, 500);
	set->commit_us = PICK(rng, 1, 10, 10, 300);
	set->publish_us = PICK(rng, 1, 2, 50);
	set->latency_us = PICK(rng, 1, 10, 10, 100, 1000);
	set->abort_us = PICK(rng, 1, 10, 200, 2000);
	set->local_hold_us = PICK(rng, 100, 5000, 100000);
	set->speculative_errors = (uint32_t) PICK(rng, 0, 0, 10, 100);
	set->company_errors = (uint32_t) PICK(rng, 0, 0, 10, 100);
	set->slow_percent = (uint32_t) PICK(rng, 0, 0, 25);
	set->deaths = (int) PICK(rng, 0, 0, 1, 3);
	set->stops = (int) PICK(rng, 0, 0, 0, 2);
	set->refused_percent = (uint32_t) PICK(rng, 0, 0, 0, 30);
	set->unique_keys = rng_percent(rng, 70);
}

static void
publisher_init(Sim *sim, Publisher *pub)
{
	Rng		   *rng = &sim->rng;

	for (int r = 0; r < RELS; r++)
	{
		pub->exists[r] = calloc((size_t) sim->set.nrows, sizeof(bool));
		pub->unique[r] = calloc((size_t) sim->set.nrows, sizeof(int));
		pub->owner[r] = calloc((size_t) sim->set.nuniques, sizeof(int));
		for (int u = 0; u < sim->set.nuniques; u++)
			pub->owner[r][u] = -1;
		for (int id = 0; id < sim->set.nrows; id++)
		{
			pub->unique[r][id] = -1;
			if (r == REL_AUDIT || rng_percent(rng, 30))
				continue;
			pub->exists[r][id] = true;
			if (rng_percent(rng, 80))
			{
				pub->unique[r][id] = id;
				pub->owner[r][id] = id;
			}
		}
	}
}

static void
publisher_free(Publisher *pub)
{
	for (int r = 0; r < RELS; r++)
	{
		free(pub->exists[r]);
		free(pub->unique[r]);
		free(pub->owner[r]);
	}
}

static void
set_unique(Publisher *pub, int rel, int id, int u)
{
	if (pub->unique[rel][id] >= 0)
		pub->owner[rel][pub->unique[rel][id]] = -1;
	pub->unique[rel][id] = u;
	if (u >= 0)
		pub->owner[rel][u] = id;
}

/* A free value, -1 if the first few tries are not. */
static int
free_unique(Sim *sim, const Publisher *pub, int rel)
{
	for (int i = 0; i < 4; i++)
	{
		int			u = (int) rng_below(&sim->rng, (uint64_t) sim->set.nuniques);

		if (pub->owner[rel][u] < 0)
			return u;
	}
	return -1;
}

/* A change that is right on the publisher. */
static Op
make_op(Sim *sim, Publisher *pub, int rel)
{
	Rng		   *rng = &sim->rng;
	int			id = (int) rng_below(rng, (uint64_t) sim->set.nrows);
	int			id2 = (int) rng_below(rng, (uint64_t) sim->set.nrows);
	Op			op = {.rel = (uint8_t) rel,.id = id,.id2 = id2,.u = -1};

	op.val = (uint32_t) rng_next(rng);
	/* Half of the changes meet in a few rows. */
	if (rng_percent(rng, 50))
		op.id = id = id % 3;
	if (!pub->exists[rel][id])
	{
		op.kind = OP_INSERT;
		op.u = free_unique(sim, pub, rel);
		pub->exists[rel][id] = true;
		set_unique(pub, rel, id, op.u);
	}
	else if (rng_percent(rng, 20))
	{
		op.kind = OP_DELETE;
		pub->exists[rel][id] = false;
		set_unique(pub, rel, id, -1);
	}
	else if (rng_percent(rng, 15) && !pub->exists[rel][id2])
	{
		int			u = pub->unique[rel][id];

		op.kind = OP_MOVE;
		pub->exists[rel][id] = false;
		pub->exists[rel][id2] = true;
		set_unique(pub, rel, id, -1);
		set_unique(pub, rel, id2, u);
	}
	else
	{
		op.kind = OP_UPDATE;
		if (rng_percent(rng, 30))
			op.u = free_unique(sim, pub, rel);
		if (op.u >= 0)
			set_unique(pub, rel, id, op.u);
	}
	return op;
}

static Op
make_truncate(Sim *sim, Publisher *pub, int rel)
{
	for (int id = 0; id < sim->set.nrows; id++)
	{
		pub->exists[rel][id] = false;
		set_unique(pub, rel, id, -1);
	}
	return (Op)
	{
		.kind = OP_TRUNCATE,.rel = (uint8_t) rel,.u = -1
	};
}

/* It fails wherever it is applied; the publisher's rows stay as they are. */
static void
make_poison(Sim *sim, Txn *txn)
{
	txn->first = sim->nops;
	txn->nops = 1 + (int) rng_below(&sim->rng, 5);
	for (int i = 0; i < txn->nops; i++)
		sim->ops[sim->nops++] = (Op)
	{
		.kind = i + 1 == txn->nops ? OP_POISON : OP_UPDATE,.rel = REL_PLAIN,
			.id = (int) rng_below(&sim->rng, (uint64_t) sim->set.nrows),.u = -1,.val = 1
	};
}

static void
make_txn(Sim *sim, Publisher *pub, Txn *txn)
{
	Rng		   *rng = &sim->rng;
	int			nops = 1 + (int) rng_below(rng, PICK(rng, 1, 1, 4, 10, MAX_OPS_PER_TXN));

	if (rng_percent(rng, 2))
		nops = LARGE_OPS / 2 + (int) rng_below(rng, LARGE_OPS / 2);
	txn->solo = rng_percent(rng, 5);
	txn->first = sim->nops;
	txn->nops = nops;
	for (int i = 0; i < nops; i++)
	{
		int			rel = rng_percent(rng, 10) ? REL_ORDERED : REL_PLAIN;
		Op		   *op = &sim->ops[sim->nops++];

		if (txn->solo && rng_percent(rng, 50))
			rel = REL_TRIGGER;
		*op = make_op(sim, pub, rel);
	}
	if (rng_percent(rng, 1))
	{
		sim->ops[txn->first] = make_truncate(sim, pub, REL_PLAIN);
		txn->nops = 1;
		sim->nops = txn->first + 1;
		txn->truncates = true;
	}
	else if (rng_percent(rng, 2))
		sim->ops[txn->first + (int) rng_below(rng, (uint64_t) txn->nops)].hidden_trigger = true;
	if (rng_percent(rng, 3))
		txn->transients = 1 + (int) rng_below(rng, 3);
}

/* The subscriber begins like the publisher, but for a few rows. */
static void
world_from_publisher(Sim *sim, const Publisher *pub)
{
	bool		differs = rng_percent(&sim->rng, 15);

	for (int r = 0; r < REL_AUDIT; r++)
		for (int id = 0; id < sim->set.nrows; id++)
		{
			bool		there = pub->exists[r][id];
			int			u = pub->unique[r][id];

			if (differs && rng_percent(&sim->rng, 5))
			{
				there = !there;
				if (there)
					u = -1;
			}
			if (there)
				world_put(&sim->world, r, id, u, 7);
		}
	world_put(&sim->world, REL_AUDIT, 0, -1, 1);
}

void
load_from_seed(Sim *sim)
{
	Publisher	pub;
	uint64_t	arrival = 0;
	uint64_t	gap;
	uint32_t	poison;

	sim->rng.state = sim->seed * UINT64_C(0xD1342543DE82EF95) + 1;
	settings_from_seed(sim);
	gap = PICK(&sim->rng, 0, 0, 10, 200, 2000);
	poison = (uint32_t) PICK(&sim->rng, 0, 0, 1, 5);
	world_init(&sim->world, sim->set.nrows, sim->set.nuniques);
	sim->txns = calloc((size_t) sim->set.ntxns, sizeof(Txn));
	sim->ops = calloc((size_t) sim->set.ntxns * LARGE_OPS, sizeof(Op));
	publisher_init(sim, &pub);
	world_from_publisher(sim, &pub);
	for (int t = 0; t < sim->set.ntxns; t++)
	{
		if (rng_percent(&sim->rng, poison))
			make_poison(sim, &sim->txns[t]);
		else
			make_txn(sim, &pub, &sim->txns[t]);
		if (gap > 0)
			arrival += rng_time(&sim->rng, gap);
		sim->txns[t].arrival = arrival;
	}
	publisher_free(&pub);
}

/* Serial apply; a transaction that fails is skipped, as the DBA does. */
void
load_oracle(Sim *sim)
{
	World		world;

	world_init(&world, sim->set.nrows, sim->set.nuniques);
	for (int r = 0; r < RELS; r++)
		for (int id = 0; id < sim->set.nrows; id++)
		{
			RowState   *state = &sim->world.rows[r][id].committed;

			if (state->exists)
				world_put(&world, r, id, state->u, state->val);
		}
	for (int t = 0; t < sim->set.ntxns; t++)
	{
		Txn		   *txn = &sim->txns[t];

		world_begin(&world, 0);
		for (int i = 0; i < txn->nops && !txn->fails; i++)
		{
			Outcome		outcome = world_exec(&world, 0, &sim->ops[txn->first + i]);

			txn->fails = outcome == UNIQUE_ERROR || outcome == POISON_ERROR;
		}
		if (txn->fails)
			world_abort(&world, 0);
		else
			world_commit(&world, 0);
		txn->hash = world_hash(&world);
	}
	world_free(&world);
}
