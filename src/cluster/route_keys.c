/* route_keys.c - keys of affinity and of the hash policies (spec/routing.md §2, §3). */
#include <string.h>

#include "cluster/route_internal.h"

static const char *write_key(aisim_route *route, const char *play, const char *session,
                             const char *rest)
{
    play = play == NULL ? "" : play;
    size_t size = strlen(play) + strlen(session) + strlen(rest) + 2;
    aisim_array_reserve(&route->key, size);
    char *out = route->key.data;
    size_t n = strlen(play);
    memcpy(out, play, n);
    out[n++] = '/';
    memcpy(out + n, session, strlen(session));
    n += strlen(session);
    memcpy(out + n, rest, strlen(rest) + 1);
    return out;
}

static aisim_status no_lineage(const aisim_route_request *request, const char *what,
                               aisim_error *err)
{
    return aisim_fail(err, AISIM_EINVAL,
                      "router: %s needs the lineage of every session, and request %s has none; use "
                      "sessions that name their parent, or another key",
                      what, request->id == NULL ? "?" : request->id);
}

/* Key of affinity (§3), NULL = the request has none. */
aisim_status route_affinity_key(aisim_route *route, const aisim_route_request *request,
                                const char **out, aisim_error *err)
{
    *out = NULL;
    if (route->o.affinity == AISIM_AFFINITY_NONE) {
        return AISIM_OK;
    }
    bool sibling = route->o.affinity == AISIM_AFFINITY_SIBLING_GROUP;
    if (sibling && (request->no_lineage || request->session == NULL)) {
        return no_lineage(request, "affinity.mode = 'sibling_group'", err);
    }
    if (sibling && request->parent != NULL) {
        *out = write_key(route, request->play, request->parent, "/*");
    } else if (request->session != NULL) {
        *out = write_key(route, request->play, request->session, "");
    }
    return AISIM_OK;
}

static uint64_t prefix_key(const aisim_route *route, const aisim_route_request *request)
{
    uint64_t key = 0;
    uint32_t left = route->o.prefix_blocks;
    for (uint32_t i = 0; i < request->extents; i++) {
        for (uint32_t j = 0; j < request->path[i].count && left > 0; j++, left--) {
            key = aisim_mix64(key ^ request->path[i].run ^
                              (uint64_t)(request->path[i].first + j) << 32);
        }
    }
    return left < route->o.prefix_blocks ? key : aisim_route_text_key(request->id);
}

/* Key of the hash policies (§2). */
aisim_status route_hash_key(aisim_route *route, const aisim_route_request *request,
                            aisim_error *err)
{
    if (route->o.policy != AISIM_ROUTE_HASH && route->o.policy != AISIM_ROUTE_HASH_BOUNDED) {
        return AISIM_OK;
    }
    const char *text = NULL;
    switch (route->o.key) {
    case AISIM_KEY_PREFIX:
        route->hash_key = prefix_key(route, request);
        return AISIM_OK;
    case AISIM_KEY_USER:
        text = request->user;
        break;
    case AISIM_KEY_ROOT:
        if (request->no_lineage) {
            return no_lineage(request, "key = 'root'", err);
        }
        text = request->root != NULL ? request->root : request->session;
        break;
    case AISIM_KEY_SESSION:
        text = request->session;
        break;
    }
    if (text != NULL && route->o.key != AISIM_KEY_USER) {
        text = write_key(route, request->play, text, "");
    }
    route->hash_key = aisim_route_text_key(text != NULL ? text : request->id);
    return AISIM_OK;
}
