/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain sequences that every terminal of the last decades knows, and no colour: the other screen, which brings what
 * stood there before back at the end; no cursor; home, and erase to the end of a line and of the screen. Signals
 * come as events, so that the terminal is always given back. Called by top.c. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/top.h"
#include "weir/limiter.h"

#define COLUMNS_USUAL 80
#define COLUMNS_MAX 400
#define ROWS_MAX 400

static bool put(const char *text, size_t size)
{
    while (size > 0) {
        ssize_t written = write(STDOUT_FILENO, text, size);
        if (written < 0 && errno != EINTR && errno != EAGAIN)
            return false;
        text += written > 0 ? written : 0;
        size -= written > 0 ? (size_t)written : 0;
    }
    return true;
}

static bool put_text(const char *text)
{
    return put(text, strlen(text));
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
    (void)put_text("\x1b[?1049h\x1b[?25l");
}

static void give_back(const struct weir_cli_top_screen *screen)
{
    if (!screen->live)
        return;
    (void)put_text("\x1b[?25h\x1b[?1049l");
    if (screen->typed)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
}

bool weir_cli_top_screen_begin(struct weir_cli_top_screen *screen, bool may_take)
{
    static const int heard[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT };
    const char *term = getenv("TERM");
    sigset_t signals;
    *screen = (struct weir_cli_top_screen){ 0 };
    (void)sigemptyset(&signals);
    for (size_t i = 0; i < sizeof(heard) / sizeof(heard[0]); i++)
        (void)sigaddset(&signals, heard[i]);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN); /* who reads has gone: put() hears of it */
    screen->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (screen->signals < 0)
        return false;
    screen->live = may_take && isatty(STDOUT_FILENO) && term && term[0] && strcmp(term, "dumb") != 0;
    take(screen);
    return true;
}

void weir_cli_top_screen_end(struct weir_cli_top_screen *screen)
{
    give_back(screen);
    (void)close(screen->signals);
}

bool weir_cli_top_screen_show(const struct weir_cli_top_screen *screen, const char *page)
{
    if (!screen->live)
        return put_text(page) && put_text("\n");
    bool good = put_text("\x1b[H");
    while (good && *page) {
        size_t size = strcspn(page, "\n");
        good = put(page, size) && put_text("\x1b[K");
        page += size + (page[size] != '\0');
        if (*page) /* behind the last line a line feed would scroll */
            good = good && put_text("\r\n");
    }
    return good && put_text("\x1b[J");
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
