/* agentx_driver.c - runs the AgentX client on a stub server, for vectors/agentx_replay.json.
 *
 *     agentx_driver FILE [N]      one JSON line per vector of kind "agentx", or for the N-th (from
 * 1) alone: what the client did
 *
 * The stub answers after a fixed time, without queue or cache, as vectors/README.md describes.
 * Nothing of the replay is decided here: kind_agentx.lua compares the lines with the file. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "workload/agentx.h"
#include "workload/corpus.h"
#include "workload/play_content.h"

typedef enum { STUB_TERMINAL, STUB_SETTLED } stub_kind;

typedef struct stub_event {
    int64_t at_ns;
    uint64_t sequence;
    uint32_t request; /* into sent */
    stub_kind kind;
} stub_event;

typedef struct stub_request {
    uint64_t handle;
    const aisim_play *play;
    uint64_t slot;
    uint32_t request;
    char key[96];
    bool fails, cancelled;
} stub_request;

typedef struct stub {
    const json_t *server;
    int64_t now_ns;
    uint64_t sequence;
    AISIM_ARRAY(stub_event) events;
    AISIM_ARRAY(stub_request) sent;
    json_t *dispatch;
} stub;

static double number(const json_t *object, const char *key, double absent)
{
    const json_t *value = json_object_get(object, key);
    return value == NULL ? absent : json_number_value(value);
}

static bool listed(const json_t *list, const char *text)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (strcmp(json_string_value(json_array_get(list, i)), text) == 0) {
            return true;
        }
    }
    return false;
}

static json_t *ms(int64_t ns)
{
    return ns < 0 ? json_null() : json_real((double)ns / 1e6);
}

static void schedule(stub *s, uint32_t request, stub_kind kind, int64_t at_ns)
{
    stub_event event = {
        .at_ns = at_ns, .sequence = s->sequence++, .request = request, .kind = kind};
    aisim_array_push(&s->events, event);
}

static void on_send(void *ctx, const aisim_agentx_request *request, uint64_t handle)
{
    stub *s = ctx;
    stub_request sent = {.handle = handle,
                         .play = request->play,
                         .slot = request->slot,
                         .request = request->request};
    aisim_agentx_request_key(request, sent.key);
    sent.fails = listed(json_object_get(s->server, "fail"), sent.key);
    const json_t *fixed = json_object_get(json_object_get(s->server, "service_ms"), sent.key);
    double service_ms =
        fixed != NULL
            ? json_number_value(fixed)
            : number(s->server, "fixed_ms", 0) +
                  number(s->server, "per_input_token_ms", 0) * (double)request->input_tokens +
                  number(s->server, "per_output_token_ms", 0) * (double)request->output_tokens;
    aisim_array_push(&s->sent, sent);
    schedule(s, s->sent.len - 1, STUB_TERMINAL, s->now_ns + aisim_ns_from_ms(service_ms));
    json_t *row = json_array();
    json_array_append_new(row, json_string(sent.key));
    json_array_append_new(row, ms(s->now_ns));
    json_array_append_new(s->dispatch, row);
}

static void on_cancel(void *ctx, uint64_t handle)
{
    stub *s = ctx;
    uint32_t i = 0;
    while (s->sent.data[i].handle != handle || s->sent.data[i].cancelled) {
        i++;
    }
    s->sent.data[i].cancelled = true;
    for (uint32_t e = 0; e < s->events.len; e++) {
        if (s->events.data[e].request == i) {
            aisim_array_remove(&s->events, e);
            break;
        }
    }
    schedule(s, i, STUB_TERMINAL,
             s->now_ns + aisim_ns_from_ms(number(s->server, "cancel_ack_ms", 0)));
}

static uint32_t earliest(const stub *s)
{
    uint32_t best = AISIM_NONE;
    for (uint32_t i = 0; i < s->events.len; i++) {
        const stub_event *e = &s->events.data[i];
        const stub_event *b = best == AISIM_NONE ? NULL : &s->events.data[best];
        if (b == NULL || e->at_ns < b->at_ns ||
            (e->at_ns == b->at_ns && e->sequence < b->sequence)) {
            best = i;
        }
    }
    return best;
}

