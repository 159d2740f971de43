/* rank_config.c - defaults and checks of the resolved configuration (include/aisim/config.h).
 *
 * Here, and not in the config room, because everything that builds a rank needs it, also without
 * YAML. Every message starts with the key as spec/config.md writes it, relative to one pool's
 * engine table: the config room finds the line of the file by it. */
#include "aisim/config.h"

#include <math.h>
#include <stdio.h>

void aisim_rank_config_default(aisim_rank_config *config)
{
    *config = (aisim_rank_config){
        .scheduler = {.max_batched_tokens = 8192,
                      .max_sequences = 256,
                      .chunked_prefill = true,
                      .prefill_schedule_interval = 1,
                      .reserve_full_prompt = true,
                      .admit_at_zero_budget = true,
                      .preempting_pass_limit = 10000},
        .kv = {.block_size = 64, .prefix_caching = true},
        .speculation = {.seed = 42, .drop_matched_block = true},
        .host = {.d2h_gbps = 32.0,
                 .h2d_gbps = 32.0,
                 .shared_d2h_gbps = 80.0,
                 .shared_h2d_gbps = 80.0,
                 .touch_prompt_on_lookup = true,
                 .touch_prompt_on_store = true,
                 .drop_applies_to_loads = true,
                 .refresh_on_load = true},
        .group_ranks = 1,
    }; /* every enumeration's default is its first member */
}

/* ---- checks ---------------------------------------------------------------------------------- */

static aisim_status at_least(const char *key, uint64_t value, uint64_t least, aisim_error *err)
{
    if (value >= least) {
        return AISIM_OK;
    }
    return aisim_fail(err, AISIM_ERANGE, "%s = %llu: must be >= %llu", key,
                      (unsigned long long)value, (unsigned long long)least);
}

/* A bug of who fills the structure, not of who writes YAML: said all the same. */
static aisim_status member(const char *key, unsigned value, unsigned members, aisim_error *err)
{
    if (value < members) {
        return AISIM_OK;
    }
    return aisim_fail(err, AISIM_EINVAL, "%s: %u is no member of its enumeration", key, value);
}

static aisim_status check_enums(const aisim_rank_config *c, aisim_error *err)
{
    const struct {
        const char *key;
        unsigned value, members;
    } rows[] = {
        {"scheduler.policy", c->scheduler.policy, 2},
        {"scheduler.preemption", c->scheduler.preemption, 2},
        {"scheduler.never_fits", c->scheduler.never_fits, 2},
        {"scheduler.self_preemption", c->scheduler.self_preemption, 2},
        {"scheduler.overlap", c->scheduler.overlap, 3},
        {"kv_cache.unkeyed_release", c->kv.unkeyed_release, 2},
        {"kv_cache.eviction", c->kv.eviction, 2},
        {"kv_cache.state_cache.mode", c->kv.state_mode, 3},
        {"kv_cache.state_cache.align_split", c->kv.align_split, 3},
        {"kv_cache.state_cache.checkpoints", c->kv.checkpoints, 2},
        {"kv_cache.state_cache.same_pass_hit", c->kv.same_pass_hit, 2},
        {"speculation.mode", c->speculation.mode, 3},
        {"speculation.stream", c->speculation.stream, 2},
        {"kv_cache.host_offload.scope", c->host.scope, 3},
        {"kv_cache.host_offload.lru_tie_break", c->host.tie_break, 3},
    };
    aisim_status status = AISIM_OK;
    for (unsigned i = 0; i < sizeof rows / sizeof *rows && status == AISIM_OK; i++) {
        status = member(rows[i].key, rows[i].value, rows[i].members, err);
    }
    return status;
}

