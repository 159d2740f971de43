/* routing_driver.c - drives one router with the events of a routing vector.
 *
 *     routing_driver < vector.json > result.json
 *
 * The result has the shape of the vector's `expect`, every step complete. Nothing is decided here:
 * the program reads, calls src/cluster/route.h in the listed order, keeps the router queue by the
 * keys the router gives, and prints. Options go through the configuration schema, as those of a
 * scenario do. An unknown key or operation is an error (exit 2). */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cluster/route.h"
#include "config/resolve_router.h"
#include "config/schema.h"

enum { MAX_REQUESTS = 64, MAX_TARGETS = 32 };

typedef struct request {
    const json_t *event;
    aisim_route_extent *path;
    uint32_t *exclude;
    aisim_route_request r;
} request;

typedef struct driver {
    aisim_route *route;
    request requests[MAX_REQUESTS];
    uint32_t n;
    uint32_t queue[MAX_REQUESTS];
    double keys[MAX_REQUESTS];
    uint32_t queued;
    bool auto_accept;
    bool refused;
    const json_t *draws;
    size_t next_draw;
    json_t *step;
} driver;

static _Noreturn void stop(const char *what, const char *name)
{
    fprintf(stderr, "routing_driver: %s '%s'\n", what, name == NULL ? "" : name);
    exit(2);
}

static const char *text_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    static char texts[64][32]; /* plays may be written as numbers */
    static uint32_t next;
    if (json_is_integer(value)) {
        char *out = texts[next++ % 64];
        snprintf(out, 32, "%lld", json_integer_value(value));
        return out;
    }
    return json_string_value(value);
}

static double number_of(const json_t *object, const char *key, double otherwise)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

/* A 64-bit block identity; those of more than 15 digits come as texts. */
static uint64_t identity(const json_t *value)
{
    return json_is_string(value) ? strtoull(json_string_value(value), NULL, 10)
                                 : (uint64_t)json_integer_value(value);
}

/* Stops at a key that is not among `known` (words with a space before and behind each). */
static void check_keys(const json_t *object, const char *known, const char *what)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        char word[64];
        snprintf(word, sizeof word, " %s ", key);
        if (strstr(known, word) == NULL) {
            stop(what, key);
        }
    }
}

static double draw(void *context)
{
    driver *d = context;
    if (d->draws == NULL || d->next_draw >= json_array_size(d->draws)) {
        return 0.0; /* a draw the vector does not know shows in draws_used */
    }
    return json_number_value(json_array_get(d->draws, d->next_draw++));
}

/* ---- configuration --------------------------------------------------------------------------- */

#define NOWHERE ((aisim_mark){NULL, 0, 0})

static aisim_value *value_of(const json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT: {
        aisim_value *map = aisim_value_map(NOWHERE);
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)(uintptr_t)json, key, value)
        {
            aisim_value_put(map, key, NOWHERE, value_of(value));
        }
        return map;
    }
    case JSON_STRING:
        return aisim_value_text(NOWHERE, json_string_value(json));
    case JSON_INTEGER:
        return aisim_value_integer(NOWHERE, json_integer_value(json));
    case JSON_REAL:
        return aisim_value_real(NOWHERE, json_real_value(json));
    case JSON_TRUE:
    case JSON_FALSE:
        return aisim_value_bool(NOWHERE, json_is_true(json));
    case JSON_ARRAY:
    case JSON_NULL:
        break;
    }
    return aisim_value_null(NOWHERE);
}

/* @return false = refused; the message is in err. */
static bool configure(driver *d, json_t *config, aisim_error *err)
{
    aisim_route_config out = {.everything = true, .context = d, .draw = draw};
    out.block_size = (uint32_t)number_of(config, "block_size", 64);
    json_t *accept = json_object_get(config, "auto_accept");
    d->auto_accept = accept == NULL || json_is_true(accept);
    json_object_del(config, "block_size");
    json_object_del(config, "auto_accept");
    aisim_value *tree = value_of(config);
    bool fine = aisim_schema_check(tree, "router", "", "router", err) == AISIM_OK &&
                aisim_config_router(tree, &out.options, err) == AISIM_OK &&
                aisim_route_new(&out, &d->route, err) == AISIM_OK;
    aisim_value_free(tree);
    return fine;
}

/* ---- requests -------------------------------------------------------------------------------- */

