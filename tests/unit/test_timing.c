/* test_timing.c - timing models without tables, descriptors, KV capacity (timing.md §1-§8). */
#include "timing/timing.h"

#include <stdlib.h>
#include <time.h>

#include "check.h"
#include "descriptor_file.h"
#include "timing/capacity.h"
#include "timing/op_level.h"

#define MODELS "lua/aisim/models"
#define HARDWARE "lua/aisim/hardware"

static aisim_model load_model(const char *name)
{
    aisim_model model;
    aisim_error err = {0};
    aisim_model_init(&model);
    CHECK(descriptor_read(&aisim_model_fields, &model, MODELS, name));
    CHECK(aisim_model_check(&model, &err) == AISIM_OK);
    CHECK_STR(model.name, name);
    return model;
}

static aisim_hardware load_hardware(void)
{
    aisim_hardware hardware;
    aisim_error err = {0};
    aisim_hardware_init(&hardware);
    CHECK(descriptor_read(&aisim_hardware_fields, &hardware, HARDWARE, "h200_sxm"));
    CHECK(aisim_hardware_check(&hardware, &err) == AISIM_OK);
    return hardware;
}

static aisim_pass_shape shape_of(uint64_t p, uint64_t sn, uint64_t sp, uint64_t d, uint64_t sk)
{
    return (aisim_pass_shape){p, sn, sp, d, sk, 1};
}

static int64_t ns_of(aisim_timing *timing, uint64_t p, uint64_t sn, uint64_t sp, uint64_t d,
                     uint64_t sk)
{
    aisim_pass_shape shape = shape_of(p, sn, sp, d, sk);
    return aisim_timing_pass_ns(timing, &shape);
}

/* E-O4: prefill part + decode part; §6 other built-in models */
static void test_fixed(void)
{
    aisim_timing *t;
    aisim_error err = {0};
    CHECK(aisim_timing_fixed(12, 8.5, &t, &err) == AISIM_OK);
    CHECK_EQ(ns_of(t, 0, 0, 0, 0, 0), 0);
    CHECK_EQ(ns_of(t, 2, 100, 0, 0, 0), 12000000);
    CHECK_EQ(ns_of(t, 0, 0, 0, 7, 700), 8500000);
    CHECK_EQ(ns_of(t, 1, 1, 0, 7, 700), 20500000);
    CHECK_EQ(ns_of(t, 1, 0, 50, 7, 700), 8500000); /* SN = 0 with P > 0 is decode only */
    aisim_timing_set_speedup(t, 2);
    CHECK_EQ(ns_of(t, 2, 100, 0, 0, 0), 6000000);
    CHECK(aisim_timing_is_pure(t));
    aisim_timing_free(t);
    CHECK(aisim_timing_fixed(-1, 0, &t, &err) == AISIM_ERANGE && t == NULL);
    CHECK(strstr(err.text, "prefill_ms") != NULL);
    aisim_timing_free(NULL);
}

static void test_linear(void)
{
    aisim_timing *t;
    aisim_error err = {0};
    aisim_timing_linear_law law = {4, 0.022, 0.03, 1.5e-6};
    CHECK(aisim_timing_linear(&law, &t, &err) == AISIM_OK);
    CHECK_EQ(ns_of(t, 0, 0, 0, 0, 0), 0);
    CHECK_EQ(ns_of(t, 1, 1000, 5000, 0, 0), 26000000);
    CHECK_EQ(ns_of(t, 0, 0, 0, 10, 20000), 4330000);
    aisim_timing_part part;
    double total;
    aisim_pass_shape shape = shape_of(1, 1000, 0, 0, 0);
    CHECK_EQ(aisim_timing_explain(t, &shape, &part, 1, &total), 1);
    CHECK_NEAR(part.latency_ms, total, 1e-12);
    aisim_timing_free(t);
    law.per_decode_ms = -1;
    CHECK(aisim_timing_linear(&law, &t, &err) == AISIM_ERANGE);
    CHECK(strstr(err.text, "per_decode_ms") != NULL);
}

