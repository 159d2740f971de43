/* test_weka_reuse.c - content template and ideal reuse against a count token by token (traffic 4.2)
 * on random plays, and what every lowered graph must fulfil (traffic 1.6). */
#include <stdlib.h>

#include "base/array.h"
#include "base/rng.h"
#include "check.h"
#include "workload/corpus.h"
#include "workload/play_content.h"
#include "workload/reuse.h"

enum { BLOCK = 8, PLAYS = 300, LONGEST = 40 };

/* A play whose prompts grow, branch off, are compacted and start anew; some agents in between. */
static char *random_play(aisim_rng *rng, uint32_t number, char *out, size_t size)
{
    uint32_t history[LONGEST];
    uint32_t length = 0;
    uint32_t n = 1 + (uint32_t)aisim_rng_below(rng, 14);
    uint64_t t_ms = 0;
    size_t used = (size_t)snprintf(out, size,
                                   "{\"id\":\"p%u\",\"block_size\":%d,\"hash_id_scope\":\"local\","
                                   "\"tool_tokens\":%u,\"requests\":[",
                                   number, BLOCK, (unsigned)aisim_rng_below(rng, 40));
    for (uint32_t i = 0; i < n; i++) {
        uint64_t kind = aisim_rng_below(rng, 10);
        if (kind == 0) {
            length = 0;
        } else if (kind < 4) {
            length = (uint32_t)aisim_rng_below(rng, length + 1);
        }
        uint32_t grow = (uint32_t)aisim_rng_below(rng, LONGEST - length + 1);
        for (uint32_t k = 0; k < grow; k++) {
            history[length] = length + 100 * (uint32_t)aisim_rng_below(rng, 3);
            length++;
        }
        bool agent = i > 0 && aisim_rng_below(rng, 5) == 0;
        uint32_t tail = (uint32_t)aisim_rng_below(rng, BLOCK);
        uint32_t in = length * BLOCK + tail;
        used += (size_t)snprintf(out + used, size - used, "%s", i > 0 ? "," : "");
        if (agent) {
            used += (size_t)snprintf(out + used, size - used,
                                     "{\"t\":%.3f,\"type\":\"subagent\",\"agent_id\":\"x\","
                                     "\"status\":\"%s\",\"requests\":[",
                                     (double)t_ms / 1e3,
                                     aisim_rng_below(rng, 2) == 0 ? "completed" : "async_launched");
        }
        used += (size_t)snprintf(out + used, size - used,
                                 "{\"t\":%.3f,\"type\":\"n\",\"model\":\"m%u\",\"in\":%u,"
                                 "\"out\":%u,\"api_time\":%.3f,\"hash_ids\":[",
                                 (double)t_ms / 1e3, (unsigned)aisim_rng_below(rng, 2),
                                 in > 0 ? in : 1, (unsigned)aisim_rng_below(rng, 200),
                                 (double)aisim_rng_below(rng, 4000) / 1e3);
        for (uint32_t k = 0; k < length; k++) {
            used += (size_t)snprintf(out + used, size - used, "%s%u", k > 0 ? "," : "", history[k]);
        }
        used += (size_t)snprintf(out + used, size - used, "]}%s", agent ? "]}" : "");
        t_ms += aisim_rng_below(rng, 3000);
    }
    snprintf(out + used, size - used, "]}");
    return out;
}

/* Ids of one request, block by block. */
static uint32_t expand(const aisim_play *play, uint32_t request, uint64_t *out)
{
    const aisim_play_request *r = &play->requests[request];
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->id_runs; i++) {
        const aisim_id_run *run = &play->ids[r->id_first + i];
        for (uint64_t k = 0; k < run->count; k++) {
            out[n++] = run->first + k;
        }
    }
    return n;
}

static uint32_t common_blocks(const aisim_play *play, uint32_t a, uint32_t b)
{
    uint64_t x[LONGEST + 1];
    uint64_t y[LONGEST + 1];
    expand(play, a, x);
    expand(play, b, y);
    uint32_t n = aisim_play_known_blocks(play, a);
    uint32_t m = aisim_play_known_blocks(play, b);
    uint32_t common = 0;
    while (common < n && common < m && x[common] == y[common]) {
        common++;
    }
    return common;
}

