/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a request in this order: may the web page that sent it ask (Origin, Host), is there such a path, does the
 * method fit, does the token give the right. Then it runs the path's handler (http_*.c). Called by conn.c through
 * weir_http_protocol, which cli/serve.c gives to the server; wire/http.c parses, http_reply.c writes the replies. */
#include "serve/http.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "observe/metrics.h"
#include "serve/http_live.h"
#include "serve/loop.h"
#include "wire/origin.h"

#define TARGET_MAX ((size_t)8 << 10)

/* ---- callers ---- */

static bool starts_with_bearer(struct weir_slice value)
{
    return value.size > 7 && weir_http_is((struct weir_slice){ value.data, 7 }, "bearer ");
}

/* The token that the request shows: X-Weir-Token, for proxies that hand on their client's Authorization, or
 * Authorization: Bearer. */
static struct weir_slice find_token(const struct weir_http_request *request, bool *ret_authorization)
{
    const struct weir_http_header *own = weir_http_find(request, "x-weir-token");
    const struct weir_http_header *authorization = weir_http_find(request, "authorization");
    *ret_authorization = !own && authorization && starts_with_bearer(authorization->value);
    if (own)
        return own->value;
    if (*ret_authorization)
        return (struct weir_slice){ (const char *)authorization->value.data + 7, authorization->value.size - 7 };
    return (struct weir_slice){ 0 };
}

static bool path_is(struct weir_slice path, const char *literal)
{
    return path.size == strlen(literal) && memcmp(path.data, literal, path.size) == 0;
}

/* Whether the request shows who its caller is. Where nobody has to, the Authorization that a proxy hands on to /v1/auth
 * is its client's: an attribute. */
static bool shows_token(const struct weir_http_call *call, unsigned right, struct weir_slice token, bool authorization)
{
    if (token.size == 0 || call->conn->loop->setup->auth.count == 0)
        return false;
    bool enough = (call->conn->rights & right) == right;
    return !(enough && authorization && path_is(call->request->path, "/v1/auth"));
}

static void refuse_token(struct weir_http_call *call, uint64_t wait_ns)
{
    char fields[48];
    uint64_t wait_s = weir_div_ceil(wait_ns, WEIR_NS_PER_SECOND);
    (void)snprintf(fields, sizeof(fields), "Retry-After: %llu\r\n", (unsigned long long)wait_s);
    if (wait_ns > 0)
        weir_http_reply_problem(call, 429, fields, "too many wrong tokens came from this address");
    else
        weir_http_reply_problem(call, 401, "WWW-Authenticate: Bearer realm=\"weir\"\r\n",
                                "this token is not known here");
}

#define TOKEN_NEEDED "a token is needed: send it as Authorization: Bearer TOKEN, or as X-Weir-Token: TOKEN"

static void refuse_right(const struct weir_http_call *call, unsigned right)
{
    char text[128];
    (void)snprintf(text, sizeof(text), "this token lacks the right to that: %s, of rights in auth: tokens",
                   weir_right_name(right));
    weir_http_reply_problem(call, 403, "", text);
}

/* False when it has been answered: 401 without a token that is one of ours where one is needed, or with another; 403
 * where the token lacks the right. Who shows a token has its rights, wherever they come from. */
static bool allowed(struct weir_http_call *call, unsigned right)
{
    bool authorization = false;
    if (right == 0)
        return true;
    struct weir_slice token = find_token(call->request, &authorization);
    unsigned rights = call->conn->rights;
    if (shows_token(call, right, token, authorization)) {
        struct weir_auth_digest digest;
        uint64_t wait_ns = 0;
        rights = weir_guess(call->conn, token, call->time, &digest, &wait_ns);
        if (rights == 0) {
            refuse_token(call, wait_ns);
            return false;
        }
        call->authorization_used = authorization;
        if (right == WEIR_RIGHT_ADMIN) /* nobody else asks who it is */
            call->caller = weir_auth_name(&call->conn->loop->setup->auth, &digest);
    }
    call->rights = rights;
    if ((rights & right) == right)
        return true;
    if (rights == 0 || (right == WEIR_RIGHT_ADMIN && !call->caller))
        weir_http_reply_problem(call, 401, "WWW-Authenticate: Bearer realm=\"weir\"\r\n",
                                token.size ? "this token is not known here" : TOKEN_NEEDED);
    else
        refuse_right(call, right);
    return false;
}

