/* timeline.c - from engine events to spans: passes, transfers, plays, and the life of the file.
 * Requests are in timeline_requests.c. */
#include "metrics/timeline.h"

#include <stdio.h>
#include <string.h>

#include "metrics/timeline_state.h"

enum { EVENTS_AT_MOST = 2000000 };

/* ---- life ------------------------------------------------------------------------------------ */

void aisim_timeline_options_default(aisim_timeline_options *options)
{
    *options = (aisim_timeline_options){
        .until_ns = INT64_MAX, .every_pass = 1, .max_events = EVENTS_AT_MOST};
}

aisim_status aisim_timeline_open(const char *path, const aisim_timeline_options *options,
                                 aisim_timeline **out, aisim_error *err)
{
    aisim_timeline *timeline = aisim_alloc_zero(1, sizeof *timeline);
    timeline->options = *options;
    timeline->events.max_events = options->max_events;
    timeline->events.from_ns = options->from_ns;
    timeline->events.until_ns = options->until_ns;
    aisim_status status = aisim_spool_open(path, &timeline->events.spool, err);
    if (status != AISIM_OK) {
        aisim_free(timeline);
        timeline = NULL;
    } else {
        aisim_tracefile_name(&timeline->events, (aisim_tracefile_place){0, 0}, "process_name",
                             "client");
    }
    *out = timeline;
    return status;
}

void timeline_name_thread(aisim_timeline *timeline, uint32_t process, uint32_t thread,
                          const char *name)
{
    aisim_tracefile_name(&timeline->events, (aisim_tracefile_place){process, thread}, "thread_name",
                         name);
}

void aisim_timeline_rank(aisim_timeline *timeline, uint32_t worker, const char *pool)
{
    char name[80];
    uint32_t place = 0;
    for (uint32_t i = 0; i < timeline->rank_worker.len; i++) {
        place += timeline->rank_worker.data[i] == worker;
    }
    aisim_array_push(&timeline->rank_worker, worker);
    aisim_array_push(&timeline->rank_place, place);
    while (timeline->workers.len <= worker) {
        aisim_array_push(&timeline->workers, (timeline_worker){0});
    }
    if (place == 0) {
        snprintf(name, sizeof name, "worker %u (%.40s)", worker + 1, pool);
        aisim_tracefile_name(&timeline->events, (aisim_tracefile_place){worker + 1, 0},
                             "process_name", name);
        timeline_name_thread(timeline, worker + 1, TIMELINE_PASSES, "passes");
    } else {
        snprintf(name, sizeof name, "passes of rank %u", place + 1);
        timeline_name_thread(timeline, worker + 1, TIMELINE_RANKS + place, name);
    }
}

static void free_timeline(aisim_timeline *timeline)
{
    for (uint32_t i = 0; i < timeline->workers.len; i++) {
        aisim_array_free(&timeline->workers.data[i].seats.taken);
        for (uint32_t kind = 0; kind < TIMELINE_KINDS; kind++) {
            aisim_array_free(&timeline->workers.data[i].busy_ns[kind]);
        }
    }
    for (uint32_t i = 0; i < timeline->lanes.len; i++) {
        aisim_free(timeline->lanes.data[i].play);
    }
    aisim_array_free(&timeline->rank_worker);
    aisim_array_free(&timeline->rank_place);
    aisim_array_free(&timeline->workers);
    aisim_array_free(&timeline->live);
    aisim_array_free(&timeline->unused);
    aisim_array_free(&timeline->lanes);
    aisim_array_free(&timeline->client_seats.taken);
    aisim_map_free(&timeline->by_id);
    aisim_array_free(&timeline->past);
    aisim_free(timeline);
}

uint64_t aisim_timeline_lost(const aisim_timeline *timeline)
{
    return timeline->events.lost;
}

aisim_status aisim_timeline_close(aisim_timeline *timeline, aisim_error *err)
{
    aisim_status status = aisim_tracefile_close(&timeline->events, err);
    free_timeline(timeline);
    return status;
}

void aisim_timeline_discard(aisim_timeline *timeline)
{
    if (timeline != NULL) {
        aisim_tracefile_discard(&timeline->events);
        free_timeline(timeline);
    }
}

/* ---- passes, copies, plays ------------------------------------------------------------------- */