static void check_content(const aisim_play *play)
{
    aisim_play_content content;
    aisim_play_content_build(play, false, &content);
    for (uint32_t a = 0; a < play->n_requests; a++) {
        uint32_t best = 0;
        for (uint32_t b = 0; b < a; b++) {
            uint32_t common = common_blocks(play, a, b);
            best = common > best ? common : best;
            CHECK_EQ(aisim_play_content_common_tokens(&content, a, b, true),
                     (uint64_t)common * BLOCK);
            CHECK_EQ(aisim_play_content_common_tokens(&content, a, b, false), 0);
        }
        CHECK_EQ(content.requests[a].matched_tokens, (uint64_t)best * BLOCK);
        for (uint32_t size = 1; size <= 20; size++) {
            uint64_t limit = play->requests[a].input_tokens - 1;
            uint64_t usable = (uint64_t)best * BLOCK < limit ? (uint64_t)best * BLOCK : limit;
            CHECK_EQ(aisim_ideal_reuse_request(play, &content, a, size), usable / size * size);
        }
    }
    for (uint32_t i = 0; i < content.n_runs; i++) {
        const aisim_content_run *run = &content.runs[i];
        CHECK(run->length_tokens > 0 && !run->shared);
        CHECK((run->parent == AISIM_NONE) == (run->start_tokens == 0));
        if (run->parent != AISIM_NONE) {
            const aisim_content_run *up = &content.runs[run->parent];
            CHECK(run->parent < i && run->start_tokens > up->start_tokens &&
                  run->start_tokens < up->start_tokens + up->length_tokens);
        }
    }
    aisim_play_content_deinit(&content);
}

/* traffic 2.1, after_system: two instances share the whole blocks of the prefix, no more. */
static void check_after_system(const aisim_play *play)
{
    aisim_play_content content;
    aisim_play_content_build(play, true, &content);
    for (uint32_t a = 0; a < play->n_requests; a++) {
        for (uint32_t b = 0; b <= a; b++) {
            uint64_t common = (uint64_t)common_blocks(play, a, b) * BLOCK;
            CHECK_EQ(aisim_play_content_common_tokens(&content, a, b, true), common);
            uint64_t prefix_a = aisim_play_prefix_tokens(play, a) / BLOCK * BLOCK;
            uint64_t prefix_b = aisim_play_prefix_tokens(play, b) / BLOCK * BLOCK;
            uint64_t prefix = prefix_a < prefix_b ? prefix_a : prefix_b;
            uint64_t least = prefix < common ? prefix : common;
            uint64_t got = aisim_play_content_common_tokens(&content, a, b, false);
            /* a subagent may pass through what the play itself marks as shared */
            CHECK(play->n_scopes > 1 ? got >= least : got == least);
        }
    }
    aisim_play_content_deinit(&content);
}

static void check_graph(const aisim_play *play)
{
    uint32_t roots = 0;
    uint32_t members = 0;
    for (uint32_t i = 0; i < play->n_requests; i++) {
        const aisim_play_request *r = &play->requests[i];
        roots += r->in_edges == 0;
        CHECK(i == 0 || play->requests[i - 1].start_ns <= r->start_ns);
        for (uint32_t e = 0; e < r->in_edges; e++) {
            CHECK_EQ(play->edges[r->in_first + e].target, i);
            CHECK(play->edges[r->in_first + e].delay_ns >= 0);
        }
        for (uint32_t e = 0; e < r->out_edges; e++) {
            CHECK_EQ(play->edges[play->out[r->out_first + e]].source, i);
        }
    }
    CHECK_EQ(roots, 1);
    CHECK_EQ(play->requests[play->root].in_edges, 0);
    for (uint32_t c = 0; c < play->n_conversations; c++) {
        members += play->conversations[c].count;
        CHECK(c == 0 || play->conversation_requests[play->conversations[c - 1].first] <
                            play->conversation_requests[play->conversations[c].first]);
    }
    CHECK_EQ(members, play->n_requests);
}

int main(void)
{
    aisim_rng rng = aisim_rng_named(1, "weka reuse");
    aisim_error err = {0};
    static char text[200000];
    uint32_t refused = 0;
    for (uint32_t i = 0; i < PLAYS; i++) {
        aisim_corpus *corpus = aisim_corpus_new(NULL);
        random_play(&rng, i, text, sizeof text);
        CHECK_EQ(aisim_corpus_add_text(corpus, text, strlen(text), "random", 1, &err), AISIM_OK);
        aisim_error graph = {0};
        if (aisim_corpus_finish(corpus, &graph) == AISIM_OK) {
            check_graph(&corpus->plays[0]);
            check_content(&corpus->plays[0]);
            check_after_system(&corpus->plays[0]);
        } else {
            refused++; /* a join that its recording contradicts */
        }
        aisim_corpus_free(corpus);
    }
    CHECK(refused < PLAYS / 2);
    return check_done();
}
