/* resolve.c - reads the resolved engine table; every key is there, so a missing one is a bug.
 *
 * Order: numbers first, then combinations, last aisim_rank_config_check (its messages start with
 * the key, which gives the place). */
#include "config/resolve.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/check.h"
#include "config/resolve_parts.h"
#include "config/schema.h"

/* ---- reading the resolved tree --------------------------------------------------------------- */

const aisim_value *aisim_given(const aisim_value *tree, const char *path)
{
    const aisim_value *value = aisim_value_find(tree, path);
    return aisim_value_is_null(value) ? NULL : value;
}

static uint32_t small(const aisim_value *tree, const char *path)
{
    int64_t x = aisim_value_as_integer(aisim_value_find(tree, path));
    AISIM_CHECK(x >= 0 && x <= UINT32_MAX); /* the table says so */
    return (uint32_t)x;
}

static bool truth(const aisim_value *tree, const char *path)
{
    return aisim_value_as_bool(aisim_value_find(tree, path));
}

const char *aisim_word(const aisim_value *tree, const char *path)
{
    return aisim_value_as_text(aisim_value_find(tree, path));
}

/* Position of the word in "a|b|c": enumerations are declared in the order of the table. A key that
 * does not apply is absent and means the first. */
unsigned aisim_member(const aisim_value *tree, const char *path, const char *words)
{
    const aisim_value *value = aisim_value_find(tree, path);
    if (value == NULL) {
        return 0;
    }
    const char *word = aisim_value_as_text(value);
    unsigned i = 0;
    for (const char *at = words;; at += strcspn(at, "|") + 1, i++) {
        size_t n = strcspn(at, "|");
        if (strlen(word) == n && strncmp(at, word, n) == 0) {
            return i;
        }
        AISIM_CHECK(at[n] != '\0');
    }
}

/* A number that may be the word "auto": then 0. */
double aisim_number_or_auto(const aisim_value *tree, const char *path)
{
    const aisim_value *value = aisim_given(tree, path);
    bool number = value != NULL && aisim_value_kind_of(value) != AISIM_VALUE_TEXT;
    return number ? aisim_value_as_real(value) : 0.0;
}

