/* synthetic_config.c - the parameters of the generator: defaults, presets, look-up, bounds. All
 * come from the three lists of the header, so a new parameter is one line there. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "workload/synthetic.h"

typedef struct field {
    const char *name;
    size_t offset;
    uint32_t n;
    double low, high; /* bounds of each value */
    double first, second;
} field;

#define OFFSET(name) offsetof(aisim_synthetic_config, name)

static const field numbers[] = {
#define X(name, value, low, high) {#name, OFFSET(name), 1, low, high, value, 0},
    AISIM_SYNTHETIC_NUMBERS(X)
#undef X
};

static const field laws[] = {
#define X(name, mu, sigma) {#name, OFFSET(name), 2, -50, 50, mu, sigma},
    AISIM_SYNTHETIC_LAWS(X)
#undef X
};

static const field ranges[] = {
#define X(name, from, to, low, high) {#name, OFFSET(name), 2, low, high, from, to},
    AISIM_SYNTHETIC_RANGES(X)
#undef X
};

#define COUNT(list) (sizeof(list) / sizeof *(list))

static double *place(aisim_synthetic_config *config, const field *f)
{
    return (double *)(void *)((char *)config + f->offset);
}

static const double *values(const aisim_synthetic_config *config, const field *f)
{
    return (const double *)(const void *)((const char *)config + f->offset);
}

static void fill(aisim_synthetic_config *config, const field *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double *at = place(config, &list[i]);
        at[0] = list[i].first;
        if (list[i].n == 2) {
            at[1] = list[i].second;
        }
    }
}

void aisim_synthetic_config_default(aisim_synthetic_config *config)
{
    *config = (aisim_synthetic_config){
        .plays = 200, .seed = 42, .block_size = 64, .group_counts = {0.55, 0.2, 0.15, 0.1}};
    fill(config, numbers, COUNT(numbers));
    fill(config, laws, COUNT(laws));
    fill(config, ranges, COUNT(ranges));
}

aisim_status aisim_synthetic_config_preset(aisim_synthetic_config *config, const char *name,
                                           aisim_error *err)
{
    bool june = strcmp(name, "062126") == 0;
    if (!june && strcmp(name, "042026") != 0 && strcmp(name, "052726") != 0) {
        return aisim_fail(err, AISIM_EINVAL, "preset = '%s': must be one of 042026, 052726, 062126",
                          name);
    }
    bool old = strcmp(name, "042026") == 0;
    config->subagent_play_share = old ? 0.024 : 0.29;
    config->spawn_share = june ? 0.06 : 0.03;
    config->group_requests_mean = june ? 24 : 9; /* 26 with the first two */
    config->whole_blocks = june;
    return AISIM_OK;
}

static const field *find(const field *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i].name, name) == 0) {
            return &list[i];
        }
    }
    return NULL;
}

double *aisim_synthetic_config_field(aisim_synthetic_config *config, const char *name, uint32_t *n)
{
    const field *f = find(numbers, COUNT(numbers), name);
    f = f != NULL ? f : find(laws, COUNT(laws), name);
    f = f != NULL ? f : find(ranges, COUNT(ranges), name);
    if (f != NULL) {
        *n = f->n;
        return place(config, f);
    }
    *n = 4;
    return strcmp(name, "group_counts") == 0 ? config->group_counts : NULL;
}

static aisim_status check_list(const aisim_synthetic_config *config, const field *list, size_t n,
                               aisim_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const double *at = values(config, &list[i]);
        for (uint32_t k = 0; k < list[i].n; k++) {
            if (!(at[k] >= list[i].low && at[k] <= list[i].high)) {
                return aisim_fail(err, AISIM_ERANGE, "%s = %g: must be from %g to %g", list[i].name,
                                  at[k], list[i].low, list[i].high);
            }
        }
    }
    return AISIM_OK;
}

static aisim_status check_orders(const aisim_synthetic_config *config, aisim_error *err)
{
    for (size_t i = 0; i < COUNT(ranges); i++) {
        const double *at = values(config, &ranges[i]);
        if (at[0] > at[1]) {
            return aisim_fail(err, AISIM_ERANGE, "%s = {%g, %g}: low above high", ranges[i].name,
                              at[0], at[1]);
        }
    }
    for (size_t i = 0; i < COUNT(laws); i++) {
        double sigma = values(config, &laws[i])[1];
        if (sigma < 0) {
            return aisim_fail(err, AISIM_ERANGE, "%s: sigma = %g: must be >= 0", laws[i].name,
                              sigma);
        }
    }
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        if (!(config->group_counts[i] >= 0 && isfinite(config->group_counts[i]))) {
            return aisim_fail(err, AISIM_ERANGE, "group_counts[%d] = %g: weight >= 0 expected",
                              i + 1, config->group_counts[i]);
        }
        sum += config->group_counts[i];
    }
    return sum > 0 ? AISIM_OK
                   : aisim_fail(err, AISIM_ERANGE, "group_counts: the weights add up to nothing");
}

aisim_status aisim_synthetic_config_check(const aisim_synthetic_config *config, aisim_error *err)
{
    if (config->plays < 1 || config->plays > 10000000) {
        return aisim_fail(err, AISIM_ERANGE, "plays = %u: must be from 1 to 10000000",
                          config->plays);
    }
    if (config->block_size < 1 || config->block_size > 65536) {
        return aisim_fail(err, AISIM_ERANGE, "block_size = %u: must be from 1 to 65536",
                          config->block_size);
    }
    aisim_status status = check_list(config, numbers, COUNT(numbers), err);
    if (status == AISIM_OK) {
        status = check_list(config, laws, COUNT(laws), err);
    }
    if (status == AISIM_OK) {
        status = check_list(config, ranges, COUNT(ranges), err);
    }
    return status == AISIM_OK ? check_orders(config, err) : status;
}
