/* request_log.c - append, index, copy in order. */
#include "metrics/request_log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef struct {
    double arrival_ms;
    uint64_t offset;
    uint64_t name; /* offset in names */
    uint32_t length;
    double id;
} log_entry;

struct aisim_request_log {
    char *path, *part, *temporary;
    FILE *file;
    uint64_t written;
    int error;  /* errno of the first failure, 0 = none */
    bool named; /* every record so far has an authored id */
    AISIM_ARRAY(log_entry) index;
    AISIM_ARRAY(char) names;
    aisim_json line;
};

static char *with_suffix(const char *path, const char *suffix)
{
    size_t size = strlen(path) + strlen(suffix) + 1;
    char *out = aisim_alloc(size, 1);
    snprintf(out, size, "%s%s", path, suffix);
    return out;
}

static void free_log(aisim_request_log *log)
{
    aisim_free(log->path);
    aisim_free(log->part);
    aisim_free(log->temporary);
    aisim_array_free(&log->index);
    aisim_array_free(&log->names);
    aisim_json_free(&log->line);
    aisim_free(log);
}

aisim_status aisim_request_log_open(const char *path, aisim_request_log **out, aisim_error *err)
{
    aisim_request_log *log = aisim_alloc_zero(1, sizeof *log);
    *out = NULL;
    log->named = true;
    log->path = aisim_strdup(path);
    log->part = with_suffix(path, ".part");
    log->temporary = with_suffix(path, ".tmp");
    log->file = fopen(log->part, "w+b");
    if (log->file == NULL) {
        aisim_status status =
            aisim_fail(err, AISIM_EIO, "cannot write %s: %s", log->part, strerror(errno));
        free_log(log);
        return status;
    }
    *out = log;
    return AISIM_OK;
}

void aisim_request_log_add(aisim_request_log *log, const aisim_record *record)
{
    log_entry entry = {.arrival_ms = record->arrival_ms,
                       .offset = log->written,
                       .name = log->names.len,
                       .id = record->request_id};
    log->line.text.len = 0;
    log->line.filled = false;
    aisim_record_json(record, &log->line);
    aisim_json_raw(&log->line, "\n", 1);
    entry.length = log->line.text.len;
    log->named = log->named && record->name != NULL;
    if (log->named) {
        uint32_t size = (uint32_t)strlen(record->name) + 1;
        aisim_array_reserve(&log->names, log->names.len + size);
        memcpy(log->names.data + log->names.len, record->name, size);
        log->names.len += size;
    }
    aisim_array_push(&log->index, entry);
    if (log->error == 0 && fwrite(log->line.text.data, 1, entry.length, log->file) < entry.length) {
        log->error = errno == 0 ? EIO : errno;
    }
    log->written += entry.length;
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

static bool in_order(const aisim_request_log *log)
{
    for (uint32_t i = 1; i < log->index.len; i++) {
        if (log->index.data[i].offset < log->index.data[i - 1].offset) {
            return false;
        }
    }
    return true;
}

/* ---- closing --------------------------------------------------------------------------------- */

/* Copies the lines in the order of the index. @return false after a failure, errno set. */
static bool copy_lines(aisim_request_log *log, FILE *target)
{
    AISIM_ARRAY(char) line = {0};
    uint64_t position = UINT64_MAX;
    bool ok = fflush(log->file) == 0;
    for (uint32_t i = 0; ok && i < log->index.len; i++) {
        const log_entry *entry = &log->index.data[i];
        aisim_array_reserve(&line, entry->length);
        if (entry->offset != position) {
            ok = fseeko(log->file, (off_t)entry->offset, SEEK_SET) == 0;
        }
        ok = ok && fread(line.data, 1, entry->length, log->file) == entry->length &&
             fwrite(line.data, 1, entry->length, target) == entry->length;
        position = entry->offset + entry->length;
    }
    aisim_array_free(&line);
    return ok;
}

/* Writes the sorted file; closes both. @return 0 or an errno. */
static int write_sorted(aisim_request_log *log)
{
    FILE *target = fopen(log->temporary, "wb");
    if (target == NULL) {
        return errno;
    }
    errno = 0;
    bool ok = copy_lines(log, target);
    ok = fclose(target) == 0 && ok;
    int error = ok ? 0 : errno == 0 ? EIO : errno;
    if (error == 0 && rename(log->temporary, log->path) != 0) {
        error = errno;
    }
    if (error != 0) {
        remove(log->temporary);
    }
    return error;
}

aisim_status aisim_request_log_close(aisim_request_log *log, aisim_error *err)
{
    int error = log->error;
    sort_index(log);
    bool ready = in_order(log);
    if (error == 0 && !ready) {
        error = write_sorted(log);
    }
    if (fclose(log->file) != 0 && error == 0) {
        error = errno;
    }
    if (error == 0 && ready && rename(log->part, log->path) != 0) {
        error = errno;
    }
    if (error != 0 || !ready) {
        remove(log->part);
    }
    aisim_status status = AISIM_OK;
    if (error != 0) {
        status = aisim_fail(err, AISIM_EIO, "cannot write %s: %s", log->path, strerror(error));
    }
    free_log(log);
    return status;
}

void aisim_request_log_discard(aisim_request_log *log)
{
    if (log != NULL) {
        fclose(log->file);
        remove(log->part);
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
