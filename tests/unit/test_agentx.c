/* test_agentx.c - the AgentX client on a random stub server: accounting, order, readiness
 * (traffic 1.6, 2), and what the published vectors do not reach. */
#include <stdlib.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/rng.h"
#include "check.h"
#include "workload/agentx.h"
#include "workload/agentx_snapshot.h"

/* ---- a stub server and a log -------------------------------------------------------------------
 */

typedef struct answer {
    int64_t at_ns;
    uint64_t sequence;
    uint64_t handle;
    bool settles;
} answer;

typedef struct sent {
    aisim_agentx_request request;
    uint64_t handle;
    int64_t at_ns;
    int64_t end_ns; /* -1 = none */
    aisim_terminal_status status;
} sent;

typedef struct stub {
    aisim_agentx *agentx;
    aisim_rng rng;
    int64_t now_ns;
    uint64_t sequence;
    AISIM_ARRAY(answer) answers;
    AISIM_ARRAY(sent) log;
    uint64_t live_plays, most_plays, ended_plays;
    uint64_t failing; /* of 1000 profile requests */
    bool at_once;     /* every third request is answered inside send */
    bool lose;        /* cancellations are not acknowledged */
    int quiet_after;  /* server_quiet says no that many times */
    aisim_terminal_status fail_as;
} stub;

static void plan(stub *s, uint64_t handle, int64_t at_ns, bool settles)
{
    answer a = {.at_ns = at_ns, .sequence = s->sequence++, .handle = handle, .settles = settles};
    aisim_array_push(&s->answers, a);
}

static sent *find(stub *s, uint64_t handle)
{
    for (uint32_t i = s->log.len; i > 0; i--) {
        if (s->log.data[i - 1].handle == handle) {
            return &s->log.data[i - 1];
        }
    }
    return NULL;
}

static void finish(stub *s, uint64_t handle, aisim_terminal_status status)
{
    sent *r = find(s, handle);
    r->end_ns = s->now_ns;
    r->status = status;
    plan(s, handle, s->now_ns + (int64_t)aisim_rng_below(&s->rng, 3) * 50000000, true);
    aisim_agentx_terminal(s->agentx, handle, s->now_ns, status);
}

static void on_send(void *ctx, const aisim_agentx_request *request, uint64_t handle)
{
    stub *s = ctx;
    sent r = {.request = *request, .handle = handle, .at_ns = s->now_ns, .end_ns = -1};
    aisim_array_push(&s->log, r);
    if (s->at_once && request->phase == AISIM_AGENTX_PROFILE && s->log.len % 3 == 0) {
        finish(s, handle, AISIM_TERMINAL_COMPLETED);
        return;
    }
    plan(s, handle, s->now_ns + (int64_t)(1 + aisim_rng_below(&s->rng, 40)) * 100000000, false);
}

static void on_cancel(void *ctx, uint64_t handle)
{
    stub *s = ctx;
    for (uint32_t i = 0; i < s->answers.len; i++) {
        if (s->answers.data[i].handle == handle) {
            aisim_array_remove(&s->answers, i);
            break;
        }
    }
    if (!s->lose) {
        finish(s, handle, AISIM_TERMINAL_CANCELLED);
    }
}

static void on_play_start(void *ctx, const aisim_agentx_play *play)
{
    stub *s = ctx;
    (void)play;
    s->live_plays++;
    s->most_plays = s->live_plays > s->most_plays ? s->live_plays : s->most_plays;
}

static void on_play_end(void *ctx, const aisim_agentx_play *play)
{
    stub *s = ctx;
    s->live_plays--;
    s->ended_plays += play->status != AISIM_PLAY_INCOMPLETE;
}

static bool on_quiet(void *ctx)
{
    stub *s = ctx;
    return s->quiet_after-- <= 0;
}

static const aisim_agentx_callbacks CALLS = {.send = on_send,
                                             .cancel = on_cancel,
                                             .play_start = on_play_start,
                                             .play_end = on_play_end,
                                             .server_quiet = on_quiet};

