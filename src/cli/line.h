/* line.h - editing of the lines that are typed at a terminal (line.c). */
#ifndef AISIM_CLI_LINE_H
#define AISIM_CLI_LINE_H

#include <lua.h>

#ifndef AISIM_LIBEDIT
#define AISIM_LIBEDIT 0
#endif

/** Adds wait_for_input() and, if the program was built with libedit, editor(complete) to the module
 *  table on top of the stack. */
void aisim_cli_add_input(lua_State *L);

#endif
