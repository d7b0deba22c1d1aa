/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /metrics: what the loops and the table count, in the Prometheus text format. Labels are names of the
 * configuration and words of ours, never anything that came with a request. What tells whether limits are kept, and
 * whether one key is hot, is in http_metrics_units.c. */
#include "observe/metrics.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "observe/process.h"
#include "observe/sharing.h"
#include "observe/tracer.h"
#include "serve/follower.h"
#include "serve/hold.h"
#include "serve/http_call.h"
#include "serve/http_metrics.h"
#include "serve/loop.h"
#include "serve/nodes.h"
#include "serve/saver.h"
#include "serve/sessions.h"
#include "weir/version.h"

#define METRICS_TEXT_MAX ((size_t)256 << 20) /* 65,536 limits take less */
#define LOOPS_MAX 256

static const struct weir_label no_label = { 0 };

static void one(struct weir_prometheus *out, const char *name, const char *type, const char *help, uint64_t value)
{
    weir_prometheus_metric(out, name, type, help);
    weir_prometheus_sample(out, name, no_label, no_label, value);
}

/* ---- loops ---- */

#define SUM(common, member) weir_loops_counted((common), offsetof(struct weir_counters, member))

static void write_connections(struct weir_prometheus *out, const struct weir_common *common)
{
    uint64_t opened = SUM(common, connections_opened), closed = SUM(common, connections_closed);
    one(out, "weir_connections", "gauge", "Open connections.", opened > closed ? opened - closed : 0);
    one(out, "weir_connections_opened_total", "counter", "Connections accepted.", opened);
    one(out, "weir_connections_refused_total", "counter", "Connections refused because there were too many.",
        SUM(common, connections_refused));
    one(out, "weir_connections_shed_total", "counter",
        "Connections closed because their request had to be kept and buffers took server.buffer_bytes_max already.",
        SUM(common, connections_shed));
    one(out, "weir_buffer_bytes", "gauge", "Memory of all connections' input, answers not taken, and transactions.",
        atomic_load_explicit(&common->buffered, memory_order_relaxed));
    one(out, "weir_tokens_wrong_total", "counter", "Tokens shown that are not known here.", SUM(common, tokens_wrong));
    one(out, "weir_tokens_unseen_total", "counter",
        "Tokens not looked at, because too many wrong ones came from their address.", SUM(common, tokens_unseen));
    one(out, "weir_timeouts_total", "counter", "Connections closed for being idle or slow.", SUM(common, timeouts));
    one(out, "weir_live_streams", "gauge", "Streams of GET /v1/live.",
        atomic_load_explicit(&common->live_streams, memory_order_relaxed));
    one(out, "weir_live_cut_total", "counter", "Streams cut off, because their reader did not take what it was sent.",
        SUM(common, live_cut));
    one(out, "weir_protocol_errors_total", "counter", "Connections closed for what they sent.",
        SUM(common, protocol_errors));
    one(out, "weir_received_bytes_total", "counter", "Bytes received.", SUM(common, bytes_in));
    one(out, "weir_sent_bytes_total", "counter", "Bytes sent.", SUM(common, bytes_out));
    weir_prometheus_metric(out, "weir_requests_total", "counter", "Requests and commands taken.");
    weir_prometheus_sample(out, "weir_requests_total", (struct weir_label){ "protocol", "resp" }, no_label,
                           SUM(common, commands));
    weir_prometheus_sample(out, "weir_requests_total", (struct weir_label){ "protocol", "http" }, no_label,
                           SUM(common, requests));
    if (common->grpc)
        weir_prometheus_sample(out, "weir_requests_total", (struct weir_label){ "protocol", "grpc" }, no_label,
                               SUM(common, calls));
}

static void write_auth(struct weir_prometheus *out, const struct weir_common *common)
{
    weir_prometheus_metric(out, "weir_browser_refused_total", "counter",
                           "HTTP requests refused as those of a web page: by Origin or Sec-Fetch-Site, or by Host.");
    weir_prometheus_sample(out, "weir_browser_refused_total", (struct weir_label){ "by", "origin" }, no_label,
                           SUM(common, foreign_refused));
    weir_prometheus_sample(out, "weir_browser_refused_total", (struct weir_label){ "by", "host" }, no_label,
                           SUM(common, hosts_refused));
    one(out, "weir_auth_unserved_total", "counter", "Questions to /v1/auth while listen.http.forwarded is none.",
        SUM(common, auth_unserved));
    one(out, "weir_auth_refused_total", "counter",
        "Questions to /v1/auth answered 400: a field of the proxy is missing or stands twice, or the path is refused.",
        SUM(common, auth_refused));
    one(out, "weir_auth_claims_ignored_total", "counter",
        "Claims of route, method, ip, cost or authorization by what does not state them.", SUM(common, claims_ignored));
}

