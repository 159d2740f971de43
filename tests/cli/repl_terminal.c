/* repl_terminal.c - aisim repl at a terminal: editing, history, completion, Ctrl-C. The test sits
 * at the other end of a pseudo-terminal and waits for what a user would see; sizes and times do not
 * matter. Usage: repl_terminal PROGRAM EDITING(0|1) */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../unit/check.h"

enum { PATIENCE_MS = 10000, QUIET_MS = 150, SCREEN = 1 << 16 };

static char folder[] = "/tmp/aisim-repl-XXXXXX";
static int terminal;
static pid_t child;
static char screen[SCREEN];
static size_t shown;

/* A session of the repl on a new pseudo-terminal. */
static void start(const char *program)
{
    terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) {
        printf("SKIP no pseudo-terminal here: %s\n", strerror(errno));
        exit(77);
    }
    fflush(stdout);
    child = fork();
    if (child == 0) {
        setsid(); /* the terminal opened next is that of the session: Ctrl-C reaches it */
        int fd = open(ptsname(terminal), O_RDWR);
        for (int i = 0; i < 3; i++) {
            dup2(fd, i);
        }
        setenv("XDG_STATE_HOME", folder, 1);
        setenv("HOME", folder, 1);
        setenv("TERM", "xterm", 1);
        execl(program, program, "repl", (char *)NULL);
        _exit(127);
    }
    shown = 0;
}

/* Nobody types before the screen has come to rest: what is shown later is the answer. */
static void rest(void)
{
    struct pollfd from = {.fd = terminal, .events = POLLIN};
    while (poll(&from, 1, QUIET_MS) > 0 && read(terminal, screen, SCREEN - 1) > 0) {
    }
}

static void type(const char *text)
{
    rest();
    shown = 0;
    screen[0] = '\0';
    CHECK_EQ(write(terminal, text, strlen(text)), strlen(text));
}

/* Waits until the text is on the screen. */
static bool see(const char *text)
{
    struct pollfd from = {.fd = terminal, .events = POLLIN};
    while (strstr(screen, text) == NULL) {
        if (shown + 1 >= SCREEN || poll(&from, 1, PATIENCE_MS) <= 0) {
            return false;
        }
        ssize_t n = read(terminal, screen + shown, SCREEN - 1 - shown);
        if (n <= 0) {
            return false;
        }
        shown += (size_t)n;
        screen[shown] = '\0';
    }
    return true;
}

static int leave(void)
{
    int status = -1;
    type("\004");
    see("never");         /* reads until the other side is closed */
    kill(child, SIGKILL); /* if it is not */
    waitpid(child, &status, 0);
    close(terminal);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void with_editing(const char *program)
{
    start(program);
    CHECK(see("> "));
    type("1 + 41\n");
    CHECK(see("\n42\r\n> "));
    type("\033[A\n"); /* the line before */
    CHECK(see("\n42\r\n> "));
    type("7\0332\033[D1\n"); /* cursor keys move, the text goes in between */
    CHECK(see("\r\n> "));
    type("'\xc3\xa4' .. #'\xc3\xa4'\n"); /* bytes arrive as they were typed */
    CHECK(see("\n\xc3\xa4"
              "2\r\n> "));
    type("aisim.kv_c\t\n"); /* one candidate: it goes in */
    CHECK(see("function: "));
    CHECK(see("> "));
    type("aisim.s\t\t"); /* several: they are shown */
    CHECK(see("scenario"));
    CHECK(see("synthetic_session"));
    type("\003"); /* drops the line */
    CHECK(see("> "));
    type("for i = 1, 2 do\n");
    CHECK(see(">> "));
    type("\003");
    CHECK(see("\r\n> "));
    type("print 'on' while true do end\n");
    CHECK(see("\non\r\n"));
    type("\003"); /* ends what runs, not the session */
    CHECK(see("interrupted"));
    CHECK(see("> "));
    CHECK_EQ(leave(), 0);

    char path[128];
    struct stat file;
    snprintf(path, sizeof path, "%s/aisim/repl_history", folder);
    CHECK(stat(path, &file) == 0 && file.st_size > 0);
    CHECK_EQ(file.st_mode & 077, 0); /* nobody else's business */
    start(program);
    CHECK(see("> "));
    type("\033[A");
    CHECK(see("while true do end"));
    type("\003");
    CHECK(see("> "));
    CHECK_EQ(leave(), 0);
    unlink(path);
    snprintf(path, sizeof path, "%s/aisim", folder);
    rmdir(path);
}

static void without_editing(const char *program)
{
    start(program);
    CHECK(see("> "));
    type("1 + 41\n");
    CHECK(see("\n42\r\n> "));
    type("print 'on' while true do end\n");
    CHECK(see("\non\r\n"));
    type("\003");
    CHECK(see("interrupted"));
    CHECK(see("> "));
    CHECK_EQ(leave(), 0);
}

int main(int argc, char **argv)
{
    if (argc != 3 || mkdtemp(folder) == NULL) {
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    (argv[2][0] == '1' ? with_editing : without_editing)(argv[1]);
    rmdir(folder);
    return check_done();
}
