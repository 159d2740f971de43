/* l_profile.h - calls and wall time of every hook, router and policy of a script. */
#ifndef AISIM_LUA_L_PROFILE_H
#define AISIM_LUA_L_PROFILE_H

#include <lua.h>
#include <stdint.h>

#include "base/array.h"
#include "base/profile.h"

/** What was called, as error messages say it: "hook" 'pass.end'. */
typedef struct aisim_l_profile_row {
    const char *kind, *name; /**< borrowed; name NULL = none */
    uint64_t calls;
    int64_t ns; /**< with what the call has caused meanwhile */
} aisim_l_profile_row;

typedef struct aisim_l_profile {
    aisim_profile watch; /**< parts of the engine */
    AISIM_ARRAY(aisim_l_profile_row) rows;
} aisim_l_profile;

/** A call that began at watch.since_ns = begun_ns has ended just now. O(rows). */
void aisim_l_profile_add(aisim_l_profile *profile, const char *kind, const char *name,
                         int64_t begun_ns);

void aisim_l_profile_free(aisim_l_profile *profile); /**< NULL allowed */

void aisim_l_profile_register(lua_State *L);

#endif