static void deliver(stub *s, aisim_agentx *agentx, uint32_t index)
{
    stub_event event = s->events.data[index];
    aisim_array_remove(&s->events, index);
    const stub_request *r = &s->sent.data[event.request];
    if (event.kind == STUB_SETTLED) {
        aisim_agentx_settled(agentx, r->handle, s->now_ns);
        return;
    }
    aisim_agentx_terminal(agentx, r->handle, s->now_ns,
                          r->cancelled ? AISIM_TERMINAL_CANCELLED
                          : r->fails   ? AISIM_TERMINAL_FAILED
                                       : AISIM_TERMINAL_COMPLETED);
    schedule(s, event.request, STUB_SETTLED,
             s->now_ns + aisim_ns_from_ms(number(s->server, "settle_ms", 0)));
}

/* Time moves to the next event; the server's come first, then the client's. */
static void run(stub *s, aisim_agentx *agentx)
{
    while (true) {
        uint32_t event = earliest(s);
        int64_t server_ns = event == AISIM_NONE ? AISIM_NEVER : s->events.data[event].at_ns;
        int64_t client_ns = aisim_agentx_next_time_ns(agentx);
        int64_t next_ns = server_ns < client_ns ? server_ns : client_ns;
        if (next_ns == AISIM_NEVER || (aisim_agentx_done(agentx) && next_ns > s->now_ns)) {
            return;
        }
        s->now_ns = next_ns;
        if (server_ns == next_ns) {
            deliver(s, agentx, event);
        } else {
            aisim_agentx_advance(agentx, next_ns);
        }
    }
}

/* ---- results ----------------------------------------------------------------------------------
 */

static json_t *phases(const aisim_agentx_report *r)
{
    json_t *out = json_object();
    json_object_set_new(out, "primer_end_ms", ms(r->primer_end_ns));
    json_object_set_new(out, "warmup_end_ms", ms(r->warmup_end_ns));
    json_object_set_new(out, "barrier_ms", ms(r->barrier_ns));
    json_object_set_new(out, "cutoff_ms", ms(r->cutoff_ns));
    json_object_set_new(out, "grace_end_ms", ms(r->grace_end_ns));
    json_object_set_new(out, "drain_end_ms", ms(r->drain_end_ns));
    return out;
}

static json_t *counts(const aisim_agentx_report *r)
{
    const struct {
        const char *key;
        uint64_t value;
    } rows[] = {{"primer_requests", r->primer_requests},
                {"warmup_requests", r->warmup_requests},
                {"planned", r->planned},
                {"issued", r->issued},
                {"successful", r->successful},
                {"failed", r->failed},
                {"cancelled", r->cancelled},
                {"in_flight", r->in_flight},
                {"never_issued", r->never_issued},
                {"unsettled", r->unsettled},
                {"plays_started", r->plays_started},
                {"plays_client_completed", r->plays_client_completed},
                {"plays_failed", r->plays_failed},
                {"plays_retired", r->plays_retired},
                {"plays_server_quiescent", r->plays_server_quiescent},
                {"corpus_cursor", r->corpus_cursor}};
    json_t *out = json_object();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_object_set_new(out, rows[i].key, json_integer((json_int_t)rows[i].value));
    }
    return out;
}

static json_t *observation(const aisim_agentx_report *r)
{
    json_t *out = json_object();
    json_object_set_new(out, "first_request_ms", ms(r->first_request_ns));
    json_object_set_new(out, "last_success_ms", ms(r->last_success_ns));
    json_object_set_new(out, "duration_ms", ms(r->observation_ns));
    json_object_set_new(out, "throughput_rps",
                        isnan(r->throughput_rps) ? json_null() : json_real(r->throughput_rps));
    return out;
}

static json_t *shifts(const aisim_agentx_report *r)
{
    json_t *out = json_array();
    for (uint32_t i = 0; i < r->n_shifts; i++) {
        const aisim_agentx_shift *s = &r->shifts[i];
        char scope[32] = "global";
        if (!s->global) {
            snprintf(scope, sizeof scope, "%" PRIu32 ".%" PRIu32, s->lane, s->k);
        }
        json_t *row = json_object();
        json_object_set_new(row, "at_ms", ms(s->at_ns));
        json_object_set_new(row, "scope", json_string(scope));
        json_object_set_new(row, "shifted_by_ms", ms(s->shifted_by_ns));
        json_object_set_new(row, "timers", json_integer(s->timers));
        json_array_append_new(out, row);
    }
    return out;
}

