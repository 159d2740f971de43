/* trace.c - opening, finding out the format, and the loop over rows that all formats share.
 *
 * The first rows are looked at twice: once to find out format and block size, then, from the start,
 * for the caller. A hash id format without a given block size takes the first of the usual sizes
 * that fits its first rows (512 first, as the format says). */
#include "workload/trace.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "workload/trace_parts.h"

enum { PEEKED_ROWS = 100 };

static const struct {
    const char *name, *row;
} formats[] = {
#define X(name, text, row) {text, row},
    AISIM_TRACE_FORMATS(X)
#undef X
};

const char *aisim_trace_format_name(aisim_trace_format format)
{
    return formats[format].name;
}

const char *aisim_trace_format_row(aisim_trace_format format)
{
    return formats[format].row;
}

aisim_trace_format aisim_trace_format_find(const char *name)
{
    int i = 0;
    while (i < AISIM_TRACE_FORMAT_COUNT && strcmp(formats[i].name, name) != 0) {
        i++;
    }
    return (aisim_trace_format)i;
}

static bool is_csv(aisim_trace_format format)
{
    return format == AISIM_TRACE_AZURE || format == AISIM_TRACE_BURSTGPT ||
           format == AISIM_TRACE_SESSIONS;
}

static bool has_ids(aisim_trace_format format)
{
    return format == AISIM_TRACE_MOONCAKE || format == AISIM_TRACE_MOONCAKE_DELTA ||
           format == AISIM_TRACE_AGENTIC_MOONCAKE || format == AISIM_TRACE_BAILIAN;
}

/* ---- lines ---- */

aisim_status aisim_trace_line(aisim_trace *trace, bool *found, aisim_error *err)
{
    *found = false;
    while (true) {
        if (!trace->open) {
            if (trace->file == trace->files.len) {
                return AISIM_OK;
            }
            aisim_status status =
                aisim_line_reader_open(&trace->reader, trace->files.data[trace->file++], err);
            trace->open = true;
            trace->header_read = false;
            if (status != AISIM_OK) {
                return status;
            }
        }
        aisim_status status = aisim_line_reader_next(&trace->reader, false, found, err);
        if (status != AISIM_OK || *found) {
            return status;
        }
        if (trace->reader.line == 0) {
            return aisim_fail_at(err, AISIM_EINVAL, trace->reader.path, 1, 0, "the file is empty");
        }
        aisim_line_reader_close(&trace->reader);
        trace->open = false;
    }
}

static void rewind_trace(aisim_trace *trace)
{
    if (trace->open) {
        aisim_line_reader_close(&trace->reader);
    }
    trace->open = false;
    trace->file = 0;
    trace->header_read = false;
    trace->origin_ns = -1;
    trace->first_ns = -1;
    trace->handed_out = 0;
    trace->waits.len = 0;
    trace->next_row = 0;
    aisim_map_free(&trace->seen);
    if (!trace->loaded) {
        aisim_trace_drop_rows(trace);
    }
}

const char *aisim_trace_keep(aisim_trace *trace, const char *text)
{
    if (text == NULL) {
        return NULL;
    }
    aisim_array_push(&trace->texts, aisim_strdup(text));
    return trace->texts.data[trace->texts.len - 1];
}

void aisim_trace_drop_rows(aisim_trace *trace)
{
    for (uint32_t i = 0; i < trace->texts.len; i++) {
        aisim_free(trace->texts.data[i]);
    }
    for (uint32_t i = 0; i < trace->lists.len; i++) {
        aisim_free(trace->lists.data[i]);
    }
    for (uint32_t i = 0; i < trace->dependencies.len; i++) {
        aisim_free(trace->dependencies.data[i]);
    }
    trace->texts.len = trace->lists.len = trace->dependencies.len = 0;
    trace->rows.len = trace->next_row = 0;
}

/* ---- finding out ---- */

static bool has(const json_t *object, const char *name)
{
    return json_object_get(object, name) != NULL;
}

