/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_VERSION_H
#define WEIR_VERSION_H

#define WEIR_VERSION "0.1.0"

#endif
