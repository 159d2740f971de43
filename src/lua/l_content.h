/* l_content.h - contexts and the content of requests; see l_content.c. */
#ifndef AISIM_LUA_L_CONTENT_H
#define AISIM_LUA_L_CONTENT_H

#include "lua/l_common.h"

#define AISIM_L_CONTEXT "aisim.Context"

/** Reads a number of tokens (rounded); raises with `what`. */
uint32_t aisim_l_check_tokens(lua_State *L, int arg, const char *what);

/** The prompt that the value at index describes (nil, extents, ids, context), filled up with
 *  private tokens to *prompt_tokens if `given`; otherwise *prompt_tokens becomes its length.
 *  @return a node with one reference for the caller. Raises, then without having made one. */
aisim_node aisim_l_make_content(lua_State *L, aisim_l_sim *s, int index, uint32_t *prompt_tokens,
                                bool given);
void aisim_l_content_release(aisim_l_sim *s, aisim_node node);

/** Pushes an empty context. */
void aisim_l_push_context(lua_State *L, aisim_l_sim *s);
aisim_node aisim_l_context_node(lua_State *L, int index); /**< borrowed */

/** Appends an answer to a context: asked is the prompt that was sent, answered prompt + answer. */
void aisim_l_context_answer(lua_State *L, int index, aisim_node asked, aisim_node answered);

#endif
