/* agentx_lane.c - the live play of a lane: timers, edges, failure, end (traffic 1.6, 2.4, 2.5). */
#include "workload/agentx_parts.h"

/* ---- two small heaps of node indices ----------------------------------------------------------
 */

typedef bool (*node_order)(const aisim_lane *lane, uint32_t a, uint32_t b);

static bool ready_before(const aisim_lane *lane, uint32_t a, uint32_t b)
{
    int64_t x = lane->turns[a].ready_ns;
    int64_t y = lane->turns[b].ready_ns;
    return x != y ? x < y : a < b;
}

static bool node_before(const aisim_lane *lane, uint32_t a, uint32_t b)
{
    (void)lane;
    return a < b;
}

static void sift_up(const aisim_lane *lane, uint32_t *heap, uint32_t i, node_order before)
{
    while (i > 0 && before(lane, heap[i], heap[(i - 1) / 2])) {
        uint32_t up = (i - 1) / 2;
        uint32_t swap = heap[i];
        heap[i] = heap[up];
        heap[up] = swap;
        i = up;
    }
}

static uint32_t pop(const aisim_lane *lane, uint32_t *heap, uint32_t *len, node_order before)
{
    uint32_t top = heap[0];
    heap[0] = heap[--*len];
    uint32_t i = 0;
    while (true) {
        uint32_t child = i * 2 + 1;
        if (child >= *len) {
            return top;
        }
        if (child + 1 < *len && before(lane, heap[child + 1], heap[child])) {
            child++;
        }
        if (!before(lane, heap[child], heap[i])) {
            return top;
        }
        uint32_t swap = heap[i];
        heap[i] = heap[child];
        heap[child] = swap;
        i = child;
    }
}

static void add_timer(aisim_lane *lane, uint32_t request)
{
    lane->turns[request].state = AISIM_TURN_TIMER;
    aisim_array_push(&lane->timers, request);
    sift_up(lane, lane->timers.data, lane->timers.len - 1, ready_before);
}

/* ---- what the trees over all lanes have to know ------------------------------------------------
 */

static int64_t earliest_timer_ns(const aisim_lane *lane)
{
    if (lane->due.len > 0) {
        return INT64_MIN; /* left over from this instant */
    }
    return lane->timers.len == 0 ? AISIM_NEVER
                                 : lane->turns[lane->timers.data[0]].ready_ns - lane->shift_ns;
}

static void publish(aisim_agentx *a, uint32_t index)
{
    const aisim_lane *lane = &a->lanes[index];
    int64_t timer_ns = earliest_timer_ns(lane);
    int64_t guard_ns = AISIM_NEVER;
    /* 2.4 tree idle guard: idle since s and the earliest timer later than s + cap */
    if (lane->outstanding == 0 && timer_ns != AISIM_NEVER &&
        timer_ns > lane->idle_since_ns + a->tree_cap_ns) {
        guard_ns = lane->idle_since_ns + a->tree_cap_ns;
    }
    aisim_mintree_set(&a->timer_times, index, timer_ns);
    aisim_mintree_set(&a->guard_times, index, guard_ns);
}

/* ---- start --------------------------------------------------------------------------------------
 */

static void arm(aisim_agentx *a, aisim_lane *lane, uint32_t request, int64_t gate_ns,
                uint32_t waiting)
{
    aisim_turn *node = &lane->turns[request];
    *node = (aisim_turn){.ready_ns = a->now_ns + gate_ns,
                         .waiting = waiting,
                         .handle = AISIM_NONE,
                         .state = AISIM_TURN_WAITING};
    lane->record.planned++;
    lane->open++;
    if (waiting == 0) {
        add_timer(lane, request);
    }
}

static void arm_from_cut(aisim_agentx *a, aisim_lane *lane)
{
    for (uint32_t i = 0; i < lane->play->n_requests; i++) {
        if (lane->cut.history[i]) {
            lane->turns[i] = (aisim_turn){.handle = AISIM_NONE, .state = AISIM_TURN_HISTORY};
            continue;
        }
        int64_t remaining_ns =
            aisim_agentx_remaining_ns(lane->play, &lane->cut, i, a->config.authored_gate);
        arm(a, lane, i, aisim_agentx_scaled_ns(&a->config, remaining_ns),
            aisim_agentx_live_edges(lane->play, &lane->cut, i));
    }
    aisim_agentx_snapshot_deinit(&lane->cut);
}

