/*-------------------------------------------------------------------------
 *
 * server_sublist.h
 *	  The list of subscriptions in pg_parallel_apply.subscriptions.
 *
 * Grammar: list = "" | item {"," item}; item = "*" | name ["." name].  A name
 * is written as in SQL: unquoted names fold to lower case, quoted ones do not.
 * One name is a subscription of that name in any database (names are unique
 * per database only), two are database.subscription.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_SERVER_SUBLIST_H
#define PPA_SERVER_SUBLIST_H

#include "postgres.h"

/* NULL if the list is well-formed, else a static text that says what is wrong. */
extern const char *ppa_sublist_check(const char *list);

/* Does the (well-formed) list name this subscription? */
extern bool ppa_sublist_match(const char *list, const char *datname, const char *subname);

#endif							/* PPA_SERVER_SUBLIST_H */
