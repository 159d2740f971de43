/* test_handoff.c - prefill and decode pools in a whole simulation (engine.md §15, routing.md §5):
 * exact times of each stage, both ends of every way to fail, and what must be left behind. */
#include <stdarg.h>
#include <stdio.h>

#include "aisim/sim.h"
#include "base/clock.h"
#include "base/map.h"
#include "check.h"
#include "timing/timing.h"

/* ---- a small deployment ----------------------------------------------------------------------- */

typedef struct setup {
    uint32_t prefill, decode;               /* workers, 1 */
    uint64_t prefill_blocks, decode_blocks; /* 100 */
    uint64_t context, decode_context;       /* 0 = no limit */
    aisim_handoff_config link;
} setup;

typedef struct story {
    char text[4096];
    size_t len;
    uint64_t bytes;
    uint32_t finished, rejected, cancelled;
} story;

static void say(story *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    s->len += (size_t)vsnprintf(s->text + s->len, sizeof s->text - s->len, format, args);
    va_end(args);
}

static void observe(void *context, const aisim_event *event)
{
    story *s = context;
    double t = aisim_ms_from_ns(event->t_ns);
    uint32_t id = event->request == NULL ? 0 : event->request->id;
    uint32_t at = event->rank == AISIM_NONE ? 0 : event->rank + 1;
    switch (event->type) {
    case AISIM_EV_ROUTE:
        say(s, "%g route %u>%u|", t, id, event->u.route.worker + 1);
        break;
    case AISIM_EV_ADMIT:
        say(s, "%g admit %u@%u reused %u waited %g|", t, id, at, event->u.admit.reused_tokens,
            aisim_ms_from_ns(event->u.admit.wait_ns));
        break;
    case AISIM_EV_FIRST_TOKEN:
        say(s, "%g first %u@%u|", t, id, at);
        break;
    case AISIM_EV_TRANSFER_START:
    case AISIM_EV_TRANSFER_END:
        say(s, "%g %s %u %u>%u %g kB|", t,
            event->type == AISIM_EV_TRANSFER_START ? "transfer" : "arrived", id,
            event->u.transfer.src + 1, event->u.transfer.dst + 1,
            (double)event->u.transfer.bytes / 1e3);
        s->bytes += event->type == AISIM_EV_TRANSFER_END ? event->u.transfer.bytes : 0;
        break;
    case AISIM_EV_FINISH:
        say(s, "%g %s %u@%u %u|", t, aisim_end_reason_text((aisim_end_reason)event->request->end),
            id, at, event->request->generated);
        s->finished += event->request->end != AISIM_END_CANCELLED;
        s->cancelled += event->request->end == AISIM_END_CANCELLED;
        break;
    case AISIM_EV_REJECT:
        say(s, "%g reject %u %s|", t, id,
            aisim_end_reason_text((aisim_end_reason)event->request->end));
        s->rejected++;
        break;
    case AISIM_EV_WORKER_STATE:
        say(s, "%g worker %u %s|", t, event->u.worker.worker + 1, event->u.worker.to);
        break;
    case AISIM_EV_PREEMPT:
        say(s, "%g preempt %u@%u|", t, id, at);
        break;
    default:
        break;
    }
}

static void add_pool(aisim_sim *sim, const char *name, aisim_role role, uint32_t workers,
                     uint64_t blocks, uint64_t context, double prefill_ms, double decode_ms)
{
    aisim_error err = {0};
    aisim_pool_config config = {.name = name, .role = role, .workers = workers > 0 ? workers : 1};
    aisim_rank_config_default(&config.rank);
    config.rank.kv.block_size = 4;
    config.rank.kv.blocks = blocks > 0 ? blocks : 100;
    config.rank.scheduler.context_length = context;
    CHECK(aisim_timing_fixed(prefill_ms, decode_ms, &config.timing, &err) == AISIM_OK);
    CHECK(aisim_sim_pool_add(sim, &config, NULL, &err) == AISIM_OK);
}

