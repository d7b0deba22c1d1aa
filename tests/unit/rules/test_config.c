/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration: what is legal becomes these values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "rules/config.h"

static struct weir_config *good(const char *text)
{
    struct weir_config *config = NULL;
    struct weir_config_fault fault;
    if (weir_config_parse(text, strlen(text), &config, &fault) != 0)
        fail_msg("%s\n  gives %u:%u: %s", text, fault.mark.line, fault.mark.column, fault.text);
    return config;
}

static void test_nothing_written_means_the_defaults(void **state)
{
    (void)state;
    struct weir_config *config = good("limits: []\n");
    assert_int_equal(config->resp.kind, WEIR_ADDRESS_TCP);
    assert_string_equal(config->resp.host, "127.0.0.1");
    assert_int_equal(config->resp.port, 6380);
    assert_int_equal(config->http.port, 8080);
    assert_true(config->resp.loopback);
    assert_int_equal(config->memory_max, 256 << 20);
    assert_int_equal(config->skew_max_ns, 1000000000);
    assert_null(config->tls_cert_file);
    assert_int_equal(config->auth_required, WEIR_AUTH_AUTO);
    assert_true(config->headers_x_ratelimit);
    assert_int_equal(config->limits_count, 0);
    weir_config_destroy(config);
    config = good("limits: [{name: a, rate: 100/min}]");
    const struct weir_config_limit *limit = &config->limits[0];
    assert_int_equal(limit->spec.algorithm, WEIR_TOKEN_BUCKET);
    assert_int_equal(limit->spec.burst, 0);
    assert_int_equal(limit->cost, 1);
    assert_int_equal(limit->ipv6_prefix, 64);
    assert_int_equal(limit->hold_max, 1000);
    assert_int_equal(limit->hold_timeout_ns, UINT64_C(10000000000));
    assert_int_equal(limit->spec.calendar, WEIR_CALENDAR_FIXED);
    weir_config_destroy(config);
}

static void test_the_http_listener_is_an_address_or_a_mapping(void **state)
{
    (void)state;
    struct weir_config *config = good("listen: { http: 127.0.0.1:1 }\nlimits: []\n");
    assert_int_equal(config->http_rules.forwarded, WEIR_FORWARDED_NONE);
    assert_int_equal(config->http_rules.path, WEIR_PATH_NORMALISE);
    assert_int_equal(config->http_rules.hosts_count, 0);
    weir_config_destroy(config);
    config = good("listen: { http: { forwarded: caddy } }\nlimits: []\n");
    assert_int_equal(config->http.port, 8080);
    assert_int_equal(config->http_rules.forwarded, WEIR_FORWARDED_CADDY);
    weir_config_destroy(config);
    config = good(
        "listen: { http: { address: 127.0.0.1:2, forwarded: haproxy, path: refuse, hosts: [weir, w.internal] } }\n"
        "limits: []\n");
    assert_int_equal(config->http.port, 2);
    assert_int_equal(config->http_rules.forwarded, WEIR_FORWARDED_HAPROXY);
    assert_int_equal(config->http_rules.path, WEIR_PATH_REFUSE);
    assert_int_equal(config->http_rules.hosts_count, 2);
    assert_string_equal(config->http_rules.hosts[1], "w.internal");
    weir_config_destroy(config);
}

