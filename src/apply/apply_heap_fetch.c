/*-------------------------------------------------------------------------
 *
 * apply_heap_fetch.c
 *	  Fetch rows from the heap in the way that suits changes in a row.
 *
 * The only file that knows the heap access method; others use the server's
 * own way.
 *
 * Runs in:	the process that applies changes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/tableam.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "apply/apply_heap_fetch.h"

/*
 * Let the scan hold the page of its current TID already, which keeps it from
 * pruning, and prune if there is not room for two versions: one may be
 * written by somebody else meanwhile.
 */
static void
come_to_page(PpaTarget *target, IndexScanDesc scan)
{
	IndexFetchHeapData *fetch = (IndexFetchHeapData *) scan->xs_heapfetch;
	BlockNumber block = ItemPointerGetBlockNumber(&scan->xs_heaptid);
	Size		wanted = 2 * (target->row_size + sizeof(ItemIdData));

	fetch->xs_cbuf = ReleaseAndReadBuffer(fetch->xs_cbuf, target->rel, block);
	/* not locked: a guess, as the server's own */
	if (target->row_size == 0 || PageGetHeapFreeSpace(BufferGetPage(fetch->xs_cbuf)) < wanted)
		heap_page_prune_opt(target->rel, fetch->xs_cbuf);
}

/* Remember how long rows are here. */
static void
note_row_size(PpaTarget *target)
{
	HeapTuple	tuple = ((HeapTupleTableSlot *) target->found)->tuple;

	target->row_size = Max(target->row_size, MAXALIGN(tuple->t_len));
}

bool
ppa_index_next(PpaTarget *target)
{
	IndexScanDesc scan = target->lookup->scan;

	if (target->rel->rd_tableam != GetHeapamTableAmRoutine())
		return index_getnext_slot(scan, ForwardScanDirection, target->found);

	for (;;)
	{
		if (!scan->xs_heap_continue)
		{
			if (index_getnext_tid(scan, ForwardScanDirection) == NULL)
				return false;
			come_to_page(target, scan);
		}
		if (index_fetch_heap(scan, target->found))
		{
			note_row_size(target);
			return true;
		}
	}
}

TableScanDesc
ppa_scan_begin(PpaTarget *target, Snapshot snapshot)
{
	TableScanDesc scan;
	BlockNumber start = target->lrel->scan_start;

	if (target->rel->rd_tableam != GetHeapamTableAmRoutine())
		return table_beginscan(target->rel, snapshot, 0, NULL);

	/* not where other scans of the table are just now: we know better */
	scan = table_beginscan_strat(target->rel, snapshot, 0, NULL, true, false);
	if (start < ((HeapScanDesc) scan)->rs_nblocks)
		heap_setscanlimits(scan, start, InvalidBlockNumber);
	return scan;
}

void
ppa_scan_found(PpaTarget *target)
{
	target->lrel->scan_start = ItemPointerGetBlockNumber(&target->found->tts_tid);
}