static aisim_trace_format detect_json(const json_t *o)
{
    const json_t *event = json_object_get(o, "event");
    if (has(o, "event_type") || (json_is_object(event) && has(event, "event_type"))) {
        return AISIM_TRACE_DYNAMO;
    }
    if (has(o, "schema") || has(o, "dependencies") || has(o, "wait_for") ||
        has(o, "not_before_ms")) {
        return AISIM_TRACE_AGENTIC_MOONCAKE;
    }
    if (has(o, "requests") || has(o, "hash_id_scope")) {
        return AISIM_TRACE_WEKA;
    }
    if (has(o, "num_turns")) {
        return AISIM_TRACE_APPLIED_COMPUTE;
    }
    if (has(o, "input_tokens_total") && has(o, "prefix_tokens")) {
        return AISIM_TRACE_ROUNDS;
    }
    if (has(o, "parent_chat_id")) {
        return AISIM_TRACE_BAILIAN;
    }
    if (has(o, "hash_ids") || has(o, "timestamp") || has(o, "created_time") ||
        has(o, "session_id")) {
        return AISIM_TRACE_MOONCAKE;
    }
    return has(o, "input") || has(o, "input_length") || has(o, "input_tokens") ||
                   has(o, "prompt_tokens") || has(o, "num_prefill_tokens")
               ? AISIM_TRACE_LENGTHS
               : AISIM_TRACE_AUTO;
}

static aisim_status detect(aisim_trace *trace, aisim_error *err)
{
    bool found;
    aisim_status status = aisim_trace_line(trace, &found, err);
    if (status != AISIM_OK) {
        return status;
    }
    if (!found) {
        return aisim_fail(err, AISIM_EINVAL, "the trace is empty, expected at least one row");
    }
    aisim_line_reader *reader = &trace->reader;
    const aisim_trace_place at = {reader->path, reader->line, err};
    size_t n = reader->size;
    while (n > 0 && (reader->text[n - 1] == '\r' || reader->text[n - 1] == ' ')) {
        n--;
    }
    size_t start = strspn(reader->text, " \t") < n ? strspn(reader->text, " \t") : 0;
    if (reader->text[start] == '{') {
        json_t *root = NULL;
        size_t path = strlen(reader->path);
        if (path > 5 && strcmp(reader->path + path - 5, ".json") == 0) {
            trace->format = AISIM_TRACE_WEKA; /* one object over many lines: only plays come so */
            return AISIM_OK;
        }
        status = aisim_trace_parse(&at, reader->text, reader->size, &root);
        if (status == AISIM_OK) {
            trace->format = detect_json(root);
            json_decref(root);
        }
    } else {
        char *header = aisim_alloc(n + 1, 1);
        memcpy(header, reader->text, n);
        header[n] = '\0';
        trace->format = aisim_trace_csv_detect(header);
        aisim_free(header);
    }
    if (status == AISIM_OK && trace->format == AISIM_TRACE_AUTO) {
        char begin[61]; /* of a file that may be anything: nothing that moves the cursor */
        size_t shown = n < sizeof begin - 1 ? n : sizeof begin - 1;
        for (size_t i = 0; i < shown; i++) {
            bool plain = reader->text[i] >= ' ' && reader->text[i] <= '~';
            begin[i] = plain ? reader->text[i] : '?';
        }
        begin[shown] = '\0';
        status = aisim_trace_fail(&at, AISIM_EINVAL,
                                  "no known format has such a first line "
                                  "(starts with '%s'); give the format: --trace-format NAME, or "
                                  "format = in a scenario",
                                  begin);
    }
    return status;
}

static uint64_t ids_in(const json_t *row)
{
    const json_t *runs = json_object_get(row, "hash_runs");
    uint64_t n = json_array_size(json_object_get(row, "hash_ids")); /* 0 when it is no array */
    for (size_t i = 1; i < json_array_size(runs); i += 2) {
        n += (uint64_t)json_integer_value(json_array_get(runs, i));
    }
    return n;
}