static uint32_t next_answer(const stub *s)
{
    uint32_t best = AISIM_NONE;
    for (uint32_t i = 0; i < s->answers.len; i++) {
        const answer *a = &s->answers.data[i];
        if (best == AISIM_NONE || a->at_ns < s->answers.data[best].at_ns ||
            (a->at_ns == s->answers.data[best].at_ns &&
             a->sequence < s->answers.data[best].sequence)) {
            best = i;
        }
    }
    return best;
}

static void run(stub *s)
{
    while (true) {
        uint32_t next = next_answer(s);
        int64_t server_ns = next == AISIM_NONE ? AISIM_NEVER : s->answers.data[next].at_ns;
        int64_t client_ns = aisim_agentx_next_time_ns(s->agentx);
        if (aisim_agentx_done(s->agentx) && server_ns > s->now_ns) {
            return;
        }
        if (server_ns <= client_ns && server_ns != AISIM_NEVER) {
            answer a = s->answers.data[next];
            aisim_array_remove(&s->answers, next);
            s->now_ns = a.at_ns;
            if (a.settles) {
                aisim_agentx_settled(s->agentx, a.handle, s->now_ns);
            } else {
                bool profile = find(s, a.handle)->request.phase == AISIM_AGENTX_PROFILE;
                bool fails = profile && aisim_rng_below(&s->rng, 1000) < s->failing;
                finish(s, a.handle, fails ? s->fail_as : AISIM_TERMINAL_COMPLETED);
            }
        } else if (client_ns != AISIM_NEVER) {
            CHECK(client_ns >= s->now_ns);
            s->now_ns = client_ns;
            aisim_agentx_advance(s->agentx, client_ns);
        } else { /* the server is done but not quiet yet: look again a little later */
            CHECK_EQ(aisim_agentx_report_get(s->agentx)->phase, AISIM_AGENTX_SETTLE);
            s->now_ns += 1000000;
            aisim_agentx_advance(s->agentx, s->now_ns);
        }
    }
}

static void stub_free(stub *s)
{
    aisim_agentx_free(s->agentx);
    aisim_array_free(&s->answers);
    aisim_array_free(&s->log);
    s->agentx = NULL;
}

/* ---- random plays ------------------------------------------------------------------------------
 */

static uint32_t random_turns(aisim_rng *rng, char *out, size_t size, uint32_t n, uint64_t *t_ms,
                             uint32_t base, bool agents)
{
    uint32_t used = 0;
    uint32_t blocks = 1 + (uint32_t)aisim_rng_below(rng, 3);
    for (uint32_t i = 0; i < n; i++) {
        used += (uint32_t)snprintf(out + used, size - used, "%s", i > 0 ? "," : "");
        if (agents && i > 0 && aisim_rng_below(rng, 4) == 0) {
            uint64_t child_ms = *t_ms;
            bool blocking = aisim_rng_below(rng, 3) > 0;
            used +=
                (uint32_t)snprintf(out + used, size - used,
                                   "{\"t\":%.3f,\"type\":\"subagent\",\"agent_id\":\"x\","
                                   "\"status\":\"%s\",\"requests\":[",
                                   (double)*t_ms / 1e3, blocking ? "completed" : "async_launched");
            used +=
                random_turns(rng, out + used, size - used, 1 + (uint32_t)aisim_rng_below(rng, 3),
                             &child_ms, base + 1000 * (i + 1), false);
            used += (uint32_t)snprintf(out + used, size - used, "]}");
            *t_ms = blocking ? child_ms : *t_ms;
            continue;
        }
        uint64_t api_ms = aisim_rng_below(rng, 2000);
        used += (uint32_t)snprintf(out + used, size - used,
                                   "{\"t\":%.3f,\"type\":\"n\",\"model\":\"m\",\"in\":%u,\"out\":9,"
                                   "\"api_time\":%.3f,\"hash_runs\":[%u,%u]}",
                                   (double)*t_ms / 1e3, blocks * 64 + 3, (double)api_ms / 1e3, base,
                                   blocks);
        *t_ms += api_ms + aisim_rng_below(rng, 5) * aisim_rng_below(rng, 4000);
        blocks += (uint32_t)aisim_rng_below(rng, 3);
    }
    return used;
}

