/* SPDX-License-Identifier: Apache-2.0
 *
 * gRPC: HTTP/2 without TLS, by prior knowledge, or with TLS and ALPN. It needs weir_common.grpc. */
#pragma once

#include "serve/protocol.h"

extern const struct weir_protocol weir_grpc_protocol;
