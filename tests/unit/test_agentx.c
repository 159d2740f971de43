/* test_agentx.c - the AgentX client on a random stub server: accounting, order, readiness,
 * determinism (traffic 1.6, 2.4, 2.6). */
#include "agentx_stub.h"

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

int main(void)
{
    for (uint32_t i = 0; i < 150; i++) {
        run_random(i, false);
        run_random(1000 + i, true);
    }
    return check_done();
}
