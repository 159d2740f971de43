/* line.h - editing of the lines that are typed at a terminal (line.c). */
#ifndef AISIM_CLI_LINE_H
#define AISIM_CLI_LINE_H

#include <lua.h>

#ifndef AISIM_LIBEDIT
#define AISIM_LIBEDIT 0
#endif

/** Adds editor(complete) to the module table on top of the stack, if the program was built with
 *  libedit. */
void aisim_cli_add_editor(lua_State *L);

#endif
