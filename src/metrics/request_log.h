/* request_log.h - requests.jsonl: one JSON object per request, sorted, without holding them.
 *
 * Records arrive in the order of their ends and go to a spool (spool.h); an index of 48 bytes per
 * record (key, place) stays in memory. Closing puts the lines in order.
 * Order: by authored id when every record has one (bytes of the text), else by arrival, then by id
 * (spec/report.md §5). The bytes depend on the records alone. */
#ifndef AISIM_METRICS_REQUEST_LOG_H
#define AISIM_METRICS_REQUEST_LOG_H

#include "aisim/status.h"
#include "metrics/record.h"

typedef struct aisim_request_log aisim_request_log;

/** Opens PATH.part for writing.
 *  @return AISIM_OK or AISIM_EIO (text names the file and the reason) */
aisim_status aisim_request_log_open(const char *path, aisim_request_log **out, aisim_error *err);

/** Appends one record. A failed write is reported by aisim_request_log_close. */
void aisim_request_log_add(aisim_request_log *log, const aisim_record *record);

/** Sorts, renames, frees. On error nothing of the final name is written.
 *  @return AISIM_OK or AISIM_EIO */
aisim_status aisim_request_log_close(aisim_request_log *log, aisim_error *err);

/** Removes the temporary file and frees; NULL allowed. */
void aisim_request_log_discard(aisim_request_log *log);

/** Routes records of a recorder: measured requests to one log, preparation to another. Either may
 * be NULL. Profile requests outside of the window are in neither. */
typedef struct aisim_request_logs {
    aisim_request_log *measured, *preparation;
} aisim_request_logs;

/** An aisim_record_sink; context = aisim_request_logs. */
void aisim_request_logs_sink(void *context, const aisim_record *record);

#endif