static aisim_corpus *random_corpus(aisim_rng *rng, uint32_t n)
{
    static char text[100000];
    aisim_corpus *corpus = aisim_corpus_new(NULL);
    aisim_error err = {0};
    for (uint32_t i = 0; i < n; i++) {
        uint64_t t_ms = 0;
        int used = snprintf(text, sizeof text,
                            "{\"id\":\"p%u\",\"block_size\":64,\"hash_id_scope\":\"local\","
                            "\"requests\":[",
                            i);
        used += (int)random_turns(rng, text + used, sizeof text - (size_t)used,
                                  1 + (uint32_t)aisim_rng_below(rng, 8), &t_ms, 0, true);
        snprintf(text + used, sizeof text - (size_t)used, "]}");
        CHECK_EQ(aisim_corpus_add_text(corpus, text, strlen(text), "random", (int)i, &err),
                 AISIM_OK);
    }
    CHECK_EQ(aisim_corpus_finish(corpus, &err), AISIM_OK);
    if (err.code != AISIM_OK) {
        printf("    %s\n", err.text);
        exit(1);
    }
    return corpus;
}

static aisim_agentx_config random_config(aisim_rng *rng)
{
    aisim_agentx_config config;
    aisim_agentx_config_default(&config);
    config.lanes = 1 + (uint32_t)aisim_rng_below(rng, 5);
    config.seed = aisim_rng_below(rng, 1000);
    config.t_star[0] = aisim_rng_unit(rng) / 2;
    config.t_star[1] = config.t_star[0] + aisim_rng_unit(rng) / 2;
    config.warmup = aisim_rng_below(rng, 4) > 0;
    config.warmup_requests_per_lane = (uint32_t)aisim_rng_below(rng, 4);
    config.warmup_mode = (aisim_warmup_mode)aisim_rng_below(rng, 2);
    config.profile =
        (aisim_agentx_profile){.duration_seconds = 20 + (double)aisim_rng_below(rng, 60),
                               .response_grace_seconds = (double)aisim_rng_below(rng, 3),
                               .cancel_drain_seconds = (double)aisim_rng_below(rng, 3),
                               .tree_idle_cap_seconds = aisim_rng_below(rng, 2) == 0 ? 2 : 1e6,
                               .global_idle_cap_seconds = aisim_rng_below(rng, 2) == 0 ? 1 : 1e6};
    config.speedup = aisim_rng_below(rng, 2) == 0 ? 1 : 0.3 + aisim_rng_unit(rng) * 3;
    config.authored_gate = aisim_rng_below(rng, 2) == 0;
    config.on_error = (aisim_on_error)aisim_rng_below(rng, 2);
    return config;
}

/* ---- properties --------------------------------------------------------------------------------
 */

/* traffic 2.6 */
static void check_accounting(const stub *s, const aisim_agentx_report *r, uint32_t lanes)
{
    CHECK_EQ(r->phase, AISIM_AGENTX_DONE);
    CHECK_EQ(r->issued, r->successful + r->failed + r->cancelled + r->in_flight);
    CHECK_EQ(r->planned, r->issued + r->never_issued);
    CHECK_EQ(r->plays_started, r->n_plays);
    CHECK_EQ(s->log.len, r->issued + r->primer_requests + r->warmup_requests);
    CHECK_EQ(s->most_plays, lanes);
    CHECK_EQ(s->live_plays, 0);
    aisim_agentx_play sum = {0};
    uint64_t completed = 0;
    uint64_t failed = 0;
    uint64_t retired = 0;
    for (uint32_t i = 0; i < r->n_plays; i++) {
        const aisim_agentx_play *p = &r->plays[i];
        sum.planned += p->planned;
        sum.issued += p->issued;
        sum.successful += p->successful;
        sum.failed += p->failed;
        sum.cancelled += p->cancelled;
        completed += p->status == AISIM_PLAY_COMPLETED;
        failed += p->status == AISIM_PLAY_FAILED;
        retired += p->end_ns >= 0;
        CHECK_EQ(p->slot, (uint64_t)p->k * lanes + p->lane);
        CHECK(i == 0 || r->plays[i - 1].start_ns < p->start_ns ||
              (r->plays[i - 1].start_ns == p->start_ns && r->plays[i - 1].lane < p->lane) ||
              r->plays[i - 1].start_ns == p->start_ns);
        CHECK((p->status == AISIM_PLAY_COMPLETED) == (p->e2e_ns >= 0));
        CHECK((p->status == AISIM_PLAY_FAILED) == (p->cause != AISIM_NONE));
    }
    CHECK_EQ(sum.planned, r->planned);
    CHECK_EQ(sum.issued, r->issued);
    CHECK_EQ(sum.successful, r->successful);
    CHECK_EQ(sum.failed, r->failed);
    CHECK_EQ(sum.cancelled, r->cancelled);
    CHECK_EQ(completed, r->plays_client_completed);
    CHECK_EQ(failed, r->plays_failed);
    CHECK_EQ(retired, r->plays_retired);
    CHECK(r->plays_server_quiescent <= r->plays_retired);
    CHECK(r->barrier_ns >= 0 && r->cutoff_ns > r->barrier_ns && r->grace_end_ns >= r->cutoff_ns &&
          r->drain_end_ns >= r->grace_end_ns);
}

