/*-------------------------------------------------------------------------
 *
 * sim_whatif.c
 *	  Speed-up from measured costs: what the leader spends per change, a worker
 *	  per change and per commit, for 1 to 64 workers, each on a core of its own.
 *
 * K1: every transaction updates one row of its own.  H10: half of the changes
 * update one of ten rows, the other half insert.  The same engine, core and
 * locks as in the seeded runs, with costs that do not vary, no faults, and a
 * backlog that is there from the start.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "sim_whatif.h"

#define TXNS 20000
#define HOT_ROWS 10

/* A wake-up through a latch, and an empty queue's message; measured elsewhere. */
#define WAKE_US 5

typedef struct Costs
{
	double		leader_us;
	double		worker_us;
	double		commit_us;
} Costs;

/* Costs are in units of 1/UNIT us, so that fractions count. */
#define UNIT 100

static void
make_load(Sim *sim, bool hot)
{
	sim->rng.state = 1;
	sim->set.ntxns = TXNS;
	sim->set.nrows = TXNS + HOT_ROWS;
	sim->set.nuniques = 1;
	world_init(&sim->world, sim->set.nrows, 1);
	sim->txns = calloc(TXNS, sizeof(Txn));
	sim->ops = calloc(TXNS, sizeof(Op));
	sim->nops = TXNS;
	for (int t = 0; t < TXNS; t++)
	{
		Op		   *op = &sim->ops[t];

		*op = (Op)
		{
			.kind = OP_UPDATE,.rel = REL_PLAIN,.id = HOT_ROWS + t,.u = -1,.val = 1
		};
		if (hot && t % 2 == 0)
			op->id = (int) rng_below(&sim->rng, HOT_ROWS);
		else if (hot)
			op->kind = OP_INSERT;
		sim->txns[t] = (Txn)
		{
			.first = t,.nops = 1
		};
	}
	for (int id = 0; id < sim->set.nrows; id++)
		if (!hot || id < HOT_ROWS)
			world_put(&sim->world, REL_PLAIN, id, -1, 1);
}

/* Time for the whole load, in us. */
static double
run(const Costs *costs, bool hot, uint32_t workers, uint32_t group, PpaScheduleStats *stats)
{
	Sim		   *sim = calloc(1, sizeof(Sim));
	double		us;

	sim->set.exact = true;
	sim->set.core = ppa_schedule_defaults(workers);
	sim->set.core.order_groups = 0;
	/* Times of the core are in the same unit. */
	sim->set.core.watch_us *= UNIT;
	sim->set.core.watch_max_us *= UNIT;
	sim->set.core.backstop_us *= UNIT;
	sim->set.core.run_us *= UNIT;
	sim->set.rules = (PpaGroupRules)
	{
		.grouping = group > 1,.max_transactions = group,.max_bytes = 1 << 16
	};
	sim->set.leader_us = (uint64_t) (costs->leader_us * UNIT);
	sim->set.worker_us = (uint64_t) (costs->worker_us * UNIT);
	sim->set.commit_us = (uint64_t) (costs->commit_us * UNIT);
	sim->set.pace_us = group * sim->set.worker_us + sim->set.commit_us;
	sim->set.publish_us = UNIT / 10;
	sim->set.latency_us = WAKE_US * UNIT;
	make_load(sim, hot);
	sim_run(sim);
	us = (double) sim->finished / UNIT;
	*stats = ppa_schedule_stats(sim->core);
	sim_free(sim);
	free(sim);
	return us;
}

static void
table(const Costs *costs, bool hot, uint32_t group)
{
	double		serial = TXNS * (costs->leader_us + costs->worker_us) +
		TXNS / (double) group * costs->commit_us;

	printf("\n%s, groups of %u; serial %.0f txn/s, leader alone %.0f txn/s\n",
		   hot ? "H10" : "K1", group, TXNS / serial * 1e6,
		   costs->leader_us > 0 ? 1e6 / costs->leader_us : 0.0);
	printf("%8s %12s %9s %10s %8s %8s %8s\n", "workers", "txn/s", "speed-up", "waits",
		   "victims", "missed", "retries");
	for (uint32_t workers = 1; workers <= 64; workers *= 2)
	{
		PpaScheduleStats stats;
		double		us = run(costs, hot, workers, group, &stats);

		printf("%8u %12.0f %9.2f %10" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 "\n",
			   workers, TXNS / us * 1e6, serial / us, stats.dependency_waits, stats.victims,
			   stats.missed, stats.failures[PPA_FAILED_UNIQUE] + stats.failures[PPA_FAILED_OTHER]);
	}
}

int
whatif_main(int argc, char **argv)
{
	Costs		costs;

	if (argc != 3)
	{
		fprintf(stderr, "usage: sim whatif LEADER_US WORKER_US COMMIT_US\n");
		return 2;
	}
	costs.leader_us = atof(argv[0]);
	costs.worker_us = atof(argv[1]);
	costs.commit_us = atof(argv[2]);
	printf("us: leader %.2f and worker %.2f per change, commit %.2f, wake-up %d\n",
		   costs.leader_us, costs.worker_us, costs.commit_us, WAKE_US);
	table(&costs, false, 100);
	table(&costs, false, 1);
	table(&costs, true, 100);
	table(&costs, true, 1);
	return 0;
}
