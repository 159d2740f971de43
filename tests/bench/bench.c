/* bench.c - what a pass and a waiting request cost, in one table.
 *
 * Figures are wall times of one run on one core; they are compared with each other (ratios), never
 * with a limit. Run it on a quiet machine:  build/tests/aisim_bench
 *
 *   prompt N      closed loop of 4, prompts of N tokens, 64 outputs, 16-token blocks, budget 2,048;
 * all rows compute the same number of prompt tokens, so passes are alike and ns/pass must not
 * depend on N decode N      N requests decode side by side for 10,000 passes waiting N     N
 * requests wait behind one that fills the pool: bytes per request */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "aisim/sim.h"
#include "base/clock.h"
#include "sim/traffic.h"
#include "timing/timing.h"

typedef struct counts {
    uint64_t scheduled;
} counts;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Resident memory of the process in bytes. */
static double resident(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long size = 0, pages = 0;
    if (file != NULL) {
        if (fscanf(file, "%ld %ld", &size, &pages) != 2) {
            pages = 0;
        }
        fclose(file);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static aisim_sim *make(uint32_t sequences, uint32_t budget, uint64_t blocks)
{
    aisim_error err = {0};
    aisim_sim *sim = aisim_sim_new(1);
    aisim_pool_config config = {.name = "main", .workers = 1};
    aisim_rank_config_default(&config.rank);
    config.rank.scheduler.max_sequences = sequences;
    config.rank.scheduler.max_batched_tokens = budget;
    config.rank.kv.block_size = 16;
    config.rank.kv.blocks = blocks;
    if (aisim_timing_fixed(10.0, 5.0, &config.timing, &err) != AISIM_OK ||
        aisim_sim_pool_add(sim, &config, NULL, &err) != AISIM_OK) {
        fprintf(stderr, "%s\n", err.text);
        _exit(1);
    }
    return sim;
}

/* The same with a state cache of 4 blocks a request (spec/engine.md §11). */
static aisim_sim *make_state(void)
{
    aisim_error err = {0};
    aisim_sim *sim = aisim_sim_new(1);
    aisim_pool_config config = {.name = "main", .workers = 1};
    aisim_rank_config_default(&config.rank);
    config.rank.kv.block_size = 16;
    config.rank.kv.blocks = 1000000;
    config.rank.kv.state_mode = AISIM_STATE_ALIGNED;
    config.rank.kv.prefix_match_unit = 16;
    config.rank.kv.state_blocks = 4;
    if (aisim_timing_fixed(10.0, 5.0, &config.timing, &err) != AISIM_OK ||
        aisim_sim_pool_add(sim, &config, NULL, &err) != AISIM_OK) {
        fprintf(stderr, "%s\n", err.text);
        _exit(1);
    }
    return sim;
}

static void count(void *context, const aisim_event *event)
{
    ((counts *)context)->scheduled += event->u.pass->scheduled;
}

static void report(const char *name, uint64_t n, aisim_sim *sim)
{
    aisim_error err = {0};
    counts c = {0};
    aisim_run_options options = {.until_ns = AISIM_NEVER};
    aisim_observers *observers = aisim_sim_observers(sim);
    observers->list[observers->n++] =
        (aisim_observer){.mask = AISIM_EV_BIT(AISIM_EV_PASS_END), .context = &c, .fn = count};
    aisim_observers_update(observers);
    double start = now_ms();
    if (aisim_sim_run(sim, &options, &err) != AISIM_OK) {
        fprintf(stderr, "%s\n", err.text);
        _exit(1);
    }
    double wall = now_ms() - start;
    aisim_sim_stats stats;
    aisim_sim_stats_get(sim, &stats);
    printf("%-8s %8" PRIu64 " %10.1f %10" PRIu64 " %10.0f %14.1f %10.1f\n", name, n, wall,
           stats.passes, wall * 1e6 / (double)stats.passes, wall * 1e6 / (double)c.scheduled,
           resident() / 1048576.0);
    aisim_sim_free(sim);
}

static void closed(const char *name, uint64_t n, aisim_sim *sim, uint32_t users, uint32_t prompt,
                   uint32_t output, uint64_t requests)
{
    aisim_error err = {0};
    const int64_t at_start = 0;
    const double level = users;
    aisim_traffic_config traffic = {
        .units = aisim_units_constant(prompt, output),
        .pace = {.requests = requests, .level_times = &at_start, .levels = &level, .n_levels = 1}};
    if (aisim_traffic(sim, &traffic, &err) != AISIM_OK) {
        fprintf(stderr, "%s\n", err.text);
        _exit(1);
    }
    report(name, n, sim);
}

static void hold_forever(void *context, aisim_sim *sim, int64_t t_ns)
{
    (void)t_ns;
    *(double *)context = resident();
    aisim_sim_stop(sim, "measured");
}

static void waiting(uint32_t n)
{
    aisim_error err = {0};
    aisim_sim *sim = make(4, 2048, 8000);
    aisim_content *content = aisim_sim_content(sim);
    double before = resident(), after = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        aisim_node prompt = aisim_content_append_private(content, AISIM_ROOT, 120000);
        aisim_submit submit = {.content = prompt,
                               .prompt_tokens = 120000,
                               .output_tokens = 64,
                               .client = AISIM_NO_CLIENT};
        if (aisim_sim_submit(sim, &submit, NULL, &err) != AISIM_OK) {
            fprintf(stderr, "%s\n", err.text);
            _exit(1);
        }
        aisim_content_release(content, prompt.run);
    }
    aisim_sim_timer(sim, aisim_ns_from_ms(25), AISIM_CLASS_TIMER, false, hold_forever, &after);
    aisim_run_options options = {.until_ns = AISIM_NEVER};
    aisim_sim_run(sim, &options, &err);
    printf("waiting  %8u %10s %10s %10s %14s %10.1f   %.0f bytes per waiting request, content and "
           "event heap included\n",
           n, "-", "-", "-", "-", resident() / 1048576.0, (after - before) / n);
    aisim_sim_free(sim);
}

int main(void)
{
    static const uint32_t prompts[] = {1200, 12000, 30000, 60000, 120000};
    static const uint32_t widths[] = {1, 16, 256};
    closed("warm-up", 0, make(256, 8192, 1000000), 16, 1000, 20000, 16);
    printf("%-8s %8s %10s %10s %10s %14s %10s\n", "case", "n", "wall ms", "passes", "ns/pass",
           "ns/scheduled", "MiB");
    waiting(200000);
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
        closed("context", prompts[i], make(256, 8192, 1000000), 16, prompts[i], 20000, 16);
    }
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
        uint64_t requests = UINT64_C(61440000) / prompts[i];
        closed("prompt", prompts[i], make(4, 2048, 16384), 4, prompts[i], 64, requests);
    }
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        closed("decode", widths[i], make(256, 8192, 1000000), widths[i], 1000, 10000, widths[i]);
    }
    closed("state", 256, make_state(), 256, 1000, 10000, 256);
    return 0;
}
