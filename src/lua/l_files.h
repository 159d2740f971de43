/* l_files.h - files that a run writes or fills while it goes on; see l_files.c. */
#ifndef AISIM_LUA_L_FILES_H
#define AISIM_LUA_L_FILES_H

#include "lua/l_common.h"

/** Before the run, behind the recorder: observers of what was asked for. */
void aisim_l_files_start(aisim_l_sim *s);

/** A run has failed: what it wrote is removed. */
void aisim_l_files_discard(aisim_l_sim *s);

/** A run has ended well: its files are complete. Raises when one could not be written. */
void aisim_l_files_finish(lua_State *L, aisim_l_sim *s);

void aisim_l_files_free(aisim_l_sim *s);
void aisim_l_files_register(lua_State *L);

#endif
