/* session_traffic.c - one client; a live session is a slot with its content and its next turn.
 *
 * A slot is waiting (a timer or the barrier has its number) or at the server (the cookie of its
 * request is its number). It holds one reference to the run of its conversation. */
#include "sim/session_traffic.h"

#include "base/clock.h"
#include "base/map.h"

typedef struct session {
    aisim_session_state state;
    aisim_turn turn;    /* to be sent, or at the server */
    aisim_node context; /* prompt and answer of the last turn */
    int64_t ideal;      /* of the request at the server */
    uint32_t number;
    uint16_t sent; /* turns under this number */
    uint32_t next_free;
} session;

typedef struct sessions {
    aisim_sim *sim;
    aisim_session_source source;
    aisim_pace pace;
    char *name;
    int32_t priority;
    uint32_t pool;
    uint16_t client, class_id;
    uint64_t created;
    AISIM_ARRAY(session) slots;
    uint32_t free_slot;
    aisim_map named; /* (path of named extents) -> most tokens of the last one sent so far */
} sessions;

/* A timer for one slot. */
typedef struct due {
    sessions *t;
    uint32_t slot;
} due;

/* ---- content --------------------------------------------------------------------------------- */

static void release(const sessions *t, aisim_node node)
{
    if (node.run != AISIM_ROOT.run) {
        aisim_content_release(aisim_sim_content(t->sim), node.run);
    }
}

/* The prompt of the next turn, with a reference, and what an endless cache would find of it. */
static aisim_node prompt_of(sessions *t, const session *s, int64_t *ideal)
{
    aisim_content *content = aisim_sim_content(t->sim);
    const aisim_turn *turn = &s->turn;
    uint32_t kept = turn->keep_tokens < s->context.tokens ? turn->keep_tokens : s->context.tokens;
    aisim_node at = aisim_content_prefix(content, s->context, kept);
    /* the last token of an answer is delivered, not computed */
    uint32_t known = kept > 0 && kept == s->context.tokens ? kept - 1 : kept;
    bool whole = kept == 0;
    uint64_t path = 0;
    if (at.run != AISIM_ROOT.run) {
        aisim_content_hold(content, at.run);
    }
    for (uint32_t i = 0; i < turn->n_extents; i++) {
        aisim_node next =
            aisim_content_append_named(content, at, turn->extents[i].name, turn->extents[i].tokens);
        path = aisim_mix64(path ^ turn->extents[i].name);
        uint32_t most = aisim_map_get(&t->named, path, kept);
        uint32_t seen = most == AISIM_NONE ? 0 : most;
        if (whole) {
            known += seen < turn->extents[i].tokens ? seen : turn->extents[i].tokens;
            whole = seen >= turn->extents[i].tokens;
        }
        if (seen < turn->extents[i].tokens) {
            aisim_map_set(&t->named, path, kept, turn->extents[i].tokens);
        }
        release(t, at);
        at = next;
    }
    aisim_node prompt = aisim_content_append_private(content, at, turn->new_tokens);
    release(t, at);
    uint32_t block = aisim_sim_block_size(t->sim, t->pool);
    known = known < prompt.tokens || known == 0 ? known : prompt.tokens - 1;
    *ideal = known - known % block;
    return prompt;
}

/* ---- turns ----------------------------------------------------------------------------------- */

static void end_session(sessions *t, uint32_t slot)
{
    session *s = &t->slots.data[slot];
    release(t, s->context);
    s->context = AISIM_ROOT;
    s->next_free = t->free_slot;
    t->free_slot = slot;
}

static void send_turn(sessions *t, uint32_t slot);

static void turn_due(void *context, aisim_sim *sim, int64_t t_ns)
{
    (void)sim, (void)t_ns;
    due d = *(due *)context;
    aisim_free(context);
    send_turn(d.t, d.slot);
}

static due *due_of(sessions *t, uint32_t slot)
{
    due *d = aisim_alloc(1, sizeof *d);
    *d = (due){t, slot};
    return d;
}

static void send_turn(sessions *t, uint32_t slot)
{
    session *s = &t->slots.data[slot];
    aisim_pace_answer answer = aisim_pace_ask(&t->pace);
    if (answer == AISIM_PACE_HOLD) {
        aisim_pace_hold(&t->pace, turn_due, due_of(t, slot), aisim_free);
        return;
    }
    if (answer == AISIM_PACE_OVER) {
        end_session(t, slot);
        return;
    }
    if (s->turn.restart) {
        s->number = aisim_sim_next_session(t->sim);
        s->sent = 0;
    }
    aisim_error err = {0};
    aisim_node prompt = prompt_of(t, s, &s->ideal);
    aisim_submit submit = {
        .at_ns = aisim_sim_now(t->sim),
        .content = prompt,
        .prompt_tokens = prompt.tokens,
        .output_tokens = s->turn.output_tokens,
        .priority = t->priority,
        .client = t->client,
        .cookie = slot,
        .pool = t->pool,
        .session = s->number,
        .turn = s->sent,
        .class_id = t->class_id,
        .phase = aisim_pace_sent(&t->pace, (uint64_t)prompt.tokens + s->turn.output_tokens)};
    s->sent++;
    if (aisim_sim_submit(t->sim, &submit, NULL, &err) != AISIM_OK) {
        aisim_pace_give_up(&t->pace, &err);
    }
    release(t, prompt);
}

