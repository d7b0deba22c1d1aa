/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of access logs: each format as its server writes it, values as they were sent, format strings, and lines that
 * are cut, too long, or made to mislead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "wire/access_log.h"

#define NS WEIR_NS_PER_SECOND
#define AT (UINT64_C(971186136) * NS) /* 10 Oct 2000 13:55:36 UTC */

static const char *const wanted[] = { "route", "ip", "method", "user", "user-agent", "host", "tenant", "bytes" };
enum { ROUTE, IP, METHOD, USER, AGENT, HOST, TENANT, BYTES, WANTED };

static struct weir_access_format format;
static struct weir_access_line line;
static struct weir_access_map maps[WEIR_ACCESS_MAPS_MAX];
static size_t maps_count;
static enum weir_path_rule path_rule;

static int format_read(const char *text, struct weir_fault *fault)
{
    const struct weir_access_options options = { wanted, WANTED, maps, maps_count, path_rule };
    return weir_access_format_init(&format, text, &options, fault);
}

static void use(const char *text)
{
    struct weir_fault fault;
    if (format_read(text, &fault) != 0)
        fail_msg("%s: %s %s", text, fault.field, fault.text);
}

/* Exactly as many bytes as the line has, so that a sanitizer sees a look beyond it. */
static const char *read_bytes(const char *data, size_t size)
{
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, data, size);
    const char *why = weir_access_read(&format, copy, size, &line);
    for (size_t i = 0; i < WANTED && !why; i++) /* copied, since they point into the line */
        if (line.values[i].size) {
            static char kept[WANTED][1024];
            memcpy(kept[i], line.values[i].data, line.values[i].size < 1024 ? line.values[i].size : 1024);
            line.values[i].data = kept[i];
        }
    free(copy);
    return why;
}

static void assert_reads(const char *text)
{
    const char *why = read_bytes(text, strlen(text));
    if (why)
        fail_msg("%s: %s", text, why);
}

static void assert_refused(const char *text, const char *expected)
{
    const char *why = read_bytes(text, strlen(text));
    if (!why || !strstr(why, expected))
        fail_msg("%s: %s, not %s", text, why ? why : "fine", expected);
}

static void assert_value(int which, const char *expected)
{
    const struct weir_slice value = line.values[which];
    if (!expected) {
        if (value.data)
            fail_msg("%s is %.*s", wanted[which], (int)value.size, (const char *)value.data);
        return;
    }
    if (!value.data || value.size != strlen(expected) || memcmp(value.data, expected, value.size) != 0)
        fail_msg("%s is %.*s, not %s", wanted[which], (int)value.size, value.data ? (const char *)value.data : "",
                 expected);
}

static int setup(void **state)
{
    (void)state;
    maps_count = 0;
    path_rule = WEIR_PATH_NORMALISE;
    return 0;
}

/* ---- formats ---- */

static void combined_of_nginx_and_apache(void **state)
{
    (void)state;
    use("combined");
    assert_false(format.has_duration);
    assert_reads("192.0.2.7 - ada [10/Oct/2000:13:55:36 +0000] \"GET /api/x?y=1 HTTP/1.1\" 200 23 \"-\" \"curl/7 (a "
                 "\\\"b\\\")\"");
    assert_int_equal(line.time_ns, AT);
    assert_false(line.fraction);
    assert_value(IP, "192.0.2.7");
    assert_value(USER, "ada");
    assert_value(METHOD, "GET");
    assert_value(ROUTE, "/api/x");
    assert_value(AGENT, "curl/7 (a \"b\")");
    assert_reads("2001:db8::1 - - [10/Oct/2000:13:55:36 -0700] \"POST /%61pi//x HTTP/2.0\" 200 23 \"-\" \"-\"");
    assert_int_equal(line.time_ns, AT + 7 * 3600 * NS);
    assert_value(IP, "2001:db8::1");
    assert_value(USER, NULL);
    assert_value(ROUTE, "/api/x");
    assert_value(AGENT, NULL);
}

/* Whoever does not want what common lacks can read common. */
static void common_ends_sooner(void **state)
{
    (void)state;
    static const char *const few[] = { "route", "ip", "method", "user" };
    const struct weir_access_options options = { few, 4, NULL, 0, WEIR_PATH_NORMALISE };
    assert_int_equal(weir_access_format_init(&format, "common", &options, NULL), 0);
    assert_null(read_bytes("192.0.2.7 id ada [10/Oct/2000:13:55:36 +0000] \"GET /a HTTP/1.0\" 200 23", 69));
    assert_value(USER, "ada");
    assert_value(ROUTE, "/a");
}