/* Prefill workers first; prefill passes 10 ms, decode passes 5 ms. */
static aisim_sim *make(const setup *s, story *l)
{
    aisim_sim *sim = aisim_sim_new(1);
    add_pool(sim, "prefill", AISIM_ROLE_PREFILL, s->prefill, s->prefill_blocks, s->context, 10, 5);
    add_pool(sim, "decode", AISIM_ROLE_DECODE, s->decode, s->decode_blocks,
             s->decode_context > 0 ? s->decode_context : s->context, 10, 5);
    aisim_sim_handoff(sim, &s->link);
    static const aisim_event_type wanted[] = {
        AISIM_EV_ROUTE,        AISIM_EV_ADMIT,  AISIM_EV_FIRST_TOKEN,  AISIM_EV_TRANSFER_START,
        AISIM_EV_TRANSFER_END, AISIM_EV_FINISH, AISIM_EV_REJECT,       AISIM_EV_WORKER_STATE,
        AISIM_EV_PREEMPT};
    aisim_observer observer = {.context = l, .fn = observe};
    for (uint32_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        observer.mask |= AISIM_EV_BIT(wanted[i]);
    }
    aisim_observers *observers = aisim_sim_observers(sim);
    observers->list[observers->n++] = observer;
    aisim_observers_update(observers);
    return sim;
}

static aisim_handle submit(aisim_sim *sim, double at_ms, uint64_t name, uint32_t prompt,
                           uint32_t output)
{
    aisim_error err = {0};
    aisim_handle handle;
    aisim_node node =
        aisim_content_append_named(aisim_sim_content(sim), AISIM_ROOT, name, prompt);
    aisim_submit request = {.at_ns = aisim_ns_from_ms(at_ms),
                            .content = node,
                            .prompt_tokens = prompt,
                            .output_tokens = output,
                            .client = AISIM_NO_CLIENT};
    CHECK(aisim_sim_submit(sim, &request, &handle, &err) == AISIM_OK);
    aisim_content_release(aisim_sim_content(sim), node.run);
    return handle;
}

/* To the end; nobody holds anything afterwards. */
static void run(aisim_sim *sim)
{
    aisim_error err = {0};
    aisim_run_options options = {.until_ns = AISIM_NEVER};
    CHECK(aisim_sim_run(sim, &options, &err) == AISIM_OK);
    CHECK_STR(err.text, "");
    aisim_sim_stats stats;
    aisim_sim_stats_get(sim, &stats);
    CHECK_EQ(stats.requests_live, 0);
    for (uint32_t i = 0; i < aisim_sim_ranks(sim); i++) {
        aisim_rank_view view;
        aisim_sim_rank(sim, i, &view);
        CHECK_EQ(view.kv_active, 0);
        CHECK_EQ(view.active_requests, 0);
        CHECK_EQ(view.active_prefill_tokens, 0);
        CHECK_EQ(view.waiting + view.running, 0);
    }
    aisim_sim_free(sim);
}

/* 1,000,000 bytes per token on 1 GB/s: a millisecond per token. */
static const aisim_handoff_config link_full = {.gb_per_second = 1, .bytes_per_token = 1e6};
static const aisim_handoff_config link_missing = {
    .gb_per_second = 1, .bytes_per_token = 1e6, .timing = AISIM_HANDOFF_DESTINATION_MISSING};

/* ---- the way through --------------------------------------------------------------------------- */

static void test_way(void)
{
    story l = {0};
    aisim_sim *sim = make(&(setup){.link = link_full}, &l);
    submit(sim, 0, 1, 10, 3);
    run(sim);
    CHECK_STR(l.text, "0 route 1>1|0 route 1>2|10 admit 1@1 reused 0 waited 0|10 first 1@1|"
                      "10 transfer 1 1>2 10000 kB|20 arrived 1 1>2 10000 kB|"
                      "25 admit 1@2 reused 10 waited 0|30 length 1@2 3|");
}

