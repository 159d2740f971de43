/* points.c - asking the scheduler points of a rank and checking what they answer
 * (aisim/points.h). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "sched/plan.h"

const char *aisim_point_text(aisim_point point)
{
    static const char *const texts[] = {"order", "admit", "victim", "chunk", "evict"};
    return point < AISIM_POINTS_COUNT ? texts[point] : "?";
}

void aisim_points_refuse(const aisim_points *points, aisim_point point,
                         const aisim_point_site *site, const char *what, const char *expected,
                         aisim_error *err)
{
    const char *file = points->place[point].file;
    char request[32] = "";
    if (site->request != NULL) {
        snprintf(request, sizeof request, " for request %" PRIu32, site->request->id);
    }
    aisim_fail_at(err, AISIM_ECALLBACK, file == NULL ? "" : file, points->place[point].line, 0,
                  "scheduler point '%s' returned %s at t=%.14g ms on rank %" PRIu32 "%s; %s",
                  aisim_point_text(point), what, aisim_ms_from_ns(site->t_ns), site->rank + 1,
                  request, expected);
}

static void fail(const aisim_rank *rank, const aisim_error *err)
{
    if (rank->engine->failed != NULL) {
        rank->engine->failed(rank->engine->context, err);
    }
}

static aisim_point_site site_of(const aisim_rank *rank, const aisim_request *r)
{
    return (aisim_point_site){rank->engine->now_ns, rank->index, r};
}

/* For the message of E-T8, should nothing ever happen on the rank again. */
static void keep_waiting(aisim_rank *rank, aisim_point point, const aisim_request *r)
{
    if (rank->kept_waiting == 0) {
        rank->kept_waiting = r->id;
        rank->kept_by = point;
    }
}

/* A finite number, or the message. @return 0 after a failure */
static double checked_number(const aisim_rank *rank, aisim_point point,
                             const aisim_point_site *site, double number, aisim_error *err)
{
    if (err->code == AISIM_OK && !isfinite(number)) {
        aisim_points_refuse(rank->points, point, site, isnan(number) ? "nan" : "an infinite number",
                            "a finite number expected", err);
    }
    if (err->code != AISIM_OK) {
        fail(rank, err);
        return 0.0;
    }
    return number;
}

uint64_t aisim_rank_ask_order(aisim_rank *rank, uint32_t slot)
{
    aisim_error err = {0};
    aisim_point_site site = site_of(rank, aisim_rank_request(rank, slot));
    double number = rank->points->order(rank->points->context, &site, &err);
    return aisim_queue_order_of(checked_number(rank, AISIM_POINT_ORDER, &site, number, &err));
}

aisim_admit_answer aisim_rank_ask_admit(aisim_rank *rank, uint32_t slot, uint64_t need_blocks,
                                        uint64_t free_blocks)
{
    aisim_error err = {0};
    aisim_point_site site = site_of(rank, aisim_rank_request(rank, slot));
    aisim_admit_answer answer =
        rank->points->admit(rank->points->context, &site, need_blocks, free_blocks, &err);
    if (err.code != AISIM_OK) {
        fail(rank, &err);
        return AISIM_ADMIT_STOP; /* nothing more is admitted before the run ends */
    }
    if (answer != AISIM_ADMIT_YES) {
        keep_waiting(rank, AISIM_POINT_ADMIT, site.request);
    }
    return answer;
}

uint32_t aisim_rank_ask_victim(aisim_rank *rank, uint32_t fallback, uint32_t needs)
{
    rank->chosen.len = 0;
    for (uint32_t i = 0; i < rank->running.len; i++) {
        const aisim_request *r = aisim_rank_request(rank, rank->running.data[i].slot);
        aisim_candidate candidate = {r, aisim_lease_owned(&rank->pool, &r->lease)};
        aisim_array_push(&rank->chosen, candidate);
    }
    aisim_error err = {0};
    aisim_victims victims = {rank->chosen.len, rank->chosen.data, needs};
    aisim_point_site site =
        site_of(rank, needs == AISIM_NONE ? NULL : rank->chosen.data[needs].request);
    uint32_t victim = rank->points->victim(rank->points->context, &site, &victims, &err);
    if (err.code == AISIM_OK && victim >= victims.n) {
        char what[24], expected[64];
        snprintf(what, sizeof what, "%" PRIu64, (uint64_t)victim + 1);
        snprintf(expected, sizeof expected, "running requests are 1..%" PRIu32, victims.n);
        aisim_points_refuse(rank->points, AISIM_POINT_VICTIM, &site, what, expected, &err);
    }
    if (err.code != AISIM_OK) {
        fail(rank, &err);
        return fallback;
    }
    return victim;
}

uint32_t aisim_rank_ask_chunk(aisim_rank *rank, const aisim_request *r, uint32_t from,
                              uint32_t most)
{
    uint32_t known = aisim_known(r);
    if (from >= r->prompt_tokens && from + 1 >= known) {
        return most; /* a decode */
    }
    aisim_error err = {0};
    aisim_point_site site = site_of(rank, r);
    uint32_t threshold = rank->config.scheduler.long_prefill_token_threshold; /* R4 */
    uint32_t budget =
        threshold == 0 ? rank->budget_left : aisim_min_u32(rank->budget_left, threshold);
    uint32_t tokens = rank->points->chunk(rank->points->context, &site, budget, known - from, &err);
    if (err.code == AISIM_OK && tokens > most) {
        char what[24], expected[64];
        snprintf(what, sizeof what, "%" PRIu32, tokens);
        snprintf(expected, sizeof expected, "tokens of this chunk are 0..%" PRIu32, most);
        aisim_points_refuse(rank->points, AISIM_POINT_CHUNK, &site, what, expected, &err);
    }
    if (err.code != AISIM_OK) {
        fail(rank, &err);
        return most;
    }
    if (tokens == 0) {
        keep_waiting(rank, AISIM_POINT_CHUNK, r);
    }
    return tokens;
}

/* aisim_extents.score: what a cached block is worth. */
static double score(void *context, int64_t age_ns, uint32_t depth, uint32_t reuse)
{
    const aisim_rank *rank = context;
    aisim_error err = {0};
    aisim_point_site site = site_of(rank, NULL);
    aisim_cached block = {age_ns, depth, reuse};
    double number = rank->points->evict(rank->points->context, &site, &block, &err);
    return checked_number(rank, AISIM_POINT_EVICT, &site, number, &err);
}

void aisim_rank_points(aisim_rank *rank, const aisim_points *points)
{
    rank->points = points;
    rank->point_mask = 0;
    if (points != NULL) {
        rank->point_mask = (points->order != NULL) << AISIM_POINT_ORDER |
                           (points->admit != NULL) << AISIM_POINT_ADMIT |
                           (points->victim != NULL) << AISIM_POINT_VICTIM |
                           (points->chunk != NULL) << AISIM_POINT_CHUNK |
                           (points->evict != NULL) << AISIM_POINT_EVICT;
    }
    rank->waiting.ordered = aisim_rank_point(rank, AISIM_POINT_ORDER);
    if (aisim_rank_point(rank, AISIM_POINT_EVICT)) {
        aisim_extents_score(&rank->pool.extents, rank->pool.block_size, score, rank,
                            &rank->engine->now_ns);
    }
}