static void check_sends(const stub *s, const aisim_agentx_report *r)
{
    for (uint32_t i = 0; i < s->log.len; i++) {
        const sent *x = &s->log.data[i];
        bool profile = x->request.phase == AISIM_AGENTX_PROFILE;
        CHECK(i == 0 || s->log.data[i - 1].at_ns <= x->at_ns);
        CHECK(profile ? x->at_ns >= r->barrier_ns && x->at_ns < r->cutoff_ns
                      : x->at_ns <= r->barrier_ns);
        CHECK(profile || x->request.output_tokens == 1);
    }
}

static const sent *find_turn(const stub *s, uint64_t slot, uint32_t request)
{
    for (uint32_t i = 0; i < s->log.len; i++) {
        const sent *x = &s->log.data[i];
        if (x->request.phase == AISIM_AGENTX_PROFILE && x->request.slot == slot &&
            x->request.request == request) {
            return x;
        }
    }
    return NULL;
}

/* traffic 1.6: without guards and failures a request of a play that began at turn zero is sent at
 * max(gate, edges), to the nanosecond. */
static void check_readiness(const stub *s, const aisim_agentx_report *r,
                            const aisim_agentx_config *config)
{
    for (uint32_t i = 0; i < s->log.len; i++) {
        const sent *x = &s->log.data[i];
        if (x->request.phase != AISIM_AGENTX_PROFILE || x->request.k == 0) {
            continue;
        }
        const aisim_play *play = x->request.play;
        const aisim_play_request *q = &play->requests[x->request.request];
        int64_t start_ns = -1;
        for (uint32_t p = 0; p < r->n_plays; p++) {
            start_ns = r->plays[p].slot == x->request.slot ? r->plays[p].start_ns : start_ns;
        }
        int64_t ready_ns = start_ns;
        if (config->authored_gate) {
            ready_ns +=
                aisim_agentx_scaled_ns(config, q->start_ns - play->requests[play->root].start_ns);
        }
        for (uint32_t e = 0; e < q->in_edges; e++) {
            const aisim_play_edge *edge = &play->edges[q->in_first + e];
            const sent *source = find_turn(s, x->request.slot, edge->source);
            CHECK(source != NULL);
            int64_t trigger_ns =
                edge->trigger == AISIM_TRIGGER_DISPATCH ? source->at_ns : source->end_ns;
            int64_t at_ns = trigger_ns + aisim_agentx_scaled_ns(config, edge->delay_ns);
            ready_ns = at_ns > ready_ns ? at_ns : ready_ns;
        }
        CHECK_EQ(x->at_ns, ready_ns);
    }
}