/* One of the usual block sizes that every peeked row agrees with. */
static aisim_status find_block_size(aisim_trace *trace, aisim_error *err)
{
    static const uint32_t sizes[] = {512, 16, 64, 32, 128, 256, 1024, 8, 4, 2, 1, 2048, 4096};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    bool fits[SIZES];
    memset(fits, true, sizeof fits);
    for (int k = 0; k < PEEKED_ROWS; k++) {
        bool found;
        json_t *root = NULL;
        aisim_status status = aisim_trace_line(trace, &found, err);
        if (status != AISIM_OK || !found) {
            break;
        }
        aisim_error quiet = {0};
        const aisim_trace_place at = {trace->reader.path, trace->reader.line, &quiet};
        bool shortened;
        if (aisim_trace_parse_short(&at, trace->reader.text, trace->reader.size, &root,
                                    &shortened) != AISIM_OK) {
            break; /* said when the row is read */
        }
        const json_t *length = aisim_trace_field(root, "input_length", "input_tokens");
        const json_t *block =
            json_object_get(root, "schema") != NULL ? json_object_get(root, "block_size") : NULL;
        if (json_is_integer(block) && json_integer_value(block) > 0) {
            trace->block_size = (uint32_t)json_integer_value(block);
            json_decref(root);
            return AISIM_OK;
        }
        uint64_t n = ids_in(root);
        if (n > 0 && json_is_integer(length) && json_integer_value(length) > 0) {
            uint64_t tokens = (uint64_t)json_integer_value(length);
            for (int i = 0; i < SIZES; i++) {
                fits[i] =
                    fits[i] && (n == (tokens + sizes[i] - 1) / sizes[i] || n == tokens / sizes[i]);
            }
        }
        json_decref(root);
    }
    trace->block_size = 512;
    for (int i = 0; i < SIZES; i++) {
        if (fits[i]) {
            trace->block_size = sizes[i];
            break;
        }
    }
    return err->code;
}

static aisim_status start(aisim_trace *trace, aisim_error *err)
{
    trace->format = trace->options.format;
    trace->block_size = trace->options.block_size;
    trace->block_size_given = trace->block_size > 0;
    trace->origin_ns = trace->first_ns = -1;
    aisim_status status = AISIM_OK;
    if (trace->format == AISIM_TRACE_AUTO) {
        status = detect(trace, err);
        rewind_trace(trace);
    }
    if (status == AISIM_OK && trace->format == AISIM_TRACE_WEKA) {
        return aisim_fail(err, AISIM_EINVAL,
                          "%s: format weka holds plays, not rows (aisim.plays reads them)",
                          trace->files.data[0]);
    }
    if (status == AISIM_OK && has_ids(trace->format) && !trace->block_size_given) {
        status = find_block_size(trace, err);
        rewind_trace(trace);
    }
    trace->graph = trace->format == AISIM_TRACE_AGENTIC_MOONCAKE;
    if (status == AISIM_OK && trace->format == AISIM_TRACE_DYNAMO) {
        status = aisim_trace_dynamo_load(trace, err);
        trace->loaded = true;
        trace->next_row = 0;
    }
    return status;
}

aisim_status aisim_trace_open(const char *const *paths, uint32_t n,
                              const aisim_trace_options *options, aisim_trace **out,
                              aisim_error *err)
{
    aisim_trace *trace = aisim_alloc_zero(1, sizeof *trace);
    aisim_status status = AISIM_OK;
    trace->options = *options;
    for (uint32_t i = 0; i < n && status == AISIM_OK; i++) {
        status = aisim_expand_path(paths[i], &trace->files, err);
    }
    if (status == AISIM_OK && trace->files.len == 0) {
        status = aisim_fail(err, AISIM_EINVAL, "no trace file given");
    }
    if (status == AISIM_OK) {
        status = start(trace, err);
    }
    if (status != AISIM_OK) {
        aisim_trace_close(trace);
        trace = NULL;
    }
    *out = trace;
    return status;
}

