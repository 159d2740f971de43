/* l_hook_names.h - the hooks of spec/lua-api.md §6: names, price, arguments.
 *
 * One table serves registration, argument lists, batches, `aisim list hooks` and the check of
 * lua/aisim/meta.lua. */
#ifndef AISIM_LUA_L_HOOK_NAMES_H
#define AISIM_LUA_L_HOOK_NAMES_H

#include "aisim/events.h"

enum { AISIM_L_HOOK_ARGS = 6 };

typedef enum {
    AISIM_L_VIEW_NONE,
    AISIM_L_VIEW_SIM,
    AISIM_L_VIEW_REQUEST,
    AISIM_L_VIEW_PASS
} aisim_l_view_kind;

/** run.tick is a timer, not an event. */
#define AISIM_L_TICK (-2)

typedef struct aisim_l_hook_info {
    const char *name;
    const char *price; /**< "run", "request", "pass", "token" */
    int type;          /**< aisim_event_type or AISIM_L_TICK */
    aisim_l_view_kind view;
    const char *args[AISIM_L_HOOK_ARGS + 1]; /**< scalars, NULL-terminated */
} aisim_l_hook_info;

extern const aisim_l_hook_info aisim_l_hook_infos[];
extern const unsigned aisim_l_hook_count;

/** A scalar on its way to Lua or into a batch column. */
typedef struct aisim_l_scalar {
    enum { AISIM_L_NIL, AISIM_L_INTEGER, AISIM_L_FLOAT, AISIM_L_TEXT } kind;
    union {
        int64_t i;
        double n;
        const char *s;
    } u;
} aisim_l_scalar;

/** Fills the scalars of an event. @param reason  text of a rejection by the admission or NULL
 *  @return their number */
int aisim_l_hook_scalars(const aisim_event *event, const char *reason,
                         aisim_l_scalar out[AISIM_L_HOOK_ARGS]);

#endif
