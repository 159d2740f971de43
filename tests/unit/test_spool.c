/* test_spool.c - lines in another order than they came, and files that cannot be written. */
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "metrics/spool.h"

static char folder[] = "/tmp/aisim-spool-XXXXXX";
static char path[64];

/* The file as text, "" when there is none. */
static const char *content(const char *name)
{
    static char text[256];
    FILE *file = fopen(name, "rb");
    size_t n = file == NULL ? 0 : fread(text, 1, sizeof text - 1, file);
    text[n] = '\0';
    if (file != NULL) {
        fclose(file);
    }
    return text;
}

static bool exists(const char *suffix)
{
    char name[96];
    snprintf(name, sizeof name, "%s%s", path, suffix);
    return access(name, F_OK) == 0;
}

static aisim_spool *filled(aisim_spool_line lines[3])
{
    aisim_spool *spool;
    CHECK(aisim_spool_open(path, &spool, NULL) == AISIM_OK);
    lines[0] = aisim_spool_add(spool, "one\n", 4);
    lines[1] = aisim_spool_add(spool, "", 0);
    lines[2] = aisim_spool_add(spool, "three\n", 6);
    return spool;
}

static void lines_come_out_in_the_order_asked_for(void)
{
    aisim_spool_line lines[3];
    CHECK(aisim_spool_close(filled(lines), lines, 3, NULL, NULL) == AISIM_OK);
    CHECK_STR(content(path), "one\nthree\n");

    aisim_spool *spool = filled(lines);
    const aisim_spool_line turned[] = {lines[2], lines[0]};
    CHECK(!exists(".tmp") && exists(".part"));
    CHECK(aisim_spool_close(spool, turned, 2, NULL, NULL) == AISIM_OK);
    CHECK_STR(content(path), "three\none\n");

    const aisim_spool_frame frame = {"[", ",", "]"};
    CHECK(aisim_spool_close(filled(lines), lines, 3, &frame, NULL) == AISIM_OK);
    CHECK_STR(content(path), "[one\n,,three\n]");
    CHECK(aisim_spool_close(filled(lines), lines, 0, &frame, NULL) == AISIM_OK);
    CHECK_STR(content(path), "[]");
    CHECK(!exists(".part") && !exists(".tmp"));
}

static void what_is_discarded_leaves_nothing(void)
{
    aisim_spool_line lines[3];
    remove(path);
    aisim_spool_discard(filled(lines));
    aisim_spool_discard(NULL);
    CHECK(!exists("") && !exists(".part"));
}

static void a_place_that_cannot_be_written_is_named(void)
{
    aisim_spool *spool;
    aisim_error err = {0};
    CHECK(aisim_spool_open("/nowhere/x", &spool, &err) == AISIM_EIO && spool == NULL);
    CHECK_STR(err.text, "cannot write /nowhere/x.part: No such file or directory");

    aisim_spool_line lines[3];
    spool = filled(lines);
    const aisim_spool_line turned[] = {lines[2], lines[0]};
    char blocked[96]; /* a folder of the temporary name */
    snprintf(blocked, sizeof blocked, "%s.tmp", path);
    CHECK(mkdir(blocked, 0777) == 0);
    CHECK(aisim_spool_close(spool, turned, 2, NULL, &err) == AISIM_EIO);
    CHECK(strncmp(err.text, "cannot write ", 13) == 0 && !exists(".part") && !exists(""));
    rmdir(blocked);
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/file", folder);
    lines_come_out_in_the_order_asked_for();
    what_is_discarded_leaves_nothing();
    a_place_that_cannot_be_written_is_named();
    remove(path);
    rmdir(folder);
    return check_done();
}
