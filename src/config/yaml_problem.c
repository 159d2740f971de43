/* yaml_problem.c - a table from the library's words to ours, and the places of its errors. */
#include "config/yaml_problem.h"

#include <string.h>

/* The yaml library speaks of tokens and contexts; these are the same facts for who wrote the file.
 */
static const struct {
    const char *theirs, *ours;
} problems[] = {
    {"mapping values are not allowed in this context",
     "':' is not allowed here; check the indentation of this line and the one before, or quote the "
     "text"},
    {"did not find expected key", "a key was expected here; check the indentation"},
    {"did not find expected '-' indicator", "a list entry '- …' was expected here; check the "
                                            "indentation"},
    {"could not find expected ':'", "':' expected after a key (in the line before?)"},
    {"did not find expected ',' or '}'", "',' or '}' expected in this {…}"},
    {"did not find expected ',' or ']'", "',' or ']' expected in this […]"},
    {"did not find expected node content", "a value was expected here"},
    {"block sequence entries are not allowed in this context",
     "'- ' is not allowed here; put the list on its own lines below the key"},
    {"found unexpected end of stream", "the text ends inside a quoted string"},
    {"did not find expected <document start>", "the value ends before this; one value per file "
                                               "expected"},
};

/* Whether the line (from 0) is indented with a tab. */
static bool tab_indents(const char *text, size_t length, size_t line)
{
    size_t at = 0;
    for (size_t i = 0; i < line && at < length; i++) {
        const char *end = memchr(text + at, '\n', length - at);
        at = end == NULL ? length : (size_t)(end - text) + 1;
    }
    while (at < length && text[at] == ' ') {
        at++;
    }
    return at < length && text[at] == '\t';
}

static aisim_mark mark_at(aisim_mark source, size_t line, size_t column)
{
    if (source.line != 0) {
        source.line = (int)line + 1;
        source.column = (int)column + 1;
    }
    return source;
}

/* Errors of the decoder come with a byte offset only. */
static aisim_mark mark_of_offset(aisim_mark source, const char *text, size_t length, size_t offset)
{
    size_t line = 0, column = 0;
    for (size_t i = 0; i < offset && i < length; i++) {
        column = text[i] == '\n' ? 0 : column + 1;
        line += text[i] == '\n';
    }
    return mark_at(source, line, column);
}

aisim_status aisim_yaml_problem(const yaml_parser_t *parser, const char *text, size_t length,
                                aisim_mark source, aisim_error *err)
{
    const char *problem = parser->problem == NULL ? "unreadable" : parser->problem;
    if (parser->error == YAML_READER_ERROR) {
        aisim_mark mark = mark_of_offset(source, text, length, parser->problem_offset);
        return aisim_fail_mark(err, mark, AISIM_EPARSE, "not valid UTF-8 text (%s)", problem);
    }
    if (parser->error == YAML_MEMORY_ERROR) {
        return aisim_fail_mark(err, source, AISIM_ENOMEM, "out of memory");
    }
    aisim_mark mark = mark_at(source, parser->problem_mark.line, parser->problem_mark.column);
    if (source.line != 0 && tab_indents(text, length, parser->problem_mark.line)) {
        return aisim_fail_mark(err, mark, AISIM_EPARSE, "tab in the indentation; use spaces");
    }
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        if (strcmp(problems[i].theirs, problem) == 0) {
            problem = problems[i].ours;
        }
    }
    return aisim_fail_mark(err, mark, AISIM_EPARSE, "malformed YAML: %s", problem);
}