static void counters(aisim_timeline *timeline, const aisim_event *event)
{
    const aisim_pass_facts *pass = event->u.pass;
    uint32_t process = timeline->rank_worker.data[event->rank] + 1;
    const aisim_tracefile_arg blocks[] = {{"active", (double)pass->active_blocks, NULL},
                                          {"cached", (double)pass->inactive_blocks, NULL}};
    const aisim_tracefile_arg requests[] = {{"running", pass->running, NULL},
                                            {"waiting", pass->waiting, NULL}};
    const aisim_tracefile_arg tokens[] = {
        {"tokens", (double)(pass->prefill_tokens + pass->recomputed_tokens + pass->decode_tokens),
         NULL}};
    aisim_tracefile_counter(&timeline->events, process, "kv blocks", event->t_ns, blocks, 2);
    aisim_tracefile_counter(&timeline->events, process, "requests", event->t_ns, requests, 2);
    aisim_tracefile_counter(&timeline->events, process, "tokens per pass", event->t_ns, tokens, 1);
    if (timeline->options.host_blocks != NULL) {
        uint64_t used = timeline->options.host_blocks(timeline->options.context, event->rank);
        bool *hosted = &timeline->workers.data[process - 1].hosted;
        *hosted = *hosted || used > 0;
        if (*hosted) {
            const aisim_tracefile_arg host = {"used", (double)used, NULL};
            aisim_tracefile_counter(&timeline->events, process, "host blocks", event->t_ns, &host,
                                    1);
        }
    }
}

static void pass_event(aisim_timeline *timeline, const aisim_event *event)
{
    const aisim_pass_facts *pass = event->u.pass;
    if (pass->pass % timeline->options.every_pass != 0) {
        return;
    }
    uint32_t place = timeline->rank_place.data[event->rank];
    const aisim_tracefile_place at = {timeline->rank_worker.data[event->rank] + 1,
                                      place == 0 ? (uint32_t)TIMELINE_PASSES
                                                 : TIMELINE_RANKS + place};
    const char *name = pass->n_prefill == 0 ? "decode" : pass->n_decode == 0 ? "prefill" : "mixed";
    const aisim_tracefile_arg args[] = {{"requests", pass->scheduled, NULL},
                                        {"prefill_tokens", (double)pass->prefill_tokens, NULL},
                                        {"decode_tokens", (double)pass->decode_tokens, NULL},
                                        {"cached_tokens", (double)pass->prefix_tokens, NULL},
                                        {"kv_used", (double)pass->active_blocks, NULL}};
    aisim_tracefile_span(&timeline->events, at, name, pass->begin_ns, pass->end_ns, args, 5);
    if (place == 0) {
        counters(timeline, event);
    }
}

static const struct {
    uint32_t thread;
    const char *name, *of_thread;
} transfers[TIMELINE_KINDS] = {
    [AISIM_TRANSFER_HANDOFF] = {TIMELINE_HANDOFF, "hand-off", "hand-offs"},
    [AISIM_TRANSFER_OFFLOAD] = {TIMELINE_TO_HOST, "to host", "copies to host"},
    [AISIM_TRANSFER_RESTORE] = {TIMELINE_FROM_HOST, "from host", "copies from host"}};

/* A thread of the worker that has no transfer of this kind at that time: spans of one thread lie
 * beside or inside each other. Transfers come in the order of their ends, but for those that end
 * inside of a pass. */
static aisim_tracefile_place transfer_place(aisim_timeline *timeline, const aisim_event *event,
                                            int64_t end_ns)
{
    uint32_t kind = event->u.transfer.kind, process = event->u.transfer.src + 1, i = 0;
    timeline_worker *worker = &timeline->workers.data[event->u.transfer.src];
    while (i < worker->busy_ns[kind].len &&
           worker->busy_ns[kind].data[i] > event->u.transfer.begin_ns) {
        i++;
    }
    uint32_t thread = transfers[kind].thread;
    thread = i == 0 ? thread : thread * TIMELINE_BESIDE + i;
    if (i == worker->busy_ns[kind].len) {
        aisim_array_push(&worker->busy_ns[kind], 0);
        timeline_name_thread(timeline, process, thread, transfers[kind].of_thread);
    }
    worker->busy_ns[kind].data[i] = end_ns;
    return (aisim_tracefile_place){process, thread};
}

static void transfer_event(aisim_timeline *timeline, const aisim_event *event)
{
    uint32_t kind = event->u.transfer.kind;
    int64_t end_ns = event->u.transfer.end_ns > 0 && event->u.transfer.end_ns != INT64_MAX
                         ? event->u.transfer.end_ns
                         : event->t_ns;
    const aisim_tracefile_arg args[] = {{"bytes", (double)event->u.transfer.bytes, NULL},
                                        {"request", event->u.transfer.request_id, NULL}};
    const aisim_tracefile_place place = transfer_place(timeline, event, end_ns);
    aisim_tracefile_span(&timeline->events, place, transfers[kind].name, event->u.transfer.begin_ns,
                         end_ns, args, 2);
    timeline_request_transfer(timeline, event, place, end_ns);
}