/* 1.6: the authored gate counts from the play's earliest root; without it only roots keep theirs,
 * which is 0. */
static void arm_from_zero(aisim_agentx *a, aisim_lane *lane)
{
    const aisim_play *play = lane->play;
    int64_t root_ns = play->requests[play->root].start_ns;
    for (uint32_t i = 0; i < play->n_requests; i++) {
        int64_t gate_ns = a->config.authored_gate ? play->requests[i].start_ns - root_ns : 0;
        arm(a, lane, i, aisim_agentx_scaled_ns(&a->config, gate_ns), play->requests[i].in_edges);
    }
}

void aisim_lane_start(aisim_agentx *a, uint32_t index, const aisim_play *play, bool from_cut)
{
    aisim_lane *lane = &a->lanes[index];
    uint32_t k = from_cut ? 0 : lane->record.k + 1;
    lane->play = play;
    lane->record = (aisim_agentx_play){.play = play,
                                       .lane = index,
                                       .k = k,
                                       .slot = (uint64_t)k * a->config.lanes + index,
                                       .start_ns = a->now_ns,
                                       .end_ns = AISIM_AGENTX_NO_TIME,
                                       .e2e_ns = AISIM_AGENTX_NO_TIME,
                                       .status = AISIM_PLAY_INCOMPLETE,
                                       .cause = AISIM_NONE,
                                       .cause_ns = AISIM_AGENTX_NO_TIME};
    lane->shift_ns = 0;
    lane->idle_since_ns = a->now_ns;
    lane->first_dispatch_ns = from_cut ? a->now_ns : AISIM_AGENTX_NO_TIME;
    lane->outstanding = 0;
    lane->open = 0;
    lane->timers.len = 0;
    lane->due.len = 0;
    lane->settling = aisim_agentx_new_settling(a);
    if (play->n_requests > lane->turn_capacity) {
        lane->turns = aisim_realloc(lane->turns, play->n_requests, sizeof *lane->turns);
        lane->turn_capacity = play->n_requests;
    }
    if (from_cut) {
        arm_from_cut(a, lane);
    } else {
        arm_from_zero(a, lane);
    }
    a->report.plays_started++;
    a->report.planned += lane->record.planned;
    if (!a->config.forget_plays) {
        lane->record_index = a->plays.len;
        aisim_array_push(&a->plays, lane->record);
    }
    publish(a, index);
    if (a->call.play_start != NULL) {
        a->call.play_start(a->ctx, &lane->record);
    }
}

/* ---- edges --------------------------------------------------------------------------------------
 */

static void fire(aisim_agentx *a, aisim_lane *lane, uint32_t request, aisim_play_trigger trigger)
{
    const aisim_play_request *r = &lane->play->requests[request];
    for (uint32_t i = 0; i < r->out_edges; i++) {
        const aisim_play_edge *edge = &lane->play->edges[lane->play->out[r->out_first + i]];
        aisim_turn *target = &lane->turns[edge->target];
        if (edge->trigger != (uint8_t)trigger || target->state != AISIM_TURN_WAITING) {
            continue;
        }
        int64_t ready_ns =
            a->now_ns + lane->shift_ns + aisim_agentx_scaled_ns(&a->config, edge->delay_ns);
        target->ready_ns = ready_ns > target->ready_ns ? ready_ns : target->ready_ns;
        if (--target->waiting == 0) {
            add_timer(lane, edge->target);
        }
    }
}

static void send(aisim_agentx *a, uint32_t index, uint32_t request)
{
    aisim_lane *lane = &a->lanes[index];
    lane->turns[request].state = AISIM_TURN_SENT;
    lane->outstanding++;
    lane->record.issued++;
    a->outstanding++;
    a->report.issued++;
    if (a->report.first_request_ns == AISIM_AGENTX_NO_TIME) {
        a->report.first_request_ns = a->now_ns;
    }
    if (lane->first_dispatch_ns == AISIM_AGENTX_NO_TIME) {
        lane->first_dispatch_ns = a->now_ns;
    }
    fire(a, lane, request, AISIM_TRIGGER_DISPATCH);
    aisim_agentx_send(a, index, request, AISIM_AGENTX_PROFILE, 0);
}

