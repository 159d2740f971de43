/* signals.c - SIGINT, SIGTERM, and the watchdog over calls into scripts.
 *
 * The first signal only sets a number, which the engine polls: a run ends cleanly. While no run is
 * polling, and at the second signal in any case, script code is made to raise instead
 * (lua/l_limits.h); a third signal kills.
 *
 * The watchdog is a periodic timer. It counts how long the innermost call into a script has been
 * going on: nothing runs in the script for that. The time is that of the processor, so that a busy
 * machine kills no innocent run. What cannot be stopped by raising, because no
 * instruction of the script runs (a C function) or none may raise (a finalizer), ends the program. */
#include "cli/program.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_LIMIT = 3 };

/* What the handlers touch. */
static volatile int interrupt_signal;
static volatile sig_atomic_t polling;
static aisim_l_limits *volatile watched;

static timer_t timer;
static bool has_timer;

/* ---- interrupts ------------------------------------------------------------------------------ */

static void on_interrupt(int number)
{
    bool second = interrupt_signal != 0;
    interrupt_signal = number;
    if ((second || !polling) && watched != NULL) {
        aisim_l_limits_trip(watched, AISIM_L_LIMIT_INTERRUPT);
    }
    if (second) {
        signal(number, SIG_DFL);
    }
}

volatile int *aisim_cli_interrupt(void)
{
    return &interrupt_signal;
}

void aisim_cli_polling(bool on)
{
    polling = on;
}

/* ---- the watchdog ---------------------------------------------------------------------------- */

static void put(char *out, size_t size, const char *text)
{
    size_t used = strlen(out);
    for (; *text != '\0' && used + 1 < size; used++, text++) {
        out[used] = *text;
        out[used + 1] = '\0';
    }
}

static const aisim_l_frame *hopeless;

/* Says which call it was and ends the program. */
static _Noreturn void give_up(int number)
{
    (void)number;
    char text[600] = "";
    const char *place = watched->place;
    put(text, sizeof text, *place != '\0' ? place : "aisim: ");
    put(text, sizeof text, hopeless->kind);
    if (hopeless->name != NULL) {
        put(text, sizeof text, " '");
        put(text, 300, hopeless->name);
        put(text, sizeof text, "'");
    }
    put(text, sizeof text,
        " took twice its time (--hook-timeout) and cannot be stopped: it is in a C function (a "
        "pattern match?), a finalizer or a message handler\n");
    if (write(STDERR_FILENO, text, strlen(text)) < 0) {
        _exit(EXIT_LIMIT); /* nobody listens: the same end */
    }
    _exit(EXIT_LIMIT);
}

static void on_tick(int number)
{
    (void)number;
    if (watched == NULL) {
        return;
    }
    int saved = errno;
    hopeless = aisim_l_limits_tick(watched);
    if (hopeless != NULL) {
        /* The stack of calls may be read in the middle of a change: then without the place. */
        signal(SIGSEGV, give_up);
        aisim_l_limits_note_place(watched);
        give_up(0);
    }
    errno = saved;
}

bool aisim_cli_watch(double timeout_s)
{
    if (has_timer) {
        timer_delete(timer);
        has_timer = false;
    }
    if (!(timeout_s > 0)) {
        return true;
    }
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    if (timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer) != 0) {
        return false;
    }
    has_timer = true;
    int64_t period_ns = (int64_t)(timeout_s * 1e9) / AISIM_L_TICKS;
    period_ns = period_ns < 1000000 ? 1000000 : period_ns;
    struct timespec period = {(time_t)(period_ns / 1000000000), (long)(period_ns % 1000000000)};
    struct itimerspec spec = {.it_interval = period, .it_value = period};
    return timer_settime(timer, 0, &spec, NULL) == 0;
}

/* ---- begin and end --------------------------------------------------------------------------- */

void aisim_cli_signals_begin(aisim_l_limits *limits)
{
    interrupt_signal = 0;
    polling = 0;
    watched = limits;
    struct sigaction action = {.sa_handler = on_interrupt};
    static const int numbers[] = {SIGINT, SIGTERM};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction inherited;
        sigaction(numbers[i], NULL, &inherited);
        if (inherited.sa_handler != SIG_IGN) { /* a background job of a shell stays deaf */
            sigaction(numbers[i], &action, NULL);
        }
    }
}

void aisim_cli_signals_end(void)
{
    watched = NULL;
    aisim_cli_watch(0);
}
