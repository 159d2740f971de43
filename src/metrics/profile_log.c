/* profile_log.c - one line per record, as it comes. */
#include "metrics/profile_log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "metrics/spool.h"

struct aisim_profile_log {
    aisim_spool *spool;
    aisim_json line;
};

aisim_status aisim_profile_log_open(const char *path, aisim_profile_log **out, aisim_error *err)
{
    aisim_profile_log *log = aisim_alloc_zero(1, sizeof *log);
    aisim_status status = aisim_spool_open(path, &log->spool, err);
    if (status != AISIM_OK) {
        aisim_free(log);
        log = NULL;
    }
    *out = log;
    return status;
}

/* ---- metadata -------------------------------------------------------------------------------- */

enum { ID_SIZE = 160 };

/* Milliseconds of a record are nanoseconds divided: this undoes it exactly (up to 104 days). */
static int64_t ns_of(double ms)
{
    return (int64_t)llround(ms * 1e6);
}

static void put_number_as_text(aisim_json *json, const char *key, double number)
{
    char text[32];
    snprintf(text, sizeof text, "%.0f", number);
    aisim_json_key(json, key);
    aisim_json_text(json, text);
}

/* The session as its file names it; a request without one is a session of its own. */
static void conversation_of(const aisim_record *record, char out[ID_SIZE])
{
    if (record->session_name != NULL) {
        snprintf(out, ID_SIZE, "%s", record->session_name);
    } else if (!isnan(record->session_id)) {
        snprintf(out, ID_SIZE, "%.0f", record->session_id);
    } else if (record->name != NULL) {
        snprintf(out, ID_SIZE, "%s", record->name);
    } else {
        snprintf(out, ID_SIZE, "%.0f", record->request_id);
    }
}

static void put_ids(aisim_json *json, const aisim_record *record)
{
    char conversation[ID_SIZE], correlation[ID_SIZE + 64];
    bool alone = isnan(record->session_id);
    aisim_json_key(json, "session_num");
    aisim_json_double(json, (alone ? record->request_id : record->session_id) - 1);
    if (record->name != NULL) {
        aisim_json_key(json, "x_request_id");
        aisim_json_text(json, record->name);
    } else {
        put_number_as_text(json, "x_request_id", record->request_id);
    }
    conversation_of(record, conversation);
    if (record->play_id != NULL) { /* two instances of a play have the same conversations */
        snprintf(correlation, sizeof correlation, "%.0f.%.0f/%s", record->lane,
                 record->play_ordinal, conversation);
    } else {
        snprintf(correlation, sizeof correlation, "%s", conversation);
    }
    aisim_json_key(json, "x_correlation_id");
    aisim_json_text(json, correlation);
    aisim_json_key(json, "conversation_id");
    aisim_json_text(json, record->play_id != NULL ? record->play_id : conversation);
    aisim_json_key(json, "turn_index");
    aisim_json_double(json, record->turn);
}

static void put_metadata(aisim_json *json, const aisim_record *record)
{
    bool cancelled = record->outcome == AISIM_OUTCOME_CANCELLED;
    aisim_json_key(json, "metadata");
    aisim_json_begin(json, '{');
    put_ids(json, record);
    aisim_json_key(json, "request_start_ns");
    aisim_json_int(json, ns_of(record->arrival_ms));
    aisim_json_key(json, "request_ack_ns"); /* of the protocol, which is not simulated */
    aisim_json_null(json);
    aisim_json_key(json, "request_end_ns");
    aisim_json_int(json, ns_of(record->terminal_ms));
    aisim_json_key(json, "worker_id"); /* of the client, not of the server */
    aisim_json_text(json, "aisim");
    aisim_json_key(json, "record_processor_id");
    aisim_json_text(json, "aisim");
    aisim_json_key(json, "benchmark_phase");
    aisim_json_text(json, "profiling");
    aisim_json_key(json, "was_cancelled");
    aisim_json_bool(json, cancelled);
    aisim_json_key(json, "cancellation_time_ns");
    if (cancelled) {
        aisim_json_int(json, ns_of(record->terminal_ms));
    } else {
        aisim_json_null(json);
    }
    aisim_json_end(json, '}');
}

/* ---- metrics and error ----------------------------------------------------------------------- */

static void put_metric(aisim_json *json, const char *key, double value, const char *unit)
{
    if (isnan(value)) {
        return;
    }
    aisim_json_key(json, key);
    aisim_json_begin(json, '{');
    aisim_json_key(json, "value");
    aisim_json_double(json, value);
    aisim_json_key(json, "unit");
    aisim_json_text(json, unit);
    aisim_json_end(json, '}');
}

