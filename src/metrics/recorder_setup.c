/* recorder_setup.c - life of a recorder and what it is told besides events: workers, classes,
 * plays. */
#include "metrics/recorder.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "metrics/recorder_state.h"

/* ---- names ----------------------------------------------------------------------------------- */

static const char *const duration_names[] = {"measurement", "observation", "window"};

const char *aisim_duration_text(aisim_duration duration)
{
    return duration_names[duration];
}

aisim_status aisim_duration_parse(const char *text, aisim_duration *out, aisim_error *err)
{
    for (uint32_t i = 0; i < 3; i++) {
        if (strcmp(text, duration_names[i]) == 0) {
            *out = (aisim_duration)i;
            return AISIM_OK;
        }
    }
    return aisim_fail(err, AISIM_EINVAL,
                      "unknown duration '%s' (expected measurement, observation or window)", text);
}

const char *aisim_distribution_key(uint32_t index)
{
    static const char *const keys[AISIM_DISTRIBUTIONS] = {
#define X(member) #member,
        AISIM_DISTRIBUTION_LIST(X)
#undef X
    };
    return keys[index];
}

/* ---- life ------------------------------------------------------------------------------------ */

void aisim_recorder_config_default(aisim_recorder_config *config)
{
    *config =
        (aisim_recorder_config){.window_from_ns = -1, .window_to_ns = -1, .slo = AISIM_SLO_NONE};
}

aisim_recorder *aisim_recorder_new(const aisim_recorder_config *config)
{
    aisim_recorder *recorder = aisim_alloc_zero(1, sizeof *recorder);
    recorder->config = *config;
    recorder->start_ns = config->measurement_start_ns;
    recorder->end_ns = recorder->first_arrival_ns = recorder->last_completion_ns = -1;
    recorder->any_slo = aisim_slo_any(&config->slo);
    for (uint32_t i = 0; i < AISIM_DISTRIBUTIONS; i++) {
        aisim_digest_init(&recorder->distributions[i], config->rule, config->exact_limit);
    }
    aisim_digest_init(&recorder->pass_tokens, config->rule, config->exact_limit);
    aisim_digest_init(&recorder->pass_requests, config->rule, config->exact_limit);
    aisim_digest_init(&recorder->pass_ms, config->rule, config->exact_limit);
    aisim_digest_init(&recorder->play_ms, config->rule, config->exact_limit);
    aisim_gaps_init(&recorder->gaps, config->rule, config->exact_limit);
    aisim_levels_init(&recorder->levels);
    recorder->custom = aisim_custom_new(config->rule);
    return recorder;
}

static void free_digests(aisim_digest *digests)
{
    for (uint32_t i = 0; digests != NULL && i < AISIM_DISTRIBUTIONS; i++) {
        aisim_digest_clear(&digests[i]);
    }
}

void aisim_recorder_free(aisim_recorder *recorder)
{
    if (recorder == NULL) {
        return;
    }
    free_digests(recorder->distributions);
    for (uint32_t i = 0; i < recorder->classes.len; i++) {
        free_digests(recorder->classes.data[i].distributions);
        aisim_free(recorder->classes.data[i].distributions);
        aisim_free(recorder->classes.data[i].name);
    }
    for (uint32_t i = 0; i < recorder->workers.len; i++) {
        aisim_free(recorder->workers.data[i].pool);
        aisim_free(recorder->workers.data[i].role);
        aisim_array_free(&recorder->workers.data[i].provisions);
    }
    for (uint32_t i = 0; i < recorder->phases.len; i++) {
        aisim_free(recorder->phases.data[i].from);
        aisim_free(recorder->phases.data[i].to);
    }
    for (uint32_t i = 0; i < recorder->warnings.len; i++) {
        aisim_free(recorder->warnings.data[i]);
    }
    aisim_digest_clear(&recorder->pass_tokens);
    aisim_digest_clear(&recorder->pass_requests);
    aisim_digest_clear(&recorder->pass_ms);
    aisim_digest_clear(&recorder->play_ms);
    aisim_gaps_free(&recorder->gaps);
    aisim_levels_free(&recorder->levels);
    aisim_custom_free(recorder->custom);
    aisim_map_free(&recorder->handed);
    aisim_array_free(&recorder->handed_over);
    aisim_array_free(&recorder->handed_free);
    aisim_array_free(&recorder->completions);
    aisim_map_free(&recorder->routing.last);
    aisim_array_free(&recorder->overlaps);
    aisim_array_free(&recorder->lane_start_ns);
    aisim_array_free(&recorder->classes);
    aisim_array_free(&recorder->workers);
    aisim_array_free(&recorder->ranks);
    aisim_array_free(&recorder->phases);
    aisim_array_free(&recorder->warnings);
    aisim_free(recorder);
}

/* ---- what the events do not tell ------------------------------------------------------------- */

aisim_class_state *aisim_recorder_class_state(aisim_recorder *recorder, uint16_t class_id)
{
    while (recorder->classes.len <= class_id) {
        aisim_array_push(&recorder->classes, (aisim_class_state){.slo = AISIM_SLO_NONE});
    }
    return &recorder->classes.data[class_id];
}

aisim_rank_sums *aisim_recorder_rank_sums(aisim_recorder *recorder, uint32_t rank)
{
    while (recorder->ranks.len <= rank) {
        aisim_array_push(&recorder->ranks, (aisim_rank_sums){.worker = AISIM_NONE});
    }
    return &recorder->ranks.data[rank];
}

