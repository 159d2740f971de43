/* schema_distribution.c - laws that may stand in the place of a number: those of aisim.dist, same
 * names and parameters (spec/lua-api.md §3). Which parameters go together is checked there. */
#include "config/schema_rows.h"

static const aisim_field exp_rows[] = {
    {.key = "mean",
     .kind = AISIM_FIELD_REAL,
     .meaning = "mean",
     .min = 0,
     .flags = AISIM_FIELD_REQUIRED | AISIM_FIELD_HAS_MIN | AISIM_FIELD_MIN_OPEN},
};

static const aisim_field gamma_rows[] = {
    {.key = "mean",
     .kind = AISIM_FIELD_REAL,
     .meaning = "mean",
     .min = 0,
     .flags = AISIM_FIELD_REQUIRED | AISIM_FIELD_HAS_MIN | AISIM_FIELD_MIN_OPEN},
    {.key = "cv",
     .kind = AISIM_FIELD_REAL,
     .meaning = "standard deviation / mean",
     .min = 0,
     .flags = AISIM_FIELD_REQUIRED | AISIM_FIELD_HAS_MIN | AISIM_FIELD_MIN_OPEN},
};

static const aisim_field normal_rows[] = {
    {.key = "mean", .kind = AISIM_FIELD_REAL, .meaning = "mean", .flags = AISIM_FIELD_REQUIRED},
    {.key = "std",
     .kind = AISIM_FIELD_REAL,
     .meaning = "standard deviation",
     .min = 0,
     .flags = AISIM_FIELD_REQUIRED | AISIM_FIELD_HAS_MIN},
    {.key = "min", .kind = AISIM_FIELD_REAL, .meaning = "smaller values become this"},
    {.key = "max", .kind = AISIM_FIELD_REAL, .meaning = "larger values become this"},
};

static const aisim_field lognormal_rows[] = {
    {.key = "mean",
     .kind = AISIM_FIELD_REAL,
     .meaning = "two of mean, p50, p99, or mu and sigma",
     ABOVE(0)},
    {.key = "p50", .kind = AISIM_FIELD_REAL, .meaning = "median", ABOVE(0)},
    {.key = "p99", .kind = AISIM_FIELD_REAL, .meaning = "99th percentile", ABOVE(0)},
    {.key = "mu", .kind = AISIM_FIELD_REAL, .meaning = "mean of the natural logarithm"},
    {.key = "sigma", .kind = AISIM_FIELD_REAL, .meaning = "its standard deviation", AT_LEAST(0)},
    {.key = "min", .kind = AISIM_FIELD_REAL, .meaning = "smaller values become this"},
    {.key = "max", .kind = AISIM_FIELD_REAL, .meaning = "larger values become this"},
};

static const aisim_field pareto_rows[] = {
    {.key = "min",
     .kind = AISIM_FIELD_REAL,
     .meaning = "smallest value",
     .min = 0,
     .flags = AISIM_FIELD_REQUIRED | AISIM_FIELD_HAS_MIN | AISIM_FIELD_MIN_OPEN},
    {.key = "alpha", .kind = AISIM_FIELD_REAL, .meaning = "tail index; or mean", ABOVE(0)},
    {.key = "mean", .kind = AISIM_FIELD_REAL, .meaning = "instead of alpha", ABOVE(0)},
};

static const aisim_field zipf_rows[] = {
    {.key = "n",
     .kind = AISIM_FIELD_INTEGER,
     .meaning = "ranks 1 to n",
     .min = 1,
     .max = 100000000,
     .flags = AISIM_FIELD_REQUIRED | AISIM_FIELD_HAS_MIN | AISIM_FIELD_HAS_MAX},
    {.key = "s",
     .kind = AISIM_FIELD_REAL,
     .meaning = "weight of a rank is 1 / rank^s",
     .fallback = "1",
     AT_LEAST(0)},
};

static const aisim_field distribution_rows[] = {
    {.key = "const", .kind = AISIM_FIELD_REAL, .meaning = "always the same"},
    {.key = "uniform", .kind = AISIM_FIELD_REALS, .meaning = "[from, to]"},
    {.key = "empirical", .kind = AISIM_FIELD_REALS, .meaning = "values, equally likely"},
    {.key = "exp",
     .kind = AISIM_FIELD_OBJECT,
     .object = "dist_exp",
     .flags = AISIM_FIELD_FEATURE,
     .meaning = "exponential"},
    {.key = "gamma",
     .kind = AISIM_FIELD_OBJECT,
     .object = "dist_gamma",
     .flags = AISIM_FIELD_FEATURE,
     .meaning = "gamma"},
    {.key = "normal",
     .kind = AISIM_FIELD_OBJECT,
     .object = "dist_normal",
     .flags = AISIM_FIELD_FEATURE,
     .meaning = "normal"},
    {.key = "lognormal",
     .kind = AISIM_FIELD_OBJECT,
     .object = "dist_lognormal",
     .flags = AISIM_FIELD_FEATURE,
     .meaning = "log-normal"},
    {.key = "pareto",
     .kind = AISIM_FIELD_OBJECT,
     .object = "dist_pareto",
     .flags = AISIM_FIELD_FEATURE,
     .meaning = "Pareto"},
    {.key = "zipf",
     .kind = AISIM_FIELD_OBJECT,
     .object = "dist_zipf",
     .flags = AISIM_FIELD_FEATURE,
     .meaning = "ranks by frequency"},
};

const aisim_object aisim_distribution_objects[] = {
    {"distribution", "One of these in the place of a number", {GROUP(distribution_rows)}},
    {"dist_exp", "Exponential", {GROUP(exp_rows)}},
    {"dist_gamma", "Gamma", {GROUP(gamma_rows)}},
    {"dist_normal", "Normal", {GROUP(normal_rows)}},
    {"dist_lognormal", "Log-normal", {GROUP(lognormal_rows)}},
    {"dist_pareto", "Pareto", {GROUP(pareto_rows)}},
    {"dist_zipf", "Zipf", {GROUP(zipf_rows)}},
};
const uint32_t aisim_distribution_objects_n =
    sizeof aisim_distribution_objects / sizeof *aisim_distribution_objects;
