/* test_handoff_ends.c - hand-offs that do not go through: refused, cancelled in every stage, either
 * end stopped or drained; nothing is left behind. */
#include "handoff_support.h"

/* ---- refused -----------------------------------------------------------------------------------
 */

static void test_rejections(void)
{
    story l = {0};
    aisim_sim *sim = make(&(setup){.prefill_blocks = 6,
                                   .decode_blocks = 4,
                                   .context = 40,
                                   .decode_context = 24,
                                   .link = LINK_FULL},
                          &l);
    submit(sim, 0, 1, 24, 2);  /* P >= M of the decode rank */
    submit(sim, 10, 2, 17, 2); /* five blocks of four */
    submit(sim, 20, 3, 40, 2); /* P >= M of the prefill rank: no output, no hand-off */
    submit(sim, 30, 4, 0, 2);
    submit(sim, 40, 5, 16, 9); /* its second token needs a fifth block */
    run(sim);
    CHECK(l.rejected == 5);
    CHECK(strstr(l.text, "0 route 1>1|0 route 1>2|0 reject 1 context|") == l.text);
    CHECK(strstr(l.text, "10 reject 2 capacity|") != NULL);
    CHECK(strstr(l.text, "20 route 3>1|") != NULL && strstr(l.text, " reject 3 context|") != NULL);
    CHECK(strstr(l.text, "30 reject 4 empty|") != NULL);
    CHECK(strstr(l.text, " reject 5 capacity|") != NULL);
}

static void test_refused_by_the_prefill_rank(void)
{
    story l = {0};
    aisim_sim *sim = make(&(setup){.prefill_blocks = 2, .link = LINK_FULL}, &l);
    submit(sim, 0, 1, 12, 5); /* three blocks of two: its reservation goes back */
    run(sim);
    CHECK_STR(l.text, "0 route 1>1|0 route 1>2|0 reject 1 capacity|");
}

static void test_context_ends_with_the_first_token(void)
{
    story l = {0};
    aisim_sim *sim = make(&(setup){.context = 40, .decode_context = 11, .link = LINK_FULL}, &l);
    submit(sim, 0, 1, 10, 5);
    run(sim);
    CHECK(strstr(l.text, "10 first 1@1|10 context 1@1 1|") != NULL);
    CHECK(strstr(l.text, "transfer") == NULL);
}

static void test_pools(void)
{
    aisim_error err = {0};
    aisim_run_options options = {.until_ns = AISIM_NEVER};
    aisim_sim *sim = aisim_sim_new(1);
    add_pool(sim, "prefill", AISIM_ROLE_PREFILL, 1, 0, 0, 10, 5);
    CHECK(aisim_sim_run(sim, &options, &err) == AISIM_EINVAL);
    CHECK_STR(err.text, "pool 'prefill' of role prefill has no partner: add a pool of role decode");
    aisim_pool_config second = {.name = "p2", .role = AISIM_ROLE_PREFILL, .workers = 1};
    aisim_rank_config_default(&second.rank);
    second.rank.kv.blocks = 10;
    err = (aisim_error){0};
    CHECK(aisim_sim_pool_add(sim, &second, NULL, &err) == AISIM_EEXIST);
    CHECK(strstr(err.text, "there is a pool of role prefill already ('prefill')") != NULL);
    aisim_sim_free(sim);
}

/* ---- cancel, stop, drain -----------------------------------------------------------------------
 */

typedef struct order {
    aisim_handle handle;
    uint32_t worker;
    aisim_worker_command command;
} order;

static void cancel_now(void *context, aisim_sim *sim, int64_t t_ns)
{
    (void)t_ns;
    aisim_sim_cancel(sim, ((order *)context)->handle);
}

static void command_now(void *context, aisim_sim *sim, int64_t t_ns)
{
    const order *o = context;
    (void)t_ns;
    aisim_sim_worker(sim, o->worker, o->command);
}

static void at(aisim_sim *sim, double t_ms, aisim_timer_fn fn, order *o)
{
    aisim_sim_timer(sim, aisim_ns_from_ms(t_ms), AISIM_CLASS_TIMER, false, fn, o);
}

static void test_cancel_in_every_stage(void)
{
    /* prefill 0 to 10, transfer to 20, decode from 20 on; the second waits for the blocks of the
     * first, the third behind it */
    static const double times[] = {5, 10, 15, 22, 40};
    static const char *const stages[] = {"prefill", "held", "transfer", "decode", "over"};
    for (uint32_t i = 0; i < 5; i++) {
        story l = {0};
        aisim_sim *sim = make(&(setup){.decode_blocks = 4, .link = LINK_FULL}, &l);
        order first = {.handle = submit(sim, 0, 1, 10, 3)};
        submit(sim, 0, 2, 10, 2);
        at(sim, times[i], cancel_now, &first);
        run(sim);
        CHECK_EQ(l.cancelled, i < 4);
        CHECK_EQ(l.finished, i < 4 ? 1 : 2);
        CHECK((strstr(l.text, "arrived 1") != NULL) == (i >= 3) || (puts(stages[i]), false));
    }
    story l = {0};
    aisim_sim *sim = make(&(setup){.decode_blocks = 4, .link = LINK_FULL}, &l);
    submit(sim, 0, 1, 10, 3);
    order pending = {.handle = submit(sim, 0, 2, 10, 2)};
    submit(sim, 0, 3, 10, 2);
    at(sim, 7, cancel_now, &pending);
    run(sim);
    CHECK(l.cancelled == 1 && l.finished == 2);
    CHECK(strstr(l.text, "7 cancelled 2@0 0|") != NULL);
}

