/* timeline_requests.c - what every live request is doing, since when, and how that hangs together.
 *
 * A live request holds a thread of its worker (a *seat*) and one of the client; both are freed at
 * its end and given to the next, lowest first, so that the picture stays narrow. Requests that
 * arrived before the window are followed too: a span that reaches into it is drawn.
 *
 * A request *works* in its spans prefill and decode. Where two of them do not follow on each other
 * (a hand-off, a preemption, a lost worker), and where a copy from the host lets it begin, an arrow
 * joins them. It leaves in the last nanosecond of its span: at the end, that span is over. A span
 * of no length is not drawn and has no arrows. */
#include "metrics/timeline_state.h"

#include <stdio.h>

#include "metrics/record.h"

/* ---- numbers --------------------------------------------------------------------------------- */

/* @param fresh  receives whether the number was never taken before */
static uint32_t take_number(timeline_numbers *pool, bool *fresh)
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

static void give_number(timeline_numbers *pool, uint32_t i)
{
    pool->taken.data[i] = false;
    if (i < pool->lowest) {
        pool->lowest = i;
    }
}

/* ---- spans and arrows ------------------------------------------------------------------------ */

static const timeline_point nowhere = {.t_ns = -1};

/* The live request, added when it is new. */
static timeline_request *follow(aisim_timeline *timeline, const aisim_request *request)
{
    uint32_t at = aisim_map_get(&timeline->by_id, request->id, 0);
    if (at != AISIM_NONE) {
        return &timeline->live.data[at];
    }
    if (timeline->unused.len > 0) {
        at = timeline->unused.data[--timeline->unused.len];
    } else {
        at = timeline->live.len;
        aisim_array_push(&timeline->live, (timeline_request){0});
    }
    aisim_map_set(&timeline->by_id, request->id, 0, at);
    timeline_request *live = &timeline->live.data[at];
    bool fresh;
    *live = (timeline_request){.worker = AISIM_NONE,
                               .arrived_ns = request->arrival_ns,
                               .seat = AISIM_NONE,
                               .worked = nowhere,
                               .handed = nowhere,
                               .loaded = nowhere};
    live->client_seat = take_number(&timeline->client_seats, &fresh);
    if (fresh) {
        timeline_name_thread(timeline, 0, TIMELINE_CLIENT + live->client_seat, "requests");
    }
    return live;
}

static aisim_tracefile_place seat_of(const timeline_request *live)
{
    return (aisim_tracefile_place){live->worker + 1, TIMELINE_SEATS + live->seat};
}

/* From a to b, by way of a third point if that is one. */
static void arrow(aisim_timeline *timeline, const char *name, timeline_point a, timeline_point by,
                  timeline_point b)
{
    aisim_tracefile_point points[3];
    uint32_t n = 0;
    points[n++] = (aisim_tracefile_point){a.place, a.t_ns};
    if (by.t_ns >= a.t_ns) {
        points[n++] = (aisim_tracefile_point){by.place, by.t_ns};
    }
    points[n++] = (aisim_tracefile_point){b.place, b.t_ns};
    if (a.t_ns >= 0) {
        timeline->arrows +=
            aisim_tracefile_arrow(&timeline->events, name, timeline->arrows + 1, points, n);
    }
}

/* It has worked from since_ns to t: the arrows to this span. */
static void join(aisim_timeline *timeline, timeline_request *live, int64_t t_ns)
{
    const timeline_point here = {seat_of(live), live->since_ns};
    if (live->why != NULL) {
        arrow(timeline, live->why, live->worked, live->handed, here);
    }
    arrow(timeline, "from host", live->loaded, nowhere, here);
    live->why = NULL;
    live->handed = live->loaded = nowhere;
    live->worked = (timeline_point){here.place, t_ns - 1};
}

/* What it was doing ends at t. */
static void close_span(aisim_timeline *timeline, timeline_request *live, int64_t t_ns)
{
    if (live->worker != AISIM_NONE && live->doing != NULL && t_ns > live->since_ns) {
        aisim_tracefile_span(&timeline->events, seat_of(live), live->doing, live->since_ns, t_ns,
                             NULL, 0);
        if (live->works) {
            join(timeline, live, t_ns);
        }
    }
}