static json_t *play_row(const aisim_agentx_play *p)
{
    static const char *const status[] = {"completed", "failed", "incomplete"};
    json_t *out = json_object();
    json_object_set_new(out, "lane", json_integer(p->lane));
    json_object_set_new(out, "k", json_integer(p->k));
    json_object_set_new(out, "slot", json_integer((json_int_t)p->slot));
    json_object_set_new(out, "source", json_integer(p->play->ordinal));
    json_object_set_new(out, "id", json_string(p->play->id));
    json_object_set_new(out, "start_ms", ms(p->start_ns));
    json_object_set_new(out, "end_ms", ms(p->end_ns));
    json_object_set_new(out, "status", json_string(status[p->status]));
    json_object_set_new(out, "planned", json_integer(p->planned));
    json_object_set_new(out, "issued", json_integer(p->issued));
    json_object_set_new(out, "successful", json_integer(p->successful));
    json_object_set_new(out, "failed", json_integer(p->failed));
    json_object_set_new(out, "cancelled", json_integer(p->cancelled));
    json_object_set_new(out, "never_issued", json_integer(p->planned - p->issued));
    json_object_set_new(out, "e2e_ms", ms(p->e2e_ns));
    if (p->cause != AISIM_NONE) {
        char key[96];
        aisim_agentx_request request = {.play = p->play,
                                        .request = p->cause,
                                        .lane = p->lane,
                                        .k = p->k,
                                        .phase = AISIM_AGENTX_PROFILE};
        json_t *cause = json_object();
        json_object_set_new(cause, "request", json_string(aisim_agentx_request_key(&request, key)));
        json_object_set_new(cause, "t_ms", ms(p->cause_ns));
        json_object_set_new(out, "cause", cause);
    }
    return out;
}

static json_t *failure(const aisim_corpus *corpus, const aisim_agentx_report *r)
{
    char key[96];
    aisim_agentx_request request = {.play = &corpus->plays[r->failed_lane % corpus->n_plays],
                                    .request = r->failed_request,
                                    .lane = r->failed_lane,
                                    .phase = r->failed_phase,
                                    .warmup_index = r->failed_warmup_index};
    json_t *out = json_object();
    json_object_set_new(out, "phase", json_string(aisim_agentx_phase_name(r->failed_phase)));
    json_object_set_new(out, "request", json_string(aisim_agentx_request_key(&request, key)));
    json_object_set_new(out, "t_ms", ms(r->failed_ns));
    return out;
}

static json_t *edges(const aisim_corpus *corpus)
{
    json_t *out = json_object();
    for (uint32_t i = 0; i < corpus->n_plays; i++) {
        const aisim_play *play = &corpus->plays[i];
        json_t *list = json_array();
        for (uint32_t e = 0; e < play->n_edges; e++) {
            const aisim_play_edge *edge = &play->edges[e];
            char source[48];
            char target[48];
            json_array_append_new(
                list, json_pack("[s,s,s,o,s]", aisim_play_request_name(play, edge->source, source),
                                aisim_play_request_name(play, edge->target, target),
                                edge->trigger == AISIM_TRIGGER_DISPATCH ? "dispatch" : "completion",
                                ms(edge->delay_ns),
                                aisim_play_relation_name((aisim_play_relation)edge->relation)));
        }
        json_object_set_new(out, play->id, list);
    }
    return out;
}

static const stub_request *find_sent(const stub *s, const char *key)
{
    for (uint32_t i = 0; i < s->sent.len; i++) {
        if (strcmp(s->sent.data[i].key, key) == 0) {
            return &s->sent.data[i];
        }
    }
    return NULL;
}

