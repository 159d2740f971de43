/* resolve_features.c - speculation and the host tier of one pool, and values without effect. */
#include "config/resolve_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/number.h"
#include "config/resolve.h"

/* ---- speculation ----------------------------------------------------------------------------- */

void aisim_rates_from_mean(double mean, uint32_t depth, double rates[AISIM_MAX_DRAFTS])
{
    double whole = floor(mean);
    for (uint32_t i = 0; i < AISIM_MAX_DRAFTS; i++) {
        rates[i] = i < whole ? 1.0 : 0.0;
        if (i == (uint32_t)whole) {
            rates[i] = mean - whole;
        }
        if (i >= depth) {
            rates[i] = 0.0;
        }
    }
}

double aisim_mean_from_rates(const double rates[], uint32_t depth)
{
    double mean = 0.0, chance = 1.0;
    for (uint32_t i = 0; i < depth; i++) {
        chance *= rates[i];
        mean += chance;
    }
    return mean;
}

static aisim_status read_depth(const aisim_value *engine, uint32_t *depth, aisim_error *err)
{
    const aisim_value *a = aisim_given(engine, "speculation.params.depth");
    const aisim_value *b = aisim_given(engine, "speculation.params.num_speculative_tokens");
    if (a != NULL && b != NULL) {
        return aisim_fail_path(err, engine, "speculation.params.num_speculative_tokens",
                               AISIM_EINVAL,
                               "speculation.params.num_speculative_tokens: another name of depth; "
                               "give one of them");
    }
    if (a == NULL && b == NULL) {
        return aisim_fail_path(err, engine, "speculation.params", AISIM_EINVAL,
                               "missing key 'speculation.params.depth' (drafts per verification)");
    }
    *depth = (uint32_t)aisim_value_as_integer(a != NULL ? a : b);
    return AISIM_OK;
}

static aisim_status mean_above_depth(const aisim_value *engine, const char *path, double mean,
                                     uint32_t depth, aisim_error *err)
{
    char shown[AISIM_NUMBER_SIZE];
    return aisim_fail_path(err, engine, path, AISIM_ERANGE,
                           "%s = %s: must be <= depth (%u); the base token does not count", path,
                           aisim_number_show_plain(mean, shown), depth);
}

/* Exactly one of mean and rates; shorter rates are padded with 0, longer ones cut (mtp.md §1). */
static aisim_status read_rates(const aisim_value *engine, aisim_speculation_config *out,
                               aisim_error *err)
{
    static const char mean_path[] = "speculation.expected_accepted_tokens";
    const aisim_value *mean = aisim_given(engine, mean_path);
    const aisim_value *rates = aisim_given(engine, "speculation.acceptance_rates");
    if ((mean == NULL) == (rates == NULL)) {
        const char *path = mean == NULL ? "speculation" : "speculation.acceptance_rates";
        return aisim_fail_path(err, engine, path, AISIM_EINVAL,
                               "speculation: give expected_accepted_tokens or acceptance_rates%s",
                               mean == NULL ? "; there is no default" : ", not both");
    }
    if (mean != NULL) {
        double x = aisim_value_as_real(mean);
        if (x > out->depth) {
            return mean_above_depth(engine, mean_path, x, out->depth, err);
        }
        aisim_rates_from_mean(x, out->depth, out->acceptance_rates);
        return AISIM_OK;
    }
    for (uint32_t i = 0; i < out->depth && i < aisim_value_len(rates); i++) {
        out->acceptance_rates[i] = aisim_value_as_real(aisim_value_at(rates, i));
    }
    return AISIM_OK;
}

/* nextn and nextn_accepted, with the rates that old inputs assume when they name no mean. */
static aisim_status old_form(const aisim_value *engine, aisim_speculation_config *out,
                             aisim_error *err)
{
    static const double assumed[AISIM_MAX_DRAFTS] = {0.85, 0.3, 0.0, 0.0, 0.0};
    const aisim_value *nextn = aisim_given(engine, "nextn");
    const aisim_value *mean = aisim_given(engine, "nextn_accepted");
    uint32_t depth = nextn == NULL ? 0 : (uint32_t)aisim_value_as_integer(nextn);
    if (depth == 0 && mean != NULL) {
        return aisim_fail_path(err, engine, "nextn_accepted", AISIM_EINVAL,
                               "nextn_accepted: has no effect without nextn; write speculation");
    }
    if (depth == 0) {
        return AISIM_OK;
    }
    out->mode = AISIM_SPECULATION_NATIVE;
    out->depth = out->lookahead_slots = depth;
    if (mean == NULL) {
        memcpy(out->acceptance_rates, assumed, depth * sizeof *assumed);
        return AISIM_OK;
    }
    double x = aisim_value_as_real(mean);
    if (x > depth) {
        return mean_above_depth(engine, "nextn_accepted", x, depth, err);
    }
    aisim_rates_from_mean(x, depth, out->acceptance_rates);
    return AISIM_OK;
}

