/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of `weir top`: what a server says of itself now (top_ask.c), the page that is made of it (top_page.c), and
 * the terminal that it is shown on (top_screen.c). */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <termios.h>

#include "cli/client.h"

/* ---- asking ---- */

/* One object: `version`, `connections`, `requests`, `decisions` (by limit and verdict), and as members of these names
 * the answers of /v1/limits, nodes, top (as `refused` and `early`) and sessions/servers, or null where the server has
 * none. NULL, and `problem` says why: no server, no answer, no right. */
json_t *weir_cli_top_ask(const struct weir_client_options *client, char *problem, size_t problem_size);

/* ---- the page ---- */

struct weir_cli_top_moment {
    json_t *told;      /* NULL: nothing was told */
    char problem[400]; /* then */
    uint64_t now_ns, wall_ns;
};

struct weir_cli_top_page {
    const char *server;
    const struct weir_cli_top_moment *now, *before; /* `before` may be NULL: no rates yet */
    bool by_early;                                  /* the order of the keys */
    bool keys_work;                                 /* those of the keyboard, which are told */
    unsigned columns, rows; /* at least so many are used as there are; 0 rows: as many as it takes */
};

/* Lines of at most `columns`, each with its line feed; free() it. NULL without memory. */
char *weir_cli_top_page(const struct weir_cli_top_page *given);

/* ---- the screen ---- */

struct weir_cli_top_screen {
    bool live;  /* a page takes the place of the one before it; else they follow each other */
    bool typed; /* keys are read */
    int signals;
    int out; /* standard output; opened anew where it may block, so that who does not read stops no signal */
    struct termios before;
    unsigned columns, rows;
};

enum weir_cli_top_event { WEIR_CLI_TOP_TIME, WEIR_CLI_TOP_RESIZED, WEIR_CLI_TOP_KEY, WEIR_CLI_TOP_END };

/* Takes the terminal over, if it may, and if standard output is one that can be. False: no descriptors. */
bool weir_cli_top_screen_begin(struct weir_cli_top_screen *screen, bool may_take);
void weir_cli_top_screen_end(struct weir_cli_top_screen *screen);

/* Whether a signal that ends it has come, and was not told yet: while a server or a reader takes its time. */
bool weir_cli_top_screen_ends(void);

/* False: nobody reads any more, or it is to end while nobody reads. */
bool weir_cli_top_screen_show(const struct weir_cli_top_screen *screen, const char *page);

/* What comes first until then (CLOCK_MONOTONIC). */
enum weir_cli_top_event weir_cli_top_screen_wait(struct weir_cli_top_screen *screen, uint64_t until_ns, char *ret_key);
