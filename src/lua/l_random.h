/* l_random.h - streams, distributions and arrival processes as Lua objects; see the .c files.
 *
 * The draw functions may call Lua (distributions and arrivals written as functions) and may raise:
 * call them only from protected code. Indices are stack positions of the userdata. */
#ifndef AISIM_LUA_L_RANDOM_H
#define AISIM_LUA_L_RANDOM_H

#include "base/rng.h"
#include "lua/l_common.h"
#include "workload/arrivals.h"

#define AISIM_L_RNG "aisim.Rng"
#define AISIM_L_DIST "aisim.Dist"
#define AISIM_L_ARRIVALS "aisim.Arrivals"

/** Pushes the stream (seed of the simulation, name); the same object for the same name. */
void aisim_l_push_stream(lua_State *L, aisim_l_sim *s, const char *name);

/** Pushes a fresh stream object of (seed, name), not shared. */
void aisim_l_push_new_stream(lua_State *L, uint64_t seed, const char *name);

/** Draws from the distribution (or plain number) at `dist` with the stream at `rng`. Finite. */
double aisim_l_draw(lua_State *L, int dist, int rng);

/** The distribution at an index if its draws need no Lua, else NULL; valid while the object is. */
const void *aisim_l_plain_dist(lua_State *L, int index);
/** The same draw as aisim_l_draw. Not checked: may be infinite. */
double aisim_l_draw_plain(const void *dist, aisim_rng *rng);
/** Every draw gives the same and leaves its stream as it is: a plain number, a constant. */
bool aisim_l_dist_is_constant(lua_State *L, int dist);

/** Draws a count: rounded to the nearest whole number, at least `least`, at most 2^31 - 1; raises
 *  for draws below 0. */
uint32_t aisim_l_draw_count(lua_State *L, int dist, int rng, uint32_t least, const char *what);

/** The next arrival of the process at `arrivals` (ns since its start, never before the last one).
 *  @return false when there are no more */
bool aisim_l_next_arrival(lua_State *L, int arrivals, int rng, aisim_arrival_cursor *cursor);

#endif
