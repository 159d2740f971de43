/* trace_plays.h - graph traces as plays, and plays as a graph trace (agentic_mooncake version 2).
 */
#ifndef AISIM_WORKLOAD_TRACE_PLAYS_H
#define AISIM_WORKLOAD_TRACE_PLAYS_H

#include <stdio.h>

#include "workload/corpus.h"
#include "workload/trace.h"

/** Reads the rest of a graph trace (aisim_trace_is_graph) into a finished corpus. Plays are told
 * apart by their play id; rows without one by what hangs together. Ids mean something inside their
 * play.
 *  @return AISIM_OK; AISIM_EINVAL (unknown or own id to wait for, circle, no row), … */
aisim_status aisim_trace_plays(aisim_trace *trace, aisim_corpus **out, aisim_error *err);

/** Writes a corpus: a header line, then one line per request with its dependencies. Nothing of the
 *  graph is lost; recorded ends stand in recorded_duration_ms. The caller looks at ferror. */
void aisim_graph_write(const aisim_corpus *corpus, FILE *out);

#endif
