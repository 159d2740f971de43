/* timeline.h - timeline.json: what happened when, as trace events for Perfetto (spec/report.md §6).
 *
 * An observer that writes while it listens: every span goes to a spool (spool.h) when it ends; an
 * index of 32 bytes per event stays in memory. Closing sorts by begin, longer spans first.
 *
 * Processes and threads:
 *   0       client: thread k = lane k with its plays; from 1000 requests, from arrival to end;
 *           instants for changes of phase and for gaps that an idle guard has cut
 *   w       worker w (from 1): thread 1 passes of its first rank (10 + r: of rank r > 0),
 *           2 copies to host, 3 copies from host, 4 hand-offs (those at the same time as one there
 *           on threads of the same name); from 100 requests, from the dispatch to the end, with
 *           the spans queued, prefill, decode, preempted inside, and held: its prompt is computed,
 *           its blocks are kept until the hand-off has ended
 *   counters per worker: KV blocks, requests, tokens per pass, host blocks
 * Arrows (flow events) of category "edge" at the client lead from a request to one of another
 * session that waited for it: spawn, join, barrier. Those of category "request" join the spans in
 * which a request works: "hand-off" by way of its transfer, "resumed" after a preemption, "lost"
 * from a worker that stopped to the next one, "from host" from the copy to the pass that it lets
 * begin. A thread for requests is the lowest free one. */
#ifndef AISIM_METRICS_TIMELINE_H
#define AISIM_METRICS_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/events.h"
#include "aisim/status.h"

typedef struct aisim_timeline aisim_timeline;

typedef struct aisim_timeline_options {
    int64_t from_ns, until_ns; /**< spans that touch [from, until) */
    uint32_t every_pass;       /**< of every rank: passes 0, k, 2k, …; >= 1 */
    uint64_t max_events;       /**< then nothing more is written; >= 1 */
    /** Blocks in the host pool of a rank now; NULL = no counter. */
    uint64_t (*host_blocks)(void *context, uint32_t rank);
    void *context;
} aisim_timeline_options;

/** Everything, up to 2,000,000 events. */
void aisim_timeline_options_default(aisim_timeline_options *options);

/** @return AISIM_OK or AISIM_EIO (the file cannot be opened) */
aisim_status aisim_timeline_open(const char *path, const aisim_timeline_options *options,
                                 aisim_timeline **out, aisim_error *err);

/** The next rank, numbered from 0; worker from 0. @param pool copied */
void aisim_timeline_rank(aisim_timeline *timeline, uint32_t worker, const char *pool);

/** What to put into the observer list of the simulation. Passes are seen one by one. */
aisim_observer aisim_timeline_observer(aisim_timeline *timeline);

/** Events left out because max_events was reached. */
uint64_t aisim_timeline_lost(const aisim_timeline *timeline);

/** Sorts, writes, frees; the run has ended. @return AISIM_OK or AISIM_EIO */
aisim_status aisim_timeline_close(aisim_timeline *timeline, aisim_error *err);

/** Removes what was written and frees; NULL allowed. */
void aisim_timeline_discard(aisim_timeline *timeline);

#endif
