/* timeline.c - from engine events to spans: what every live request is doing, and since when.
 *
 * A live request holds a thread of its worker (a *seat*) and one of the client; both are freed at
 * its end and given to the next, lowest first, so that the picture stays narrow. Requests that
 * arrived before the window are followed too: a span that reaches into it is drawn. */
#include "metrics/timeline.h"

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "metrics/record.h"
#include "metrics/tracefile.h"

enum {
    THREAD_PASSES = 1,
    THREAD_TO_HOST = 2,
    THREAD_FROM_HOST = 3,
    THREAD_HANDOFF = 4,
    THREAD_RANKS = 10,
    THREAD_SEATS = 100,
    THREAD_CLIENT = 1000,
    EVENTS_AT_MOST = 2000000
};

/* Numbers that are taken and given back, lowest first. */
typedef struct {
    AISIM_ARRAY(bool) taken;
    uint32_t lowest; /* none below is free */
} number_pool;

typedef struct {
    number_pool seats;
    bool named;  /* thread names are written */
    bool hosted; /* a host block was seen */
} timeline_worker;

typedef struct {
    uint32_t worker; /* AISIM_NONE = not dispatched */
    uint32_t seat, client_seat;
    int64_t arrived_ns, dispatched_ns, since_ns;
    const char *doing; /* "queued", "prefill", "decode", "preempted" */
} live_request;

/* Where a request was drawn at the client. */
typedef struct {
    uint32_t seat; /* AISIM_NONE = not known */
    int64_t begin_ns, end_ns;
} aisim_timeline_past;

typedef struct {
    char *play; /* NULL = none */
    int64_t since_ns;
} timeline_lane;

struct aisim_timeline {
    aisim_tracefile events;
    aisim_timeline_options options;
    AISIM_ARRAY(uint32_t) rank_worker;
    AISIM_ARRAY(uint32_t) rank_place; /* of its worker, from 0 */
    AISIM_ARRAY(timeline_worker) workers;
    AISIM_ARRAY(live_request) live;
    AISIM_ARRAY(uint32_t) unused; /* entries of live */
    AISIM_ARRAY(timeline_lane) lanes;
    number_pool client_seats;
    aisim_map by_id;
    AISIM_ARRAY(aisim_timeline_past) past; /* of requests with an end, by id */
    uint32_t flows;
};

/* ---- numbers --------------------------------------------------------------------------------- */

/* @param fresh  receives whether the number was never taken before */
static uint32_t take_number(number_pool *pool, bool *fresh)
{
    uint32_t i = pool->lowest;
    while (i < pool->taken.len && pool->taken.data[i]) {
        i++;
    }
    *fresh = i == pool->taken.len;
    if (*fresh) {
        aisim_array_push(&pool->taken, true);
    }
    pool->taken.data[i] = true;
    pool->lowest = i + 1;
    return i;
}

static void give_number(number_pool *pool, uint32_t i)
{
    pool->taken.data[i] = false;
    if (i < pool->lowest) {
        pool->lowest = i;
    }
}

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

static void name_thread(aisim_timeline *timeline, uint32_t process, uint32_t thread,
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
        name_thread(timeline, worker + 1, THREAD_PASSES, "passes");
    } else {
        snprintf(name, sizeof name, "passes of rank %u", place + 1);
        name_thread(timeline, worker + 1, THREAD_RANKS + place, name);
    }
}

