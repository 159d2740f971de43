/* resolve.h - from one pool's checked engine table to the numbers the engine reads.
 *
 *     aisim_schema_check(engine, "engine", "pool: ", "", err)      keys, types, ranges
 *     aisim_config_rank(engine, &facts, &rank, &capacity, err)     combinations, numbers
 *     rank.kv.blocks = …                                           when capacity.type is DEFAULT
 *
 * Refused with the place of the key: combinations the engine cannot run, and combinations that would
 * silently do nothing (spec/config.md). */
#ifndef AISIM_CONFIG_RESOLVE_H
#define AISIM_CONFIG_RESOLVE_H

#include <stdint.h>

#include "aisim/config.h"
#include "config/value.h"

/** What the model descriptor knows, for one rank of this parallelism. */
typedef struct aisim_config_facts {
    const char *model;       /**< for messages; NULL = no model given */
    uint64_t context_length; /**< longest context in tokens, 0 = no limit known */
    double bytes_per_token;  /**< KV bytes of one token on one rank, 0 = unknown */
    double state_bytes;      /**< recurrent state of one request on one rank, 0 = has none */
} aisim_config_facts;

/** What kv_cache.capacity asks for. */
typedef struct aisim_capacity_request {
    aisim_capacity_type type;
    double memory_fraction; /**< DEFAULT: share of the GPU memory */
    uint64_t blocks;        /**< FIXED and BYTES: blocks of one rank */
    uint64_t bytes;         /**< BYTES: what was written */
} aisim_capacity_request;

/** Fills out from a checked engine table. out->kv.blocks is set for FIXED and BYTES; with DEFAULT
 *  it is 0 and the caller computes it from memory_fraction with the timing room.
 *  @param engine  checked as object "engine"; NULL = nothing given
 *  @return AISIM_OK, AISIM_EINVAL, AISIM_ERANGE or AISIM_ENOTMODELLED, at the place of the key. */
aisim_status aisim_config_rank(const aisim_value *engine, const aisim_config_facts *facts,
                               aisim_rank_config *out, aisim_capacity_request *capacity,
                               aisim_error *err);

/** Conditional acceptance rates whose mean number of accepted drafts is exactly `mean` (mtp.md §1):
 *  ones, then the fraction, then zeros. 0 <= mean <= depth <= AISIM_MAX_DRAFTS. */
void aisim_rates_from_mean(double mean, uint32_t depth, double rates[AISIM_MAX_DRAFTS]);

/** Mean number of accepted drafts of conditional rates: sum over k of the product of the first k.
 */
double aisim_mean_from_rates(const double rates[], uint32_t depth);

/** aisim_fail at the value of a dotted path, or at its nearest ancestor that somebody wrote. */
aisim_status aisim_fail_path(aisim_error *err, const aisim_value *tree, const char *path,
                             aisim_status code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 5, 6)))
#endif
    ;

#endif