static void test_cancel_at_the_router(void)
{
    story l = {0};
    aisim_sim *sim = make(&(setup){.link = LINK_FULL}, &l);
    order decode = {.worker = 1, .command = AISIM_WORKER_STOP};
    order again = {.worker = 1, .command = AISIM_WORKER_RESUME};
    at(sim, 0, command_now, &decode);
    order first = {.handle = submit(sim, 1, 1, 10, 3)}; /* waits at the decode router */
    submit(sim, 1, 2, 10, 3);
    at(sim, 5, cancel_now, &first);
    at(sim, 9, command_now, &again);
    run(sim);
    CHECK_STR(l.text, "0 worker 2 stopped|1 route 1>1|1 route 2>1|5 cancelled 1@0 0|"
                      "9 worker 2 ready|9 route 2>2|19 admit 2@1 reused 0 waited 8|19 first 2@1|"
                      "19 transfer 2 1>2 10000 kB|29 arrived 2 1>2 10000 kB|"
                      "34 admit 2@2 reused 10 waited 0|39 length 2@2 3|");
}

/* Either end is lost in every stage: the request starts again at the other worker of the pool. */
static void test_stop(void)
{
    static const double times[] = {5, 10, 15, 22, 27};
    for (uint32_t worker = 0; worker < 4; worker += 2) { /* prefill 1, decode 1 of two each */
        for (uint32_t i = 0; i < 5; i++) {
            story l = {0};
            aisim_sim *sim = make(&(setup){.prefill = 2, .decode = 2, .link = LINK_FULL}, &l);
            submit(sim, 0, 1, 10, 4);
            order o = {.worker = worker, .command = AISIM_WORKER_STOP};
            at(sim, times[i], command_now, &o);
            run(sim);
            CHECK_EQ(l.finished, 1);
            bool lost = worker == 2 || times[i] < 20; /* the source is free from 20 on */
            CHECK((strstr(l.text, "route 1>2|") != NULL) == lost || (puts(l.text), false));
            CHECK(strstr(l.text, " 4|") != NULL); /* four tokens, counted once */
        }
    }
}

static void test_stop_keeps_tokens(void)
{
    story l = {0};
    aisim_sim *sim = make(&(setup){.prefill = 2, .decode = 2, .link = LINK_FULL}, &l);
    submit(sim, 0, 1, 10, 4);
    order o = {.worker = 2, .command = AISIM_WORKER_STOP};
    at(sim, 27, command_now, &o); /* two tokens are out; the pass in flight is lost */
    run(sim);
    /* the other prefill worker computes 12 tokens and gives none, 12 are transferred */
    CHECK_STR(l.text, "0 route 1>1|0 route 1>3|10 admit 1@1 reused 0 waited 0|10 first 1@1|"
                      "10 transfer 1 1>3 10000 kB|20 arrived 1 1>3 10000 kB|"
                      "25 admit 1@3 reused 10 waited 0|27 worker 3 stopped|27 route 1>2|"
                      "27 route 1>4|37 admit 1@2 reused 0 waited 0|37 transfer 1 2>4 12000 kB|"
                      "49 arrived 1 2>4 12000 kB|54 admit 1@4 reused 10 waited 0|59 length 1@4 4|");
}

static void test_drain(void)
{
    story l = {0};
    aisim_sim *sim = make(&(setup){.prefill = 2, .decode = 2, .link = LINK_FULL}, &l);
    submit(sim, 0, 1, 10, 3);
    order source = {.worker = 0, .command = AISIM_WORKER_DRAIN};
    order target = {.worker = 2, .command = AISIM_WORKER_DRAIN};
    at(sim, 5, command_now, &source);
    at(sim, 5, command_now, &target);
    submit(sim, 6, 2, 10, 3);
    run(sim);
    CHECK(strstr(l.text, "20 arrived 1 1>3 10000 kB|20 worker 1 drained|") != NULL);
    CHECK(strstr(l.text, "30 length 1@3 3|30 worker 3 drained|") != NULL);
    CHECK(strstr(l.text, "6 route 2>2|6 route 2>4|") != NULL);
}

int main(void)
{
    test_rejections();
    test_refused_by_the_prefill_rank();
    test_context_ends_with_the_first_token();
    test_pools();
    test_cancel_in_every_stage();
    test_cancel_at_the_router();
    test_stop();
    test_stop_keeps_tokens();
    test_drain();
    return check_done();
}