static void envoy_by_default(void **state)
{
    (void)state;
    use("envoy");
    assert_true(format.has_duration);
    assert_reads(
        "[2000-10-10T13:55:36.310Z] \"POST /api/v1/x?y HTTP/2\" 204 - 154 0 226 100 \"198.51.100.9, 10.0.35.28\" "
        "\"nsq2http\" \"cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2\" \"shop.example\" \"tcp://10.0.2.1:80\"");
    assert_int_equal(line.time_ns, AT + 310000000);
    assert_true(line.fraction && line.has_duration);
    assert_int_equal(line.duration_ns, 226000000);
    assert_value(IP, "10.0.35.28"); /* the last: what stands before it, any client can invent */
    assert_value(ROUTE, "/api/v1/x");
    assert_value(METHOD, "POST");
    assert_value(HOST, "shop.example");
    assert_value(AGENT, "nsq2http");
}

static void json_lines(void **state)
{
    (void)state;
    use("json");
    assert_reads(
        "{\"time\":\"2000-10-10T13:55:36+00:00\",\"remote_addr\":\"192.0.2.7\",\"request\":\"GET /a\\/b HTTP/1.1\","
        "\"request_time\":\"0.250\",\"user\":\"\\u00e4\\ud83d\\ude00\\n\",\"tenant\":42,\"skip\":[1,{\"a\":\"]\"}],"
        "\"o\":{\"p\":{\"q\":1}}} ");
    assert_int_equal(line.time_ns, AT);
    assert_int_equal(line.duration_ns, 250000000);
    assert_value(ROUTE, "/a/b");
    assert_value(USER, "\xc3\xa4\xf0\x9f\x98\x80\n");
    assert_value(TENANT, "42");
    assert_reads("{\"ts\":971186136.5,\"request\":{\"remote_ip\":\"192.0.2.8\",\"method\":\"PUT\",\"uri\":\"/c?d\","
                 "\"headers\":{\"X\":[\"y\"]}},\"duration\":0.001,\"user\":null,\"tenant\":true}");
    assert_int_equal(line.time_ns, AT + NS / 2);
    assert_value(IP, "192.0.2.8");
    assert_value(METHOD, "PUT");
    assert_value(ROUTE, "/c");
    assert_value(USER, NULL);
    assert_value(TENANT, "true");
    assert_int_equal(line.duration_ns, 1000000);
    assert_reads("{ \"ts\" : 971186136123 , \"path\" : \"/\" , \"user\" : \"\" }");
    assert_int_equal(line.time_ns, AT + 123000000);
    assert_value(USER, "");
}

static void json_members_by_map(void **state)
{
    (void)state;
    maps[maps_count++] = (struct weir_access_map){ "request.headers.x-tenant", "tenant" };
    maps[maps_count++] = (struct weir_access_map){ "took", "duration_ms" };
    maps[maps_count++] = (struct weir_access_map){ "when", "time" };
    maps[maps_count++] = (struct weir_access_map){ "xff", "ip" };
    use("json");
    assert_reads("{\"when\":\"971186136\",\"took\":1.5,\"xff\":\"192.0.2.1, 192.0.2.2:99\",\"path\":\"/\","
                 "\"request\":{\"headers\":{\"x-tenant\":\"t\"}}}");
    assert_int_equal(line.time_ns, AT);
    assert_int_equal(line.duration_ns, 1500000);
    assert_value(TENANT, "t");
    assert_value(IP, "192.0.2.2");
}

static void format_strings(void **state)
{
    (void)state;
    use("$msec|${remote_addr}|$request_uri|$tenant|$http_user_agent|$request_time");
    assert_reads("971186136.007|[2001:db8::1]:80|/a|t 1|x|0.1");
    assert_int_equal(line.time_ns, AT + 7000000);
    assert_value(IP, "2001:db8::1");
    assert_value(TENANT, "t 1");
    assert_value(AGENT, "x");
    assert_int_equal(line.duration_ns, 100000000);
    use("%h %l %u %t \"%r\" %>s %b \"%{User-Agent}i\" %v %D");
    assert_reads("192.0.2.7 - - [10/Oct/2000:13:55:36 +0000] \"GET /a HTTP/1.1\" 200 - \"w\\x41\" h 1500");
    assert_value(AGENT, "wA");
    assert_value(HOST, "h");
    assert_int_equal(line.duration_ns, 1500000);
    use("%{msec}t %m %U%q %a %%");
    assert_reads("971186136001 GET /x?y=1 192.0.2.7 %");
    assert_value(ROUTE, "/x");
    use("%START_TIME% %REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH):20% %REQ(TENANT)% %DOWNSTREAM_REMOTE_ADDRESS% "
        ".");
    assert_reads("2000-10-10T13:55:36.000Z GET /x t1 192.0.2.7:4711 .");
    assert_value(TENANT, "t1");
    assert_value(IP, "192.0.2.7");
    assert_false(line.fraction);
}

