/*-------------------------------------------------------------------------
 *
 * apply_tuple.c
 *	  From the values of a message to a slot of the local table.
 *
 * The values have been terminated with ppa_wire_terminate(), so that input
 * functions read them in place.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/lsyscache.h"

#include "apply/apply_tuple.h"
#include "server/server_errctx.h"

static void
prepare_text(PpaLocalRel *lrel, PpaColumnInput *input)
{
	Oid			function;

	getTypeInputInfo(input->type, &function, &input->text_ioparam);
	fmgr_info_cxt(function, &input->text, lrel->cxt);
	input->text_ready = true;
}

static void
prepare_binary(PpaLocalRel *lrel, PpaColumnInput *input)
{
	Oid			function;

	getTypeBinaryInputInfo(input->type, &function, &input->binary_ioparam);
	fmgr_info_cxt(function, &input->binary, lrel->cxt);
	input->binary_ready = true;
}

static Datum
receive_binary(PpaColumnInput *input, const PpaWireTuple *tuple, int column)
{
	StringInfoData buf = {
		.data = tuple->value[column],
		.len = tuple->len[column],
		.maxlen = -1
	};
	Datum		value = ReceiveFunctionCall(&input->binary, &buf, input->binary_ioparam,
											input->typmod);

	if (buf.cursor != buf.len)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("incorrect binary data format in logical replication column %d",
						column + 1)));
	return value;
}

static inline void
check_column(const PpaWireTuple *tuple, int column)
{
	if (unlikely(column >= tuple->ncols))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("logical replication column %d not found in tuple: only %d column(s) received",
						column + 1, tuple->ncols)));
}

/* The value of one local column; "att" counts from 0 and is mapped. */
static inline void
read_value(TupleTableSlot *slot, PpaLocalRel *lrel, int att, const PpaWireTuple *tuple)
{
	int			column = lrel->column[att];
	PpaColumnInput *input = &lrel->input[att];

	slot->tts_isnull[att] = false;
	switch (tuple->kind[column])
	{
		case PPA_COLUMN_TEXT:
			ppa_errctx.column = column;
			if (unlikely(!input->text_ready))
				prepare_text(lrel, input);
			slot->tts_values[att] = InputFunctionCall(&input->text, tuple->value[column],
													  input->text_ioparam, input->typmod);
			ppa_errctx.column = -1;
			break;
		case PPA_COLUMN_BINARY:
			ppa_errctx.column = column;
			if (unlikely(!input->binary_ready))
				prepare_binary(lrel, input);
			slot->tts_values[att] = receive_binary(input, tuple, column);
			ppa_errctx.column = -1;
			break;
		default:
			slot->tts_values[att] = (Datum) 0;
			slot->tts_isnull[att] = true;
			break;
	}
}

static inline void
clear_to_nulls(TupleTableSlot *slot)
{
	int			natts = slot->tts_tupleDescriptor->natts;

	ExecClearTuple(slot);
	memset(slot->tts_values, 0, sizeof(Datum) * natts);
	memset(slot->tts_isnull, true, sizeof(bool) * natts);
}

void
ppa_tuple_store(TupleTableSlot *slot, PpaLocalRel *lrel, const PpaWireTuple *tuple)
{
	clear_to_nulls(slot);
	for (int att = 0; att < lrel->natts; att++)
	{
		if (lrel->column[att] < 0)
			continue;
		check_column(tuple, lrel->column[att]);
		read_value(slot, lrel, att, tuple);
	}
	ExecStoreVirtualTuple(slot);
}

void
ppa_tuple_store_key(TupleTableSlot *slot, PpaLocalRel *lrel, const PpaWireTuple *tuple,
					const AttrNumber *attnos, int nattnos)
{
	clear_to_nulls(slot);
	for (int i = 0; i < nattnos; i++)
	{
		int			att = attnos[i] - 1;

		if (lrel->column[att] < 0)
			continue;
		check_column(tuple, lrel->column[att]);
		read_value(slot, lrel, att, tuple);
	}
	ExecStoreVirtualTuple(slot);
}

void
ppa_tuple_merge(TupleTableSlot *slot, TupleTableSlot *found, PpaLocalRel *lrel,
				const PpaWireTuple *tuple)
{
	ExecClearTuple(slot);
	slot_getallattrs(found);
	memcpy(slot->tts_values, found->tts_values, sizeof(Datum) * lrel->natts);
	memcpy(slot->tts_isnull, found->tts_isnull, sizeof(bool) * lrel->natts);
	for (int att = 0; att < lrel->natts; att++)
	{
		int			column = lrel->column[att];

		if (column < 0)
			continue;
		check_column(tuple, column);
		if (tuple->kind[column] != PPA_COLUMN_UNCHANGED)
			read_value(slot, lrel, att, tuple);
	}
	ExecStoreVirtualTuple(slot);
}
