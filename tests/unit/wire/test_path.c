/* SPDX-License-Identifier: Apache-2.0
 *
 * The path of a request target: a table of spellings, a reference model that works on lists of segments, and what
 * `refuse` refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "random.h"
#include "wire/path.h"

#define SIZE_MAX_TRIED 24

static uint8_t room[4096];
static struct weir_slice path;

static const char *read_path(enum weir_path_rule rule, const char *target, size_t size)
{
    struct weir_text text = weir_text_init(room, sizeof(room));
    const char *wrong = weir_path_read(rule, (struct weir_slice){ target, size }, &text, &path);
    assert_false(text.overflow);
    return wrong;
}

static void assert_reads(const char *target, const char *expected)
{
    const char *wrong = read_path(WEIR_PATH_NORMALISE, target, strlen(target));
    if (wrong || path.size != strlen(expected) || memcmp(path.data, expected, path.size) != 0)
        fail_msg("%s gives %.*s (%s), not %s", target, (int)path.size, (const char *)path.data, wrong ? wrong : "fine",
                 expected);
}

static void spellings_of_one_path(void **state)
{
    (void)state;
    static const char *const api[] = {
        "/api/x",           "//api/x",       "///api//x",    "/./api/x",         "/o/../api/x",    "/%2e/api/x",
        "/%2E%2e/api/x",    "/api%2fx",      "/%2fapi/x",    "/x%2f..%2fapi/x",  "/%61pi/%78",     "/api/y/../x",
        "/api/./x",         "/api//x",       "/../../api/x", "/api/x?a=/../b",   "http://h/api/x", "https://h:1//api/x",
        "/a/b/../../api/x", "/o/.%2e/api/x", "/api/x?",      "HTTP://h/%61pi/x",
    };
    for (size_t i = 0; i < sizeof(api) / sizeof(api[0]); i++)
        assert_reads(api[i], "/api/x");
}

static void folders_keep_their_slash(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        { "/", "/" },          { "//", "/" },
        { "/.", "/" },         { "/..", "/" },
        { "/../", "/" },       { "/api", "/api" },
        { "/api/", "/api/" },  { "/api/.", "/api/" },
        { "/api/..", "/" },    { "/api/x/..", "/api/" },
        { "/api//", "/api/" }, { "/...", "/..." },
        { "/.api", "/.api" },  { "/api..", "/api.." },
        { "http://h", "/" },   { "http://h?x", "/" },
        { "/%2f", "/" },       { "/a/%2e%2e", "/" },
        { "*", "*" },          { "/*", "/*" },
        { "/?", "/" },
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        assert_reads(pairs[i][0], pairs[i][1]);
}

static void decoded_once_and_only_once(void **state)
{
    (void)state;
    assert_reads("/%2561pi/x", "/%61pi/x");
    assert_reads("/%252e%252e/api", "/%2e%2e/api");
    assert_reads("/a%", "/a%");
    assert_reads("/a%zz%4", "/a%zz%4");
    assert_reads("/a+b%3Fc%23d", "/a+b?c#d");
    assert_reads("/api\\x;y", "/api\\x;y");
    assert_null(read_path(WEIR_PATH_NORMALISE, "/a%00b", 6));
    assert_int_equal(path.size, 4);
    assert_memory_equal(path.data, "/a\0b", 4);
}

static void what_is_no_path(void **state)
{
    (void)state;
    static const char *const bad[] = { "",   "?",     "?/api",     "api/x", "api", "://h/api",
                                       "**", "*/api", "http:/api", "/a#b",  "/#" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_non_null(read_path(WEIR_PATH_NORMALISE, bad[i], strlen(bad[i])));
        assert_non_null(read_path(WEIR_PATH_REFUSE, bad[i], strlen(bad[i])));
    }
}

static void refuse_lets_nothing_ambiguous_pass(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "/api%2fx", "/api%2Fx", "/a%5cb",  "/a%5Cb",  "/a\\b",  "/api;x",      "/api;/x",   "/a%00",
        "/%2561pi", "/%252e",   "//api",   "/api//x", "/api//", "/./api",      "/o/../api", "/api/.",
        "/api/..",  "/%2e/api", "/.%2E/a", "/a%zz",   "/a%",    "http://h//a", "/%25ff",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (!read_path(WEIR_PATH_REFUSE, bad[i], strlen(bad[i])))
            fail_msg("%s passes", bad[i]);
    }
    static const char *const good[] = { "/",           "/api/x", "/%61pi/x", "/a%20b?x=//..;%2f", "/100%25",
                                        "/a.b/..c/.d", "/api/",  "*",        "http://h/a",        "/%25zz" };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        if (read_path(WEIR_PATH_REFUSE, good[i], strlen(good[i])))
            fail_msg("%s is refused", good[i]);
    }
}

/* ---- the reference model: a list of segments ---- */

struct model {
    char segments[SIZE_MAX_TRIED][SIZE_MAX_TRIED];
    size_t count;
};

static size_t model_decode(const char *in, char *out)
{
    size_t size = 0;
    while (*in && *in != '?') {
        unsigned byte;
        if (in[0] == '%' && strspn(in + 1, "0123456789abcdefABCDEF") >= 2 && sscanf(in + 1, "%2x", &byte) == 1) {
            out[size++] = (char)byte;
            in += 3;
        } else {
            out[size++] = *in++;
        }
    }
    out[size] = '\0';
    return size;
}

static void model_read(const char *target, char *out)
{
    static struct model model;
    char decoded[SIZE_MAX_TRIED + 1], *rest = decoded, *segment;
    bool folder = false;
    model.count = 0;
    model_decode(target, decoded);
    while ((segment = strsep(&rest, "/"))) {
        folder = strcmp(segment, "") == 0 || strcmp(segment, ".") == 0 || strcmp(segment, "..") == 0;
        if (strcmp(segment, "..") == 0 && model.count > 0)
            model.count--;
        if (!folder)
            strcpy(model.segments[model.count++], segment);
    }
    *out = '\0';
    for (size_t i = 0; i < model.count; i++)
        strcat(strcat(out, "/"), model.segments[i]);
    if (folder)
        strcat(out, "/");
}

static void as_the_model_reads_it(void **state)
{
    (void)state;
    static const char *const pieces[] = { "/",   "/",   "/",   ".",  "..", "a",  "api", "%2f",
                                          "%2e", "%61", "%25", "2e", "%",  "\\", ";",   "?" };
    struct test_random random = { test_random_seed() };
    for (int round = 0; round < 200000; round++) {
        char target[SIZE_MAX_TRIED + 8] = "/", expected[2 * SIZE_MAX_TRIED + 2];
        while (strlen(target) < SIZE_MAX_TRIED - 4 && test_random_below(&random, 12) > 0)
            strcat(target, pieces[test_random_below(&random, sizeof(pieces) / sizeof(pieces[0]))]);
        model_read(target, expected);
        assert_reads(target, expected);
        /* What `refuse` lets pass is read as it is read otherwise, and has one spelling but for its encoding. */
        if (!read_path(WEIR_PATH_REFUSE, target, strlen(target)))
            assert_true(path.size == strlen(expected) && memcmp(path.data, expected, path.size) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spellings_of_one_path),
        cmocka_unit_test(folders_keep_their_slash),
        cmocka_unit_test(decoded_once_and_only_once),
        cmocka_unit_test(what_is_no_path),
        cmocka_unit_test(refuse_lets_nothing_ambiguous_pass),
        cmocka_unit_test(as_the_model_reads_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