static uint32_t slot_of(const driver *d, const char *id)
{
    for (uint32_t i = 0; i < d->n; i++) {
        if (strcmp(d->requests[i].r.id, id) == 0) {
            return i;
        }
    }
    stop("unknown request", id);
}

static void read_request(driver *d, const json_t *event)
{
    request *q = &d->requests[d->n];
    const json_t *blocks = json_object_get(event, "blocks");
    const json_t *exclude = json_object_get(event, "exclude");
    q->event = event;
    q->path = calloc(json_array_size(blocks) + 1, sizeof *q->path);
    q->exclude = calloc(json_array_size(exclude) + 1, sizeof *q->exclude);
    for (uint32_t i = 0; i < json_array_size(blocks); i++) {
        uint64_t id = identity(json_array_get(blocks, i));
        q->path[i] = (aisim_route_extent){id, 0, 1};
    }
    for (uint32_t i = 0; i < json_array_size(exclude); i++) {
        q->exclude[i] = (uint32_t)json_integer_value(json_array_get(exclude, i));
    }
    const char *lineage = text_of(event, "lineage");
    q->r = (aisim_route_request){
        .slot = d->n++,
        .tokens = (uint32_t)number_of(event, "tokens", 0),
        .path = q->path,
        .extents = (uint32_t)json_array_size(blocks),
        .id = text_of(event, "id"),
        .play = text_of(event, "play"),
        .session = text_of(event, "session"),
        .parent = text_of(event, "parent"),
        .root = text_of(event, "root"),
        .user = text_of(event, "user"),
        .no_lineage = lineage != NULL && strcmp(lineage, "missing") == 0,
        .weight = number_of(event, "weight", 1),
        .pin = json_object_get(event, "pin") ? (uint32_t)number_of(event, "pin", 0) : AISIM_NONE,
        .exclude = q->exclude,
        .excluded = (uint32_t)json_array_size(exclude),
    };
    if (q->r.play != NULL) { /* numbers live in a small ring */
        q->r.play = strdup(q->r.play);
    }
}

static json_t *real(double x)
{
    return isnan(x) ? json_null() : json_real(x);
}

static void show_decision(driver *d, const aisim_route_decision *decision, bool pairs)
{
    static const char *const by[] = {"policy", "binding", "tentative", "pin"};
    uint32_t n = aisim_route_targets(d->route);
    json_t *costs = json_array(), *p = json_array(), *tiers = json_array();
    json_t *overlaps = json_array(), *order = json_array();
    for (uint32_t i = 0; i < n; i++) {
        json_array_append_new(costs, pairs && !isnan(decision->cost[i])
                                         ? json_pack("[f,f]", decision->cost[i], decision->cost2[i])
                                         : real(decision->cost[i]));
        json_array_append_new(p, real(decision->p[i]));
        const aisim_route_tiers *t = &decision->tiers[i];
        json_array_append_new(tiers,
                              json_pack("[i,i,i,i]", t->device, t->host, t->disk, t->shared));
        json_array_append_new(overlaps, json_integer(t->device));
    }
    for (uint32_t i = 0; i < decision->ordered; i++) {
        json_array_append_new(order, json_integer(decision->order[i]));
    }
    char key[17];
    snprintf(key, sizeof key, "%016llx", (unsigned long long)decision->key_hash);
    json_object_set_new(d->step, "costs", costs);
    json_object_set_new(d->step, "p", p);
    json_object_set_new(d->step, "tiers", tiers);
    json_object_set_new(d->step, "overlaps", overlaps);
    json_object_set_new(d->step, "order", order);
    json_object_set_new(d->step, "key_hash", json_string(key));
    json_object_set_new(d->step, "fallback", json_boolean(decision->fallback));
    json_object_set_new(d->step, "draws_used", json_integer(decision->draws));
    if (decision->target != AISIM_NONE) {
        json_object_set_new(d->step, "by", json_string(by[decision->by]));
        json_object_set_new(d->step, "chosen_overlap", json_integer(decision->overlap));
        json_object_set_new(d->step, "best_overlap", json_integer(decision->best));
        json_object_set_new(d->step, "regret", json_integer(decision->best - decision->overlap));
    }
}

