/*-------------------------------------------------------------------------
 *
 * server_traits.c
 *	  What of a local table decides how its changes may be applied.
 *
 * Runs in:	the leader, and each process that applies changes; in a transaction.
 * Memory:	leaves expression trees in the current context.
 * Locks:	the caller has the table's.  Indexes, domains and composite types
 *			are looked up in the caches of the catalogs and not locked: the
 *			leader must not wait, not even for REINDEX.
 *
 * That a function is immutable is taken from its declaration.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteHandler.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "server/server_traits.h"

static bool type_is_mutable(Oid type, bool *has_domain);

/* ---------- triggers ---------- */

/* Does a trigger fire in this session? */
static bool
trigger_fires(const Trigger *trigger)
{
	switch (trigger->tgenabled)
	{
		case TRIGGER_FIRES_ALWAYS:
			return true;
		case TRIGGER_FIRES_ON_REPLICA:
			return SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;
		case TRIGGER_FIRES_ON_ORIGIN:
			return SessionReplicationRole != SESSION_REPLICATION_ROLE_REPLICA;
		default:
			return false;
	}
}

static void
find_triggers(PpaFiring *firing, Relation rel)
{
	for (int i = 0; rel->trigdesc != NULL && i < rel->trigdesc->numtriggers; i++)
	{
		const Trigger *trigger = &rel->trigdesc->triggers[i];
		int16		type = trigger->tgtype;

		if (!trigger_fires(trigger))
			continue;
		if (TRIGGER_FOR_TRUNCATE(type))
			firing->truncate = true;
		if (!TRIGGER_FOR_ROW(type))
			continue;
		if (TRIGGER_FOR_INSERT(type))
			firing->insert = true;
		if (TRIGGER_FOR_UPDATE(type))
		{
			firing->update = true;
			if (TRIGGER_FOR_BEFORE(type))
				firing->before_update = true;
		}
		if (TRIGGER_FOR_DELETE(type))
		{
			firing->delete = true;
			if (TRIGGER_FOR_BEFORE(type))
				firing->before_delete = true;
		}
	}
}

/* ---------- expressions ---------- */

/* What contain_mutable_functions() does not see. */
static bool
hides_mutable(Node *node, void *context)
{
	bool		has_domain;

	if (node == NULL)
		return false;
	if (IsA(node, CoerceToDomain) &&
		type_is_mutable(((CoerceToDomain *) node)->resulttype, &has_domain))
		return true;

	/*
	 * Defaults of arguments are put in by the planner, which would also
	 * evaluate: we do not know, so they are taken for mutable.
	 */
	if (IsA(node, FuncExpr))
	{
		FuncExpr   *func = (FuncExpr *) node;

		if (get_func_nargs(func->funcid) > list_length(func->args))
			return true;
	}
	return expression_tree_walker(node, hides_mutable, context);
}

static bool
is_mutable(Node *expr)
{
	return contain_mutable_functions(expr) || hides_mutable(expr, NULL);
}

/* The server's own functions that are stable and yet read tables. */
static bool
makes_xml_of_tables(Oid funcid)
{
	switch (funcid)
	{
		case F_TABLE_TO_XML:
		case F_TABLE_TO_XML_AND_XMLSCHEMA:
		case F_SCHEMA_TO_XML:
		case F_SCHEMA_TO_XML_AND_XMLSCHEMA:
		case F_DATABASE_TO_XML:
		case F_DATABASE_TO_XML_AND_XMLSCHEMA:
			return true;
		default:
			return false;
	}
}

static bool
function_may_see_rows(Oid funcid, void *context)
{
	char		volatility = func_volatile(funcid);

	if (volatility == PROVOLATILE_IMMUTABLE || funcid == F_NEXTVAL)
		return false;
	return volatility == PROVOLATILE_VOLATILE || funcid >= FirstNormalObjectId ||
		makes_xml_of_tables(funcid);
}

static bool
calls_what_may_see_rows(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return check_functions_in_node(node, function_may_see_rows, context) ||
		expression_tree_walker(node, calls_what_may_see_rows, context);
}

/* May it see rows of tables, and so which of them have been written? */
static bool
may_see_rows(Node *expr)
{
	return calls_what_may_see_rows(expr, NULL) || hides_mutable(expr, NULL);
}

/* Has the domain itself, not the type that it is based on, a mutable CHECK? */
static bool
domain_check_is_mutable(Oid domain)
{
	Relation	rel = table_open(ConstraintRelationId, AccessShareLock);
	bool		found = false;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_constraint_contypid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(domain));
	scan = systable_beginscan(rel, ConstraintTypidIndexId, true, NULL, 1, &key);
	while (!found && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		Datum		expr;

		if (((Form_pg_constraint) GETSTRUCT(tuple))->contype != CONSTRAINT_CHECK)
			continue;
		expr = heap_getattr(tuple, Anum_pg_constraint_conbin, RelationGetDescr(rel), &isnull);
		found = !isnull && is_mutable(stringToNode(TextDatumGetCString(expr)));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

static bool
composite_is_mutable(Oid type, bool *has_domain)
{
	Oid			relid = get_typ_typrelid(type);
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	int			natts;

	if (!HeapTupleIsValid(tuple))
		return false;			/* the anonymous record */
	natts = ((Form_pg_class) GETSTRUCT(tuple))->relnatts;
	ReleaseSysCache(tuple);
	for (int i = 1; i <= natts; i++)
	{
		if (type_is_mutable(get_atttype(relid, i), has_domain))
			return true;
	}
	return false;
}

static Oid
domain_base(Oid domain)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(domain));
	Oid			base;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	base = ((Form_pg_type) GETSTRUCT(tuple))->typbasetype;
	ReleaseSysCache(tuple);
	return base;
}