static void change(aisim_timeline *timeline, timeline_request *live, const char *doing, bool works,
                   int64_t t_ns)
{
    close_span(timeline, live, t_ns);
    live->doing = doing;
    live->works = works;
    live->since_ns = t_ns;
}

/* ---- stays ----------------------------------------------------------------------------------- */

static bool was_lost(const aisim_timeline *timeline, const timeline_request *live)
{
    return live->worker != AISIM_NONE && timeline->workers.data[live->worker].stops != live->stops;
}

/* Leaves its worker: the span of its whole stay, until its worker was lost if it was. A stay of no
 * length is none. */
static void leave(aisim_timeline *timeline, timeline_request *live, const aisim_request *request,
                  int64_t t_ns, const char *why)
{
    if (live->worker == AISIM_NONE) {
        return;
    }
    timeline_worker *worker = &timeline->workers.data[live->worker];
    if (was_lost(timeline, live) && worker->stopped_ns < t_ns) {
        t_ns = worker->stopped_ns;
    }
    close_span(timeline, live, t_ns);
    if (t_ns > live->dispatched_ns) {
        char name[32];
        snprintf(name, sizeof name, "request %u", request->id);
        const aisim_tracefile_arg args[] = {{"prompt_tokens", request->prompt_tokens, NULL},
                                            {"generated", request->generated, NULL},
                                            {"reused_tokens", request->first_reused, NULL},
                                            {"preemptions", request->preemptions, NULL},
                                            {"end", 0, why}};
        aisim_tracefile_span(&timeline->events, seat_of(live), name, live->dispatched_ns, t_ns,
                             args, 5);
    }
    give_number(&worker->seats, live->seat);
    live->worker = AISIM_NONE;
}