static void test_missing_in_whole_blocks(void) /* §15: P = 10, b = 4: missing 12 */
{
    story l = {0};
    aisim_sim *sim = make(&(setup){.link = link_missing}, &l);
    submit(sim, 0, 1, 10, 2);
    submit(sim, 100, 1, 10, 2); /* two of three blocks are there already */
    run(sim);
    CHECK_STR(l.text, "0 route 1>1|0 route 1>2|10 admit 1@1 reused 0 waited 0|10 first 1@1|"
                      "10 transfer 1 1>2 12000 kB|22 arrived 1 1>2 12000 kB|"
                      "27 admit 1@2 reused 10 waited 0|27 length 1@2 2|"
                      "100 route 2>1|100 route 2>2|110 admit 2@1 reused 8 waited 0|110 first 2@1|"
                      "110 transfer 2 1>2 4000 kB|114 arrived 2 1>2 4000 kB|"
                      "119 admit 2@2 reused 10 waited 0|119 length 2@2 2|");
}

static void test_same_content_is_there(void) /* §15: the second transfers 0 */
{
    story l = {0};
    aisim_sim *sim = make(&(setup){.link = link_missing}, &l);
    submit(sim, 0, 1, 4, 2);
    submit(sim, 100, 1, 4, 2);
    run(sim);
    CHECK(strstr(l.text, "10 transfer 1 1>2 4000 kB|14 arrived 1") != NULL);
    CHECK(strstr(l.text, "110 transfer 2 1>2 0 kB|110 arrived 2 1>2 0 kB|115 admit 2@2") != NULL);
}

static void test_time_of_a_transfer(void) /* §15.3, with latency and a recurrent state */
{
    story l = {0};
    setup s = {.link = link_full};
    s.link.bytes_per_token = 1000;
    s.link.state_bytes = 50000;
    s.link.latency_ns = aisim_ns_from_ms(3);
    aisim_sim *sim = make(&s, &l);
    submit(sim, 0, 1, 20, 2); /* 20 tokens x 1000 B + 50,000 B at 1 GB/s: 0.07 ms */
    run(sim);
    CHECK(strstr(l.text, "10 transfer 1 1>2 70 kB|13.07 arrived 1 1>2 70 kB|") != NULL);
}

static void test_without_a_link(void)
{
    story l = {0};
    aisim_sim *sim = make(&(setup){.decode = 1}, &l);
    submit(sim, 0, 1, 20, 2);
    run(sim);
    CHECK(strstr(l.text, "10 transfer 1 1>2 0 kB|10 arrived 1 1>2 0 kB|15 admit 1@2") != NULL);
}

static void test_one_token_or_none(void)
{
    story l = {0};
    aisim_sim *sim = make(&(setup){.link = link_full}, &l);
    submit(sim, 0, 1, 10, 1);
    submit(sim, 100, 2, 10, 0);
    run(sim);
    CHECK_STR(l.text, "0 route 1>1|10 admit 1@1 reused 0 waited 0|10 first 1@1|10 length 1@1 1|"
                      "100 route 2>1|110 admit 2@1 reused 0 waited 0|110 length 2@1 0|");
}

static void test_beside_an_aggregated_pool(void)
{
    story l = {0};
    aisim_error err = {0};
    aisim_sim *sim = make(&(setup){.link = link_full}, &l);
    add_pool(sim, "main", AISIM_ROLE_AGGREGATED, 1, 0, 0, 10, 5);
    aisim_submit request = {.prompt_tokens = 0, .client = AISIM_NO_CLIENT, .pool = 2};
    aisim_node node = aisim_content_append_named(aisim_sim_content(sim), AISIM_ROOT, 1, 8);
    request.content = node;
    request.prompt_tokens = 8;
    request.output_tokens = 2;
    CHECK(aisim_sim_submit(sim, &request, NULL, &err) == AISIM_OK);
    request.pool = 1; /* a request for the decode pool takes the whole way */
    CHECK(aisim_sim_submit(sim, &request, NULL, &err) == AISIM_OK);
    aisim_content_release(aisim_sim_content(sim), node.run);
    run(sim);
    CHECK(strstr(l.text, "0 route 1>3|0 route 2>1|0 route 2>2|") == l.text);
    CHECK(l.finished == 2);
}