/* Asks the source for the turn after the ones sent. */
static bool describe_turn(sessions *t, session *s)
{
    aisim_error err = {0};
    if (!t->source.next(t->source.context, &s->state, s->context.tokens, &s->turn, &err)) {
        aisim_pace_give_up(&t->pace, &err);
        return false;
    }
    s->state.turn++;
    return true;
}

/* The conversation goes on after an answer. */
static void next_turn(sessions *t, uint32_t slot)
{
    session *s = &t->slots.data[slot];
    if (!describe_turn(t, s)) {
        return;
    }
    int64_t wait_ns = s->turn.wait_ns;
    if (t->pace.config.think.next != NULL && !aisim_pace_think(&t->pace, &wait_ns)) {
        end_session(t, slot);
        return;
    }
    int64_t now = aisim_sim_now(t->sim);
    if (wait_ns <= 0) {
        send_turn(t, slot);
    } else if (wait_ns < t->pace.config.until_ns - now) {
        aisim_sim_timer(t->sim, now + wait_ns, AISIM_CLASS_ARRIVAL, false, turn_due,
                        due_of(t, slot));
    } else {
        end_session(t, slot);
    }
}

/* ---- client ---------------------------------------------------------------------------------- */

static bool start(void *context)
{
    sessions *t = context;
    uint32_t slot = t->free_slot;
    if (slot != AISIM_NONE) {
        t->free_slot = t->slots.data[slot].next_free;
    } else {
        slot = t->slots.len;
        aisim_array_push(&t->slots, (session){0});
    }
    session *s = &t->slots.data[slot];
    *s = (session){.number = aisim_sim_next_session(t->sim)};
    s->state.rng = aisim_session_rng(aisim_sim_seed(t->sim), t->name, ++t->created);
    if (!describe_turn(t, s)) {
        end_session(t, slot);
        return false;
    }
    send_turn(t, slot);
    return true;
}

static void on_terminal(void *context, aisim_sim *sim, const aisim_request *q)
{
    sessions *t = context;
    uint32_t slot = q->cookie;
    session *s = &t->slots.data[slot];
    aisim_pace_request_over(&t->pace, q);
    if (q->end == AISIM_END_LENGTH && !s->turn.last) {
        aisim_content_hold(aisim_sim_content(sim), q->lease.run);
        release(t, s->context);
        s->context = (aisim_node){q->lease.run, q->prompt_tokens + q->generated};
        next_turn(t, slot);
        return;
    }
    end_session(t, slot);
    aisim_pace_unit_over(&t->pace);
}

static int64_t on_ideal(void *context, const aisim_request *q)
{
    const sessions *t = context;
    return t->slots.data[q->cookie].ideal;
}

static void on_start(void *context, aisim_sim *sim)
{
    (void)sim;
    aisim_pace_begin(&((sessions *)context)->pace, true);
}

static void on_free(void *context)
{
    sessions *t = context;
    for (uint32_t i = 0; i < t->slots.len; i++) {
        release(t, t->slots.data[i].context);
    }
    aisim_pace_deinit(&t->pace);
    if (t->source.free != NULL) {
        t->source.free(t->source.context);
    }
    aisim_array_free(&t->slots);
    aisim_map_free(&t->named);
    aisim_free(t->name);
    aisim_free(t);
}

aisim_status aisim_session_traffic(aisim_sim *sim, const aisim_session_traffic_config *config,
                                   aisim_error *err)
{
    sessions *t = aisim_alloc_zero(1, sizeof *t);
    aisim_status status = aisim_pace_init(&t->pace, sim, &config->pace, true, t, start, err);
    if (status != AISIM_OK) {
        aisim_free(t);
        return status;
    }
    t->sim = sim;
    t->source = config->source;
    t->name = aisim_strdup(config->name);
    t->priority = config->priority;
    t->pool = config->pool;
    t->free_slot = AISIM_NONE;
    t->class_id = aisim_sim_class(sim, config->class_name == NULL ? "" : config->class_name);
    aisim_client client = {.context = t,
                           .start = on_start,
                           .terminal = on_terminal,
                           .free = on_free,
                           .ideal = on_ideal};
    t->client = aisim_sim_client_add(sim, &client);
    return AISIM_OK;
}