static void write_answers(struct weir_prometheus *out, const struct weir_common *common)
{
    char code[16];
    weir_prometheus_metric(out, "weir_http_answers_total", "counter", "HTTP answers by status.");
    for (unsigned i = 0; i < WEIR_HTTP_STATUSES; i++) {
        uint64_t count = weir_loops_counted(common, offsetof(struct weir_counters, http_answers) +
                                                        i * sizeof(_Atomic uint64_t));
        (void)snprintf(code, sizeof(code), "%d", weir_http_status_code((enum weir_http_status)i));
        if (count > 0 || weir_http_status_code((enum weir_http_status)i) == 200)
            weir_prometheus_sample(out, "weir_http_answers_total", (struct weir_label){ "code", code }, no_label,
                                   count);
    }
}

static void write_reloads(struct weir_prometheus *out, const struct weir_loop *loop)
{
    struct weir_reloads *reloads = &loop->common->reloads;
    pthread_mutex_lock(&reloads->lock);
    uint64_t done = reloads->done, failed = reloads->failed, last_failed = reloads->last_failed;
    pthread_mutex_unlock(&reloads->lock);
    weir_prometheus_metric(out, "weir_reloads_total", "counter", "Reloads of the configuration, by how they ended.");
    weir_prometheus_sample(out, "weir_reloads_total", (struct weir_label){ "end", "done" }, no_label, done);
    weir_prometheus_sample(out, "weir_reloads_total", (struct weir_label){ "end", "failed" }, no_label, failed);
    one(out, "weir_reload_last_failed", "gauge", "1 if the last reload failed: older limits are in force.",
        last_failed);
    weir_prometheus_metric(out, "weir_configuration_since_seconds", "gauge",
                           "When the configuration came into force, since 1970.");
    weir_prometheus_seconds(out, "weir_configuration_since_seconds", no_label, loop->setup->origin.wall_ns);
}

static void write_snapshots(struct weir_prometheus *out, struct weir_saver *saver)
{
    struct weir_saver_view view;
    weir_saver_view(saver, &view);
    weir_prometheus_metric(out, "weir_snapshots_total", "counter", "Snapshots of the counters, by how they ended.");
    weir_prometheus_sample(out, "weir_snapshots_total", (struct weir_label){ "end", "done" }, no_label, view.done);
    weir_prometheus_sample(out, "weir_snapshots_total", (struct weir_label){ "end", "failed" }, no_label, view.failed);
    if (view.wall_ns > 0) {
        weir_prometheus_metric(out, "weir_snapshot_since_seconds", "gauge",
                               "When the last snapshot was begun, or the restored one, since 1970: a kill forgets what "
                               "was admitted later.");
        weir_prometheus_seconds(out, "weir_snapshot_since_seconds", no_label, view.wall_ns);
    }
    weir_prometheus_metric(out, "weir_snapshot_took_seconds", "gauge",
                           "How long the last snapshot was written, pauses included.");
    weir_prometheus_seconds(out, "weir_snapshot_took_seconds", no_label, view.took_ns);
    one(out, "weir_snapshot_keys", "gauge", "Keys in the last snapshot.", view.keys);
    one(out, "weir_snapshot_bytes", "gauge", "Bytes of the last snapshot.", view.bytes);
}