/* ---- waiting for blocks ------------------------------------------------------------------------ */

static void test_pending_reservation(void)
{
    story l = {0};
    aisim_sim *sim = make(&(setup){.decode_blocks = 4, .link = link_full}, &l);
    submit(sim, 0, 1, 10, 2); /* three of four blocks */
    submit(sim, 0, 2, 8, 2);  /* two: waits until the first is done */
    run(sim);
    CHECK_STR(l.text, "0 route 1>1|0 route 1>2|0 route 2>1|0 route 2>2|"
                      "10 admit 1@1 reused 0 waited 0|10 first 1@1|10 transfer 1 1>2 10000 kB|"
                      "20 arrived 1 1>2 10000 kB|25 admit 1@2 reused 10 waited 0|25 length 1@2 2|"
                      "35 admit 2@1 reused 0 waited 25|35 first 2@1|35 transfer 2 1>2 8000 kB|"
                      "43 arrived 2 1>2 8000 kB|48 admit 2@2 reused 8 waited 0|48 length 2@2 2|");
}

static void test_boundary_deadlock(void)
{
    /* Each prompt fills its blocks, so each needs one more for its second token and the other holds
     * it: the newest loses its blocks and is computed at the decode worker. */
    story l = {0};
    aisim_sim *sim = make(&(setup){.decode_blocks = 4, .link = link_full}, &l);
    submit(sim, 0, 1, 8, 2);
    submit(sim, 0, 2, 8, 2);
    run(sim);
    CHECK(l.finished == 2 && l.rejected == 0);
    CHECK(strstr(l.text, "18 arrived 1 1>2 8000 kB|18 arrived 2 1>2 8000 kB|"
                         "23 admit 1@2 reused 8 waited 0|23 length 1@2 2|"
                         "33 admit 2@2 reused 4 waited 5|33 length 2@2 2|") != NULL);
}

static void test_preemption_after_activation(void)
{
    story l = {0};
    aisim_sim *sim = make(&(setup){.decode_blocks = 5, .link = link_full}, &l);
    submit(sim, 0, 1, 7, 8);
    submit(sim, 0, 2, 7, 8); /* two blocks each; both grow to four */
    run(sim);
    CHECK(l.finished == 2);
    CHECK(strstr(l.text, "preempt 2@2|") != NULL);
}

/* ---- refused ----------------------------------------------------------------------------------- */

