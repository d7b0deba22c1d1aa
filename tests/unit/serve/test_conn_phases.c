/* SPDX-License-Identifier: Apache-2.0
 *
 * The phases of a connection, and the moves between them. */
#include "phases.h"

#include "serve/conn.h"

static void conn__moves_only_as_the_list_says(void **state)
{
    (void)state;
    assert_moves(weir_conn_phases, WEIR_CONN_PHASES,
                 " open>finishing open>failed open>closed finishing>lingering finishing>failed finishing>closed"
                 " lingering>failed lingering>closed failed>closed ");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(conn__moves_only_as_the_list_says) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