/* ---- routes ---- */

static void healthz(struct weir_http_call *call)
{
    weir_http_reply(call, 200, WEIR_HTTP_PLAIN, "", "ok\n");
}

enum methods {
    ANY,  /* proxies ask in their own or their client's method */
    READ, /* GET and HEAD */
    POST,
    EDIT, /* GET, HEAD and PUT */
};

static const struct route {
    const char *path;
    enum methods methods;
    unsigned right;
    void (*handle)(struct weir_http_call *call);
} routes[] = {
    { "/", READ, 0, weir_http_page },
    { "/page.css", READ, 0, weir_http_page_css },
    { "/page.js", READ, 0, weir_http_page_js },
    { "/play", READ, 0, weir_http_play },
    { "/play.css", READ, 0, weir_http_play_css },
    { "/play.js", READ, 0, weir_http_play_js },
    { "/play.wasm", READ, 0, weir_http_play_wasm },
    { "/learn", READ, 0, weir_http_learn },
    { "/learn.js", READ, 0, weir_http_learn_js },
    { "/v1/check", POST, WEIR_RIGHT_CHECK, weir_http_check },
    { "/v1/auth", ANY, WEIR_RIGHT_CHECK, weir_http_auth },
    { "/v1/reservations", POST, WEIR_RIGHT_CHECK, weir_http_reserve },
    { "/json", POST, WEIR_RIGHT_CHECK, weir_http_envoy },
    { "/healthz", READ, 0, healthz },
    { "/readyz", READ, 0, weir_http_readyz },
    { "/metrics", READ, WEIR_RIGHT_METRICS, weir_http_metrics },
    { "/v1/limits", READ, WEIR_RIGHT_METRICS, weir_http_limits },
    { "/v1/nodes", READ, WEIR_RIGHT_METRICS, weir_http_nodes },
    { "/v1/top", READ, WEIR_RIGHT_METRICS, weir_http_top },
    { "/v1/hour", READ, WEIR_RIGHT_METRICS, weir_http_hour },
    { "/v1/live", READ, WEIR_RIGHT_METRICS, weir_http_live },
    { "/v1/state", READ, WEIR_RIGHT_METRICS, weir_http_state },
    { "/v1/rules", EDIT, WEIR_RIGHT_ADMIN, weir_http_rules },
    { "/v1/rules/versions", READ, WEIR_RIGHT_ADMIN, weir_http_rules_versions },
    { "/v1/rules/diff", READ, WEIR_RIGHT_ADMIN, weir_http_rules_diff },
    { "/v1/rules/rollback", POST, WEIR_RIGHT_ADMIN, weir_http_rules_rollback },
    { "/v1/rules/approve", POST, WEIR_RIGHT_ADMIN, weir_http_rules_approve },
    { "/v1/rules/rollout", POST, WEIR_RIGHT_ADMIN, weir_http_rules_rollout },
    { "/v1/rules/replay", POST, WEIR_RIGHT_ADMIN, weir_http_rules_replay },
    { "/v1/rules/exceptions", READ, WEIR_RIGHT_ADMIN, weir_http_rules_exceptions },
    { "/v1/rules/ban", POST, WEIR_RIGHT_ADMIN, weir_http_rules_ban },
    { "/v1/rules/level", POST, WEIR_RIGHT_ADMIN, weir_http_rules_level },
    { "/v1/rules/reset", POST, WEIR_RIGHT_ADMIN, weir_http_rules_reset },
    { "/v1/rules/unban", POST, WEIR_RIGHT_ADMIN, weir_http_rules_unban },
    { "/v1/sessions/route", POST, WEIR_RIGHT_SESSION, weir_http_sessions_route },
    { "/v1/sessions/seen", POST, WEIR_RIGHT_SESSION, weir_http_sessions_seen },
    { "/v1/sessions/accept", POST, WEIR_RIGHT_SESSION, weir_http_sessions_accept },
    { "/v1/sessions/servers", READ, WEIR_RIGHT_METRICS, weir_http_sessions_servers },
};

static bool method_fits(enum weir_http_method method, enum methods methods)
{
    bool reads = method == WEIR_HTTP_GET || method == WEIR_HTTP_HEAD;
    return methods == ANY || (methods == POST && method == WEIR_HTTP_POST) || (methods == READ && reads) ||
           (methods == EDIT && (reads || method == WEIR_HTTP_PUT));
}