static void write_rules(struct weir_prometheus *out, const struct weir_loop *loop)
{
    struct weir_follower_view view;
    weir_follower_view(loop->common->follower, &view);
    one(out, "weir_rules_version", "gauge", "The version of the set of rules that decides.",
        view.in_force > 0 ? view.in_force : loop->setup->origin.rules.number);
    one(out, "weir_rules_version_newest", "gauge", "The newest version that this node has read from the store.",
        view.newest);
    if (view.delay_known) {
        weir_prometheus_metric(
            out, "weir_rules_delay_seconds", "gauge",
            "From when the version that decides was made, by its maker's clock, until it decided here.");
        weir_prometheus_seconds(out, "weir_rules_delay_seconds", no_label, view.delay_ns);
    }
    one(out, "weir_rules_store_failing", "gauge", "1 while the store of rules cannot be asked.", view.failing);
    weir_prometheus_metric(
        out, "weir_exceptions", "gauge",
        "Keys that are banned, or have a level of their limit (some may have ended); or were reset.");
    weir_prometheus_sample(out, "weir_exceptions", (struct weir_label){ "kind", "ban" }, no_label,
                           weir_sub_sat(view.exceptions_count, view.exceptions_levels));
    weir_prometheus_sample(out, "weir_exceptions", (struct weir_label){ "kind", "level" }, no_label,
                           view.exceptions_levels);
    weir_prometheus_sample(out, "weir_exceptions", (struct weir_label){ "kind", "reset" }, no_label,
                           view.exceptions_resets);
    one(out, "weir_exceptions_change", "gauge", "The newest change of exceptions that this node has read.",
        view.exceptions_change);
    one(out, "weir_exceptions_failing", "gauge", "1 while exceptions cannot be read from the store of rules.",
        view.exceptions_failing);
}

static void write_traces(struct weir_prometheus *out, struct weir_tracer *tracer)
{
    struct weir_tracer_view view;
    weir_tracer_view(tracer, &view);
    if (!view.on && view.sampled == 0)
        return;
    one(out, "weir_traces_sampled_total", "counter", "Decisions of which there is to be a span.", view.sampled);
    one(out, "weir_traces_sent_total", "counter", "Spans that the receiver took.", view.sent);
    weir_prometheus_metric(out, "weir_traces_dropped_total", "counter",
                           "Spans that nobody will see: too many waited (full), the receiver could not be asked for "
                           "too long (lost), or did not take them (refused).");
    weir_prometheus_sample(out, "weir_traces_dropped_total", (struct weir_label){ "why", "full" }, no_label, view.full);
    weir_prometheus_sample(out, "weir_traces_dropped_total", (struct weir_label){ "why", "lost" }, no_label, view.lost);
    weir_prometheus_sample(out, "weir_traces_dropped_total", (struct weir_label){ "why", "refused" }, no_label,
                           view.refused);
    one(out, "weir_traces_messages_total", "counter", "Messages with spans sent, also those sent again.",
        view.messages);
    one(out, "weir_traces_failing", "gauge", "1 while the receiver of traces cannot be asked, or refuses.",
        view.failing);
}

static void write_histogram(struct weir_prometheus *out, const struct weir_common *common, const char *name,
                            struct weir_label label, size_t offset)
{
    const struct weir_histogram *histograms[LOOPS_MAX];
    size_t count = common->loop_count < LOOPS_MAX ? common->loop_count : LOOPS_MAX;
    for (size_t i = 0; i < count; i++)
        histograms[i] = (const void *)((const uint8_t *)weir_metrics_of_loop(common->metrics, i) + offset);
    weir_prometheus_histogram(out, name, label, histograms, count);
}

static uint64_t sum_holds(const struct weir_common *common, size_t offset)
{
    uint64_t total = 0;
    for (size_t i = 0; i < common->loop_count; i++)
        total += weir_counted(
            (const _Atomic uint64_t *)((const uint8_t *)weir_metrics_of_loop(common->metrics, i) + offset));
    return total;
}

static void write_latency(struct weir_prometheus *out, const struct weir_common *common)
{
    weir_prometheus_metric(out, "weir_request_seconds", "histogram",
                           "From reading the clock for a batch of input to the batch's last answer.");
    write_histogram(out, common, "weir_request_seconds", (struct weir_label){ "protocol", "resp" },
                    offsetof(struct weir_metrics_loop, turn_ns[WEIR_METRICS_RESP]));
    write_histogram(out, common, "weir_request_seconds", (struct weir_label){ "protocol", "http" },
                    offsetof(struct weir_metrics_loop, turn_ns[WEIR_METRICS_HTTP]));
    if (common->grpc)
        write_histogram(out, common, "weir_request_seconds", (struct weir_label){ "protocol", "grpc" },
                        offsetof(struct weir_metrics_loop, turn_ns[WEIR_METRICS_GRPC]));
    weir_prometheus_metric(out, "weir_hold_seconds", "histogram", "How long answers were held (throttle: hold).");
    write_histogram(out, common, "weir_hold_seconds", no_label, offsetof(struct weir_metrics_loop, hold_ns));
    one(out, "weir_holds_begun_total", "counter", "Answers held.",
        sum_holds(common, offsetof(struct weir_metrics_loop, holds_begun)));
    weir_prometheus_metric(out, "weir_holds_total", "counter", "Held answers, by how they ended.");
    weir_prometheus_sample(out, "weir_holds_total", (struct weir_label){ "end", "released" }, no_label,
                           sum_holds(common, offsetof(struct weir_metrics_loop, holds_ended)));
    weir_prometheus_sample(out, "weir_holds_total", (struct weir_label){ "end", "left" }, no_label,
                           sum_holds(common, offsetof(struct weir_metrics_loop, holds_left)));
    weir_prometheus_sample(out, "weir_holds_total", (struct weir_label){ "end", "lost" }, no_label,
                           sum_holds(common, offsetof(struct weir_metrics_loop, holds_lost)));
    weir_prometheus_metric(out, "weir_hold_late_seconds_total", "counter",
                           "By how much held answers came after their turn.");
    weir_prometheus_seconds(out, "weir_hold_late_seconds_total", no_label,
                            sum_holds(common, offsetof(struct weir_metrics_loop, hold_late_ns)));
}