aisim_status aisim_fail_path(aisim_error *err, const aisim_value *tree, const char *path,
                             aisim_status code, const char *format, ...)
{
    char text[sizeof err->text], prefix[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    aisim_mark mark = aisim_value_mark(tree);
    for (size_t n = 0; n < strlen(path) && n < sizeof prefix;) {
        n += strcspn(path + n, ".");
        snprintf(prefix, sizeof prefix, "%.*s", (int)n, path);
        const aisim_value *at = aisim_value_find(tree, prefix);
        if (at != NULL && aisim_value_origin(at) != AISIM_ORIGIN_DEFAULT) {
            mark = aisim_value_mark(at);
        }
        n += path[n] == '.';
    }
    return aisim_fail_mark(err, mark, code, "%s", text);
}

/* ---- scheduler ------------------------------------------------------------------------------- */

static void fill_scheduler(const aisim_value *engine, const aisim_config_facts *facts,
                           aisim_scheduler_config *out)
{
    const aisim_value *s = aisim_value_get(engine, "scheduler");
    const aisim_value *context = aisim_value_get(engine, "context_length");
    out->max_batched_tokens = small(s, "max_batched_tokens");
    out->max_sequences = small(s, "max_sequences");
    out->context_length = aisim_value_kind_of(context) == AISIM_VALUE_TEXT
                              ? facts->context_length
                              : (uint64_t)aisim_value_as_integer(context);
    out->chunked_prefill = truth(s, "chunked_prefill");
    out->policy = (aisim_policy)aisim_member(s, "policy", "fcfs|priority");
    out->preemption = (aisim_preemption)aisim_member(s, "preemption", "lifo|fifo");
    out->prefill_schedule_interval = small(s, "prefill_schedule_interval");
    out->long_prefill_token_threshold = small(s, "long_prefill_token_threshold");     /* R4 */
    out->watermark = aisim_value_as_real(aisim_value_get(s, "watermark"));            /* R3 */
    out->never_fits = (aisim_never_fits)aisim_member(s, "never_fits", "reject|wait"); /* R1 */
    out->reserve_full_prompt = truth(s, "reserve_full_prompt");                       /* R2 */
    out->admit_at_zero_budget = truth(s, "admit_at_zero_budget") &&                   /* R5 */
                                aisim_given(engine, "kv_cache.host_offload") == NULL; /* forced */
    out->self_preemption =
        (aisim_self_preemption)aisim_member(s, "self_preemption", "continue|end_pass"); /* R6 */
    out->overlap = (aisim_overlap)aisim_member(s, "overlap", "none|pipelined|async");   /* R7 */
}

/* ---- KV cache -------------------------------------------------------------------------------- */

static aisim_status blocks_of_bytes(const aisim_value *engine, const aisim_rank_config *rank,
                                    aisim_capacity_request *request, aisim_error *err)
{
    static const char path[] = "kv_cache.capacity.bytes";
    if (rank->kv.bytes_per_token <= 0.0) {
        return aisim_fail_path(err, engine, path, AISIM_EINVAL,
                               "%s: needs kv_cache.bytes_per_token, or a model that tells it",
                               path);
    }
    request->bytes = (uint64_t)aisim_value_as_integer(aisim_value_find(engine, path));
    double block = rank->kv.bytes_per_token * rank->kv.block_size;
    double blocks = floor((double)request->bytes / block);
    if (blocks < 1.0 || blocks > UINT32_MAX) {
        return aisim_fail_path(err, engine, path, AISIM_ERANGE,
                               "%s = %llu: must hold at least one block of %.0f bytes%s", path,
                               (unsigned long long)request->bytes, block,
                               blocks < 1.0 ? "" : " and fewer than 2^32");
    }
    request->type = AISIM_CAPACITY_BYTES;
    request->blocks = (uint64_t)blocks;
    return AISIM_OK;
}

static aisim_status fill_capacity(const aisim_value *engine, aisim_rank_config *out,
                                  aisim_capacity_request *request, aisim_error *err)
{
    const char *type = aisim_word(engine, "kv_cache.capacity.type");
    bool blocks = aisim_given(engine, "kv_cache.capacity.blocks") != NULL;
    bool bytes = aisim_given(engine, "kv_cache.capacity.bytes") != NULL;
    *request = (aisim_capacity_request){.type = AISIM_CAPACITY_DEFAULT};
    if (strcmp(type, "default") == 0) {
        request->memory_fraction =
            aisim_value_as_real(aisim_value_find(engine, "kv_cache.capacity.memory_fraction"));
        return AISIM_OK;
    }
    if (blocks && bytes) {
        return aisim_fail_path(err, engine, "kv_cache.capacity.bytes", AISIM_EINVAL,
                               "kv_cache.capacity: give blocks or bytes, not both");
    }
    if (!blocks && !bytes) {
        return aisim_fail_path(err, engine, "kv_cache.capacity", AISIM_EINVAL,
                               "missing key 'kv_cache.capacity.%s' (type is '%s')",
                               strcmp(type, "fixed") == 0 ? "blocks" : "bytes", type);
    }
    aisim_status status = AISIM_OK;
    if (bytes) {
        status = blocks_of_bytes(engine, out, request, err);
    } else {
        request->type = AISIM_CAPACITY_FIXED;
        request->blocks = small(engine, "kv_cache.capacity.blocks");
    }
    out->kv.blocks = request->blocks;
    return status;
}

/* k = ceil(bytes_per_request / (bytes_per_token * b)), engine.md §2 */
static aisim_status fill_state_cache(const aisim_value *engine, const aisim_config_facts *facts,
                                     aisim_kv_config *out, aisim_error *err)
{
    static const char path[] = "kv_cache.state_cache.bytes_per_request";
    const aisim_value *s = aisim_given(engine, "kv_cache.state_cache");
    if (s == NULL) {
        return AISIM_OK;
    }
    out->state_mode = (aisim_state_mode)(1 + aisim_member(s, "mode", "aligned|latest"));
    out->align_split = (aisim_align_split)aisim_member(s, "align_split", "fixed|legacy|upstream");
    out->checkpoints =
        (aisim_checkpoints)aisim_member(s, "checkpoints", "prompt_boundary|chunk_end");
    out->same_pass_hit = (aisim_same_pass_hit)aisim_member(s, "same_pass_hit", "ignore|wait");
    out->state_bytes = aisim_number_or_auto(s, "bytes_per_request");
    if (out->state_bytes == 0.0) {
        out->state_bytes = facts->state_bytes;
    }
    if (out->state_bytes == 0.0) {
        return aisim_fail_path(err, engine, path, AISIM_EINVAL,
                               "%s: %s%s%s; give a size, or leave state_cache out", path,
                               facts->model == NULL ? "no model tells it" : "model '",
                               facts->model == NULL ? "" : facts->model,
                               facts->model == NULL ? "" : "' has no recurrent state");
    }
    if (out->bytes_per_token <= 0.0) {
        return aisim_fail_path(err, engine, "kv_cache.state_cache", AISIM_EINVAL,
                               "kv_cache.state_cache: needs kv_cache.bytes_per_token, or a model "
                               "that tells it");
    }
    double k = ceil(out->state_bytes / (out->bytes_per_token * out->block_size));
    if (k > UINT32_MAX) {
        return aisim_fail_path(err, engine, path, AISIM_ERANGE,
                               "%s: a state of %.0f blocks; must be < 2^32", path, k);
    }
    out->state_blocks = (uint32_t)k;
    return AISIM_OK;
}

static aisim_status fill_kv(const aisim_value *engine, const aisim_config_facts *facts,
                            aisim_rank_config *out, aisim_capacity_request *request,
                            aisim_error *err)
{
    const aisim_value *kv = aisim_value_get(engine, "kv_cache");
    const aisim_value *unit = aisim_given(kv, "prefix_match_unit");
    out->kv.block_size = small(kv, "block_size");
    out->kv.prefix_caching = truth(kv, "prefix_caching");
    out->kv.prefix_match_unit = unit == NULL ? 0 : (uint32_t)aisim_value_as_integer(unit);
    out->kv.eviction = (aisim_eviction_rule)aisim_member(kv, "eviction", "lru|scored");
    out->kv.unkeyed_release =
        (aisim_unkeyed_release)aisim_member(kv, "unkeyed_release", "front|back"); /* R8 */
    out->kv.bytes_per_token = aisim_number_or_auto(kv, "bytes_per_token");
    if (out->kv.bytes_per_token == 0.0) {
        out->kv.bytes_per_token = facts->bytes_per_token;
    }
    aisim_status status = fill_capacity(engine, out, request, err);
    return status == AISIM_OK ? fill_state_cache(engine, facts, &out->kv, err) : status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* The check speaks of keys; the tree knows where they stand. */
static aisim_status check_rank(const aisim_value *engine, const aisim_rank_config *rank,
                               aisim_error *err)
{
    aisim_rank_config probe = *rank;
    aisim_error found = {0};
    probe.kv.blocks = probe.kv.blocks == 0 ? 1 : probe.kv.blocks; /* still to be computed */
    aisim_status status = aisim_rank_config_check(&probe, &found);
    if (status == AISIM_OK) {
        return AISIM_OK;
    }
    char key[128];
    snprintf(key, sizeof key, "%.*s", (int)strcspn(found.text, " :"), found.text);
    return aisim_fail_path(err, engine, key, status, "%s", found.text);
}

static aisim_status fill(const aisim_value *engine, const aisim_config_facts *facts,
                         aisim_rank_config *out, aisim_capacity_request *capacity, aisim_error *err)
{
    aisim_rank_config_default(out);
    out->group_ranks = small(engine, "parallelism.attention_data");
    out->startup_ns = aisim_ns_from_s(aisim_number_or_auto(engine, "startup_seconds"));
    fill_scheduler(engine, facts, &out->scheduler);
    aisim_status status = fill_kv(engine, facts, out, capacity, err);
    if (status == AISIM_OK) {
        status = aisim_fill_speculation(engine, &out->speculation, err);
    }
    if (status == AISIM_OK) {
        status = aisim_fill_host_offload(engine, facts->model, out, err);
    }
    if (status == AISIM_OK) {
        status = aisim_check_effect(engine, out, err);
    }
    return status == AISIM_OK ? check_rank(engine, out, err) : status;
}

aisim_status aisim_config_rank(const aisim_value *engine, const aisim_config_facts *facts,
                               aisim_rank_config *out, aisim_capacity_request *capacity,
                               aisim_error *err)
{
    aisim_value *resolved = aisim_schema_resolve(engine, "engine");
    aisim_status status = fill(resolved, facts, out, capacity, err);
    aisim_value_free(resolved);
    return status;
}