static void test_every_key_is_read(void **state)
{
    (void)state;
    struct weir_config *config = good(
        "listen: { resp: \"unix:/run/weir.sock\", http: off }\n"
        "table: { memory: 1GiB, log_memory: 65536, skew_max: 5ms }\n"
        "threads: 3\n"
        "tls: { cert: /c.pem, key: /k.pem }\n"
        "auth: { required: always, tokens: [{ name: gw, secret: 0123456789abcdef, rights: [check, refund] }] }\n"
        "server: { connections_max: 7, pipeline_max: 8, headers_max: 9, header_bytes_max: 1KiB, body_bytes_max: 2KiB,\n"
        "          command_bytes_max: 3KiB, output_bytes_max: 4KiB, idle_timeout: 1min, request_timeout: 2s,\n"
        "          drain_timeout: 250ms, buffer_bytes_max: 5MiB, hold_bytes_max: 70KiB }\n"
        "headers: { ratelimit: off, x_ratelimit: false }\n"
        "cluster_secret: 000102030405060708090a0B0c0D0e0F\n"
        "limits: []\n");
    assert_int_equal(config->resp.kind, WEIR_ADDRESS_UNIX);
    assert_string_equal(config->resp.path, "/run/weir.sock");
    assert_int_equal(config->http.kind, WEIR_ADDRESS_OFF);
    assert_int_equal(config->memory_max, 1 << 30);
    assert_int_equal(config->log_memory_max, 65536);
    assert_int_equal(config->skew_max_ns, 5000000);
    assert_int_equal(config->threads, 3);
    assert_string_equal(config->tls_key_file, "/k.pem");
    assert_int_equal(config->auth_required, WEIR_AUTH_ALWAYS);
    assert_int_equal(config->tokens_count, 1);
    assert_memory_equal(config->tokens[0].secret.data, "0123456789abcdef", 16);
    assert_int_equal(config->tokens[0].rights, WEIR_RIGHT_CHECK | WEIR_RIGHT_REFUND);
    assert_int_equal(config->server.connections_max, 7);
    assert_int_equal(config->server.pipeline_max, 8);
    assert_int_equal(config->server.headers_max, 9);
    assert_int_equal(config->server.header_bytes_max, 1024);
    assert_int_equal(config->server.body_bytes_max, 2048);
    assert_int_equal(config->server.command_bytes_max, 3072);
    assert_int_equal(config->server.output_bytes_max, 4096);
    assert_int_equal(config->server.buffer_bytes_max, 5 << 20);
    assert_int_equal(config->server.hold_bytes_max, 70 << 10);
    assert_int_equal(config->server.idle_timeout_ns, UINT64_C(60000000000));
    assert_int_equal(config->server.request_timeout_ns, UINT64_C(2000000000));
    assert_int_equal(config->server.drain_timeout_ns, UINT64_C(250000000));
    assert_false(config->headers_ratelimit);
    assert_false(config->headers_x_ratelimit);
    assert_int_equal(config->cluster_secret[11], 11);
    weir_config_destroy(config);
}

static void test_traces_are_off_or_whole(void **state)
{
    (void)state;
    struct weir_config *config = good("limits: []\n");
    assert_null(config->traces.endpoint);
    weir_config_destroy(config);
    config = good("traces: { endpoint: \"http://127.0.0.1:4318/v1/traces\" }\nlimits: []\n");
    assert_string_equal(config->traces.endpoint, "http://127.0.0.1:4318/v1/traces");
    assert_string_equal(config->traces.service, "weir");
    assert_int_equal(config->traces.sample_one_in, 0);
    assert_int_equal(config->traces.timeout_ns, UINT64_C(2000000000));
    weir_config_destroy(config);
    config = good("traces: { endpoint: \"https://[::1]/\", sample: 1/1000, service: \"front door\", timeout: 10s }\n"
                  "limits: []\n");
    assert_string_equal(config->traces.endpoint, "https://[::1]/");
    assert_string_equal(config->traces.service, "front door");
    assert_int_equal(config->traces.sample_one_in, 1000);
    assert_int_equal(config->traces.timeout_ns, UINT64_C(10000000000));
    weir_config_destroy(config);
    config = good("traces: { endpoint: \"http://a\", sample: parent }\nlimits: []\n");
    assert_int_equal(config->traces.sample_one_in, 0);
    weir_config_destroy(config);
}

