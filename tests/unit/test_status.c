/* test_status.c - status codes and the error record. */
#include "aisim/status.h"
#include "check.h"

static void every_code_has_a_name_and_a_text(void)
{
#define X(name, text)                                                                              \
    CHECK_STR(aisim_status_name(AISIM_##name), #name);                                             \
    CHECK_STR(aisim_status_text(AISIM_##name), text);
    AISIM_STATUS_LIST(X)
#undef X
    CHECK_EQ(AISIM_OK, 0);
    CHECK_STR(aisim_status_name((aisim_status)-1), "?");
    CHECK_STR(aisim_status_text((aisim_status)-1), "unknown status");
}

static void the_first_error_wins(void)
{
    aisim_error err = {0};
    CHECK_EQ(aisim_fail(&err, AISIM_ERANGE, "%s = %d", "max_sequences", 0), AISIM_ERANGE);
    CHECK_EQ(aisim_fail_at(&err, AISIM_EPARSE, "x.yaml", 3, 4, "later"), AISIM_EPARSE);
    CHECK_EQ(err.code, AISIM_ERANGE);
    CHECK_EQ(err.line, 0);
    CHECK_STR(err.text, "max_sequences = 0");
    CHECK_STR(err.file, "");
}

static void a_record_is_optional(void)
{
    CHECK_EQ(aisim_fail(NULL, AISIM_EIO, "nobody listens"), AISIM_EIO);
    CHECK_EQ(aisim_fail_at(NULL, AISIM_EIO, "f", 1, 1, "nobody listens"), AISIM_EIO);
}

static const char *formatted(const char *file, int line, int column, char *out, unsigned long size)
{
    aisim_error err = {0};
    aisim_fail_at(&err, AISIM_EPARSE, file, line, column, "unknown key '%s'", "polcy");
    return aisim_error_format(&err, out, size);
}

static void unknown_parts_of_the_place_are_left_out(void)
{
    char out[256];
    CHECK_STR(formatted("x.yaml", 12, 9, out, sizeof out), "x.yaml:12:9: unknown key 'polcy'");
    CHECK_STR(formatted("x.yaml", 12, 0, out, sizeof out), "x.yaml:12: unknown key 'polcy'");
    CHECK_STR(formatted("x.yaml", 0, 0, out, sizeof out), "x.yaml: unknown key 'polcy'");
    CHECK_STR(formatted(NULL, 12, 9, out, sizeof out), "unknown key 'polcy'");
    CHECK_STR(formatted("x.yaml", 12, 9, out, 8), "x.yaml:"); /* cut, still terminated */
}

static void long_texts_are_cut_not_overrun(void)
{
    static char name[5000];
    memset(name, 'n', sizeof name - 1);
    aisim_error err = {0};
    aisim_fail_at(&err, AISIM_EIO, name, 1, 0, "%s", name);
    CHECK_EQ(strlen(err.file), sizeof err.file - 1);
    CHECK_EQ(strlen(err.text), sizeof err.text - 1);
}

int main(void)
{
    every_code_has_a_name_and_a_text();
    the_first_error_wins();
    a_record_is_optional();
    unknown_parts_of_the_place_are_left_out();
    long_texts_are_cut_not_overrun();
    return check_done();
}