void aisim_recorder_worker(aisim_recorder *recorder, const aisim_recorder_worker_info *info)
{
    aisim_worker_sums sums = {.pool = aisim_strdup(info->pool),
                              .role = aisim_strdup(info->role),
                              .gpus = info->gpus,
                              .first_rank = info->first_rank,
                              .ranks = info->ranks,
                              .blocks = info->blocks,
                              .block_size = info->block_size,
                              .batched_tokens = info->batched_tokens};
    uint32_t worker = recorder->workers.len;
    aisim_array_push(&recorder->workers, sums);
    for (uint32_t rank = info->first_rank; rank < info->first_rank + info->ranks; rank++) {
        aisim_recorder_rank_sums(recorder, rank)->worker = worker;
        if (info->blocks > 0) {
            aisim_recorder_level(recorder, info->from_ns, rank, 0, 0, info->blocks);
        }
    }
    if (info->provisioned) {
        aisim_recorder_provision(recorder, worker, info->from_ns, true);
    }
}

void aisim_recorder_provision(aisim_recorder *recorder, uint32_t worker, int64_t t_ns, bool on)
{
    if (worker < recorder->workers.len) {
        aisim_provision change = {t_ns, on};
        aisim_array_push(&recorder->workers.data[worker].provisions, change);
    }
}

void aisim_recorder_class(aisim_recorder *recorder, uint16_t class_id, const char *name)
{
    aisim_class_state *state = aisim_recorder_class_state(recorder, class_id);
    aisim_free(state->name);
    state->name = aisim_strdup(name);
}

void aisim_recorder_class_slo(aisim_recorder *recorder, uint16_t class_id, const aisim_slo *slo)
{
    aisim_class_state *state = aisim_recorder_class_state(recorder, class_id);
    state->has_slo = true;
    state->slo = *slo;
    recorder->any_slo = recorder->any_slo || aisim_slo_any(slo);
}

void aisim_recorder_add_ideal(aisim_recorder *recorder, const aisim_request *request,
                              uint32_t ideal_tokens)
{
    if (aisim_recorder_measured(recorder, request) &&
        aisim_outcome_of((aisim_end_reason)request->end) == AISIM_OUTCOME_COMPLETED) {
        recorder->ideal_tokens += ideal_tokens;
        recorder->ideal_known = true;
    }
}

void aisim_recorder_add_never_issued(aisim_recorder *recorder, uint64_t n)
{
    recorder->never_issued += n;
}

void aisim_recorder_add_play(aisim_recorder *recorder, const char *status, double e2e_ms)
{
    recorder->plays_total++;
    if (strcmp(status, "completed") == 0) {
        recorder->plays_completed++;
        if (!isnan(e2e_ms)) {
            aisim_digest_add(&recorder->play_ms, e2e_ms, 1);
        }
    }
}

void aisim_recorder_warn(aisim_recorder *recorder, const char *text)
{
    for (uint32_t i = 0; i < recorder->warnings.len; i++) {
        if (strcmp(recorder->warnings.data[i], text) == 0) {
            return;
        }
    }
    aisim_array_push(&recorder->warnings, aisim_strdup(text));
}

aisim_custom *aisim_recorder_custom(aisim_recorder *recorder)
{
    return recorder->custom;
}

void aisim_recorder_names(const aisim_recorder *recorder, const aisim_request *request,
                          aisim_record *record)
{
    if (request->class_id < recorder->classes.len) {
        record->class_name = recorder->classes.data[request->class_id].name;
    }
    if (recorder->config.annotate != NULL) {
        recorder->config.annotate(recorder->config.annotate_context, request, record);
    }
}

double aisim_recorder_name(const aisim_recorder *recorder, const aisim_request *request,
                           int64_t t_ns, aisim_record *out)
{
    aisim_record_fill(out, request, AISIM_OUTCOME_IN_FLIGHT, t_ns, recorder->start_ns);
    aisim_recorder_names(recorder, request, out);
    return aisim_ms_from_ns(t_ns - recorder->start_ns);
}

void aisim_recorder_finish(aisim_recorder *recorder, int64_t t_ns)
{
    if (recorder->finished) {
        return;
    }
    recorder->finished = true;
    recorder->end_ns = t_ns;
    int64_t from_ns, to_ns;
    aisim_recorder_interval(recorder, &from_ns, &to_ns);
    aisim_levels_finish(&recorder->levels, from_ns, to_ns);
    aisim_gaps_finish(&recorder->gaps);
    aisim_custom_end(recorder->custom, t_ns);
}

uint64_t aisim_recorder_host_reused(const aisim_recorder *recorder)
{
    return recorder->host_reused_tokens;
}

aisim_digest *aisim_recorder_distribution(aisim_recorder *recorder, const char *key,
                                          int32_t class_id)
{
    const struct {
        const char *key;
        aisim_digest *digest;
    } whole[] = {{"token_gap_ms", &recorder->gaps.pooled},
                 {"pass_tokens", &recorder->pass_tokens},
                 {"pass_requests", &recorder->pass_requests},
                 {"pass_ms", &recorder->pass_ms},
                 {"play_e2e_ms", &recorder->play_ms}};
    for (uint32_t i = 0; class_id < 0 && i < sizeof whole / sizeof *whole; i++) {
        if (strcmp(key, whole[i].key) == 0) {
            return whole[i].digest;
        }
    }
    for (uint32_t i = 0; i < AISIM_DISTRIBUTIONS; i++) {
        if (strcmp(key, aisim_distribution_key(i)) != 0) {
            continue;
        }
        if (class_id < 0) {
            return &recorder->distributions[i];
        }
        if ((uint32_t)class_id >= recorder->classes.len || !recorder->classes.data[class_id].used) {
            return NULL;
        }
        aisim_digest *own = recorder->classes.data[class_id].distributions;
        return own == NULL ? &recorder->distributions[i] : &own[i];
    }
    return NULL;
}
