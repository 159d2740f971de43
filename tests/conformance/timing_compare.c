/* timing_compare.c - the calibration against the tables it was made from, on random passes.
 *
 *   timing_compare TABLES CALIBRATION [PASSES]
 *
 * Every catalogued model under every parallelism of the list below, curves of its own or not: what
 * a user gets who runs something else than the reference vectors. Prints one line per
 * configuration: median, p95 and worst relative error in per cent, operations that were guessed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../unit/descriptor_file.h"
#include "base/rng.h"
#include "timing/capacity.h"
#include "timing/op_level.h"

enum { PASSES_MAX = 10000 };

static const char *const models[] = {
    "llama-3.1-8b",    "llama-3.1-70b",       "llama-3.1-70b-fp8", "qwen3-8b",
    "qwen3-32b",       "qwen3-32b-fp8",       "qwen3-30b-a3b",     "qwen3-30b-a3b-fp8",
    "qwen3-235b-a22b", "qwen3-235b-a22b-fp8", "gpt-oss-120b",      "gpt-oss-20b",
    "qwen3-4b",        "qwen3-4b-fp8",        "qwen3-8b-fp8",      "qwen3-next-80b-a3b",
    "deepseek-r1",     "qwen3.5-27b",         "qwen3.5-35b-a3b",   "qwen3.5-397b-a17b"};

static void die(const aisim_error *err)
{
    char text[1400];
    fprintf(stderr, "%s\n", aisim_error_format(err, text, sizeof text));
    exit(1);
}

/* Log-uniform whole number in [low, high]. */
static uint64_t spread(aisim_rng *rng, double low, double high)
{
    return (uint64_t)(low * pow(high / low, aisim_rng_unit(rng)) + 0.5);
}

/* A third prefill, a third decode, a third mixed. */
static aisim_pass_shape random_shape(aisim_rng *rng)
{
    aisim_pass_shape s = {.verify_width = 1};
    uint64_t kind = aisim_rng_below(rng, 3);
    if (kind != 1) {
        s.n_prefill = aisim_rng_below(rng, 3) == 0 ? 1 + aisim_rng_below(rng, 4) : 1;
        s.new_tokens = s.n_prefill * spread(rng, 16, 8192 / (double)s.n_prefill);
        s.past_tokens = aisim_rng_below(rng, 2) == 0 ? 0 : s.n_prefill * spread(rng, 64, 65536);
    }
    if (kind != 0) {
        s.n_decode = spread(rng, 1, 256);
        double longest = fmin(65536, 4e6 / (double)s.n_decode);
        s.context_tokens = s.n_decode * spread(rng, 32, longest);
    }
    return s;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef struct sources {
    const char *tables, *calibration;
    int passes;
} sources;

static void compare(const sources *from, const aisim_model *model, const aisim_hardware *hw,
                    const aisim_parallelism *p)
{
    static double error[PASSES_MAX];
    aisim_op_level_options options = {0};
    aisim_error err = {0};
    aisim_timing *want, *got;
    if (aisim_timing_tables(model, hw, p, &options, from->tables, &want, &err) != AISIM_OK ||
        aisim_timing_calibrated(model, hw, p, &options, from->calibration, &got, &err) !=
            AISIM_OK) {
        die(&err);
    }
    aisim_rng rng = aisim_rng_named(1, model->name);
    for (int i = 0; i < from->passes; i++) {
        aisim_pass_shape shape = random_shape(&rng);
        double a = (double)aisim_timing_pass_ns(want, &shape);
        double b = (double)aisim_timing_pass_ns(got, &shape);
        error[i] = 100 * fabs(b / a - 1);
    }
    qsort(error, (size_t)from->passes, sizeof error[0], by_value);
    const char *names[8];
    size_t guessed = aisim_timing_guessed(got, names, 8);
    printf("%-20s tp%u dp%u moe %ux%u  median %6.3f %%  p95 %6.3f %%  worst %6.2f %%", model->name,
           (unsigned)p->tensor, (unsigned)p->attention_data, (unsigned)p->moe_tensor,
           (unsigned)p->moe_expert, error[from->passes / 2], error[from->passes * 95 / 100],
           error[from->passes - 1]);
    printf(guessed > 0 ? "  guessed %s …\n" : "\n", guessed > 0 ? names[0] : "");
    fflush(stdout);
    aisim_timing_free(want);
    aisim_timing_free(got);
}

static void compare_all(const sources *from, const char *name, const aisim_hardware *hw)
{
    aisim_model model;
    aisim_model_init(&model);
    if (!descriptor_read(&aisim_model_fields, &model, "lua/aisim/models", name)) {
        exit(1);
    }
    for (uint32_t tensor = 1; tensor <= 8; tensor *= 2) {
        for (int expert = 0; expert < (model.experts > 0 && tensor > 1 ? 2 : 1); expert++) {
            aisim_parallelism p = aisim_parallelism_one();
            aisim_capacity_request request = aisim_capacity_request_default();
            aisim_capacity c;
            p.tensor = tensor;
            if (model.experts > 0) {
                p.moe_expert = expert ? tensor : 1;
                p.moe_tensor = expert ? 1 : tensor;
            }
            if (aisim_capacity_compute(&model, hw, &p, &request, "", &c, NULL) == AISIM_OK) {
                compare(from, &model, hw, &p);
            }
        }
    }
}

int main(int argc, char **argv)
{
    aisim_hardware hw;
    if (argc < 3) {
        fprintf(stderr, "usage: timing_compare TABLES CALIBRATION [PASSES]\n");
        return 2;
    }
    sources from = {argv[1], argv[2], argc > 3 ? atoi(argv[3]) : 300};
    if (from.passes < 1 || from.passes > PASSES_MAX) {
        fprintf(stderr, "PASSES must be 1..%d\n", PASSES_MAX);
        return 2;
    }
    aisim_hardware_init(&hw);
    if (!descriptor_read(&aisim_hardware_fields, &hw, "lua/aisim/hardware", "h200_sxm")) {
        return 1;
    }
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        compare_all(&from, models[i], &hw);
    }
    return 0;
}