static void test_rejections(void)
{
    story l = {0};
    aisim_sim *sim = make(
        &(setup){.prefill_blocks = 6, .decode_blocks = 4, .context = 40, .decode_context = 24,
                 .link = link_full},
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
    aisim_sim *sim = make(&(setup){.prefill_blocks = 2, .link = link_full}, &l);
    submit(sim, 0, 1, 12, 5); /* three blocks of two: its reservation goes back */
    run(sim);
    CHECK_STR(l.text, "0 route 1>1|0 route 1>2|0 reject 1 capacity|");
}

static void test_context_ends_with_the_first_token(void)
{
    story l = {0};
    aisim_sim *sim = make(&(setup){.context = 40, .decode_context = 11, .link = link_full}, &l);
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

/* ---- cancel, stop, drain ----------------------------------------------------------------------- */

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
        aisim_sim *sim = make(&(setup){.decode_blocks = 4, .link = link_full}, &l);
        order first = {.handle = submit(sim, 0, 1, 10, 3)};
        submit(sim, 0, 2, 10, 2);
        at(sim, times[i], cancel_now, &first);
        run(sim);
        CHECK_EQ(l.cancelled, i < 4);
        CHECK_EQ(l.finished, i < 4 ? 1 : 2);
        CHECK((strstr(l.text, "arrived 1") != NULL) == (i >= 3) || (puts(stages[i]), false));
    }
    story l = {0};
    aisim_sim *sim = make(&(setup){.decode_blocks = 4, .link = link_full}, &l);
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
    aisim_sim *sim = make(&(setup){.link = link_full}, &l);
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
            aisim_sim *sim = make(&(setup){.prefill = 2, .decode = 2, .link = link_full}, &l);
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
    aisim_sim *sim = make(&(setup){.prefill = 2, .decode = 2, .link = link_full}, &l);
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
    aisim_sim *sim = make(&(setup){.prefill = 2, .decode = 2, .link = link_full}, &l);
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

/* ---- the bypass -------------------------------------------------------------------------------- */

static void test_bypass_by_tokens(void)
{
    story l = {0};
    setup s = {.link = link_full};
    s.link.local_below_tokens = 5;
    aisim_sim *sim = make(&s, &l);
    submit(sim, 0, 1, 12, 2);
    submit(sim, 100, 1, 12, 2); /* all twelve are on the decode rank: nothing is missing */
    submit(sim, 200, 2, 5, 2);  /* five are not fewer than five */
    submit(sim, 300, 3, 4, 2);
    run(sim);
    CHECK(strstr(l.text, "100 route 2>2|110 admit 2@2 reused 8 waited 0|110 first 2@2|"
                         "115 length 2@2 2|") != NULL);
    CHECK(strstr(l.text, "200 route 3>1|200 route 3>2|") != NULL);
    CHECK(strstr(l.text, "300 route 4>2|310 admit 4@2") != NULL);
}

static void test_bypass_when_roomy(void)
{
    story l = {0};
    setup s = {.decode_blocks = 8, .link = link_full};
    s.link.local_below_usage = 0.25;
    aisim_sim *sim = make(&s, &l);
    submit(sim, 0, 1, 10, 4); /* empty: local, three blocks of eight */
    submit(sim, 5, 2, 10, 4); /* 0.375 in use: remote */
    run(sim);
    CHECK(strstr(l.text, "0 route 1>2|5 route 2>1|5 route 2>2|") == l.text);
}

static bool by_length(void *context, aisim_sim *sim, const aisim_request *request,
                      uint64_t overlap_blocks, const aisim_targets *targets, aisim_error *err)
{
    (void)sim, (void)err;
    CHECK(targets->n == 1 && targets->ranks[0] == 1);
    *(uint64_t *)context += overlap_blocks;
    return request->prompt_tokens < 10;
}

static void test_decider(void)
{
    story l = {0};
    uint64_t overlaps = 0;
    aisim_sim *sim = make(&(setup){.link = link_full}, &l);
    aisim_sim_decider(sim, by_length, &overlaps);
    submit(sim, 0, 1, 9, 2);
    submit(sim, 50, 1, 10, 2);
    run(sim);
    CHECK(strstr(l.text, "0 route 1>2|") == l.text);
    CHECK(strstr(l.text, "50 route 2>1|50 route 2>2|") != NULL);
    CHECK_EQ(overlaps, 2);
}

int main(void)
{
    test_way();
    test_missing_in_whole_blocks();
    test_same_content_is_there();
    test_time_of_a_transfer();
    test_without_a_link();
    test_one_token_or_none();
    test_beside_an_aggregated_pool();
    test_pending_reservation();
    test_boundary_deadlock();
    test_preemption_after_activation();
    test_rejections();
    test_refused_by_the_prefill_rank();
    test_context_ends_with_the_first_token();
    test_pools();
    test_cancel_in_every_stage();
    test_cancel_at_the_router();
    test_stop();
    test_stop_keeps_tokens();
    test_drain();
    test_bypass_by_tokens();
    test_bypass_when_roomy();
    test_decider();
    return check_done();
}
