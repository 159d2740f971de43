/* request_log.c - append, index, copy in order. */
#include "metrics/request_log.h"

#include <stdlib.h>
#include <string.h>

#include "metrics/spool.h"

typedef struct {
    double arrival_ms;
    aisim_spool_line line;
    uint64_t name; /* offset in names */
    double id;
} log_entry;

struct aisim_request_log {
    aisim_spool *spool;
    bool named; /* every record so far has an authored id */
    AISIM_ARRAY(log_entry) index;
    AISIM_ARRAY(char) names;
    aisim_json line;
};

static void free_log(aisim_request_log *log)
{
    aisim_array_free(&log->index);
    aisim_array_free(&log->names);
    aisim_json_free(&log->line);
    aisim_free(log);
}

aisim_status aisim_request_log_open(const char *path, aisim_request_log **out, aisim_error *err)
{
    aisim_request_log *log = aisim_alloc_zero(1, sizeof *log);
    log->named = true;
    aisim_status status = aisim_spool_open(path, &log->spool, err);
    if (status != AISIM_OK) {
        free_log(log);
        log = NULL;
    }
    *out = log;
    return status;
}

void aisim_request_log_add(aisim_request_log *log, const aisim_record *record)
{
    log_entry entry = {
        .arrival_ms = record->arrival_ms, .name = log->names.len, .id = record->request_id};
    log->line.text.len = 0;
    log->line.filled = false;
    aisim_record_json(record, &log->line);
    aisim_json_raw(&log->line, "\n", 1);
    entry.line = aisim_spool_add(log->spool, log->line.text.data, log->line.text.len);
    log->named = log->named && record->name != NULL;
    if (log->named) {
        uint32_t size = (uint32_t)strlen(record->name) + 1;
        aisim_array_reserve(&log->names, log->names.len + size);
        memcpy(log->names.data + log->names.len, record->name, size);
        log->names.len += size;
    }
    aisim_array_push(&log->index, entry);
}

/* ---- order ----------------------------------------------------------------------------------- */

static int by_arrival(const void *left, const void *right)
{
    const log_entry *a = left, *b = right;
    if (a->arrival_ms != b->arrival_ms) {
        return a->arrival_ms < b->arrival_ms ? -1 : 1;
    }
    return (a->id > b->id) - (a->id < b->id);
}

/* Sorting by name: the index is sorted through pointers to the texts. */
typedef struct {
    const char *name;
    log_entry entry;
} named_entry;

static int by_name(const void *left, const void *right)
{
    const named_entry *a = left, *b = right;
    int order = strcmp(a->name, b->name);
    return order != 0 ? order : by_arrival(&a->entry, &b->entry);
}

static void sort_index(aisim_request_log *log)
{
    uint32_t n = log->index.len;
    if (n == 0) {
        return;
    }
    if (!log->named) {
        qsort(log->index.data, n, sizeof *log->index.data, by_arrival);
        return;
    }
    named_entry *entries = aisim_alloc(n, sizeof *entries);
    for (uint32_t i = 0; i < n; i++) {
        entries[i] = (named_entry){log->names.data + log->index.data[i].name, log->index.data[i]};
    }
    qsort(entries, n, sizeof *entries, by_name);
    for (uint32_t i = 0; i < n; i++) {
        log->index.data[i] = entries[i].entry;
    }
    aisim_free(entries);
}

aisim_status aisim_request_log_close(aisim_request_log *log, aisim_error *err)
{
    AISIM_ARRAY(aisim_spool_line) lines = {0};
    sort_index(log);
    for (uint32_t i = 0; i < log->index.len; i++) {
        aisim_array_push(&lines, log->index.data[i].line);
    }
    aisim_status status = aisim_spool_close(log->spool, lines.data, lines.len, NULL, err);
    aisim_array_free(&lines);
    free_log(log);
    return status;
}

void aisim_request_log_discard(aisim_request_log *log)
{
    if (log != NULL) {
        aisim_spool_discard(log->spool);
        free_log(log);
    }
}

void aisim_request_logs_sink(void *context, const aisim_record *record)
{
    aisim_request_logs *logs = context;
    bool profile = strcmp(record->phase, "profile") == 0;
    aisim_request_log *log = profile ? logs->measured : logs->preparation;
    if (log != NULL && (record->measured || !profile)) {
        aisim_request_log_add(log, record);
    }
}