static void put_metrics(aisim_json *json, const aisim_record *record)
{
    const struct {
        const char *key;
        double value;
        const char *unit;
    } metrics[] = {
        {"input_sequence_length", record->input_tokens, "tokens"},
        {"output_sequence_length", record->output_tokens, "tokens"},
        {"output_token_count", record->output_tokens, "tokens"},
        {"time_to_first_token", record->ttft_ms, "ms"},
        {"time_to_second_token", record->ttst_ms, "ms"},
        {"request_latency", record->e2e_ms, "ms"},
        {"inter_token_latency", record->itl_ms, "ms"},
        {"output_token_throughput_per_user", record->output_tok_s_per_user, "tokens/sec/user"},
        {"prefill_throughput_per_user", record->prefill_tok_s_per_user, "tokens/sec/user"},
    };
    aisim_json_key(json, "metrics");
    aisim_json_begin(json, '{');
    if (record->outcome != AISIM_OUTCOME_COMPLETED) {
        put_metric(json, "error_isl", record->input_tokens, "tokens");
    }
    for (uint32_t i = 0;
         record->outcome == AISIM_OUTCOME_COMPLETED && i < sizeof metrics / sizeof *metrics; i++) {
        put_metric(json, metrics[i].key, metrics[i].value, metrics[i].unit);
    }
    aisim_json_end(json, '}');
}

/* The HTTP status that a server would have answered with. */
static int error_code(const aisim_record *record)
{
    const char *why = record->failure == NULL ? "" : record->failure;
    if (record->outcome == AISIM_OUTCOME_CANCELLED) {
        return 499;
    }
    if (strcmp(why, "empty") == 0 || strcmp(why, "context") == 0) {
        return 400;
    }
    if (strcmp(why, "admission") == 0) {
        return 429;
    }
    return record->outcome == AISIM_OUTCOME_REJECTED ? 503 : 500;
}

static const char *error_type(aisim_outcome outcome)
{
    return outcome == AISIM_OUTCOME_CANCELLED  ? "RequestCancellationError"
           : outcome == AISIM_OUTCOME_REJECTED ? "RequestRejectedError"
                                               : "RequestFailedError";
}

static void put_error(aisim_json *json, const aisim_record *record)
{
    char message[96], number[32];
    aisim_json_key(json, "error");
    if (record->outcome == AISIM_OUTCOME_COMPLETED) {
        aisim_json_null(json);
        return;
    }
    if (record->outcome == AISIM_OUTCOME_CANCELLED) {
        aisim_json_number(number, sizeof number, record->terminal_ms - record->arrival_ms);
        snprintf(message, sizeof message, "cancelled after %s ms", number);
    } else {
        snprintf(message, sizeof message, "%s: %s", aisim_outcome_text(record->outcome),
                 record->failure == NULL ? "no reason" : record->failure);
    }
    aisim_json_begin(json, '{');
    aisim_json_key(json, "code");
    aisim_json_int(json, error_code(record));
    aisim_json_key(json, "type");
    aisim_json_text(json, error_type(record->outcome));
    aisim_json_key(json, "message");
    aisim_json_text(json, message);
    aisim_json_end(json, '}');
}

/* ---- lines ----------------------------------------------------------------------------------- */

void aisim_profile_log_add(aisim_profile_log *log, const aisim_record *record)
{
    aisim_json *json = &log->line;
    if (!record->measured || record->outcome == AISIM_OUTCOME_IN_FLIGHT) {
        return;
    }
    json->text.len = 0;
    json->filled = false;
    aisim_json_begin(json, '{');
    put_metadata(json, record);
    put_metrics(json, record);
    put_error(json, record);
    aisim_json_end(json, '}');
    aisim_json_raw(json, "\n", 1);
    aisim_spool_add(log->spool, json->text.data, json->text.len);
}

static void free_log(aisim_profile_log *log)
{
    aisim_json_free(&log->line);
    aisim_free(log);
}

aisim_status aisim_profile_log_close(aisim_profile_log *log, aisim_error *err)
{
    aisim_status status = aisim_spool_close(log->spool, NULL, 0, NULL, err); /* it is in order */
    free_log(log);
    return status;
}

void aisim_profile_log_discard(aisim_profile_log *log)
{
    if (log != NULL) {
        aisim_spool_discard(log->spool);
        free_log(log);
    }
}