/* @return the target, AISIM_NONE = stays queued or refused */
static uint32_t decide(driver *d, int64_t now_ns, uint32_t slot, aisim_route_decision *out)
{
    aisim_error err = {0};
    d->draws = json_object_get(d->requests[slot].event, "draws");
    d->next_draw = 0;
    if (aisim_route_decide(d->route, now_ns, &d->requests[slot].r, out, &err) != AISIM_OK) {
        json_object_set_new(d->step, "refused", json_string(err.text));
        d->refused = true;
        return AISIM_NONE;
    }
    if (out->target != AISIM_NONE && d->auto_accept) {
        aisim_route_accept(d->route, slot);
    }
    return out->target;
}

static void enqueue(driver *d, int64_t now_ns, uint32_t slot)
{
    double key = aisim_route_queue_key(d->route, now_ns, &d->requests[slot].r);
    uint32_t at = d->queued++;
    for (; at > 0 && d->keys[at - 1] > key; at--) {
        d->keys[at] = d->keys[at - 1];
        d->queue[at] = d->queue[at - 1];
    }
    d->keys[at] = key;
    d->queue[at] = slot;
}

static void arrive(driver *d, int64_t now_ns, const json_t *event, bool pairs)
{
    read_request(d, event);
    uint32_t slot = d->n - 1;
    uint32_t target = AISIM_NONE;
    if (d->queued == 0) { /* while the queue is not empty an arrival joins it */
        aisim_route_decision decision;
        target = decide(d, now_ns, slot, &decision);
        if (d->refused) {
            return;
        }
        show_decision(d, &decision, pairs);
    }
    json_object_set_new(d->step, "target",
                        target == AISIM_NONE ? json_null() : json_integer(target));
    if (target == AISIM_NONE) {
        enqueue(d, now_ns, slot);
    }
}