/* ---- limits ---- */

static void write_decisions(struct weir_prometheus *out, struct weir_metrics *metrics)
{
    size_t slots = weir_metrics_slots(metrics);
    weir_prometheus_metric(out, "weir_decisions_total", "counter", "Decisions, by limit and by what that limit said.");
    for (uint32_t slot = 0; slot < slots; slot++) {
        uint64_t counts[WEIR_METRICS_VERDICTS];
        weir_metrics_decisions(metrics, slot, counts);
        for (size_t i = 0; i < WEIR_METRICS_VERDICTS; i++) {
            /* The two that everybody looks for are always there, so that a rate is known from the first one on. */
            if (counts[i] == 0 && i > WEIR_METRICS_REFUSED)
                continue;
            weir_prometheus_sample(
                out, "weir_decisions_total", (struct weir_label){ "limit", weir_metrics_name(metrics, slot) },
                (struct weir_label){ "verdict", weir_metrics_verdict_name((enum weir_metrics_verdict)i) }, counts[i]);
        }
    }
}

static void write_unlimited(struct weir_prometheus *out, const struct weir_common *common)
{
    size_t slots = weir_metrics_slots(common->metrics);
    weir_prometheus_metric(out, "weir_unmatched_total", "counter", "Requests that met no limit, by what they got.");
    weir_prometheus_sample(out, "weir_unmatched_total", (struct weir_label){ "got", "admitted" }, no_label,
                           SUM(common, unmatched_admitted));
    weir_prometheus_sample(out, "weir_unmatched_total", (struct weir_label){ "got", "refused" }, no_label,
                           SUM(common, unmatched_refused));
    weir_prometheus_metric(out, "weir_missing_total", "counter",
                           "Requests that lacked an attribute of a limit's key, by limit and by what they got.");
    for (uint32_t slot = 0; slot < slots; slot++) {
        uint64_t counts[WEIR_LACKS];
        weir_metrics_lacks(common->metrics, slot, counts);
        for (size_t i = 0; i < WEIR_LACKS; i++) {
            if (counts[i] > 0)
                weir_prometheus_sample(
                    out, "weir_missing_total", (struct weir_label){ "limit", weir_metrics_name(common->metrics, slot) },
                    (struct weir_label){ "got", weir_metrics_lack_name((enum weir_lack)i) }, counts[i]);
        }
    }
}

static void write_fallbacks(struct weir_prometheus *out, const struct weir_common *common)
{
    size_t slots = weir_metrics_slots(common->metrics);
    weir_prometheus_metric(out, "weir_fallback_total", "counter",
                           "Verdicts that the engine behind a limit did not give, by limit and on_failure.");
    for (uint32_t slot = 0; slot < slots; slot++) {
        uint64_t counts[WEIR_FALLBACK_POLICIES];
        weir_metrics_fallbacks(common->metrics, slot, counts);
        for (size_t i = WEIR_FALLBACK_NONE + 1; i < WEIR_FALLBACK_POLICIES; i++) {
            if (counts[i] > 0)
                weir_prometheus_sample(
                    out, "weir_fallback_total",
                    (struct weir_label){ "limit", weir_metrics_name(common->metrics, slot) },
                    (struct weir_label){ "policy", weir_fallback_policy_name((enum weir_fallback_policy)i) },
                    counts[i]);
        }
    }
    one(out, "weir_unknown_charges_total", "counter",
        "Exact decisions that the engine may have charged without our hearing of it: they decay.",
        SUM(common, unknown_charges));
}

