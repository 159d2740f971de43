/* agentx_traffic.c - what the AgentX state machine needs from a simulation.
 *
 * Content. Each source play has a template tree (workload/play_content.h), built when the play is
 * first used and kept. An instance of a play makes runs from it as they are needed, all private to
 * the instance, so two instances share nothing (traffic.md §2.1); with cache_identity =
 * after_system the template's shared runs are made once per source play. What a prompt holds beyond
 * its recorded blocks, and its answer, is a private branch of the request.
 *
 * Clock. One timer of class TIMER stands at the time the client wants to be called; it is moved
 * after every call into the client. Terminals arrive in pass ends (an earlier class), so at one
 * instant the client hears of all of them first, as §2.4 wants. */
#include "sim/agentx_traffic.h"

#include "base/array.h"
#include "base/check.h"
#include "base/clock.h"
#include "workload/reuse.h"

/* Runs of one play instance, by template run; AISIM_NONE = not made yet. */
typedef struct instance {
    const aisim_play *play;
    uint64_t slot;
    uint32_t *runs;
    uint32_t n_runs;
} instance;

/* The template of one source play and its runs that all instances share. */
typedef struct source {
    bool built;
    aisim_play_content content;
    uint32_t *shared_runs;
} source;

/* A request at the server; its index is the cookie. */
typedef struct sent {
    uint64_t handle;
    aisim_handle request;
    uint32_t play, node;
    uint64_t slot; /* instance of the play */
    uint32_t lane, k;
    uint32_t root_session, parent_session; /* 0 = none, or lineage absent */
    uint32_t next_free;
} sent;

struct aisim_agentx_traffic {
    aisim_sim *sim;
    aisim_agentx *agentx;
    const aisim_corpus *corpus;
    aisim_agentx_requests as;
    uint16_t client;
    bool after_system;
    uint32_t block_size; /* of the engine, for ideal reuse */
    source *sources;     /* by ordinal */
    instance *lanes;     /* live instance of each lane */
    uint32_t n_lanes;
    AISIM_ARRAY(sent) sent;
    uint32_t free_sent;
    uint64_t timer;
    int64_t timer_ns;
    aisim_agentx_phase phase;
    aisim_map sessions; /* (slot, conversation) -> session number, while the play lives */
    aisim_map ids;      /* (slot, node) -> request, while the play lives and edges are wanted */
    aisim_map warmed;   /* slot -> the request that its warm-up sent last */
};

/* ---- content --------------------------------------------------------------------------------- */

static source *source_of(aisim_agentx_traffic *t, const aisim_play *play)
{
    source *s = &t->sources[play->ordinal];
    if (!s->built) {
        aisim_play_content_build(play, t->after_system, &s->content);
        s->shared_runs = aisim_alloc(s->content.n_runs, sizeof *s->shared_runs);
        for (uint32_t i = 0; i < s->content.n_runs; i++) {
            s->shared_runs[i] = AISIM_NONE;
        }
        s->built = true;
    }
    return s;
}

static void instance_end(aisim_agentx_traffic *t, instance *live)
{
    aisim_content *content = aisim_sim_content(t->sim);
    for (uint32_t i = 0; i < live->n_runs; i++) {
        if (live->runs[i] != AISIM_NONE) {
            aisim_content_release(content, live->runs[i]);
        }
    }
    aisim_free(live->runs);
    *live = (instance){0};
}

static instance *instance_of(aisim_agentx_traffic *t, const aisim_agentx_request *request)
{
    instance *live = &t->lanes[request->lane];
    if (live->play == NULL || live->slot != request->slot) {
        instance_end(t, live);
        const source *s = source_of(t, request->play);
        live->play = request->play;
        live->slot = request->slot;
        live->n_runs = s->content.n_runs;
        live->runs = aisim_alloc(live->n_runs, sizeof *live->runs);
        for (uint32_t i = 0; i < live->n_runs; i++) {
            live->runs[i] = AISIM_NONE;
        }
    }
    return live;
}