static void test_polynomial(void)
{
    aisim_timing *t;
    aisim_error err = {0};
    CHECK(aisim_timing_polynomial(100000, &t, &err) == AISIM_OK);
    CHECK_EQ(ns_of(t, 1, 1000, 0, 0, 0), 32105859);    /* 0.4209989 + 15.18344 + 16.50142 */
    CHECK_EQ(ns_of(t, 0, 0, 0, 5, 50000), 26310000);   /* -6.435 + 27.005 + 5.74 */
    CHECK_EQ(ns_of(t, 0, 0, 0, 5, 5000000), 34010000); /* u capped at 1 */
    aisim_timing_free(t);
    CHECK(aisim_timing_polynomial(0, &t, &err) == AISIM_ERANGE);
}

typedef struct probe {
    int calls;
    double ms;
} probe;

static aisim_status probe_call(void *context, const aisim_pass_shape *shape,
                               const aisim_pass_items *items, double *ms, aisim_error *err)
{
    (void)items;
    probe *p = context;
    (void)err;
    p->calls++;
    *ms = p->ms + (double)shape->n_decode;
    return AISIM_OK;
}

static aisim_status broken_call(void *context, const aisim_pass_shape *shape,
                                const aisim_pass_items *items, double *ms, aisim_error *err)
{
    (void)items;
    (void)context;
    (void)shape;
    (void)ms;
    return aisim_fail(err, AISIM_ECALLBACK, "boom");
}

static void test_callback(void)
{
    aisim_timing *t;
    aisim_error err = {0};
    probe p = {0, 1};
    CHECK(aisim_timing_callback(probe_call, &p, (aisim_timing_traits){.pure = true}, &t, &err) == AISIM_OK);
    for (int round = 0; round < 3; round++) {
        for (uint64_t d = 1; d <= 50; d++) {
            CHECK_EQ(ns_of(t, 0, 0, 0, d, 100 * d), (int64_t)(1 + d) * 1000000);
        }
    }
    CHECK(p.calls >= 50 && p.calls < 60); /* memoised, bar collisions in the direct table */
    aisim_timing_free(t);
    p.calls = 0;
    CHECK(aisim_timing_callback(probe_call, &p, (aisim_timing_traits){.pure = false}, &t, &err) == AISIM_OK);
    ns_of(t, 0, 0, 0, 1, 1);
    ns_of(t, 0, 0, 0, 1, 1);
    CHECK_EQ(p.calls, 2);
    CHECK(!aisim_timing_is_pure(t));
    p.ms = -7;
    CHECK_EQ(ns_of(t, 0, 0, 0, 3, 1), AISIM_TIMING_FAILED);
    CHECK(aisim_timing_error(t)->code == AISIM_ECALLBACK);
    CHECK(strstr(aisim_timing_error(t)->text, "n_decode = 3") != NULL);
    aisim_timing_free(t);
    CHECK(aisim_timing_callback(broken_call, NULL, (aisim_timing_traits){.pure = true}, &t, &err) == AISIM_OK);
    CHECK_EQ(ns_of(t, 0, 0, 0, 3, 1), AISIM_TIMING_FAILED);
    CHECK_STR(aisim_timing_error(t)->text, "boom");
    aisim_timing_free(t);
}