aisim_status aisim_trace_again(const aisim_trace *trace, aisim_trace **out, aisim_error *err)
{
    aisim_trace_options options = trace->options;
    options.format = trace->format;
    options.block_size = aisim_trace_block_size(trace);
    return aisim_trace_open((const char *const *)trace->files.data, trace->files.len, &options, out,
                            err);
}

uint64_t aisim_trace_space(const aisim_trace *trace)
{
    const char *path = trace->files.data[0];
    const char *slash = strrchr(path, '/');
    return aisim_hash_text(slash == NULL ? path : slash + 1);
}

void aisim_trace_close(aisim_trace *trace)
{
    if (trace == NULL) {
        return;
    }
    trace->loaded = false;
    rewind_trace(trace);
    json_decref(trace->root);
    aisim_path_array_free(&trace->files);
    aisim_array_free(&trace->ids);
    aisim_array_free(&trace->output_ids);
    aisim_array_free(&trace->after);
    aisim_array_free(&trace->line);
    for (uint32_t i = 0; i < trace->columns.len; i++) {
        aisim_free(trace->columns.data[i]);
    }
    aisim_array_free(&trace->columns);
    aisim_array_free(&trace->waits);
    aisim_array_free(&trace->rows);
    aisim_array_free(&trace->texts);
    aisim_array_free(&trace->lists);
    aisim_array_free(&trace->dependencies);
    aisim_free(trace);
}

/* ---- rows ---- */

static aisim_status check_row(aisim_trace *trace, const aisim_trace_place *at,
                              const aisim_trace_row *row)
{
    if (row->id == NULL) {
        return AISIM_OK;
    }
    /* a 64-bit hash of the id stands for it: rows are not kept */
    uint64_t hash = aisim_hash_text(row->id);
    uint64_t scope = row->play == NULL ? 0 : aisim_hash_text(row->play);
    if (aisim_map_get(&trace->seen, hash, scope) != AISIM_NONE) {
        return aisim_trace_fail(at, AISIM_EEXIST,
                                "request id '%s' was already used at line %" PRIu32, row->id,
                                aisim_map_get(&trace->seen, hash, scope));
    }
    aisim_map_set(&trace->seen, hash, scope, (uint32_t)at->line);
    return AISIM_OK;
}

/* One JSON line into *row. A row that is wrong is read again as it stands in the file, so that
 * messages speak of its own fields. */
static aisim_status parse_row(aisim_trace *trace, const aisim_trace_place *at, aisim_trace_row *row,
                              bool *skip)
{
    const aisim_line_reader *reader = &trace->reader;
    const aisim_trace_row empty = *row;
    aisim_error quiet = {0};
    aisim_trace_place place = {at->file, at->line, &quiet};
    aisim_status status = AISIM_OK;
    bool shortened = has_ids(trace->format);
    for (bool again = shortened;; again = false) {
        *row = empty;
        json_decref(trace->root);
        trace->root = NULL;
        trace->ids.len = trace->output_ids.len = trace->after.len = 0;
        place.err = again ? &quiet : at->err;
        status = again ? aisim_trace_parse_short(&place, reader->text, reader->size, &trace->root,
                                                 &shortened)
                       : aisim_trace_parse(&place, reader->text, reader->size, &trace->root);
        if (status == AISIM_OK && trace->format == AISIM_TRACE_APPLIED_COMPUTE) {
            *skip = true;
            return aisim_trace_session_rows(trace, &place, trace->root);
        }
        if (status == AISIM_OK) {
            status = aisim_trace_json_row(trace, &place, trace->root, row, skip);
        }
        if (status == AISIM_OK || !again) {
            return status;
        }
    }
}

