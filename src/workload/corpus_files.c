/* corpus_files.c - the only file of the workload that touches the file system.
 *
 * Order is by bytes of the path, never by the locale or by the order of the folder (A2). */
#include "workload/corpus_files.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { READ_BYTES = 1 << 16, MAX_DEPTH = 64 };

static bool ends_with(const char *path, const char *end)
{
    size_t n = strlen(path);
    size_t k = strlen(end);
    return n > k && strcmp(path + n - k, end) == 0;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *join_path(const char *folder, const char *name)
{
    size_t n = strlen(folder);
    size_t k = strlen(name);
    bool slash = n > 0 && folder[n - 1] != '/';
    char *path = aisim_alloc(n + k + 2, 1);
    memcpy(path, folder, n);
    if (slash) {
        path[n++] = '/';
    }
    memcpy(path + n, name, k + 1);
    return path;
}

static aisim_status walk(const char *folder, int depth, aisim_path_array *out, aisim_error *err);

/* Takes over `path`. */
static aisim_status visit(char *path, int depth, aisim_path_array *out, aisim_error *err)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        aisim_status status =
            aisim_fail_at(err, AISIM_EIO, path, 0, 0, "cannot be read: %s", strerror(errno));
        aisim_free(path);
        return status;
    }
    if (S_ISREG(info.st_mode) && (ends_with(path, ".json") || ends_with(path, ".jsonl"))) {
        aisim_array_push(out, path);
        return AISIM_OK;
    }
    aisim_status status = AISIM_OK;
    if (S_ISDIR(info.st_mode)) {
        status = walk(path, depth + 1, out, err);
    }
    aisim_free(path);
    return status;
}

static aisim_status walk(const char *folder, int depth, aisim_path_array *out, aisim_error *err)
{
    if (depth > MAX_DEPTH) {
        return aisim_fail_at(err, AISIM_EIO, folder, 0, 0,
                             "folders are nested deeper than %d (a link that leads back?)",
                             MAX_DEPTH);
    }
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        return aisim_fail_at(err, AISIM_EIO, folder, 0, 0, "cannot be read: %s", strerror(errno));
    }
    aisim_status status = AISIM_OK;
    struct dirent *entry;
    while (status == AISIM_OK && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') { /* hidden files are nobody's traces */
            status = visit(join_path(folder, entry->d_name), depth, out, err);
        }
    }
    closedir(dir);
    return status;
}

static aisim_status expand_folder(const char *path, aisim_path_array *out, aisim_error *err)
{
    uint32_t before = out->len;
    aisim_status status = walk(path, 0, out, err);
    if (status == AISIM_OK && out->len == before) {
        status = aisim_fail_at(err, AISIM_ENOENT, path, 0, 0,
                               "the folder holds no .json or .jsonl file");
    }
    if (status == AISIM_OK) {
        qsort(out->data + before, out->len - before, sizeof *out->data, compare_paths);
    }
    return status;
}

static aisim_status expand_one(const char *path, aisim_path_array *out, aisim_error *err)
{
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        return expand_folder(path, out, err);
    }
    aisim_array_push(out, aisim_strdup(path));
    return AISIM_OK;
}

aisim_status aisim_expand_path(const char *path, aisim_path_array *out, aisim_error *err)
{
    struct stat info;
    if (stat(path, &info) == 0) {
        return expand_one(path, out, err);
    }
    if (strpbrk(path, "*?[") == NULL) {
        return aisim_fail_at(err, AISIM_ENOENT, path, 0, 0, "%s", strerror(errno));
    }
    glob_t found = {0};
    int rc = glob(path, GLOB_NOSORT, NULL, &found);
    aisim_status status = AISIM_OK;
    if (rc != 0) {
        status = aisim_fail_at(err, rc == GLOB_NOMATCH ? AISIM_ENOENT : AISIM_EIO, path, 0, 0,
                               rc == GLOB_NOMATCH ? "no file matches the pattern"
                                                  : "the pattern cannot be expanded");
    } else {
        qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, compare_paths);
    }
    for (size_t i = 0; status == AISIM_OK && i < found.gl_pathc; i++) {
        status = expand_one(found.gl_pathv[i], out, err);
    }
    globfree(&found);
    return status;
}