/* spec/engine.md §2 */
static aisim_status check_scheduler(const aisim_scheduler_config *s, aisim_error *err)
{
    aisim_status status = at_least("scheduler.max_batched_tokens", s->max_batched_tokens, 1, err);
    if (status == AISIM_OK) {
        status = at_least("scheduler.max_sequences", s->max_sequences, 1, err);
    }
    if (status == AISIM_OK) {
        status =
            at_least("scheduler.prefill_schedule_interval", s->prefill_schedule_interval, 1, err);
    }
    if (status == AISIM_OK && s->context_length != 0) {
        status = at_least("context_length", s->context_length, 2, err);
    }
    if (status == AISIM_OK) {
        status = at_least("scheduler.preempting_pass_limit", s->preempting_pass_limit, 1, err);
    }
    if (status != AISIM_OK) {
        return status;
    }
    if (!(s->watermark >= 0.0 && s->watermark < 1.0)) { /* also refuses not-a-number */
        return aisim_fail(err, AISIM_ERANGE, "scheduler.watermark = %g: must be >= 0 and < 1",
                          s->watermark);
    }
    if (!s->chunked_prefill && s->context_length > s->max_batched_tokens) {
        return aisim_fail(
            err, AISIM_EINVAL,
            "scheduler.max_batched_tokens = %u: must be >= context_length (%llu) when "
            "chunked_prefill is false",
            s->max_batched_tokens, (unsigned long long)s->context_length);
    }
    return AISIM_OK;
}

static aisim_status check_match_unit(const aisim_kv_config *kv, aisim_error *err)
{
    if (kv->prefix_match_unit == 0) {
        return AISIM_OK;
    }
    if (kv->state_mode != AISIM_STATE_ALIGNED) {
        return aisim_fail(err, AISIM_EINVAL,
                          "kv_cache.prefix_match_unit = %u: needs state_cache.mode = 'aligned'",
                          kv->prefix_match_unit);
    }
    if (kv->block_size % kv->prefix_match_unit != 0) {
        return aisim_fail(err, AISIM_EINVAL,
                          "kv_cache.prefix_match_unit = %u: must divide block_size (%u)",
                          kv->prefix_match_unit, kv->block_size);
    }
    return AISIM_OK;
}

static aisim_status check_kv(const aisim_kv_config *kv, aisim_error *err)
{
    aisim_status status = at_least("kv_cache.block_size", kv->block_size, 2, err);
    if (status == AISIM_OK) {
        status = at_least("kv_cache.capacity.blocks", kv->blocks, 1, err);
    }
    if (status == AISIM_OK) {
        status = check_match_unit(kv, err);
    }
    if (status != AISIM_OK) {
        return status;
    }
    if (!(kv->bytes_per_token >= 0.0) || isinf(kv->bytes_per_token)) {
        return aisim_fail(err, AISIM_ERANGE,
                          "kv_cache.bytes_per_token = %g: must be finite and >= 0",
                          kv->bytes_per_token);
    }
    if ((kv->state_mode == AISIM_STATE_NONE) != (kv->state_blocks == 0)) {
        return aisim_fail(
            err, AISIM_EINVAL,
            kv->state_blocks == 0
                ? "kv_cache.state_cache.bytes_per_request: a state cache needs at "
                  "least one block per state"
                : "kv_cache.state_cache.mode: a state of %u blocks needs a state cache",
            kv->state_blocks);
    }
    return AISIM_OK;
}

/* spec/mtp.md §1, §10 */
static aisim_status check_speculation(const aisim_rank_config *c, aisim_error *err)
{
    const aisim_speculation_config *s = &c->speculation;
    if (s->mode == AISIM_SPECULATION_NONE) {
        return s->depth == 0 ? AISIM_OK
                             : aisim_fail(err, AISIM_EINVAL,
                                          "speculation.params.depth = %u: needs a speculation mode",
                                          s->depth);
    }
    if (s->depth < 1 || s->depth > AISIM_MAX_DRAFTS) {
        return aisim_fail(err, AISIM_ERANGE,
                          "speculation.params.depth = %u: must be >= 1 and <= %d", s->depth,
                          AISIM_MAX_DRAFTS);
    }
    for (unsigned i = 0; i < s->depth; i++) {
        double rate = s->acceptance_rates[i];
        if (!(rate >= 0.0 && rate <= 1.0)) {
            return aisim_fail(err, AISIM_ERANGE,
                              "speculation.acceptance_rates: rate %u = %g: must be >= 0 and <= 1",
                              i + 1, rate);
        }
    }
    if (c->kv.prefix_match_unit != 0 && c->kv.prefix_match_unit < c->kv.block_size) {
        return aisim_fail(err, AISIM_EINVAL,
                          "kv_cache.prefix_match_unit = %u: with speculation it must be the "
                          "block_size (%u)",
                          c->kv.prefix_match_unit, c->kv.block_size);
    }
    return AISIM_OK;
}