static void refuse_method(const struct weir_http_call *call, enum methods methods)
{
    weir_http_reply_problem(call, 405,
                            methods == POST   ? "Allow: POST\r\n"
                            : methods == EDIT ? "Allow: GET, HEAD, PUT\r\n"
                                              : "Allow: GET, HEAD\r\n",
                            methods == POST   ? "this path is asked with POST"
                            : methods == EDIT ? "this path is asked with GET, HEAD or PUT"
                                              : "this path is asked with GET or HEAD");
}

/* False: it is none of theirs. Who may not ask is told so before what is wrong with a name. */
static bool answer_locks(struct weir_http_call *call)
{
    struct weir_fault fault = { 0 };
    int error;
    if (!weir_http_locks_path(call, &error, &fault))
        return false;
    enum methods methods = weir_http_locks_reads(call) ? READ : POST;
    if (!method_fits(call->request->method, methods))
        refuse_method(call, methods);
    else if (!allowed(call, weir_http_locks_right(call)))
        return true;
    else if (error)
        weir_http_reply_fault(call, error, &fault);
    else
        weir_http_locks(call);
    return true;
}

/* False: it is none of theirs. */
static bool answer_docs(struct weir_http_call *call)
{
    if (!weir_http_docs_path(call->request->path))
        return false;
    if (method_fits(call->request->method, READ))
        weir_http_docs(call);
    else
        refuse_method(call, READ);
    return true;
}

/* False: it is none of theirs. */
static bool answer_permits(struct weir_http_call *call)
{
    if (!weir_http_permits_path(call))
        return false;
    if (!method_fits(call->request->method, POST))
        refuse_method(call, POST);
    else if (allowed(call, WEIR_RIGHT_CHECK))
        weir_http_permits(call);
    return true;
}

/* False: it is none of theirs. */
static bool answer_reservations(struct weir_http_call *call)
{
    const char *allow;
    if (!weir_http_reservations_path(call, &allow))
        return false;
    if (allow)
        weir_http_reply_problem(call, 405, allow, "this path is asked with another method: see Allow");
    else if (allowed(call, WEIR_RIGHT_CHECK))
        weir_http_reservations(call);
    return true;
}

/* A page of any web site can make a browser ask us. True when that, or what looks like it, has been refused. The
 * questions of /v1/auth carry fields of the proxy's client, which browsers send to the proxy rightly. */
static bool refuse_browser(const struct weir_http_call *call)
{
    const struct weir_conn *conn = call->conn;
    const struct weir_config *config = conn->loop->setup->config;
    const struct weir_config_http *rules = &config->http_rules;
    const struct weir_slice path = call->request->path;
    if (path_is(path, "/v1/auth"))
        return false;
    /* A link may lead to the pages. */
    const bool page = path_is(path, "/") || path_is(path, "/play") || path_is(path, "/learn") ||
                      weir_http_docs_path(path);
    if (weir_origin_foreign(call->request) && !page) {
        weir_count(&conn->loop->counters.foreign_refused, 1);
        weir_http_reply_problem(call, 403, "",
                                "a web page of another origin may not ask this server "
                                "(Origin, Sec-Fetch-Site)");
        return true;
    }
    if (path_is(path, "/healthz") || path_is(path, "/readyz") ||
        weir_auth_anonymous(config->auth_required, conn->loopback) == 0 ||
        weir_origin_host_ours(call->request, rules->hosts, rules->hosts_count))
        return false;
    weir_count(&conn->loop->counters.hosts_refused, 1);
    weir_http_reply_problem(call, 403, "",
                            "where no token is asked for, Host must be an IP address, localhost, or one of "
                            "hosts: in listen: { http: { hosts: [...] } }");
    return true;
}

static bool is_admin(const struct weir_conn *conn)
{
    return conn->protocol == &weir_http_admin_protocol;
}

/* Of what listens, and not of the configuration, which a reload may change. */
static bool has_admin(const struct weir_loop *loop)
{
    bool has = false;
    for (size_t i = 0; i < loop->listener_count; i++)
        has = has || loop->listeners[i]->protocol == &weir_http_admin_protocol;
    return has;
}

