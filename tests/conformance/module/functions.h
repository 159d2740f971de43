/* functions.h - what the files of the module show each other. */
#ifndef AISIM_FUNCTIONS_H
#define AISIM_FUNCTIONS_H

#include <lua.h>

int functions_rates_from_mean(lua_State *L);
int functions_resolved_rates(lua_State *L);

#endif