/* spec/offload.md §2 */
static aisim_status check_host(const aisim_rank_config *c, aisim_error *err)
{
    const aisim_host_config *h = &c->host;
    const struct {
        const char *key;
        double value;
    } rows[] = {{"d2h_bandwidth_gbps", h->d2h_gbps},
                {"h2d_bandwidth_gbps", h->h2d_gbps},
                {"shared_d2h_bandwidth_gbps", h->shared_d2h_gbps},
                {"shared_h2d_bandwidth_gbps", h->shared_h2d_gbps},
                {"latency_to_first_byte_ms", h->latency_ms}};
    if (h->scope == AISIM_HOST_NONE) {
        return AISIM_OK;
    }
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!(rows[i].value >= 0.0) || isinf(rows[i].value)) {
            return aisim_fail(err, AISIM_ERANGE,
                              "kv_cache.host_offload.%s = %g: must be finite and >= 0", rows[i].key,
                              rows[i].value);
        }
    }
    if (!c->kv.prefix_caching || c->kv.state_mode != AISIM_STATE_NONE) {
        return aisim_fail(err, AISIM_EINVAL, "kv_cache.host_offload: %s",
                          c->kv.prefix_caching ? "cannot be combined with state_cache"
                                               : "needs prefix_caching = true");
    }
    if (!(c->kv.bytes_per_token > 0.0)) {
        return aisim_fail(err, AISIM_EINVAL,
                          "kv_cache.host_offload: needs kv_cache.bytes_per_token");
    }
    if (c->scheduler.overlap != AISIM_OVERLAP_NONE) {
        return aisim_fail(err, AISIM_EINVAL,
                          "kv_cache.host_offload: needs scheduler.overlap = 'none'");
    }
    return at_least("kv_cache.host_offload.num_host_blocks", h->blocks, 1, err);
}

/* Eviction by score knows blocks of tokens that nobody copies. */
static aisim_status check_eviction(const aisim_rank_config *config, aisim_error *err)
{
    if (config->kv.eviction == AISIM_EVICTION_LRU) {
        return AISIM_OK;
    }
    if (!config->kv.prefix_caching) {
        return aisim_fail(err, AISIM_EINVAL,
                          "kv_cache.eviction = 'scored': has no effect without prefix_caching");
    }
    if (config->kv.state_mode != AISIM_STATE_NONE || config->host.scope != AISIM_HOST_NONE) {
        return aisim_fail(err, AISIM_ENOTMODELLED,
                          "kv_cache.eviction = 'scored': known, not modelled together with %s",
                          config->host.scope != AISIM_HOST_NONE ? "host_offload" : "state_cache");
    }
    return AISIM_OK;
}

aisim_status aisim_rank_config_check(const aisim_rank_config *config, aisim_error *err)
{
    aisim_status status = check_enums(config, err);
    if (status == AISIM_OK) {
        status = at_least("parallelism.attention_data", config->group_ranks, 1, err);
    }
    if (status == AISIM_OK) {
        status = check_scheduler(&config->scheduler, err);
    }
    if (status == AISIM_OK) {
        status = check_kv(&config->kv, err);
    }
    if (status == AISIM_OK) {
        status = check_speculation(config, err);
    }
    if (status == AISIM_OK) {
        status = check_host(config, err);
    }
    if (status == AISIM_OK) {
        status = check_eviction(config, err);
    }
    return status;
}
