/* agentx_prepare.c - the cut of the initial plays, primers, warmup requests (traffic 2.2, 2.3).
 *
 * Within a lane one preparation request is on the server at a time; lanes run in parallel; the
 * warmup begins for all lanes together. A failure stops issuing at once: what is on the server
 * ends, the barrier stays closed. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/rng.h"
#include "workload/agentx_parts.h"

/* u of traffic 2.2: a stream of its own per lane, so no lane shifts another one's draw. */
static double draw(const aisim_agentx *a, uint32_t lane, const aisim_play *play)
{
    if (lane < a->config.n_u) {
        return a->config.u[lane];
    }
    char name[512];
    snprintf(name, sizeof name, "agentx.t_star/%016" PRIx64 "/%016" PRIx64 "/%.200s/%" PRIu32 "/0",
             a->corpus->digest, aisim_hash_text(play->id), play->id, lane);
    aisim_rng rng = aisim_rng_named(a->config.seed, name);
    return aisim_rng_unit(&rng);
}

aisim_status aisim_agentx_prepare_init(aisim_agentx *a, aisim_error *err)
{
    double low = a->config.t_star[0];
    double high = a->config.t_star[1];
    int64_t first_ns = AISIM_NEVER;
    for (uint32_t i = 0; i < a->corpus->n_plays; i++) {
        int64_t start_ns = a->corpus->plays[i].first_start_ns;
        first_ns = start_ns < first_ns ? start_ns : first_ns;
    }
    for (uint32_t i = 0; i < a->config.lanes; i++) {
        aisim_lane *lane = &a->lanes[i];
        const aisim_play *play = &a->corpus->plays[i % a->corpus->n_plays];
        lane->record = (aisim_agentx_play){.play = play, .lane = i, .k = 0, .slot = i};
        double fraction = low + (high - low) * draw(a, i, play);
        int64_t t_star_ns =
            a->config.shared_clock ? first_ns : aisim_agentx_t_star_ns(play, fraction);
        aisim_status status = aisim_agentx_snapshot_cut(play, t_star_ns, &lane->cut, err);
        if (status != AISIM_OK) {
            return status;
        }
    }
    return AISIM_OK;
}

/* The lane's next warmup request, or AISIM_NONE when it has had all of them. */
static uint32_t next_warmup(const aisim_agentx *a, const aisim_lane *lane)
{
    if (lane->warmups_sent == a->config.warmup_requests_per_lane) {
        return AISIM_NONE;
    }
    if (a->config.warmup_mode == AISIM_WARMUP_ADVANCE) {
        return aisim_agentx_next_ahead(lane->record.play, &lane->cut);
    }
    if (lane->cut.n_primers > 0) {
        return lane->cut.primers[lane->warmups_sent % lane->cut.n_primers];
    }
    return aisim_agentx_earliest_retained(lane->record.play, &lane->cut);
}

static bool send_primer(aisim_agentx *a, uint32_t i)
{
    aisim_lane *lane = &a->lanes[i];
    if (lane->primers_sent == lane->cut.n_primers) {
        return false;
    }
    uint32_t request = lane->cut.primers[lane->primers_sent++];
    a->report.primer_requests++;
    lane->preparing = true;
    a->preparing++;
    aisim_agentx_send(a, i, request, AISIM_AGENTX_PRIMER, 0);
    return true;
}

static bool send_warmup(aisim_agentx *a, uint32_t i)
{
    aisim_lane *lane = &a->lanes[i];
    uint32_t request = next_warmup(a, lane);
    if (request == AISIM_NONE) {
        return false;
    }
    if (a->config.warmup_mode == AISIM_WARMUP_ADVANCE) {
        aisim_agentx_move_frontier(lane->record.play, &lane->cut, request);
    }
    uint32_t index = lane->warmups_sent++;
    a->report.warmup_requests++;
    lane->preparing = true;
    a->preparing++;
    aisim_agentx_send(a, i, request, AISIM_AGENTX_WARMUP, index);
    return true;
}

bool aisim_agentx_prepare_step(aisim_agentx *a)
{
    bool failed = a->report.failed_ns != AISIM_AGENTX_NO_TIME;
    for (uint32_t i = 0; i < a->config.lanes && !failed; i++) {
        if (a->lanes[i].preparing) {
            continue;
        }
        if (a->report.phase == AISIM_AGENTX_PRIMER) {
            send_primer(a, i);
        } else {
            send_warmup(a, i);
        }
        failed = a->report.failed_ns != AISIM_AGENTX_NO_TIME;
    }
    return a->preparing == 0;
}

void aisim_agentx_prepare_terminal(aisim_agentx *a, const aisim_handle *h,
                                   aisim_terminal_status status)
{
    aisim_agentx_report *report = &a->report;
    a->lanes[h->lane].preparing = false;
    a->preparing--;
    a->wake = true;
    if (status == AISIM_TERMINAL_COMPLETED) {
        return;
    }
    /* of several failures the first by time, then by lane */
    if (report->failed_ns == AISIM_AGENTX_NO_TIME ||
        (report->failed_ns == a->now_ns && h->lane < report->failed_lane)) {
        report->failed_ns = a->now_ns;
        report->failed_phase = (aisim_agentx_phase)h->phase;
        report->failed_lane = h->lane;
        report->failed_request = h->request;
        report->failed_warmup_index = h->warmup_index;
    }
}
