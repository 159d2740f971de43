/* l_plays.h - recorded agent runs as Lua objects; see l_plays.c. */
#ifndef AISIM_LUA_L_PLAYS_H
#define AISIM_LUA_L_PLAYS_H

#include "lua/l_common.h"
#include "workload/corpus.h"

#define AISIM_L_PLAYS "aisim.Plays"

/** A corpus shared by its Lua objects and the simulations that replay it. */
typedef struct aisim_l_corpus {
    aisim_corpus *corpus;
    struct aisim_l_corpus *base; /**< a selection borrows the plays of its base; NULL = owns them */
    uint32_t references;
} aisim_l_corpus;

/** Pushes an object without corpus, which the caller sets. */
aisim_l_corpus *aisim_l_push_plays(lua_State *L);
aisim_l_corpus *aisim_l_check_plays(lua_State *L, int index);
void aisim_l_corpus_hold(aisim_l_corpus *corpus);
void aisim_l_corpus_release(aisim_l_corpus *corpus); /**< NULL allowed */

/** Functions of l_plays_make.c into the table on top. */
void aisim_l_plays_make_register(lua_State *L);
void aisim_l_plays_build_register(lua_State *L); /**< of l_plays_build.c */

#endif
