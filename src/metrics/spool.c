/* spool.c - append, then copy in order. */
#include "metrics/spool.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "base/array.h"

struct aisim_spool {
    char *path, *part, *temporary;
    FILE *file;
    uint64_t written;
    int error; /* errno of the first failure, 0 = none */
};

static char *with_suffix(const char *path, const char *suffix)
{
    size_t size = strlen(path) + strlen(suffix) + 1;
    char *out = aisim_alloc(size, 1);
    snprintf(out, size, "%s%s", path, suffix);
    return out;
}

static void free_spool(aisim_spool *spool)
{
    aisim_free(spool->path);
    aisim_free(spool->part);
    aisim_free(spool->temporary);
    aisim_free(spool);
}

aisim_status aisim_spool_open(const char *path, aisim_spool **out, aisim_error *err)
{
    aisim_spool *spool = aisim_alloc_zero(1, sizeof *spool);
    *out = NULL;
    spool->path = aisim_strdup(path);
    spool->part = with_suffix(path, ".part");
    spool->temporary = with_suffix(path, ".tmp");
    spool->file = fopen(spool->part, "w+b");
    if (spool->file == NULL) {
        aisim_status status =
            aisim_fail(err, AISIM_EIO, "cannot write %s: %s", spool->part, strerror(errno));
        free_spool(spool);
        return status;
    }
    *out = spool;
    return AISIM_OK;
}

aisim_spool_line aisim_spool_add(aisim_spool *spool, const char *bytes, uint32_t size)
{
    aisim_spool_line line = {spool->written, size};
    if (spool->error == 0 && fwrite(bytes, 1, size, spool->file) < size) {
        spool->error = errno == 0 ? EIO : errno;
    }
    spool->written += size;
    return line;
}

static bool in_order(const aisim_spool_line *lines, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        if (lines[i].offset < lines[i - 1].offset) {
            return false;
        }
    }
    return true;
}

static bool put(FILE *target, const char *text)
{
    return text == NULL || fputs(text, target) >= 0;
}

/* Copies the lines in their order. @return false after a failure, errno set. */
static bool copy_lines(aisim_spool *spool, const aisim_spool_line *lines, uint32_t n,
                       const char *between, FILE *target)
{
    AISIM_ARRAY(char) line = {0};
    uint64_t position = UINT64_MAX;
    bool ok = fflush(spool->file) == 0;
    for (uint32_t i = 0; ok && i < n; i++) {
        const aisim_spool_line *entry = &lines[i];
        aisim_array_reserve(&line, entry->length);
        if (entry->offset != position) {
            ok = fseeko(spool->file, (off_t)entry->offset, SEEK_SET) == 0;
        }
        ok = ok && (i == 0 || put(target, between)) &&
             fread(line.data, 1, entry->length, spool->file) == entry->length &&
             fwrite(line.data, 1, entry->length, target) == entry->length;
        position = entry->offset + entry->length;
    }
    aisim_array_free(&line);
    return ok;
}

/* Writes the final file. @return 0 or an errno. */
static int write_ordered(aisim_spool *spool, const aisim_spool_line *lines, uint32_t n,
                         const aisim_spool_frame *frame)
{
    FILE *target = fopen(spool->temporary, "wb");
    if (target == NULL) {
        return errno;
    }
    errno = 0;
    bool ok = put(target, frame->head) && copy_lines(spool, lines, n, frame->between, target) &&
              put(target, frame->tail);
    ok = fclose(target) == 0 && ok;
    int error = ok ? 0 : errno == 0 ? EIO : errno;
    if (error == 0 && rename(spool->temporary, spool->path) != 0) {
        error = errno;
    }
    if (error != 0) {
        remove(spool->temporary);
    }
    return error;
}

aisim_status aisim_spool_close(aisim_spool *spool, const aisim_spool_line *lines, uint32_t n,
                               const aisim_spool_frame *frame, aisim_error *err)
{
    static const aisim_spool_frame nothing = {0};
    int error = spool->error;
    bool ready = frame == NULL && in_order(lines, n);
    if (error == 0 && !ready) {
        error = write_ordered(spool, lines, n, frame != NULL ? frame : &nothing);
    }
    if (fclose(spool->file) != 0 && error == 0) {
        error = errno;
    }
    if (error == 0 && ready && rename(spool->part, spool->path) != 0) {
        error = errno;
    }
    if (error != 0 || !ready) {
        remove(spool->part);
    }
    aisim_status status = AISIM_OK;
    if (error != 0) {
        status = aisim_fail(err, AISIM_EIO, "cannot write %s: %s", spool->path, strerror(error));
    }
    free_spool(spool);
    return status;
}

void aisim_spool_discard(aisim_spool *spool)
{
    if (spool != NULL) {
        fclose(spool->file);
        remove(spool->part);
        free_spool(spool);
    }
}
