/* SPDX-License-Identifier: Apache-2.0
 *
 * The version of the library and of the server. `weir version`, the answer to INFO and GET /metrics show it;
 * meson.build has the same number for pkg-config, and tests/lib/test_install.py compares the two. */
#ifndef WEIR_VERSION_H
#define WEIR_VERSION_H

#define WEIR_VERSION "0.1.0"

#endif
