/* test_handoff.c - prefill and decode pools in a whole simulation (engine.md §15, routing.md §5):
 * the exact times of the way through, waiting for blocks, the bypass. */
#include "handoff_support.h"

/* ---- the way through ---------------------------------------------------------------------------
 */

static void test_way(void)
{
    story l = {0};
    aisim_sim *sim = make(&(setup){.link = LINK_FULL}, &l);
    submit(sim, 0, 1, 10, 3);
    run(sim);
    CHECK_STR(l.text, "0 route 1>1|0 route 1>2|10 admit 1@1 reused 0 waited 0|10 first 1@1|"
                      "10 transfer 1 1>2 10000 kB|20 arrived 1 1>2 10000 kB|"
                      "25 admit 1@2 reused 10 waited 0|30 length 1@2 3|");
}

static void test_missing_in_whole_blocks(void) /* §15: P = 10, b = 4: missing 12 */
{
    story l = {0};
    aisim_sim *sim = make(&(setup){.link = LINK_MISSING}, &l);
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
    aisim_sim *sim = make(&(setup){.link = LINK_MISSING}, &l);
    submit(sim, 0, 1, 4, 2);
    submit(sim, 100, 1, 4, 2);
    run(sim);
    CHECK(strstr(l.text, "10 transfer 1 1>2 4000 kB|14 arrived 1") != NULL);
    CHECK(strstr(l.text, "110 transfer 2 1>2 0 kB|110 arrived 2 1>2 0 kB|115 admit 2@2") != NULL);
}

static void test_time_of_a_transfer(void) /* §15.3, with latency and a recurrent state */
{
    story l = {0};
    setup s = {.link = LINK_FULL};
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
    aisim_sim *sim = make(&(setup){.link = LINK_FULL}, &l);
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
    aisim_sim *sim = make(&(setup){.link = LINK_FULL}, &l);
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

/* ---- waiting for blocks ------------------------------------------------------------------------
 */

static void test_pending_reservation(void)
{
    story l = {0};
    aisim_sim *sim = make(&(setup){.decode_blocks = 4, .link = LINK_FULL}, &l);
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
    aisim_sim *sim = make(&(setup){.decode_blocks = 4, .link = LINK_FULL}, &l);
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
    aisim_sim *sim = make(&(setup){.decode_blocks = 5, .link = LINK_FULL}, &l);
    submit(sim, 0, 1, 7, 8);
    submit(sim, 0, 2, 7, 8); /* two blocks each; both grow to four */
    run(sim);
    CHECK(l.finished == 2);
    CHECK(strstr(l.text, "preempt 2@2|") != NULL);
}

/* ---- the bypass --------------------------------------------------------------------------------
 */

static void test_bypass_by_tokens(void)
{
    story l = {0};
    setup s = {.link = LINK_FULL};
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
    setup s = {.decode_blocks = 8, .link = LINK_FULL};
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
    aisim_sim *sim = make(&(setup){.link = LINK_FULL}, &l);
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
    test_bypass_by_tokens();
    test_bypass_when_roomy();
    test_decider();
    return check_done();
}
