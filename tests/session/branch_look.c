/* SPDX-License-Identifier: Apache-2.0
 *
 * One look at a branch table (sessions/branch_table.h), for tests: what was shown is believed as it is given.
 * `branch_look CONNINFO TABLE TIMELINE STARTED primary|standby` prints "ok TIMELINE:RUN,RUN …", or the fault. */
#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sessions/branch_table.h"
#include "weir/error.h"
#include "weir/limit.h"

#define DEADLINE_NS (60 * WEIR_NS_PER_SECOND)

static void print(const struct weir_branches *branches)
{
    printf("ok");
    for (unsigned i = 0; i < branches->count; i++) {
        printf(" %" PRIu32 ":", branches->rows[i].timeline);
        for (unsigned k = 0; k < branches->rows[i].count; k++)
            printf("%s%" PRIu64, k ? "," : "", branches->rows[i].runs[k]);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    static struct weir_branches branches;
    struct pg_conn *conn = NULL;
    char fault[WEIR_ASK_TEXT_SIZE] = "";
    if (argc != 6)
        return 2;
    const struct weir_shown shown = { .timeline = (uint32_t)strtoul(argv[3], NULL, 10),
                                      .started = strtoull(argv[4], NULL, 10),
                                      .primary = strcmp(argv[5], "primary") == 0 };
    int error = weir_ask_connect(argv[1], NULL, weir_ask_now_ns() + DEADLINE_NS, &conn, fault);
    if (!error)
        error = weir_branch_table_look(conn, argv[2], &shown, weir_ask_now_ns() + DEADLINE_NS, &branches, fault);
    if (error)
        printf("%s %s\n", weir_error_name(error), fault);
    else
        print(&branches);
    if (conn)
        PQfinish(conn);
    return 0;
}