static void end_play(aisim_timeline *timeline, uint32_t number, int64_t t_ns, const char *status)
{
    timeline_lane *lane = &timeline->lanes.data[number];
    if (lane->play != NULL) {
        const aisim_tracefile_arg arg = {"status", 0, status};
        aisim_tracefile_span(&timeline->events, (aisim_tracefile_place){0, number + 1}, lane->play,
                             lane->since_ns, t_ns, &arg, 1);
        aisim_free(lane->play);
        lane->play = NULL;
    }
}

static void play_event(aisim_timeline *timeline, const aisim_event *event)
{
    uint32_t number = event->u.play.lane;
    while (timeline->lanes.len <= number) {
        char name[32];
        aisim_array_push(&timeline->lanes, (timeline_lane){0});
        snprintf(name, sizeof name, "lane %u", timeline->lanes.len);
        timeline_name_thread(timeline, 0, timeline->lanes.len, name);
    }
    end_play(timeline, number, event->t_ns, event->u.play.status);
    if (event->type == AISIM_EV_PLAY_START) {
        timeline->lanes.data[number] =
            (timeline_lane){aisim_strdup(event->u.play.play), event->t_ns};
    }
}

/* An idle guard: of one play at its lane, else of all. */
static void shift_event(aisim_timeline *timeline, const aisim_event *event)
{
    char name[64], seconds[32];
    bool global = event->u.shift.lane == AISIM_NONE;
    aisim_json_number(seconds, sizeof seconds, (double)event->u.shift.shifted_by_ns / 1e9);
    snprintf(name, sizeof name, "idle shift %s s", seconds);
    aisim_tracefile_instant(&timeline->events,
                            (aisim_tracefile_place){0, global ? 0 : event->u.shift.lane + 1}, name,
                            event->t_ns);
}

static void worker_event(aisim_timeline *timeline, const aisim_event *event)
{
    char name[80];
    const aisim_tracefile_place place = {event->u.worker.worker + 1, TIMELINE_PASSES};
    snprintf(name, sizeof name, "%s -> %s", event->u.worker.from, event->u.worker.to);
    aisim_tracefile_instant(&timeline->events, place, name, event->t_ns);
    if (strcmp(event->u.worker.to, "stopped") == 0) {
        timeline->workers.data[event->u.worker.worker].stops++;
        timeline->workers.data[event->u.worker.worker].stopped_ns = event->t_ns;
    }
}

/* ---- the observer ---------------------------------------------------------------------------- */

static void observe(void *context, const aisim_event *event)
{
    aisim_timeline *timeline = context;
    switch (event->type) {
    case AISIM_EV_PASS_END:
        pass_event(timeline, event);
        break;
    case AISIM_EV_TRANSFER_END:
        transfer_event(timeline, event);
        break;
    case AISIM_EV_PLAY_START:
    case AISIM_EV_PLAY_END:
        play_event(timeline, event);
        break;
    case AISIM_EV_PHASE:
        aisim_tracefile_instant(&timeline->events, (aisim_tracefile_place){0, 0}, event->u.phase.to,
                                event->t_ns);
        break;
    case AISIM_EV_SHIFT:
        shift_event(timeline, event);
        break;
    case AISIM_EV_WORKER_STATE:
        worker_event(timeline, event);
        break;
    case AISIM_EV_RUN_END:
        for (uint32_t i = 0; i < timeline->lanes.len; i++) {
            end_play(timeline, i, event->t_ns, "live at the end");
        }
        break;
    default:
        timeline_request_event(timeline, event);
        break;
    }
}

aisim_observer aisim_timeline_observer(aisim_timeline *timeline)
{
    static const aisim_event_type wanted[] = {
        AISIM_EV_ARRIVE,   AISIM_EV_ROUTE,      AISIM_EV_ADMIT,        AISIM_EV_FIRST_TOKEN,
        AISIM_EV_PREEMPT,  AISIM_EV_FINISH,     AISIM_EV_REJECT,       AISIM_EV_UNFINISHED,
        AISIM_EV_PASS_END, AISIM_EV_PLAY_START, AISIM_EV_TRANSFER_END, AISIM_EV_PLAY_END,
        AISIM_EV_PHASE,    AISIM_EV_RUN_END,    AISIM_EV_WORKER_STATE, AISIM_EV_GAP,
        AISIM_EV_EDGE,     AISIM_EV_SHIFT};
    aisim_observer observer = {.context = timeline, .fn = observe};
    for (uint32_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        observer.mask |= AISIM_EV_BIT(wanted[i]);
    }
    return observer;
}
