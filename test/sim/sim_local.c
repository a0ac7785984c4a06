/*-------------------------------------------------------------------------
 *
 * sim_local.c
 *	  Local sessions that lock rows.
 *
 * Kinds: 0 locks a row for a while; 1 then waits for a second one (a blocker
 * chain leads through it); 2 waits for the second one in the application, so
 * that the lock table shows nothing (H3).  All give up in the end.
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

/* Longest wait of a local session, as with a lock_timeout. */
#define PATIENCE (SECOND / 2)

/* How often the application asks for the second row. */
#define APPLICATION_POLL 2000

/* Nobody begins later. */
#define LAST_BEGIN (100 * SECOND)

static void
again(Sim *sim, int l, uint64_t delay)
{
	Local	   *local = &sim->locals[l];
	Event	   *event;

	local->gen++;
	event = sim_post(sim, EV_LOCAL, delay, l);
	event->gen = local->gen;
}

static void
finish(Sim *sim, int l)
{
	world_abort(&sim->world, FIRST_LOCAL + l);
	xact_ended(sim, FIRST_LOCAL + l);
	sim->locals[l].phase = L_IDLE;
	again(sim, l, rng_time(&sim->rng, sim->set.local_hold_us * 2));
}

void
local_give_up(Sim *sim, int l)
{
	finish(sim, l);
}

void
local_init(Sim *sim)
{
	for (int l = 0; l < sim->set.nlocals; l++)
		again(sim, l, rng_time(&sim->rng, 1000));
}

static void
begin(Sim *sim, int l)
{
	Local	   *local = &sim->locals[l];

	for (int i = 0; i < 2; i++)
	{
		local->rel[i] = rng_percent(&sim->rng, 10) ? REL_ORDERED : REL_PLAIN;
		local->id[i] = (int) rng_below(&sim->rng, (uint64_t) sim->set.nrows);
		if (rng_percent(&sim->rng, 50))
			local->id[i] %= 3;
	}
	local->kind = (int) rng_below(&sim->rng, 3);
	world_begin(&sim->world, FIRST_LOCAL + l);
	local->phase = L_FIRST;
}

/* Woken, or out of patience. */
void
local_event(Sim *sim, int l)
{
	Local	   *local = &sim->locals[l];
	int			x = FIRST_LOCAL + l;

	switch (local->phase)
	{
		case L_IDLE:
			/* The end must be reached; and unlike the server's, our queues are not fair. */
			if (sim->committed_txns >= sim->set.ntxns || sim->now > LAST_BEGIN)
				return;
			begin(sim, l);
			if (world_lock(&sim->world, x, local->rel[0], local->id[0]) == DONE)
			{
				local->phase = L_HOLD;
				again(sim, l, rng_time(&sim->rng, sim->set.local_hold_us));
			}
			else
				again(sim, l, PATIENCE);
			break;
		case L_FIRST:
			if (world_lock(&sim->world, x, local->rel[0], local->id[0]) != DONE)
			{
				finish(sim, l);
				break;
			}
			local->phase = L_HOLD;
			again(sim, l, rng_time(&sim->rng, sim->set.local_hold_us));
			break;
		case L_HOLD:
			if (local->kind == 0)
				finish(sim, l);
			else if (local->kind == 1)
			{
				local->phase = L_SECOND;
				if (world_lock(&sim->world, x, local->rel[1], local->id[1]) == DONE)
					finish(sim, l);
				else
					again(sim, l, PATIENCE);
			}
			else
			{
				local->phase = L_HIDDEN;
				local->give_up = sim->now + PATIENCE;
				again(sim, l, 1);
			}
			break;
		case L_SECOND:
			finish(sim, l);
			break;
		case L_HIDDEN:
			/* Until no worker has the second row. */
			if (sim->now < local->give_up &&
				sim->world.rows[local->rel[1]][local->id[1]].holder >= 0 &&
				sim->world.rows[local->rel[1]][local->id[1]].holder < FIRST_LOCAL)
				again(sim, l, APPLICATION_POLL);
			else
				finish(sim, l);
			break;
	}
}