static void format_strings_that_are_none(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        { "", "is none" },
        { "nginx", "is none" },
        { "$remote_addr", "no field for the time" },
        { "$time_local$request", "there must be text between" },
        { "$ $time_local", "after $ comes a name" },
        { "${time_local", "after $ comes a name" },
        { "%h %", "after % comes" },
        { "%{%d}t", "only sec, msec" },
        { "%START_TIME(%s)%", "without a format" },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct weir_fault fault = { "", "" };
        assert_int_not_equal(format_read(bad[i][0], &fault), 0);
        if (!strstr(fault.text, bad[i][1]))
            fail_msg("%s: %s", bad[i][0], fault.text);
    }
    char *many = calloc(1, 2 * WEIR_ACCESS_FORMAT_MAX);
    assert_non_null(many);
    memset(many, 'x', 2 * WEIR_ACCESS_FORMAT_MAX - 1);
    memcpy(many, "%t", 2);
    assert_int_equal(format_read(many, NULL), WEIR_ERANGE);
    many[0] = '\0';
    for (int i = 0; i <= WEIR_ACCESS_FIELDS_MAX; i++)
        strcat(many, "%h ");
    assert_int_equal(format_read(many, NULL), WEIR_ERANGE);
    free(many);
}

static void formats_are_guessed(void **state)
{
    (void)state;
    assert_string_equal(weir_access_format_guess(" {\"a\":1}", 8), "json");
    assert_string_equal(weir_access_format_guess("[2000-", 6), "envoy");
    assert_string_equal(weir_access_format_guess("192.0.2.1 -", 11), "combined");
    assert_string_equal(weir_access_format_guess("", 0), "combined");
}

/* ---- times ---- */

static void assert_time(const char *text, uint64_t expected)
{
    uint64_t ns = 1;
    bool fraction;
    bool good = weir_access_time(text, strlen(text), &ns, &fraction);
    if (good != (expected != 0) || (good && ns != expected))
        fail_msg("%s: %llu", text, good ? (unsigned long long)ns : 0ULL);
}