static void test_every_key_of_a_limit_is_read(void **state)
{
    (void)state;
    struct weir_config *config = good(
        "limits:\n"
        "  - { name: w, match: { route: /api/**, ip: \"2001:DB8:0::1\" }, key: [user, ip], rate: 5/2week,\n"
        "      algorithm: fixed_window, align: calendar, tz: Europe/Berlin, spread: 1day, count: attempts,\n"
        "      mode: shadow, cost: bytes, on_full: refuse, on_change: reset, ipv6_prefix: 48, sharing: exact }\n"
        "  - { name: l, rate: 5/250ms, algorithm: leaky_bucket, burst: 7, throttle: hold, hold_max: 3,\n"
        "      hold_timeout: 2s, cost: 4, key: [user], overrides: [{ user: x, burst: 9 }, { user: y*, mode: off },\n"
        "      { key: { user: z }, rate: 8/s }] }\n");
    const struct weir_config_limit *w = &config->limits[0];
    assert_int_equal(w->match_count, 2);
    assert_string_equal(w->match[0].attribute, "ip");
    assert_string_equal(w->match[0].pattern.data, "2001:db8::1"); /* canonical */
    assert_string_equal(w->match[1].pattern.data, "/api/*");      /* folded */
    assert_int_equal(w->match[1].pattern.size, 6);
    assert_int_equal(w->key_count, 2);
    assert_int_equal(w->spec.calendar, WEIR_CALENDAR_WEEK);
    assert_int_equal(w->spec.calendar_count, 2);
    assert_int_equal(w->spec.period_ns, 14 * 86400 * UINT64_C(1000000000));
    assert_string_equal(w->spec.tz, "Europe/Berlin");
    assert_int_equal(w->spec.spread_ns, 86400 * UINT64_C(1000000000));
    assert_int_equal(w->spec.count_mode, WEIR_COUNT_ATTEMPTS);
    assert_int_equal(w->spec.mode, WEIR_MODE_SHADOW);
    assert_int_equal(w->spec.on_full, WEIR_ON_FULL_REFUSE);
    assert_int_equal(w->spec.on_change, WEIR_ON_CHANGE_RESET);
    assert_string_equal(w->cost_attribute, "bytes");
    assert_int_equal(w->ipv6_prefix, 48);
    const struct weir_config_limit *l = &config->limits[1];
    assert_int_equal(l->throttle, WEIR_THROTTLE_HOLD);
    assert_int_equal(l->hold_max, 3);
    assert_int_equal(l->hold_timeout_ns, UINT64_C(2000000000));
    assert_int_equal(l->cost, 4);
    assert_int_equal(l->overrides_count, 3);
    assert_int_equal(l->overrides[0].spec.burst, 9);
    assert_int_equal(l->overrides[0].spec.count, 5);
    assert_int_equal(l->overrides[1].spec.mode, WEIR_MODE_OFF);
    assert_int_equal(l->overrides[2].spec.count, 8);
    assert_int_equal(l->overrides[2].spec.burst, 7);
    assert_string_equal(l->overrides[2].conditions[0].pattern.data, "z");
    weir_config_destroy(config);
}

static void test_a_concurrency_limit_has_a_count_and_a_lease(void **state)
{
    (void)state;
    struct weir_config *config = NULL;
    struct weir_config_fault fault;
    static const char text[] = "limits:\n"
                               "  - { lease: 2min, name: a, rate: 50, algorithm: concurrency, key: [u],\n"
                               "      overrides: [ { u: x, rate: 80 }, { u: y, mode: shadow } ] }\n"
                               "  - { name: b, algorithm: concurrency, rate: 0 }\n";
    assert_int_equal(weir_config_parse(text, sizeof(text) - 1, &config, &fault), 0);
    const struct weir_config_limit *a = &config->limits[0];
    assert_int_equal(a->spec.algorithm, WEIR_CONCURRENCY);
    assert_int_equal(a->spec.count, 50);
    assert_int_equal(a->spec.period_ns, 120 * WEIR_NS_PER_SECOND);
    assert_int_equal(a->overrides[0].spec.count, 80);
    assert_int_equal(a->overrides[0].spec.period_ns, 120 * WEIR_NS_PER_SECOND);
    assert_int_equal(a->overrides[1].spec.period_ns, 120 * WEIR_NS_PER_SECOND);
    assert_int_equal(config->limits[1].spec.period_ns, 30 * WEIR_NS_PER_SECOND);
    weir_config_destroy(config);
}

static void test_variants_stay_the_same_and_differ(void **state)
{
    (void)state;
    struct weir_config *config = good(
        "limits: [{ name: a, rate: 1/s, key: [u, v], overrides: [{ u: x, v: y, mode: off }, { v: y, u: x, burst: 2 },\n"
        "  { u: \"x,v=y\", mode: off }, { u: x, v: \"*\", mode: off }, { u: x, burst: 4 }] }]");
    const struct weir_config_override *o = config->limits[0].overrides;
    assert_string_equal(o[0].variant, o[1].variant); /* the order does not matter */
    assert_string_not_equal(o[0].variant, o[2].variant);
    assert_string_equal(o[3].variant, o[4].variant); /* "any" says nothing */
    assert_false(o[0].shadowed);
    assert_true(o[1].shadowed);
    assert_true(o[4].shadowed);
    weir_config_destroy(config);
}

