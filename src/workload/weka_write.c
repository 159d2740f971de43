/* weka_write.c - entries in authored order: by outer, then inner. */
#include "workload/weka_write.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"

void aisim_json_write_text(const char *text, FILE *out)
{
    putc('"', out);
    for (const char *c = text; *c != '\0'; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte == '"' || byte == '\\') {
            fprintf(out, "\\%c", byte);
        } else if (byte < 0x20) {
            fprintf(out, "\\u%04x", byte);
        } else {
            putc(byte, out);
        }
    }
    putc('"', out);
}

void aisim_json_write_seconds(int64_t ns, FILE *out)
{
    char part[16];
    int n = snprintf(part, sizeof part, "%09" PRId64, ns % AISIM_NS_PER_S);
    while (n > 1 && part[n - 1] == '0') {
        n--;
    }
    fprintf(out, "%" PRId64 ".%.*s", ns / AISIM_NS_PER_S, n, part);
}

/* fprintf would take most of the time of a large file. */
void aisim_json_write_ids(const aisim_id_run *run, bool comma, FILE *out)
{
    char text[4096];
    size_t used = 0;
    for (uint64_t k = 0; k < run->count; k++) {
        char digits[20];
        int n = 0;
        for (uint64_t id = run->first + k; n == 0 || id > 0; id /= 10) {
            digits[n++] = (char)('0' + id % 10);
        }
        if (used + 21 > sizeof text) {
            fwrite(text, 1, used, out);
            used = 0;
        }
        if (comma) {
            text[used++] = ',';
        }
        comma = true;
        while (n > 0) {
            text[used++] = digits[--n];
        }
    }
    fwrite(text, 1, used, out);
}

static void write_ids(const aisim_play *play, const aisim_play_request *r, bool runs, FILE *out)
{
    fputs(runs ? ",\"hash_runs\":[" : ",\"hash_ids\":[", out);
    for (uint32_t i = 0; i < r->id_runs; i++) {
        const aisim_id_run *run = &play->ids[r->id_first + i];
        if (runs) {
            fprintf(out, "%s%" PRIu64 ",%" PRIu64, i > 0 ? "," : "", run->first, run->count);
            continue;
        }
        aisim_json_write_ids(run, i > 0, out);
    }
    putc(']', out);
}

static void write_request(const aisim_play *play, const aisim_play_request *r, bool runs, FILE *out)
{
    fputs("{\"t\":", out);
    aisim_json_write_seconds(r->start_ns, out);
    fputs(",\"type\":\"n\",\"model\":", out);
    aisim_json_write_text(play->models[r->model], out);
    fprintf(out, ",\"in\":%" PRIu32 ",\"out\":%" PRIu32, r->input_tokens, r->output_tokens);
    write_ids(play, r, runs, out);
    if (r->end_ns > r->start_ns) {
        fputs(",\"api_time\":", out);
        aisim_json_write_seconds(r->end_ns - r->start_ns, out);
    }
    putc('}', out);
}

static void write_prefix(const aisim_play_scope *scope, FILE *out)
{
    if (scope->tool_tokens > 0) {
        fprintf(out, ",\"tool_tokens\":%" PRIu32, scope->tool_tokens);
    }
    if (scope->system_tokens > 0) {
        fprintf(out, ",\"system_tokens\":%" PRIu32, scope->system_tokens);
    }
}

static void open_marker(const aisim_play_scope *scope, FILE *out)
{
    fputs("{\"t\":", out);
    aisim_json_write_seconds(scope->marker_ns, out);
    fprintf(out, ",\"type\":\"subagent\",\"agent_id\":\"agent-%" PRIu32 "\",\"status\":\"%s\"",
            scope->outer, scope->blocking ? "completed" : "async_launched");
    if (scope->duration_ns >= 0) { /* in ms: three places less */
        fprintf(out, ",\"duration_ms\":%" PRId64 ".%06" PRId64,
                scope->duration_ns / AISIM_NS_PER_MS, scope->duration_ns % AISIM_NS_PER_MS);
    }
    write_prefix(scope, out);
    fputs(",\"requests\":[", out);
}

typedef struct place {
    uint32_t outer, inner, request;
} place;

static int compare_places(const void *a, const void *b)
{
    const place *x = a;
    const place *y = b;
    if (x->outer != y->outer) {
        return x->outer < y->outer ? -1 : 1;
    }
    return x->inner < y->inner ? -1 : x->inner > y->inner;
}

static const aisim_play_scope *scope_of(const aisim_play *play, const aisim_play_request *r)
{
    return &play->scopes[play->conversations[r->conversation].scope];
}

void aisim_weka_write(const aisim_play *play, bool runs, FILE *out)
{
    place *order = aisim_alloc(play->n_requests, sizeof *order);
    for (uint32_t i = 0; i < play->n_requests; i++) {
        order[i] = (place){play->requests[i].outer, play->requests[i].inner, i};
    }
    qsort(order, play->n_requests, sizeof *order, compare_places);
    fputs("{\"id\":", out);
    aisim_json_write_text(play->id, out);
    fputs(",\"models\":[", out);
    for (uint32_t i = 0; i < play->n_models; i++) {
        fputs(i > 0 ? "," : "", out);
        aisim_json_write_text(play->models[i], out);
    }
    fprintf(out, "],\"block_size\":%" PRIu32 ",\"hash_id_scope\":\"local\"", play->block_size);
    write_prefix(&play->scopes[0], out);
    fputs(",\"requests\":[", out);
    for (uint32_t i = 0; i < play->n_requests; i++) {
        const aisim_play_request *r = &play->requests[order[i].request];
        bool nested = r->inner != AISIM_NONE;
        bool first = i == 0 || order[i - 1].outer != r->outer;
        bool last = i + 1 == play->n_requests || order[i + 1].outer != r->outer;
        fputs(i > 0 ? "," : "", out);
        if (nested && first) {
            open_marker(scope_of(play, r), out);
        }
        write_request(play, r, runs, out);
        if (nested && last) {
            fputs("]}", out);
        }
    }
    fputs("]}\n", out);
    aisim_free(order);
}