static void run_random(uint32_t number, bool checks_readiness)
{
    aisim_rng rng = aisim_rng_named(number, "agentx");
    aisim_corpus *corpus = random_corpus(&rng, 1 + (uint32_t)aisim_rng_below(&rng, 6));
    aisim_agentx_config config = random_config(&rng);
    uint64_t failing = checks_readiness ? 0 : aisim_rng_below(&rng, 3) * 50;
    bool lose = aisim_rng_below(&rng, 3) == 0;
    bool at_once = !checks_readiness && aisim_rng_below(&rng, 3) == 0;
    aisim_terminal_status fail_as =
        aisim_rng_below(&rng, 2) == 0 ? AISIM_TERMINAL_OVERFLOW : AISIM_TERMINAL_FAILED;
    if (checks_readiness) {
        config.profile.tree_idle_cap_seconds = config.profile.global_idle_cap_seconds = 1e6;
    }
    uint64_t digest[2] = {0, 0};
    for (int round = 0; round < 2; round++) {
        stub s = {.rng = aisim_rng_named(number, "stub"),
                  .failing = failing,
                  .lose = lose,
                  .at_once = at_once,
                  .quiet_after = (int)(number % 3),
                  .fail_as = fail_as};
        aisim_error err = {0};
        aisim_status status = aisim_agentx_new(corpus, &config, &CALLS, &s, &s.agentx, &err);
        if (status != AISIM_OK) { /* a cut that history crosses */
            CHECK_EQ(status, AISIM_EINVAL);
            stub_free(&s);
            break;
        }
        run(&s);
        const aisim_agentx_report *r = aisim_agentx_report_get(s.agentx);
        check_accounting(&s, r, config.lanes);
        check_sends(&s, r);
        if (checks_readiness) {
            check_readiness(&s, r, &config);
        }
        for (uint32_t i = 0; i < s.log.len; i++) {
            digest[round] =
                aisim_mix64(digest[round] ^ (uint64_t)s.log.data[i].at_ns ^
                            s.log.data[i].request.slot << 40 ^ s.log.data[i].request.request);
        }
        stub_free(&s);
    }
    CHECK(digest[0] == digest[1]); /* the same run twice */
    aisim_corpus_free(corpus);
}

/* ---- single cases ------------------------------------------------------------------------------
 */

static aisim_corpus *corpus_of(const char *requests)
{
    static char text[4000];
    snprintf(text, sizeof text,
             "{\"id\":\"a\",\"block_size\":64,\"hash_id_scope\":\"local\",\"requests\":[%s]}",
             requests);
    aisim_corpus *corpus = aisim_corpus_new(NULL);
    aisim_error err = {0};
    CHECK_EQ(aisim_corpus_add_text(corpus, text, strlen(text), "case", 1, &err), AISIM_OK);
    CHECK_EQ(aisim_corpus_finish(corpus, &err), AISIM_OK);
    return corpus;
}

#define AT(t, more) "{\"t\":" #t ",\"type\":\"n\",\"model\":\"m\",\"in\":99,\"out\":9" more "}"

static void test_config(void)
{
    aisim_corpus *corpus = corpus_of(AT(0, ""));
    static const char *const keys[] = {"lanes",
                                       "t_star",
                                       "t_star",
                                       "speedup",
                                       "speedup",
                                       "duration_seconds",
                                       "response_grace_seconds",
                                       "cancel_drain_seconds",
                                       "tree_idle_cap_seconds",
                                       "global_idle_cap_seconds",
                                       "u[1]"};
    const double u[] = {0.5, 1.5};
    for (int i = 0; i < 11; i++) {
        aisim_agentx_config c;
        aisim_agentx_config_default(&c);
        c.lanes = i == 0 ? 0 : 2;
        c.t_star[0] = i == 1 ? 0.8 : 0.25;
        c.t_star[1] = i == 2 ? 1.01 : 0.75;
        c.speedup = i == 3 ? 0 : i == 4 ? 1e-310 : 1;
        c.profile.duration_seconds = i == 5 ? 0 : 10;
        c.profile.response_grace_seconds = i == 6 ? -1 : 0;
        c.profile.cancel_drain_seconds = i == 7 ? (double)NAN : 0;
        c.profile.tree_idle_cap_seconds = i == 8 ? 0 : 1;
        c.profile.global_idle_cap_seconds = i == 9 ? (double)INFINITY : 1;
        c.u = i == 10 ? u : NULL;
        c.n_u = i == 10 ? 2 : 0;
        aisim_error err = {0};
        aisim_agentx *agentx = NULL;
        CHECK_EQ(aisim_agentx_new(corpus, &c, &CALLS, NULL, &agentx, &err), AISIM_ERANGE);
        CHECK(agentx == NULL && strstr(err.text, keys[i]) != NULL);
    }
    aisim_corpus_free(corpus);
}

