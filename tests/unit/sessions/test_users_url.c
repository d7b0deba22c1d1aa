/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a users' store in Redis is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "sessions/users_redis_url.h"
#include "weir/error.h"

static void redis_url__says_where_and_who(void **state)
{
    struct weir_users_redis_url url;
    const char *why = "";
    (void)state;
    assert_int_equal(weir_users_redis_url_read("redis://here", &url, &why), 0);
    assert_string_equal(url.hosts[0].name, "here");
    assert_string_equal(url.hosts[0].port, "6379");
    assert_string_equal(url.database, "0");
    assert_int_equal(weir_users_redis_url_read("redis://ada:p%40ss@w@[::1]:1,10.0.0.1:22,c/7", &url, &why), 0);
    assert_string_equal(url.user, "ada");
    assert_string_equal(url.password, "p@ss@w");
    assert_int_equal(url.host_count, 3);
    assert_string_equal(url.hosts[0].name, "::1");
    assert_string_equal(url.hosts[0].port, "1");
    assert_string_equal(url.hosts[1].port, "22");
    assert_string_equal(url.hosts[2].name, "c");
    assert_string_equal(url.database, "7");
    assert_int_equal(weir_users_redis_url_read("redis://:secret@h/", &url, &why), 0);
    assert_string_equal(url.user, "");
    assert_string_equal(url.password, "secret");
}

static void redis_url__others_are_refused_without_showing_them(void **state)
{
    static const char *const bad[] = {
        "redis://",          "redis:///1",       "redis://h:",
        "redis://h:65536",   "redis://h:1x",     "redis://h,",
        "redis://,h",        "redis://[::1",     "redis://[::1]x",
        "redis://h/x",       "redis://h/1/2",    "redis://h?db=geheim",
        "redis://u:%zz@h",   "redis://u:%0@h",   "redis://u:%00geheim@h",
        "redis://h/123456",  "redis://h#geheim", "redis://a,a,a,a,a,a,a,a,a",
        "rediss://geheim@h", "redis://[]",
    };
    struct weir_users_redis_url url;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *why = "";
        assert_int_equal(weir_users_redis_url_read(bad[i], &url, &why), WEIR_EINVAL);
        assert_true(strlen(why) > 10);
        assert_null(strstr(why, "geheim"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(redis_url__says_where_and_who),
        cmocka_unit_test(redis_url__others_are_refused_without_showing_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