aisim_status aisim_fill_speculation(const aisim_value *engine, aisim_speculation_config *out,
                                    aisim_error *err)
{
    const aisim_value *s = aisim_given(engine, "speculation");
    if (s == NULL) {
        return old_form(engine, out, err);
    }
    if (aisim_given(engine, "nextn") != NULL || aisim_given(engine, "nextn_accepted") != NULL) {
        return aisim_fail_path(err, engine, "nextn", AISIM_EINVAL,
                               "nextn: the old form of speculation; give one of them");
    }
    aisim_status status = read_depth(engine, &out->depth, err);
    if (status == AISIM_OK) {
        status = read_rates(engine, out, err);
    }
    if (status != AISIM_OK) {
        return status;
    }
    bool burst = strcmp(aisim_word(s, "mode"), "burst") == 0; /* R13 */
    out->mode = burst ? AISIM_SPECULATION_BURST : AISIM_SPECULATION_NATIVE;
    out->stream = strcmp(aisim_word(s, "stream"), "worker") == 0 ? AISIM_STREAM_WORKER
                                                                 : AISIM_STREAM_PER_REQUEST;
    out->seed = aisim_value_as_unsigned(aisim_value_get(s, "seed"));
    out->drop_matched_block = aisim_value_as_bool(aisim_value_get(s, "drop_matched_block"));
    const aisim_value *slots = aisim_value_get(s, "lookahead_slots"); /* R15 */
    out->lookahead_slots = aisim_value_kind_of(slots) == AISIM_VALUE_TEXT
                               ? out->depth
                               : (uint32_t)aisim_value_as_integer(slots);
    out->first_chunk_lookahead = aisim_value_as_bool(aisim_value_get(s, "first_chunk_lookahead"));
    out->pad_first_decode = aisim_value_as_bool(aisim_value_get(s, "pad_first_decode"));
    return AISIM_OK;
}

/* ---- host tier ------------------------------------------------------------------------------- */

/* A bandwidth so small that filling the pool takes no finite time. */
static aisim_status check_host_times(const aisim_value *engine, double pool_bytes, aisim_error *err)
{
    static const char *const lanes[] = {
        "kv_cache.host_offload.d2h_bandwidth_gbps",
        "kv_cache.host_offload.h2d_bandwidth_gbps",
        "kv_cache.host_offload.shared_d2h_bandwidth_gbps",
        "kv_cache.host_offload.shared_h2d_bandwidth_gbps",
    };
    for (unsigned i = 0; i < sizeof lanes / sizeof *lanes; i++) {
        double rate = aisim_number_or_auto(engine, lanes[i]);
        double ns = pool_bytes / rate; /* decimal GB/s are bytes per nanosecond */
        if (rate > 0.0 && !(ns < 0x1p62)) {
            char shown[AISIM_NUMBER_SIZE];
            return aisim_fail_path(err, engine, lanes[i], AISIM_ERANGE,
                                   "%s = %s: too small, moving %.3g bytes would never end "
                                   "(0 = unlimited)",
                                   lanes[i], aisim_number_show_plain(rate, shown), pool_bytes);
        }
    }
    return AISIM_OK;
}

/* A switch of §10: as given, or as the connector has it. */
static bool follows(const aisim_value *host, const char *key, const char *yes, bool connector)
{
    const char *word = aisim_word(host, key);
    return strcmp(word, "connector") == 0 ? connector : strcmp(word, yes) == 0;
}

/* Participants of a shared pool must agree on it (§2): as given, or what shapes a block. */
static void fill_layout(const aisim_value *engine, const aisim_value *host, const char *model,
                        aisim_rank_config *rank)
{
    const aisim_value *given = aisim_given(host, "kv_layout_id");
    if (given != NULL) {
        snprintf(rank->host.layout_id, sizeof rank->host.layout_id, "%s",
                 aisim_value_as_text(given));
        return;
    }
    snprintf(rank->host.layout_id, sizeof rank->host.layout_id, "%.30s/tp%.0f",
             model != NULL ? model : "model",
             aisim_value_as_real(aisim_value_find(engine, "parallelism.tensor")));
}

