/* test_synthetic.c - the generator against the published statistics (traffic 4.2, 4.3), and that a
 * corpus written as Weka lines reads back the same. */
#include <stdlib.h>

#include "base/array.h"
#include "check.h"
#include "workload/reuse.h"
#include "workload/synthetic.h"
#include "workload/weka_write.h"

static aisim_corpus *make(const aisim_synthetic_config *config)
{
    aisim_error err = {0};
    aisim_corpus *corpus = aisim_corpus_new(NULL);
    CHECK_EQ(aisim_synthetic_plays(config, corpus, &err), AISIM_OK);
    CHECK_EQ(aisim_corpus_finish(corpus, &err), AISIM_OK);
    if (err.code != AISIM_OK) {
        printf("%s\n", err.text);
    }
    return corpus;
}

typedef AISIM_ARRAY(double) list;

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* spec/report: linear between order statistics */
static double quantile(list *values, double q)
{
    qsort(values->data, values->len, sizeof *values->data, compare);
    double rank = q * (values->len - 1);
    uint32_t low = (uint32_t)rank;
    uint32_t high = low + 1 < values->len ? low + 1 : low;
    return values->data[low] + (rank - low) * (values->data[high] - values->data[low]);
}

typedef struct figures {
    double reuse, isl50, isl90, osl50, osl90, subagents;
} figures;

static figures figures_of(const aisim_corpus *corpus)
{
    list in = {0};
    list out = {0};
    double nested = 0;
    for (uint32_t p = 0; p < corpus->n_plays; p++) {
        const aisim_play *play = &corpus->plays[p];
        for (uint32_t i = 0; i < play->n_requests; i++) {
            aisim_array_push(&in, play->requests[i].input_tokens);
            aisim_array_push(&out, play->requests[i].output_tokens);
            nested += play->requests[i].inner != AISIM_NONE;
        }
    }
    aisim_ideal_reuse reuse = aisim_ideal_reuse_corpus(corpus, 64);
    figures f = {(double)reuse.reused_tokens / (double)reuse.input_tokens,
                 quantile(&in, 0.5),
                 quantile(&in, 0.9),
                 quantile(&out, 0.5),
                 quantile(&out, 0.9),
                 nested / in.len};
    aisim_array_free(&in);
    aisim_array_free(&out);
    return f;
}

/* The bounds of traffic 4.3: mean over five seeds of a corpus as large as the measured one. */
static void test_bounds(void)
{
    figures mean = {0};
    for (uint64_t seed = 1; seed <= 5; seed++) {
        aisim_synthetic_config config;
        aisim_synthetic_config_default(&config);
        config.plays = 710;
        config.seed = seed;
        aisim_corpus *corpus = make(&config);
        figures f = figures_of(corpus);
        printf("seed %d: reuse %.2f %%, ISL %.0f / %.0f, OSL %.0f / %.0f, in subagents %.2f %%\n",
               (int)seed, 100 * f.reuse, f.isl50, f.isl90, f.osl50, f.osl90, 100 * f.subagents);
        mean.reuse += f.reuse / 5;
        mean.isl50 += f.isl50 / 5;
        mean.isl90 += f.isl90 / 5;
        mean.osl50 += f.osl50 / 5;
        mean.osl90 += f.osl90 / 5;
        aisim_corpus_free(corpus);
    }
    printf("mean: reuse %.2f %%, ISL %.0f / %.0f, OSL %.0f / %.0f\n", 100 * mean.reuse, mean.isl50,
           mean.isl90, mean.osl50, mean.osl90);
    CHECK_NEAR(100 * mean.reuse, 96.32, 0.7);
    CHECK_NEAR(mean.isl50 / 103659, 1, 0.15);
    CHECK_NEAR(mean.isl90 / 233633, 1, 0.15);
    CHECK_NEAR(mean.osl50 / 216, 1, 0.15);
    CHECK_NEAR(mean.osl90 / 898, 1, 0.15);
}

/* 4.3 step 6: the share of requests in subagents that the newer corpora have. */
static void test_presets(void)
{
    const struct {
        const char *name;
        double low, high;
    } rows[] = {{"042026", 0, 0.06}, {"052726", 0.1, 0.35}, {"062126", 0.32, 0.52}};
    for (int i = 0; i < 3; i++) {
        aisim_synthetic_config config;
        aisim_error err = {0};
        aisim_synthetic_config_default(&config);
        CHECK_EQ(aisim_synthetic_config_preset(&config, rows[i].name, &err), AISIM_OK);
        config.plays = 800;
        aisim_corpus *corpus = make(&config);
        figures f = figures_of(corpus);
        printf("%s: %.1f %% of the requests in subagents, reuse %.2f %%\n", rows[i].name,
               100 * f.subagents, 100 * f.reuse);
        CHECK(f.subagents >= rows[i].low && f.subagents <= rows[i].high);
        bool whole = true;
        for (uint32_t k = 0; k < corpus->plays[0].n_requests; k++) {
            whole = whole && corpus->plays[0].requests[k].input_tokens % 64 == 0;
        }
        CHECK_EQ(whole, i == 2);
        aisim_corpus_free(corpus);
    }
    aisim_synthetic_config config;
    aisim_error err = {0};
    CHECK_EQ(aisim_synthetic_config_preset(&config, "june", &err), AISIM_EINVAL);
}

