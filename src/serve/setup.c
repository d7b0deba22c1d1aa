/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the tokens, then TLS, then what sends traces, then the rules: these come last because they alone change
 * something outside, the limits in the limiter. Called by cli/serve_config.c, at the start and for each reload;
 * server.c hands a new setup to the loops and destroys the old one. */
#include "serve/setup.h"

#include <stdio.h>
#include <stdlib.h>

#include "serve/tls.h"

static int make_auth(struct weir_auth *auth, const struct weir_config *config, struct weir_config_fault *ret_fault)
{
    int error = 0;
    weir_auth_init(auth);
    for (size_t i = 0; !error && i < config->tokens_count; i++) {
        const struct weir_config_token *token = &config->tokens[i];
        error = weir_auth_add(auth, token->name, token->secret.data, token->secret.size, token->rights);
        if (error)
            snprintf(ret_fault->text, sizeof(ret_fault->text), "auth: token '%s': %s", token->name,
                     weir_error_text(error));
    }
    return error;
}

static int make_tls(struct weir_setup *setup, const struct weir_setup *before, struct weir_config_fault *ret_fault)
{
    const struct weir_config *config = setup->config;
    struct weir_fault fault = { 0 };
    if (!config->tls_cert_file)
        return 0;
    if (before && before->tls && SSL_CTX_up_ref(before->tls) == 1) {
        setup->tls = before->tls;
        return 0;
    }
    int error = weir_tls_create(config->tls_cert_file, config->tls_key_file, &setup->tls, &fault);
    if (error)
        snprintf(ret_fault->text, sizeof(ret_fault->text), "%s: %s", fault.field, fault.text);
    return error;
}

static int make_traces(struct weir_setup *setup, struct weir_config_fault *ret_fault)
{
    const struct weir_config_traces *traces = &setup->config->traces;
    struct weir_fault fault = { 0 };
    if (!traces->endpoint)
        return 0;
    int error = weir_tracer_target_create(traces->endpoint, traces->service, setup->config->node_name,
                                          traces->timeout_ns, &setup->traces, &fault);
    if (error)
        (void)snprintf(ret_fault->text, sizeof(ret_fault->text), "traces: %s %s", fault.field, fault.text);
    return error;
}

int weir_setup_create(struct weir_config *config, struct weir_limiter *limiter, const struct weir_setup *before,
                      struct weir_setup **ret_setup, struct weir_config_fault *ret_fault)
{
    struct weir_setup *setup = calloc(1, sizeof(*setup));
    if (!setup)
        return WEIR_ENOMEM;
    *ret_fault = (struct weir_config_fault){ 0 };
    setup->config = config;
    int error = make_auth(&setup->auth, config, ret_fault);
    if (!error)
        error = make_tls(setup, before, ret_fault);
    if (!error)
        error = make_traces(setup, ret_fault);
    if (!error)
        error = weir_rules_create(limiter, config, &setup->rules, ret_fault);
    if (error) {
        if (ret_fault->text[0] == '\0')
            snprintf(ret_fault->text, sizeof(ret_fault->text), "%s", weir_error_text(error));
        setup->config = NULL; /* stays the caller's */
        weir_setup_destroy(setup);
        return error;
    }
    *ret_setup = setup;
    return 0;
}

void weir_setup_destroy(struct weir_setup *setup)
{
    if (!setup)
        return;
    weir_rules_destroy(setup->rules);
    weir_auth_deinit(&setup->auth);
    SSL_CTX_free(setup->tls);
    weir_tracer_target_destroy(setup->traces);
    weir_config_destroy(setup->config);
    free(setup);
}