static void fill_host(const aisim_value *engine, const aisim_value *host, const char *model,
                      aisim_rank_config *rank)
{
    aisim_host_config *out = &rank->host;
    bool v0_24 = strcmp(aisim_word(host, "connector"), "offloading_v0_24") == 0;
    bool shared = strcmp(aisim_word(host, "scope"), "cluster_shared") == 0;
    out->scope = shared ? AISIM_HOST_CLUSTER_SHARED : AISIM_HOST_RANK_LOCAL;
    out->blocks = (uint64_t)aisim_value_as_integer(aisim_value_get(host, "num_host_blocks"));
    out->d2h_gbps = aisim_number_or_auto(host, "d2h_bandwidth_gbps");
    out->h2d_gbps = aisim_number_or_auto(host, "h2d_bandwidth_gbps");
    out->latency_ms = aisim_number_or_auto(host, "latency_to_first_byte_ms");
    if (shared) {
        out->shared_d2h_gbps = aisim_number_or_auto(host, "shared_d2h_bandwidth_gbps");
        out->shared_h2d_gbps = aisim_number_or_auto(host, "shared_h2d_bandwidth_gbps");
        fill_layout(engine, host, model, rank);
    }
    out->touch_prompt_on_lookup = follows(host, "touch_on_lookup", "prompt", v0_24);
    out->touch_prompt_on_store = follows(host, "touch_on_store", "prompt", v0_24);
    out->drop_applies_to_loads = follows(host, "mtp_drop_applies_to_host_run", "true", v0_24);
    out->tie_break =
        (aisim_tie_break)aisim_member(host, "lru_tie_break", "deepest_first|key_asc|listed");
    out->refresh_on_load = aisim_value_as_bool(aisim_value_get(host, "refresh_on_load"));
}

aisim_status aisim_fill_host_offload(const aisim_value *engine, const char *model,
                                     aisim_rank_config *rank, aisim_error *err)
{
    static const char path[] = "kv_cache.host_offload";
    const aisim_value *host = aisim_given(engine, path);
    if (host == NULL) {
        return AISIM_OK;
    }
    if (!rank->kv.prefix_caching) {
        return aisim_fail_path(err, engine, path, AISIM_EINVAL, "%s: needs prefix_caching = true",
                               path);
    }
    if (rank->kv.state_mode != AISIM_STATE_NONE) {
        return aisim_fail_path(err, engine, path, AISIM_EINVAL,
                               "%s: cannot be combined with state_cache: leave one of them out; a "
                               "recurrent state is not stored on host",
                               path);
    }
    if (rank->kv.bytes_per_token <= 0.0) {
        return aisim_fail_path(err, engine, path, AISIM_EINVAL,
                               "%s: needs kv_cache.bytes_per_token, or a model that tells it",
                               path);
    }
    double blocks = aisim_value_as_real(aisim_value_get(host, "num_host_blocks"));
    double bytes = blocks * rank->kv.block_size * rank->kv.bytes_per_token;
    if (!(bytes < 0x1p63)) {
        return aisim_fail_path(err, engine, "kv_cache.host_offload.num_host_blocks", AISIM_ERANGE,
                               "kv_cache.host_offload.num_host_blocks = %.0f: more than 2^63 bytes",
                               blocks);
    }
    fill_host(engine, host, model, rank);
    return check_host_times(engine, bytes, err);
}

/* ---- values without effect ------------------------------------------------------------------- */

aisim_status aisim_check_effect(const aisim_value *engine, const aisim_rank_config *rank,
                                aisim_error *err)
{
    if (rank->scheduler.prefill_schedule_interval > 1 && rank->group_ranks == 1) { /* E-G2 */
        return aisim_fail_path(err, engine, "scheduler.prefill_schedule_interval", AISIM_EINVAL,
                               "scheduler.prefill_schedule_interval = %u: has no effect with "
                               "attention_data = 1",
                               rank->scheduler.prefill_schedule_interval);
    }
    const aisim_value *type = aisim_value_find(engine, "timing.type");
    bool operators = type != NULL && aisim_value_kind_of(type) == AISIM_VALUE_TEXT &&
                     (strcmp(aisim_value_as_text(type), "default") == 0 ||
                      strcmp(aisim_value_as_text(type), "tables") == 0);
    if (strcmp(aisim_word(engine, "fallback_policy"), "deny") == 0 && !operators) {
        return aisim_fail_path(err, engine, "fallback_policy", AISIM_EINVAL,
                               "fallback_policy = 'deny': needs timing.type = 'default' or "
                               "'tables', other models price no operators");
    }
    bool by_default = type != NULL && aisim_value_kind_of(type) == AISIM_VALUE_TEXT &&
                      strcmp(aisim_value_as_text(type), "default") == 0;
    if (strcmp(aisim_word(engine, "database_mode"), "SOL") == 0 && !by_default) {
        return aisim_fail_path(err, engine, "database_mode", AISIM_EINVAL,
                               "database_mode = 'SOL': needs timing.type = 'default', other models "
                               "say themselves what a pass takes");
    }
    return AISIM_OK;
}