static void enter(aisim_timeline *timeline, timeline_request *live, uint32_t worker, int64_t t_ns)
{
    bool fresh;
    live->worker = worker;
    live->stops = timeline->workers.data[worker].stops;
    live->seat = take_number(&timeline->workers.data[worker].seats, &fresh);
    live->dispatched_ns = live->since_ns = t_ns;
    live->doing = "queued";
    live->works = false;
    if (fresh) {
        char name[32];
        snprintf(name, sizeof name, "seat %u", live->seat + 1);
        timeline_name_thread(timeline, worker + 1, TIMELINE_SEATS + live->seat, name);
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

static void routed(aisim_timeline *timeline, const aisim_event *event)
{
    timeline_request *live = follow(timeline, event->request);
    if (event->u.route.stage == 2) {
        return; /* the decode router: it is on its way to a prefill worker */
    }
    if (live->worker != AISIM_NONE) {
        leave(timeline, live, event->request, event->t_ns, "lost");
        live->why = "lost";
    }
    enter(timeline, live, event->u.route.worker, event->t_ns);
}

static void admitted(aisim_timeline *timeline, const aisim_event *event)
{
    const aisim_request *request = event->request;
    timeline_request *live = follow(timeline, request);
    uint32_t worker = timeline->rank_worker.data[event->rank];
    int64_t begin_ns = event->u.admit.begin_ns;
    if (live->worker != worker) {
        leave(timeline, live, request, begin_ns, "moved");
        enter(timeline, live, worker, begin_ns);
    }
    bool decodes = (request->flags & AISIM_REQF_ARRIVED) != 0; /* its prompt came with it */
    change(timeline, live, decodes ? "decode" : "prefill", true, begin_ns);
}

/* The first token, or the first after a preemption. */
static void has_token(aisim_timeline *timeline, const aisim_event *event)
{
    timeline_request *live = follow(timeline, event->request);
    bool held = (event->request->flags & AISIM_REQF_HOLD) != 0; /* for its hand-off */
    if (event->type == AISIM_EV_FIRST_TOKEN || (live->works && live->doing[0] == 'p')) {
        change(timeline, live, held ? "held" : "decode", !held, event->t_ns);
    }
}

static void preempted(aisim_timeline *timeline, const aisim_event *event)
{
    timeline_request *live = follow(timeline, event->request);
    change(timeline, live, "preempted", false, event->u.preempt.begin_ns);
    live->why = "resumed";
}

/* ---- edges ---- */

/* Keeps what an edge may come from, 24 bytes per request of a run with plays. */
static void remember(aisim_timeline *timeline, const aisim_request *request, uint32_t seat,
                     int64_t end_ns)
{
    while (timeline->past.len <= request->id) {
        aisim_array_push(&timeline->past, (timeline_past){.seat = AISIM_NONE});
    }
    timeline->past.data[request->id] = (timeline_past){seat, request->arrival_ns, end_ns};
}

/* An arrow from the request that was waited for: from its begin, or from just before its end. */
static void edge_event(aisim_timeline *timeline, const aisim_event *event)
{
    uint32_t source = event->u.edge.source_id;
    uint32_t live = aisim_map_get(&timeline->by_id, source, 0);
    timeline_past from = {.seat = AISIM_NONE};
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
    const aisim_tracefile_place begin = {0, TIMELINE_CLIENT + from.seat};
    const aisim_tracefile_place end = {0, TIMELINE_CLIENT +
                                              follow(timeline, event->request)->client_seat};
    aisim_tracefile_flow(&timeline->events, event->u.edge.relation, ++timeline->flows, begin,
                         at_end ? from.end_ns - 1 : from.begin_ns, end, event->t_ns);
}

static void ended(aisim_timeline *timeline, const aisim_event *event)
{
    const aisim_request *request = event->request;
    timeline_request *live = follow(timeline, request);
    const char *why = event->type == AISIM_EV_UNFINISHED
                          ? "in flight at the end"
                          : aisim_outcome_text(aisim_outcome_of((aisim_end_reason)request->end));
    char name[32];
    leave(timeline, live, request, event->t_ns, why);
    snprintf(name, sizeof name, "request %u", request->id);
    const aisim_tracefile_arg arg = {"end", 0, why};
    const aisim_tracefile_place place = {0, TIMELINE_CLIENT + live->client_seat};
    aisim_tracefile_span(&timeline->events, place, name, request->arrival_ns, event->t_ns, &arg, 1);
    if (timeline->lanes.len > 0) { /* only plays have edges */
        remember(timeline, request, live->client_seat, event->t_ns);
    }
    give_number(&timeline->client_seats, live->client_seat);
    aisim_array_push(&timeline->unused, aisim_map_remove(&timeline->by_id, request->id, 0));
}

void timeline_request_event(aisim_timeline *timeline, const aisim_event *event)
{
    switch (event->type) {
    case AISIM_EV_ARRIVE:
        follow(timeline, event->request);
        break;
    case AISIM_EV_ROUTE:
        routed(timeline, event);
        break;
    case AISIM_EV_ADMIT:
        admitted(timeline, event);
        break;
    case AISIM_EV_FIRST_TOKEN:
    case AISIM_EV_GAP:
        has_token(timeline, event);
        break;
    case AISIM_EV_PREEMPT:
        preempted(timeline, event);
        break;
    case AISIM_EV_EDGE:
        edge_event(timeline, event);
        break;
    default:
        ended(timeline, event);
        break;
    }
}

void timeline_request_transfer(aisim_timeline *timeline, const aisim_event *event,
                               aisim_tracefile_place place, int64_t end_ns)
{
    uint32_t at = aisim_map_get(&timeline->by_id, event->u.transfer.request_id, 0);
    if (at == AISIM_NONE) {
        return; /* a copy outlived it */
    }
    timeline_request *live = &timeline->live.data[at];
    int64_t begin_ns = event->u.transfer.begin_ns;
    if (event->u.transfer.kind == AISIM_TRANSFER_RESTORE && end_ns > begin_ns) {
        live->loaded = (timeline_point){place, end_ns - 1};
    } else if (event->u.transfer.kind == AISIM_TRANSFER_HANDOFF) {
        leave(timeline, live, event->request, event->t_ns, "handed off");
        enter(timeline, live, event->u.transfer.dst, event->t_ns);
        live->why = "hand-off";
        if (end_ns > begin_ns) {
            live->handed = (timeline_point){place, begin_ns};
        }
    }
}
