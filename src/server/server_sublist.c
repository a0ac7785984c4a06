/*-------------------------------------------------------------------------
 *
 * server_sublist.c
 *	  The list of subscriptions in pg_parallel_apply.subscriptions.
 *
 * Runs in:	every process (as GUC check hook), apply workers (to match).
 * Memory:	none allocated; names are at most NAMEDATALEN - 1 bytes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "parser/scansup.h"

#include "server/server_sublist.h"

/* One item of the list. */
typedef struct SublistItem
{
	bool		all;			/* the item is "*" */
	bool		has_database;
	char		database[NAMEDATALEN];
	char		subscription[NAMEDATALEN];
} SublistItem;

static const char *
skip_space(const char *p)
{
	while (scanner_isspace(*p))
		p++;
	return p;
}

/*
 * Read one name at *pos into "name" and move *pos behind it.  Returns what is
 * wrong, or NULL.
 */
static const char *
read_name(const char **pos, char *name)
{
	const char *p = *pos;
	bool		quoted = (*p == '"');
	int			len = 0;

	if (quoted)
		p++;
	for (;; p++)
	{
		char		c = *p;

		if (quoted)
		{
			if (c == '\0')
				return "A quoted name is not closed.";
			if (c == '"' && p[1] != '"')
			{
				p++;
				break;
			}
			if (c == '"')
				p++;
		}
		else
		{
			if (c == '\0' || c == ',' || c == '.' || c == '"' || scanner_isspace(c))
				break;
			if (c >= 'A' && c <= 'Z')
				c += 'a' - 'A';
		}
		if (len >= NAMEDATALEN - 1)
			return "A name is too long.";
		name[len++] = c;
	}
	if (len == 0)
		return "A name is empty.";
	name[len] = '\0';
	*pos = p;
	return NULL;
}

/* Read one item at *pos and move *pos behind it and the space that follows. */
static const char *
read_item(const char **pos, SublistItem *item)
{
	const char *problem;

	memset(item, 0, sizeof(*item));
	if (**pos == '*')
	{
		item->all = true;
		*pos = skip_space(*pos + 1);
		return NULL;
	}
	problem = read_name(pos, item->subscription);
	if (problem == NULL && **pos == '.')
	{
		(*pos)++;
		item->has_database = true;
		strlcpy(item->database, item->subscription, NAMEDATALEN);
		problem = read_name(pos, item->subscription);
	}
	if (problem == NULL)
		*pos = skip_space(*pos);
	return problem;
}

/*
 * Walk over the list.  Returns what is wrong with it, or NULL; *matched says
 * whether an item names the subscription.
 */
static const char *
walk(const char *list, const char *datname, const char *subname, bool *matched)
{
	const char *pos = skip_space(list);

	*matched = false;
	if (*pos == '\0')
		return NULL;
	for (;;)
	{
		SublistItem item;
		const char *problem = read_item(&pos, &item);

		if (problem != NULL)
			return problem;
		if (subname != NULL &&
			(item.all ||
			 (strcmp(item.subscription, subname) == 0 &&
			  (!item.has_database || strcmp(item.database, datname) == 0))))
			*matched = true;
		if (*pos == '\0')
			return NULL;
		if (*pos != ',')
			return "Names must be separated by commas.";
		pos = skip_space(pos + 1);
	}
}

const char *
ppa_sublist_check(const char *list)
{
	bool		matched;

	return walk(list, NULL, NULL, &matched);
}

bool
ppa_sublist_match(const char *list, const char *datname, const char *subname)
{
	bool		matched;

	return walk(list, datname, subname, &matched) == NULL && matched;
}