static void test_fields(void)
{
    aisim_model model;
    aisim_error err = {0};
    aisim_model_init(&model);
    CHECK(aisim_field_set_number(&aisim_model_fields, &model, "layres", 3, &err) == AISIM_ENOENT);
    CHECK(strstr(err.text, "did you mean 'layers'") != NULL);
    err = (aisim_error){0};
    CHECK(aisim_field_set_number(&aisim_model_fields, &model, "layers", 2.5, &err) == AISIM_EINVAL);
    err = (aisim_error){0};
    CHECK(aisim_field_set_number(&aisim_model_fields, &model, "layers", -1, &err) == AISIM_ERANGE);
    err = (aisim_error){0};
    CHECK(aisim_field_set_text(&aisim_model_fields, &model, "kv_dtype", "fp7", &err) ==
          AISIM_EINVAL);
    CHECK(strstr(err.text, "bfloat16, fp8") != NULL);
    CHECK(aisim_field_set_text(&aisim_model_fields, &model, "kv_dtype", "fp8", NULL) == AISIM_OK);
    CHECK_EQ(model.kv_dtype, AISIM_DTYPE_FP8);
    for (size_t i = 0; i < aisim_model_fields.count; i++) {
        const aisim_field *field = &aisim_model_fields.fields[i];
        CHECK(aisim_field_find(&aisim_model_fields, field->name) == field);
        CHECK(field->meaning[0] != '\0');
    }
}

/* §2 validity */
static void test_parallelism(void)
{
    aisim_model model = load_model("llama-3.1-8b");
    aisim_parallelism p = aisim_parallelism_one();
    aisim_error err = {0};
    CHECK(aisim_parallelism_check(&p, &model, &err) == AISIM_OK);
    p.tensor = 3;
    CHECK(aisim_parallelism_check(&p, &model, &err) == AISIM_EINVAL);
    CHECK(strstr(err.text, "tensor = 3") != NULL);
    p = aisim_parallelism_one();
    p.moe_expert = 2;
    CHECK(aisim_parallelism_check(&p, &model, NULL) == AISIM_EINVAL);
}

static aisim_timing *roofline(const aisim_model *model, uint32_t tensor,
                              const aisim_op_level_options *options,
                              const aisim_roofline_overrides *overrides)
{
    aisim_hardware hardware = load_hardware();
    aisim_parallelism p = aisim_parallelism_one();
    aisim_timing *t;
    aisim_error err = {0};
    p.tensor = tensor;
    CHECK(aisim_timing_roofline(model, &hardware, &p, options, overrides, &t, &err) == AISIM_OK);
    return t;
}

/* The parts of a pass add up to its total (§2), and memoised values are the computed ones. */
static void check_parts(aisim_timing *t, const aisim_pass_shape *shape)
{
    aisim_timing_part parts[128];
    double total = 0, sum = 0;
    size_t n = aisim_timing_explain(t, shape, parts, 128, &total);
    CHECK(n > 0 && n <= 128);
    for (size_t i = 0; i < n; i++) {
        sum += parts[i].latency_ms;
    }
    CHECK_NEAR(sum / total, 1, 1e-9);
    int64_t memoised = aisim_timing_pass_ns(t, shape);
    aisim_timing_forget(t);
    CHECK_EQ(aisim_timing_pass_ns(t, shape), memoised);
    CHECK_EQ(llround(total * 1e6), memoised);
}

static void test_roofline(void)
{
    aisim_model model = load_model("llama-3.1-8b");
    aisim_op_level_options options = {0};
    aisim_timing *t = roofline(&model, 1, &options, NULL);
    CHECK_EQ(ns_of(t, 0, 0, 0, 0, 0), 0);
    /* within a third of the measured W1, W2, W3 of §9: it is a guess without data */
    double w1 = (double)ns_of(t, 1, 1024, 0, 0, 0) * 1e-6;
    double w2 = (double)ns_of(t, 0, 0, 0, 32, 32 * 1024) * 1e-6;
    double w3 = (double)ns_of(t, 1, 2048, 0, 16, 36800) * 1e-6;
    CHECK(w1 > 14 && w1 < 28);
    CHECK(w2 > 4.2 && w2 < 8.4);
    CHECK(w3 > 30 && w3 < 59);
    aisim_pass_shape shapes[] = {shape_of(1, 1024, 0, 0, 0),       shape_of(3, 3000, 90000, 0, 0),
                                 shape_of(0, 0, 0, 32, 32 * 1024), shape_of(1, 2048, 0, 16, 36800),
                                 shape_of(0, 0, 0, 4096, 4096000), shape_of(1, 1, 1000000, 0, 0),
                                 shape_of(0, 0, 0, 1, 1)};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        check_parts(t, &shapes[i]);
    }
    const char *names[4];
    CHECK(aisim_timing_guessed(t, names, 4) > 4);
    aisim_timing_free(t);
}