void aisim_lane_send_due(aisim_agentx *a, uint32_t index)
{
    aisim_lane *lane = &a->lanes[index];
    while (true) {
        /* a dispatch edge without delay may add to what is due */
        while (lane->timers.len > 0 &&
               lane->turns[lane->timers.data[0]].ready_ns - lane->shift_ns <= a->now_ns) {
            uint32_t request = pop(lane, lane->timers.data, &lane->timers.len, ready_before);
            aisim_array_push(&lane->due, request);
            sift_up(lane, lane->due.data, lane->due.len - 1, node_before);
        }
        if (lane->due.len == 0 || aisim_agentx_sent_all(a)) {
            break;
        }
        send(a, index, pop(lane, lane->due.data, &lane->due.len, node_before));
    }
    publish(a, index);
}

void aisim_lane_shift(aisim_agentx *a, uint32_t index, int64_t by_ns)
{
    a->lanes[index].shift_ns += by_ns;
    publish(a, index);
}

/* ---- end ----------------------------------------------------------------------------------------
 */

static void store_record(aisim_agentx *a, const aisim_lane *lane)
{
    if (!a->config.forget_plays) {
        a->plays.data[lane->record_index] = lane->record;
    }
    if (a->call.play_end != NULL) {
        a->call.play_end(a->ctx, &lane->record);
    }
}

/* The lane is free: its play completed, or failed and nothing of it is on the server any more. */
static void retire(aisim_agentx *a, aisim_lane *lane)
{
    lane->record.end_ns = a->now_ns;
    if (lane->record.status != AISIM_PLAY_FAILED) {
        lane->record.status = AISIM_PLAY_COMPLETED;
        lane->record.e2e_ns = a->now_ns - lane->first_dispatch_ns;
        a->report.plays_client_completed++;
    }
    a->report.plays_retired++;
    lane->play = NULL;
    aisim_agentx_retire_settling(a, lane->settling);
    a->wake = true;
    store_record(a, lane);
}

/* 2.5: undispatched requests of the play are skipped. */
static void skip_unsent(aisim_lane *lane)
{
    for (uint32_t i = 0; i < lane->play->n_requests; i++) {
        aisim_turn *node = &lane->turns[i];
        if (node->state == AISIM_TURN_WAITING || node->state == AISIM_TURN_TIMER) {
            node->state = AISIM_TURN_SKIPPED;
            lane->open--;
        }
    }
    lane->timers.len = 0;
    lane->due.len = 0;
}

static void fail_play(aisim_agentx *a, aisim_lane *lane, uint32_t request)
{
    aisim_agentx_play *record = &lane->record;
    /* the cause is the smallest (time, node ordinal) */
    if (record->status != AISIM_PLAY_FAILED) {
        record->status = AISIM_PLAY_FAILED;
        record->cause = request;
        record->cause_ns = a->now_ns;
        a->report.plays_failed++;
        skip_unsent(lane);
    } else if (record->cause_ns == a->now_ns && request < record->cause) {
        record->cause = request;
    }
}

/* on_error = continue, context overflow: the conversation ends here. Its other unsent requests
 * count as over for whoever waits for them; what they would have spawned is never started. */
static void end_conversation(aisim_lane *lane, uint32_t conversation)
{
    const aisim_play *play = lane->play;
    AISIM_ARRAY(uint32_t) list = {0};
    aisim_array_push(&list, conversation);
    for (uint32_t at = 0; at < list.len; at++) {
        const aisim_play_conversation *c = &play->conversations[list.data[at]];
        for (uint32_t i = 0; i < c->count; i++) {
            uint32_t request = play->conversation_requests[c->first + i];
            aisim_turn *node = &lane->turns[request];
            if (node->state != AISIM_TURN_WAITING && node->state != AISIM_TURN_TIMER) {
                continue;
            }
            node->state = AISIM_TURN_SKIPPED;
            lane->open--;
            const aisim_play_request *r = &play->requests[request];
            for (uint32_t e = 0; e < r->out_edges; e++) {
                const aisim_play_edge *edge = &play->edges[play->out[r->out_first + e]];
                if (edge->relation == AISIM_RELATION_SPAWN) {
                    aisim_array_push(&list, play->requests[edge->target].conversation);
                }
            }
        }
    }
    aisim_array_free(&list);
    /* timers of skipped requests leave the heaps; skipped requests release the others */
    uint32_t kept = 0;
    for (uint32_t i = 0; i < lane->timers.len; i++) {
        if (lane->turns[lane->timers.data[i]].state == AISIM_TURN_TIMER) {
            lane->timers.data[kept++] = lane->timers.data[i];
            sift_up(lane, lane->timers.data, kept - 1, ready_before);
        }
    }
    lane->timers.len = kept;
    kept = 0;
    for (uint32_t i = 0; i < lane->due.len; i++) {
        if (lane->turns[lane->due.data[i]].state == AISIM_TURN_TIMER) {
            lane->due.data[kept++] = lane->due.data[i];
            sift_up(lane, lane->due.data, kept - 1, node_before);
        }
    }
    lane->due.len = kept;
}

