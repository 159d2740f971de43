/* bench_timing.c - what pricing a pass costs (timing.md §12.6), in one table.
 *
 *   build/tests/aisim_bench_timing [PASSES]        in the source folder; default one million
 *
 * Each stream is run once to warm up and once on the clock (CPU time of the process). Figures are
 * for reading and comparing; tests hold looser bounds. "mixed" is a stream of random chunks with
 * random batches, "steady" is what a decoding rank does (the same batch, contexts growing),
 * "decode" random batches and contexts without prefill. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../unit/descriptor_file.h"
#include "base/rng.h"
#include "timing/op_level.h"

typedef aisim_pass_shape (*stream)(aisim_rng *rng, uint64_t i);

static aisim_pass_shape mixed(aisim_rng *rng, uint64_t i)
{
    aisim_pass_shape s = {.n_prefill = i % 3 == 0, .verify_width = 1};
    s.new_tokens = s.n_prefill * (1 + aisim_rng_below(rng, 8192));
    s.past_tokens = s.n_prefill * aisim_rng_below(rng, 100000);
    s.n_decode = 1 + aisim_rng_below(rng, 256);
    s.context_tokens = s.n_decode * (100 + i % 30000);
    return s;
}

static aisim_pass_shape steady(aisim_rng *rng, uint64_t i)
{
    (void)rng;
    return (aisim_pass_shape){
        .n_decode = 64, .context_tokens = 64 * (2000 + i % 8000), .verify_width = 1};
}

static aisim_pass_shape decode(aisim_rng *rng, uint64_t i)
{
    aisim_pass_shape s = {.n_decode = 1 + aisim_rng_below(rng, 256), .verify_width = 1};
    s.context_tokens = s.n_decode * (100 + i % 30000);
    return s;
}

static double cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The shapes are drawn before the clock starts. @return ns per pass */
static double run(aisim_timing *timing, stream next, uint64_t passes, int64_t *sum)
{
    enum { CHUNK = 4096 };
    static aisim_pass_shape shapes[CHUNK];
    double spent = 0;
    uint64_t done = 0;
    aisim_rng rng = aisim_rng_named(7, "bench");
    for (; done < passes; done += CHUNK) {
        for (uint64_t i = 0; i < CHUNK; i++) {
            shapes[i] = next(&rng, done + i);
        }
        double start = cpu_ns();
        for (uint64_t i = 0; i < CHUNK; i++) {
            *sum += aisim_timing_pass_ns(timing, &shapes[i]);
        }
        spent += cpu_ns() - start;
    }
    return spent / (double)done;
}

static void bench(const char *name, aisim_parallelism p, uint64_t passes)
{
    static const struct {
        const char *name;
        stream next;
    } streams[] = {{"mixed", mixed}, {"steady", steady}, {"decode", decode}};
    aisim_model model;
    aisim_hardware hw;
    aisim_op_level_options options = {0};
    aisim_error err = {0};
    aisim_timing *timing;
    aisim_model_init(&model);
    aisim_hardware_init(&hw);
    if (!descriptor_read(&aisim_model_fields, &model, "lua/aisim/models", name) ||
        !descriptor_read(&aisim_hardware_fields, &hw, "lua/aisim/hardware", "h200_sxm")) {
        exit(1);
    }
    if (aisim_timing_calibrated(&model, &hw, &p, &options, "lua/aisim/hardware/h200_sxm.calib",
                                &timing, &err) != AISIM_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
        int64_t sum = 0;
        double cold = run(timing, streams[i].next, passes, &sum);
        double warm = run(timing, streams[i].next, passes, &sum);
        printf("%-18s %-7s %12.0f %12.0f %14.2f\n", name, streams[i].name, cold, warm,
               warm * (double)passes * 1e-9);
    }
    aisim_timing_free(timing);
}

int main(int argc, char **argv)
{
    uint64_t passes = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    printf("%llu passes\n%-18s %-7s %12s %12s %14s\n", (unsigned long long)passes, "model",
           "stream", "ns/pass cold", "ns/pass warm", "s, all, warm");
    bench("llama-3.1-8b", (aisim_parallelism){1, 1, 1, 1, 1}, passes);
    bench("qwen3-30b-a3b", (aisim_parallelism){1, 1, 1, 1, 1}, passes);
    bench("deepseek-r1", (aisim_parallelism){8, 1, 1, 8, 1}, passes);
    bench("qwen3.5-35b-a3b", (aisim_parallelism){1, 1, 1, 1, 1}, passes);
    return 0;
}
