/*-------------------------------------------------------------------------
 *
 * server_traits.h
 *	  What of a local table decides how its changes may be applied.
 *
 * The leader asks without holding the lock for long, to plan; the process
 * that applies asks again under the lock, on the table that has the row, and
 * only that counts.  Both ask here, so that they answer alike.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_SERVER_TRAITS_H
#define PPA_SERVER_TRAITS_H

#include "postgres.h"

#include "catalog/pg_attribute.h"
#include "utils/relcache.h"

/* Row triggers that fire in replica role, and statement triggers on TRUNCATE. */
typedef struct PpaFiring
{
	bool		insert;
	bool		update;
	bool		delete;
	bool		before_update;
	bool		before_delete;
	bool		truncate;
} PpaFiring;

typedef struct PpaTraits
{
	PpaFiring	firing;
	bool		solo;			/* a row trigger fires */
	bool		plain;			/* nothing runs here that could look at other rows */

	/*
	 * A change must not be evaluated before all earlier transactions have
	 * committed: it may look at rows of theirs, or conflict with them in ways
	 * that no lock on a row or on an index entry shows.  Of the table itself,
	 * without its triggers.
	 */
	bool		ordered;

	/*
	 * Plain and ordered come from what functions and domains are like, too: a
	 * change in the caches PROCOID or CONSTROID makes them void, and the
	 * server does not invalidate the table then.
	 */
	bool		evaluates;
} PpaTraits;

/*
 * The traits of an open and locked table.  "column" says for each local
 * column, from 0, which remote column is written to it, or -1: then its
 * default is evaluated.  Takes no lock on anything but catalogs, and runs
 * nobody's functions.
 */
extern void ppa_traits_find(PpaTraits *traits, Relation rel, const int *column);

/*
 * The remote column that is written to a local one: of the same name.  -1 if
 * there is none, or if the local column is dropped or generated.
 */
extern int	ppa_remote_column(char *const *attnames, int natts,
							  const FormData_pg_attribute *att);

#endif							/* PPA_SERVER_TRAITS_H */
