/* program.h - what the files of the program share: opening a state, signals, the module aisim.host. */
#ifndef AISIM_CLI_PROGRAM_H
#define AISIM_CLI_PROGRAM_H

#include <lua.h>
#include <stdbool.h>

#include "lua/l_limits.h"

/** A state with the standard libraries, the embedded library (aisim.*) and the binding. Signals are
 *  taken until it is closed. @return NULL = not enough memory */
lua_State *aisim_cli_open(void);

/** Runs the program in a state: require "aisim.cli"(arguments). argv[0] is the program.
 *  @return exit status; what went wrong has been said on standard error */
int aisim_cli_main(lua_State *L, int argc, char **argv);

/** Closes the state; finalizers of scripts are calls with a time limit as well. */
void aisim_cli_close(lua_State *L);

/** lua_CFunction: opens aisim.host. */
int aisim_cli_open_host(lua_State *L);

/* ---- signals.c ------------------------------------------------------------------------------- */

/** Catches SIGINT and SIGTERM for the scripts of one state, and no longer. */
void aisim_cli_signals_begin(aisim_l_limits *limits);
void aisim_cli_signals_end(void);

/** Starts the timer of the watchdog; 0 stops it. @return false if the system has none */
bool aisim_cli_watch(double timeout_s);

/** Number of the signal that asked to stop, 0 = none. The engine polls the address. */
volatile int *aisim_cli_interrupt(void);

/** A run that looks at that number begins or has ended. */
void aisim_cli_polling(bool on);

#endif
