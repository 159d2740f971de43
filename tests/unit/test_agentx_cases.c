/* test_agentx_cases.c - what the published AgentX vectors do not reach (traffic 2). */
#include "agentx_stub.h"

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
    return check_done();
}
