/* tables.h - module aisim.tables: what the rooms below know, as Lua values (tables.c). */
#ifndef AISIM_CLI_TABLES_H
#define AISIM_CLI_TABLES_H

#include <lua.h>

/** Opens the module. */
int aisim_cli_open_tables(lua_State *L);

#endif
