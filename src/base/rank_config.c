/* rank_config.c - defaults of a rank and the checks the engine itself relies on. The schema of
 * src/config checks more, with positions; these hold for the C interface too. */
#include "aisim/config.h"

#include <inttypes.h>

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
        .group_ranks = 1,
    };
}

aisim_status aisim_rank_config_check(const aisim_rank_config *config, aisim_error *err)
{
    const aisim_scheduler_config *s = &config->scheduler;
    const aisim_kv_config *kv = &config->kv;
    if (s->max_batched_tokens < 1) {
        return aisim_fail(err, AISIM_ERANGE, "scheduler.max_batched_tokens = 0: must be ≥ 1");
    }
    if (s->max_sequences < 1) {
        return aisim_fail(err, AISIM_ERANGE, "scheduler.max_sequences = 0: must be ≥ 1");
    }
    if (s->context_length == 1) {
        return aisim_fail(err, AISIM_ERANGE, "context_length = 1: must be ≥ 2");
    }
    if (!s->chunked_prefill && s->context_length > s->max_batched_tokens) {
        return aisim_fail(err, AISIM_EINVAL,
                          "scheduler.chunked_prefill = false needs max_batched_tokens ≥ "
                          "context_length (%u < %" PRIu64 ")",
                          s->max_batched_tokens, s->context_length);
    }
    if (s->prefill_schedule_interval < 1) {
        return aisim_fail(err, AISIM_ERANGE,
                          "scheduler.prefill_schedule_interval = 0: must be ≥ 1");
    }
    if (!(s->watermark >= 0.0 && s->watermark < 1.0)) {
        return aisim_fail(err, AISIM_ERANGE, "scheduler.watermark = %g: must be ≥ 0 and < 1",
                          s->watermark);
    }
    if (kv->block_size < 2) {
        return aisim_fail(err, AISIM_ERANGE, "kv_cache.block_size = %u: must be ≥ 2",
                          kv->block_size);
    }
    if (kv->blocks < 1 || kv->blocks > UINT32_MAX) {
        return aisim_fail(err, AISIM_ERANGE,
                          "kv_cache.capacity: %" PRIu64 " blocks: must be 1 to 4294967295",
                          kv->blocks);
    }
    if (config->group_ranks < 1) {
        return aisim_fail(err, AISIM_ERANGE, "parallelism.attention_data = 0: must be ≥ 1");
    }
    return AISIM_OK;
}
