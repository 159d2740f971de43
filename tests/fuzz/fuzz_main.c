/* fuzz_main.c - runs a fuzz target over the files of corpus folders (or single files), for
 * compilers without a fuzzing engine: fuzz_yaml FOLDER... Each target is a program of its own;
 * with clang, build the target alone with -fsanitize=fuzzer instead. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int files;

/* The whole file and every prefix of it: cut files are the commonest malformed ones. */
static void run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return;
    }
    static char buffer[1 << 16];
    size_t size = fread(buffer, 1, sizeof buffer, file);
    fclose(file);
    files++;
    for (size_t n = 0; n <= size; n++) {
        uint8_t *copy = malloc(n == 0 ? 1 : n); /* exact size, so that a sanitizer sees the edge */
        if (copy == NULL) {
            exit(3);
        }
        memcpy(copy, buffer, n);
        LLVMFuzzerTestOneInput(copy, n);
        free(copy);
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (folder == NULL) {
            run_file(argv[i]);
            continue;
        }
        struct dirent *entry;
        while ((entry = readdir(folder)) != NULL) {
            char path[4096];
            if (entry->d_name[0] != '.') {
                snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
                run_file(path);
            }
        }
        closedir(folder);
    }
    printf("%d passed, %d failed\n", files, files == 0 ? 1 : 0);
    return files == 0 ? 1 : 0;
}