void aisim_path_array_free(aisim_path_array *paths)
{
    for (uint32_t i = 0; i < paths->len; i++) {
        aisim_free(paths->data[i]);
    }
    aisim_array_free(paths);
}

aisim_status aisim_line_reader_open(aisim_line_reader *reader, const char *path, aisim_error *err)
{
    *reader = (aisim_line_reader){.path = path};
    reader->file = gzopen(path, "rb");
    if (reader->file == NULL) {
        return aisim_fail_at(err, errno == ENOENT ? AISIM_ENOENT : AISIM_EIO, path, 0, 0,
                             "cannot be opened: %s", strerror(errno));
    }
    gzbuffer(reader->file, READ_BYTES);
    reader->buffer = aisim_alloc(READ_BYTES, 1);
    return AISIM_OK;
}

void aisim_line_reader_close(aisim_line_reader *reader)
{
    if (reader->file != NULL) {
        gzclose(reader->file);
    }
    aisim_free(reader->buffer);
    aisim_free(reader->text);
    *reader = (aisim_line_reader){0};
}

static void append(aisim_line_reader *reader, const char *bytes, size_t n)
{
    if (reader->size + n > reader->capacity) {
        size_t capacity = reader->capacity < 4096 ? 4096 : reader->capacity;
        while (capacity < reader->size + n) {
            capacity *= 2;
        }
        reader->text = aisim_realloc(reader->text, capacity, 1);
        reader->capacity = capacity;
    }
    if (n > 0) {
        memcpy(reader->text + reader->size, bytes, n);
        reader->size += n;
    }
}

/* One raw line into text. @return false when the file had ended before it */
static aisim_status read_line(aisim_line_reader *reader, bool whole, bool *any, aisim_error *err)
{
    reader->size = 0;
    *any = false;
    while (true) {
        if (reader->at == reader->filled) {
            int n = gzread(reader->file, reader->buffer, READ_BYTES);
            int problem = Z_OK;
            const char *text = n < READ_BYTES ? gzerror(reader->file, &problem) : "";
            reader->at = 0;
            reader->filled = n > 0 ? (size_t)n : 0;
            if (n < 0 || (problem != Z_OK && problem != Z_STREAM_END)) {
                return aisim_fail_at(err, AISIM_EIO, reader->path, reader->line, 0,
                                     "cannot be read: %s",
                                     problem == Z_ERRNO ? strerror(errno) : text);
            }
            if (reader->filled == 0) {
                return AISIM_OK;
            }
        }
        *any = true;
        char *from = reader->buffer + reader->at;
        size_t left = reader->filled - reader->at;
        char *end = whole ? NULL : memchr(from, '\n', left);
        size_t n = end == NULL ? left : (size_t)(end - from);
        append(reader, from, n);
        reader->at += end == NULL ? n : n + 1;
        if (end != NULL) {
            return AISIM_OK;
        }
    }
}

static bool is_blank(const aisim_line_reader *reader)
{
    for (size_t i = 0; i < reader->size; i++) {
        char c = reader->text[i];
        if (c != ' ' && c != '\t' && c != '\r' && c != '\n') {
            return false;
        }
    }
    return true;
}

aisim_status aisim_line_reader_next(aisim_line_reader *reader, bool whole, bool *found,
                                    aisim_error *err)
{
    static const char mark[] = {'\xEF', '\xBB', '\xBF'};
    while (true) {
        aisim_status status = read_line(reader, whole, found, err);
        if (status != AISIM_OK || !*found) {
            return status;
        }
        reader->line++;
        if (reader->line == 1 && reader->size >= 3 && memcmp(reader->text, mark, 3) == 0) {
            reader->size -= 3;
            memmove(reader->text, reader->text + 3, reader->size);
        }
        if (!is_blank(reader)) {
            return AISIM_OK;
        }
    }
}
