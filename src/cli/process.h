/* process.h - child processes for the verbs that run many points; functions of module aisim.host.
 *
 *   spawn(argv, error_path) -> pid, or nil and a message. argv[1] is looked up in PATH; the child
 *                              reads nothing, its standard output goes nowhere, its standard error
 *                              into a new file.
 *   wait()                  -> pid, exit status (128 + signal of a killed child); nil when a signal
 *                              interrupted the wait, or without children
 *   kill(pid)               asks a child to end (SIGTERM)
 *   processors()            -> number of processors this process may use, >= 1 */
#ifndef AISIM_CLI_PROCESS_H
#define AISIM_CLI_PROCESS_H

#include <lauxlib.h>

/** For luaL_setfuncs. */
extern const luaL_Reg aisim_cli_process_functions[];

#endif