static void retry(driver *d, int64_t now_ns)
{
    json_t *routed = json_array();
    while (d->queued > 0) {
        aisim_route_decision decision;
        uint32_t slot = d->queue[0];
        uint32_t target = decide(d, now_ns, slot, &decision);
        if (target == AISIM_NONE) {
            break;
        }
        json_array_append_new(routed, json_pack("[s,i]", d->requests[slot].r.id, target));
        d->queued--;
        memmove(d->queue, d->queue + 1, d->queued * sizeof *d->queue);
        memmove(d->keys, d->keys + 1, d->queued * sizeof *d->keys);
    }
    json_object_set_new(d->step, "routed", routed);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void kv_event(driver *d, const json_t *event, aisim_route_kv kind)
{
    const char *name = text_of(event, "tier");
    if (name == NULL && kind == AISIM_ROUTE_CLEARED) { /* all that the target has */
        uint32_t cleared = (uint32_t)number_of(event, "target", 0);
        for (int t = AISIM_ROUTE_DEVICE; t <= AISIM_ROUTE_DISK; t++) {
            aisim_route_kv_event(d->route, cleared, kind, (aisim_route_tier)t,
                                 (aisim_route_extent){0, 0, 0});
        }
        return;
    }
    if (name == NULL) {
        stop("no tier in", text_of(event, "op"));
    }
    aisim_route_tier tier = strcmp(name, "device") == 0 ? AISIM_ROUTE_DEVICE
                            : strcmp(name, "host") == 0 ? AISIM_ROUTE_HOST
                            : strcmp(name, "disk") == 0 ? AISIM_ROUTE_DISK
                                                        : AISIM_ROUTE_TIERS;
    if (tier == AISIM_ROUTE_TIERS) {
        stop("unknown tier", name);
    }
    uint32_t target = (uint32_t)number_of(event, "target", 0);
    const json_t *blocks = json_object_get(event, "blocks");
    if (kind == AISIM_ROUTE_CLEARED) {
        aisim_route_kv_event(d->route, target, kind, tier, (aisim_route_extent){0, 0, 0});
    }
    for (uint32_t i = 0; i < json_array_size(blocks); i++) {
        uint64_t id = identity(json_array_get(blocks, i));
        aisim_route_kv_event(d->route, target, kind, tier, (aisim_route_extent){id, 0, 1});
    }
}

static void add_target(driver *d, const json_t *target)
{
    uint32_t i = aisim_route_target(
        d->route, (uint32_t)number_of(target, "worker", 1), (uint32_t)number_of(target, "rank", 1),
        number_of(target, "weight", 1), (uint64_t)number_of(target, "kv_total", 0));
    check_keys(target, " worker rank weight kv_total state op at_ms target ",
               "unknown key of a target");
    const char *state = text_of(target, "state");
    if (state != NULL && strcmp(state, "up") != 0) {
        aisim_route_state(d->route, i,
                          strcmp(state, "drain") == 0 ? AISIM_TARGET_DRAIN : AISIM_TARGET_DOWN);
    }
}

static void worker(driver *d, int64_t now_ns, const json_t *event)
{
    uint32_t target = (uint32_t)number_of(event, "target", 0);
    const char *state = text_of(event, "state");
    state = state == NULL ? "up" : state;
    if (target >= aisim_route_targets(d->route)) {
        add_target(d, event);
    } else {
        aisim_route_state(d->route, target,
                          strcmp(state, "up") == 0      ? AISIM_TARGET_UP
                          : strcmp(state, "drain") == 0 ? AISIM_TARGET_DRAIN
                                                        : AISIM_TARGET_DOWN);
    }
    if (strcmp(state, "up") == 0) {
        retry(d, now_ns);
    }
}

/* A request that ends while it waits at the router was never dispatched. @return whether it waited
 */
static bool leave_queue(driver *d, uint32_t slot)
{
    uint32_t at = 0;
    while (at < d->queued && d->queue[at] != slot) {
        at++;
    }
    if (at == d->queued) {
        return false;
    }
    d->queued--;
    memmove(d->queue + at, d->queue + at + 1, (d->queued - at) * sizeof *d->queue);
    memmove(d->keys + at, d->keys + at + 1, (d->queued - at) * sizeof *d->keys);
    return true;
}

static void progress(driver *d, int64_t now_ns, const json_t *event, const char *op)
{
    uint32_t slot = slot_of(d, text_of(event, "id"));
    if (strcmp(op, "accept") == 0) {
        aisim_route_accept(d->route, slot);
    } else if (strcmp(op, "refuse") == 0) {
        aisim_route_refuse(d->route, slot);
    } else if (strcmp(op, "tokens") == 0) {
        aisim_route_generated(d->route, slot, (uint32_t)number_of(event, "generated", 0));
    } else if (strcmp(op, "first_token") == 0) {
        aisim_route_first_token(d->route, slot);
        retry(d, now_ns);
    } else if (strcmp(op, "done") == 0) {
        if (!leave_queue(d, slot)) {
            aisim_route_done(d->route, slot);
        }
        retry(d, now_ns);
    } else {
        stop("unknown operation", op);
    }
}

static void handle(driver *d, const json_t *event, bool pairs)
{
    const char *op = text_of(event, "op");
    check_keys(
        event,
        " op at_ms id tokens blocks session parent root user play lineage pin exclude weight "
        "draws generated status target tier waiting running kv_used kv_total state worker rank ",
        "unknown key of an event");
    int64_t now_ns = aisim_ns_from_ms(number_of(event, "at_ms", 0));
    aisim_route_clock(d->route, now_ns);
    if (strcmp(op, "arrive") == 0) {
        arrive(d, now_ns, event, pairs);
    } else if (strcmp(op, "stored") == 0) {
        kv_event(d, event, AISIM_ROUTE_STORED);
    } else if (strcmp(op, "removed") == 0) {
        kv_event(d, event, AISIM_ROUTE_REMOVED);
    } else if (strcmp(op, "cleared") == 0) {
        kv_event(d, event, AISIM_ROUTE_CLEARED);
    } else if (strcmp(op, "shared") == 0) {
        const json_t *blocks = json_object_get(event, "blocks");
        for (uint32_t i = 0; i < json_array_size(blocks); i++) {
            uint64_t id = identity(json_array_get(blocks, i));
            aisim_route_kv_event(d->route, 0, AISIM_ROUTE_STORED, AISIM_ROUTE_SHARED,
                                 (aisim_route_extent){id, 0, 1});
        }
    } else if (strcmp(op, "telemetry") == 0) {
        aisim_route_telemetry now = {(uint32_t)number_of(event, "waiting", AISIM_NONE),
                                     (uint32_t)number_of(event, "running", AISIM_NONE), UINT64_MAX,
                                     UINT64_MAX};
        if (json_object_get(event, "kv_used") != NULL) {
            now.kv_used = (uint64_t)number_of(event, "kv_used", 0);
        }
        if (json_object_get(event, "kv_total") != NULL) {
            now.kv_total = (uint64_t)number_of(event, "kv_total", 0);
        }
        aisim_route_report(d->route, (uint32_t)number_of(event, "target", 0), &now);
    } else if (strcmp(op, "worker") == 0) {
        worker(d, now_ns, event);
    } else if (strcmp(op, "look") != 0) {
        progress(d, now_ns, event, op);
    }
}

static void show_state(driver *d)
{
    json_t *book = json_array(), *queue = json_array();
    json_t *bindings = json_object(), *leases = json_object();
    for (uint32_t i = 0; i < aisim_route_targets(d->route); i++) {
        aisim_route_book b = aisim_route_book_of(d->route, i);
        json_array_append_new(
            book, json_pack("{s:I,s:I,s:I}", "active_requests", (json_int_t)b.active_requests,
                            "active_prefill_tokens", (json_int_t)b.active_prefill_tokens,
                            "active_blocks", (json_int_t)b.active_blocks));
    }
    for (uint32_t i = 0; i < d->queued; i++) {
        json_array_append_new(queue, json_string(d->requests[d->queue[i]].r.id));
    }
    const char *key;
    uint32_t target, held;
    for (uint32_t i = 0; aisim_route_binding(d->route, i, &key, &target, &held); i++) {
        if (target != AISIM_NONE) {
            json_object_set_new(bindings, key, json_integer(target));
        }
        if (held > 0) {
            json_object_set_new(leases, key, json_integer(held));
        }
    }
    json_object_set_new(d->step, "book", book);
    json_object_set_new(d->step, "queue", queue);
    json_object_set_new(d->step, "bindings", bindings);
    json_object_set_new(d->step, "leases", leases);
}

static json_t *run_route(json_t *vector)
{
    static driver d;
    aisim_error err = {0};
    json_t *config = json_object_get(vector, "config");
    bool pairs = strcmp(text_of(config, "policy"), "shortest_queue") == 0;
    if (!configure(&d, config, &err)) {
        return json_pack("{s:s}", "refused", err.text);
    }
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(vector, "targets"), i, item)
    {
        add_target(&d, item);
    }
    json_t *steps = json_array();
    json_array_foreach(json_object_get(vector, "events"), i, item)
    {
        d.step = json_object();
        json_array_append_new(steps, d.step);
        handle(&d, item, pairs);
        if (d.refused) {
            break;
        }
        show_state(&d);
    }
    return json_pack("{s:o}", "steps", steps);
}