static void write_sharing(struct weir_prometheus *out, struct weir_loop *loop)
{
    struct weir_nodes_view *view = NULL;
    write_fallbacks(out, loop->common);
    weir_sharer_draw(&loop->sharer);
    if (weir_nodes_view_create(loop->common, loop->setup->config, &view) == 0)
        weir_sharing_metrics(out, weir_nodes_view_of(view));
    weir_nodes_view_destroy(view);
}

static void write_holds(struct weir_prometheus *out, const struct weir_loop *loop)
{
    struct weir_common *common = loop->common;
    const struct weir_rules *rules = loop->setup->rules;
    weir_prometheus_metric(out, "weir_hold_waiting", "gauge", "Answers held now, by limit.");
    for (size_t i = 0; i < weir_rules_count(rules); i++) {
        const struct weir_rule *rule = weir_rules_limit(rules, i);
        if (rule->throttle == WEIR_THROTTLE_HOLD)
            weir_prometheus_sample(out, "weir_hold_waiting", (struct weir_label){ "limit", rule->name }, no_label,
                                   weir_holds_waiting(common->holds, weir_loop_slot(loop, rule->index)));
    }
    one(out, "weir_hold_memory_max_bytes", "gauge", "Bound on the memory of all answers held (server.hold_bytes_max).",
        loop->setup->config->server.hold_bytes_max);
    one(out, "weir_hold_memory_bytes", "gauge", "Memory of the answers held now.", weir_holds_bytes(common->holds));
}

static void write_revisions(struct weir_prometheus *out, const struct weir_loop *loop)
{
    const struct weir_rules *rules = loop->setup->rules;
    weir_prometheus_metric(out, "weir_limit_revision", "gauge",
                           "Revision of a shared limit's definition that decides here, and the node that made it the "
                           "newest; 0: what other nodes have is not known yet.");
    for (size_t i = 0; i < weir_rules_count(rules); i++) {
        const struct weir_rule *rule = weir_rules_limit(rules, i);
        if (rule->terms.mode)
            weir_prometheus_sample(out, "weir_limit_revision", (struct weir_label){ "limit", rule->name },
                                   (struct weir_label){ "of", rule->terms.revision_node }, rule->terms.revision);
    }
    weir_prometheus_metric(out, "weir_limit_undecidable", "gauge",
                           "1: the newest definition of a limit is not understood here, and on_failure decides.");
    for (size_t i = 0; i < weir_rules_count(rules); i++) {
        const struct weir_rule *rule = weir_rules_limit(rules, i);
        if (rule->terms.mode)
            weir_prometheus_sample(out, "weir_limit_undecidable", (struct weir_label){ "limit", rule->name }, no_label,
                                   rule->limit.undecidable);
    }
    one(out, "weir_revisions_corrupt_total", "counter",
        "Definitions at the engine that were not ours, and revisions of keys that none can have: left alone.",
        atomic_load_explicit(&loop->common->revisor.corrupt, memory_order_relaxed) +
            atomic_load_explicit(&loop->common->revisor.beyond, memory_order_relaxed));
}

/* What the limiter counts of each limit, or of each concurrency limit. */
static void write_limits(struct weir_prometheus *out, const struct weir_loop *loop, bool permits, const char *name,
                         const char *type, const char *help, size_t offset)
{
    const struct weir_rules *rules = loop->setup->rules;
    weir_prometheus_metric(out, name, type, help);
    for (size_t i = 0; i < weir_rules_count(rules); i++) {
        const struct weir_rule *rule = weir_rules_limit(rules, i);
        struct weir_limit_stats stats;
        uint64_t value;
        if ((permits && rule->limit.spec.algorithm != WEIR_CONCURRENCY) ||
            weir_limiter_limit_stats(loop->limiter, rule->id, &stats))
            continue;
        memcpy(&value, (const uint8_t *)&stats + offset, sizeof(value));
        weir_prometheus_sample(out, name, (struct weir_label){ "limit", rule->name }, no_label, value);
    }
}