/* Element-wise kernels are closed formulas: W1 of §9 gives them to five digits. */
static void test_elementwise_figures(void)
{
    aisim_model model = load_model("llama-3.1-8b");
    aisim_op_level_options options = {0};
    aisim_timing *t = roofline(&model, 1, &options, NULL);
    aisim_timing_part parts[64];
    aisim_pass_shape w1 = shape_of(1, 1024, 0, 0, 0);
    size_t n = aisim_timing_explain(t, &w1, parts, 64, NULL);
    int seen = 0;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(parts[i].name, "embedding") == 0) {
            CHECK_NEAR(parts[i].latency_ms, 0.00518453, 5e-9);
            seen++;
        } else if (strcmp(parts[i].name, "add_norm_1") == 0) {
            CHECK_NEAR(parts[i].latency_ms, 0.37562, 5e-6);
            seen++;
        } else if (strcmp(parts[i].name, "act_gate") == 0) {
            CHECK_NEAR(parts[i].latency_ms, 0.830003, 5e-6);
            seen++;
        } else if (strcmp(parts[i].name, "qkv_gemm") == 0) {
            CHECK_NEAR(parts[i].roof_ms / 32, 0.05211, 5e-6);
            seen++;
        }
    }
    CHECK_EQ(seen, 4);
    aisim_timing_free(t);
}

static void test_overrides(void)
{
    aisim_model model = load_model("llama-3.1-8b");
    aisim_op_level_options options = {0};
    aisim_roofline_overrides slow = {0.3, 0.4}, fast = {0.9, 0.95}, bad = {1.5, 0};
    aisim_timing *a = roofline(&model, 1, &options, &slow);
    options.pass_overhead_ms = 0.2;
    aisim_timing *b = roofline(&model, 1, &options, &slow);
    CHECK_EQ(ns_of(b, 1, 512, 0, 0, 0) - ns_of(a, 1, 512, 0, 0, 0), 200000);
    aisim_timing *c = roofline(&model, 1, &options, &fast);
    CHECK(ns_of(c, 1, 512, 0, 0, 0) < ns_of(b, 1, 512, 0, 0, 0));
    aisim_timing_free(a);
    aisim_timing_free(b);
    aisim_timing_free(c);
    aisim_hardware hardware = load_hardware();
    aisim_parallelism p = aisim_parallelism_one();
    aisim_error err = {0};
    CHECK(aisim_timing_roofline(&model, &hardware, &p, &options, &bad, &a, &err) == AISIM_ERANGE);
}

/* §6: fused reads the weights once, serial twice; strict refuses guesses; MTP factor of §4. */
static void test_composition(void)
{
    aisim_model model = load_model("llama-3.1-8b");
    aisim_op_level_options options = {0};
    aisim_timing *fused = roofline(&model, 1, &options, NULL);
    options.mixed = AISIM_MIXED_SERIAL;
    aisim_timing *serial = roofline(&model, 1, &options, NULL);
    int64_t prefill = ns_of(serial, 1, 2048, 0, 0, 0), decode = ns_of(serial, 0, 0, 0, 16, 36800);
    int64_t both = ns_of(serial, 1, 2048, 0, 16, 36800);
    CHECK(llabs(both - prefill - decode) <= 1);
    CHECK(ns_of(fused, 1, 2048, 0, 16, 36800) < both);
    aisim_pass_shape verify = shape_of(0, 0, 0, 16, 16000);
    verify.verify_width = 3;
    aisim_pass_shape wide = shape_of(0, 0, 0, 48, 48000);
    double ratio =
        (double)aisim_timing_pass_ns(fused, &verify) / (double)aisim_timing_pass_ns(fused, &wide);
    CHECK_NEAR(ratio, 34.0 / 32.0, 1e-6); /* (L + k) / L */
    aisim_timing_free(fused);
    aisim_timing_free(serial);
    options = (aisim_op_level_options){.strict = true};
    aisim_timing *strict = roofline(&model, 1, &options, NULL);
    CHECK_EQ(ns_of(strict, 1, 100, 0, 0, 0), AISIM_TIMING_FAILED);
    CHECK(aisim_timing_error(strict)->code == AISIM_ENOTMODELLED);
    aisim_timing_free(strict);
}