/* The content run of a template run in this instance, made with its parents when missing. */
static uint32_t run_of(aisim_agentx_traffic *t, instance *live, source *s, uint32_t index)
{
    const aisim_content_run *run = &s->content.runs[index];
    uint32_t *made = run->shared ? &s->shared_runs[index] : &live->runs[index];
    if (*made == AISIM_NONE) {
        aisim_node at = AISIM_ROOT;
        if (run->parent != AISIM_NONE) {
            at = (aisim_node){run_of(t, live, s, run->parent), (uint32_t)run->start_tokens};
        }
        *made =
            aisim_content_branch(aisim_sim_content(t->sim), at, (uint32_t)run->length_tokens).run;
    }
    return *made;
}

/* The prompt of a request: recorded blocks, then its own branch. One reference for the caller. */
static aisim_node prompt_of(aisim_agentx_traffic *t, const aisim_agentx_request *request)
{
    source *s = source_of(t, request->play);
    instance *live = instance_of(t, request);
    const aisim_content_request *r = &s->content.requests[request->request];
    aisim_node at = AISIM_ROOT;
    if (r->run != AISIM_NONE) {
        at = (aisim_node){run_of(t, live, s, r->run), (uint32_t)r->shared_tokens};
    }
    uint32_t rest = (uint32_t)(request->input_tokens - r->shared_tokens);
    return aisim_content_branch(aisim_sim_content(t->sim), at, rest);
}

/* ---- clock ----------------------------------------------------------------------------------- */

static void on_timer(void *context, aisim_sim *sim, int64_t t_ns);

static void set_timer(aisim_agentx_traffic *t)
{
    int64_t next =
        aisim_agentx_done(t->agentx) ? AISIM_NEVER : aisim_agentx_next_time_ns(t->agentx);
    if (next == t->timer_ns) {
        return;
    }
    if (t->timer_ns != AISIM_NEVER) {
        aisim_sim_timer_remove(t->sim, t->timer);
    }
    t->timer_ns = next;
    if (next != AISIM_NEVER) {
        int64_t now = aisim_sim_now(t->sim);
        t->timer =
            aisim_sim_timer(t->sim, next > now ? next : now, AISIM_CLASS_TIMER, false, on_timer, t);
    }
}

static void on_timer(void *context, aisim_sim *sim, int64_t t_ns)
{
    (void)sim;
    aisim_agentx_traffic *t = context;
    t->timer_ns = AISIM_NEVER;
    aisim_agentx_advance(t->agentx, t_ns);
    set_timer(t);
}

/* ---- requests -------------------------------------------------------------------------------- */

static uint32_t session_of(aisim_agentx_traffic *t, uint64_t slot, uint32_t conversation)
{
    uint32_t session = aisim_map_get(&t->sessions, slot, conversation);
    if (session == AISIM_NONE) {
        session = aisim_sim_next_session(t->sim);
        aisim_map_set(&t->sessions, slot, conversation, session);
    }
    return session;
}

/* A conversation has its number from the first request on that it, or a child of it, sends. */
static uint32_t relative_of(aisim_agentx_traffic *t, const aisim_agentx_request *request,
                            uint32_t conversation)
{
    bool known = request->lineage && conversation != AISIM_NONE;
    return known ? session_of(t, request->slot, conversation) : 0;
}

/* Place of the request in its conversation. */
static uint16_t turn_of(const aisim_agentx_request *request)
{
    const aisim_play_conversation *c = &request->play->conversations[request->conversation];
    const uint32_t *stream = request->play->conversation_requests + c->first;
    uint32_t turn = 0;
    while (turn + 1 < c->count && stream[turn] != request->request) {
        turn++;
    }
    return turn < UINT16_MAX ? (uint16_t)turn : UINT16_MAX;
}

