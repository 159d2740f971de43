/* trace_csv.c - formats whose first line names the columns. Columns are found by name, never by
 * place: newer files of the same source put new ones in the middle. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "workload/trace_parts.h"

/* Splits at commas, in place; quotes around a field are taken away, "" inside is one quote. */
static void split(aisim_trace *trace, char *text)
{
    trace->n_fields = 0;
    while (trace->n_fields < AISIM_TRACE_MAX_COLUMNS) {
        char *to = text;
        char *from = text;
        bool quoted = false;
        trace->fields[trace->n_fields++] = text;
        for (; *from != '\0' && (quoted || *from != ','); from++) {
            if (*from == '"' && quoted && from[1] == '"') {
                *to++ = *from++;
            } else if (*from == '"') {
                quoted = !quoted;
            } else {
                *to++ = *from;
            }
        }
        bool more = *from == ',';
        text = from + 1;
        *to = '\0';
        if (!more) {
            return;
        }
    }
}

static int column(const aisim_trace *trace, const char *name)
{
    for (uint32_t i = 0; i < trace->columns.len; i++) {
        if (strcmp(trace->columns.data[i], name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static const char *value(const aisim_trace *trace, const char *name)
{
    int i = column(trace, name);
    return i >= 0 && (uint32_t)i < trace->n_fields ? trace->fields[i] : NULL;
}

static aisim_status missing(const aisim_trace *trace, const aisim_trace_place *at, const char *name)
{
    char keys[300] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < trace->columns.len; i++) {
        int n = snprintf(keys + used, sizeof keys - used, "%s%s", i > 0 ? ", " : "",
                         trace->columns.data[i]);
        if (n < 0 || (size_t)n >= sizeof keys - used) {
            break;
        }
        used += (size_t)n;
    }
    return aisim_trace_fail(at, AISIM_EINVAL, "field '%s' missing; keys found: %s", name, keys);
}

/* A number >= 0; an empty field is an error when required. */
static aisim_status number(const aisim_trace *trace, const aisim_trace_place *at, const char *name,
                           bool required, double limit, double *out)
{
    const char *text = value(trace, name);
    *out = -1;
    if (text == NULL || text[0] == '\0') {
        return required ? missing(trace, at, name) : AISIM_OK;
    }
    char *end = NULL;
    bool plain = isdigit((unsigned char)text[0]) || text[0] == '.';
    *out = plain ? strtod(text, &end) : -1;
    if (!plain || *end != '\0' || !(*out >= 0 && *out <= limit)) {
        return aisim_trace_fail(at, AISIM_ERANGE,
                                "field '%s' is '%.60s', expected a number from 0 "
                                "to %.0f",
                                name, text, limit);
    }
    return AISIM_OK;
}

static aisim_status count(const aisim_trace *trace, const aisim_trace_place *at, const char *name,
                          uint32_t *out)
{
    double found = 0;
    aisim_status status = number(trace, at, name, true, INT32_MAX, &found);
    if (status == AISIM_OK && found != floor(found)) {
        return aisim_trace_fail(at, AISIM_EINVAL, "field '%s' is %s, expected a whole number", name,
                                value(trace, name));
    }
    *out = status == AISIM_OK ? (uint32_t)found : 0;
    return status;
}

/* Days since 1970-01-01 of a date of the common calendar. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t era = year / 400;
    int64_t of_era = year - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* "2023-11-16 18:17:03.9799600" or with T and an ignored zone, exact to the nanosecond. */
static aisim_status date_time(const aisim_trace_place *at, const char *text, int64_t *out)
{
    int year;
    int month;
    int day;
    int hour;
    int minute;
    int second;
    int used = 0;
    int n = sscanf(text, "%4d-%2d-%2d%*1[ T]%2d:%2d:%2d%n", &year, &month, &day, &hour, &minute,
                   &second, &used);
    bool good = n == 6 && year >= 1970 && year < 2200 && month >= 1 && month <= 12 && day >= 1 &&
                day <= 31 && hour >= 0 && hour < 24 && minute >= 0 && minute < 60 && second >= 0 &&
                second <= 60;
    int64_t part = 0;
    if (good && text[used] == '.') {
        int64_t unit = AISIM_NS_PER_S;
        for (used++; isdigit((unsigned char)text[used]); used++) {
            unit /= 10;
            part += (text[used] - '0') * unit;
        }
    }
    if (!good || (text[used] != '\0' && strchr("Z+", text[used]) == NULL)) {
        return aisim_trace_fail(at, AISIM_EINVAL,
                                "field 'TIMESTAMP' is '%.60s', expected a "
                                "date-time like 2023-11-16 18:17:03.9799600",
                                text);
    }
    int64_t seconds = days_of(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
    *out = seconds * AISIM_NS_PER_S + part;
    return AISIM_OK;
}

static aisim_status read_azure(aisim_trace *trace, const aisim_trace_place *at,
                               aisim_trace_row *row)
{
    const char *text = value(trace, "TIMESTAMP");
    if (text == NULL || text[0] == '\0') {
        return missing(trace, at, "TIMESTAMP");
    }
    int64_t time_ns = 0;
    aisim_status status = date_time(at, text, &time_ns);
    if (status == AISIM_OK && trace->origin_ns < 0) {
        trace->origin_ns = time_ns;
    }
    row->arrival_ns = time_ns - trace->origin_ns;
    if (status == AISIM_OK && row->arrival_ns < 0) {
        return aisim_trace_fail(at, AISIM_ERANGE, "field 'TIMESTAMP' is before the first row");
    }
    if (status == AISIM_OK) {
        status = count(trace, at, "ContextTokens", &row->input_tokens);
    }
    return status == AISIM_OK ? count(trace, at, "GeneratedTokens", &row->output_tokens) : status;
}

static aisim_status read_burstgpt(aisim_trace *trace, const aisim_trace_place *at,
                                  aisim_trace_row *row)
{
    double seconds = 0;
    aisim_status status = number(trace, at, "Timestamp", true, 4e9, &seconds);
    if (status == AISIM_OK) {
        status = count(trace, at, "Request tokens", &row->input_tokens);
    }
    if (status == AISIM_OK) {
        status = count(trace, at, "Response tokens", &row->output_tokens);
    }
    row->arrival_ns = status == AISIM_OK ? aisim_ns_from_s(seconds) : 0;
    row->failed = row->output_tokens == 0;
    const char *session = value(trace, "Session ID");
    row->session = session != NULL && session[0] != '\0' ? session : NULL;
    row->model = value(trace, "Model");
    return status;
}

static const char *first_known(const aisim_trace *trace, const char *const *names)
{
    for (int i = 0; names[i] != NULL; i++) {
        if (column(trace, names[i]) >= 0) {
            return names[i];
        }
    }
    return names[0];
}

static aisim_status read_lengths(aisim_trace *trace, const aisim_trace_place *at,
                                 aisim_trace_row *row)
{
    static const char *const inputs[] = {"input_length",       "input_tokens", "prompt_tokens",
                                         "num_prefill_tokens", "input",        NULL};
    static const char *const outputs[] = {"output_length",     "output_tokens", "completion_tokens",
                                          "num_decode_tokens", "output",        NULL};
    double seconds = -1;
    aisim_status status = count(trace, at, first_known(trace, inputs), &row->input_tokens);
    if (status == AISIM_OK) {
        status = count(trace, at, first_known(trace, outputs), &row->output_tokens);
    }
    if (status == AISIM_OK) {
        status = number(trace, at, "arrived_at", false, 4e9, &seconds);
    }
    row->arrival_ns = seconds < 0 ? AISIM_TRACE_UNKNOWN : aisim_ns_from_s(seconds);
    return status;
}

/* Waits of a turn stand in the row before it: remembered by session. */
static void set_wait(aisim_trace *trace, const char *session, int64_t wait_ns, int64_t *before_ns)
{
    uint64_t key = aisim_hash_text(session);
    uint32_t index = aisim_map_get(&trace->seen, key, 0);
    *before_ns = AISIM_TRACE_UNKNOWN;
    if (index == AISIM_NONE) {
        aisim_map_set(&trace->seen, key, 0, trace->waits.len);
        aisim_array_push(&trace->waits, wait_ns);
    } else {
        *before_ns = trace->waits.data[index];
        trace->waits.data[index] = wait_ns;
    }
}

static aisim_status read_session(aisim_trace *trace, const aisim_trace_place *at,
                                 aisim_trace_row *row)
{
    uint32_t added = 0;
    double wait_ms = 0;
    double arrival_ms = -1;
    row->session = value(trace, "session_id");
    if (row->session == NULL || row->session[0] == '\0') {
        return missing(trace, at, "session_id");
    }
    aisim_status status = count(trace, at, "prefix_len", &row->kept_tokens);
    if (status == AISIM_OK) {
        status = count(trace, at, "input_len", &added);
    }
    if (status == AISIM_OK) {
        status = count(trace, at, "output_len", &row->output_tokens);
    }
    if (status == AISIM_OK) {
        status = number(trace, at, "tool_wait_after_ms", false, 1e12, &wait_ms);
    }
    if (status == AISIM_OK) {
        status = number(trace, at, "arrival_time", false, 1e12, &arrival_ms);
    }
    if (status != AISIM_OK) {
        return status;
    }
    if ((uint64_t)row->kept_tokens + added > INT32_MAX) {
        return aisim_trace_fail(at, AISIM_ERANGE, "prefix_len + input_len is above 2147483647");
    }
    row->has_kept = true;
    row->input_tokens = row->kept_tokens + added;
    set_wait(trace, row->session, aisim_ns_from_ms(wait_ms < 0 ? 0 : wait_ms), &row->delay_ns);
    if (row->delay_ns < 0 && arrival_ms >= 0) { /* the session's arrival */
        row->arrival_ns = aisim_ns_from_ms(arrival_ms);
    }
    return AISIM_OK;
}

static bool has_columns(const char *const *have, uint32_t n, const char *const *want)
{
    for (; *want != NULL; want++) {
        bool found = false;
        for (uint32_t i = 0; i < n && !found; i++) {
            found = strcmp(have[i], *want) == 0;
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

aisim_trace_format aisim_trace_csv_detect(const char *header)
{
    static const char *const azure[] = {"TIMESTAMP", "ContextTokens", "GeneratedTokens", NULL};
    static const char *const burst[] = {"Timestamp", "Request tokens", "Response tokens", NULL};
    static const char *const session[] = {"session_id", "prefix_len", "input_len", NULL};
    static const char *const lengths[][3] = {{"num_prefill_tokens", "num_decode_tokens", NULL},
                                             {"input_length", "output_length", NULL},
                                             {"input_tokens", "output_tokens", NULL},
                                             {"prompt_tokens", "completion_tokens", NULL},
                                             {"input", "output", NULL}};
    aisim_trace scratch = {0};
    char *copy = aisim_strdup(header);
    split(&scratch, copy);
    const char *const *have = (const char *const *)scratch.fields;
    aisim_trace_format format = AISIM_TRACE_AUTO;
    if (has_columns(have, scratch.n_fields, azure)) {
        format = AISIM_TRACE_AZURE;
    } else if (has_columns(have, scratch.n_fields, burst)) {
        format = AISIM_TRACE_BURSTGPT;
    } else if (has_columns(have, scratch.n_fields, session)) {
        format = AISIM_TRACE_SESSIONS;
    }
    for (int i = 0; i < 5 && format == AISIM_TRACE_AUTO; i++) {
        if (has_columns(have, scratch.n_fields, lengths[i])) {
            format = AISIM_TRACE_LENGTHS;
        }
    }
    aisim_free(copy);
    return format;
}

aisim_status aisim_trace_csv_row(aisim_trace *trace, const aisim_trace_place *at, char *text,
                                 aisim_trace_row *row, bool *skip)
{
    size_t n = strlen(text);
    while (n > 0 && (text[n - 1] == '\r' || text[n - 1] == '\n')) {
        text[--n] = '\0';
    }
    split(trace, text);
    if (!trace->header_read) {
        for (uint32_t i = 0; i < trace->columns.len; i++) {
            aisim_free(trace->columns.data[i]);
        }
        trace->columns.len = 0;
        for (uint32_t i = 0; i < trace->n_fields; i++) {
            aisim_array_push(&trace->columns, aisim_strdup(trace->fields[i]));
        }
        trace->header_read = true;
        *skip = true;
        return AISIM_OK;
    }
    if (trace->n_fields != trace->columns.len) {
        return aisim_trace_fail(at, AISIM_EINVAL,
                                "%" PRIu32 " fields, expected %" PRIu32 " like the first line",
                                trace->n_fields, trace->columns.len);
    }
    switch (trace->format) {
    case AISIM_TRACE_AZURE:
        return read_azure(trace, at, row);
    case AISIM_TRACE_BURSTGPT:
        return read_burstgpt(trace, at, row);
    case AISIM_TRACE_SESSIONS:
        return read_session(trace, at, row);
    default:
        return read_lengths(trace, at, row);
    }
}