static void test_presets(void)
{
    aisim_error err = {0};
    aisim_agentx_config c;
    aisim_agentx_config_default(&c);
    c.lanes = 7;
    CHECK_EQ(aisim_agentx_config_preset(&c, "agentx-harness", &err), AISIM_OK);
    CHECK(c.lanes == 7 && c.profile.duration_seconds == 1800 && c.t_star[0] == 0 &&
          c.t_star[1] == 1 && !c.authored_gate && c.warmup_mode == AISIM_WARMUP_ADVANCE);
    CHECK_EQ(aisim_agentx_config_preset(&c, "agentx-fast", &err), AISIM_OK);
    CHECK(c.profile.duration_seconds == 1200 && c.warmup_requests_per_lane == 1 &&
          c.t_star[1] == 0.75 && c.authored_gate);
    CHECK_EQ(aisim_agentx_config_preset(&c, "agentx-v1", &err), AISIM_OK);
    CHECK(c.profile.duration_seconds == 3600 && c.warmup_requests_per_lane == 10);
    CHECK_EQ(aisim_agentx_config_preset(&c, "agentx-v2", &err), AISIM_EINVAL);
    CHECK(strstr(err.text, "agentx-harness") != NULL);
}

/* traffic 2.2: every lane has its own draw, and a new lane does not move the others. */
static void test_draws(void)
{
    aisim_corpus *corpus =
        corpus_of(AT(0, "") "," AT(1, "") "," AT(2, "") "," AT(3, "") "," AT(4, "") "," AT(
            5, "") "," AT(6, "") "," AT(7, "") "," AT(8, "") "," AT(9, "") "," AT(10, ""));
    uint32_t first[2][8];
    for (int round = 0; round < 2; round++) {
        aisim_agentx_config c;
        aisim_agentx_config_default(&c);
        c.lanes = round == 0 ? 8 : 4;
        c.t_star[0] = 0;
        c.t_star[1] = 1;
        c.warmup_requests_per_lane = 0;
        c.profile.duration_seconds = 1;
        stub s = {.rng = aisim_rng_named(1, "draws")};
        aisim_error err = {0};
        CHECK_EQ(aisim_agentx_new(corpus, &c, &CALLS, &s, &s.agentx, &err), AISIM_OK);
        run(&s);
        for (uint32_t i = 0; i < 8; i++) {
            first[round][i] = AISIM_NONE;
        }
        for (uint32_t i = 0; i < s.log.len; i++) {
            const aisim_agentx_request *r = &s.log.data[i].request;
            if (r->phase == AISIM_AGENTX_PRIMER) {
                first[round][r->lane] = r->request;
            }
        }
        stub_free(&s);
    }
    uint32_t different = 0;
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_EQ(first[0][i], first[1][i]);
    }
    for (uint32_t i = 1; i < 8; i++) {
        different += first[0][i] != first[0][0];
    }
    CHECK(different >= 3);
    aisim_corpus_free(corpus);
}