/* The next row of the file, without the window of the options. */
static aisim_status read_row(aisim_trace *trace, aisim_trace_row *row, bool *found,
                             aisim_error *err)
{
    while (true) {
        if (trace->next_row < trace->rows.len) {
            *row = trace->rows.data[trace->next_row++];
            *found = true;
            return AISIM_OK;
        }
        *found = false;
        if (trace->loaded) {
            return AISIM_OK;
        }
        aisim_status status = aisim_trace_line(trace, found, err);
        if (status != AISIM_OK || !*found) {
            return status;
        }
        aisim_line_reader *reader = &trace->reader;
        const aisim_trace_place at = {reader->path, reader->line, err};
        bool skip = false;
        *row = (aisim_trace_row){.arrival_ns = AISIM_TRACE_UNKNOWN,
                                 .end_ns = AISIM_TRACE_UNKNOWN,
                                 .delay_ns = AISIM_TRACE_UNKNOWN,
                                 .file = reader->path,
                                 .line = reader->line};
        bool csv = is_csv(trace->format) ||
                   (trace->format == AISIM_TRACE_LENGTHS && reader->text[0] != '{');
        if (csv) {
            if (memchr(reader->text, '\0', reader->size) != NULL) {
                return aisim_trace_fail(&at, AISIM_EPARSE, "the line holds a zero byte");
            }
            trace->line.len = 0;
            aisim_array_reserve(&trace->line, reader->size + 1);
            memcpy(trace->line.data, reader->text, reader->size);
            trace->line.data[reader->size] = '\0';
            status = aisim_trace_csv_row(trace, &at, trace->line.data, row, &skip);
        } else {
            status = parse_row(trace, &at, row, &skip);
            row->ids = trace->ids.data;
            row->n_ids = trace->ids.len;
            row->output_ids = trace->output_ids.data;
            row->n_output_ids = trace->output_ids.len;
            row->block_size = row->id_count > 0 ? trace->block_size : 0;
            row->after = trace->after.data;
            row->n_after = trace->after.len;
        }
        if (status == AISIM_OK && !skip) {
            status = check_row(trace, &at, row);
        }
        if (status != AISIM_OK || !skip) {
            return status;
        }
    }
}

aisim_status aisim_trace_next(aisim_trace *trace, aisim_trace_row *row, bool *found,
                              aisim_error *err)
{
    const aisim_trace_options *o = &trace->options;
    while (true) {
        *found = false;
        if (o->limit > 0 && trace->handed_out == o->limit) {
            return AISIM_OK;
        }
        if (o->interrupt != NULL && *o->interrupt != 0) {
            return aisim_fail(err, AISIM_EINTERRUPTED, "interrupted after %" PRIu64 " rows",
                              trace->handed_out);
        }
        aisim_status status = read_row(trace, row, found, err);
        if (status != AISIM_OK || !*found) {
            return status;
        }
        if (trace->first_ns < 0 && row->arrival_ns >= 0) {
            trace->first_ns = row->arrival_ns;
        }
        int64_t after_ns = row->arrival_ns < 0 ? 0 : row->arrival_ns - trace->first_ns;
        bool outside =
            (o->from_ns > 0 && after_ns < o->from_ns) || (o->to_ns > 0 && after_ns >= o->to_ns);
        if (!outside && (!row->failed || o->keep_failed)) {
            trace->handed_out++;
            return AISIM_OK;
        }
    }
}

aisim_trace_format aisim_trace_format_of(const aisim_trace *trace)
{
    return trace->format;
}

uint32_t aisim_trace_block_size(const aisim_trace *trace)
{
    return has_ids(trace->format) || trace->format == AISIM_TRACE_DYNAMO ? trace->block_size : 0;
}

bool aisim_trace_is_graph(const aisim_trace *trace)
{
    return trace->graph;
}

aisim_status aisim_trace_detect(const char *path, aisim_trace_format *out, aisim_error *err)
{
    aisim_trace *trace = aisim_alloc_zero(1, sizeof *trace);
    aisim_status status = aisim_expand_path(path, &trace->files, err);
    if (status == AISIM_OK) {
        status = detect(trace, err);
    }
    *out = trace->format;
    aisim_trace_close(trace);
    return status;
}