/* What the request has waited for in other conversations. */
static void show_edges(aisim_agentx_traffic *t, const aisim_agentx_request *request,
                       aisim_handle handle)
{
    const aisim_play *play = request->play;
    const aisim_play_request *node = &play->requests[request->request];
    const aisim_request *r = aisim_sim_request(t->sim, handle);
    if (request->phase != AISIM_AGENTX_PROFILE || r == NULL ||
        !aisim_wanted(aisim_sim_observers(t->sim), AISIM_EV_EDGE)) {
        return;
    }
    aisim_map_set(&t->ids, request->slot, request->request, r->id);
    for (uint32_t i = node->in_first; i < node->in_first + node->in_edges; i++) {
        const aisim_play_edge *edge = &play->edges[i];
        uint32_t waited_for = aisim_map_get(&t->ids, request->slot, edge->source);
        if (edge->relation == AISIM_RELATION_SEQUENCE || waited_for == AISIM_NONE) {
            continue;
        }
        aisim_event event = {.type = AISIM_EV_EDGE,
                             .rank = AISIM_NONE,
                             .t_ns = aisim_sim_now(t->sim),
                             .request = r};
        event.u.edge.source_id = waited_for;
        event.u.edge.relation =
            aisim_play_relation_name((aisim_play_relation)edge->relation);
        event.u.edge.at_dispatch = edge->trigger == AISIM_TRIGGER_DISPATCH;
        aisim_emit(aisim_sim_observers(t->sim), &event);
    }
}

static void on_send(void *ctx, const aisim_agentx_request *request, uint64_t handle)
{
    aisim_agentx_traffic *t = ctx;
    uint32_t index = t->free_sent;
    if (index == AISIM_NONE) {
        index = t->sent.len;
        aisim_array_push(&t->sent, (sent){0});
    } else {
        t->free_sent = t->sent.data[index].next_free;
    }
    aisim_node prompt = prompt_of(t, request);
    aisim_submit submit = {.at_ns = aisim_sim_now(t->sim),
                           .content = prompt,
                           .prompt_tokens = (uint32_t)request->input_tokens,
                           .output_tokens = (uint32_t)request->output_tokens,
                           .client = t->client,
                           .cookie = index,
                           .pool = t->as.pool,
                           .session = session_of(t, request->slot, request->conversation),
                           .turn = turn_of(request),
                           .class_id = t->as.class_id,
                           .priority = t->as.priority,
                           .phase = request->phase == AISIM_AGENTX_PRIMER   ? AISIM_PHASE_PRIMER
                                    : request->phase == AISIM_AGENTX_WARMUP ? AISIM_PHASE_WARMUP
                                                                            : AISIM_PHASE_PROFILE};
    sent *s = &t->sent.data[index];
    s->handle = handle;
    s->play = request->play->ordinal;
    s->node = request->request;
    s->slot = request->slot;
    s->lane = request->lane;
    s->k = request->k;
    s->root_session = relative_of(t, request, request->root);
    s->parent_session = relative_of(t, request, request->parent);
    if (request->phase == AISIM_AGENTX_WARMUP) {
        aisim_map_set(&t->warmed, s->slot, 0, s->node);
    }
    aisim_error err = {0};
    if (aisim_sim_submit(t->sim, &submit, &s->request, &err) != AISIM_OK) {
        aisim_sim_abort(t->sim, &err);
    } else {
        show_edges(t, request, s->request);
    }
    aisim_content_release(aisim_sim_content(t->sim), prompt.run);
}

static void on_cancel(void *ctx, uint64_t handle)
{
    aisim_agentx_traffic *t = ctx;
    for (uint32_t i = 0; i < t->sent.len; i++) { /* once per run: the end of grace */
        if (t->sent.data[i].handle == handle && t->sent.data[i].play != AISIM_NONE) {
            aisim_sim_cancel(t->sim, t->sent.data[i].request);
            return;
        }
    }
}

static void on_terminal(void *context, aisim_sim *sim, const aisim_request *r)
{
    aisim_agentx_traffic *t = context;
    uint32_t index = (uint32_t)r->cookie;
    uint64_t handle = t->sent.data[index].handle;
    t->sent.data[index].play = AISIM_NONE;
    t->sent.data[index].next_free = t->free_sent;
    t->free_sent = index;
    aisim_terminal_status status = AISIM_TERMINAL_FAILED;
    if (r->end == AISIM_END_LENGTH || r->end == AISIM_END_CONTEXT) {
        status = AISIM_TERMINAL_COMPLETED;
    } else if (r->end == AISIM_END_CANCELLED) {
        status = AISIM_TERMINAL_CANCELLED;
    } else if (r->end == AISIM_END_REJECTED_CONTEXT) {
        status = AISIM_TERMINAL_OVERFLOW;
    }
    int64_t now = aisim_sim_now(sim);
    aisim_agentx_terminal(t->agentx, handle, now, status);
    aisim_agentx_settled(t->agentx, handle, now); /* its blocks went back before the event */
    set_timer(t);
}

