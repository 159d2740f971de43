/* generators.h - what open and closed traffic consist of: sources of gaps and of units.
 *
 * A *gap source* says how long until the next arrival (or how long a user thinks); a *unit source*
 * says what arrives. Both are a function and a context, so a distribution written in Lua is one
 * implementation among others. The drivers that put them on the clock are in src/sim/traffic.h. */
#ifndef AISIM_WORKLOAD_GENERATORS_H
#define AISIM_WORKLOAD_GENERATORS_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/status.h"
#include "base/rng.h"
#include "workload/arrivals.h"

/** next: writes a gap >= 0 in ns. @return false = no more; an error is in err. */
typedef struct aisim_gap_source {
    void *context;
    bool (*next)(void *context, int64_t *gap_ns, aisim_error *err);
    void (*free)(void *context); /**< NULL allowed */
} aisim_gap_source;

/** One request to come. The prompt is prefix_tokens of the named stream `prefix`, then private
 *  tokens up to prompt_tokens. */
typedef struct aisim_unit {
    uint32_t prompt_tokens; /**< prefix included */
    uint32_t output_tokens;
    uint64_t prefix;        /**< name of the shared prefix */
    uint32_t prefix_tokens; /**< 0 = none; at most prompt_tokens */
    int32_t priority;
} aisim_unit;

/** next: describes the next request. @return false = no more; an error is in err. */
typedef struct aisim_unit_source {
    void *context;
    bool (*next)(void *context, aisim_unit *unit, aisim_error *err);
    void (*free)(void *context); /**< NULL allowed */
} aisim_unit_source;

/** Always the same gap. */
aisim_gap_source aisim_gaps_constant(int64_t gap_ns);

/** Exponential gaps of the given mean from an own stream, for think times. */
aisim_gap_source aisim_gaps_exponential(double mean_ns, aisim_rng rng);

/** The gaps of an arrival process (taken, with its lists) and its stream. */
aisim_gap_source aisim_gaps_arrivals(const aisim_arrivals *arrivals, aisim_rng rng);

/** Always the same lengths. */
aisim_unit_source aisim_units_constant(uint32_t prompt_tokens, uint32_t output_tokens);

#endif
