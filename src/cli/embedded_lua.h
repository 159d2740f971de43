/* embedded_lua.h - the Lua and data files of lua/aisim as they were when the program was built.
 *
 * The table is generated into the build tree (src/cmake/embed.cmake) and sorted by path, bytewise.
 * The chunk name of a Lua file is "@" followed by its path. Everything is constant. */
#ifndef AISIM_CLI_EMBEDDED_LUA_H
#define AISIM_CLI_EMBEDDED_LUA_H

#include <stddef.h>

typedef struct aisim_embedded_file {
    const char *module;         /**< "aisim.report.table"; NULL for a file that is not Lua */
    const char *path;           /**< "aisim/report/table.lua" */
    const unsigned char *bytes; /**< followed by a zero byte */
    size_t length;              /**< in bytes, without that zero */
} aisim_embedded_file;

extern const aisim_embedded_file aisim_embedded_files[]; /**< ends with path NULL */
extern const size_t aisim_embedded_file_count;           /**< without the last entry */

#endif