static int64_t on_ideal(void *context, const aisim_request *r)
{
    aisim_agentx_traffic *t = context;
    const sent *s = &t->sent.data[r->cookie];
    if (r->phase == AISIM_PHASE_PROFILE && aisim_map_get(&t->warmed, s->slot, 0) == s->node) {
        /* 2.3: without a primer the warm-up repeats the first retained request, which is sent again
         */
        uint32_t limit = r->prompt_tokens - 1;
        return limit - limit % t->block_size;
    }
    return (int64_t)aisim_ideal_reuse_request(&t->corpus->plays[s->play],
                                              &t->sources[s->play].content, s->node, t->block_size);
}

/* Conversations of the instance; the number of a session says nothing about its parent. */
static void on_lineage(void *context, const aisim_request *r, aisim_lineage *out)
{
    const aisim_agentx_traffic *t = context;
    const sent *s = &t->sent.data[r->cookie];
    const aisim_play *play = &t->corpus->plays[s->play];
    uint32_t conversation = play->requests[s->node].conversation;
    const aisim_play_conversation *c = &play->conversations[conversation];
    *out = (aisim_lineage){s->slot, conversation, c->parent, c->root, c->lineage};
}

static void on_descent(void *context, const aisim_request *r, aisim_descent *out)
{
    const aisim_agentx_traffic *t = context;
    const sent *s = &t->sent.data[r->cookie];
    *out = (aisim_descent){.play = t->corpus->plays[s->play].id,
                          .lane = s->lane,
                          .play_ordinal = s->k,
                          .root_session = s->root_session,
                          .parent_session = s->parent_session};
}

/* ---- events ---------------------------------------------------------------------------------- */

static void on_phase(void *ctx, aisim_agentx_phase phase, int64_t now_ns)
{
    aisim_agentx_traffic *t = ctx;
    aisim_event event = {.type = AISIM_EV_PHASE, .rank = AISIM_NONE, .t_ns = now_ns};
    event.u.phase.from = aisim_agentx_phase_name(t->phase);
    event.u.phase.to = aisim_agentx_phase_name(phase);
    t->phase = phase;
    if (aisim_wanted(aisim_sim_observers(t->sim), AISIM_EV_PHASE)) {
        aisim_emit(aisim_sim_observers(t->sim), &event);
    }
}

static void show_play(aisim_agentx_traffic *t, aisim_event_type type, int64_t t_ns,
                      const aisim_agentx_play *play)
{
    static const char *const statuses[] = {"completed", "failed", "incomplete"};
    if (!aisim_wanted(aisim_sim_observers(t->sim), type)) {
        return;
    }
    aisim_event event = {.type = type, .rank = AISIM_NONE, .t_ns = t_ns};
    event.u.play.lane = play->lane;
    event.u.play.play = play->play->id;
    event.u.play.status = type == AISIM_EV_PLAY_END ? statuses[play->status] : "started";
    aisim_emit(aisim_sim_observers(t->sim), &event);
}

static void on_play_start(void *ctx, const aisim_agentx_play *play)
{
    show_play(ctx, AISIM_EV_PLAY_START, aisim_sim_now(((aisim_agentx_traffic *)ctx)->sim), play);
}

static void on_play_end(void *ctx, const aisim_agentx_play *play)
{
    aisim_agentx_traffic *t = ctx;
    show_play(t, AISIM_EV_PLAY_END, aisim_sim_now(t->sim), play);
    if (t->lanes[play->lane].play != NULL && t->lanes[play->lane].slot == play->slot) {
        instance_end(t, &t->lanes[play->lane]);
    }
    for (uint32_t i = 0; i < play->play->n_conversations; i++) {
        aisim_map_remove(&t->sessions, play->slot, i);
    }
    bool edges = aisim_wanted(aisim_sim_observers(t->sim), AISIM_EV_EDGE);
    for (uint32_t i = 0; edges && i < play->play->n_requests; i++) {
        aisim_map_remove(&t->ids, play->slot, i);
    }
}