/* ---- rendezvous ------------------------------------------------------------------------------ */

static json_t *hex(uint64_t x)
{
    char text[17];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)x);
    return json_string(text);
}

static json_t *run_rendezvous(json_t *vector)
{
    json_t *keys = json_array(), *blocks = json_array(), *weights = json_array();
    size_t i, j;
    json_t *item, *entry;
    json_array_foreach(json_object_get(vector, "keys"), i, item)
    {
        uint64_t key = aisim_route_text_key(json_string_value(item));
        json_array_append_new(keys, hex(key));
        json_t *row = json_array();
        json_array_foreach(json_object_get(vector, "targets"), j, entry)
        {
            json_array_append_new(
                row, hex(aisim_route_rendezvous(key, (uint32_t)number_of(entry, "worker", 1),
                                                (uint32_t)number_of(entry, "rank", 1))));
        }
        json_array_append_new(weights, row);
    }
    json_array_foreach(json_object_get(vector, "blocks"), i, item)
    {
        uint64_t ids[64];
        uint32_t n = 0;
        json_array_foreach(item, j, entry)
        {
            ids[n++] = identity(entry);
        }
        json_array_append_new(blocks, hex(aisim_route_blocks_key(ids, n)));
    }
    return json_pack("{s:o,s:o,s:o}", "key_hash", keys, "block_hash", blocks, "weight", weights);
}

int main(void)
{
    json_error_t trouble;
    json_t *vector = json_loadf(stdin, 0, &trouble);
    if (vector == NULL) {
        stop("not JSON", trouble.text);
    }
    const char *kind = text_of(vector, "kind");
    json_t *out = strcmp(kind, "rendezvous") == 0 ? run_rendezvous(vector) : run_route(vector);
    json_dumpf(out, stdout, JSON_REAL_PRECISION(17));
    putchar('\n');
    return 0;
}
