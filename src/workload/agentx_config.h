/* agentx_config.h - the keys of the AgentX replay (traffic 2), as plain numbers.
 *
 * Names are those of Lua and YAML (there with the prefix `agentic_`); keys that end in `_seconds`
 * keep their unit. aisim_agentx_config_default() fills what stands beside each field, a preset
 * sets the keys as one of the published set-ups has them. */
#ifndef AISIM_WORKLOAD_AGENTX_CONFIG_H
#define AISIM_WORKLOAD_AGENTX_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/status.h"

typedef enum { AISIM_WARMUP_REPEAT, AISIM_WARMUP_ADVANCE } aisim_warmup_mode;
typedef enum { AISIM_IDENTITY_ISOLATED, AISIM_IDENTITY_AFTER_SYSTEM } aisim_cache_identity;
typedef enum { AISIM_ON_ERROR_FAIL_PLAY, AISIM_ON_ERROR_CONTINUE } aisim_on_error;

typedef struct aisim_agentx_profile {
    double duration_seconds;        /**< 3600, > 0: nothing is issued at or after its end */
    double response_grace_seconds;  /**< 30, >= 0 */
    double cancel_drain_seconds;    /**< 10, >= 0 */
    double tree_idle_cap_seconds;   /**< 300, > 0 */
    double global_idle_cap_seconds; /**< 10, > 0 */
} aisim_agentx_profile;

typedef struct aisim_agentx_config {
    uint32_t lanes;                    /**< must be set, 1 .. 2^20: live plays at all times */
    uint64_t seed;                     /**< 42 */
    double t_star[2];                  /**< {0.25, 0.75}, 0 <= lo <= hi <= 1 */
    bool warmup;                       /**< true; false = no preparation, the cut still applies */
    uint32_t warmup_requests_per_lane; /**< 10 */
    aisim_warmup_mode warmup_mode;     /**< repeat */
    aisim_agentx_profile profile;
    double speedup;                      /**< 1, > 0: divides gates and delays only */
    bool authored_gate;                  /**< true: never faster than recorded (traffic 1.6) */
    aisim_cache_identity cache_identity; /**< isolated */
    aisim_on_error on_error;             /**< fail_play */
    const double *u; /**< NULL; for tests: the draw of lane i in place of the seeded one */
    uint32_t n_u;    /**< lanes behind it draw as usual */
    bool once; /**< false; true = every source play at most once: no lane starts a play again, and
                  the run ends when the last one is done. Needs lanes <= plays. */
    bool shared_clock; /**< false; true = the recorded times of all plays are on one clock: an
                          initial play starts as long after the first one as recorded, nothing is
                          history */
    /* Stop rules (traffic 3.5), first reached wins. All end the profile like its duration does:
     * what was sent has the grace. */
    int64_t until_ns;   /**< 0 = none; else the deadline on the clock of the run, in the place of
                             profile.duration_seconds. Preparation is not cut short. */
    uint64_t requests;  /**< 0 = none; profile requests that are issued */
    uint32_t max_plays; /**< 0 = none, else >= lanes; plays that are started */
    bool forget_plays;  /**< false; true = no list of plays and shifts, callbacks only */
} aisim_agentx_config;

/** Fills the defaults; lanes stays 0. */
void aisim_agentx_config_default(aisim_agentx_config *config);

/** Sets every key but lanes, u and forget_plays to a preset: "agentx-v1" (the methodology, = the
 *  defaults), "agentx-harness" (the live harness's own scenario), "agentx-fast" (fast mode of the
 *  official recipe).
 *  @return AISIM_OK or AISIM_EINVAL (unknown name; the message lists the known ones) */
aisim_status aisim_agentx_config_preset(aisim_agentx_config *config, const char *name,
                                        aisim_error *err);

/** @return AISIM_OK or AISIM_ERANGE with the key, the value and the bound. */
aisim_status aisim_agentx_config_check(const aisim_agentx_config *config, aisim_error *err);

/** A recorded gate or delay at the configured speed, rounded once to whole nanoseconds. */
int64_t aisim_agentx_scaled_ns(const aisim_agentx_config *config, int64_t recorded_ns);

#endif
