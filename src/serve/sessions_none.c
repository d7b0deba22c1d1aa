/* SPDX-License-Identifier: Apache-2.0
 *
 * In place of sessions.c where libpq is missing: there are no sessions, and whoever configures them is told so. */
#include <string.h>

#include "serve/sessions.h"

bool weir_session_service_built(void)
{
    return false;
}

int weir_session_service_create(const struct weir_config_sessions *config, size_t loops,
                                struct weir_session_service **ret_service, struct weir_fault *ret_fault)
{
    (void)config;
    (void)loops;
    (void)ret_service;
    static const struct weir_fault fault = { .text = "sessions: this weir was built without libpq" };
    *ret_fault = fault;
    return WEIR_ENOENT;
}

void weir_session_service_destroy(struct weir_session_service *service)
{
    (void)service;
}

void weir_session_service_view(struct weir_session_service *service, struct weir_sessions_view *ret_view)
{
    (void)service;
    memset(ret_view, 0, sizeof(*ret_view));
}

bool weir_session_service_led(struct weir_session_service *service)
{
    (void)service;
    return false;
}

uint8_t *weir_session_service_servers(struct weir_session_service *service, size_t *ret_size)
{
    (void)service;
    (void)ret_size;
    return NULL;
}

const char *weir_session_service_place(void)
{
    return "";
}

int weir_session_inbox_open(struct weir_loop *loop)
{
    (void)loop;
    return 0;
}

void weir_session_inbox_drain(struct weir_loop *loop)
{
    (void)loop;
}

void weir_session_inbox_close(struct weir_loop *loop)
{
    (void)loop;
}

int weir_session_ask_create(struct weir_loop *loop, enum weir_session_call call,
                            const struct weir_session_question *question,
                            void (*then)(struct weir_session_ask *ask, void *context), void *context,
                            struct weir_session_answer *ret_answer, struct weir_session_ask **ret_ask)
{
    (void)loop;
    (void)call;
    (void)question;
    (void)then;
    (void)context;
    (void)ret_answer;
    (void)ret_ask;
    return WEIR_ENOENT;
}

bool weir_session_ask_waits(const struct weir_session_ask *ask)
{
    (void)ask;
    return false;
}

const struct weir_session_answer *weir_session_ask_answer(const struct weir_session_ask *ask)
{
    (void)ask;
    return NULL;
}

void weir_session_ask_end(struct weir_session_ask *ask)
{
    (void)ask;
}

void weir_session_ask_abandon(struct weir_session_ask *ask)
{
    (void)ask;
}