static void free_timeline(aisim_timeline *timeline)
{
    for (uint32_t i = 0; i < timeline->workers.len; i++) {
        aisim_array_free(&timeline->workers.data[i].seats.taken);
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

/* ---- requests -------------------------------------------------------------------------------- */

/* The live request, added when it is new. */
static live_request *follow(aisim_timeline *timeline, const aisim_request *request)
{
    uint32_t at = aisim_map_get(&timeline->by_id, request->id, 0);
    if (at != AISIM_NONE) {
        return &timeline->live.data[at];
    }
    if (timeline->unused.len > 0) {
        at = timeline->unused.data[--timeline->unused.len];
    } else {
        at = timeline->live.len;
        aisim_array_push(&timeline->live, (live_request){0});
    }
    aisim_map_set(&timeline->by_id, request->id, 0, at);
    live_request *live = &timeline->live.data[at];
    bool fresh;
    *live = (live_request){
        .worker = AISIM_NONE, .seat = AISIM_NONE, .arrived_ns = request->arrival_ns};
    live->client_seat = take_number(&timeline->client_seats, &fresh);
    if (fresh) {
        name_thread(timeline, 0, THREAD_CLIENT + live->client_seat, "requests");
    }
    return live;
}

/* What it was doing ends at t. */
static void close_span(aisim_timeline *timeline, const live_request *live, int64_t t_ns)
{
    if (live->worker != AISIM_NONE && live->doing != NULL && t_ns > live->since_ns) {
        const aisim_tracefile_place place = {live->worker + 1, THREAD_SEATS + live->seat};
        aisim_tracefile_span(&timeline->events, place, live->doing, live->since_ns, t_ns, NULL, 0);
    }
}

static void change(aisim_timeline *timeline, live_request *live, const char *doing, int64_t t_ns)
{
    close_span(timeline, live, t_ns);
    live->doing = doing;
    live->since_ns = t_ns;
}

/* Leaves its worker: the span of its whole stay. */
static void leave(aisim_timeline *timeline, live_request *live, const aisim_request *request,
                  int64_t t_ns, const char *why)
{
    if (live->worker == AISIM_NONE) {
        return;
    }
    close_span(timeline, live, t_ns);
    char name[32];
    snprintf(name, sizeof name, "request %u", request->id);
    const aisim_tracefile_arg args[] = {{"prompt_tokens", request->prompt_tokens, NULL},
                                        {"generated", request->generated, NULL},
                                        {"reused_tokens", request->first_reused, NULL},
                                        {"preemptions", request->preemptions, NULL},
                                        {"end", 0, why}};
    const aisim_tracefile_place place = {live->worker + 1, THREAD_SEATS + live->seat};
    aisim_tracefile_span(&timeline->events, place, name, live->dispatched_ns, t_ns, args, 5);
    give_number(&timeline->workers.data[live->worker].seats, live->seat);
    live->worker = AISIM_NONE;
}

/* Goes elsewhere. Both ends of a hand-off are routed at one instant: a stay of no length is none.
 */
static void move_on(aisim_timeline *timeline, live_request *live, const aisim_request *request,
                    int64_t t_ns, const char *why)
{
    if (live->worker != AISIM_NONE && t_ns == live->dispatched_ns) {
        give_number(&timeline->workers.data[live->worker].seats, live->seat);
        live->worker = AISIM_NONE;
    }
    leave(timeline, live, request, t_ns, why);
}

static void enter(aisim_timeline *timeline, live_request *live, uint32_t worker, int64_t t_ns)
{
    bool fresh;
    live->worker = worker;
    live->seat = take_number(&timeline->workers.data[worker].seats, &fresh);
    live->dispatched_ns = live->since_ns = t_ns;
    live->doing = "queued";
    if (fresh) {
        char name[32];
        snprintf(name, sizeof name, "seat %u", live->seat + 1);
        name_thread(timeline, worker + 1, THREAD_SEATS + live->seat, name);
    }
}

static void admitted(aisim_timeline *timeline, const aisim_event *event)
{
    const aisim_request *request = event->request;
    live_request *live = follow(timeline, request);
    uint32_t worker = timeline->rank_worker.data[event->rank];
    int64_t begin_ns = event->u.admit.begin_ns;
    if (live->worker != worker) { /* its first, or handed over from another pool */
        move_on(timeline, live, request, begin_ns, "moved");
        enter(timeline, live, worker, begin_ns);
    }
    bool decodes = (request->flags & AISIM_REQF_ARRIVED) != 0; /* its prompt came with it */
    change(timeline, live, decodes ? "decode" : "prefill", begin_ns);
}

/* ---- edges ---- */

/* Keeps what an edge may come from, 24 bytes per request of a run with plays. */
static void remember(aisim_timeline *timeline, const aisim_request *request, uint32_t seat,
                     int64_t end_ns)
{
    while (timeline->past.len <= request->id) {
        aisim_array_push(&timeline->past, (aisim_timeline_past){.seat = AISIM_NONE});
    }
    timeline->past.data[request->id] = (aisim_timeline_past){seat, request->arrival_ns, end_ns};
}

/* An arrow from the request that was waited for: from its begin, or from just before its end. */
static void edge_event(aisim_timeline *timeline, const aisim_event *event)
{
    uint32_t source = event->u.edge.source_id;
    uint32_t live = aisim_map_get(&timeline->by_id, source, 0);
    aisim_timeline_past from = {.seat = AISIM_NONE};
    if (live != AISIM_NONE) {
        from.seat = timeline->live.data[live].client_seat;
        from.begin_ns = timeline->live.data[live].arrived_ns;
        from.end_ns = event->t_ns;
    } else if (source < timeline->past.len) {
        from = timeline->past.data[source];
    }
    if (from.seat == AISIM_NONE) {
        return;
    }
    bool at_end = !event->u.edge.at_dispatch && from.end_ns > from.begin_ns;
    const aisim_tracefile_place begin = {0, THREAD_CLIENT + from.seat};
    const aisim_tracefile_place end = {0, THREAD_CLIENT +
                                              follow(timeline, event->request)->client_seat};
    aisim_tracefile_flow(&timeline->events, event->u.edge.relation, ++timeline->flows, begin,
                         at_end ? from.end_ns - 1 : from.begin_ns, end, event->t_ns);
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

static void ended(aisim_timeline *timeline, const aisim_event *event)
{
    const aisim_request *request = event->request;
    live_request *live = follow(timeline, request);
    const char *why = event->type == AISIM_EV_UNFINISHED
                          ? "in flight at the end"
                          : aisim_outcome_text(aisim_outcome_of((aisim_end_reason)request->end));
    char name[32];
    leave(timeline, live, request, event->t_ns, why);
    snprintf(name, sizeof name, "request %u", request->id);
    const aisim_tracefile_arg arg = {"end", 0, why};
    const aisim_tracefile_place place = {0, THREAD_CLIENT + live->client_seat};
    aisim_tracefile_span(&timeline->events, place, name, request->arrival_ns, event->t_ns, &arg, 1);
    if (timeline->lanes.len > 0) { /* only plays have edges */
        remember(timeline, request, live->client_seat, event->t_ns);
    }
    give_number(&timeline->client_seats, live->client_seat);
    aisim_array_push(&timeline->unused, aisim_map_remove(&timeline->by_id, request->id, 0));
}

static void request_event(aisim_timeline *timeline, const aisim_event *event)
{
    live_request *live;
    switch (event->type) {
    case AISIM_EV_ARRIVE:
        follow(timeline, event->request);
        break;
    case AISIM_EV_ROUTE:
        live = follow(timeline, event->request);
        if (live->worker != AISIM_NONE) { /* its worker was lost */
            move_on(timeline, live, event->request, event->t_ns, "lost");
        }
        enter(timeline, live, event->u.route.worker, event->t_ns);
        break;
    case AISIM_EV_ADMIT:
        admitted(timeline, event);
        break;
    case AISIM_EV_FIRST_TOKEN:
        change(timeline, follow(timeline, event->request), "decode", event->t_ns);
        break;
    case AISIM_EV_PREEMPT:
        change(timeline, follow(timeline, event->request), "preempted", event->u.preempt.begin_ns);
        break;
    default:
        ended(timeline, event);
        break;
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
                                      place == 0 ? (uint32_t)THREAD_PASSES : THREAD_RANKS + place};
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

static void transfer_event(aisim_timeline *timeline, const aisim_event *event)
{
    static const struct {
        uint32_t thread;
        const char *name, *of_thread;
    } kinds[] = {[AISIM_TRANSFER_HANDOFF] = {THREAD_HANDOFF, "hand-off", "hand-offs"},
                 [AISIM_TRANSFER_OFFLOAD] = {THREAD_TO_HOST, "to host", "copies to host"},
                 [AISIM_TRANSFER_RESTORE] = {THREAD_FROM_HOST, "from host", "copies from host"}};
    uint32_t kind = event->u.transfer.kind;
    timeline_worker *worker = &timeline->workers.data[event->u.transfer.src];
    if (!worker->named) {
        for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            name_thread(timeline, event->u.transfer.src + 1, kinds[i].thread, kinds[i].of_thread);
        }
        worker->named = true;
    }
    int64_t end_ns = event->u.transfer.end_ns > 0 && event->u.transfer.end_ns != INT64_MAX
                         ? event->u.transfer.end_ns
                         : event->t_ns;
    const aisim_tracefile_arg args[] = {{"bytes", (double)event->u.transfer.bytes, NULL},
                                        {"request", event->u.transfer.request_id, NULL}};
    const aisim_tracefile_place place = {event->u.transfer.src + 1, kinds[kind].thread};
    aisim_tracefile_span(&timeline->events, place, kinds[kind].name, event->u.transfer.begin_ns,
                         end_ns, args, 2);
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
        name_thread(timeline, 0, timeline->lanes.len, name);
    }
    end_play(timeline, number, event->t_ns, event->u.play.status);
    if (event->type == AISIM_EV_PLAY_START) {
        timeline->lanes.data[number] =
            (timeline_lane){aisim_strdup(event->u.play.play), event->t_ns};
    }
}

/* ---- the observer ---------------------------------------------------------------------------- */

static void observe(void *context, const aisim_event *event)
{
    aisim_timeline *timeline = context;
    char name[80];
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
    case AISIM_EV_EDGE:
        edge_event(timeline, event);
        break;
    case AISIM_EV_SHIFT:
        shift_event(timeline, event);
        break;
    case AISIM_EV_WORKER_STATE:
        snprintf(name, sizeof name, "%s -> %s", event->u.worker.from, event->u.worker.to);
        aisim_tracefile_instant(&timeline->events,
                                (aisim_tracefile_place){event->u.worker.worker + 1, THREAD_PASSES},
                                name, event->t_ns);
        break;
    case AISIM_EV_RUN_END:
        for (uint32_t i = 0; i < timeline->lanes.len; i++) {
            end_play(timeline, i, event->t_ns, "live at the end");
        }
        break;
    default:
        request_event(timeline, event);
        break;
    }
}

aisim_observer aisim_timeline_observer(aisim_timeline *timeline)
{
    static const aisim_event_type wanted[] = {
        AISIM_EV_ARRIVE,   AISIM_EV_ROUTE,      AISIM_EV_ADMIT,        AISIM_EV_FIRST_TOKEN,
        AISIM_EV_PREEMPT,  AISIM_EV_FINISH,     AISIM_EV_REJECT,       AISIM_EV_UNFINISHED,
        AISIM_EV_PASS_END, AISIM_EV_PLAY_START, AISIM_EV_TRANSFER_END, AISIM_EV_PLAY_END,
        AISIM_EV_PHASE,    AISIM_EV_RUN_END,    AISIM_EV_WORKER_STATE, AISIM_EV_EDGE,
        AISIM_EV_SHIFT};
    aisim_observer observer = {.context = timeline, .fn = observe};
    for (uint32_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        observer.mask |= AISIM_EV_BIT(wanted[i]);
    }
    return observer;
}