/* Fires what the requests that end_conversation skipped still owe to others. */
static void release_waiters(aisim_agentx *a, aisim_lane *lane, const bool *before)
{
    for (uint32_t i = 0; i < lane->play->n_requests; i++) {
        if (lane->turns[i].state == AISIM_TURN_SKIPPED && !before[i]) {
            fire(a, lane, i, AISIM_TRIGGER_DISPATCH);
            fire(a, lane, i, AISIM_TRIGGER_COMPLETION);
        }
    }
}

static void overflow(aisim_agentx *a, aisim_lane *lane, uint32_t request)
{
    uint32_t n = lane->play->n_requests;
    bool *before = aisim_alloc(n, sizeof *before);
    for (uint32_t i = 0; i < n; i++) {
        before[i] = lane->turns[i].state == AISIM_TURN_SKIPPED;
    }
    end_conversation(lane, lane->play->requests[request].conversation);
    release_waiters(a, lane, before);
    aisim_free(before);
}

static void count(aisim_agentx *a, aisim_lane *lane, aisim_terminal_status status)
{
    if (status == AISIM_TERMINAL_COMPLETED) {
        a->report.successful++;
        lane->record.successful++;
    } else if (status == AISIM_TERMINAL_CANCELLED) {
        a->report.cancelled++;
        lane->record.cancelled++;
    } else {
        a->report.failed++;
        lane->record.failed++;
    }
}

void aisim_lane_terminal(aisim_agentx *a, uint32_t index, uint32_t request,
                         aisim_terminal_status status)
{
    aisim_lane *lane = &a->lanes[index];
    AISIM_ASSERT(lane->turns[request].state == AISIM_TURN_SENT);
    lane->turns[request].state = AISIM_TURN_ENDED;
    lane->outstanding--;
    lane->open--;
    a->outstanding--;
    lane->idle_since_ns = a->now_ns;
    a->idle_since_ns = a->now_ns;
    a->wake = a->wake || a->outstanding == 0;
    if (a->report.phase == AISIM_AGENTX_DRAIN) {
        count(a, lane, AISIM_TERMINAL_CANCELLED); /* 2.5: that leaves the play incomplete, */
        if (lane->record.status == AISIM_PLAY_FAILED && lane->open == 0) {
            retire(a, lane); /* 2.6: unless it had failed before */
        }
        return;
    }
    count(a, lane, status);
    if (status != AISIM_TERMINAL_COMPLETED && a->config.on_error == AISIM_ON_ERROR_FAIL_PLAY) {
        fail_play(a, lane, request);
    }
    if (lane->record.status != AISIM_PLAY_FAILED) {
        if (status == AISIM_TERMINAL_OVERFLOW) {
            overflow(a, lane, request);
        }
        fire(a, lane, request, AISIM_TRIGGER_COMPLETION);
    }
    if (lane->open == 0) {
        retire(a, lane);
    }
    publish(a, index);
}

void aisim_lane_close(aisim_agentx *a, uint32_t index)
{
    aisim_lane *lane = &a->lanes[index];
    if (lane->play != NULL) {
        store_record(a, lane);
        lane->play = NULL;
    }
}

void aisim_lane_deinit(aisim_lane *lane)
{
    aisim_agentx_snapshot_deinit(&lane->cut);
    aisim_free(lane->turns);
    aisim_array_free(&lane->timers);
    aisim_array_free(&lane->due);
}
