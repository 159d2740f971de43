/* main.c - the program. Invariant: the exit status is the one aisim.cli returned; 70 if it could not
 * even return. */
#include "cli/program.h"

#include <stdio.h>

enum { EXIT_LIMIT = 3 };

int main(int argc, char **argv)
{
    lua_State *L = aisim_cli_open();
    if (L == NULL) {
        fputs("aisim: not enough memory\n", stderr);
        return EXIT_LIMIT;
    }
    int status = aisim_cli_main(L, argc, argv);
    aisim_cli_close(L);
    return status;
}
