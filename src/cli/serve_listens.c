/* SPDX-License-Identifier: Apache-2.0
 *
 * A socket's name says which listener it is for: "http", "resp", "admin" or "grpc", as under listen: in a file. A
 * listener has the sockets that were passed for it, or else the address of its flag or of the file. Called by serve.c
 * and serve_config.c. */
#include "cli/serve_listens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "cli/plain.h"
#include "serve/grpc.h"
#include "serve/http.h"
#include "serve/resp.h"

enum listener { RESP, HTTP, ADMIN, GRPC, LISTENERS };
static const char *const listeners[LISTENERS + 1] = { "resp", "http", "admin", "grpc", NULL };
_Static_assert(WEIR_SYSTEMD_SOCKETS_MAX + 3 <= WEIR_LISTENERS_MAX,
               "all may be for one listener: others have their own");

static enum listener listener_of(const struct weir_systemd_socket *socket)
{
    unsigned i = 0;
    while (i < LISTENERS && strcmp(socket->name, listeners[i]) != 0)
        i++;
    weir_assert(i < LISTENERS); /* weir_systemd_take knows no other */
    return (enum listener)i;
}

static bool complain(const char *what, const char *why)
{
    char text[WEIR_PLAIN_SIZE(sizeof(((struct weir_fault *)0)->text))];
    fprintf(stderr, "weir: %s %s\n", what, weir_plain(why, text, sizeof(text)));
    return false;
}

bool weir_cli_listens_read(struct weir_serve_flags *flags, struct weir_systemd *systemd, struct weir_fault *ret_warning)
{
    const struct weir_systemd_environment environment = {
        .notify_socket = getenv("NOTIFY_SOCKET"),
        .watchdog_usec = getenv("WATCHDOG_USEC"),
        .watchdog_pid = getenv("WATCHDOG_PID"),
        .listen_fds = getenv("LISTEN_FDS"),
        .listen_fdnames = getenv("LISTEN_FDNAMES"),
        .listen_pid = getenv("LISTEN_PID"),
    };
    struct weir_fault fault = { 0 };
    *ret_warning = (struct weir_fault){ 0 };
    weir_systemd_init(systemd);
    if (weir_systemd_take(systemd, &environment, getpid(), listeners, &fault))
        return complain(fault.field, fault.text);
    for (size_t i = 0; i < systemd->sockets_count; i++) {
        static const char *const names[LISTENERS] = { "--resp (or WEIR_RESP)", "--http (or WEIR_HTTP)", NULL,
                                                      "--grpc (or WEIR_GRPC)" };
        const bool given[LISTENERS] = { flags->resp_given, flags->http_given, false, flags->grpc_given };
        const enum listener listener = listener_of(&systemd->sockets[i]);
        if (given[listener])
            return complain(names[listener],
                            "was given, and the service manager passes a socket for it: take one of the two away");
    }
    (void)weir_systemd_connect(systemd, &environment, getpid(), ret_warning);
    flags->systemd = systemd;
    return true;
}

void weir_cli_listens_put(const struct weir_systemd *systemd, struct weir_config *config)
{
    struct weir_address *const addresses[LISTENERS] = { &config->resp, &config->http, &config->admin, &config->grpc };
    bool taken[LISTENERS] = { false };
    for (size_t i = 0; i < systemd->sockets_count; i++) {
        const struct weir_systemd_socket *socket = &systemd->sockets[i];
        const enum listener listener = listener_of(socket);
        if (taken[listener] && socket->address.loopback)
            continue;
        *addresses[listener] = socket->address;
        taken[listener] = true;
    }
}

size_t weir_cli_listens(const struct weir_config *config, const struct weir_systemd *systemd,
                        struct weir_server_listen *ret_listens)
{
    const struct weir_server_listen own[LISTENERS] = { { .protocol = &weir_resp_protocol, .address = config->resp },
                                                       { .protocol = &weir_http_protocol, .address = config->http },
                                                       { .protocol = &weir_http_admin_protocol,
                                                         .address = config->admin },
                                                       { .protocol = &weir_grpc_protocol, .address = config->grpc } };
    size_t count = 0;
    for (unsigned i = 0; i < LISTENERS; i++) {
        size_t before = count;
        for (size_t j = 0; systemd && j < systemd->sockets_count; j++)
            if (listener_of(&systemd->sockets[j]) == (enum listener)i)
                ret_listens[count++] = (struct weir_server_listen){ .protocol = own[i].protocol,
                                                                    .address = systemd->sockets[j].address,
                                                                    .fd = systemd->sockets[j].fd };
        if (count == before)
            ret_listens[count++] = own[i];
    }
    return count;
}
