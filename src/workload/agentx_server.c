/* agentx_server.c - what the server knows: handles, answers, settlements.
 *
 * A handle lives until both its terminal and its settlement have come; then its index is reused
 * under another generation. Plays that are over leave a group behind until their last settlement,
 * for the count of server-quiescent plays (traffic 2.6). */
#include "workload/agentx_parts.h"

uint64_t aisim_agentx_handle_name(const aisim_agentx *a, uint32_t index)
{
    return (uint64_t)a->handles.data[index].generation << 32 | index;
}

static uint32_t take_handle(aisim_agentx *a)
{
    if (a->free_handles.len > 0) {
        return a->free_handles.data[--a->free_handles.len];
    }
    aisim_array_push(&a->handles, (aisim_handle){0});
    return a->handles.len - 1;
}

static uint32_t find_handle(const aisim_agentx *a, uint64_t name)
{
    uint32_t index = (uint32_t)name;
    AISIM_CHECK(index < a->handles.len);
    AISIM_CHECK(a->handles.data[index].live);
    AISIM_CHECK(a->handles.data[index].generation == (uint32_t)(name >> 32));
    return index;
}

static void drop_if_over(aisim_agentx *a, uint32_t index)
{
    aisim_handle *h = &a->handles.data[index];
    if (h->terminal && h->settled) {
        h->live = false;
        h->generation++;
        aisim_array_push(&a->free_handles, index);
    }
}

uint32_t aisim_agentx_send(aisim_agentx *a, uint32_t lane, uint32_t request,
                           aisim_agentx_phase phase, uint32_t warmup_index)
{
    aisim_lane *l = &a->lanes[lane];
    const aisim_play *play = phase == AISIM_AGENTX_PROFILE ? l->play : l->record.play;
    const aisim_play_request *r = &play->requests[request];
    const aisim_play_conversation *c = &play->conversations[r->conversation];
    bool profile = phase == AISIM_AGENTX_PROFILE;
    uint32_t index = take_handle(a);
    a->handles.data[index] = (aisim_handle){.sent_ns = a->now_ns,
                                            .generation = a->handles.data[index].generation,
                                            .lane = lane,
                                            .request = request,
                                            .settling = profile ? l->settling : AISIM_NONE,
                                            .warmup_index = warmup_index,
                                            .phase = (uint8_t)phase,
                                            .live = true};
    if (profile) {
        l->turns[request].handle = index;
        a->settlings.data[l->settling].unsettled++;
    } else {
        a->unsettled++;
    }
    aisim_agentx_request out = {.play = play,
                                .request = request,
                                .lane = lane,
                                .k = l->record.k,
                                .slot = l->record.slot,
                                .phase = phase,
                                .warmup_index = warmup_index,
                                .input_tokens = r->input_tokens,
                                .output_tokens = profile ? r->output_tokens : 1,
                                .conversation = r->conversation,
                                .parent = c->parent,
                                .root = c->root,
                                .lineage = c->lineage};
    a->call.send(a->ctx, &out, aisim_agentx_handle_name(a, index));
    return index;
}

void aisim_agentx_terminal(aisim_agentx *a, uint64_t handle, int64_t now_ns,
                           aisim_terminal_status status)
{
    uint32_t index = find_handle(a, handle);
    AISIM_CHECK(!a->handles.data[index].terminal);
    AISIM_CHECK(now_ns >= a->now_ns);
    a->handles.data[index].terminal = true;
    aisim_handle h = a->handles.data[index];
    if (!aisim_agentx_done(a)) {
        a->now_ns = now_ns;
        if (h.phase != AISIM_AGENTX_PROFILE) {
            aisim_agentx_prepare_terminal(a, &h, status);
        } else {
            if (status == AISIM_TERMINAL_COMPLETED && a->report.phase != AISIM_AGENTX_DRAIN) {
                aisim_agentx_report *report = &a->report;
                if (report->last_success_ns == AISIM_AGENTX_NO_TIME ||
                    h.sent_ns < report->first_success_arrival_ns) {
                    report->first_success_arrival_ns = h.sent_ns;
                }
                report->last_success_ns = now_ns;
            }
            aisim_lane_terminal(a, h.lane, h.request, status);
        }
    }
    drop_if_over(a, index);
}

void aisim_agentx_settled(aisim_agentx *a, uint64_t handle, int64_t now_ns)
{
    uint32_t index = find_handle(a, handle);
    aisim_handle *h = &a->handles.data[index];
    AISIM_CHECK(!h->settled);
    h->settled = true;
    /* what settles at the very end of the run still counts, what comes later does not */
    bool counts = !aisim_agentx_done(a) || now_ns <= a->now_ns;
    if (!aisim_agentx_done(a)) {
        AISIM_CHECK(now_ns >= a->now_ns);
        a->now_ns = now_ns;
    }
    if (h->phase != AISIM_AGENTX_PROFILE) {
        a->unsettled--;
        a->wake = true;
    } else if (counts) {
        aisim_settling *group = &a->settlings.data[h->settling];
        a->settled++;
        group->unsettled--;
        if (group->retired && group->unsettled == 0) {
            a->report.plays_server_quiescent++;
            aisim_array_push(&a->free_settlings, h->settling);
        }
    }
    drop_if_over(a, index);
}

uint32_t aisim_agentx_new_settling(aisim_agentx *a)
{
    uint32_t index;
    if (a->free_settlings.len > 0) {
        index = a->free_settlings.data[--a->free_settlings.len];
    } else {
        aisim_array_push(&a->settlings, (aisim_settling){0});
        index = a->settlings.len - 1;
    }
    a->settlings.data[index] = (aisim_settling){0};
    return index;
}

void aisim_agentx_retire_settling(aisim_agentx *a, uint32_t settling)
{
    aisim_settling *group = &a->settlings.data[settling];
    group->retired = true;
    if (group->unsettled == 0) {
        a->report.plays_server_quiescent++;
        aisim_array_push(&a->free_settlings, settling);
    }
}