/* What changes rules is served at the admin listener alone, where there is one. True: refused. */
static bool refuse_elsewhere(const struct weir_http_call *call, const struct route *route)
{
    if (route->right != WEIR_RIGHT_ADMIN || is_admin(call->conn) || !has_admin(call->conn->loop))
        return false;
    weir_http_reply_problem(call, 404, "", "this path is served at the listener admin alone (listen: { admin })");
    return true;
}

static void answer(struct weir_http_call *call)
{
    if (refuse_browser(call))
        return;
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (!path_is(call->request->path, routes[i].path))
            continue;
        if (refuse_elsewhere(call, &routes[i]))
            return;
        if (!method_fits(call->request->method, routes[i].methods))
            refuse_method(call, routes[i].methods);
        else if (allowed(call, routes[i].right))
            routes[i].handle(call);
        return;
    }
    if (!answer_locks(call) && !answer_permits(call) && !answer_reservations(call) && !answer_docs(call))
        weir_http_reply_problem(
            call, 404, "",
            "no such path; there are /v1/check, /v1/auth, /json, /v1/permits/{id}/release and renew, "
            "/v1/reservations, /v1/reservations/{id}, settle and extend of it, "
            "/v1/locks/{name}/acquire, renew and release, /v1/locks/{name}, "
            "/v1/sessions/route, seen, accept and servers, /v1/limits, /v1/nodes, /v1/top, "
            "/v1/hour, /v1/live, /v1/state, "
            "/v1/rules, /v1/rules/versions, diff, rollback, approve, rollout, replay, "
            "exceptions, ban, level, reset and unban, /healthz, /readyz, "
            "/metrics, /docs/");
}

/* ---- the protocol ---- */

static void refuse(struct weir_http_call *call, const struct weir_http_refusal *refusal)
{
    call->request = NULL;
    weir_count(&call->conn->loop->counters.protocol_errors, 1);
    weir_http_reply_problem(call, refusal->status, "", refusal->text);
}

static struct weir_http_bounds bounds_of(const struct weir_config_server *server, bool admin)
{
    return (struct weir_http_bounds){
        .target_max = server->header_bytes_max < TARGET_MAX ? server->header_bytes_max : TARGET_MAX,
        .headers_max = server->headers_max,
        .header_bytes_max = server->header_bytes_max,
        .body_max = admin ? WEIR_RULE_TEXT_MAX : server->body_bytes_max,
    };
}

static size_t input_max(const struct weir_config_server *server)
{
    const struct weir_http_bounds bounds = bounds_of(server, false);
    return weir_http_size_max(&bounds);
}

static size_t admin_input_max(const struct weir_config_server *server)
{
    const struct weir_http_bounds bounds = bounds_of(server, true);
    return weir_http_size_max(&bounds);
}

/* Whether the request shows a token that may change rules. */
static bool may_administer(const struct weir_http_call *call)
{
    struct weir_auth_digest digest;
    bool authorization;
    uint64_t wait_ns;
    struct weir_slice token = find_token(call->request, &authorization);
    return token.size > 0 && call->conn->loop->setup->auth.count > 0 &&
           (weir_guess(call->conn, token, call->time, &digest, &wait_ns) & WEIR_RIGHT_ADMIN) != 0;
}

/* A whole rule set is taken from who may put it in force. All else is no larger than elsewhere: strangers would fill
 * the memory that all connections share, and a loop would read one body for seconds. */
static size_t admin_body_max(void *context, const struct weir_http_request *head, size_t size)
{
    struct weir_http_call *call = context;
    const size_t usual = call->conn->loop->setup->config->server.body_bytes_max;
    call->request = head;
    bool rules = head->method == WEIR_HTTP_PUT
                     ? path_is(head->path, "/v1/rules")
                     : path_is(head->path, "/v1/rules/rollout") || path_is(head->path, "/v1/rules/replay");
    bool large = size > usual && rules;
    return large && may_administer(call) ? WEIR_RULE_TEXT_MAX : usual;
}

