/* trace_parts.h - what the readers of the formats share; private to trace*.c. */
#ifndef AISIM_WORKLOAD_TRACE_PARTS_H
#define AISIM_WORKLOAD_TRACE_PARTS_H

#include <jansson.h>

#include "base/array.h"
#include "workload/corpus_files.h"
#include "workload/trace.h"

/** Texts of the current row. A row's texts are offsets until it is complete: the buffer may move.
 */
typedef AISIM_ARRAY(char) aisim_text_array;

typedef struct aisim_trace_place {
    const char *file;
    int line;
    aisim_error *err;
} aisim_trace_place;

typedef AISIM_ARRAY(aisim_trace_row) aisim_trace_rows;
typedef AISIM_ARRAY(aisim_id_run) aisim_id_runs;

enum { AISIM_TRACE_MAX_COLUMNS = 64 };

struct aisim_trace {
    aisim_trace_options options;
    aisim_trace_format format;
    uint32_t block_size;
    bool block_size_given; /* by the caller or the file */
    bool graph;
    aisim_path_array files;
    uint32_t file; /* the one that is open, or the next one */
    bool open;
    aisim_line_reader reader;
    json_t *root; /* of the current row: texts of a row point into it */
    aisim_id_runs ids, output_ids;
    AISIM_ARRAY(aisim_trace_dependency) after;
    char session[64], id[64], play[64], model[64]; /* numbers as texts, made-up names */
    uint64_t handed_out;
    int64_t first_ns; /* arrival of the first row, -1 = none yet */
    aisim_map seen;   /* (hash of request id, attempt) */
    /* CSV */
    AISIM_ARRAY(char) line;
    char *fields[AISIM_TRACE_MAX_COLUMNS];
    uint32_t n_fields;
    AISIM_ARRAY(char *) columns; /* names in the header */
    bool header_read;
    int64_t origin_ns;          /* azure: date-time of the first row, -1 = none yet */
    AISIM_ARRAY(int64_t) waits; /* sessions: wait behind the last row of each */
    /* rows made at once: a session, or the events of all files */
    aisim_trace_rows rows;
    AISIM_ARRAY(char *) texts;
    AISIM_ARRAY(aisim_id_run *) lists;
    AISIM_ARRAY(aisim_trace_dependency *) dependencies;
    uint32_t next_row;
    bool loaded;
};

/** "file:line: text". @return code */
aisim_status aisim_trace_fail(const aisim_trace_place *at, aisim_status code, const char *format,
                              ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/** Parses a line as JSON object; integers of more than 63 bits become texts of digits. */
aisim_status aisim_trace_parse(const aisim_trace_place *at, const char *text, size_t size,
                               json_t **out);

/** Same, with long lists of plain hash_ids read as hash_runs, which is much faster.
 *  @p shortened  that is so: what a message says of such fields is not what the file says */
aisim_status aisim_trace_parse_short(const aisim_trace_place *at, const char *text, size_t size,
                                     json_t **out, bool *shortened);

/** A field under one of two names; NULL when absent or null. */
const json_t *aisim_trace_field(const json_t *object, const char *name, const char *alias);
aisim_status aisim_trace_missing(const aisim_trace_place *at, const json_t *object,
                                 const char *name);
/** A whole number of tokens; @p have false when absent and not required. */
aisim_status aisim_trace_count(const aisim_trace_place *at, const json_t *object, const char *name,
                               const char *alias, bool required, uint32_t *out, bool *have);
/** A time of `unit_ns` nanoseconds per unit, >= 0; AISIM_TRACE_UNKNOWN when absent. */
aisim_status aisim_trace_time(const aisim_trace_place *at, const json_t *object, const char *name,
                              const char *alias, bool required, int64_t unit_ns, int64_t *out);
/** A text, or a whole number as text in the buffer; NULL when absent. */
aisim_status aisim_trace_text(const aisim_trace_place *at, const json_t *object, const char *name,
                              bool required, char buffer[64], const char **out);
/** Block ids into trace->ids. */
aisim_status aisim_trace_ids(aisim_trace *trace, const aisim_trace_place *at, const json_t *list,
                             const char *name, aisim_trace_row *row);
/** The same as runs: start, count, start, count, ... */
aisim_status aisim_trace_runs(aisim_trace *trace, const aisim_trace_place *at, const json_t *list,
                              const char *name, aisim_trace_row *row);
/** Token ids of the answer into trace->output_ids; as many as output tokens. Tokens and blocks of
 * one number are different content. */
aisim_status aisim_trace_output_ids(aisim_trace *trace, const aisim_trace_place *at,
                                    const json_t *list, const char *name, aisim_trace_row *row);
/** Reads one line of the current file, opening the next file at its end. */
aisim_status aisim_trace_line(aisim_trace *trace, bool *found, aisim_error *err);

/** One JSON row of the format into *row. @p skip  the line holds no row (a header). */
aisim_status aisim_trace_json_row(aisim_trace *trace, const aisim_trace_place *at,
                                  const json_t *object, aisim_trace_row *row, bool *skip);
/** applied_compute_agentic: the session of one line into trace->rows. */
aisim_status aisim_trace_session_rows(aisim_trace *trace, const aisim_trace_place *at,
                                      const json_t *object);
/** dynamo: every file into trace->rows, in order of start. */
aisim_status aisim_trace_dynamo_load(aisim_trace *trace, aisim_error *err);
/** One CSV line. @p skip  it was the header. */
aisim_status aisim_trace_csv_row(aisim_trace *trace, const aisim_trace_place *at, char *text,
                                 aisim_trace_row *row, bool *skip);
/** The CSV format whose columns these are, AUTO = none. */
aisim_trace_format aisim_trace_csv_detect(const char *header);

/** Copies that live as long as the trace, or the session. */
const char *aisim_trace_keep(aisim_trace *trace, const char *text);
void aisim_trace_drop_rows(aisim_trace *trace);

#endif