/* §8 */
static void test_capacity_example(void)
{
    aisim_model model = load_model("llama-3.1-8b");
    aisim_hardware hardware = load_hardware();
    aisim_parallelism p = aisim_parallelism_one();
    aisim_capacity_request request = aisim_capacity_request_default();
    aisim_capacity c;
    aisim_error err = {0};
    CHECK(aisim_capacity_compute(&model, &hardware, &p, &request, "main", &c, &err) == AISIM_OK);
    CHECK_EQ((int64_t)c.weights_bytes, INT64_C(16059990016));
    CHECK_EQ((int64_t)c.activations_bytes, 738197504);
    CHECK_EQ((int64_t)floor(c.budget_bytes), INT64_C(115701553561));
    CHECK_EQ((int64_t)c.bytes_per_token, 131072);
    CHECK_EQ(c.tokens, 882732);
    CHECK_EQ(c.blocks, 55170);
    request.safety_margin = 0.02;
    CHECK(aisim_capacity_compute(&model, &hardware, &p, &request, "main", &c, &err) == AISIM_OK);
    CHECK_EQ(c.tokens, 865078);
}

static void test_capacity_refusal(void)
{
    aisim_model model = load_model("llama-3.1-70b");
    aisim_hardware hardware = load_hardware();
    aisim_parallelism p = aisim_parallelism_one();
    aisim_capacity_request request = aisim_capacity_request_default();
    aisim_capacity c;
    aisim_error err = {0};
    CHECK(aisim_capacity_compute(&model, &hardware, &p, &request, "main", &c, &err) == AISIM_EFULL);
    CHECK(strstr(err.text, "pool 'main': weights 131.4 GiB + reserve do not fit 1 × h200_sxm") !=
          NULL);
    CHECK(strstr(err.text, "smallest tensor that fits: 2") != NULL);
    request.memory_fraction = 0;
    err = (aisim_error){0};
    CHECK(aisim_capacity_compute(&model, &hardware, &p, &request, "main", &c, &err) ==
          AISIM_ERANGE);
}

/* Not a benchmark, a guard: memoised decode passes stay far from the unmemoised cost. */
static void test_speed(void)
{
    aisim_model model = load_model("llama-3.1-8b");
    aisim_op_level_options options = {0};
    aisim_timing *t = roofline(&model, 1, &options, NULL);
    struct timespec a, b;
    int64_t sum = 0;
    enum { PASSES = 200000 };
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    for (uint64_t i = 0; i < PASSES; i++) {
        sum += ns_of(t, 0, 0, 0, 1 + i % 64, 4096 + i);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    double ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / PASSES;
    printf("decode pass: %.0f ns (checksum %lld)\n", ns, (long long)sum);
    CHECK(ns < 5000); /* generous: sanitizers, a busy machine */
    aisim_timing_free(t);
}

int main(void)
{
    test_fixed();
    test_linear();
    test_polynomial();
    test_callback();
    test_fields();
    test_parallelism();
    test_roofline();
    test_elementwise_figures();
    test_overrides();
    test_composition();
    test_capacity_example();
    test_capacity_refusal();
    test_speed();
    return check_done();
}
