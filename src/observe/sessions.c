/* SPDX-License-Identifier: Apache-2.0
 *
 * Names, help texts and labels of the metrics of sessions, written from one view. Nothing is counted here: the view is
 * filled by serve/sessions_view.c. Called by serve/http_metrics.c for GET /metrics. */
#include "observe/sessions.h"

#include "observe/counter.h"

static const struct weir_label no_label = { 0 };

static void one(struct weir_prometheus *out, const char *name, const char *type, const char *help, uint64_t value)
{
    weir_prometheus_metric(out, name, type, help);
    weir_prometheus_sample(out, name, no_label, no_label, value);
}

static void write_servers(struct weir_prometheus *out, const struct weir_sessions_view *view)
{
    weir_prometheus_metric(out, "weir_session_routes_total", "counter",
                           "Reads and writes sent to a server; stale: it showed less than was seen, and was marked.");
    for (size_t i = 0; i < view->servers_count; i++) {
        const struct weir_label server = { "server", view->servers[i].name };
        weir_prometheus_sample(out, "weir_session_routes_total", server, (struct weir_label){ "verdict", "ok" },
                               view->servers[i].ok);
        weir_prometheus_sample(out, "weir_session_routes_total", server, (struct weir_label){ "verdict", "stale" },
                               view->servers[i].stale);
    }
    weir_prometheus_metric(out, "weir_session_lag_seconds", "gauge",
                           "How long ago the primary was where the server is now; absent while nobody knows.");
    for (size_t i = 0; i < view->servers_count; i++)
        if (view->servers[i].lag_known)
            weir_prometheus_seconds(out, "weir_session_lag_seconds",
                                    (struct weir_label){ "server", view->servers[i].name }, view->servers[i].lag_ns);
    weir_prometheus_metric(
        out, "weir_session_server_usable", "gauge",
        "1 if the server answers and, as a standby, moves while its primary does; role unknown: it has never "
        "answered; former primary: another has taken over.");
    for (size_t i = 0; i < view->servers_count; i++) {
        const struct weir_sessions_server *server = &view->servers[i];
        weir_prometheus_sample(out, "weir_session_server_usable", (struct weir_label){ "server", server->name },
                               (struct weir_label){ "role", server->role }, server->usable);
    }
}

static void write_users(struct weir_prometheus *out, const struct weir_sessions_view *view)
{
    one(out, "weir_session_users_found_total", "counter", "Users whose token was found.", view->users_found);
    one(out, "weir_session_users_not_found_total", "counter",
        "Users that were not found: they were taken to have seen all that the primary showed.", view->users_not_found);
    one(out, "weir_session_users_evicted_total", "counter", "Users that memory had no place for.", view->users_evicted);
    one(out, "weir_session_users_losses_total", "counter",
        "Times that where users are kept was found to have forgotten: flushed, restarted, failed over, restored.",
        view->users_losses);
    one(out, "weir_session_users_failures_total", "counter",
        "Questions to where users are kept, or to the primary for one not found, that failed.", view->users_failures);
}

void weir_sessions_metrics(struct weir_prometheus *out, const struct weir_sessions_view *view)
{
    static const char *const refused[] = { WEIR_SESSIONS_REFUSED_LIST(WEIR_LIST_TEXT) };
    const struct weir_sessions_counters *counters = view->counters;
    write_servers(out, view);
    weir_prometheus_metric(out, "weir_session_refused_total", "counter",
                           "Questions about sessions that had another answer than a server or a token.");
    for (size_t i = 0; i < WEIR_SESSIONS_REFUSED; i++)
        weir_prometheus_sample(out, "weir_session_refused_total", (struct weir_label){ "verdict", refused[i] },
                               no_label, weir_counted(&counters->refused[i]));
    one(out, "weir_session_waits_total", "counter", "Routes that waited for a server.", weir_counted(&counters->waits));
    weir_prometheus_metric(out, "weir_session_wait_seconds_total", "counter", "How long they waited in all.");
    weir_prometheus_seconds(out, "weir_session_wait_seconds_total", no_label, weir_counted(&counters->waited_ns));
    one(out, "weir_session_waiting", "gauge", "Questions that wait now, for a server or for where users are kept.",
        view->waiting);
    one(out, "weir_session_seen_total", "counter", "Places that moved a token.", weir_counted(&counters->seen));
    one(out, "weir_session_accepted_total", "counter", "Losses that were accepted.", weir_counted(&counters->accepted));
    write_users(out, view);
}
