/* SPDX-License-Identifier: Apache-2.0
 *
 * The version of the library and of the server. `weir version`, the answer to INFO and GET /metrics show it;
 * meson.build has the same number for pkg-config, and tests/lib/test_install.py compares the two. */
#ifndef WEIR_VERSION_H
#define WEIR_VERSION_H

/* Of the header that a program was compiled with. */
#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0
#define WEIR_VERSION_NUMBER (WEIR_VERSION_MAJOR * 10000 + WEIR_VERSION_MINOR * 100 + WEIR_VERSION_PATCH)
#define WEIR_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) && !defined(WEIR_CORE_BUILD)
#pragma GCC visibility push(default)
#endif

/* Of the library that the program runs with: the number and the text of the macros, as that was built. Any thread. */
int weir_version_number(void);
const char *weir_version(void);

#if defined(__GNUC__) && !defined(WEIR_CORE_BUILD)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