/* The pairs the vector asks for; the figure is the content template's. */
static json_t *shared_blocks(const stub *s, const json_t *wanted, bool after_system)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(wanted); i++) {
        const json_t *row = json_array_get(wanted, i);
        const char *names[2] = {json_string_value(json_array_get(row, 0)),
                                json_string_value(json_array_get(row, 1))};
        const stub_request *a = find_sent(s, names[0]);
        const stub_request *b = find_sent(s, names[1]);
        json_int_t blocks = -1;
        if (a != NULL && b != NULL) {
            blocks = 0;
            if (a->play == b->play) {
                aisim_play_content content;
                aisim_play_content_build(a->play, after_system, &content);
                blocks = (json_int_t)(aisim_play_content_common_tokens(
                                          &content, a->request, b->request, a->slot == b->slot) /
                                      a->play->block_size);
                aisim_play_content_deinit(&content);
            }
        }
        json_array_append_new(out, json_pack("[s,s,I]", names[0], names[1], blocks));
    }
    return out;
}

/* ---- one vector -------------------------------------------------------------------------------
 */

static bool is(const json_t *object, const char *key, const char *text)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value != NULL && strcmp(value, text) == 0;
}

static bool flag(const json_t *object, const char *key, bool absent)
{
    const json_t *value = json_object_get(object, key);
    return value == NULL ? absent : json_is_true(value);
}

static void read_config(const json_t *from, aisim_agentx_config *config)
{
    aisim_agentx_config_default(config);
    config->lanes = (uint32_t)number(from, "lanes", 0);
    config->seed = (uint64_t)number(from, "seed", 42);
    const json_t *cut = json_object_get(from, "t_star");
    if (cut != NULL) {
        config->t_star[0] = json_number_value(json_array_get(cut, 0));
        config->t_star[1] = json_number_value(json_array_get(cut, 1));
    }
    config->warmup = flag(from, "warmup", true);
    config->warmup_requests_per_lane = (uint32_t)number(from, "warmup_requests_per_lane", 10);
    config->warmup_mode =
        is(from, "warmup_mode", "advance") ? AISIM_WARMUP_ADVANCE : AISIM_WARMUP_REPEAT;
    config->speedup = number(from, "speedup", 1);
    config->authored_gate = flag(from, "authored_gate", true);
    config->cache_identity = is(from, "cache_identity", "after_system")
                                 ? AISIM_IDENTITY_AFTER_SYSTEM
                                 : AISIM_IDENTITY_ISOLATED;
    config->on_error =
        is(from, "on_error", "continue") ? AISIM_ON_ERROR_CONTINUE : AISIM_ON_ERROR_FAIL_PLAY;
    const json_t *profile = json_object_get(from, "profile");
    aisim_agentx_profile *p = &config->profile;
    p->duration_seconds = number(profile, "duration_seconds", p->duration_seconds);
    p->response_grace_seconds =
        number(profile, "response_grace_seconds", p->response_grace_seconds);
    p->cancel_drain_seconds = number(profile, "cancel_drain_seconds", p->cancel_drain_seconds);
    p->tree_idle_cap_seconds = number(profile, "tree_idle_cap_seconds", p->tree_idle_cap_seconds);
    p->global_idle_cap_seconds =
        number(profile, "global_idle_cap_seconds", p->global_idle_cap_seconds);
}

static aisim_status read_plays(const json_t *plays, aisim_corpus *corpus, aisim_error *err)
{
    aisim_status status = AISIM_OK;
    for (size_t i = 0; i < json_array_size(plays) && status == AISIM_OK; i++) {
        char *text = json_dumps(json_array_get(plays, i), JSON_COMPACT | JSON_REAL_PRECISION(17));
        status = aisim_corpus_add_text(corpus, text, strlen(text), "plays", (int)i + 1, err);
        free(text);
    }
    return status == AISIM_OK ? aisim_corpus_finish(corpus, err) : status;
}

static bool starts_later(const aisim_agentx_play *a, const aisim_agentx_play *b)
{
    return a->start_ns != b->start_ns ? a->start_ns > b->start_ns : a->lane > b->lane;
}