/* Takes one request; false when there is none to take. */
static bool take_one(struct weir_http_call *call, const uint8_t *data, size_t size, size_t *ret_taken)
{
    const bool admin = is_admin(call->conn);
    struct weir_http_bounds bounds = bounds_of(&call->conn->loop->setup->config->server, admin);
    struct weir_http *codec = &call->session->codec;
    struct weir_http_refusal refusal;
    bounds.body_max_of = admin ? admin_body_max : NULL;
    bounds.context = call;
    switch (weir_http_parse(codec, &bounds, data, size, &call->work->request, &refusal)) {
    case WEIR_HTTP_CONTINUE:
        weir_conn_write(call->conn, WEIR_HTTP_CONTINUE_TEXT, sizeof(WEIR_HTTP_CONTINUE_TEXT) - 1);
        return false;
    case WEIR_HTTP_REQUEST:
        call->request = &call->work->request;
        call->conn->in_taken += call->request->size;
        call->authorization_used = false;
        call->caller = NULL;
        call->wait_ns = 0;
        call->max_age_s = 0;
        answer(call);
        break;
    case WEIR_HTTP_REFUSED:
        if (!admin && refusal.status == 413)
            refusal.text = "the body is too long: server.body_bytes_max says how long it may be; at a listener admin "
                           "rules may have 16 MiB";
        else if (refusal.status == 413)
            refusal.text = "the body is too long: PUT /v1/rules, its rollout and its replay take up to 16 MiB, with a "
                           "token that has the right admin";
        refuse(call, &refusal);
        break;
    case WEIR_HTTP_MORE:
    default:
        return false;
    }
    *ret_taken = call->request ? call->request->size : size;
    weir_http_next(codec);
    return true;
}

static size_t on_input(struct weir_conn *conn, const uint8_t *data, size_t size, const struct weir_time *time)
{
    struct weir_http_call call = weir_http_call_on(conn, time);
    const size_t requests_max = conn->loop->setup->config->server.pipeline_max;
    size_t at = 0, taken = 0, one = 0;
    weir_http_send_rest(conn);
    while (at < size && !weir_conn_blocked(conn)) {
        if (taken == requests_max) {
            weir_conn_yield(conn);
            break;
        }
        if (!take_one(&call, data + at, size - at, &one))
            break;
        at += one;
        taken++;
    }
    if (taken > 0) {
        struct weir_metrics_loop *metrics = weir_metrics_of_loop(conn->loop->common->metrics, conn->loop->number);
        weir_count(&conn->loop->counters.requests, taken);
        weir_histogram_add(&metrics->turn_ns[WEIR_METRICS_HTTP], uv_hrtime() - time->now_ns, taken);
    }
    return at;
}

static void on_overdue(struct weir_conn *conn, bool too_large)
{
    const struct weir_time time = weir_time_read();
    const struct weir_http_call call = weir_http_call_on(conn, &time);
    if (too_large) /* the codec refuses all else that is */
        weir_http_reply_problem(&call, 413, "", "the framing of the chunked body is too long");
    else
        weir_http_reply_problem(&call, 408, "", "the request was not completed in time");
}

static size_t kept(struct weir_conn *conn)
{
    const struct weir_http_session *session = weir_conn_state(conn);
    return session->rest_owned ? session->rest_size : 0;
}

static void on_hold_lost(struct weir_conn *conn)
{
    const struct weir_time time = weir_time_read();
    const struct weir_http_call call = weir_http_call_on(conn, &time);
    weir_http_reply_problem(&call, 503, "Retry-After: 1\r\n", "the permit was over before the turn of its answer came");
}

static void on_close(struct weir_conn *conn)
{
    struct weir_http_session *session = weir_conn_state(conn);
    weir_http_next(&session->codec);
    weir_http_check_drop(session);
    weir_http_envoy_drop(session);
    weir_http_locks_drop(session);
    weir_http_sessions_drop(session);
    weir_http_rules_drop(session);
    weir_http_live_drop(session);
    free(session->rest_owned);
    session->rest = session->rest_owned = NULL;
}

static const char full_text[] = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n"
                                "Content-Length: 0\r\n\r\n";

#define SERVED_AS(protocol_name, input_max_of)                                                                         \
    {                                                                                                                  \
        .name = (protocol_name), .says_close = true, .state_size = sizeof(struct weir_http_session),                   \
        .loop_state_size = sizeof(struct weir_http_work), .full = { full_text, sizeof(full_text) - 1 },                \
        .input_max = (input_max_of), .on_input = on_input, .on_overdue = on_overdue, .on_hold_lost = on_hold_lost,     \
        .kept = kept, .hand = weir_http_hand, .take = weir_http_take, .on_close = on_close,                            \
    }

const struct weir_protocol weir_http_protocol = SERVED_AS("http", input_max);
const struct weir_protocol weir_http_admin_protocol = SERVED_AS("admin", admin_input_max);