/* Play i does not depend on how many there are; sizes do not depend on the law of times (A7). */
static void test_streams(void)
{
    aisim_synthetic_config config;
    aisim_synthetic_config_default(&config);
    config.plays = 5;
    aisim_corpus *few = make(&config);
    config.plays = 40;
    config.tool_gap_s[0] = 4;
    aisim_corpus *many = make(&config);
    for (uint32_t p = 0; p < 5; p++) {
        const aisim_play *x = &few->plays[p];
        const aisim_play *y = &many->plays[p];
        CHECK_EQ(x->n_requests, y->n_requests);
        for (uint32_t i = 0; i < x->n_requests && i < y->n_requests; i++) {
            CHECK_EQ(x->requests[i].input_tokens, y->requests[i].input_tokens);
        }
    }
    aisim_corpus_free(few);
    aisim_corpus_free(many);
}

static void test_round_trip(void)
{
    static const char *const presets[] = {"042026", "062126"};
    for (int i = 0; i < 4; i++) {
        aisim_synthetic_config config;
        aisim_error err = {0};
        aisim_synthetic_config_default(&config);
        aisim_synthetic_config_preset(&config, presets[i / 2], &err);
        config.plays = 30;
        config.subagent_play_share = 0.5;
        aisim_corpus *corpus = make(&config);
        FILE *file = tmpfile();
        for (uint32_t p = 0; p < corpus->n_plays; p++) {
            aisim_weka_write(&corpus->plays[p], i % 2 == 0, file);
        }
        rewind(file);
        aisim_corpus *again = aisim_corpus_new(NULL);
        char *line = NULL;
        size_t capacity = 0;
        ssize_t n;
        int number = 0;
        while ((n = getline(&line, &capacity, file)) > 0) {
            CHECK_EQ(aisim_corpus_add_text(again, line, (size_t)n, "copy", ++number, &err),
                     AISIM_OK);
        }
        CHECK_EQ(aisim_corpus_finish(again, &err), AISIM_OK);
        CHECK_EQ(again->digest, corpus->digest);
        CHECK_EQ(again->basis, corpus->basis);
        free(line);
        fclose(file);
        aisim_corpus_free(corpus);
        aisim_corpus_free(again);
    }
}

static void test_bounds_of_parameters(void)
{
    aisim_synthetic_config config;
    aisim_error err = {0};
    uint32_t n = 0;
    aisim_synthetic_config_default(&config);
    CHECK_EQ(aisim_synthetic_config_check(&config, &err), AISIM_OK);
    double *share = aisim_synthetic_config_field(&config, "fresh_share", &n);
    CHECK(share == &config.fresh_share && n == 1);
    CHECK(aisim_synthetic_config_field(&config, "window", &n) == config.window && n == 2);
    CHECK(aisim_synthetic_config_field(&config, "windows", &n) == NULL);
    *share = 1.5;
    CHECK_EQ(aisim_synthetic_config_check(&config, &err), AISIM_ERANGE);
    CHECK_STR(err.text, "fresh_share = 1.5: must be from 0 to 1");
}

/* Who asks for a million plays can change their mind. */
static void test_interruption(void)
{
    volatile int stop = 1;
    const aisim_corpus_options options = {.interrupt = &stop};
    aisim_synthetic_config config;
    aisim_error err = {0};
    aisim_synthetic_config_default(&config);
    config.plays = 1000000;
    aisim_corpus *corpus = aisim_corpus_new(&options);
    CHECK_EQ(aisim_synthetic_plays(&config, corpus, &err), AISIM_EINTERRUPTED);
    CHECK_STR(err.text, "interrupted after 0 plays were added");
    aisim_corpus_free(corpus);

    stop = 0;
    config.plays = 3;
    corpus = aisim_corpus_new(&options);
    CHECK_EQ(aisim_synthetic_plays(&config, corpus, &err), AISIM_OK);
    stop = 2;
    CHECK_EQ(aisim_corpus_finish(corpus, &err), AISIM_EINTERRUPTED);
    aisim_corpus_free(corpus);
}

int main(void)
{
    test_interruption();
    test_bounds();
    test_presets();
    test_streams();
    test_round_trip();
    test_bounds_of_parameters();
    return check_done();
}
