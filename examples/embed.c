/* Embedding in C: how much of a prompt comes from the cache when two thirds are the same for all?
 * cc -std=c11 embed.c $(pkg-config --cflags --libs aisim)        after cmake --install build; in CMake:
 * pkg_check_modules(AISIM REQUIRED IMPORTED_TARGET aisim), link with PkgConfig::AISIM */
#include <aisim/aisim.h>
#include <stdio.h>

typedef struct sums { double requests, ttft_ms, reused_tokens; } sums;
static void first_token(void *context, const aisim_event *event) {
    sums *s = context;
    s->requests += 1;
    s->ttft_ms += (double)event->u.first_token.ttft_ns / AISIM_NS_PER_MS;
    s->reused_tokens += event->request->first_reused;
}

int main(void) {
    sums s = {0};
    aisim_error err = {0}; /* the first error stays in it */
    aisim_sim *sim = aisim_sim_new(1);
    aisim_pool_config pool = {.name = "main", .workers = 2};
    aisim_rank_config_default(&pool.rank);
    pool.rank.kv.blocks = 4000; /* of 64 tokens */
    aisim_timing_linear_law law = {.base_ms = 4, .per_prefill_token_ms = 0.02, .per_decode_ms = 0.05};
    if (!aisim_timing_linear(&law, &pool.timing, &err)) aisim_sim_pool_add(sim, &pool, NULL, &err);
    aisim_observers *all = aisim_sim_observers(sim);
    all->list[all->n++] = (aisim_observer){AISIM_EV_BIT(AISIM_EV_FIRST_TOKEN), &s, first_token, true};
    aisim_observers_update(all);
    aisim_content *content = aisim_sim_content(sim); /* the system prompt is stream number 1 */
    aisim_node system = aisim_content_append_named(content, AISIM_ROOT, 1, 2000);
    for (int i = 0; i < 1000 && !err.code; i++) { /* twenty per second */
        aisim_node prompt = aisim_content_append_private(content, system, 1000);
        aisim_sim_submit(sim, &(aisim_submit){.at_ns = i * 50 * AISIM_NS_PER_MS, .content = prompt,
            .prompt_tokens = 3000, .output_tokens = 200, .client = AISIM_NO_CLIENT}, NULL, &err);
        aisim_content_release(content, prompt.run);
    }
    if (!err.code) aisim_sim_run(sim, &(aisim_run_options){.until_ns = AISIM_NEVER}, &err);
    if (err.code) fprintf(stderr, "embed: %s\n", err.text);
    else printf("%.0f requests, first token after %.1f ms, %.1f %% of the prompts from cache\n",
        s.requests, s.ttft_ms / s.requests, 100 * s.reused_tokens / (3000 * s.requests));
    return aisim_sim_free(sim), err.code != AISIM_OK;
}
