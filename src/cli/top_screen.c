/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain sequences that every terminal of the last decades knows, and no colour: the other screen, which brings what
 * stood there before back at the end; no cursor; home, and erase to the end of a line and of the screen. Signals
 * come as events, so that the terminal is always given back. Called by top.c. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/top.h"
#include "weir/limiter.h"

#define COLUMNS_USUAL 80
#define COLUMNS_MAX 400
#define ROWS_MAX 400

#define STUCK_MS 100 /* from one look to the next whether who does not read is to be waited for */

static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT }, other[] = { SIGWINCH, SIGTSTP, SIGCONT };
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

bool weir_cli_top_screen_ends(void)
{
    sigset_t pending;
    bool ends = false;
    if (sigpending(&pending) == 0)
        for (size_t i = 0; i < COUNT_OF(ending); i++)
            ends |= sigismember(&pending, ending[i]) == 1;
    return ends;
}

/* A pager may stop reading, a terminal may be held: signals are blocked, so a write that blocks would not hear them. */
static bool put(const struct weir_cli_top_screen *screen, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t written = write(screen->out, text, size);
        if (written < 0 && errno != EINTR && errno != EAGAIN)
            return false;
        if (written < 0 && weir_cli_top_screen_ends())
            return false;
        if (written < 0)
            (void)poll(&(struct pollfd){ .fd = screen->out, .events = POLLOUT }, 1, STUCK_MS);
        text += written > 0 ? written : 0;
        size -= written > 0 ? (size_t)written : 0;
    }
    return true;
}

static bool put_text(const struct weir_cli_top_screen *screen, const char *text)
{
    return put(screen, text, strlen(text));
}

/* Not standard output itself made so: others have it, too. Only what has no position can be opened anew. */
static int open_out(void)
{
    struct stat status;
    bool may_block = fstat(STDOUT_FILENO, &status) == 0 && (S_ISFIFO(status.st_mode) || isatty(STDOUT_FILENO));
    int fd = may_block ? open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    return fd >= 0 ? fd : STDOUT_FILENO;
}

static void measure(struct weir_cli_top_screen *screen)
{
    struct winsize size = { 0 };
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    screen->columns = known ? size.ws_col : COLUMNS_USUAL;
    screen->columns = screen->columns < COLUMNS_MAX ? screen->columns : COLUMNS_MAX;
    screen->rows = known ? size.ws_row : 24;
    screen->rows = screen->rows < ROWS_MAX ? screen->rows : ROWS_MAX;
}

static void take(struct weir_cli_top_screen *screen)
{
    measure(screen);
    if (!screen->live)
        return;
    screen->typed = tcgetattr(STDIN_FILENO, &screen->before) == 0;
    if (screen->typed) {
        struct termios quiet = screen->before;
        quiet.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        quiet.c_cc[VMIN] = 0;
        quiet.c_cc[VTIME] = 0;
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &quiet);
    }
    (void)put_text(screen, "\x1b[?1049h\x1b[?25l");
}

static void give_back(const struct weir_cli_top_screen *screen)
{
    if (!screen->live)
        return;
    (void)put_text(screen, "\x1b[?25h\x1b[?1049l");
    if (screen->typed)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
}

bool weir_cli_top_screen_begin(struct weir_cli_top_screen *screen, bool may_take)
{
    const char *term = getenv("TERM");
    sigset_t signals;
    *screen = (struct weir_cli_top_screen){ 0 };
    (void)sigemptyset(&signals);
    for (size_t i = 0; i < COUNT_OF(ending); i++)
        (void)sigaddset(&signals, ending[i]);
    for (size_t i = 0; i < COUNT_OF(other); i++)
        (void)sigaddset(&signals, other[i]);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN); /* who reads has gone: put() hears of it */
    screen->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (screen->signals < 0)
        return false;
    screen->out = open_out();
    screen->live = may_take && isatty(STDOUT_FILENO) && term && term[0] && strcmp(term, "dumb") != 0;
    take(screen);
    return true;
}

void weir_cli_top_screen_end(struct weir_cli_top_screen *screen)
{
    give_back(screen);
    (void)close(screen->signals);
    if (screen->out != STDOUT_FILENO)
        (void)close(screen->out);
}

bool weir_cli_top_screen_show(const struct weir_cli_top_screen *screen, const char *page)
{
    if (!screen->live)
        return put_text(screen, page) && put_text(screen, "\n");
    bool good = put_text(screen, "\x1b[H");
    while (good && *page) {
        size_t size = strcspn(page, "\n");
        good = put(screen, page, size) && put_text(screen, "\x1b[K");
        page += size + (page[size] != '\0');
        if (*page) /* behind the last line a line feed would scroll */
            good = good && put_text(screen, "\r\n");
    }
    return good && put_text(screen, "\x1b[J");
}

/* Its parent may stop us: the terminal is his meanwhile. */
static void stop(struct weir_cli_top_screen *screen)
{
    give_back(screen);
    (void)raise(SIGSTOP);
    take(screen);
}

static enum weir_cli_top_event hear(struct weir_cli_top_screen *screen)
{
    struct signalfd_siginfo info;
    if (read(screen->signals, &info, sizeof(info)) != sizeof(info))
        return WEIR_CLI_TOP_TIME;
    switch (info.ssi_signo) {
    case SIGTSTP:
        stop(screen);
        return WEIR_CLI_TOP_RESIZED;
    case SIGWINCH:
    case SIGCONT:
        measure(screen);
        return WEIR_CLI_TOP_RESIZED;
    default:
        return WEIR_CLI_TOP_END;
    }
}

static bool read_key(struct weir_cli_top_screen *screen, char *ret_key)
{
    ssize_t got = read(STDIN_FILENO, ret_key, 1);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
        screen->typed = false; /* the terminal has gone: SIGHUP follows, if anything does */
    return got == 1;
}

enum weir_cli_top_event weir_cli_top_screen_wait(struct weir_cli_top_screen *screen, uint64_t until_ns, char *ret_key)
{
    for (;;) {
        const uint64_t now_ns = weir_time_read().now_ns;
        struct pollfd fds[2] = { { .fd = screen->signals, .events = POLLIN },
                                 { .fd = screen->live && screen->typed ? STDIN_FILENO : -1, .events = POLLIN } };
        uint64_t left_ms = now_ns >= until_ns ? 0 : (until_ns - now_ns) / 1000000 + 1;
        int ready = poll(fds, 2, left_ms < 60000 ? (int)left_ms : 60000);
        if (ready > 0 && fds[0].revents) {
            enum weir_cli_top_event event = hear(screen);
            if (event != WEIR_CLI_TOP_TIME)
                return event;
        }
        if (ready > 0 && fds[1].revents && read_key(screen, ret_key))
            return WEIR_CLI_TOP_KEY;
        if (weir_time_read().now_ns >= until_ns)
            return WEIR_CLI_TOP_TIME;
    }
}