static void test_a_file_is_read_and_its_faults_carry_its_name(void **state)
{
    (void)state;
    char path[] = "/tmp/weir-config-XXXXXX";
    struct weir_config *config = NULL;
    struct weir_config_fault fault;
    char text[600];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    fputs("limits:\n  - name: a\n    rate: 1/s\n    rat: 2\n", file);
    fclose(file);
    assert_int_equal(weir_config_load(path, &config, &fault), WEIR_EPROTO);
    weir_config_fault_format(&fault, "weir.yaml", text, sizeof(text));
    assert_memory_equal(
        text, "weir.yaml:4:5: unknown key \"rat\" in a limit; did you mean \"rate\"? It must be one of name", 87);
    remove(path);
    assert_int_equal(weir_config_load(path, &config, &fault), WEIR_EIO);
    weir_config_fault_format(&fault, "weir.yaml", text, sizeof(text));
    assert_string_equal(text, "weir.yaml: cannot be read: No such file or directory");
    assert_int_equal(weir_config_load("/tmp", &config, &fault), WEIR_EIO);
}

static void test_a_secret_file_is_read_to_its_first_line_end(void **state)
{
    (void)state;
    char path[] = "/tmp/weir-secret-XXXXXX";
    char text[200];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    fputs("abcdefghijklmnopqrstuvwxyz\nsecond line", file);
    fclose(file);
    snprintf(text, sizeof(text), "auth: { tokens: [{ name: a, secret_file: %s, rights: [all] }] }", path);
    struct weir_config *config = good(text);
    assert_int_equal(config->tokens[0].secret.size, 26);
    assert_memory_equal(config->tokens[0].secret.data, "abcdefghijklmnopqrstuvwxyz", 26);
    assert_int_equal(config->tokens[0].rights, WEIR_RIGHT_ALL);
    weir_config_destroy(config);
    remove(path);
}

static void test_a_secret_is_what_its_file_said_at_the_load(void **state)
{
    (void)state;
    char path[] = "/tmp/weir-secret-XXXXXX", text[300];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "sqlite:abcdefghijklmnopqrs\n", 27), 27);
    snprintf(text, sizeof(text),
             "rules: { store_file: %s }\nauth: { tokens: [{ name: a, secret_file: %s, rights: [all] }] }", path, path);
    struct weir_config *config = good(text), *again = NULL, *with = NULL;
    struct weir_config_faults faults;
    assert_int_equal(pwrite(fd, "ABC", 3, 7), 3); /* another one, which nobody asked to take; then it is gone */
    assert_int_equal(weir_config_again(config, &again, NULL), 0);
    remove(path);
    close(fd);
    assert_int_equal(weir_config_with_rules(again, (struct weir_slice){ "limits: []\n", 11 }, &with, &faults), 0);
    weir_config_destroy(config);
    weir_config_destroy(again); /* what it has is its own */
    assert_int_equal(with->tokens[0].secret.size, 26);
    assert_memory_equal(with->tokens[0].secret.data, "sqlite:abcdefghijklmnopqrs", 26);
    assert_memory_equal(with->rules.store.data, "sqlite:abcdefghijklmnopqrs", 26);
    weir_config_destroy(with);
}

static void test_the_embedded_example_is_the_documented_one(void **state)
{
    (void)state;
    struct weir_config *config = NULL;
    struct weir_config_fault fault = { { 0, 0 }, "" };
    if (weir_config_example(&config, &fault) != 0)
        fail_msg("%u:%u: %s", fault.mark.line, fault.mark.column, fault.text);
    const struct weir_config_limit *limit = &config->limits[0];
    assert_string_equal(limit->name, "api-per-user");
    assert_int_equal(limit->spec.count, 100);
    assert_int_equal(limit->spec.period_ns, 60 * UINT64_C(1000000000));
    assert_int_equal(limit->spec.burst, 20);
    assert_int_equal(config->warnings_count, 0);
    weir_config_destroy(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_written_means_the_defaults),
        cmocka_unit_test(test_the_http_listener_is_an_address_or_a_mapping),
        cmocka_unit_test(test_every_key_is_read),
        cmocka_unit_test(test_traces_are_off_or_whole),
        cmocka_unit_test(test_every_key_of_a_limit_is_read),
        cmocka_unit_test(test_a_concurrency_limit_has_a_count_and_a_lease),
        cmocka_unit_test(test_variants_stay_the_same_and_differ),
        cmocka_unit_test(test_a_file_is_read_and_its_faults_carry_its_name),
        cmocka_unit_test(test_a_secret_file_is_read_to_its_first_line_end),
        cmocka_unit_test(test_a_secret_is_what_its_file_said_at_the_load),
        cmocka_unit_test(test_the_embedded_example_is_the_documented_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
