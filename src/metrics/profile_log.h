/* profile_log.h - profile_export.jsonl: measured requests as AIPerf writes them, one object per
 * line (spec/report.md §5, compatibility writers).
 *
 *     {"metadata": {session_num, x_request_id, …, request_start_ns, request_end_ns, …},
 *      "metrics": {"time_to_first_token": {"value": 12.5, "unit": "ms"}, …},
 *      "error": null}
 *
 * Lines stand in the order of the ends, as AIPerf writes them, so nothing is kept of a record. Times
 * are nanoseconds of simulated time since the measurement start. A metric that is undefined for a
 * request is absent. A request that did not complete has the metric error_isl alone, and an error.
 * Requests of the preparation, outside of the window, or still in flight are left out. */
#ifndef AISIM_METRICS_PROFILE_LOG_H
#define AISIM_METRICS_PROFILE_LOG_H

#include "aisim/status.h"
#include "metrics/record.h"

typedef struct aisim_profile_log aisim_profile_log;

/** Opens PATH.part for writing.
 *  @return AISIM_OK or AISIM_EIO (text names the file and the reason) */
aisim_status aisim_profile_log_open(const char *path, aisim_profile_log **out, aisim_error *err);

/** Appends one record, if it is one for this file. A failed write is reported by
 *  aisim_profile_log_close. */
void aisim_profile_log_add(aisim_profile_log *log, const aisim_record *record);

/** Renames, frees. On error nothing of the final name is written.
 *  @return AISIM_OK or AISIM_EIO */
aisim_status aisim_profile_log_close(aisim_profile_log *log, aisim_error *err);

/** Removes the temporary file and frees; NULL allowed. */
void aisim_profile_log_discard(aisim_profile_log *log);

#endif
