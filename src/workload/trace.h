/* trace.h - trace files of other people, row by row (traffic 3.3).
 *
 *     aisim_trace *trace;
 *     aisim_trace_open(paths, n, &options, &trace, err);
 *     while (aisim_trace_next(trace, &row, &found, err) == AISIM_OK && found) use(row);
 *     aisim_trace_close(trace);
 *
 * Whatever the format, a row is one request: when, how long, with which content, after whom. One
 * row is in memory (a session with applied_compute_agentic; all events with dynamo, whose links go
 * both ways). Files may be compressed with gzip; a byte order mark, CRLF and blank lines are
 * accepted. Plays (format weka) have a reader of their own: workload/corpus.h; trace_plays.h makes
 * plays of the graph formats.
 *
 * Errors name file, line and field, and the keys that were there instead of it. */
#ifndef AISIM_WORKLOAD_TRACE_H
#define AISIM_WORKLOAD_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/content.h"
#include "aisim/status.h"
#include "workload/play.h"

/** X(name in C, name outside, what a row of the file is) */
#define AISIM_TRACE_FORMATS(X)                                                                     \
    X(AUTO, "auto", "found out from the first row")                                                \
    X(MOONCAKE, "mooncake", "JSON: a request or turn with its whole prompt")                       \
    X(MOONCAKE_DELTA, "mooncake-delta", "JSON: a turn; later rows of a session add to it")         \
    X(AGENTIC_MOONCAKE, "agentic_mooncake", "JSON: a node of a graph of requests")                 \
    X(APPLIED_COMPUTE, "applied_compute_agentic", "JSON: a whole session of turns")                \
    X(DYNAMO, "dynamo", "JSON: an event of a request trace")                                       \
    X(AZURE, "azure", "CSV: TIMESTAMP, ContextTokens, GeneratedTokens")                            \
    X(BURSTGPT, "burstgpt", "CSV: Timestamp, Request tokens, Response tokens, ...")                \
    X(LENGTHS, "lengths", "CSV or JSON: lengths of prompt and answer")                             \
    X(SESSIONS, "sessions", "CSV: turns with prefix_len, input_len, output_len")                   \
    X(ROUNDS, "rounds", "JSON: model calls with input_tokens_total, prefix_tokens")                \
    X(BAILIAN, "bailian", "JSON: chat_id, parent_chat_id, hash_ids")                               \
    X(WEKA, "weka", "JSON: an agent play")

typedef enum {
#define X(name, text, row) AISIM_TRACE_##name,
    AISIM_TRACE_FORMATS(X)
#undef X
        AISIM_TRACE_FORMAT_COUNT
} aisim_trace_format;

const char *aisim_trace_format_name(aisim_trace_format format);
const char *aisim_trace_format_row(aisim_trace_format format);
/** @return the format, AISIM_TRACE_FORMAT_COUNT for an unknown name ("dynamo" etc.). */
aisim_trace_format aisim_trace_format_find(const char *name);

/** A time that the file does not give. */
#define AISIM_TRACE_UNKNOWN INT64_C(-1)

/** This request waits for another one. */
typedef struct aisim_trace_dependency {
    const char *source; /**< id of the other request */
    int64_t delay_ns;
    uint8_t trigger, relation; /**< aisim_play_trigger, aisim_play_relation */
} aisim_trace_dependency;

/** One request. Texts and lists are valid until the next call. */
typedef struct aisim_trace_row {
    const char *id, *session, *play, *model; /**< NULL = not given */
    int64_t arrival_ns; /**< on the clock of the file, >= 0, or AISIM_TRACE_UNKNOWN */
    int64_t end_ns;     /**< recorded end, or AISIM_TRACE_UNKNOWN */
    int64_t delay_ns;   /**< wait after the previous turn of the session, or AISIM_TRACE_UNKNOWN */
    uint32_t input_tokens; /**< whole prompt; what is new when `delta` */
    uint32_t output_tokens;
    uint32_t kept_tokens; /**< with has_kept: leading tokens of the conversation that it keeps */
    bool has_kept;
    bool delta;  /**< the prompt is the one before it, its answer, and input_tokens more */
    bool failed; /**< burstgpt: no answer */
    int32_t priority;
    uint32_t block_size; /**< tokens per id, 0 = no ids in this format */
    const aisim_id_run *ids;
    uint32_t n_ids, id_count; /**< runs; ids in them */
    const aisim_id_run
        *output_ids;       /**< tokens of the answer (their block size is 1), as recorded */
    uint32_t n_output_ids; /**< runs; 0 = the answer is nobody else's */
    const aisim_trace_dependency *after;
    uint32_t n_after;
    const char *file;
    int line;
} aisim_trace_row;

typedef struct aisim_trace_options {
    aisim_trace_format format;
    uint32_t
        block_size; /**< tokens per id; 0 = as the file says, else 512, or what fits the rows */
    uint64_t limit; /**< rows at most; 0 = all */
    int64_t from_ns, to_ns; /**< rows with an arrival in [from, to) after the first row; 0, 0 = all.
                                 Their arrivals stay as they are */
    bool keep_failed;       /**< burstgpt: hand out rows without answer too */
    const volatile int *interrupt; /**< nonzero = no further row, AISIM_EINTERRUPTED; NULL = never */
} aisim_trace_options;

typedef struct aisim_trace aisim_trace;

/** Opens the files in the order given (folders and patterns are expanded) and finds out format and
 *  block size from the first rows.
 *  @return AISIM_OK, AISIM_ENOENT, AISIM_EIO, AISIM_EINVAL (unknown format, weka), … */
aisim_status aisim_trace_open(const char *const *paths, uint32_t n,
                              const aisim_trace_options *options, aisim_trace **out,
                              aisim_error *err);

/** The next row. @param found  false at the end.
 *  @return AISIM_OK, AISIM_EPARSE, AISIM_EINVAL, AISIM_ERANGE, AISIM_EIO; the trace can then only
 * be closed. Checks rows against one another only where the format has identities (duplicate
 *  request ids). */
aisim_status aisim_trace_next(aisim_trace *trace, aisim_trace_row *row, bool *found,
                              aisim_error *err);

aisim_trace_format aisim_trace_format_of(const aisim_trace *trace);
uint32_t aisim_trace_block_size(const aisim_trace *trace); /**< 0 = rows have no ids */
/** The rows form graphs (agentic_mooncake, dynamo with agent context). */
bool aisim_trace_is_graph(const aisim_trace *trace);

/** The same files with the same options, format and block size, from the start. */
aisim_status aisim_trace_again(const aisim_trace *trace, aisim_trace **out, aisim_error *err);

/** A number for the namespace of its ids: of the name of the first file, without folders. */
uint64_t aisim_trace_space(const aisim_trace *trace);

void aisim_trace_close(aisim_trace *trace); /**< NULL allowed */

/** The format of a file by its first row, weka included. */
aisim_status aisim_trace_detect(const char *path, aisim_trace_format *out, aisim_error *err);

#endif
