/* l_profile.c - see l_profile.h. Figures are wall time: they go to the screen and to wall.json. */
#include "lua/l_profile.h"

#include <string.h>

#include "base/alloc.h"
#include "lua/l_common.h"

static bool same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

void aisim_l_profile_add(aisim_l_profile *profile, const char *kind, const char *name,
                         int64_t begun_ns)
{
    uint32_t i = 0;
    while (i < profile->rows.len && !(same(profile->rows.data[i].kind, kind) &&
                                      same(profile->rows.data[i].name, name))) {
        i++;
    }
    if (i == profile->rows.len) {
        aisim_array_push(&profile->rows, (aisim_l_profile_row){kind, name, 0, 0});
    }
    profile->rows.data[i].calls++;
    profile->rows.data[i].ns += profile->watch.since_ns - begun_ns;
}

void aisim_l_profile_free(aisim_l_profile *profile)
{
    if (profile != NULL) {
        aisim_array_free(&profile->rows);
        aisim_free(profile);
    }
}

/* core sim:profile_(): measure the run that follows */
static int sim_profile(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_sim(L, 1);
    if (s->profile == NULL && s->state == AISIM_L_NEW) {
        s->profile = aisim_alloc_zero(1, sizeof *s->profile);
        aisim_sim_profile(s->sim, &s->profile->watch);
    }
    return 0;
}

static void push_row(lua_State *L, const char *kind, const char *name, uint64_t calls, int64_t ns)
{
    lua_createtable(L, 0, 4);
    lua_pushstring(L, kind);
    lua_setfield(L, -2, "kind");
    lua_pushstring(L, name);
    lua_setfield(L, -2, "name");
    lua_pushinteger(L, (lua_Integer)calls);
    lua_setfield(L, -2, "calls");
    lua_pushinteger(L, (lua_Integer)ns);
    lua_setfield(L, -2, "ns");
}

/* core sim:profile_rows_() -> list of {kind = "part", name = "sched", calls, ns}, then of the
 * script's calls; nil without a profile */
static int sim_profile_rows(lua_State *L)
{
    const aisim_l_sim *s = aisim_l_check_sim(L, 1);
    const aisim_l_profile *profile = s->profile;
    if (profile == NULL) {
        return 0;
    }
    lua_newtable(L);
    lua_Integer n = 0;
    for (int part = 0; part < AISIM_PART_COUNT; part++) {
        push_row(L, "part", aisim_part_text((aisim_part)part), profile->watch.calls[part],
                 profile->watch.ns[part]);
        lua_rawseti(L, -2, ++n);
    }
    for (uint32_t i = 0; i < profile->rows.len; i++) {
        const aisim_l_profile_row *row = &profile->rows.data[i];
        push_row(L, row->kind, row->name, row->calls, row->ns);
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

void aisim_l_profile_register(lua_State *L)
{
    aisim_l_extend(L, "aisim.Sim",
                   (const luaL_Reg[]){{"profile_", sim_profile},
                                      {"profile_rows_", sim_profile_rows},
                                      {NULL, NULL}});
}
