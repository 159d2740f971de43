/* decision_log.h - decisions.jsonl: one JSON object per routing decision (spec/report.md §5,
 * routing.md §4, §7).
 *
 * An observer that writes while it listens; lines stand in the order of the decisions, nothing is
 * kept of one. A request has a line for each pool that it is routed in, and one more whenever it
 * loses its worker. Requests of the preparation are among them (key `phase`). Times are relative to
 * the measurement start as far as it is known: those of the preparation count from the begin of the
 * run, as in preparation.jsonl. */
#ifndef AISIM_METRICS_DECISION_LOG_H
#define AISIM_METRICS_DECISION_LOG_H

#include "aisim/events.h"
#include "aisim/status.h"
#include "metrics/recorder.h"

typedef struct aisim_decision_log aisim_decision_log;

/** Opens PATH.part for writing.
 *  @return AISIM_OK or AISIM_EIO (text names the file and the reason) */
aisim_status aisim_decision_log_open(const char *path, aisim_decision_log **out, aisim_error *err);

/** What to put into the observer list of the simulation, behind the recorder.
 *  @param recorder  names the requests and knows the measurement start; outlives the run */
aisim_observer aisim_decision_log_observer(aisim_decision_log *log, aisim_recorder *recorder);

/** Renames, frees; the run has ended. On error nothing of the final name is written.
 *  @return AISIM_OK or AISIM_EIO */
aisim_status aisim_decision_log_close(aisim_decision_log *log, aisim_error *err);

/** Removes the temporary file and frees; NULL allowed. */
void aisim_decision_log_discard(aisim_decision_log *log);

#endif