static void times(void **state)
{
    (void)state;
    assert_time("29/Feb/2000:00:00:00 +0000", UINT64_C(951782400) * NS);
    assert_time("2000-03-01 00:00:00Z", UINT64_C(951868800) * NS);
    assert_time("2000-03-01T00:00:00,5", UINT64_C(951868800) * NS + NS / 2);
    assert_time("2100-03-01T00:00:00+05:30", UINT64_C(4107542400) * NS - 19800 * NS);
    assert_time("31/Dec/2016:23:59:60 +0000", UINT64_C(1483228800) * NS);
    assert_time("[10/Oct/2000:13:55:36.25 +0000]", AT + NS / 4);
    assert_time("971186136", AT);
    assert_time("971186136.123456789123", AT + 123456789);
    assert_time("971186136123456", AT + 123456000);
    assert_time("971186136123456789", AT + 123456789);
    static const char *const bad[] = { "",
                                       "-",
                                       "29/Feb/2001:00:00:00 +0000",
                                       "29/Feb/2100:00:00:00 +0000",
                                       "32/Oct/2000:13:55:36 +0000",
                                       "10/Okt/2000:13:55:36 +0000",
                                       "10/Oct/2000:24:55:36 +0000",
                                       "10/Oct/2000:13:60:36 +0000",
                                       "10/Oct/2000:13:55:61 +0000",
                                       "10/Oct/2000:13:55:36 +00",
                                       "10/Oct/2000:13:55:36 +0000 ",
                                       "10/Oct/1969:13:55:36 +0000",
                                       "10/Oct/2400:13:55:36 +0000",
                                       "2000-10-10T13:55:36.Z",
                                       "2000-10-10T13:55",
                                       "99999999999999999999999999",
                                       "9711861x6",
                                       "1.",
                                       "12" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_time(bad[i], 0);
}

/* Every day of 400 years follows the one before it. */
static void days_follow(void **state)
{
    (void)state;
    static const int lengths[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    uint64_t expected = UINT64_C(365) * 86400 * NS;
    for (int year = 1971; year < 2261; year++)
        for (int month = 1; month <= 12; month++) {
            bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
            for (int day = 1; day <= lengths[month - 1] + (month == 2 && leap); day++) {
                char text[32];
                (void)snprintf(text, sizeof(text), "%04d-%02d-%02dT00:00:00Z", year, month, day);
                assert_time(text, expected);
                expected += UINT64_C(86400) * NS;
            }
        }
}

/* The memory of the last second is of that text alone. */
static void the_same_second_again(void **state)
{
    (void)state;
    use("$time_local $request_uri .");
    assert_reads("10/Oct/2000:13:55:36 +0000 /a .");
    assert_reads("10/Oct/2000:13:55:36 +0000 /b .");
    assert_int_equal(line.time_ns, AT);
    assert_reads("10/Oct/2000:13:55:37 +0000 /b .");
    assert_int_equal(line.time_ns, AT + NS);
    assert_refused("10/Oct/2000:13:55:99 +0000 /b .", "time");
    assert_reads("10/Oct/2000:13:55:37 +0000 /b .");
    assert_int_equal(line.time_ns, AT + NS);
    assert_reads("1793959200 /a .");
    assert_reads("179395920 /a ."); /* it begins as the one before does */
    assert_int_equal(line.time_ns, 179395920 * NS);
}

/* ---- hostile lines ---- */

static void every_cut(void **state)
{
    (void)state;
    static const struct {
        const char *format, *text;
    } whole[] = {
        { "combined",
          "192.0.2.7 - ada [10/Oct/2000:13:55:36 +0000] \"GET /api/x?y=1 HTTP/1.1\" 200 23 \"-\" \"curl\"" },
        { "envoy",
          "[2000-10-10T13:55:36.310Z] \"POST /x HTTP/2\" 204 - 154 0 226 100 \"10.0.35.28\" \"n\" \"c\" \"h\" \"t\"" },
        { "json",
          "{\"ts\":971186136.5,\"request\":{\"remote_ip\":\"192.0.2.8\",\"uri\":\"/c\\u00e4\"},\"a\":[1,\"]\"]}" },
    };
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
        use(whole[i].format);
        assert_reads(whole[i].text);
        size_t size = strlen(whole[i].text);
        for (size_t cut = 0; cut < size; cut++) {
            const char *why = read_bytes(whole[i].text, cut);
            /* Envoy's last field is wanted by nobody. */
            if (!why && !(i == 1 && cut >= size - 4))
                fail_msg("%s cut at %zu is read", whole[i].format, cut);
        }
    }
}

static void lines_that_are_none(void **state)
{
    (void)state;
    use("combined");
    assert_refused("", "ends within");
    assert_refused("192.0.2.7 - - [10/Oct/2000:13:55:36 +0000] \"\\x16\\x03\\x01 x\" 400 0 \"-\" \"-\"",
                   "the request is none");
    assert_refused("192.0.2.7 - - [10/Oct/2000:13:55:36 +0000] \"-\" 400 0 \"-\" \"-\"", "no path");
    assert_refused("192.0.2.7 - - [10/Oct/2000:13:55:36 +0000] \"GET\" 400 0 \"-\" \"-\"", "the request is none");
    assert_refused("192.0.2.7 - - [10/Oct/2000:13:55:36 +0000] \"GET  HTTP/1.1\" 400 0 \"-\" \"-\"", "request");
    assert_refused("192.0.2.7 - - [yesterday] \"GET / HTTP/1.1\" 400 0 \"-\" \"-\"", "time");
    assert_refused("192.0.2.7 - - [10/Oct/2000:13:55:36 +0000] \"GET x HTTP/1.1\" 400 0 \"-\" \"-\"", "path");
    assert_true(line.path_refused);
    /* A user whose name has what follows names: the line is refused, not misread. */
    assert_refused("192.0.2.7 - a [b] [10/Oct/2000:13:55:36 +0000] \"GET / HTTP/1.1\" 400 0 \"-\" \"-\"", "time");
    /* A quote that was escaped ends nothing; one whose escape was escaped does. */
    assert_reads("192.0.2.7 - - [10/Oct/2000:13:55:36 +0000] \"GET /\\\" 200 \\\\\" 400 0 \"-\" \"-\"");
    assert_value(ROUTE, "/\" 200 \\");
    assert_reads("192.0.2.7 - - [10/Oct/2000:13:55:36 +0000] \"GET /a b HTTP/1.1\" 400 0 \"-\" \"-\"");
    assert_value(ROUTE, "/a b");
    path_rule = WEIR_PATH_REFUSE;
    use("combined");
    assert_refused("192.0.2.7 - - [10/Oct/2000:13:55:36 +0000] \"GET /a;b HTTP/1.1\" 400 0 \"-\" \"-\"", ";");
    assert_refused("192.0.2.7 - - [10/Oct/2000:13:55:36 +0000] \"GET /a//b HTTP/1.1\" 400 0 \"-\" \"-\"", "//");
    assert_true(line.path_refused);
}

static void json_that_is_none(void **state)
{
    (void)state;
    use("json");
    static const char *const bad[][2] = {
        { "[]", "no JSON" },
        { "{}", "no time" },
        { "{\"ts\":971186136}", "no path" },
        { "{\"ts\":971186136,}", "no JSON" },
        { "{,\"ts\":971186136}", "no JSON" },
        { "{\"ts\" 971186136}", "no JSON" },
        { "{\"ts\":971186136}{}", "behind" },
        { "{\"ts\":x}", "no JSON" },
        { "{\"ts\":}", "no JSON" },
        { "{\"ts\":971186136,\"path\":\"/\",\"user\":\"\\ud800\"}", "escape" },
        { "{\"ts\":971186136,\"path\":\"/\",\"user\":\"\\udc00\"}", "escape" },
        { "{\"ts\":971186136,\"path\":\"/\",\"user\":\"\\q\"}", "escape" },
        { "{\"ts\":971186136,\"path\":\"/\",\"user\":\"\\u12\"}", "escape" },
        { "{\"ts\":971186136,\"path\":\"/\",\"user\":1.5}", "fraction" },
        { "{\"ts\":\"\",\"path\":\"/\"}", "time" },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(bad[i][0], bad[i][1]);
    char deep[512] = "{\"a\":";
    for (size_t i = 5; i < 200; i++)
        deep[i] = '[';
    assert_refused(deep, "deep");
    for (size_t i = 0; i < 80; i++)
        memcpy(deep + 5 * i, "{\"a\":", 5);
    memcpy(deep + 400, "1", 2);
    assert_refused(deep, "deep");
}

/* Name after name inside each other: what is too long for a name is passed over. */
static void json_with_long_names(void **state)
{
    (void)state;
    char text[2048];
    char name[WEIR_ACCESS_NAME_MAX + 1];
    use("json");
    memset(name, 'n', WEIR_ACCESS_NAME_MAX);
    name[WEIR_ACCESS_NAME_MAX] = '\0';
    for (int cut = 0; cut < 4; cut++) {
        (void)snprintf(text, sizeof(text),
                       "{\"%s\":{\"user\":{\"user\":\"x\"}},\"user\":\"ada\",\"ts\":971186136,\"path\":\"/\"}",
                       name + cut);
        assert_reads(text);
        assert_value(USER, "ada");
    }
}

static void lines_of_a_megabyte(void **state)
{
    (void)state;
    size_t size = 1 << 20;
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, 'a', size);
    use("combined");
    assert_string_equal(weir_access_read(&format, text, size, &line), "it is longer than 64 KiB");
    /* The longest that is read, with all of it to decode. */
    static const char head[] = "192.0.2.7 - - [10/Oct/2000:13:55:36 +0000] \"GET /",
                      tail[] = " HTTP/1.1\" 200 1 \"-\" \"-\"";
    size = WEIR_ACCESS_LINE_MAX;
    for (size_t i = 0; i + 4 <= size; i += 4)
        memcpy(text + i, "\\x25", 4);
    memcpy(text, head, sizeof(head) - 1);
    memcpy(text + size - sizeof(tail) + 1, tail, sizeof(tail) - 1);
    assert_null(weir_access_read(&format, text, size, &line));
    assert_false(line.text.overflow);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(combined_of_nginx_and_apache, setup),
        cmocka_unit_test_setup(common_ends_sooner, setup),
        cmocka_unit_test_setup(envoy_by_default, setup),
        cmocka_unit_test_setup(json_lines, setup),
        cmocka_unit_test_setup(json_members_by_map, setup),
        cmocka_unit_test_setup(format_strings, setup),
        cmocka_unit_test_setup(format_strings_that_are_none, setup),
        cmocka_unit_test_setup(formats_are_guessed, setup),
        cmocka_unit_test_setup(times, setup),
        cmocka_unit_test_setup(days_follow, setup),
        cmocka_unit_test_setup(the_same_second_again, setup),
        cmocka_unit_test_setup(every_cut, setup),
        cmocka_unit_test_setup(lines_that_are_none, setup),
        cmocka_unit_test_setup(json_that_is_none, setup),
        cmocka_unit_test_setup(json_with_long_names, setup),
        cmocka_unit_test_setup(lines_of_a_megabyte, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
