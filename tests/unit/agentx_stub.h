/* agentx_stub.h - a random stub server for the tests of the AgentX client, and random plays.
 *
 * The stub answers after a random time, keeps a log of everything that was sent, and can fail,
 * answer inside send, or swallow cancellations. */
#ifndef AISIM_TESTS_AGENTX_STUB_H
#define AISIM_TESTS_AGENTX_STUB_H

#include <stdlib.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/rng.h"
#include "check.h"
#include "workload/agentx.h"

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

static inline void plan(stub *s, uint64_t handle, int64_t at_ns, bool settles)
{
    answer a = {.at_ns = at_ns, .sequence = s->sequence++, .handle = handle, .settles = settles};
    aisim_array_push(&s->answers, a);
}

static inline sent *find(stub *s, uint64_t handle)
{
    for (uint32_t i = s->log.len; i > 0; i--) {
        if (s->log.data[i - 1].handle == handle) {
            return &s->log.data[i - 1];
        }
    }
    return NULL;
}

static inline void finish(stub *s, uint64_t handle, aisim_terminal_status status)
{
    sent *r = find(s, handle);
    r->end_ns = s->now_ns;
    r->status = status;
    plan(s, handle, s->now_ns + (int64_t)aisim_rng_below(&s->rng, 3) * 50000000, true);
    aisim_agentx_terminal(s->agentx, handle, s->now_ns, status);
}

static inline void on_send(void *ctx, const aisim_agentx_request *request, uint64_t handle)
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

static inline void on_cancel(void *ctx, uint64_t handle)
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

static inline void on_play_start(void *ctx, const aisim_agentx_play *play)
{
    stub *s = ctx;
    (void)play;
    s->live_plays++;
    s->most_plays = s->live_plays > s->most_plays ? s->live_plays : s->most_plays;
}

static inline void on_play_end(void *ctx, const aisim_agentx_play *play)
{
    stub *s = ctx;
    s->live_plays--;
    s->ended_plays += play->status != AISIM_PLAY_INCOMPLETE;
}

static inline bool on_quiet(void *ctx)
{
    stub *s = ctx;
    return s->quiet_after-- <= 0;
}

static const aisim_agentx_callbacks CALLS = {.send = on_send,
                                             .cancel = on_cancel,
                                             .play_start = on_play_start,
                                             .play_end = on_play_end,
                                             .server_quiet = on_quiet};

static inline uint32_t next_answer(const stub *s)
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

static inline void run(stub *s)
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

static inline void stub_free(stub *s)
{
    aisim_agentx_free(s->agentx);
    aisim_array_free(&s->answers);
    aisim_array_free(&s->log);
    s->agentx = NULL;
}

/* ---- random plays ------------------------------------------------------------------------------
 */

static inline uint32_t random_turns(aisim_rng *rng, char *out, size_t size, uint32_t n,
                                    uint64_t *t_ms, uint32_t base, bool agents)
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

static inline aisim_corpus *random_corpus(aisim_rng *rng, uint32_t n)
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

static inline aisim_agentx_config random_config(aisim_rng *rng)
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

#endif
