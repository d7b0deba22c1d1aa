/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes, cut anywhere, to a connection that may do everything: the commands stay inside their memory and bounds. */
#include "serve/resp.h"
#include "serve_alone.h"

SERVE_ALONE_TARGET(weir_resp_protocol, "")