static void write_table(struct weir_prometheus *out, const struct weir_loop *loop)
{
    struct weir_limiter_stats stats;
    weir_limiter_stats(loop->limiter, &stats);
    one(out, "weir_table_memory_max_bytes", "gauge", "Bound on the memory of all keys.", stats.memory_max);
    one(out, "weir_table_memory_bytes", "gauge", "Memory of the table and the logs in use.", stats.memory_used);
    one(out, "weir_table_keys", "gauge", "Keys that have state.", stats.keys);
    one(out, "weir_table_slots", "gauge", "Slots that the table has now; it grows to its memory.", stats.slots);
    one(out, "weir_table_inserted_total", "counter", "Keys that came.", stats.inserted);
    one(out, "weir_table_evicted_total", "counter", "Keys that lost their place while not yet fresh.", stats.evicted);
    one(out, "weir_table_refused_total", "counter", "Keys that found no place.", stats.refused_full);
    one(out, "weir_table_converted_total", "counter", "Keys converted after a change of their limit.", stats.converted);
    one(out, "weir_clock_jumps_total", "counter", "Keys found too far ahead of the clock and set to empty.",
        stats.clock_jumps);
    write_limits(out, loop, false, "weir_evictions_total", "counter",
                 "Keys of a limit that lost their place while not yet fresh.",
                 offsetof(struct weir_limit_stats, evicted));
    write_limits(out, loop, false, "weir_full_refusals_total", "counter", "Keys of a limit that found no place.",
                 offsetof(struct weir_limit_stats, refused_full));
}

static void write_permits(struct weir_prometheus *out, const struct weir_loop *loop)
{
    write_limits(out, loop, true, "weir_permits_out", "gauge",
                 "Units of permits that are out; the end of a lease may be noticed a minute late.",
                 offsetof(struct weir_limit_stats, permits_out));
    write_limits(out, loop, true, "weir_permits_given_total", "counter", "Units that became permits.",
                 offsetof(struct weir_limit_stats, permits_given));
    write_limits(out, loop, true, "weir_permits_released_total", "counter", "Units given back by a release.",
                 offsetof(struct weir_limit_stats, permits_released));
    write_limits(out, loop, true, "weir_permits_ended_total", "counter",
                 "Units that nobody gave back: their lease ended, or their key or limit was reset or removed.",
                 offsetof(struct weir_limit_stats, permits_ended));
    weir_prometheus_metric(out, "weir_releases_unknown_total", "counter",
                           "Releases answered 404 (RESP: 0): the permit is not of this node (foreign), or is over.");
    weir_prometheus_sample(out, "weir_releases_unknown_total", (struct weir_label){ "cause", "foreign" }, no_label,
                           SUM(loop->common, releases_foreign));
    weir_prometheus_sample(out, "weir_releases_unknown_total", (struct weir_label){ "cause", "ended" }, no_label,
                           SUM(loop->common, releases_ended));
}

static void write_sessions(struct weir_prometheus *out, const struct weir_loop *loop)
{
    struct weir_sessions_view view;
    if (!loop->common->sessions)
        return;
    weir_session_service_view(loop->common->sessions, &view);
    weir_sessions_metrics(out, &view);
}

void weir_http_metrics(struct weir_http_call *call)
{
    struct weir_loop *loop = call->conn->loop;
    struct weir_prometheus out = weir_prometheus_init(METRICS_TEXT_MAX);
    size_t size = 0;
    weir_prometheus_metric(&out, "weir_info", "gauge", "Which weir this is.");
    weir_prometheus_sample(&out, "weir_info", (struct weir_label){ "version", WEIR_VERSION }, no_label, 1);
    one(&out, "weir_limits", "gauge", "Limits in the configuration in force.", weir_rules_count(loop->setup->rules));
    write_reloads(&out, loop);
    write_decisions(&out, loop->common->metrics);
    write_unlimited(&out, loop->common);
    weir_http_metrics_units(&out, loop);
    weir_http_metrics_hits(&out, loop);
    weir_http_metrics_reserve(&out, loop);
    weir_http_metrics_top(&out, loop);
    write_latency(&out, loop->common);
    write_holds(&out, loop);
    if (loop->common->saver)
        write_snapshots(&out, loop->common->saver);
    if (loop->common->follower)
        write_rules(&out, loop);
    if (loop->common->tracer)
        write_traces(&out, loop->common->tracer);
    write_connections(&out, loop->common);
    write_answers(&out, loop->common);
    weir_http_metrics_grpc(&out, loop->common);
    write_auth(&out, loop->common);
    write_table(&out, loop);
    write_permits(&out, loop);
    write_sharing(&out, loop);
    write_revisions(&out, loop);
    write_sessions(&out, loop);
    weir_process_metrics(&out);
    uint8_t *text = weir_prometheus_take(&out, &size);
    if (text)
        weir_http_reply_long(call, "text/plain; version=0.0.4; charset=utf-8", "", text, size);
    else
        weir_http_reply_problem(call, 503, "", "out of memory");
}