/*
 * May reading a value of this type evaluate a mutable CHECK of a domain?
 * Sets *has_domain if it may evaluate any.
 */
static bool
type_is_mutable(Oid type, bool *has_domain)
{
	check_stack_depth();
	switch (get_typtype(type))
	{
		case TYPTYPE_DOMAIN:
			*has_domain = true;
			return domain_check_is_mutable(type) ||
				type_is_mutable(domain_base(type), has_domain);
		case TYPTYPE_COMPOSITE:
			return composite_is_mutable(type, has_domain);
		case TYPTYPE_RANGE:
			return type_is_mutable(get_range_subtype(type), has_domain);
		case TYPTYPE_MULTIRANGE:
			return type_is_mutable(get_multirange_range(type), has_domain);
		case TYPTYPE_BASE:
			return type_is_mutable(get_element_type(type), has_domain);
		default:
			return false;		/* or no such type: not an array, a dropped column */
	}
}

/* May reading a value of this type evaluate the CHECK of a domain? */
static bool
may_check_domain(Oid type)
{
	Oid			element = get_element_type(type);
	char		typtype = get_typtype(OidIsValid(element) ? element : type);

	/* a composite type may have columns of domains */
	return typtype == TYPTYPE_DOMAIN || typtype == TYPTYPE_COMPOSITE;
}

/* What is stored as a column's default or generation expression; NULL if none. */
static Node *
stored_expression(Relation rel, int attno)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Form_pg_attribute att = TupleDescAttr(desc, attno - 1);

	if (!att->atthasdef)
		return att->attgenerated ? NULL : get_typdefault(att->atttypid);
	for (int i = 0; desc->constr != NULL && i < desc->constr->num_defval; i++)
	{
		if (desc->constr->defval[i].adnum == attno)
			return stringToNode(desc->constr->defval[i].adbin);
	}
	return NULL;
}

/* A column whose value is made here. */
static void
judge_expression(PpaTraits *traits, Relation rel, int attno)
{
	Node	   *expr;

	if (TupleDescAttr(RelationGetDescr(rel), attno - 1)->attidentity)
	{
		/* numbers in the order of commits, as far as nothing is rolled back */
		traits->ordered = true;
		return;
	}
	expr = stored_expression(rel, attno);
	if (expr == NULL)
		return;
	traits->evaluates = true;
	if (is_mutable(expr))
		traits->ordered = true;
	if (may_see_rows(expr))
		traits->plain = false;
}

static void
judge_expressions(PpaTraits *traits, Relation rel, const int *column)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; desc->constr != NULL && i < desc->constr->num_check; i++)
	{
		traits->evaluates = true;
		if (is_mutable(stringToNode(desc->constr->check[i].ccbin)))
		{
			traits->plain = false;
			traits->ordered = true;
		}
	}
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped)
			continue;
		if (may_check_domain(att->atttypid))
			traits->plain = false;
		if (type_is_mutable(att->atttypid, &traits->evaluates))
			traits->ordered = true;
		if (column[i] < 0)
			judge_expression(traits, rel, i + 1);
	}
}

/* ---------- constraints ---------- */

/*
 * Is there a constraint whose check does not stop at the first conflicting
 * index entry, but looks at rows, or is put off?
 */
static bool
has_unordered_constraint(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	bool		found = false;
	ListCell   *lc;

	foreach(lc, indexes)
	{
		HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(lc)));
		Form_pg_index index;

		if (!HeapTupleIsValid(tuple))
			continue;
		index = (Form_pg_index) GETSTRUCT(tuple);
		if (index->indisexclusion || (index->indisunique && !index->indimmediate))
			found = true;
		ReleaseSysCache(tuple);
	}
	list_free(indexes);
	return found;
}

/* ---------- */

void
ppa_traits_find(PpaTraits *traits, Relation rel, const int *column)
{
	PpaFiring  *firing = &traits->firing;

	memset(traits, 0, sizeof(*traits));
	find_triggers(firing, rel);
	traits->solo = firing->insert || firing->update || firing->delete;
	traits->plain = !traits->solo;
	traits->ordered = has_unordered_constraint(rel);
	judge_expressions(traits, rel, column);
}

int
ppa_remote_column(char *const *attnames, int natts, const FormData_pg_attribute *att)
{
	if (att->attisdropped || att->attgenerated)
		return -1;
	for (int i = 0; i < natts; i++)
	{
		if (strcmp(attnames[i], NameStr(att->attname)) == 0)
			return i;
	}
	return -1;
}