/* traffic 2.5, continue: a context overflow ends its conversation; the parent goes on. */
static void test_overflow(void)
{
    aisim_corpus *corpus = corpus_of(AT(
        0, ",\"api_time\":1") ",{\"t\":2,\"type\":\"subagent\",\"agent_id\":\"x\",\"status\":"
                              "\"completed\",\"requests\":[" AT(2, ",\"api_time\":1") "," AT(
                                  4, ",\"api_time\":1") "," AT(6, ",\"api_time\":1") "]}," AT(8,
                                                                                              ""));
    aisim_agentx_config c;
    aisim_agentx_config_default(&c);
    c.lanes = 1;
    c.t_star[0] = c.t_star[1] = 0;
    c.warmup = false;
    c.on_error = AISIM_ON_ERROR_CONTINUE;
    c.profile.duration_seconds = 100;
    stub s = {.rng = aisim_rng_named(1, "overflow")};
    aisim_error err = {0};
    CHECK_EQ(aisim_agentx_new(corpus, &c, &CALLS, &s, &s.agentx, &err), AISIM_OK);
    static const char *const order[] = {"0.0/outer:0", "0.0/outer:1:inner:0", "0.0/outer:2",
                                        "0.1/outer:0"};
    for (uint32_t i = 0; i < 4; i++) {
        while (s.log.len == i) {
            s.now_ns = aisim_agentx_next_time_ns(s.agentx);
            aisim_agentx_advance(s.agentx, s.now_ns);
        }
        char key[96];
        CHECK_STR(aisim_agentx_request_key(&s.log.data[i].request, key), order[i]);
        s.now_ns += 1000000;
        finish(&s, s.log.data[i].handle,
               i == 1 ? AISIM_TERMINAL_OVERFLOW : AISIM_TERMINAL_COMPLETED);
    }
    const aisim_agentx_report *r = aisim_agentx_report_get(s.agentx);
    CHECK_EQ(r->plays[0].status, AISIM_PLAY_COMPLETED);
    CHECK_EQ(r->plays[0].failed, 1);
    CHECK_EQ(r->plays[0].planned - r->plays[0].issued, 2);
    CHECK_EQ(s.log.data[2].at_ns, 8000000000); /* the authored gate still holds */
    stub_free(&s);
    aisim_corpus_free(corpus);
}

/* traffic 2.3: the server may need longer than its settlements say. */
static void test_server_quiet(void)
{
    aisim_corpus *corpus = corpus_of(AT(0, "") "," AT(1, ""));
    aisim_agentx_config c;
    aisim_agentx_config_default(&c);
    c.lanes = 1;
    c.profile.duration_seconds = 1;
    stub s = {.rng = aisim_rng_named(1, "quiet"), .quiet_after = 5};
    aisim_error err = {0};
    CHECK_EQ(aisim_agentx_new(corpus, &c, &CALLS, &s, &s.agentx, &err), AISIM_OK);
    run(&s);
    const aisim_agentx_report *r = aisim_agentx_report_get(s.agentx);
    CHECK(s.quiet_after < 0);
    CHECK(r->barrier_ns > r->warmup_end_ns);
    CHECK_EQ(r->phase, AISIM_AGENTX_DONE);
    stub_free(&s);
    aisim_corpus_free(corpus);
}

/* forget_plays keeps the counts and drops the lists. */
static void test_forget(void)
{
    aisim_rng rng = aisim_rng_named(3, "forget");
    aisim_corpus *corpus = random_corpus(&rng, 3);
    uint64_t issued[2];
    for (int round = 0; round < 2; round++) {
        aisim_agentx_config c;
        aisim_agentx_config_default(&c);
        c.lanes = 2;
        c.t_star[0] = c.t_star[1] = 0;
        c.profile.duration_seconds = 200;
        c.forget_plays = round == 1;
        stub s = {.rng = aisim_rng_named(1, "forget")};
        aisim_error err = {0};
        CHECK_EQ(aisim_agentx_new(corpus, &c, &CALLS, &s, &s.agentx, &err), AISIM_OK);
        run(&s);
        const aisim_agentx_report *r = aisim_agentx_report_get(s.agentx);
        issued[round] = r->issued;
        CHECK((r->n_plays == 0) == c.forget_plays);
        CHECK_EQ(s.ended_plays, r->plays_retired);
        stub_free(&s);
    }
    CHECK_EQ(issued[0], issued[1]);
    aisim_corpus_free(corpus);
}

int main(void)
{
    test_config();
    test_presets();
    test_draws();
    test_overflow();
    test_server_quiet();
    test_forget();
    for (uint32_t i = 0; i < 150; i++) {
        run_random(i, false);
        run_random(1000 + i, true);
    }
    return check_done();
}