static void on_shift(void *ctx, const aisim_agentx_shift *shift)
{
    const aisim_agentx_traffic *t = ctx;
    aisim_event event = {.type = AISIM_EV_SHIFT, .rank = AISIM_NONE, .t_ns = shift->at_ns};
    event.u.shift.lane = shift->global ? AISIM_NONE : shift->lane;
    event.u.shift.shifted_by_ns = shift->shifted_by_ns;
    if (aisim_wanted(aisim_sim_observers(t->sim), AISIM_EV_SHIFT)) {
        aisim_emit(aisim_sim_observers(t->sim), &event);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static void on_start(void *context, aisim_sim *sim)
{
    aisim_agentx_traffic *t = context;
    (void)sim;
    aisim_agentx_advance(t->agentx, 0);
    set_timer(t);
}

static void on_free(void *context)
{
    aisim_agentx_traffic *t = context;
    for (uint32_t i = 0; i < t->n_lanes; i++) {
        instance_end(t, &t->lanes[i]);
    }
    for (uint32_t i = 0; i < t->corpus->n_plays; i++) {
        source *s = &t->sources[i];
        for (uint32_t j = 0; s->built && j < s->content.n_runs; j++) {
            if (s->shared_runs[j] != AISIM_NONE) {
                aisim_content_release(aisim_sim_content(t->sim), s->shared_runs[j]);
            }
        }
        if (s->built) {
            aisim_free(s->shared_runs);
            aisim_play_content_deinit(&s->content);
        }
    }
    aisim_agentx_free(t->agentx);
    aisim_free(t->sources);
    aisim_free(t->lanes);
    aisim_array_free(&t->sent);
    aisim_map_free(&t->sessions);
    aisim_map_free(&t->warmed);
    aisim_map_free(&t->ids);
    aisim_free(t);
}

aisim_status aisim_sim_agentx(aisim_sim *sim, const aisim_corpus *corpus,
                              const aisim_agentx_config *config, const aisim_agentx_requests *as,
                              aisim_agentx_traffic **out, aisim_error *err)
{
    aisim_agentx_traffic *t = aisim_alloc_zero(1, sizeof *t);
    *t = (aisim_agentx_traffic){.sim = sim,
                                .corpus = corpus,
                                .as = *as,
                                .after_system =
                                    config->cache_identity == AISIM_IDENTITY_AFTER_SYSTEM,
                                .block_size = aisim_sim_block_size(sim, as->pool),
                                .n_lanes = config->lanes,
                                .free_sent = AISIM_NONE,
                                .timer_ns = AISIM_NEVER,
                                .phase = AISIM_AGENTX_START};
    aisim_agentx_callbacks callbacks = {.send = on_send,
                                        .cancel = on_cancel,
                                        .phase = on_phase,
                                        .play_start = on_play_start,
                                        .play_end = on_play_end,
                                        .shift = on_shift};
    aisim_status status = aisim_agentx_new(corpus, config, &callbacks, t, &t->agentx, err);
    if (status != AISIM_OK) {
        aisim_free(t);
        return status;
    }
    t->sources = aisim_alloc_zero(corpus->n_plays, sizeof *t->sources);
    t->lanes = aisim_alloc_zero(config->lanes, sizeof *t->lanes);
    aisim_client client = {.context = t,
                           .start = on_start,
                           .terminal = on_terminal,
                           .free = on_free,
                           .ideal = on_ideal,
                           .lineage = on_lineage,
                           .descent = on_descent};
    t->client = aisim_sim_client_add(sim, &client);
    *out = t;
    return AISIM_OK;
}

const aisim_agentx_report *aisim_agentx_traffic_report(aisim_agentx_traffic *traffic)
{
    return aisim_agentx_report_get(traffic->agentx);
}
