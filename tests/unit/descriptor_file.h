/* descriptor_file.h - reads a catalogue file (lua/aisim/models, lua/aisim/hardware) without Lua.
 *
 * The catalogue is data: one `key = value,` per line. This reader takes exactly that form (numbers,
 * "texts", true, false; `aliases` is skipped), so that C tests work on the shipped figures and at
 * the same time check that the files stay plain data in the documented keys. */
#ifndef AISIM_TESTS_DESCRIPTOR_FILE_H
#define AISIM_TESTS_DESCRIPTOR_FILE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "timing/fields.h"

/* One line; false with a message in err for a key or value the table refuses. */
static inline bool descriptor_line(const aisim_field_table *table, void *object, char *line,
                                   aisim_error *err)
{
    char key[64], value[256];
    if (sscanf(line, " %63[a-z0-9_] = %255[^\n]", key, value) != 2 || strcmp(key, "aliases") == 0) {
        return true;
    }
    if (value[0] == '"') {
        char *end = strchr(value + 1, '"');
        if (end == NULL) {
            return false;
        }
        *end = '\0';
        return aisim_field_set_text(table, object, key, value + 1, err) == AISIM_OK;
    }
    double number = strncmp(value, "true", 4) == 0    ? 1
                    : strncmp(value, "false", 5) == 0 ? 0
                                                      : strtod(value, NULL);
    return aisim_field_set_number(table, object, key, number, err) == AISIM_OK;
}

/* Reads a whole file into a zero-initialised object. */
static inline bool descriptor_read(const aisim_field_table *table, void *object, const char *folder,
                                   const char *name)
{
    char path[512], line[512];
    snprintf(path, sizeof path, "%s/%s.lua", folder, name);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        printf("cannot open %s\n", path);
        return false;
    }
    bool ok = true;
    while (ok && fgets(line, sizeof line, file) != NULL) {
        aisim_error err = {0};
        ok = descriptor_line(table, object, line, &err);
        if (!ok) {
            printf("%s: %s\n", path, err.text);
        }
    }
    fclose(file);
    return ok;
}

#endif
