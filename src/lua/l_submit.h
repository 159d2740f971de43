/* l_submit.h - reading a request from an option table; see l_submit.c. */
#ifndef AISIM_LUA_L_SUBMIT_H
#define AISIM_LUA_L_SUBMIT_H

#include "lua/l_common.h"

/** Fills a submission from the table at index (keys checked by the Lua side): at_ms, prompt_tokens,
 *  output_tokens, content or context, priority, pool, class, session, turn. client, cookie and
 *  phase keep what the caller set. submit->content holds one reference for the caller. */
void aisim_l_read_submit(lua_State *L, aisim_l_sim *s, int index, aisim_submit *submit);

/** Submits, gives the reference back, notes tag and deadline of the table at index (0 = none).
 *  Raises with `what` in front. @return the handle; *id is the number of the request */
aisim_handle aisim_l_submit(lua_State *L, aisim_l_sim *s, aisim_submit *submit, int index,
                            const char *what, uint32_t *id);

#endif
