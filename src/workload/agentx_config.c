/* agentx_config.c - defaults, presets and ranges of the AgentX replay. */
#include "workload/agentx_config.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"

/* Longer than any run; keeps every sum of times far from the end of int64. */
#define MAX_SECONDS 1e9
#define LONGEST_NS (INT64_C(1) << 60)

void aisim_agentx_config_default(aisim_agentx_config *config)
{
    *config = (aisim_agentx_config){.seed = 42,
                                    .t_star = {0.25, 0.75},
                                    .warmup = true,
                                    .warmup_requests_per_lane = 10,
                                    .profile = {.duration_seconds = 3600,
                                                .response_grace_seconds = 30,
                                                .cancel_drain_seconds = 10,
                                                .tree_idle_cap_seconds = 300,
                                                .global_idle_cap_seconds = 10},
                                    .speedup = 1,
                                    .authored_gate = true};
}

aisim_status aisim_agentx_config_preset(aisim_agentx_config *config, const char *name,
                                        aisim_error *err)
{
    aisim_agentx_config preset;
    aisim_agentx_config_default(&preset);
    preset.lanes = config->lanes;
    preset.u = config->u;
    preset.n_u = config->n_u;
    preset.until_ns = config->until_ns;
    preset.requests = config->requests;
    preset.max_plays = config->max_plays;
    preset.forget_plays = config->forget_plays;
    if (strcmp(name, "agentx-fast") == 0) {
        preset.profile.duration_seconds = 1200;
        preset.warmup_requests_per_lane = 1;
    } else if (strcmp(name, "agentx-harness") == 0) {
        preset.t_star[0] = 0;
        preset.t_star[1] = 1;
        preset.profile.duration_seconds = 1800;
        preset.warmup_mode = AISIM_WARMUP_ADVANCE;
        preset.authored_gate = false;
        preset.cache_identity = AISIM_IDENTITY_AFTER_SYSTEM;
        preset.on_error = AISIM_ON_ERROR_CONTINUE;
    } else if (strcmp(name, "agentx-v1") != 0) {
        return aisim_fail(err, AISIM_EINVAL,
                          "unknown AgentX preset '%s', expected agentx-v1, agentx-harness or "
                          "agentx-fast",
                          name);
    }
    *config = preset;
    return AISIM_OK;
}

static aisim_status check_seconds(const char *key, double value, bool zero_allowed,
                                  aisim_error *err)
{
    if ((value > 0 || (zero_allowed && value == 0)) && value <= MAX_SECONDS) {
        return AISIM_OK;
    }
    return aisim_fail(err, AISIM_ERANGE, "profile.%s is %g, expected %s and at most %g", key, value,
                      zero_allowed ? ">= 0" : "> 0", MAX_SECONDS);
}

static aisim_status check_profile(const aisim_agentx_profile *p, aisim_error *err)
{
    const struct {
        const char *key;
        double value;
        bool zero_allowed;
    } rows[] = {{"duration_seconds", p->duration_seconds, false},
                {"response_grace_seconds", p->response_grace_seconds, true},
                {"cancel_drain_seconds", p->cancel_drain_seconds, true},
                {"tree_idle_cap_seconds", p->tree_idle_cap_seconds, false},
                {"global_idle_cap_seconds", p->global_idle_cap_seconds, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        aisim_status status = check_seconds(rows[i].key, rows[i].value, rows[i].zero_allowed, err);
        if (status != AISIM_OK) {
            return status;
        }
    }
    return AISIM_OK;
}

aisim_status aisim_agentx_config_check(const aisim_agentx_config *config, aisim_error *err)
{
    if (config->lanes < 1 || config->lanes > UINT32_C(1) << 20) {
        return aisim_fail(err, AISIM_ERANGE, "lanes is %" PRIu32 ", expected 1 to 1048576",
                          config->lanes);
    }
    double low = config->t_star[0];
    double high = config->t_star[1];
    if (!(low >= 0 && low <= high && high <= 1)) {
        return aisim_fail(err, AISIM_ERANGE,
                          "t_star is [%g, %g], expected two fractions with 0 <= low <= high <= 1",
                          low, high);
    }
    if (!(config->speedup > 0 && isfinite(config->speedup) && isfinite(1 / config->speedup))) {
        return aisim_fail(err, AISIM_ERANGE,
                          "speedup is %g, expected a finite number > 0 with a finite reciprocal",
                          config->speedup);
    }
    if (config->max_plays > 0 && config->max_plays < config->lanes) {
        return aisim_fail(err, AISIM_ERANGE,
                          "sessions = %" PRIu32 ": must be >= lanes (%" PRIu32
                          "), which begin with a play each",
                          config->max_plays, config->lanes);
    }
    for (uint32_t i = 0; i < config->n_u; i++) {
        if (!(config->u[i] >= 0 && config->u[i] <= 1)) {
            return aisim_fail(err, AISIM_ERANGE, "u[%" PRIu32 "] is %g, expected 0 to 1", i,
                              config->u[i]);
        }
    }
    return check_profile(&config->profile, err);
}

int64_t aisim_agentx_scaled_ns(const aisim_agentx_config *config, int64_t recorded_ns)
{
    if (config->speedup == 1.0) {
        return recorded_ns;
    }
    double ns = (double)recorded_ns / config->speedup;
    if (ns >= (double)LONGEST_NS) {
        return LONGEST_NS;
    }
    return ns <= -(double)LONGEST_NS ? -LONGEST_NS : (int64_t)llround(ns);
}
