/* corpus_files.h - from paths to lines: expansion of folders and patterns, a bounded line reader.
 * Private to the corpus. */
#ifndef AISIM_WORKLOAD_CORPUS_FILES_H
#define AISIM_WORKLOAD_CORPUS_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "aisim/status.h"
#include "base/array.h"

typedef AISIM_ARRAY(char *) aisim_path_array;

/** Appends the files that one path stands for. @return AISIM_OK, AISIM_ENOENT, AISIM_EIO */
aisim_status aisim_expand_path(const char *path, aisim_path_array *out, aisim_error *err);

void aisim_path_array_free(aisim_path_array *paths);

/** Hands out a file line by line, or as a whole. */
typedef struct aisim_line_reader {
    gzFile file; /* plain files pass through it unchanged */
    const char *path;
    char *text; /* the current line, without its end */
    size_t size, capacity;
    int line; /* of text, from 1 */
    char *buffer;
    size_t at, filled;
} aisim_line_reader;

aisim_status aisim_line_reader_open(aisim_line_reader *reader, const char *path, aisim_error *err);

/** The next line that is not blank, without CR, LF and byte order mark; `whole` takes everything.
 *  @param found  false at the end of the file
 *  @return AISIM_OK or AISIM_EIO */
aisim_status aisim_line_reader_next(aisim_line_reader *reader, bool whole, bool *found,
                                    aisim_error *err);

void aisim_line_reader_close(aisim_line_reader *reader);

#endif