static void report(json_t *out, stub *s, const aisim_corpus *corpus, aisim_agentx *agentx,
                   const json_t *vector, const aisim_agentx_config *config)
{
    const aisim_agentx_report *r = aisim_agentx_report_get(agentx);
    json_t *plays = json_array();
    uint32_t *order = calloc(r->n_plays + 1, sizeof *order);
    for (uint32_t i = 0; i < r->n_plays; i++) { /* the vectors list them by (start, lane) */
        uint32_t at = i;
        for (; at > 0 && starts_later(&r->plays[order[at - 1]], &r->plays[i]); at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    for (uint32_t i = 0; i < r->n_plays; i++) {
        json_array_append_new(plays, play_row(&r->plays[order[i]]));
    }
    free(order);
    json_object_set(out, "dispatch", s->dispatch);
    json_object_set_new(out, "phases", phases(r));
    json_object_set_new(out, "counts", counts(r));
    json_object_set_new(out, "observation", observation(r));
    json_object_set_new(out, "shifts", shifts(r));
    json_object_set_new(out, "plays", plays);
    json_object_set_new(out, "edges", edges(corpus));
    json_object_set_new(
        out, "shared_blocks",
        shared_blocks(s, json_object_get(json_object_get(vector, "expect"), "shared_blocks"),
                      config->cache_identity == AISIM_IDENTITY_AFTER_SYSTEM));
    if (r->phase == AISIM_AGENTX_FAILED) {
        json_object_set_new(out, "failed", failure(corpus, r));
    }
}

static void run_vector(const json_t *vector)
{
    aisim_agentx_config config;
    aisim_error err = {0};
    const json_t *settings = json_object_get(vector, "config");
    const aisim_corpus_options reading = {
        .nested_timestamp_basis =
            is(settings, "nested_timestamp_basis", "absolute")   ? AISIM_BASIS_ABSOLUTE
            : is(settings, "nested_timestamp_basis", "relative") ? AISIM_BASIS_RELATIVE
                                                                 : AISIM_BASIS_AUTO,
        .align_inputs = is(settings, "align_inputs", "floor")  ? AISIM_ALIGN_FLOOR
                        : is(settings, "align_inputs", "ceil") ? AISIM_ALIGN_CEIL
                                                               : AISIM_ALIGN_NONE};
    aisim_corpus *corpus = aisim_corpus_new(&reading);
    stub s = {.server = json_object_get(vector, "server"), .dispatch = json_array()};
    aisim_agentx *agentx = NULL;
    AISIM_ARRAY(double) u = {0};
    read_config(json_object_get(vector, "config"), &config);
    const json_t *draws = json_object_get(vector, "u");
    for (size_t i = 0; i < json_array_size(draws); i++) {
        aisim_array_push(&u, json_number_value(json_array_get(draws, i)));
    }
    config.u = u.data;
    config.n_u = u.len;
    aisim_status status = read_plays(json_object_get(vector, "plays"), corpus, &err);
    const aisim_agentx_callbacks call = {.send = on_send, .cancel = on_cancel};
    if (status == AISIM_OK) {
        status = aisim_agentx_new(corpus, &config, &call, &s, &agentx, &err);
    }
    json_t *out = json_object();
    json_object_set(out, "name", json_object_get(vector, "name"));
    if (status == AISIM_OK) {
        run(&s, agentx);
        report(out, &s, corpus, agentx, vector, &config);
    } else {
        char text[2048];
        json_object_set_new(out, "refused", json_true());
        json_object_set_new(out, "error", json_string(aisim_error_format(&err, text, sizeof text)));
    }
    char *line = json_dumps(out, JSON_COMPACT | JSON_REAL_PRECISION(17));
    puts(line);
    free(line);
    json_decref(out);
    json_decref(s.dispatch);
    aisim_agentx_free(agentx);
    aisim_corpus_free(corpus);
    aisim_array_free(&u);
    aisim_array_free(&s.events);
    aisim_array_free(&s.sent);
}

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: agentx_driver FILE [N]\n");
        return 2;
    }
    size_t only = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    json_error_t problem;
    json_t *root = json_load_file(argv[1], 0, &problem);
    if (root == NULL) {
        fprintf(stderr, "agentx_driver: %s:%d: %s\n", argv[1], problem.line, problem.text);
        return 1;
    }
    const json_t *vectors = json_object_get(root, "vectors");
    for (size_t i = 0; i < json_array_size(vectors); i++) {
        const json_t *vector = json_array_get(vectors, i);
        if (is(vector, "kind", "agentx") && (only == 0 || only == i + 1)) {
            run_vector(vector);
        }
    }
    json_decref(root);
    return 0;
}
